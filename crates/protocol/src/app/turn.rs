//! A turn: from an accepted prompt to its end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval::ApprovalDecision;
use super::item::ThreadItem;
use super::usage::ThreadTokenUsage;
use crate::lenient::null_as_default;
use crate::ops::{Policy, Resolver};

/// One turn of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub id: String,
    pub status: TurnStatus,
    pub items: Vec<ThreadItem>,
    /// Which items `items` holds.
    #[serde(default)]
    pub items_view: TurnItemsView,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<TurnError>,
    /// Unix seconds.
    #[serde(default)]
    pub started_at: Option<i64>,
    /// Unix seconds.
    #[serde(default)]
    pub completed_at: Option<i64>,
    #[serde(default)]
    pub duration_ms: Option<i64>,
    #[serde(default)]
    pub root_turn_id: Option<String>,
    /// Ext: the plan as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<TurnPlanStep>>,
    /// Ext: what the turn has changed, as one unified diff, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Ext: `diff` is not whole.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
    /// Ext: the last usage of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<ThreadTokenUsage>,
    /// Ext: the settings as they were when the turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<TurnContext>,
    /// Ext: once it has ended, what became of the approvals that it has waited for: the newest 64, in the order of their answers. What
    /// was decided without asking anybody is not among them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<TurnApproval>,
    /// Ext: `items` has the newest items only; `thread/items/list` goes on from here to the ones before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_backwards_cursor: Option<String>,
}

/// Ext: who answered an approval, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnApproval {
    pub approval_id: String,
    /// The item it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// What was asked.
    pub title: String,
    /// Absent if the answer was an option that means none of the four.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    /// The agent's option that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    pub by: Resolver,
    /// What was written with a decline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub resolved_at_ms: i64,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

/// Which items of a turn are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnItemsView {
    NotLoaded,
    Summary,
    #[default]
    Full,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    pub message: String,
    #[serde(default)]
    pub codex_error_info: Option<CodexErrorInfo>,
    #[serde(default)]
    pub additional_details: Option<String>,
    /// Ext: what the JSON-RPC code of this failure would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Ext: a stable word for the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Ext: whether the same prompt may work later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Ext: details by reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// The kinds of failure existing clients know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CodexErrorInfo {
    ContextWindowExceeded,
    SessionBudgetExceeded,
    UsageLimitExceeded,
    RateLimitExceeded,
    ServerOverloaded,
    ModelNotFound,
    InternalServerError,
    Unauthorized,
    BadRequest,
    SandboxError,
    Other,
    HttpConnectionFailed {
        #[serde(default)]
        http_status_code: Option<u16>,
    },
    ResponseStreamConnectionFailed {
        #[serde(default)]
        http_status_code: Option<u16>,
    },
    ResponseStreamDisconnected {
        #[serde(default)]
        http_status_code: Option<u16>,
    },
    ResponseTooManyFailedAttempts {
        #[serde(default)]
        http_status_code: Option<u16>,
    },
    ActiveTurnNotSteerable {
        turn_kind: NonSteerableTurnKind,
    },
}

/// The kinds of turn that take no further input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NonSteerableTurnKind {
    Review,
    Compact,
}

/// One step of a turn's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnPlanStep {
    pub step: String,
    pub status: TurnPlanStepStatus,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnPlanStepStatus {
    Pending,
    InProgress,
    Completed,
}

/// Ext: what held when a turn began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnContext {
    pub cwd: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub roots: Vec<String>,
    pub policy: Policy,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub effort: Option<String>,
    /// Values of the agent's options, by option id.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub config_options: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub client_metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn_id: Option<String>,
}
