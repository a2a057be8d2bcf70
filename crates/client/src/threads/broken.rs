//! Promises of the server that a client relies on, when they are not kept.

use super::place::Cursor;

/// The server has told something that cannot follow what it told before. The state is as it was, and wants to be resumed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} for thread {thread}: {problem}")]
pub struct Broken {
    /// What was told.
    pub method: String,
    /// About which thread.
    pub thread: String,
    /// Why it cannot be.
    pub problem: Problem,
}

/// What cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Every notification about a thread carries `seq` and `cursor`.
    #[error("it has no place in the thread's stream")]
    NoPlace,
    /// Cursors have the form `LIFE-NUMBER`.
    #[error("{0:?} is no cursor")]
    NoCursor(String),
    /// Cursors increase strictly.
    #[error("cursor {found} follows {before}")]
    CursorOrder {
        /// The one before.
        before: Cursor,
        /// The one that came.
        found: Cursor,
    },
    /// `seq` never goes back.
    #[error("seq {found} follows {before}")]
    SeqOrder {
        /// The one before.
        before: u64,
        /// The one that came.
        found: u64,
    },
    /// Revisions of the activity never go back.
    #[error("revision {found} of the activity follows {before}")]
    RevisionOrder {
        /// The one before.
        before: u64,
        /// The one that came.
        found: u64,
    },
    /// A turn that the client must have been told of.
    #[error("turn {0} was never started")]
    UnknownTurn(String),
    /// A turn begins once.
    #[error("turn {0} started twice")]
    TurnStartedTwice(String),
    /// One turn runs at a time.
    #[error("turn {0} is still running")]
    TurnStillRuns(String),
    /// A turn ends once.
    #[error("turn {0} has ended before")]
    TurnEnded(String),
    /// A turn begins and ends between the status changes around it.
    #[error("the thread was not told to be {0} before")]
    Status(&'static str),
    /// An item that the client must have been told of.
    #[error("item {0} was never started")]
    UnknownItem(String),
    /// An item begins once.
    #[error("item {0} started twice")]
    ItemStartedTwice(String),
    /// An item begins while its turn runs, or says that it is late.
    #[error("item {0} started after the end of its turn without being late, or is late before it")]
    Late(String),
    /// Deltas come between the beginning and the end of their item.
    #[error("item {0} is complete")]
    ItemComplete(String),
    /// An item that completes says so.
    #[error("item {0} is not complete")]
    ItemIncomplete(String),
    /// Deltas and completion are about the kind of item that began.
    #[error("item {0} is of another kind")]
    OtherKind(String),
    /// Parts of a reasoning begin in order, and before their text.
    #[error("part {index} of item {item} is out of order")]
    Part {
        /// The item.
        item: String,
        /// The part.
        index: u64,
    },
    /// Every item is complete before its turn ends.
    #[error("item {0} is still open")]
    ItemOpen(String),
    /// Every approval is resolved before its item or turn ends.
    #[error("approval {0} still waits")]
    ApprovalWaits(String),
    /// An approval is told of once.
    #[error("approval {0} was told of before")]
    ApprovalTwice(String),
}
