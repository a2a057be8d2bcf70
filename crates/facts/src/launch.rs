//! What of a session's agent is started otherwise than its provider says. Values of variables and headers are secrets and no
//! part of it, only their names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a session's agent is started where that differs from its provider. What is absent is as the provider says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Launch {
    /// Program: a path, or a name looked up on the agent's `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments; without `command` those of the provider's own program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Names of the variables that were set for it, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
    /// Where its process starts, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Its mode in which it asks before it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_mode: Option<String>,
    /// Its mode for policies that allow edits; without it `ask_mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_mode: Option<String>,
    /// Its mode for the policy yolo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yolo_mode: Option<String>,
    /// Highest ACP version to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u16>,
    /// MCP servers of its own by name; one of the configuration with the same name is not there for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpLaunch>,
}

/// An MCP server of one session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum McpLaunch {
    /// None: the one of the configuration is turned off.
    Off,
    /// A process on stdio.
    Stdio {
        /// Program: a path, or a name on the agent's `PATH`.
        command: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// Names of the variables that were set for it, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env_names: Vec<String>,
        /// Names of variables of whoever starts the agent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env_vars: Vec<String>,
    },
    /// A URL.
    Url {
        /// Where.
        url: String,
        /// The older transport with server-sent events.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        sse: bool,
        /// Names of the headers that were set, sorted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        header_names: Vec<String>,
        /// Headers whose values are variables of whoever starts the agent: header to variable.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env_headers: BTreeMap<String, String>,
        /// The variable with the bearer token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bearer: Option<String>,
    },
}

impl McpLaunch {
    /// Names of the variables or headers whose values are kept in memory only.
    #[must_use]
    pub fn secret_names(&self) -> &[String] {
        match self {
            Self::Off => &[],
            Self::Stdio { env_names, .. } => env_names,
            Self::Url { header_names, .. } => header_names,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_not_written_and_reads_as_absent() {
        assert_eq!(serde_json::to_string(&Launch::default()).unwrap(), "{}");
        let launch: Launch = serde_json::from_str(
            r#"{"command":"x","env_names":["KEY"],"mcp_servers":{"a":{"kind":"off"},"b":{"kind":"url","url":"http://h"}}}"#,
        )
        .unwrap();
        assert_eq!(launch.mcp_servers["a"], McpLaunch::Off);
        let again: Launch = serde_json::from_str(&serde_json::to_string(&launch).unwrap()).unwrap();
        assert_eq!(again, launch);
    }
}
