//! Cheap requests: latency one at a time, rate with many in flight, a burst without waiting.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Figure;
use crate::child::{Lines, Result};
use crate::stats::{percentile, rate, rss_kib, time};

const SEQUENTIAL: usize = 5_000;
const IN_FLIGHT: usize = 64;
const PIPELINED: usize = 200_000;
const BURST: usize = 20_000;

/// `thread/loaded/list` on stdio: one at a time, then 64 in flight.
pub(crate) fn latency_and_rate(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let mut copier = Lines::copier()?;
    sequential(&mut server, 500)?;
    let (mut ours, mut raw) = (sequential(&mut server, SEQUENTIAL)?, sequential(&mut copier, SEQUENTIAL)?);
    let (fast, raw_fast) = (in_flight(&mut server)?, in_flight(&mut copier)?);
    server.end()?;
    copier.end()?;
    Ok(vec![
        Figure {
            name: "cheap request on stdio, p50 / p99",
            measured: format!("{} / {}", time(percentile(&mut ours, 0.5)), time(percentile(&mut ours, 0.99))),
            goal: "p50 ≤ 40 µs",
            reference: format!(
                "copier {} / {}",
                time(percentile(&mut raw, 0.5)),
                time(percentile(&mut raw, 0.99))
            ),
        },
        Figure {
            name: "cheap requests, 64 in flight",
            measured: rate(PIPELINED, fast),
            goal: "≥ 100,000/s",
            reference: format!("copier {}", rate(PIPELINED, raw_fast)),
        },
    ])
}

fn request(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"thread/loaded/list\",\"params\":{{}}}}\n")
}

fn sequential(lines: &mut Lines, count: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    for id in 0..count {
        let begun = Instant::now();
        lines.input.write_all(request(id).as_bytes())?;
        lines.input.flush()?;
        lines.raw()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn in_flight(lines: &mut Lines) -> Result<Duration> {
    let begun = Instant::now();
    let mut sent = 0;
    let mut received = 0;
    let mut line = Vec::new();
    while received < PIPELINED {
        while sent < PIPELINED && sent - received < IN_FLIGHT {
            lines.input.write_all(request(sent).as_bytes())?;
            sent += 1;
        }
        lines.input.flush()?;
        // Takes what is there, at least one answer.
        loop {
            line.clear();
            if lines.output.read_until(b'\n', &mut line)? == 0 {
                return Err("the process has left".into());
            }
            received += 1;
            if received == sent || lines.output.buffer().is_empty() {
                break;
            }
        }
    }
    Ok(begun.elapsed())
}

/// 20,000 requests written without waiting: how many get a result, and what memory that takes.
pub(crate) fn burst(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let begun = Instant::now();
    // A thread of its own writes, because the pipe fills up.
    let all: String = (0..BURST).map(request).collect();
    let pid = server.pid();
    let (results, peak) = std::thread::scope(|scope| -> Result<(usize, u64)> {
        let Lines { input, output, .. } = &mut server;
        let writer = scope.spawn(move || input.write_all(all.as_bytes()).and_then(|()| input.flush()));
        let (mut results, mut peak) = (0, 0);
        let mut line = String::new();
        for answer in 0..BURST {
            line.clear();
            output.read_line(&mut line)?;
            results += usize::from(line.contains("\"result\""));
            if answer % 500 == 0 {
                peak = peak.max(rss_kib(pid).unwrap_or_default());
            }
        }
        writer.join().map_err(|_| "the writer panicked")??;
        Ok((results, peak))
    })?;
    let took = begun.elapsed();
    // It is still there and answers.
    server.call("thread/loaded/list", json!({}))?;
    server.end()?;
    Ok(vec![Figure {
        name: "burst of 20,000 requests without waiting",
        measured: format!("{results} results, {} MiB, {}", peak / 1024, time(took)),
        goal: "all, ≤ 64 MiB",
        reference: String::new(),
    }])
}
