//! `[mcp_servers.NAME]`: the MCP servers that agents are told to connect to, in the words of Codex's configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// `[mcp_servers.NAME]`: a server on stdio (`command`) or behind a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// False: no agent is told of it. Default: true.
    pub enabled: bool,
    /// The providers whose agents are told of it; empty: all.
    pub providers: Vec<String>,
    /// Program of a server on stdio: a path, or a name to look up on the agent's `PATH`.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for it. Never logged.
    pub env: BTreeMap<String, String>,
    /// Names of variables that it gets from whoever starts the agent.
    pub env_vars: Vec<String>,
    /// Where a server over HTTP is.
    pub url: Option<String>,
    /// How it speaks there. Default: `http`.
    pub transport: McpTransport,
    /// Headers of each request. Never logged.
    pub http_headers: BTreeMap<String, String>,
    /// Headers whose values are those of variables: header name to variable name.
    pub env_http_headers: BTreeMap<String, String>,
    /// The variable that holds a bearer token for the `Authorization` header.
    pub bearer_token_env_var: Option<String>,
}

/// How a server behind a URL speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum McpTransport {
    /// Streamable HTTP.
    #[default]
    Http,
    /// The older HTTP with server-sent events.
    Sse,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            providers: Vec::new(),
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_vars: Vec::new(),
            url: None,
            transport: McpTransport::Http,
            http_headers: BTreeMap::new(),
            env_http_headers: BTreeMap::new(),
            bearer_token_env_var: None,
        }
    }
}

impl McpServerConfig {
    /// What does not fit together, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let of_url = !self.http_headers.is_empty()
            || !self.env_http_headers.is_empty()
            || self.bearer_token_env_var.is_some();
        let of_command = !self.args.is_empty() || !self.env.is_empty() || !self.env_vars.is_empty();
        match (&self.command, &self.url) {
            (None, None) => Some("needs a `command` or a `url`"),
            (Some(_), Some(_)) => Some("has both a `command` and a `url`; leave one out"),
            (Some(_), None) if of_url || self.transport != McpTransport::Http => {
                Some("has a `command`, so it takes no headers, token or `transport`")
            }
            (None, Some(_)) if of_command => Some("has a `url`, so it takes no `args`, `env` or `env_vars`"),
            _ => None,
        }
    }

    /// The variables that it wants of whoever starts the agent.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<&str> {
        let names =
            self.env_vars.iter().chain(self.env_http_headers.values()).chain(&self.bearer_token_env_var);
        names.map(String::as_str).collect()
    }
}

// Variables and headers carry secrets: only their names are shown. So may the query of a URL.
impl fmt::Debug for McpServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_deref().map(|url| url.split(['?', '#']).next().unwrap_or_default());
        f.debug_struct("McpServerConfig")
            .field("enabled", &self.enabled)
            .field("providers", &self.providers)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("env_vars", &self.env_vars)
            .field("url", &url)
            .field("transport", &self.transport)
            .field("http_headers", &self.http_headers.keys())
            .field("env_http_headers", &self.env_http_headers)
            .field("bearer_token_env_var", &self.bearer_token_env_var)
            .finish()
    }
}
