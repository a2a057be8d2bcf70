//! How the agent of one thread is started where that differs from its provider.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ext: what of a provider's launch is another for one thread, in the words of `config.toml`. What is absent is as the
/// provider says. Takes an owner, because it says which program the server starts.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchParams {
    /// Program: a path, or a name looked up on the agent's `PATH`. Its arguments are those of `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments; without `command` those of the provider's own program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Variables set for it. Values are kept in memory only: after a restart of the server `thread/resume` takes them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Where its process starts: an existing directory, absolute. Absent: where the thread works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The agent's mode in which it asks before it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_mode: Option<String>,
    /// The agent's mode for policies that allow edits; without it `askMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_mode: Option<String>,
    /// The agent's mode for the policy `yolo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yolo_mode: Option<String>,
    /// Highest ACP version to offer: 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u16>,
}

// Variables carry secrets: only their names are shown.
impl fmt::Debug for LaunchParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchParams")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.as_ref().map(BTreeMap::keys))
            .field("cwd", &self.cwd)
            .field("ask_mode", &self.ask_mode)
            .field("edit_mode", &self.edit_mode)
            .field("yolo_mode", &self.yolo_mode)
            .field("protocol", &self.protocol)
            .finish()
    }
}

/// Ext: how a thread's agent is started where that differs from its provider. No values of variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadLaunch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Names of the variables that were set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
    /// Those of them, and of `mcpServers` (as `NAME.VARIABLE`), whose values this server does not have, or not any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_lost: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yolo_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u16>,
    /// Names of the MCP servers that are the thread's own, or turned off for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let env = BTreeMap::from([("API_KEY".to_owned(), "very-secret".to_owned())]);
        let shown = format!("{:?}", LaunchParams { env: Some(env), ..LaunchParams::default() });
        assert!(shown.contains("API_KEY") && !shown.contains("very-secret"), "{shown}");
    }
}
