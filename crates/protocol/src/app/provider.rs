//! `provider/list` (Ext) and `modelProvider/list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;

/// Params of `provider/list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProviderListParams {}

/// Result of `provider/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderListResult {
    pub data: Vec<ProviderInfo>,
}

/// A way to start an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderInfo {
    /// What `modelProvider` of `thread/start` takes.
    pub id: String,
    pub name: String,
    /// Whether its command is found on this machine.
    pub available: bool,
    /// Why it is not available, and what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The agent's version, once it has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How a user can log in, once the agent has told.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub auth_methods: Vec<AuthMethod>,
    /// Whether the agent asks for permission at all; if not, the policy cannot hold it back.
    pub mediated: bool,
    /// Whether threads get this provider when they name none.
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_default: bool,
}

/// A way to log in with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthMethod {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Params of `modelProvider/list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ModelProviderListParams {}

/// Result of `modelProvider/list`: the same providers in the form existing clients know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderListResult {
    pub data: Vec<ModelProviderSummary>,
    pub default_provider_id: String,
    pub can_change_default: bool,
}

/// A provider in the form existing clients know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderSummary {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub base_url: Option<String>,
    pub can_edit: bool,
    pub settings: ProviderSettings,
}

/// Settings of a provider. The form without settings of its own is the only one used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ProviderSettings {
    Openai,
}
