//! What a session is doing, as one revisioned value that every client can merge.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::form::Form;

/// A session's activity. Of two, the one with the higher revision is the truth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Raised by exactly one with every transition; 0 is a session that never ran.
    pub revision: u64,
    pub state: ActivityState,
}

impl Default for Activity {
    /// How a document written before activities existed is read.
    fn default() -> Self {
        Self { revision: 0, state: ActivityState::Idle }
    }
}

/// The four states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ActivityState {
    Idle,
    Running {
        turn_id: String,
        /// The `request_id` of the prompt that opened the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_request_id: Option<String>,
    },
    AwaitingInput {
        turn_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_request_id: Option<String>,
        /// What is waiting, by ascending `sequence`; never empty.
        pending: Vec<PendingInput>,
    },
    Failed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
        reason: FailureReason,
        message: String,
    },
}

/// Why a session is in the failed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The server stopped before the turn finished.
    Interrupted,
    /// The agent could not be started, died, or ended the turn with an error.
    ProviderError,
    /// The session's row cannot be read; it is listed so that nobody thinks it is gone.
    Unreadable,
}

/// A permission request or question that waits for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingInput {
    /// The same id as in the request's event, and the approval id of the app-server API.
    pub input_id: String,
    pub kind: PendingKind,
    pub title: String,
    /// Pairs of option id and label, in the agent's order. `answer_permission` takes one of these ids.
    pub options: Vec<(String, String)>,
    /// ACP's kind of each option, by option id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub option_kinds: BTreeMap<String, String>,
    /// Place in the one order of all pending inputs of all sessions; never reused.
    pub sequence: u64,
    /// The question's fields, when `kind` is `elicitation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
}

/// What kind of answer a pending input takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// Answered with `answer_permission`.
    Permission,
    /// Answered with `answer_elicitation`.
    Elicitation,
}
