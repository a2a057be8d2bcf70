//! How the agent of one session is started where that differs from its provider.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ext: what is absent is as the provider says. Takes an owner, because it says which programs the server starts. Values of
/// `env` and of headers are kept in memory only and are in no event.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionLaunch")]
pub struct Launch {
    /// Program: a path, or a name looked up on the agent's `PATH`. Its arguments are those of `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments; without `command` those of the provider's own program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Variables set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where its process starts: an existing directory, absolute. Absent: where the session works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The agent's mode in which it asks before it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_mode: Option<String>,
    /// The agent's mode for policies that allow edits; without it `ask_mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_mode: Option<String>,
    /// The agent's mode for the policy `yolo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yolo_mode: Option<String>,
    /// Highest ACP version to offer: 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u16>,
    /// MCP servers of the session's own by name; one of the configuration with the same name is replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
}

/// Ext: an MCP server of one session: on stdio (`command`) or behind a URL (`url`). Keys are those of `config.toml`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionMcpServer")]
pub struct McpServer {
    /// False: the session has no server of this name, also if the configuration has one.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Program: a path, or a name on the agent's `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of variables that it gets of whoever starts the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_vars: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The server behind `url` speaks the older HTTP with server-sent events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sse: bool,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub http_headers: BTreeMap<String, String>,
    /// Headers whose values are variables of whoever starts the agent: header name to variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_http_headers: BTreeMap<String, String>,
    /// The variable that holds a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token_env_var: Option<String>,
}

fn yes() -> bool {
    true
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            enabled: true,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_vars: Vec::new(),
            url: None,
            sse: false,
            http_headers: BTreeMap::new(),
            env_http_headers: BTreeMap::new(),
            bearer_token_env_var: None,
        }
    }
}

// Variables carry secrets: only their names are shown.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .field("mcp_servers", &self.mcp_servers)
            .finish_non_exhaustive()
    }
}

// So do headers, and the query of a URL.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("enabled", &self.enabled)
            .field("command", &self.command)
            .field("env", &self.env.keys())
            .field("http_headers", &self.http_headers.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let of = |name: &str| BTreeMap::from([(name.to_owned(), "very-secret".to_owned())]);
        let server = McpServer { env: of("TOKEN"), http_headers: of("X-Key"), ..McpServer::default() };
        let launch = Launch {
            env: of("API_KEY"),
            mcp_servers: BTreeMap::from([("m".to_owned(), server)]),
            ..Launch::default()
        };
        let shown = format!("{launch:?}");
        assert!(["API_KEY", "TOKEN", "X-Key"].iter().all(|name| shown.contains(name)), "{shown}");
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}
