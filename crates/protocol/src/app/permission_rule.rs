//! `permissionRule/*` and `thread/configOption/set` (Ext): what answers have left behind, and the agent's own options.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ops::{ConfigOption, SessionRule};

/// Params of `permissionRule/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRuleListParams {
    pub thread_id: String,
}

/// Result of `permissionRule/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRuleListResult {
    /// What "allow for this session" answers left, oldest first.
    pub data: Vec<SessionRule>,
}

/// Params of `permissionRule/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRuleRemoveParams {
    pub thread_id: String,
    /// One of `permissionRule/list`.
    pub rule: SessionRule,
}

/// Params of `thread/configOption/set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadConfigOptionSetParams {
    pub thread_id: String,
    /// An option that the agent has told, or will have once it runs.
    pub config_id: String,
    /// One of the option's choices. A JSON boolean is read as `true` or `false`.
    #[serde(deserialize_with = "choice_or_switch")]
    #[schemars(with = "String")]
    pub value: String,
}

/// Result of `thread/configOption/set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadConfigOptionSetResult {
    /// All options that are known, with what now holds.
    pub options: Vec<ConfigOption>,
}

fn choice_or_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    crate::ops::choice_or_switch(deserializer)
}
