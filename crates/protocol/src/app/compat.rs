//! Small methods that existing clients call: a thread's name and settings, and lists that are short or empty here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AskForApproval, SandboxPolicy, TurnEnvironment};
use crate::lenient::null_as_default;
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

/// Params of `mcpServerStatus/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusListParams {
    /// All of them are in one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only the one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Not looked at: what is configured holds for all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Result of `mcpServerStatus/list`: the MCP servers of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusListResult {
    /// By name.
    pub data: Vec<McpServerStatus>,
    /// Always `null`.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// An MCP server of the configuration. Agents connect to it themselves, so what it offers is not known here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    pub name: String,
    /// Always empty.
    pub tools: BTreeMap<String, Value>,
    /// Always empty.
    pub resources: Vec<Value>,
    /// Always empty.
    pub resource_templates: Vec<Value>,
    pub auth_status: McpAuthStatus,
    /// Ext: the providers whose agents are told of it; empty: all.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// Ext: `stdio`, `http` or `sse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Ext: why an agent that this client starts is not told of it, such as a command that is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How an MCP server knows who connects to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpAuthStatus {
    /// Not told by the configuration.
    #[default]
    Unknown,
    /// A server on stdio.
    Unsupported,
    /// By a token of the configuration.
    BearerToken,
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
