//! The configuration: plain values with defaults. How they are read is in [`keys`] and [`read`].

mod agents;
mod keys;
mod mcp;
mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub use agents::{Agents, ProviderConfig};
pub use mcp::{McpServerConfig, McpTransport};
pub use read::{ConfigError, Overridden};

/// A commented `config.toml` that says what holds without one.
pub const EXAMPLE: &str = include_str!("../../config.example.toml");

/// What `config.toml` and `-c` can set. The defaults are those of [`EXAMPLE`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Provider of new threads that name none. Default: `rehearsal`, the built-in one.
    pub default_provider: String,
    /// What holds for every agent.
    pub agents: Agents,
    /// Custom providers, and changes to built-in ones, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// MCP servers that agents are told to connect to, by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// The server process.
    pub server: Server,
    /// Where skills are looked for besides the usual folders.
    pub skills: Skills,
    /// Rules for agents that do not read them themselves.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_provider: "rehearsal".to_owned(),
            agents: Agents::default(),
            providers: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
            limits: Limits::default(),
            server: Server::default(),
            skills: Skills::default(),
            rules: Rules::default(),
        }
    }
}

/// `[skills]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skills {
    /// More folders whose subfolders are skills, absolute. What the project or the user's folders have goes first.
    pub roots: Vec<PathBuf>,
}

/// `[rules]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Rule files for every thread, absolute; agents get them before those of the project.
    pub files: Vec<PathBuf>,
}

/// `[limits]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest frame from a client. Default: 16 MiB.
    pub frame_bytes: usize,
    /// What may wait for one client. Default: 8 MiB.
    pub outbox_bytes: usize,
    /// Longest line from an agent. Default: 64 MiB. Lines of more than 1 MiB share a budget of 256 MiB, four times the longest
    /// line each.
    pub agent_line_bytes: usize,
    /// An agent's start, up to its answer to `initialize`. Default: 60 s.
    pub initialize: Duration,
    /// The same for an agent that is downloaded first. Default: 300 s.
    pub download: Duration,
    /// An agent's silence while it opens a session. Default: 120 s.
    pub session: Duration,
    /// An agent's time to stop after an interrupt; then it is killed. Default: 10 s.
    pub cancel: Duration,
    /// An agent's silence in a turn after which clients are told. Default: 60 s.
    pub stall: Duration,
    /// Time between the steps of stopping an agent: end of input, SIGTERM, SIGKILL. Default: 2 s.
    pub stop: Duration,
    /// An agent without turns and watchers is stopped after this. Default: 600 s.
    pub idle_agent: Duration,
    /// A thread without turns and subscribers leaves memory after this. Default: 1800 s.
    pub idle_thread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024 * 1024,
            outbox_bytes: 8 * 1024 * 1024,
            agent_line_bytes: 64 * 1024 * 1024,
            initialize: Duration::from_secs(60),
            download: Duration::from_secs(300),
            session: Duration::from_secs(120),
            cancel: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            stop: Duration::from_secs(2),
            idle_agent: Duration::from_secs(600),
            idle_thread: Duration::from_secs(1800),
        }
    }
}

/// `[server]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server leaves after this time without clients, listeners and turns; 0 is never. Default: 600 s.
    pub idle_exit: Duration,
    /// What happens to approvals that nobody is there to answer. Default: wait.
    pub unattended: Unattended,
}

impl Default for Server {
    fn default() -> Self {
        Self { idle_exit: Duration::from_secs(600), unattended: Unattended::Wait }
    }
}

/// What happens to an approval that nobody is there to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unattended {
    /// It waits.
    #[default]
    Wait,
    /// It is rejected at once.
    Reject,
    /// It waits this long, then it is rejected.
    WaitFor(Duration),
}

impl FromStr for Unattended {
    type Err = String;

    /// `wait`, `reject` or `wait:SECONDS`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "wait" => Ok(Self::Wait),
            None if text == "reject" => Ok(Self::Reject),
            Some(("wait", seconds)) if seconds.bytes().all(|byte| byte.is_ascii_digit()) => seconds
                .parse()
                .map(|seconds| Self::WaitFor(Duration::from_secs(seconds)))
                .map_err(|_| format!("{seconds:?} is no number of seconds")),
            _ => Err(format!("{text:?} is neither \"wait\" nor \"reject\" nor \"wait:SECONDS\"")),
        }
    }
}

impl fmt::Display for Unattended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("wait"),
            Self::Reject => f.write_str("reject"),
            Self::WaitFor(time) => write!(f, "wait:{}", time.as_secs()),
        }
    }
}
