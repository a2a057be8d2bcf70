//! The settings of a thread that hold from turn to turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::{ApprovalsReviewer, AskForApproval, SandboxPolicy};
use crate::ops::Policy;

/// All settings of a thread, as they stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    pub cwd: String,
    pub model: String,
    pub model_provider: String,
    #[serde(default)]
    pub effort: Option<String>,
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    #[serde(default)]
    pub service_tier: Option<String>,
    #[serde(default)]
    pub personality: Option<Personality>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox_policy: SandboxPolicy,
    pub collaboration_mode: CollaborationMode,
    /// Ext: the pair behind `approvalPolicy` and `sandboxPolicy`.
    #[serde(default)]
    pub policy: Policy,
}

/// How an agent works with its user; `default` is the only mode here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollaborationMode {
    pub mode: ModeKind,
    pub settings: CollaborationSettings,
}

/// The kinds of collaboration existing clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeKind {
    Plan,
    #[default]
    Default,
}

/// What a collaboration mode sets. The names are spelled as existing clients do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollaborationSettings {
    pub model: String,
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    #[serde(default)]
    pub developer_instructions: Option<String>,
}

/// How much of its reasoning an agent shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReasoningSummary {
    Auto,
    Concise,
    Detailed,
    None,
}

/// The tone of an agent, where it has such an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Personality {
    None,
    Friendly,
    Pragmatic,
}
