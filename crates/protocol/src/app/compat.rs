//! Small methods that existing clients call: a thread's name and settings, and lists that are short or empty here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AskForApproval, SandboxPolicy, TurnEnvironment};
use crate::ops::PolicyPatch;

/// Params of `thread/name/set`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSetNameParams {
    /// The thread.
    pub thread_id: String,
    /// Its title from now on.
    pub name: String,
}

/// Params of `thread/settings/update`. What is absent stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdateParams {
    /// The thread.
    pub thread_id: String,
    /// An existing directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additional workspace roots, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
    /// The agent's own model id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort in the agent's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// When to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    /// The ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_policy: Option<SandboxPolicy>,
    /// An id of `permissionProfile/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Only `local` exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<TurnEnvironment>>,
    /// Ext: wins over `approvalPolicy` and `sandboxPolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPatch>,
}

/// A list that is empty here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyListResult {
    /// Always empty.
    pub data: Vec<Value>,
    /// Always `null`.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Result of `plugin/installed`: there are no plugins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginInstalledResult {
    /// Always empty.
    pub marketplaces: Vec<Value>,
    /// Always empty.
    pub marketplace_load_errors: Vec<Value>,
}

/// Result of `permissionProfile/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileListResult {
    /// All of them: each mode with each sandbox.
    pub data: Vec<PermissionProfileSummary>,
    /// Always `null`.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A policy by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileSummary {
    /// What `permissions` of `thread/start` takes.
    pub id: String,
    /// Always true.
    pub allowed: bool,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
}
