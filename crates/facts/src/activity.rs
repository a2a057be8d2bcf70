//! A session's revisioned activity.

use serde::{Deserialize, Serialize};

use crate::{PendingInput, TurnId};

/// What a session is doing. The revision rises by exactly one at every semantic transition.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Activity {
    /// 0 for a session that never ran.
    pub revision: u64,
    /// The state.
    pub state: ActivityState,
}

impl Default for Activity {
    fn default() -> Self {
        Self { revision: 0, state: ActivityState::Idle }
    }
}

impl Activity {
    /// The turn that runs or waits, or failed last.
    #[must_use]
    pub fn turn(&self) -> Option<TurnId> {
        match &self.state {
            ActivityState::Idle => None,
            ActivityState::Running { turn_id, .. } | ActivityState::AwaitingInput { turn_id, .. } => {
                Some(*turn_id)
            }
            ActivityState::Failed { turn_id, .. } => *turn_id,
        }
    }

    /// Whether a turn is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, ActivityState::Running { .. } | ActivityState::AwaitingInput { .. })
    }

    /// The inputs that wait for an answer, by sequence.
    #[must_use]
    pub fn pending(&self) -> &[PendingInput] {
        match &self.state {
            ActivityState::AwaitingInput { pending, .. } => pending,
            _ => &[],
        }
    }
}

/// The four states.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ActivityState {
    /// No turn is open.
    Idle,
    /// A turn is open and the agent is at work.
    Running {
        /// The turn.
        turn_id: TurnId,
        /// `request_id` of the prompt that opened it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_request_id: Option<String>,
    },
    /// A turn is open and at least one input waits for an answer.
    AwaitingInput {
        /// The turn.
        turn_id: TurnId,
        /// `request_id` of the prompt that opened it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_request_id: Option<String>,
        /// What waits, ordered by sequence; never empty.
        pending: Vec<PendingInput>,
    },
    /// The last turn failed or was cut off.
    Failed {
        /// That turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<TurnId>,
        /// Why.
        reason: FailedReason,
        /// For people.
        message: String,
    },
}

/// Why a session is in the failed state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedReason {
    /// The server stopped before the turn finished.
    Interrupted,
    /// The agent could not be started, failed, or died.
    ProviderError,
}
