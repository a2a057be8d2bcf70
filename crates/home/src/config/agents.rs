//! `[agents]` and `[providers.NAME]`: what agents may do to start, and how each is started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// `[agents]`: what holds for every agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agents {
    /// Whether an agent that is not installed may be downloaded and run (`npx -y …`, `uvx …`). Default: no.
    pub downloads: bool,
    /// Names of more variables that every agent gets from whoever starts it.
    pub pass_env: Vec<String>,
    /// Whether everything that passes between us and an agent is logged, a file a thread. Default: no.
    pub log_traffic: bool,
}

/// `[providers.NAME]`: how to start an agent. What is absent is as built in; a custom provider needs `command`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ProviderConfig {
    /// Name for people.
    pub title: Option<String>,
    /// False: it is not used, and said to be turned off.
    pub enabled: Option<bool>,
    /// Program: a path, or a name to look up on the `PATH`.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Variables added to its environment. Never logged.
    pub env: BTreeMap<String, String>,
    /// Names of more variables that it gets from whoever starts it.
    pub pass_env: Vec<String>,
    /// Where it starts, absolute; else in the session's directory.
    pub cwd: Option<PathBuf>,
    /// The agent's mode in which it asks before it acts.
    pub ask_mode: Option<String>,
    /// The agent's mode for policies that allow edits; without it `ask_mode`.
    pub edit_mode: Option<String>,
    /// The agent's mode for the policy `yolo`.
    pub yolo_mode: Option<String>,
    /// Whether it asks at all before it acts; said of agents for which no policy can hold.
    pub mediated: Option<bool>,
    /// Highest ACP version to offer: 1 or 2.
    pub protocol: Option<u16>,
    /// Whether it reads `AGENTS.md` itself, so that it is not sent.
    pub reads_rules: Option<bool>,
    /// Whether it may be downloaded and run where it is not installed; else as `agents.downloads` says.
    pub download: Option<bool>,
    /// Whether its traffic is logged; else as `agents.log_traffic` says.
    pub log_traffic: Option<bool>,
    /// What to tell a user who has to log in.
    pub login_hint: Option<String>,
}

// Variables carry secrets: only their names are shown.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("title", &self.title)
            .field("enabled", &self.enabled)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("pass_env", &self.pass_env)
            .field("cwd", &self.cwd)
            .field("ask_mode", &self.ask_mode)
            .field("edit_mode", &self.edit_mode)
            .field("yolo_mode", &self.yolo_mode)
            .field("mediated", &self.mediated)
            .field("protocol", &self.protocol)
            .field("reads_rules", &self.reads_rules)
            .field("download", &self.download)
            .field("log_traffic", &self.log_traffic)
            .field("login_hint", &self.login_hint)
            .finish()
    }
}
