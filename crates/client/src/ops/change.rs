//! What a frame changed, for clients that redraw only that.

use signalbox_protocol::ops::{Op, Resolver};

/// One thing that changed. The new value is in the state; what is told only once is in the change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The list of sessions was read: its members or their order may differ.
    ListChanged,
    /// The list cannot be read; the last good one is kept.
    ListFailed { message: String },
    /// A session is known that was not known before.
    SessionAdded { session: String },
    /// A session is gone, with all that was known of it.
    SessionRemoved { session: String },
    /// Title, policy, model, options, queue, diff or usage of a session.
    SessionChanged { session: String },
    /// Whether it runs, or what waits for an answer.
    ActivityChanged { session: String },
    /// The session's turn is over.
    TurnEnded { session: String, stop_reason: String },
    /// A request is settled, by whom and how.
    InputResolved { session: String, request_id: String, option_id: Option<String>, by: Resolver },
    /// Turns or items of a transcript.
    TranscriptChanged { session: String },
    /// A page of a transcript cannot be had.
    TranscriptFailed { session: String, message: String },
    /// An op of this client was answered, and is no longer waited for.
    Settled { request_id: String, op: Box<Op>, outcome: Outcome },
    /// Something went wrong; only a terminal error stopped anything.
    Error {
        session: Option<String>,
        message: String,
        terminal: bool,
        /// The word for programs, from a server that has one.
        reason: Option<String>,
        request_id: Option<String>,
    },
    /// Something was missed, or the connection is a new one: see [`State::wants`](super::State::wants).
    Stale { missed: u64 },
}

/// How an op was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The prompt opened a turn.
    Started,
    /// The prompt went into the running turn.
    Steered,
    /// The session exists.
    Created { session: String },
    /// It is done: the policy, settings or queue are as asked, the turns are taken back.
    Applied,
    /// It was refused, or failed.
    Refused { message: String },
}
