//! What can go wrong with a call.

use serde_json::{Map, Value};
use signalbox_protocol::app::{ErrorData, ErrorObject};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server declined it.
    #[error(transparent)]
    Refused(Box<Failure>),
    /// The connection ended before the answer came. Whether the server has done what was asked is not known.
    #[error("the connection to the server has ended")]
    Closed,
    /// The answer is not of the form that this client knows.
    #[error("the answer to {method} cannot be read")]
    Unreadable {
        /// The method that was called.
        method: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// The params cannot be written.
    #[error("the params of {method} cannot be written")]
    Unwritable {
        /// The method that was called.
        method: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// The call waited, but so many events were waiting to be read that its answer could not be reached.
    #[error("events of this connection are not being read, so no answer can be")]
    EventsUnread,
}

/// What the server declined, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// JSON-RPC error code.
    pub code: i32,
    /// One sentence for people.
    pub message: String,
    /// Stable word for programs; empty if a server that is not ours left it out.
    pub reason: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Details by reason.
    pub data: Map<String, Value>,
}

impl From<ErrorObject> for Failure {
    fn from(error: ErrorObject) -> Self {
        let ErrorObject { code, message, data } = error;
        let ErrorData { reason, retryable, details } = data.unwrap_or_else(|| ErrorData {
            reason: String::new(),
            retryable: false,
            details: Map::new(),
        });
        Self { code, message, reason, retryable, data: details }
    }
}

impl CallError {
    /// The stable word of a refusal.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(failure) => Some(&failure.reason),
            _ => None,
        }
    }
}
