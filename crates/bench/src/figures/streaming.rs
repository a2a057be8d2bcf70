//! What a client sees of an agent that streams: rate, cost, delay.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Figure;
use crate::child::{Lines, Result};
use crate::stats::{cpu, percentile, rate as rate_of, time};

const CHUNKS: usize = 50_000;
const STAMPS: usize = 2_000;

/// 50,000 chunks of 8 bytes as fast as the agent writes them; and small turns.
pub(crate) fn rate(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let thread = server.thread(home.path())?;
    server.turn(&thread, "say warm")?;
    let cpu_before = cpu(server.pid()).ok_or("no CPU time")?;
    let begun = Instant::now();
    server.start_turn(&thread, &format!("stream {CHUNKS} 8 0"))?;
    let (mut text, mut frames) = (0, 0);
    loop {
        let line = server.raw()?;
        if line.contains("\"item/agentMessage/delta\"") {
            let frame: Value = serde_json::from_str(line)?;
            text += frame["params"]["delta"].as_str().unwrap_or_default().len();
            frames += 1;
        } else if line.contains("\"turn/completed\"") {
            break;
        }
    }
    let took = begun.elapsed();
    let spent = cpu(server.pid()).ok_or("no CPU time")? - cpu_before;
    let mut small = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        server.turn(&thread, "stream 5 8 0")?;
        small.push(begun.elapsed());
    }
    server.end()?;
    let (raw, raw_small) = straight_from_the_agent(bin, CHUNKS, 8)?;
    let each = spent / u32::try_from(CHUNKS)?;
    let complete = if text == CHUNKS * 8 { "" } else { ", TEXT INCOMPLETE" };
    Ok(vec![
        Figure {
            name: "50,000 chunks of 8 bytes to one client",
            measured: format!("{} in {frames} frames{complete}", rate_of(CHUNKS, took)),
            goal: "≥ 100,000/s",
            reference: format!("agent alone {}", rate_of(CHUNKS, raw)),
        },
        Figure {
            name: "server CPU per chunk",
            measured: time(each),
            goal: "≤ 10 µs",
            reference: String::new(),
        },
        Figure {
            name: "small turn of 5 chunks, p50 / p99",
            measured: format!(
                "{} / {}",
                time(percentile(&mut small, 0.5)),
                time(percentile(&mut small, 0.99))
            ),
            goal: "server's share ≤ 8 ms",
            reference: format!("agent alone {}", time(raw_small)),
        },
    ])
}

/// The same stream read from the agent's own pipe, and its small turn.
pub(super) fn straight_from_the_agent(
    bin: &Path,
    chunks: usize,
    bytes: usize,
) -> Result<(Duration, Duration)> {
    let (mut agent, session) = agent(bin)?;
    let begun = Instant::now();
    prompt(&mut agent, &session, &format!("stream {chunks} {bytes} 0"))?;
    let streamed = begun.elapsed();
    let mut small = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        prompt(&mut agent, &session, "stream 5 8 0")?;
        small.push(begun.elapsed());
    }
    agent.end()?;
    Ok((streamed, percentile(&mut small, 0.5)))
}

fn agent(bin: &Path) -> Result<(Lines, String)> {
    let mut agent = Lines::start(Command::new(bin).arg("rehearsal"))?;
    agent.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
    let opened = agent.call("session/new", json!({"cwd": "/", "mcpServers": []}))?;
    let session = opened["sessionId"].as_str().ok_or("no session")?.to_owned();
    Ok((agent, session))
}

fn prompt(agent: &mut Lines, session: &str, text: &str) -> Result<()> {
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    agent.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}))?;
    while !agent.raw()?.contains("\"stopReason\"") {}
    Ok(())
}

/// From the agent's making of a chunk to the client's reading of it, 500 a second.
pub(crate) fn delay(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let thread = server.thread(home.path())?;
    server.turn(&thread, "say warm")?;
    server.start_turn(&thread, &format!("stamp {STAMPS} 2"))?;
    let mut delays = Vec::new();
    loop {
        let line = server.raw()?;
        if line.contains("\"item/agentMessage/delta\"") {
            let now = now_micros();
            let frame: Value = serde_json::from_str(line)?;
            collect(frame["params"]["delta"].as_str().unwrap_or_default(), now, &mut delays);
        } else if line.contains("\"turn/completed\"") {
            break;
        }
    }
    server.end()?;
    let (mut agent, session) = agent(bin)?;
    let params =
        json!({"sessionId": session, "prompt": [{"type": "text", "text": format!("stamp {STAMPS} 2")}]});
    agent.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}))?;
    let mut raw = Vec::new();
    loop {
        let line = agent.raw()?;
        let now = now_micros();
        if line.contains("\"stopReason\"") {
            break;
        }
        let frame: Value = serde_json::from_str(line)?;
        collect(frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default(), now, &mut raw);
    }
    agent.end()?;
    Ok(vec![Figure {
        name: "chunk from agent to client at 500/s, p50 / p99",
        measured: format!("{} / {}", time(percentile(&mut delays, 0.5)), time(percentile(&mut delays, 0.99))),
        goal: "≤ 0.4 / ≤ 3 ms",
        reference: format!(
            "agent alone {} / {}",
            time(percentile(&mut raw, 0.5)),
            time(percentile(&mut raw, 0.99))
        ),
    }])
}

/// Each stamp of a delta is a chunk: the time of its making in microseconds since 1970.
fn collect(delta: &str, now: u64, delays: &mut Vec<Duration>) {
    for stamp in delta.split_whitespace().filter_map(|stamp| stamp.parse::<u64>().ok()) {
        delays.push(Duration::from_micros(now.saturating_sub(stamp)));
    }
}

pub(super) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
