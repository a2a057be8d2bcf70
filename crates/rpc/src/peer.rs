//! `Peer`: a handle on one connection, for pushing frames to its client and asking it things.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::entry::Role;
use crate::hooks::{CloseReason, Hooks, StrayResponse};
use crate::outbox::{Backlog, Outbox, Overflow, Pushed};
use crate::outgoing::{DeltaKey, Frame};
use crate::pending::{Pending, PendingRequest, RequestEnd, Waiter};

/// A connection's number, unique in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// A number that no other connection of this process has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection's state of handshake, shared by its calls.
#[derive(Debug)]
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) fn new(open: bool) -> Self {
        Self(AtomicBool::new(open))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Opens the gate; false if it was open already.
    pub(crate) fn open(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// What is the same for every call of one connection (or of one HTTP request).
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) connection: ConnectionId,
    pub(crate) role: Role,
    pub(crate) label: Arc<str>,
    pub(crate) gate: Gate,
    pub(crate) state: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// A cheap handle on one connection. It stays valid after the connection's end: frames are then refused as
/// [`Pushed::Closed`] and requests end as [`RequestEnd::Closed`].
#[derive(Clone)]
pub struct Peer(Arc<PeerInner>);

struct PeerInner {
    origin: Arc<Origin>,
    outbox: Outbox,
    /// Whether what finds the outbox at its hard bound is refused; else the connection ends.
    refuses: AtomicBool,
    opted_out: OnceLock<HashSet<String>>,
    pending: Mutex<Pending>,
    max_pending: usize,
    /// Wakes the reader when a request of ours begins to wait.
    asked: Notify,
    closed: CancellationToken,
    close_reason: OnceLock<CloseReason>,
    hooks: Arc<dyn Hooks>,
}

pub(crate) struct PeerParts {
    pub(crate) origin: Arc<Origin>,
    pub(crate) outbox: Outbox,
    pub(crate) overflow: Overflow,
    pub(crate) max_pending: usize,
    pub(crate) hooks: Arc<dyn Hooks>,
}

impl Peer {
    pub(crate) fn new(parts: PeerParts) -> Self {
        let PeerParts { origin, outbox, overflow, max_pending, hooks } = parts;
        Self(Arc::new(PeerInner {
            origin,
            outbox,
            refuses: AtomicBool::new(overflow == Overflow::Refuse),
            opted_out: OnceLock::new(),
            pending: Mutex::default(),
            max_pending,
            asked: Notify::new(),
            closed: CancellationToken::new(),
            close_reason: OnceLock::new(),
            hooks,
        }))
    }

    /// The connection's number.
    pub fn id(&self) -> ConnectionId {
        self.0.origin.connection
    }

    /// What this connection may do.
    pub fn role(&self) -> Role {
        self.0.origin.role
    }

    /// Where the connection comes from, for people (`stdio`, `unix`, the name of a device).
    pub fn label(&self) -> &Arc<str> {
        &self.0.origin.label
    }

    /// Whether the handshake is done.
    pub fn is_initialized(&self) -> bool {
        self.0.origin.gate.is_open()
    }

    /// Pushes a notification. Never blocks, whatever the client does.
    pub fn notify(&self, frame: Frame) -> Pushed {
        if self.0.opted_out.get().is_some_and(|methods| methods.contains(frame.method)) {
            return Pushed::OptedOut;
        }
        self.push(frame)
    }

    /// Asks the client something. The request is sent at once; the future resolves with the client's answer.
    /// Dropping it forgets the request (the client is not told).
    ///
    /// The caller chooses the id. If a request with that id is waiting on this connection already, it ends as
    /// [`RequestEnd::Superseded`] and the new one gets the answer.
    ///
    /// # Errors
    /// Only where `params` refuses to be serialized.
    pub fn request(
        &self,
        id: &str,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<PendingRequest, serde_json::Error> {
        Ok(self.request_frame(id, Frame::request(id, method, params)?))
    }

    /// [`Peer::request`] with a frame made by [`Frame::request`] for the same id, so that one request is
    /// serialized once for several clients.
    pub fn request_frame(&self, id: &str, frame: Frame) -> PendingRequest {
        let (answer, receiver) = oneshot::channel();
        let generation = {
            let mut pending = self.0.pending.lock();
            if pending.over {
                return PendingRequest::ended(self.clone(), RequestEnd::Closed);
            }
            if pending.waiting.len() >= self.0.max_pending && !pending.waiting.contains_key(id) {
                return PendingRequest::ended(self.clone(), RequestEnd::TooMany);
            }
            pending.next_generation += 1;
            let generation = pending.next_generation;
            if let Some(earlier) = pending.waiting.insert(id.to_owned(), Waiter { generation, answer }) {
                earlier.end(RequestEnd::Superseded);
            }
            generation
        };
        let request = PendingRequest { peer: self.clone(), id: id.to_owned(), generation, receiver };
        if self.push(frame) == Pushed::Closed {
            self.withdraw_as(id, RequestEnd::Closed);
        } else {
            self.0.asked.notify_one();
        }
        request
    }

    /// Ends a waiting request without an answer; false if none with that id is waiting.
    pub fn withdraw(&self, id: &str) -> bool {
        self.withdraw_as(id, RequestEnd::Withdrawn)
    }

    /// A token that is cancelled when the connection has ended. Cancelling it does not end the connection.
    pub fn closed(&self) -> CancellationToken {
        self.0.closed.child_token()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Why the connection ended, once it has.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.0.close_reason.get()
    }

    /// Ends the connection now, because of something on our side; what is queued is not sent. `why` is for logs and,
    /// where the transport has a place for it, the client.
    pub fn close(&self, why: &'static str) {
        self.shut(CloseReason::Closed(why));
    }

    /// [`Peer::close`] for a client that reads too slowly: it may come again.
    pub fn close_lagging(&self, why: &'static str) {
        self.shut(CloseReason::Lagging(why));
    }

    /// [`Peer::close`] for a client that is not let in any more.
    pub fn revoke(&self, why: &'static str) {
        self.shut(CloseReason::Revoked(why));
    }

    /// Names the notifications this client does not want. Counts once, at the handshake; false if set before.
    pub fn opt_out(&self, methods: impl IntoIterator<Item = String>) -> bool {
        self.0.opted_out.set(methods.into_iter().collect()).is_ok()
    }

    /// From now on what finds the outbox at its hard bound is refused as under [`Overflow::Refuse`], and the connection
    /// does not end for it.
    pub fn refuse_overflow(&self) {
        self.0.refuses.store(true, Ordering::Relaxed);
    }

    /// Later pieces of this text are dropped until a frame that [`Frame::ending`] names it: the client has missed one.
    pub fn cut(&self, key: DeltaKey) {
        self.0.outbox.cut(key);
    }

    /// The client has been given the texts of this scope ([`DeltaKey::scope`]) whole: later pieces are taken again.
    pub fn mend(&self, scope: u128) {
        self.0.outbox.mend(scope);
    }

    /// Whether so much waits that deltas would be dropped; [`Peer::drained`] tells when that is over.
    pub fn is_slow(&self) -> bool {
        self.0.outbox.is_slow()
    }

    /// Whether a request of ours with this id waits for the client's answer.
    pub fn waits_for(&self, id: &str) -> bool {
        self.0.pending.lock().waiting.contains_key(id)
    }

    /// How much waits to be read by this client.
    pub fn backlog(&self) -> Backlog {
        self.0.outbox.backlog()
    }

    /// Waits until this client has read most of what was queued, or the connection has ended.
    pub async fn drained(&self) {
        self.0.outbox.drained().await;
    }

    /// Keeps the application's own state of this connection. Counts once; false if there is one already.
    pub fn set_state<T: Any + Send + Sync>(&self, state: Arc<T>) -> bool {
        self.0.origin.state.set(state).is_ok()
    }

    /// The application's own state of this connection, if it was set and has this type.
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.origin.state()
    }

    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.0.origin
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    pub(crate) fn kill_token(&self) -> &CancellationToken {
        &self.0.closed
    }

    pub(crate) fn hooks(&self) -> &dyn Hooks {
        &*self.0.hooks
    }

    /// Pushes without asking whether the client wants it.
    pub(crate) fn push(&self, frame: Frame) -> Pushed {
        let result = self.0.outbox.push(frame);
        if result.pushed != Pushed::Refused {
            return result.pushed;
        }
        if !self.0.refuses.load(Ordering::Relaxed) {
            self.shut(CloseReason::Overflow);
            return Pushed::Closed;
        }
        if result.overflowed {
            self.0.hooks.overflowed(self);
        }
        Pushed::Refused
    }

    /// Gives a client's answer to who waits for it, or to the hook.
    pub(crate) fn resolve(&self, response: crate::frame::Response<'_>) {
        let waiter = response.id.as_deref().and_then(|id| self.0.pending.lock().waiting.remove(id));
        let Some(waiter) = waiter else {
            let stray = StrayResponse { id: response.id.as_deref(), outcome: response.outcome };
            self.0.hooks.stray_response(self, stray);
            return;
        };
        let answer = response.outcome.map(ToOwned::to_owned).map_err(RequestEnd::Rejected);
        if let Err(Ok(unwanted)) = waiter.answer.send(answer) {
            // The waiting future was dropped between our removal and this.
            let stray = StrayResponse { id: response.id.as_deref(), outcome: Ok(&unwanted) };
            self.0.hooks.stray_response(self, stray);
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.0.pending.lock().waiting.is_empty()
    }

    /// Resolves when a request of ours has begun to wait since the last time this resolved.
    pub(crate) async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// The client will send nothing more: ends all waiting requests, now and from now on.
    pub(crate) fn end_requests(&self) {
        let waiting = {
            let mut pending = self.0.pending.lock();
            pending.over = true;
            std::mem::take(&mut pending.waiting)
        };
        for waiter in waiting.into_values() {
            waiter.end(RequestEnd::Closed);
        }
    }

    /// Ends the connection; the first reason holds.
    pub(crate) fn shut(&self, reason: CloseReason) {
        let _ = self.0.close_reason.set(reason.clone());
        self.0.outbox.abort(reason);
        self.end_requests();
        self.0.closed.cancel();
    }

    /// The reason that holds, after [`Peer::shut`].
    pub(crate) fn reason(&self) -> CloseReason {
        self.0.close_reason.get().cloned().unwrap_or(CloseReason::Dropped)
    }

    fn withdraw_as(&self, id: &str, end: RequestEnd) -> bool {
        let waiter = self.0.pending.lock().waiting.remove(id);
        waiter.is_some_and(|waiter| waiter.end(end))
    }

    pub(crate) fn forget(&self, id: &str, generation: u64) {
        let mut pending = self.0.pending.lock();
        if pending.waiting.get(id).is_some_and(|waiter| waiter.generation == generation) {
            pending.waiting.remove(id);
        }
    }
}

impl Origin {
    pub(crate) fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.state.get().cloned().and_then(|state| state.downcast().ok())
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("origin", &self.0.origin).field("backlog", &self.backlog()).finish()
    }
}
