//! What a caller says to start an agent and to open its session: plain data, and how its environment is put together.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use signalbox_facts::Provider;

use crate::vendors::Quirks;

/// How to start one agent.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    /// The provider it is started for; only named in messages.
    pub provider: Provider,
    /// Program: a path, or a name looked up on the `PATH` of `env`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; nothing is inherited. Built by [`environment`].
    pub env: Environment,
    /// Where the process starts; the session's working directory unless configured otherwise.
    pub cwd: PathBuf,
    /// Session modes in which this agent asks before it acts; the first one it offers is set. Empty: it always asks.
    pub ask_modes: Vec<String>,
    /// Session modes for policies that allow edits; empty: those of `ask_modes`.
    pub edit_modes: Vec<String>,
    /// Session modes for the policy `yolo`; the first one it offers is set. Empty: the agent's mode is left alone.
    pub yolo_modes: Vec<String>,
    /// Highest ACP version to offer: 1 or 2. An agent that answers with 1 is spoken to in that.
    pub protocol: u16,
    /// What is odd about this agent.
    pub quirks: Quirks,
    /// What to tell a user who does not have the command.
    pub install_hint: Option<String>,
    /// What to tell a user who has to log in, besides `signalbox login`.
    pub login_hint: Option<String>,
    /// Its command may first download the agent: it gets [`Limits::download`] instead of [`Limits::initialize`].
    pub downloads: bool,
}

/// Which session to open once the agent runs, and how.
#[derive(Clone, Debug, Default)]
pub struct OpenSession {
    /// The agent's login method to go through before its session is opened, for a user who has asked for that.
    pub authenticate: Option<String>,
    /// The session's working directory, absolute.
    pub cwd: PathBuf,
    /// Additional workspace roots, absolute; given to agents that take them ([`crate::AgentInfo::takes_roots`]).
    pub roots: Vec<PathBuf>,
    /// The agent's own id of an earlier session to go on with.
    pub resume: Option<String>,
    /// The history of the session that goes on is wanted: it comes as [`crate::AgentEvent::Replayed`] before the session is
    /// ready. Then the session is opened by `session/load` if the agent can, nothing is set in it, and there is no new one
    /// instead of it. Without `session/load` there is no history ([`crate::AgentInfo::replayed`]).
    pub replay: bool,
    /// The agent's model id; `None` leaves the agent's choice.
    pub model: Option<String>,
    /// Reasoning effort, a value of the agent's `thought_level` option; `None` leaves it.
    pub effort: Option<String>,
    /// Agent options by id, applied after model and effort.
    pub options: BTreeMap<String, Value>,
    /// What the policy leaves to the agent: chooses between `ask_modes`, `edit_modes` and `yolo_modes`.
    pub posture: Posture,
    /// Instructions, sent as system prompt to agents that take one ([`crate::AgentInfo::takes_instructions`]).
    pub instructions: Option<String>,
    /// MCP servers for the session; those whose transport the agent lacks are left out with a warning.
    pub mcp_servers: Vec<McpServer>,
    /// Where everything that passes between us and the agent is logged, if it is to be; one file a session.
    pub traffic_log: Option<PathBuf>,
    /// `_meta` of the opening request (trace context and the like).
    pub meta: Map<String, Value>,
}

/// How much a policy leaves to the agent itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Posture {
    /// It shall ask before it changes anything.
    #[default]
    Ask,
    /// It may edit inside the roots, and run what it confines itself.
    Edits,
    /// It need not ask.
    Loose,
}

/// An MCP server that the agent shall connect to.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// A process on stdio.
    Stdio {
        /// Absolute path of the program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Variables set for it.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// Where.
        url: String,
        /// Headers sent with each request.
        headers: BTreeMap<String, String>,
    },
    /// HTTP with server-sent events.
    Sse {
        /// Where.
        url: String,
        /// Headers sent with each request.
        headers: BTreeMap<String, String>,
    },
}

// Variables and headers carry secrets, so only their names are shown.
impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => {
                f.debug_struct("Http").field("url", url).field("headers", &headers.keys()).finish()
            }
            Self::Sse { url, headers } => {
                f.debug_struct("Sse").field("url", url).field("headers", &headers.keys()).finish()
            }
        }
    }
}

/// Deadlines and bounds. All durations are real time.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the start of the process to the answer of `initialize`.
    pub initialize: Duration,
    /// The same for an agent that is downloaded first.
    pub download: Duration,
    /// Longest silence of the agent while a `session/*` call waits for its answer.
    pub session: Duration,
    /// From `session/fork` to the copy of the conversation; then there is none.
    pub fork: Duration,
    /// From `session/cancel` to the answer of the prompt; then the processes are killed.
    pub cancel: Duration,
    /// Silence in a prompt (with nothing asked of the user) after which [`crate::AgentEvent::Stalled`] is sent.
    pub stall: Duration,
    /// Silence that ends the replay of a loaded session when the agent replays after its answer, or when the history is
    /// wanted; and after which an agent at rest, of which it is not certain that it was at work on the prompt, counts as
    /// done with it (version 2).
    pub replay_quiet: Duration,
    /// Time between the steps of the stop ladder: stdin closed, SIGTERM, SIGKILL.
    pub stop_grace: Duration,
    /// Longest line read from the agent. Lines of more than 1 MiB of all agents of a [`Supervisor`](crate::Supervisor) share a
    /// budget of 256 MiB, and each takes four times this of it: by default they are read one after another.
    pub line_bytes: usize,
    /// Bytes of events that may wait for the receiver before the agent's pipe is no longer read.
    pub queue_bytes: usize,
    /// Bytes kept of the end of stderr.
    pub stderr_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            initialize: Duration::from_secs(60),
            download: Duration::from_secs(300),
            session: Duration::from_secs(120),
            fork: Duration::from_secs(15),
            cancel: Duration::from_secs(10),
            stall: Duration::from_secs(120),
            replay_quiet: Duration::from_millis(500),
            stop_grace: Duration::from_secs(2),
            line_bytes: 64 << 20,
            queue_bytes: 1 << 20,
            stderr_bytes: 64 << 10,
        }
    }
}

/// The whole environment of an agent. `Debug` shows names only, because values are often secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Variables that every agent gets from this process.
const BASE: [&str; 10] =
    ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "TZ"];

/// The fixed base that every agent gets, out of this process's own environment.
#[must_use]
pub fn base_environment() -> BTreeMap<String, String> {
    BASE.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

/// Variables that every agent gets from whoever starts it: where programs are, how the network is reached, where
/// programs keep their files, and the desktop, for a browser and the key ring. No secrets of any service.
pub const PASSED: [&str; 25] = [
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "BROWSER",
];

/// The variables of a connection that some known agent may be given: [`PASSED`], and what the launch table names.
pub fn offered_variables() -> impl Iterator<Item = &'static str> {
    PASSED.into_iter().chain(crate::presets().iter().flat_map(|preset| preset.env.iter().copied()))
}

/// An agent's environment: `base` (see [`base_environment`]), then of `offered` (the variables of the connection that
/// started the thread) only [`PASSED`] and what `allowed` names, then what is `configured`. Later ones win.
#[must_use]
pub fn environment(
    base: BTreeMap<String, String>,
    offered: &BTreeMap<String, String>,
    allowed: &[impl AsRef<str>],
    configured: &BTreeMap<String, String>,
) -> Environment {
    let mut all = base;
    let names = PASSED.into_iter().chain(allowed.iter().map(AsRef::as_ref));
    all.extend(names.filter_map(|name| Some((name.to_owned(), offered.get(name)?.clone()))));
    all.extend(configured.iter().map(|(name, value)| (name.clone(), value.clone())));
    Environment(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_what_is_allowed_passes_and_configuration_wins() {
        let offered = map(&[
            ("PATH", "/bin"),
            ("HTTPS_PROXY", "p"),
            ("API_KEY", "k"),
            ("OTHER_SECRET", "s"),
            ("MODE", "client"),
        ]);
        let env = environment(
            map(&[("HOME", "/h")]),
            &offered,
            &["API_KEY", "MODE"],
            &map(&[("MODE", "configured")]),
        );
        let wanted = [
            ("API_KEY", "k"),
            ("HOME", "/h"),
            ("HTTPS_PROXY", "p"),
            ("MODE", "configured"),
            ("PATH", "/bin"),
        ];
        assert_eq!(env.0, map(&wanted));
    }

    #[test]
    fn debug_never_shows_values() {
        let env = Environment(map(&[("API_KEY", "very-secret")]));
        let server = McpServer {
            name: "m".into(),
            transport: McpTransport::Http {
                url: "u".into(),
                headers: map(&[("Authorization", "very-secret")]),
            },
        };
        let shown = format!("{env:?} {server:?}");
        assert!(
            shown.contains("API_KEY") && shown.contains("Authorization") && !shown.contains("very-secret")
        );
    }
}
