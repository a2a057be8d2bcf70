//! What an event changed, for clients that redraw only that.

use signalbox_protocol::app::{ServerRequestResolvedNotification, TurnError};

/// One thing that changed. The new value is in the state; what is told only once is in the change.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The event was told before the snapshot that the state was made of, and is in it already.
    Superseded,
    /// `thread.status`.
    Status,
    /// `thread.activity`.
    Activity,
    /// `thread.name`.
    Name,
    /// `thread.archived`.
    Archived,
    /// The thread's settings.
    Settings,
    /// The models that the agent offers.
    Models,
    /// The options that the agent offers.
    ConfigOptions,
    /// The slash commands that the agent offers.
    Commands,
    /// The queue of follow-ups is another: see [`Want::Queue`](super::Want::Queue).
    Queue,
    /// The thread has no worktree any more.
    Worktree,
    /// A turn began.
    TurnStarted { turn: String },
    /// A turn ended.
    TurnEnded { turn: String },
    /// This turn and all after it were taken back.
    Reverted { before: Option<String> },
    /// A turn's plan.
    Plan { turn: String },
    /// A turn's diff.
    Diff { turn: String },
    /// A turn's token usage.
    Usage { turn: String },
    /// An item began.
    ItemStarted { turn: String, item: String },
    /// An item has more text, output or changes.
    ItemGrew { turn: String, item: String },
    /// An item is complete, or was and is another now.
    ItemCompleted { turn: String, item: String },
    /// An approval waits.
    ApprovalRequested { approval: String },
    /// This client is asked for an approval.
    Asked { approval: String },
    /// An approval is settled, by whom and how.
    ApprovalResolved { resolved: Box<ServerRequestResolvedNotification> },
    /// A turn fails, or an operation outside a turn did.
    Error { turn: Option<String>, error: Box<TurnError>, request_id: Option<String> },
    /// Something worth knowing that stops nothing.
    Warning { message: String, request_id: Option<String> },
    /// Something was missed, or the subscription ended: see [`ThreadState::phase`](super::ThreadState::phase).
    FellBehind,
    /// The thread and its history are gone.
    Deleted,
}
