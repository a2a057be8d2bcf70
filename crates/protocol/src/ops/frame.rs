//! The thin envelope of the Op/Event WebSocket: what it wraps events and pages in, and the requests beside ops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::Event;
use super::session::SessionSnapshot;
use super::transcript::TranscriptEntry;

/// A frame from the server. The first one of a connection is `sessions` or `sessions_error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServerFrame {
    Sessions {
        sessions: Vec<SessionSnapshot>,
    },
    /// The list cannot be read; clients keep the last one they know.
    SessionsError {
        message: String,
    },
    Event {
        event: Event,
    },
    /// A page of complete turns.
    Transcript {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        entries: Vec<TranscriptEntry>,
        /// The cursor of the next older page; `null` (written) if there is none.
        #[serde(default)]
        next_before: Option<u64>,
        /// The newest sequence the page's reader saw; `null` (written) for an empty session.
        #[serde(default)]
        snapshot_through: Option<u64>,
    },
    TranscriptError {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        message: String,
    },
    /// This connection was too slow and has missed events.
    Lagged {
        missed: u64,
    },
    /// A frame that is neither an op nor a request.
    Error {
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
}

/// A client's request beside ops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "req", rename_all = "snake_case")]
pub enum ClientRequest {
    Transcript {
        session: String,
        /// Exclusive cursor: the sequence of a prompt that opened a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
        /// Turns, 1 to 50; 20 if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    Sessions,
}
