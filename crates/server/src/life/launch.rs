//! Starting a home's server as a process of its own, and hearing from it whether it is ready.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signalbox_home::{Home, HomeError, LockError, StartTurn};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use super::log::{self, TAIL_BYTES};

/// The hidden subcommand that is the server.
const SUBCOMMAND: &str = "server";
/// How long a server may take to say whether it is ready: it may have to wait for one that is leaving.
pub(super) const STARTING: Duration = Duration::from_secs(60);
/// How long a server may take to end that has closed its standard output without a word.
const ENDING: Duration = Duration::from_secs(5);
/// Longest line in which it says so.
const LINE_BYTES: u64 = 64 * 1024;
/// What a server takes along of its starter's environment: the base that every agent gets, where sockets may lie, and how
/// to log. Everything else belongs to connections.
const KEPT: [&str; 14] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TERM",
    "TZ",
    "XDG_RUNTIME_DIR",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LOG_FORMAT",
];

/// How to start the server.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, whose subcommand `server` is the server.
    pub program: PathBuf,
    /// `-c KEY=VALUE` for the server as a whole.
    pub config: Vec<String>,
    /// Gives the value of a variable of the starter's environment.
    pub env: fn(&str) -> Option<OsString>,
}

impl Launch {
    /// This very program, with these `KEY=VALUE`.
    ///
    /// # Errors
    /// If the program does not know where it lies.
    pub fn this_program(config: Vec<String>) -> io::Result<Self> {
        let mut program = std::env::current_exe()?;
        // A program that was replaced while it runs is called so on Linux; its successor lies in its place.
        if let Some(path) = program.to_str().and_then(|path| path.strip_suffix(" (deleted)"))
            && Path::new(path).exists()
        {
            program = PathBuf::from(path);
        }
        Ok(Self { program, config, env: |name| std::env::var_os(name) })
    }
}

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No place for its log.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its log cannot be written.
    #[error("cannot write {}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program does not start.
    #[error("cannot start {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Whose turn it is cannot be passed on.
    #[error(transparent)]
    Turn(Box<LockError>),
    /// Another server has the home.
    #[error("{0}")]
    Held(String),
    /// It said why it cannot serve.
    #[error("{0}")]
    Refused(String),
    /// It ended without a word.
    #[error("the server ended before it was ready{}", told(said))]
    Ended {
        /// What it logged last.
        said: String,
        /// It was killed, by nobody who only wants its end: another may do better.
        killed: bool,
    },
    /// It says nothing.
    #[error("the server (process {pid}) was not ready within {} seconds{}", STARTING.as_secs(), told(said))]
    Silent {
        /// Its process.
        pid: u32,
        /// What it logged last.
        said: String,
    },
}

fn told(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; its log ends so:\n{said}") }
}

/// What a server says on the pipe to its starter, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Ready,
    /// Another server has the home.
    Held(String),
    Failed(String),
}

/// Starts the server and waits until it listens, in the turn of this program.
pub(super) async fn launch(home: &Home, launch: &Launch, turn: &mut StartTurn) -> Result<(), LaunchError> {
    let path = log::path(home)?;
    let log = log::open(&path).map_err(|source| LaunchError::Log { path: path.clone(), source })?;
    let before = log.metadata().map(|meta| meta.len()).unwrap_or_default();
    #[allow(clippy::disallowed_methods, reason = "the environment is cleared in the next lines")]
    let mut command = Command::new(&launch.program);
    command.env_clear();
    command.envs(KEPT.iter().filter_map(|name| Some((name, (launch.env)(name)?))));
    command.arg(SUBCOMMAND).arg("--home").arg(home.folder());
    for set in &launch.config {
        command.arg("-c").arg(set);
    }
    // Its standard output is how it says that it is ready; then it has none.
    command.current_dir(home.folder()).stdout(Stdio::piped()).stderr(log);
    // Its standard input is the turn: whatever happens to this process, nobody starts another one before this one is ready.
    let failed = |source| LaunchError::Spawn { program: launch.program.clone(), source };
    command.stdin(Stdio::from(turn.share().map_err(failed)?));
    let spawned = command.spawn();
    let mut child =
        spawned.map_err(|source| LaunchError::Spawn { program: launch.program.clone(), source })?;
    // A child that ends while this process lives is awaited by the runtime.
    let pid = child.id().unwrap_or_default();
    turn.names(pid).map_err(|error| LaunchError::Turn(Box::new(error)))?;
    let mut line = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout.take(LINE_BYTES));
        // What cannot be read is as good as nothing said.
        if tokio::time::timeout(STARTING, stdout.read_until(b'\n', &mut line)).await.is_err() {
            return Err(LaunchError::Silent { pid, said: tail(&path, before) });
        }
    }
    match serde_json::from_slice(&line) {
        Ok(Said::Ready) => Ok(()),
        Ok(Said::Failed(why)) => Err(LaunchError::Refused(why)),
        Ok(Said::Held(why)) => Err(LaunchError::Held(why)),
        Err(_) => {
            let ended = tokio::time::timeout(ENDING, child.wait()).await;
            let signal = ended.ok().and_then(Result::ok).and_then(|status| status.signal());
            // SIGTERM is what somebody sends who wants no server now.
            let killed = signal.is_some_and(|signal| signal != rustix::process::Signal::TERM.as_raw());
            Err(LaunchError::Ended { said: tail(&path, before), killed })
        }
    }
}

/// The end of what was logged since then.
fn tail(path: &Path, since: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(since.max(end.saturating_sub(TAIL_BYTES))))?;
        let mut text = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut text)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&text).trim().to_owned())
    };
    read().unwrap_or_default()
}

/// The server's end of the pipe to its starter, and the turn to start. Dropped without a word, the starter looks into the
/// log.
#[derive(Debug)]
pub struct Readiness {
    pipe: File,
    /// Held by being open. None if the server was not started with anything on standard input.
    _turn: Option<OwnedFd>,
}

impl Readiness {
    /// Takes standard output and standard input away from everything else in the process: afterwards the one goes where
    /// standard error goes, and the other is empty. To be called first thing in `main`, and once.
    ///
    /// # Errors
    /// When a descriptor is closed or cannot be copied.
    pub fn take() -> io::Result<Self> {
        let pipe = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        rustix::stdio::dup2_stdout(io::stderr().as_fd())?;
        let turn = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3).ok();
        rustix::stdio::dup2_stdin(File::open("/dev/null")?.as_fd())?;
        Ok(Self { pipe: pipe.into(), _turn: turn })
    }

    /// The server listens.
    pub fn ready(self) {
        self.say(&Said::Ready);
    }

    /// Another server has the home.
    pub fn held(self, why: String) {
        self.say(&Said::Held(why));
    }

    /// The server cannot serve, and why.
    pub fn failed(self, why: String) {
        self.say(&Said::Failed(why));
    }

    fn say(mut self, said: &Said) {
        // A starter that has gone does not need to know.
        if let Ok(mut line) = serde_json::to_vec(said) {
            line.push(b'\n');
            if let Err(error) = self.pipe.write_all(&line) {
                tracing::debug!(%error, "whoever started this server has gone");
            }
        }
    }
}
