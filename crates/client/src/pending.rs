//! Calls that wait for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::error::{CallError, Failure};

/// An answer: the bytes of the result.
pub(crate) type Answer = Result<Bytes, CallError>;

/// The calls of one connection that wait. Once closed, every call ends at once.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    next: AtomicI64,
    waiting: Mutex<Waiting>,
    /// Wakes the reader when a call begins to wait.
    pub(crate) asked: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    closed: bool,
    calls: HashMap<i64, oneshot::Sender<Answer>>,
}

/// A call's place; dropping it forgets the call.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pending: &'a Pending,
    pub(crate) id: i64,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    /// A place for one more call.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn place(&self) -> Result<Place<'_>, CallError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.closed {
                return Err(CallError::Closed);
            }
            waiting.calls.insert(id, sender);
        }
        self.asked.notify_one();
        Ok(Place { pending: self, id, answer })
    }

    /// Gives a call its answer; one that was forgotten gets none.
    pub(crate) fn answer(&self, id: i64, answer: Result<Bytes, Failure>) {
        match self.waiting.lock().calls.remove(&id) {
            // Who waited may have given up at this moment.
            Some(call) => drop(call.send(answer.map_err(|failure| CallError::Refused(Box::new(failure))))),
            None => tracing::debug!(id, "an answer that nobody waits for"),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().calls.is_empty()
    }

    /// Ends all calls that wait.
    pub(crate) fn fail(&self, error: fn() -> CallError) {
        let calls = std::mem::take(&mut self.waiting.lock().calls);
        for call in calls.into_values() {
            let _ = call.send(Err(error()));
        }
    }

    /// Ends all calls, now and from now on.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.fail(|| CallError::Closed);
    }
}

impl Place<'_> {
    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Answer {
        (&mut self.answer).await.unwrap_or(Err(CallError::Closed))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pending.waiting.lock().calls.remove(&self.id);
    }
}
