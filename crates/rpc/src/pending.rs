//! Requests of ours that wait for a client's answer.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::frame::ClientError;
use crate::peer::Peer;

/// A request of ours that waits for the client. Dropping it forgets the request.
#[must_use = "a request whose future is dropped is forgotten at once"]
#[derive(Debug)]
pub struct PendingRequest {
    pub(crate) peer: Peer,
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) receiver: oneshot::Receiver<Answer>,
}

impl PendingRequest {
    /// The id the client was given.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn ended(peer: Peer, end: RequestEnd) -> Self {
        let (answer, receiver) = oneshot::channel();
        // The receiver is right here, so this cannot fail.
        let _ = answer.send(Err(end));
        Self { peer, id: String::new(), generation: 0, receiver }
    }
}

impl Future for PendingRequest {
    type Output = Result<Box<RawValue>, RequestEnd>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx).map(|answer| answer.unwrap_or(Err(RequestEnd::Closed)))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.peer.forget(&self.id, self.generation);
    }
}

/// How a request of ours ended without a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestEnd {
    /// The client answered with an error.
    #[error("the client answered with an error: {0}")]
    Rejected(ClientError),
    /// [`Peer::withdraw`] was called.
    #[error("the request was withdrawn")]
    Withdrawn,
    /// The same id was asked again on this connection; that request will get the answer.
    #[error("the request was asked again")]
    Superseded,
    /// The connection ended, or its client will send nothing more.
    #[error("the connection ended")]
    Closed,
    /// Too many requests wait for this client.
    #[error("too many requests wait for this client")]
    TooMany,
}

/// What waits for one client.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) waiting: HashMap<String, Waiter>,
    pub(crate) next_generation: u64,
    /// The client sends nothing more: every request ends at once.
    pub(crate) over: bool,
}

pub(crate) type Answer = Result<Box<RawValue>, RequestEnd>;

pub(crate) struct Waiter {
    pub(crate) generation: u64,
    pub(crate) answer: oneshot::Sender<Answer>,
}

impl Waiter {
    /// False if nobody listens any more.
    pub(crate) fn end(self, end: RequestEnd) -> bool {
        self.answer.send(Err(end)).is_ok()
    }
}
