//! How many chunks of text a second the driver takes from an agent, and at what CPU cost.
//!
//! `cargo run -p signalbox-agents --release --example agent_throughput [CHUNKS [BYTES]]`. The program starts itself again as the agent, which writes as fast as
//! it can. For comparison the same bytes are first read from such a process by a loop that only counts line feeds.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program of its own that starts itself as the agent"
)]

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signalbox_agents::{
    AgentEvent, Environment, LaunchSpec, Limits, OpenSession, PromptBlock, PromptRequest, Quirks, Supervisor,
    Update, start,
};
use signalbox_facts::Provider;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("agent") => agent(number(1, 1), number(2, 1)),
        Some("flood") => flood(number(1, 1), number(2, 1)),
        _ => measure(number(0, 500_000), number(1, 8)).await,
    }
}

/// CPU time of this process, all threads.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn measure(chunks: usize, bytes: usize) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let (count, size) = (chunks.to_string(), bytes.to_string());

    let mut child = Command::new(&program).args(["flood", &count, &size]).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdout.take().ok_or("a pipe")?;
    let (begin, used) = (Instant::now(), cpu());
    let mut buffer = vec![0; 64 << 10];
    let mut lines = 0;
    loop {
        match pipe.read(&mut buffer)? {
            0 => break,
            n => lines += buffer.get(..n).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count(),
        }
    }
    report("raw pipe", lines, begin.elapsed(), cpu() - used);
    child.wait()?;

    let spec = LaunchSpec {
        provider: Provider::new("throughput"),
        command: program.to_string_lossy().into_owned(),
        args: vec!["agent".into(), count, size],
        env: Environment::default(),
        cwd: PathBuf::from("/"),
        ask_modes: vec![],
        edit_modes: vec![],
        yolo_modes: vec![],
        protocol: 1,
        quirks: Quirks::NONE,
        install_hint: None,
        login_hint: None,
        downloads: false,
    };
    let open = OpenSession { cwd: PathBuf::from("/"), ..OpenSession::default() };
    let supervisor = Supervisor::default();
    let (agent, mut events) = start(spec, open, Limits::default(), &supervisor);
    let blocks = vec![PromptBlock::Text("go".into())];
    let (mut begin, mut used) = (Instant::now(), cpu());
    let (mut text, mut seen, mut batches) = (0, 0_usize, 0_usize);
    'all: while let Some(batch) = events.recv().await {
        batches += 1;
        for event in batch {
            match event {
                AgentEvent::Ready(_) => {
                    (begin, used) = (Instant::now(), cpu());
                    agent.prompt(PromptRequest { blocks: blocks.clone(), ..PromptRequest::default() })?;
                }
                AgentEvent::Update(Update::Message(chunk)) => {
                    text += chunk.text.len();
                    seen += 1;
                }
                AgentEvent::PromptEnded(_) => break 'all,
                AgentEvent::StartFailed(failure) | AgentEvent::Exited(failure) => {
                    return Err(failure.message.into());
                }
                _ => {}
            }
        }
    }
    report("driver", chunks, begin.elapsed(), cpu() - used);
    println!("  {seen} events in {batches} batches, {text} bytes of text ({} expected)", chunks * bytes);
    agent.stop();
    while events.recv().await.is_some() {}

    supervisor.finish().await;
    Ok(())
}

fn report(what: &str, lines: usize, wall: Duration, cpu: Duration) {
    let per_second = lines as f64 / wall.as_secs_f64();
    let micros = cpu.as_secs_f64() * 1e6 / lines as f64;
    println!("{what}: {lines} chunks in {wall:.2?}: {per_second:.0}/s, {micros:.2} µs CPU each");
}

fn flood(chunks: usize, bytes: usize) -> Result<(), Failure> {
    let update = json!({"sessionUpdate":"agent_message_chunk","messageId":"msg_0123456789abcdef","content":{"type":"text","text":"x".repeat(bytes)}});
    let params = json!({"sessionId":"0198f0c2-7d4e-7c3a-9b1e-3f6a5d2c1b0a","update":update});
    let line = json!({"jsonrpc":"2.0","method":"session/update","params":params}).to_string() + "\n";
    let block = line.repeat(256);
    let mut out = std::io::stdout().lock();
    for _ in 0..chunks / 256 {
        out.write_all(block.as_bytes())?;
    }
    out.write_all(line.repeat(chunks % 256).as_bytes())?;
    out.flush()?;
    Ok(())
}

fn agent(chunks: usize, bytes: usize) -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let result = match request["method"].as_str() {
            Some("initialize") => json!({"protocolVersion":1}),
            Some("session/new") => json!({"sessionId":"0198f0c2-7d4e-7c3a-9b1e-3f6a5d2c1b0a"}),
            Some("session/prompt") => {
                flood(chunks, bytes)?;
                json!({"stopReason":"end_turn"})
            }
            _ => continue,
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({"jsonrpc":"2.0","id":request["id"],"result":result}))?;
        out.flush()?;
    }
    Ok(())
}
