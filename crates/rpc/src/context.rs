//! `Ctx`: what a handler knows about its call beside the parameters.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::entry::Role;
use crate::error::RpcError;
use crate::frame::TraceContext;
use crate::peer::{ConnectionId, Origin, Peer};

/// A handler's view of one call: the application, the connection it came from, and the call itself.
#[derive(Debug, Clone)]
pub struct Ctx<A> {
    app: A,
    info: Arc<CallInfo>,
}

impl<A> Ctx<A> {
    pub(crate) fn new(app: A, info: Arc<CallInfo>) -> Self {
        Self { app, info }
    }

    /// The application's state.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The connection, where there is one on which we can send too.
    ///
    /// # Errors
    /// `needs_bidirectional_transport` over HTTP POST.
    pub fn peer(&self) -> Result<&Peer, RpcError> {
        self.peer_opt().ok_or_else(RpcError::needs_bidirectional_transport)
    }

    /// The connection, or `None` over HTTP POST.
    pub fn peer_opt(&self) -> Option<&Peer> {
        self.info.peer.as_ref()
    }

    /// What the caller may do.
    pub fn role(&self) -> Role {
        self.info.origin.role
    }

    /// The number of the connection; over HTTP POST, of the request.
    pub fn connection(&self) -> ConnectionId {
        self.info.origin.connection
    }

    /// Where the call comes from, for people (`stdio`, `unix`, the name of a device).
    pub fn label(&self) -> &Arc<str> {
        &self.info.origin.label
    }

    /// The caller's span, if it sent one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.info.trace.as_ref()
    }

    /// The client's id of this request as it wrote it (`7`, `"a"`); `None` in a notification.
    pub fn request_id(&self) -> Option<&str> {
        self.info.raw_id.as_deref()
    }

    /// The application's own state of this connection, if it was set and has this type.
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.info.origin.state()
    }

    /// A token that is cancelled when the client cancels the request, or its connection is gone. The handler's
    /// future is dropped then too; the token is for what it has started elsewhere.
    pub fn cancelled(&self) -> CancellationToken {
        self.info.token.child_token()
    }

    /// Ends the handshake: from now on all methods are open on this connection.
    ///
    /// # Errors
    /// `already_initialized` if it was ended before.
    pub fn mark_initialized(&self) -> Result<(), RpcError> {
        if self.info.origin.gate.open() { Ok(()) } else { Err(RpcError::already_initialized()) }
    }

    /// Whether the handshake is done.
    pub fn is_initialized(&self) -> bool {
        self.info.origin.gate.is_open()
    }

    /// Keeps a value until this call's answer has entered the outbox (in a batch, until the whole array has), then
    /// drops it; drops it as well when the call fails, is cancelled, or its connection ends. With this a handler
    /// holds back notifications until the answer precedes them.
    ///
    /// After the answer the value is dropped at once.
    pub fn keep_until_sent(&self, value: Box<dyn Any + Send>) {
        self.info.keep(value);
    }
}

/// One call, shared by its handler, the layers and the connection.
#[derive(Debug)]
pub(crate) struct CallInfo {
    pub(crate) origin: Arc<Origin>,
    pub(crate) peer: Option<Peer>,
    pub(crate) raw_id: Option<Box<str>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) token: CancellationToken,
    stop: AtomicU8,
    kept: Mutex<Kept>,
}

/// Why a call is stopped before its handler has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its connection is gone; nobody waits for an answer.
    Gone,
    /// The client cancelled it.
    Cancelled,
    /// The server leaves and has waited long enough.
    Shutdown,
}

enum Kept {
    Holding(Vec<Box<dyn Any + Send>>),
    Released,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Holding(values) => write!(f, "Holding({})", values.len()),
            Self::Released => f.write_str("Released"),
        }
    }
}

impl CallInfo {
    pub(crate) fn new(
        origin: Arc<Origin>,
        peer: Option<Peer>,
        raw_id: Option<&str>,
        trace: Option<TraceContext>,
        token: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            origin,
            peer,
            raw_id: raw_id.map(Box::from),
            trace,
            token,
            stop: AtomicU8::new(0),
            kept: Mutex::new(Kept::Holding(Vec::new())),
        })
    }

    /// Stops the call; the first reason holds.
    pub(crate) fn stop(&self, why: Stop) {
        let code = match why {
            Stop::Gone => 0,
            Stop::Cancelled => 1,
            Stop::Shutdown => 2,
        };
        // A second reason changes nothing.
        let _ = self.stop.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.token.cancel();
    }

    pub(crate) fn stopped_by(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            1 => Stop::Cancelled,
            2 => Stop::Shutdown,
            _ => Stop::Gone,
        }
    }

    fn keep(&self, value: Box<dyn Any + Send>) {
        let mut kept = self.kept.lock();
        match &mut *kept {
            Kept::Holding(values) => values.push(value),
            Kept::Released => {
                drop(kept);
                drop(value);
            }
        }
    }

    /// Drops what the handler kept, and from now on at once what it still wants to keep.
    pub(crate) fn release(&self) {
        let kept = std::mem::replace(&mut *self.kept.lock(), Kept::Released);
        drop(kept);
    }
}
