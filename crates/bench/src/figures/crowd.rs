//! A hundred sessions whose agents all stream at once: that all of them finish, and what it costs.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Figure;
use crate::child::{Lines, Result};
use crate::stats::{cpu, rate as rate_of, rss_kib, time};

const SESSIONS: usize = 100;
const CHUNKS: usize = 2_000;
const CHUNK_BYTES: usize = 20;

/// 100 sessions of the built-in agent: started at once, then streaming at once to one client.
pub(crate) fn hundred(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let idle_kib = rss_kib(server.pid()).ok_or("no RSS")?;
    let threads = (0..SESSIONS).map(|_| server.thread(home.path())).collect::<Result<Vec<_>>>()?;
    let started = round(&mut server, &threads, "say warm")?;
    let streamed = round(&mut server, &threads, &format!("stream {CHUNKS} {CHUNK_BYTES} 0"))?;
    let server_kib = rss_kib(server.pid()).ok_or("no RSS")?;
    let children = children_of(server.pid())?;
    let agents_kib: u64 = children.iter().filter_map(|pid| share_kib(*pid)).sum();
    server.end()?;
    let wanted = SESSIONS * CHUNKS * CHUNK_BYTES;
    let complete = if streamed.text == wanted { "" } else { ", TEXT INCOMPLETE" };
    let figure = |name, measured: String| Figure { name, measured, goal: "", reference: String::new() };
    Ok(vec![
        Figure {
            reference: format!("all processes {} of CPU", time(started.all_cpu)),
            ..figure("100 agents started at once, with a first turn", time(started.took))
        },
        Figure {
            reference: format!("{} MiB before", idle_kib / 1024),
            ..figure("RSS of the server, 100 agents having streamed", format!("{} MiB", server_kib / 1024))
        },
        figure(
            "memory of its agents and their guard (PSS)",
            format!("{} MiB in {} processes", agents_kib / 1024, children.len()),
        ),
        Figure {
            goal: "all finish",
            reference: format!("{} of {SESSIONS} turns completed", streamed.completed),
            ..figure(
                "100 sessions streaming 2,000 chunks each at once",
                format!("{} in {}{complete}", rate_of(SESSIONS * CHUNKS, streamed.took), time(streamed.took)),
            )
        },
        Figure {
            reference: format!("with its agents {}", time(streamed.all_cpu)),
            ..figure("server CPU of that", time(streamed.server_cpu))
        },
    ])
}

/// A turn of every session, all at once.
struct Round {
    took: Duration,
    server_cpu: Duration,
    all_cpu: Duration,
    completed: usize,
    text: usize,
}

fn round(server: &mut Lines, threads: &[String], prompt: &str) -> Result<Round> {
    let (server_before, all_before) = (cpu(server.pid()).unwrap_or_default(), all_cpu(server.pid())?);
    let begun = Instant::now();
    for thread in threads {
        let input = json!([{"type": "text", "text": prompt}]);
        server.send(&json!({
            "jsonrpc": "2.0", "id": thread, "method": "turn/start", "params": {"threadId": thread, "input": input},
        }))?;
    }
    let (mut ended, mut completed, mut text) = (0, 0, 0);
    while ended < threads.len() {
        let line = server.raw()?;
        if line.contains("\"item/agentMessage/delta\"") {
            let frame: Value = serde_json::from_str(line)?;
            text += frame["params"]["delta"].as_str().unwrap_or_default().len();
        } else if line.contains("\"turn/completed\"") {
            let frame: Value = serde_json::from_str(line)?;
            ended += 1;
            completed += usize::from(frame["params"]["turn"]["status"] == "completed");
        } else if line.contains("\"error\":{\"code\"") {
            return Err(line.to_owned().into());
        }
    }
    Ok(Round {
        took: begun.elapsed(),
        server_cpu: cpu(server.pid()).unwrap_or_default().saturating_sub(server_before),
        all_cpu: all_cpu(server.pid())?.saturating_sub(all_before),
        completed,
        text,
    })
}

fn all_cpu(server: u32) -> Result<Duration> {
    let own = cpu(server).unwrap_or_default();
    Ok(own + children_of(server)?.into_iter().filter_map(cpu).sum::<Duration>())
}

/// Memory of a process in KiB, where what several processes share counts in parts: RSS would count it for each.
fn share_kib(pid: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = maps.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn children_of(parent: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        if fields.split_whitespace().nth(1).and_then(|id| id.parse().ok()) == Some(parent) {
            found.push(pid);
        }
    }
    Ok(found)
}
