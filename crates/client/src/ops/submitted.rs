//! Ops of this client that are not answered yet.

use signalbox_protocol::ops::Op;

/// An op whose answer is waited for, kept under its `request_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    pub op: Op,
    /// Its prompt waits in the session's queue of follow-ups.
    pub queued: bool,
    /// Frames were missed since it was sent, so its answer may be among them.
    pub uncertain: bool,
}

/// Which event answers an op; errors answer all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// `turn_started` or `prompt_steered`.
    Turn,
    /// `session_created`.
    Session,
    /// `execution_policy_changed`.
    Policy,
    /// `settings_changed`.
    Settings,
    /// `session_reverted`.
    Revert,
    /// `queue_changed`.
    Queue,
}

impl Submitted {
    pub(super) fn new(op: Op) -> Self {
        Self { op, queued: false, uncertain: false }
    }
}

/// None for ops that no event answers by `request_id`.
pub(super) fn answer(op: &Op) -> Option<Answer> {
    match op {
        Op::Prompt { .. } | Op::TurnInput(_) | Op::Compact { .. } => Some(Answer::Turn),
        Op::QueueAdd { .. } | Op::QueueEdit { .. } | Op::QueueRemove { .. } | Op::QueueMove { .. } => {
            Some(Answer::Queue)
        }
        Op::Revert { .. } => Some(Answer::Revert),
        Op::NewSession(_) | Op::Import(_) | Op::Fork { .. } => Some(Answer::Session),
        Op::SetExecutionPolicy { .. } => Some(Answer::Policy),
        Op::ThreadSettings { .. } => Some(Answer::Settings),
        _ => None,
    }
}
