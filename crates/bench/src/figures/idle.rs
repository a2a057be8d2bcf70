//! What WebSockets on which nothing happens hold, beside jsonrpsee's own server.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Figure;
use crate::child::Result;
use crate::connection::Connection;
use crate::servers::Server;
use crate::stats::{rss_kib, time};

const FEW: usize = 200;
const MANY: usize = 1_000;
/// Both ends of each connection, with room for everything else.
const FILES: u64 = 8_192;

/// Memory of each of 200 and of 1,000 WebSockets that have initialized, and how long it takes until all have.
pub(crate) fn websockets(bin: &Path) -> Result<Vec<Figure>> {
    raise_file_limit()?;
    let (server, address) = Server::tcp(bin)?;
    let ours = grown(&server, address)?;
    drop(server);
    let (server, address) = Server::jsonrpsee()?;
    let theirs = grown(&server, address)?;
    let figure = |name, measured, goal, reference| Figure { name, measured, goal, reference };
    let reference = |text: String| format!("jsonrpsee {text}");
    Ok(vec![
        figure(
            "RSS per idle WebSocket of 200",
            kib(ours.each_of_few),
            "≤ 48 KiB",
            reference(kib(theirs.each_of_few)),
        ),
        figure(
            "RSS per idle WebSocket of 1,000",
            kib(ours.each_of_many),
            "≤ 48 KiB",
            reference(kib(theirs.each_of_many)),
        ),
        figure("1,000 WebSockets initialized one by one", time(ours.took), "-", reference(time(theirs.took))),
    ])
}

fn kib(bytes: u64) -> String {
    format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024)
}

/// Bytes.
struct Grown {
    each_of_few: u64,
    each_of_many: u64,
    took: Duration,
}

fn grown(server: &Server, address: SocketAddr) -> Result<Grown> {
    let rss = || -> Result<u64> { Ok(rss_kib(server.pid()).ok_or("no RSS")? * 1024) };
    // What the first connections make the server load stays.
    let warm = (0..4).map(|_| connected(address)).collect::<Result<Vec<_>>>()?;
    let before = rss()?;
    let begun = Instant::now();
    let mut connections = Vec::with_capacity(MANY);
    for _ in 0..FEW {
        connections.push(connected(address)?);
    }
    let mut took = begun.elapsed();
    let each_of_few = rss()?.saturating_sub(before) / FEW as u64;
    let begun = Instant::now();
    for _ in FEW..MANY {
        connections.push(connected(address)?);
    }
    took += begun.elapsed();
    let each_of_many = rss()?.saturating_sub(before) / MANY as u64;
    // All of them are still there.
    for connection in connections.iter_mut().chain(Vec::from_iter(warm).iter_mut()) {
        connection.call("thread/loaded/list", &serde_json::json!({}))?;
    }
    Ok(Grown { each_of_few, each_of_many, took })
}

fn connected(address: SocketAddr) -> Result<Connection> {
    let mut connection = Connection::websocket(address, 4 << 10)?;
    connection.initialize()?;
    Ok(connection)
}

/// The servers that are started behind it have the same.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })?;
    }
    Ok(())
}
