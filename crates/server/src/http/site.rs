//! What all HTTP listeners of a server share: the service behind them, who may come in, and the bounds.

use std::sync::Arc;
use std::time::Duration;

use signalbox_app_server::AppServer;
use signalbox_rpc::{ConnOptions, KeepAlive, Service};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caps::Caps;
use super::metrics::Counters;
use crate::access::Access;
use crate::ops_socket::OpsLimits;

/// Bounds of all listeners together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address of another machine.
    pub connections_per_address: usize,
    /// WebSockets and event streams at a time of one device.
    pub streams_per_device: usize,
    /// How long the head of a request may take, and how long a connection may be idle between two.
    pub head_time: Duration,
    /// Lines of a head.
    pub headers: usize,
    /// Bytes of a head.
    pub head_bytes: usize,
    /// How long nothing of a body may come.
    pub body_pause: Duration,
    /// How long a body may take.
    pub body_time: Duration,
    /// Bytes of one body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are held.
    pub bodies_bytes: usize,
    /// How long a message on a WebSocket may take to come whole, besides a second for each 64 KiB of it.
    pub message_time: Duration,
    /// Bytes that are held of messages which have not come whole, on all WebSockets together.
    pub messages_bytes: usize,
    /// How long what is posted may take; every method answers sooner by itself unless an agent or a disk hangs.
    pub call_time: Duration,
    /// How long a write may make no progress.
    pub write_pause: Duration,
    /// How often something is sent on a connection on which nothing happens.
    pub heartbeat: Duration,
    /// When a WebSocket of JSON-RPC counts as half open.
    pub keep_alive: KeepAlive,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 256,
            streams_per_device: 64,
            head_time: Duration::from_secs(20),
            headers: 64,
            head_bytes: 32 * 1024,
            body_pause: Duration::from_secs(20),
            body_time: Duration::from_secs(300),
            body_bytes: 16 * 1024 * 1024,
            bodies_bytes: 256 * 1024 * 1024,
            message_time: Duration::from_secs(60),
            messages_bytes: 256 * 1024 * 1024,
            call_time: Duration::from_secs(300),
            write_pause: Duration::from_secs(45),
            heartbeat: Duration::from_secs(15),
            keep_alive: KeepAlive::default(),
        }
    }
}

/// What a [`Site`] is made of.
#[derive(Debug)]
pub struct SiteParts {
    /// The app-server.
    pub app: AppServer,
    /// Its method table.
    pub service: Service,
    /// Who may come in.
    pub access: Access,
    /// How connections are served; role, label and end are put in for each. Its `shutdown` is the moment at which they end,
    /// its `tasks` are what shutdown waits for.
    pub options: ConnOptions,
    /// Bounds of connections of the Op/Event socket.
    pub ops: OpsLimits,
    /// Bounds of HTTP.
    pub limits: HttpLimits,
    /// The moment from which nobody new comes in.
    pub leaving: CancellationToken,
}

/// What all HTTP listeners of a server share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Site(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) app: AppServer,
    pub(super) service: Service,
    pub(super) access: Access,
    pub(super) options: ConnOptions,
    pub(super) ops: OpsLimits,
    pub(super) limits: HttpLimits,
    pub(super) leaving: CancellationToken,
    pub(super) caps: Caps,
    /// Room for bodies, in KiB.
    pub(super) bodies: Arc<Semaphore>,
    /// Room for messages on WebSockets that have not come whole, in KiB.
    pub(super) messages: Arc<Semaphore>,
    pub(super) counters: Counters,
}

impl Site {
    /// Puts one together.
    #[must_use]
    pub fn new(parts: SiteParts) -> Self {
        let SiteParts { app, service, access, options, ops, limits, leaving } = parts;
        let caps = Caps::new(limits.connections, limits.connections_per_address, limits.streams_per_device);
        let room = |bytes: usize| Arc::new(Semaphore::new((bytes >> 10).clamp(1, Semaphore::MAX_PERMITS)));
        Self(Arc::new(Inner {
            app,
            service,
            access,
            options,
            ops,
            leaving,
            caps,
            bodies: room(limits.bodies_bytes),
            messages: room(limits.messages_bytes),
            limits,
            counters: Counters::default(),
        }))
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.0.options.tasks
    }

    /// The moment at which connections end.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.options.shutdown
    }
}
