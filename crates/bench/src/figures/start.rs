//! How fast a server is there, and how much memory it takes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Figure;
use crate::child::{Lines, Result};
use crate::stats::{percentile, rss_kib, time};

const STARTS: usize = 21;
const THREADS: usize = 100;

/// From starting the process to the result of `initialize`, in a home that exists.
pub(crate) fn to_initialize(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut starts = Vec::new();
    let mut copies = Vec::new();
    // The first one makes the database and is told apart.
    let fresh = one_start(bin, home.path())?;
    for _ in 0..STARTS {
        starts.push(one_start(bin, home.path())?);
        let begun = Instant::now();
        let mut copier = Lines::copier()?;
        copier.send(&json!({"id": 1}))?;
        copier.receive()?;
        copies.push(begun.elapsed());
        copier.end()?;
    }
    Ok(vec![
        Figure {
            name: "start to initialize, standalone, p50 / p95",
            measured: format!(
                "{} / {}",
                time(percentile(&mut starts, 0.5)),
                time(percentile(&mut starts, 0.95))
            ),
            goal: "≤ 15 ms",
            reference: format!("copier {}", time(percentile(&mut copies, 0.5))),
        },
        Figure {
            name: "the same in an empty home",
            measured: time(fresh),
            goal: "-",
            reference: String::new(),
        },
    ])
}

fn one_start(bin: &Path, home: &Path) -> Result<Duration> {
    let begun = Instant::now();
    let mut server = Lines::server(bin, home)?;
    server.initialize()?;
    let took = begun.elapsed();
    server.end()?;
    Ok(took)
}

/// Resident memory of an idle server, and what a loaded thread without an agent adds.
pub(crate) fn idle_memory(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let mut copier = Lines::copier()?;
    copier.send(&json!({"id": 1}))?;
    copier.receive()?;
    let raw = rss_kib(copier.pid()).unwrap_or_default();
    copier.end()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let idle = rss_kib(server.pid()).ok_or("no RSS")?;
    server.thread(home.path())?;
    let before = rss_kib(server.pid()).ok_or("no RSS")?;
    for _ in 0..THREADS {
        server.thread(home.path())?;
    }
    let after = rss_kib(server.pid()).ok_or("no RSS")?;
    server.end()?;
    let each = after.saturating_sub(before) / THREADS as u64;
    Ok(vec![
        Figure {
            name: "RSS of an idle server",
            measured: format!("{}.{} MiB", idle / 1024, idle % 1024 * 10 / 1024),
            goal: "≤ 12 MiB",
            reference: format!("copier {}.{} MiB", raw / 1024, raw % 1024 * 10 / 1024),
        },
        Figure {
            name: "RSS per idle loaded thread without agent",
            measured: format!("{each} KiB"),
            goal: "≤ 64 KiB",
            reference: String::new(),
        },
    ])
}
