//! The hub of one loaded thread: a task that owns the view and feeds everybody who listens, and the handle on it.

pub(crate) mod frames;
mod pace;
mod rejoin;
pub(crate) mod ring;
mod task;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use signalbox_engine::{Attending, OpError, SessionStream, Watching};
use signalbox_facts::{ConfigOption, Seq, SessionId, SessionRow, TurnId};
use signalbox_protocol::app::{Thread, ThreadSettings, ThreadTokenUsage};
use signalbox_rpc::{ConnectionId, MAX_RESULT_BYTES, Peer};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::connection::flow::{Flow, Known};
use crate::connection::{Hold, Subscriber};
use crate::errors::Error;
use crate::hubs::Hubs;
use crate::methods::PAGE_BYTES;
use crate::view::{TurnPart, cut};

pub(crate) use rejoin::{resolved_since, tell_own};
pub(crate) use task::Task;

use self::ring::Ring;

/// Commands that wait for the hub; it never waits for a client, so they do not wait long.
const COMMANDS: usize = 64;

/// The handle on a thread's hub.
#[derive(Debug)]
pub(crate) struct Hub {
    session: SessionId,
    commands: mpsc::Sender<Command>,
    subscribers: Mutex<Vec<Subscription>>,
    /// What the core knows of each of them: it keeps the thread in memory, and may answer approvals.
    present: Mutex<HashMap<ConnectionId, (Watching, Option<Attending>)>>,
    /// Held from taking a cursor to handing its frame out, so that cursors come in order. Innermost of all locks here but
    /// those of the subscribers and the connections.
    pub(crate) telling: Mutex<Ring>,
    /// The place before everything that is told of a session that begins here.
    born: u64,
    /// The newest fact that was shown.
    seq: AtomicU64,
    /// Somebody was told that finer limits of the sandbox are not enforced.
    told_limits: AtomicBool,
    /// Cancelled when its task has told all that it had to tell.
    ended: CancellationToken,
}

/// A hub whose thread stays in memory while this lives.
#[derive(Debug)]
pub(crate) struct Visit {
    hub: Arc<Hub>,
    watching: Watching,
}

/// A connection that follows the thread.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) subscriber: Subscriber,
    pub(crate) flow: Arc<Flow>,
}

/// What is asked of a hub's task.
#[derive(Debug)]
pub(crate) enum Command {
    /// From now on this connection gets the thread's deliveries.
    Join {
        subscriber: Subscriber,
        watching: Watching,
        wants: Wants,
        after: Option<u64>,
        reply: oneshot::Sender<Result<Joined, Error>>,
    },
    /// A client that reads again is told what it missed of the turn in view, if that begins where it thinks, and from then
    /// on everything.
    Rejoin { subscription: Subscription, known: Arc<Known>, reply: oneshot::Sender<bool> },
    /// A client that reads again is told how the thread stands, of which it missed these notifications.
    Tell { subscription: Subscription, reply: oneshot::Sender<()> },
    /// The thread as it is now.
    Read { turn: Option<TurnBounds>, reply: oneshot::Sender<Result<Snapshot, Error>> },
}

/// How much of the newest turn a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnBounds {
    /// Most bytes of it, but at least one item.
    pub(crate) bytes: usize,
    /// Most bytes of an item.
    pub(crate) of_item: usize,
}

impl TurnBounds {
    /// What fits into a frame, with items as they are.
    pub(crate) const FRAME: Self = Self { bytes: MAX_RESULT_BYTES, of_item: usize::MAX };
    /// What fits into a page.
    pub(crate) const PAGE: Self = Self { bytes: PAGE_BYTES, of_item: cut::ITEM_BYTES };
}

/// What a joining connection wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// It has just made the thread: the snapshot holds what it was made with, and nothing is told again.
    Made,
    /// The same of a thread that began with another one's history; its newest turn too.
    Forked,
    /// The thread without turns, and the latest values behind it.
    Outline,
    /// The newest turn too.
    Turn,
}

impl Wants {
    /// Whether the thread is new, so that everything that is told of it follows.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Self::Made | Self::Forked)
    }

    /// Whether the newest turn is wanted.
    pub(crate) fn with_turn(self) -> bool {
        matches!(self, Self::Turn | Self::Forked)
    }
}

/// The answer to a joining: the thread up to the point of joining. What follows it waits behind the hold.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) snapshot: Snapshot,
    pub(crate) hold: Hold,
    /// What followed the cursor that the client named waits behind the hold, and the snapshot has no turn.
    pub(crate) continued: bool,
}

/// A thread at one point of its stream.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) row: SessionRow,
    /// The thread without turns.
    pub(crate) thread: Thread,
    pub(crate) settings: ThreadSettings,
    /// The newest turn with its items so far, if it was asked for: for a reader as they are, for who joins within the bounds
    /// of a page.
    pub(crate) turn: Option<TurnPart>,
    /// Where that turn begins; older ones are in the store only.
    pub(crate) turn_first_seq: Option<Seq>,
    /// Usage of that turn; the context window in it is in no row while the turn runs.
    pub(crate) usage: Option<(TurnId, ThreadTokenUsage)>,
    /// The newest fact that is in it.
    pub(crate) seq: Seq,
    /// Its place among the deliveries.
    pub(crate) cursor: String,
    /// The agent's options, as far as they are known.
    pub(crate) options: Vec<ConfigOption>,
    /// The agent's slash commands, likewise.
    pub(crate) commands: Vec<signalbox_facts::Command>,
}

/// A hub and its task, which is not running yet.
pub(crate) fn new(hubs: Hubs, stream: SessionStream) -> (Arc<Hub>, Task) {
    let (sender, commands) = mpsc::channel(COMMANDS);
    let born = hubs.next_place();
    let mut ring = Ring::default();
    if stream.row.last_seq == 0 {
        // Whoever makes it goes on from here.
        ring.mark(born, 0);
        ring.left();
    }
    let hub = Arc::new(Hub {
        session: stream.row.id,
        commands: sender,
        subscribers: Mutex::default(),
        present: Mutex::default(),
        telling: Mutex::new(ring),
        born,
        seq: AtomicU64::new(stream.row.last_seq),
        told_limits: AtomicBool::new(false),
        ended: CancellationToken::new(),
    });
    (hub.clone(), Task::new(hubs, hub, commands, stream))
}

impl Hub {
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn seq(&self) -> Seq {
        self.seq.load(Ordering::Relaxed)
    }

    /// Whether it is now to be told that finer limits are not enforced: true once.
    pub(crate) fn tell_limits(&self) -> bool {
        !self.told_limits.swap(true, Ordering::Relaxed)
    }

    /// Tells a client that reads again what it missed of the newest turn, and from then on everything. False if another
    /// turn has become the newest since `known` was made.
    pub(crate) async fn rejoin(&self, subscription: Subscription, known: Arc<Known>) -> Result<bool, Error> {
        let (reply, done) = oneshot::channel();
        self.send(Command::Rejoin { subscription, known, reply }).await?;
        Ok(done.await.map_err(|_gone| OpError::ShuttingDown)?)
    }

    /// Tells a client that does not follow the thread how it stands.
    pub(crate) async fn tell(&self, subscription: Subscription) -> Result<(), Error> {
        let (reply, done) = oneshot::channel();
        self.send(Command::Tell { subscription, reply }).await?;
        Ok(done.await.map_err(|_gone| OpError::ShuttingDown)?)
    }

    /// The thread as it is now, with as much of its newest turn as fits into a frame, or without it.
    pub(crate) async fn read(&self, with_turn: bool) -> Result<Snapshot, Error> {
        self.read_if_there(with_turn).await?.ok_or_else(|| OpError::ShuttingDown.into())
    }

    /// The same; `None` if the thread has left memory meanwhile.
    pub(crate) async fn read_if_there(&self, with_turn: bool) -> Result<Option<Snapshot>, Error> {
        self.read_within(with_turn.then_some(TurnBounds::FRAME)).await
    }

    /// The thread as it is now, with as much of its newest turn as fits into a page.
    pub(crate) async fn read_page(&self) -> Result<Snapshot, Error> {
        let read = self.read_within(Some(TurnBounds::PAGE)).await?;
        read.ok_or_else(|| OpError::ShuttingDown.into())
    }

    async fn read_within(&self, turn: Option<TurnBounds>) -> Result<Option<Snapshot>, Error> {
        let (reply, snapshot) = oneshot::channel();
        if self.commands.send(Command::Read { turn, reply }).await.is_err() {
            return Ok(None);
        }
        snapshot.await.map_or(Ok(None), |read| read.map(Some))
    }

    /// Waits until its task has told all that it had to tell.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// What tells [`Hub::ended`], however the task ends.
    pub(crate) fn ends(&self) -> impl Drop + Send + use<> {
        self.ended.clone().drop_guard()
    }

    async fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).await.map_err(|_gone| OpError::ShuttingDown.into())
    }

    /// Notes a subscriber, who may be one that can answer approvals.
    fn comes(&self, connection: ConnectionId, watching: Watching, attending: Option<Attending>) {
        self.present.lock().insert(connection, (watching, attending));
    }

    pub(crate) fn subscribers(&self) -> Vec<Subscriber> {
        self.subscribers.lock().iter().map(|subscription| subscription.subscriber.clone()).collect()
    }

    /// Whether this connection is subscribed.
    pub(crate) fn has(&self, connection: ConnectionId) -> bool {
        self.subscribers.lock().iter().any(|known| known.subscriber.peer.id() == connection)
    }

    /// How many connections other than this one are subscribed.
    pub(crate) fn others(&self, connection: ConnectionId) -> usize {
        self.subscribers.lock().iter().filter(|known| known.subscriber.peer.id() != connection).count()
    }

    /// Ends a subscription; false if there was none.
    pub(crate) fn leave(&self, peer: &Peer) -> bool {
        drop(self.present.lock().remove(&peer.id()));
        let (before, after) = {
            let mut subscribers = self.subscribers.lock();
            let before = subscribers.len();
            subscribers.retain(|known| known.subscriber.peer.id() != peer.id());
            (before, subscribers.len())
        };
        if after == 0 && before > 0 {
            self.telling.lock().left();
        }
        after < before
    }
}

impl Visit {
    pub(crate) fn new(hub: Arc<Hub>, watching: Watching) -> Self {
        Self { hub, watching }
    }

    /// Subscribes a connection; from the snapshot's point on its deliveries wait behind the hold. If it can be said exactly
    /// what followed the place `after`, that waits there too. While the connection is subscribed the thread stays in memory.
    pub(crate) async fn join(
        &self,
        subscriber: Subscriber,
        wants: Wants,
        after: Option<u64>,
    ) -> Result<Joined, Error> {
        let (reply, joined) = oneshot::channel();
        let watching = self.watching.clone();
        self.send(Command::Join { subscriber, watching, wants, after, reply }).await?;
        joined.await.map_err(|_gone| OpError::ShuttingDown)?
    }
}

impl Deref for Visit {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}
