//! One connection of the Op/Event socket, from texts that came in to frames that go out. No sockets: a door feeds and drains it.
//!
//! What holds for every connection:
//! - Messages are taken strictly in order. The worker waits for the core to take an op, never for an agent, so nothing
//!   overtakes and nothing gets stuck.
//! - The first frame is `sessions` or `sessions_error`. The event stream is tapped before that list is read, so what happens
//!   between the two is not lost.
//! - Input and output are bounded in items and bytes. A full inbox stops the reading of the socket. A client that does not
//!   read its frames costs its outbox and nothing more: its events wait in the ring that all connections share, and what
//!   the ring lets go is told as `lagged`. Answers are never dropped; while they do not fit, nothing more is taken.
//! - A client that takes nothing for the grace period while something waits for it is gone, whatever its socket says: it no
//!   longer counts as somebody who could answer, and its connection ends.
//! - The end of the input ends the reading. What was taken before goes on, whoever is there to see it.

mod list;
mod outgoing;
mod pump;
mod queue;
mod worker;

use std::time::Duration;

use signalbox_engine::{Engine, Origin};
use signalbox_protocol::ops::ServerFrame;
use signalbox_rpc::Role;
use tokio_util::sync::CancellationToken;

use crate::access::Audit;

pub use list::list;
pub use outgoing::OutFrame;
pub use queue::{Closed, Fill, Held, QueueReceiver, QueueSender, Weight};

/// Bounds of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpsLimits {
    /// Longest text of one message.
    pub text_bytes: usize,
    /// Messages that may wait for the worker.
    pub inbox_items: usize,
    /// Bytes of them.
    pub inbox_bytes: usize,
    /// Frames that may wait for the client.
    pub outbox_items: usize,
    /// Bytes of them. One frame that is longer fills the outbox by itself.
    pub outbox_bytes: usize,
    /// Sessions of a list, beside those in which a turn runs.
    pub listed: u32,
    /// How long a full outbox may stay as it is; then nobody is there.
    pub grace: Duration,
}

impl Default for OpsLimits {
    fn default() -> Self {
        Self {
            text_bytes: 16 << 20,
            inbox_items: 16,
            inbox_bytes: 16 << 20,
            outbox_items: 1024,
            outbox_bytes: 8 << 20,
            listed: 500,
            grace: Duration::from_secs(60),
        }
    }
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inbound {
    /// A text message.
    Text(String),
    /// One that was too long to be kept.
    TooLarge { bytes: usize },
    /// A message of another kind.
    Binary,
}

impl Weight for Inbound {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::TooLarge { .. } | Self::Binary => 0,
        }
    }
}

/// The door's half of a connection.
#[derive(Debug)]
pub struct OpsSocket {
    /// Where messages go, in order. Sending waits while the worker is behind: the socket is not read then. Dropped, it is
    /// the end of the input.
    pub inbox: QueueSender<Inbound>,
    /// The frames to write, in order. Dropped, the client is gone; its end, the server is.
    pub outbox: QueueReceiver<OutFrame>,
}

/// The server's half.
#[derive(Debug)]
pub struct OpsConnection {
    inbox: QueueReceiver<Inbound>,
    outbox: QueueSender<OutFrame>,
    limits: OpsLimits,
}

/// Whose connection it is.
#[derive(Debug, Clone)]
pub struct OpsClient {
    /// What it may do: an observer submits no ops.
    pub role: Role,
    /// What the core is told about it.
    pub origin: Origin,
    /// Where its answers to approvals are noted.
    pub audit: Audit,
}

/// The two halves of a new connection.
#[must_use]
pub fn ops_connection(limits: OpsLimits) -> (OpsConnection, OpsSocket) {
    let (inbound, inbox) = queue::bounded(limits.inbox_items, limits.inbox_bytes);
    let (outbox, frames) = queue::bounded(limits.outbox_items, limits.outbox_bytes);
    (OpsConnection { inbox, outbox, limits }, OpsSocket { inbox: inbound, outbox: frames })
}

/// Serves a connection until its input has ended and its client or the engine is gone, or nobody reads it any more. To be spawned: dropping the
/// future would leave behind what was taken in and not yet handed to the core.
pub async fn serve_ops(engine: Engine, connection: OpsConnection, client: OpsClient) {
    let OpsConnection { inbox, outbox, limits } = connection;
    let events = engine.op_events();
    let welcome = list::frame(engine.reader(), limits.listed).await;
    // A client that has gone already may have sent something all the same.
    let over = CancellationToken::new();
    let outbox = Outbox { queue: outbox, grace: limits.grace, over: over.clone() };
    let _ = outbox.send(OutFrame::of(&welcome)).await;
    let pump = pump::run(events, outbox.clone());
    // As long as it may send something, an operator is there to answer approvals, which it sees in all sessions.
    let attending = (client.role != Role::Observer).then(|| engine.attend(None));
    let worker = worker::Worker { engine, outbox, limits, client, _attending: attending };
    tokio::join!(pump, worker.run(inbox, over));
}

/// The way out, as long as somebody takes what comes.
#[derive(Debug, Clone)]
struct Outbox {
    queue: QueueSender<OutFrame>,
    grace: Duration,
    /// Nothing more is to be done for this connection.
    over: CancellationToken,
}

impl Outbox {
    async fn send(&self, frame: OutFrame) -> Result<(), Closed> {
        tokio::time::timeout(self.grace, self.queue.send(frame)).await.unwrap_or_else(|_late| {
            tracing::info!("a client of the event socket reads nothing any more; its connection ends");
            self.over.cancel();
            Err(Closed)
        })
    }
}

/// Puts a frame behind all others; a client that is gone needs none.
async fn tell(outbox: &Outbox, frame: &ServerFrame) {
    if outbox.send(OutFrame::of(frame)).await.is_err() {
        tracing::debug!("an answer had nobody to go to");
    }
}
