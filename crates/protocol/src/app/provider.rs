//! `provider/list`, `provider/check`, `provider/login` (Ext) and `modelProvider/list`.

use std::collections::BTreeMap;

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
    /// Whether it can be started on this machine: its command is found, or may be downloaded.
    pub available: bool,
    /// Why it is not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What would make it available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// It is not installed: its command downloads it first, which takes time.
    #[serde(default, deserialize_with = "null_as_default")]
    pub downloads: bool,
    /// It is turned off in the configuration.
    #[serde(default, deserialize_with = "null_as_default")]
    pub disabled: bool,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The agent's version, once it has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether a user has to log in, and how.
    #[serde(default, deserialize_with = "null_as_default")]
    pub login: LoginInfo,
    /// The same as `login.methods`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub auth_methods: Vec<AuthMethod>,
    /// How the agent failed last, if it has not worked since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<ProviderFailure>,
    /// Whether the agent asks for permission at all; if not, the policy cannot hold it back.
    pub mediated: bool,
    /// Whether threads get this provider when they name none.
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_default: bool,
}

/// Whether a user has to log in with an agent, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginInfo {
    /// Whether a login is needed, as far as the agent's last starts have shown.
    #[serde(default, deserialize_with = "null_as_default")]
    pub required: LoginRequired,
    /// The agent's ways to log in, once it has told.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<AuthMethod>,
    /// What to do, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Whether a login is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LoginRequired {
    /// The agent has asked for one, and not worked since.
    Yes,
    /// The agent has answered a prompt, or opened a session where it had refused one.
    No,
    /// It has not been started, or not far enough to tell: many agents open sessions without a login.
    #[default]
    Unknown,
}

/// A way to log in with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuthMethod {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `agent` (the agent does it itself: `provider/login`), `terminal` (a command to run in a terminal), or another word of
    /// the agent's own.
    #[serde(default, deserialize_with = "null_as_default")]
    pub kind: String,
    /// Of `terminal`: the program and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Of `terminal`: variables to set for it besides those of the terminal.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How an agent failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderFailure {
    /// Stable word, such as `agent_auth_required`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// What would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The end of what it wrote to stderr, of a failure just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// The end of what it wrote to stdout that was not ACP, of a failure just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_tail: Option<String>,
    /// When, Unix milliseconds.
    pub at: i64,
}

/// Params of `provider/check`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCheckParams {
    /// The provider's name.
    pub provider: String,
    /// Also open a session, in an empty temporary directory: that tells whether a login is needed, and the models.
    #[serde(default, deserialize_with = "null_as_default")]
    pub session: bool,
}

/// Result of `provider/check`: what a start of the agent has told. It is an answer also where the start has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCheckResult {
    pub provider: String,
    /// Whether everything that was asked for has worked.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ProviderFailure>,
    /// What the agent said about itself, if it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentDescription>,
    pub login: LoginInfo,
    /// What the start has warned of.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What an agent said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDescription {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The ACP version spoken.
    pub protocol: u16,
    pub capabilities: AgentCapabilities,
    /// Names of its models; only where a session was opened.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Ids of its session modes; only where a session was opened.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<String>,
}

/// What an agent can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub struct AgentCapabilities {
    /// Takes images in prompts.
    pub images: bool,
    /// Takes audio in prompts.
    pub audio: bool,
    /// Takes embedded resources in prompts.
    pub resources: bool,
    /// Reaches MCP servers over HTTP.
    pub mcp_http: bool,
    /// Reaches MCP servers over HTTP with server-sent events.
    pub mcp_sse: bool,
    /// Goes on with an earlier session, with or without its history.
    pub resume: bool,
    /// Copies a session.
    pub fork: bool,
    /// Lists its sessions.
    pub list: bool,
}

/// Params of `provider/login`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLoginParams {
    /// The provider's name.
    pub provider: String,
    /// The id of one of its methods; may be left out where there is one only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method_id: Option<String>,
}

/// Result of `provider/login`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ProviderLoginResult {
    /// The user is logged in: the agent has opened a session afterwards.
    Done {
        /// By this method.
        method: AuthMethod,
        /// The end of what the agent wrote to stderr meanwhile.
        #[serde(default, rename = "stderrTail", skip_serializing_if = "Option::is_none")]
        stderr_tail: Option<String>,
        /// Addresses that the agent asked to be opened.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<String>,
    },
    /// The method's command is to be run in a terminal by the caller; `provider/check` tells what came of it.
    Terminal { method: AuthMethod },
}

/// Params of `provider/login/answer`: what became of an address that the agent asked to be opened during its login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLoginAnswerParams {
    /// The provider's name.
    pub provider: String,
    /// From `provider/login/progress`.
    pub request_id: u64,
    /// The user has opened it, or will; else the agent is told that the user does not want to.
    pub accept: bool,
}

/// Ext: what a user must see while the agent logs in. Told to the connection that asked for the login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLoginProgressNotification {
    /// The provider's name.
    pub provider: String,
    #[serde(flatten)]
    pub progress: LoginProgress,
}

/// What happens during a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoginProgress {
    /// A piece of what the agent writes to stderr, not always whole lines; at most 256 KiB of one login.
    Output { text: String },
    /// The agent asks to open an address. It is for the user to open; the server never does. Answered by
    /// `provider/login/answer`.
    Address {
        /// For the answer.
        request_id: u64,
        /// What it is for, by the agent.
        message: String,
        /// `http` or `https`.
        url: String,
    },
    /// An address needs no answer any more.
    AddressDone { request_id: u64 },
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
