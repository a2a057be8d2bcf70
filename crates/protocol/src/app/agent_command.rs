//! `thread/command/list` and `thread/configOption/list` (Ext): what a thread's agent offers beside models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::ConfigOption;

/// A slash command that an agent takes at the beginning of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCommand {
    /// Without the slash.
    pub name: String,
    pub description: String,
    /// What to type after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Params of `thread/command/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCommandListParams {
    pub thread_id: String,
}

/// Result of `thread/command/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCommandListResult {
    /// In the agent's order; empty as long as it has told none.
    pub data: Vec<AgentCommand>,
}

/// Params of `thread/configOption/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadConfigOptionListParams {
    pub thread_id: String,
}

/// Result of `thread/configOption/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadConfigOptionListResult {
    /// As the agent told them last; empty as long as it has told none.
    pub options: Vec<ConfigOption>,
}
