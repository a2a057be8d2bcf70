//! `/metrics`: what the server's diagnostics have, and what is counted at the doors, in Prometheus' text format.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use hyper::StatusCode;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use serde::Deserialize;
use signalbox_protocol::app::{ServerDiagnosticsResult, method};
use signalbox_rpc::{PostOptions, Role, RpcError};

use super::respond::{Answer, Refusal, typed};
use super::site::Site;
use crate::ops_socket::Fill;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is counted at the doors.
#[derive(Debug, Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    refused: AtomicU64,
    refused_connections: AtomicU64,
    posted_bytes: AtomicU64,
    http: Arc<AtomicI64>,
    websocket: Arc<AtomicI64>,
    events: Arc<AtomicI64>,
    ops: Arc<AtomicI64>,
    /// Those of the Op/Event sockets.
    outboxes: Mutex<Vec<Fill>>,
}

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Plain HTTP.
    Http,
    /// JSON-RPC on a WebSocket.
    WebSocket,
    /// A thread's events.
    Events,
    /// The Op/Event socket.
    Ops,
}

/// One that is counted, until it is dropped.
#[derive(Debug)]
pub(super) struct InUse(Arc<AtomicI64>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused_connection(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn posted(&self, bytes: usize) {
        self.posted_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The outbox of an Op/Event socket that has begun.
    pub(super) fn outbox(&self, fill: Fill) {
        let mut outboxes = self.outboxes.lock();
        outboxes.retain(|outbox| outbox.bytes().is_some());
        outboxes.push(fill);
    }

    pub(super) fn begin(&self, kind: Use) -> InUse {
        let count = match kind {
            Use::Http => &self.http,
            Use::WebSocket => &self.websocket,
            Use::Events => &self.events,
            Use::Ops => &self.ops,
        };
        count.fetch_add(1, Ordering::Relaxed);
        InUse(Arc::clone(count))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTransport {
    transport: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

/// The figures of this moment.
///
/// # Errors
/// If the diagnostics cannot be had.
pub(super) async fn answer(site: &Site) -> Result<Answer, Refusal> {
    let internal = |error: RpcError| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    let figures = diagnostics(site).await.map_err(|error| internal(RpcError::internal(error)))?;
    let mut registry = Registry::with_prefix("signalbox");
    threads(&mut registry, &figures);
    connections(&mut registry, &figures, &site.0.counters);
    storage(&mut registry, &figures);
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|error| internal(RpcError::internal(error)))?;
    Ok(typed(StatusCode::OK, TEXT, text))
}

/// What `server/diagnostics` answers.
async fn diagnostics(site: &Site) -> Result<ServerDiagnosticsResult, String> {
    #[derive(Deserialize)]
    struct Answered {
        result: ServerDiagnosticsResult,
    }
    let request = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{}"}}"#, method::SERVER_DIAGNOSTICS);
    let options = PostOptions { role: Role::Operator, label: "metrics".into(), state: None };
    let answer = site.0.service.post(request.as_bytes(), options).await.unwrap_or_default();
    serde_json::from_slice::<Answered>(&answer)
        .map(|answered| answered.result)
        .map_err(|error| error.to_string())
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    registry.register(name, help, ConstGauge::new(signed(value)));
}

fn bytes(registry: &mut Registry, name: &str, help: &str, value: u64) {
    registry.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(signed(value)));
}

fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    registry.register(name, help, ConstCounter::new(value));
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn threads(registry: &mut Registry, figures: &ServerDiagnosticsResult) {
    let threads = &figures.threads;
    let states = Family::<ByState, Gauge>::default();
    for (state, count) in [
        ("idle", threads.idle),
        ("running", threads.running),
        ("waiting_for_approval", threads.waiting_for_approval),
        ("failed", threads.failed),
    ] {
        states.get_or_create(&ByState { state }).set(count.into());
    }
    registry.register("threads", "Threads in memory, by what they do", states);
    gauge(registry, "threads_stalled", "Threads whose facts cannot be stored", threads.stalled.into());
    gauge(registry, "threads_busy", "Threads that did not answer within a second", threads.busy.into());
    gauge(registry, "approvals_waiting", "Approvals that wait for an answer", threads.approvals.into());
    gauge(registry, "queued_prompts", "Prompts in the queues of threads", threads.queued.into());
    gauge(registry, "waiting_requests", "Requests that wait for a thread", threads.waiting_requests.into());
    gauge(registry, "agents", "Agents that run", figures.agents.len() as u64);
    let agents = figures.agents.iter().filter_map(|agent| agent.memory_bytes).sum();
    bytes(registry, "agents_memory", "Resident memory of the agents", agents);
    if let Some(memory) = figures.memory_bytes {
        bytes(registry, "memory", "Resident memory of the server", memory);
    }
    gauge(registry, "uptime_milliseconds", "Time since the server started", figures.uptime_ms);
}

fn connections(registry: &mut Registry, figures: &ServerDiagnosticsResult, counters: &Counters) {
    let now = |count: &AtomicI64| count.load(Ordering::Relaxed);
    let (websocket, events) = (now(&counters.websocket), now(&counters.events));
    let transports = Family::<ByTransport, Gauge>::default();
    for (transport, count) in [
        ("http", now(&counters.http)),
        ("websocket", websocket),
        ("events", events),
        ("ops", now(&counters.ops)),
        // Lines and Content-Length, on stdio and the unix socket.
        ("stream", i64::from(figures.total_connections) - websocket - events),
    ] {
        transports.get_or_create(&ByTransport { transport }).set(count.max(0));
    }
    registry.register("connections", "Open connections, by what is spoken on them", transports);
    let sum = |part: fn(&signalbox_protocol::app::ConnectionFigures) -> u64| {
        figures.connections.iter().map(part).sum::<u64>()
    };
    bytes(registry, "outboxes", "What waits for clients to read it", sum(|one| one.backlog_bytes));
    gauge(
        registry,
        "outboxes_frames",
        "Frames that wait for clients to read them",
        sum(|one| one.backlog_frames),
    );
    let most = figures.connections.iter().map(|one| one.backlog_bytes).max().unwrap_or(0);
    bytes(registry, "outbox_largest", "What waits for the slowest client", most);
    let fills: Vec<u64> =
        counters.outboxes.lock().iter().filter_map(Fill::bytes).map(|bytes| bytes as u64).collect();
    bytes(registry, "event_outboxes", "What waits for clients of the Op/Event socket", fills.iter().sum());
    bytes(registry, "event_ring", "Events kept for the Op/Event socket", figures.event_ring.bytes);
    gauge(
        registry,
        "event_ring_behind",
        "Events that the slowest listener has not read",
        figures.event_ring.slowest_behind,
    );
    let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
    counter(registry, "http_requests", "HTTP requests", total(&counters.requests));
    counter(registry, "http_refused", "HTTP requests that were refused", total(&counters.refused));
    counter(
        registry,
        "connections_refused",
        "Connections for which there was no place",
        total(&counters.refused_connections),
    );
    counter(registry, "posted_bytes", "Bytes of JSON-RPC that were posted", total(&counters.posted_bytes));
}

fn storage(registry: &mut Registry, figures: &ServerDiagnosticsResult) {
    let storage = &figures.storage;
    bytes(registry, "store_database", "Size of the database", storage.database_bytes);
    bytes(registry, "store_wal", "Size of its write-ahead log", storage.wal_bytes);
    bytes(registry, "store_queued", "Commits that wait to be written", storage.queued_bytes);
    counter(registry, "store_commits", "Commits of threads", storage.commits);
    counter(
        registry,
        "store_transactions",
        "Transactions, each of one or more commits",
        storage.transactions,
    );
    counter(registry, "store_flushes", "Flushes to the disk", storage.flushes);
    gauge(registry, "store_flush_last_microseconds", "Time of the last flush", storage.last_flush_us);
    gauge(
        registry,
        "store_flush_longest_microseconds",
        "Time of the longest flush",
        storage.longest_flush_us,
    );
    gauge(
        registry,
        "store_background_jobs",
        "Jobs of the store's maintenance",
        storage.background_jobs.into(),
    );
    gauge(
        registry,
        "store_index_backlog",
        "Threads that the search index has yet to read",
        storage.index_backlog.into(),
    );
}
