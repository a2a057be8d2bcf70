//! `config/read` and `configRequirements/read`: the part of the configuration existing clients look at.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{ApprovalsReviewer, AskForApproval, SandboxMode};
use crate::lenient::null_as_default;

/// Params of `config/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub include_layers: bool,
}

/// Result of `config/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadResult {
    pub config: Config,
    /// Where each value comes from, by key path.
    pub origins: BTreeMap<String, ConfigLayerMetadata>,
    /// The layers, strongest first, if they were asked for.
    #[serde(default)]
    pub layers: Option<Vec<ConfigLayer>>,
}

/// The values in force. Keys are spelled as in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub model_provider: Option<String>,
    #[serde(default)]
    pub model_reasoning_effort: Option<String>,
    #[serde(default)]
    pub model_context_window: Option<i64>,
    #[serde(default)]
    pub approval_policy: Option<AskForApproval>,
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default)]
    pub sandbox_mode: Option<SandboxMode>,
    #[serde(default)]
    pub instructions: Option<String>,
    #[serde(default)]
    pub developer_instructions: Option<String>,
}

/// A layer of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayer {
    pub name: ConfigLayerSource,
    pub version: String,
    /// The layer's own content.
    pub config: Value,
    #[serde(default)]
    pub disabled_reason: Option<String>,
}

/// A layer without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigLayerMetadata {
    pub name: ConfigLayerSource,
    /// Changes whenever the layer does.
    pub version: String,
}

/// Where a layer comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ConfigLayerSource {
    /// What holds when nothing is configured.
    PackagedDefaults { file: String },
    /// The home's `config.toml`.
    User {
        file: String,
        #[serde(default)]
        profile: Option<String>,
    },
    /// What the command line says.
    SessionFlags,
}

/// Params of `configRequirements/read`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRequirementsReadParams {}

/// Result of `configRequirements/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRequirementsReadResult {
    /// Always `null`: nobody above the user imposes anything.
    #[serde(default)]
    pub requirements: Option<ConfigRequirements>,
}

/// What an administrator would impose.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRequirements {
    #[serde(default)]
    pub allowed_approval_policies: Option<Vec<AskForApproval>>,
    #[serde(default)]
    pub allowed_sandbox_modes: Option<Vec<SandboxMode>>,
}
