//! What a request and a notification cost over each transport, beside jsonrpsee's own server.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Figure;
use super::streaming::straight_from_the_agent;
use crate::child::{Lines, Result};
use crate::connection::Connection;
use crate::servers::{Server, Shared};
use crate::stats::{both, rate};

const ROUNDS: usize = 5;
const SEQUENTIAL: usize = 1_500;
const IN_FLIGHT: usize = 64;
const PIPELINED: usize = 40_000;
const POSTED: usize = 12_000;
const CHUNKS: usize = 50_000;
const CHUNK_BYTES: usize = 100;
/// Items of a turn, of which each has a notification when it begins, when it is completed, and for its text.
const ITEMS: usize = 4_000;
const BUFFER_BYTES: usize = 256 << 10;

/// One way to a server, and what it has taken so far. HTTP has a connection for each request in flight.
struct Door {
    connections: Vec<Connection>,
    latencies: Vec<Duration>,
    /// Time of one request in the fastest round with many in flight.
    fastest: Duration,
}

impl Door {
    fn new(connections: Vec<Connection>) -> Self {
        Self { connections, latencies: Vec::new(), fastest: Duration::MAX }
    }

    fn one(mut connection: Connection) -> Result<Self> {
        connection.initialize()?;
        Ok(Self::new(vec![connection]))
    }

    fn posts(address: std::net::SocketAddr) -> Result<Self> {
        Ok(Self::new((0..IN_FLIGHT).map(|_| Connection::post(address)).collect::<Result<_>>()?))
    }

    fn round(&mut self) -> Result<()> {
        let first = self.connections.first_mut().ok_or("no connection")?;
        for id in 0..SEQUENTIAL {
            let begun = Instant::now();
            first.put(request(id).as_bytes())?;
            first.flush()?;
            first.take()?;
            self.latencies.push(begun.elapsed());
        }
        let (count, took) =
            if self.connections.len() == 1 { self.pipelined()? } else { self.side_by_side()? };
        self.fastest = self.fastest.min(took / u32::try_from(count)?);
        Ok(())
    }

    /// 64 in flight on one connection: whatever has been answered is replaced at once.
    fn pipelined(&mut self) -> Result<(usize, Duration)> {
        let connection = self.connections.first_mut().ok_or("no connection")?;
        let begun = Instant::now();
        let (mut sent, mut received) = (0, 0);
        while received < PIPELINED {
            while sent < PIPELINED && sent - received < IN_FLIGHT {
                connection.put(request(sent).as_bytes())?;
                sent += 1;
            }
            connection.flush()?;
            loop {
                connection.take()?;
                received += 1;
                if received == sent || !connection.has_more() {
                    break;
                }
            }
        }
        Ok((PIPELINED, begun.elapsed()))
    }

    /// One in flight on each of 64 connections.
    fn side_by_side(&mut self) -> Result<(usize, Duration)> {
        let begun = Instant::now();
        for id in 0..POSTED / IN_FLIGHT {
            for connection in &mut self.connections {
                connection.put(request(id).as_bytes())?;
                connection.flush()?;
            }
            for connection in &mut self.connections {
                connection.take()?;
            }
        }
        Ok((POSTED / IN_FLIGHT * IN_FLIGHT, begun.elapsed()))
    }

    fn latency(&mut self) -> String {
        both(&mut self.latencies)
    }

    fn rate(&self) -> String {
        rate(1, self.fastest)
    }
}

fn request(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"thread/loaded/list\"}}")
}

/// A cheap request over each transport, in rounds that take turns, so that what else runs meets all of them.
pub(crate) fn requests(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let socket = home.path().join("bench.sock");
    let _unix = Server::unix(bin, home.path(), &socket)?;
    let (_tcp, address) = Server::tcp(bin)?;
    let (_reference, theirs) = Server::jsonrpsee()?;
    let shared = Shared::new(bin)?;
    let alone = tempfile::tempdir()?;
    let (stdio_child, stdio) = Lines::server(bin, alone.path())?.into_connection();
    let (bridge_child, bridge) = shared.bridge()?.into_connection();
    let mut doors = [
        Door::one(stdio)?,
        Door::one(bridge)?,
        Door::one(Connection::unix(&socket)?)?,
        Door::one(Connection::websocket(address, BUFFER_BYTES)?)?,
        Door::one(Connection::websocket(theirs, BUFFER_BYTES)?)?,
        Door::posts(address)?,
        Door::posts(theirs)?,
    ];
    // The first round warms up.
    for door in &mut doors {
        door.round()?;
        door.latencies.clear();
        door.fastest = Duration::MAX;
    }
    for _ in 0..ROUNDS {
        for door in &mut doors {
            door.round()?;
        }
    }
    let latencies = doors.each_mut().map(Door::latency);
    let rates = doors.each_ref().map(Door::rate);
    drop(doors);
    ended(stdio_child)?;
    ended(bridge_child)?;
    let [stdio, bridge, unix, ours, theirs, our_post, their_post] = latencies;
    let figure = |name, measured, reference| Figure { name, measured, goal: "-", reference };
    let mut figures = vec![
        figure("cheap request over a bridge, p50 / p99", bridge, format!("standalone {stdio}")),
        figure("cheap request on a unix socket, p50 / p99", unix, format!("standalone stdio {stdio}")),
        figure("cheap request on a WebSocket, p50 / p99", ours, format!("jsonrpsee {theirs}")),
        figure("cheap request by POST, p50 / p99", our_post, format!("jsonrpsee {their_post}")),
    ];
    let [stdio, bridge, unix, ours, theirs, our_post, their_post] = rates;
    figures.extend([
        figure("64 in flight over a bridge, best of 5", bridge, format!("standalone {stdio}")),
        figure("64 in flight on a unix socket, best of 5", unix, format!("standalone stdio {stdio}")),
        figure("64 in flight on a WebSocket, best of 5", ours, format!("jsonrpsee {theirs}")),
        figure("64 POSTs side by side, best of 5", our_post, format!("jsonrpsee {their_post}")),
    ]);
    Ok(figures)
}

/// Waits for the end of a child whose pipes are closed.
fn ended(mut child: Child) -> Result<()> {
    child.wait()?;
    Ok(())
}

/// 50,000 chunks of 100 bytes to one client, as fast as the agent writes them, over each transport.
pub(crate) fn notifications(bin: &Path) -> Result<Vec<Figure>> {
    let (agent, _) = straight_from_the_agent(bin, CHUNKS, CHUNK_BYTES)?;
    let agent = format!("agent alone {}", rate(CHUNKS, agent));
    let alone = tempfile::tempdir()?;
    let (child, mut connection) = Lines::server(bin, alone.path())?.into_connection();
    connection.initialize()?;
    let stdio = streamed(&mut connection)?;
    drop(connection);
    ended(child)?;
    let shared = Shared::new(bin)?;
    let (child, mut connection) = shared.bridge()?.into_connection();
    connection.initialize()?;
    let bridge = streamed(&mut connection)?;
    drop(connection);
    ended(child)?;
    let home = tempfile::tempdir()?;
    let socket = home.path().join("bench.sock");
    let server = Server::unix(bin, home.path(), &socket)?;
    let mut connection = Connection::unix(&socket)?;
    connection.initialize()?;
    let unix = streamed(&mut connection)?;
    drop((connection, server));
    let (server, address) = Server::tcp(bin)?;
    let mut connection = Connection::websocket(address, BUFFER_BYTES)?;
    connection.initialize()?;
    let websocket = streamed(&mut connection)?;
    drop((connection, server));
    let (_server, address) = Server::jsonrpsee()?;
    let mut connection = Connection::websocket(address, BUFFER_BYTES)?;
    let begun = Instant::now();
    connection.send("stream", &json!([CHUNKS, CHUNK_BYTES]))?;
    let frames = connection.until_end()?;
    let pushed = format!("jsonrpsee pushes {} to {}", rate(CHUNKS, begun.elapsed()), frames - 1);
    let figure = |name, measured, goal, reference| Figure { name, measured, goal, reference };
    let goal = "≥ 100,000/s";
    Ok(vec![
        figure("50,000 chunks of 100 bytes on stdio", stdio.0, goal, agent.clone()),
        figure("the same over a bridge", bridge.0, goal, agent.clone()),
        figure("the same on a unix socket", unix.0, goal, agent),
        figure("the same on a WebSocket", websocket.0, goal, pushed.clone()),
        figure("notifications of 4,000 items on stdio", stdio.1, "-", String::new()),
        figure("the same over a bridge", bridge.1, "-", String::new()),
        figure("the same on a unix socket", unix.1, "-", String::new()),
        figure("the same on a WebSocket", websocket.1, "-", pushed),
    ])
}

/// Chunks a second and in how many frames they came; and notifications a second.
fn streamed(connection: &mut Connection) -> Result<(String, String)> {
    let folder = tempfile::tempdir()?;
    let thread = connection.thread(folder.path())?;
    connection.turn(&thread, "say warm")?;
    let begun = Instant::now();
    let prompt = format!("stream {CHUNKS} {CHUNK_BYTES} 0");
    connection
        .send("turn/start", &json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]}))?;
    let (mut text, mut frames) = (0, 0);
    loop {
        let line = connection.take()?;
        if line.contains("\"item/agentMessage/delta\"") {
            let frame: Value = serde_json::from_str(line)?;
            text += frame["params"]["delta"].as_str().unwrap_or_default().len();
            frames += 1;
        } else if line.contains("\"turn/completed\"") {
            break;
        }
    }
    let took = begun.elapsed();
    let complete = if text == CHUNKS * CHUNK_BYTES { "" } else { ", TEXT INCOMPLETE" };
    Ok((format!("{} in {frames} frames{complete}", rate(CHUNKS, took)), told(connection, &thread)?))
}

/// Notifications a second that cannot merge: a turn of many small items.
fn told(connection: &mut Connection, thread: &str) -> Result<String> {
    let script = "say One of many sentences.\nthink One of many thoughts.\n".repeat(ITEMS / 2);
    let begun = Instant::now();
    let frames = connection.turn(thread, &script)?;
    Ok(format!("{} of {frames}", rate(frames, begun.elapsed())))
}

/// A bridge: how soon it has the answer to `initialize`, with a server and without one, and what it holds.
pub(crate) fn bridge(bin: &Path) -> Result<Vec<Figure>> {
    let shared = Shared::new(bin)?;
    // Makes the database.
    shared.bridge()?.end()?;
    let (mut joining, mut starting, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..15 {
        shared.stop()?;
        starting.push(greeted(&shared)?);
    }
    for _ in 0..31 {
        joining.push(greeted(&shared)?);
        let begun = Instant::now();
        let mut program = Command::new(bin).arg("--version").stdout(std::process::Stdio::null()).spawn()?;
        program.wait()?;
        raw.push(begun.elapsed());
    }
    shared.stop()?;
    let mut bridge = shared.bridge()?;
    bridge.initialize()?;
    let mib = |pid| -> Result<String> {
        let kib = crate::stats::rss_kib(pid).ok_or("no RSS")?;
        Ok(format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024))
    };
    let (bridge_rss, server_rss) = (mib(bridge.pid())?, mib(shared.server_pid()?)?);
    bridge.end()?;
    let version = format!("signalbox --version {}", both(&mut raw));
    let figure = |name, measured, goal, reference| Figure { name, measured, goal, reference };
    Ok(vec![
        figure("bridge to a running server, p50 / p99", both(&mut joining), "≤ 10 ms", version.clone()),
        figure("bridge that starts the server, p50 / p99", both(&mut starting), "≤ 40 ms", version),
        figure("RSS of an idle bridge", bridge_rss, "≤ 5 MiB", String::new()),
        figure("RSS of an idle server behind it", server_rss, "≤ 12 MiB", String::new()),
    ])
}

fn greeted(shared: &Shared) -> Result<Duration> {
    let begun = Instant::now();
    let mut bridge = shared.bridge()?;
    bridge.initialize()?;
    let took = begun.elapsed();
    bridge.end()?;
    Ok(took)
}
