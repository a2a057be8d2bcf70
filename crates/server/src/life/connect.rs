//! The way to a home's server: connects to it, starts it if none runs, introduces the connection.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use signalbox_engine::offered_variables;
use signalbox_home::{Held, Holder, Home, HomeError, LockError, StartTurn};
use signalbox_protocol::greeting::{GREETING_PROTOCOL, Greeting, Welcome};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::introduce::{receive, send};
use super::launch::{self, Launch, LaunchError, STARTING};
use super::version::{VERSION, is_newer};
use crate::standalone::LEAVING;

/// How long a server may take to answer a greeting.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a server that has said that it leaves may take.
const LEAVES: Duration = LEAVING.saturating_add(Duration::from_secs(5));
/// How often a server may vanish between being found and answering.
const ATTEMPTS: usize = 8;
/// A server that leaves says nothing more; if it does, so much is read of it.
const LAST_BYTES: u64 = 1024;
/// Pause while a server accepts more slowly than clients come.
const CROWDED: Duration = Duration::from_millis(10);

/// A connection to a home's server, introduced.
#[derive(Debug)]
pub struct Connected {
    /// The connection; JSON-RPC goes over it from now on.
    pub stream: UnixStream,
    /// What the server said.
    pub welcome: Welcome,
    /// Whether the server was started for this connection.
    pub started: bool,
}

impl Connected {
    /// What people should be told about the server that was found: an older one that could not be replaced, settings that
    /// do not hold.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if is_newer(VERSION, &self.welcome.version) {
            notices.push(format!(
                "the running server is version {} and busy, this program is {VERSION}; the server is used as it is and \
                 replaced when it has nothing to do",
                self.welcome.version
            ));
        }
        for set in &self.welcome.ignored {
            notices.push(format!(
                "-c {set} does not hold: the server was started without it; set it in config.toml and run \
                 `signalbox stop`, or use --standalone"
            ));
        }
        notices
    }
}

/// No connection to a home's server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The socket's folder is not ours.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Whose turn it is to start the server cannot be known.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It does not run and cannot be started.
    #[error("the server of {} could not be started: {source}", home.display())]
    Launch {
        /// The home.
        home: PathBuf,
        /// Why.
        source: LaunchError,
    },
    /// Another program has been starting it for too long.
    #[error("another program has been starting the server for {} seconds; try again", STARTING.as_secs())]
    Waited,
    /// The socket cannot be used.
    #[error("cannot connect to {}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another user listens there.
    #[error("{} is the socket of another user; nothing was sent to it", path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
    },
    /// It runs and does not answer.
    #[error("the server{} does not answer; `signalbox stop --force` ends it", process(*pid))]
    Silent {
        /// Its process, if known.
        pid: Option<u32>,
    },
    /// It runs and refuses.
    #[error("the server refuses the connection: {0}")]
    Refused(String),
    /// It comes and goes.
    #[error("the server ended each time before it answered; its log is logs/server.log in the home")]
    Unsteady,
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// How this program introduces itself as `client`, with what agents may be given of `env` and with the `KEY=VALUE` of its
/// command line.
#[must_use]
pub fn greeting(
    client: &str,
    base_dir: &Path,
    env: &BTreeMap<String, String>,
    config: Vec<String>,
) -> Greeting {
    let offered = offered_variables().filter_map(|name| Some((name.to_owned(), env.get(name)?.clone())));
    Greeting {
        protocol: GREETING_PROTOCOL,
        version: VERSION.to_owned(),
        client: client.to_owned(),
        base_dir: Some(base_dir.display().to_string()),
        env: Some(offered.collect()),
        config,
        upgrade: true,
    }
}

/// Connects to the home's server and starts it if none runs: of any number of programs that try at the same time one
/// starts it. An older server that is idle is replaced, if the greeting says so.
///
/// # Errors
/// If it can be neither reached nor started. Nothing but the greeting was sent then.
pub async fn connect_home(
    home: &Home,
    mut greeting: Greeting,
    launch: &Launch,
) -> Result<Connected, ConnectError> {
    let mut started = false;
    for _ in 0..ATTEMPTS {
        if let Some(connected) = join(home, &mut greeting, started).await? {
            return Ok(connected);
        }
        let _turn = turn(home).await?;
        // Whoever had the turn before may have started it.
        if let Some(connected) = join(home, &mut greeting, started).await? {
            return Ok(connected);
        }
        let launched = launch::launch(home, launch).await;
        launched.map_err(|source| ConnectError::Launch { home: home.folder().to_owned(), source })?;
        started = true;
        if let Some(connected) = join(home, &mut greeting, started).await? {
            return Ok(connected);
        }
    }
    Err(ConnectError::Unsteady)
}

/// Connects to the home's server if it runs.
///
/// # Errors
/// If it runs and does not answer.
pub async fn find_server(home: &Home, mut greeting: Greeting) -> Result<Option<Connected>, ConnectError> {
    greeting.upgrade = false;
    join(home, &mut greeting, false).await
}

/// The turn to start the server.
async fn turn(home: &Home) -> Result<Option<StartTurn>, ConnectError> {
    if let Some(turn) = StartTurn::try_take(home)? {
        return Ok(Some(turn));
    }
    let home = home.clone();
    let wait = tokio::task::spawn_blocking(move || StartTurn::wait(&home));
    match tokio::time::timeout(STARTING, wait).await {
        Ok(Ok(turn)) => Ok(turn?),
        // The thread ends with the process.
        Ok(Err(_)) | Err(_) => Err(ConnectError::Waited),
    }
}

/// Greets the server. None if there is none, or the one that was there has gone.
async fn join(
    home: &Home,
    greeting: &mut Greeting,
    started: bool,
) -> Result<Option<Connected>, ConnectError> {
    let Some(mut stream) = reach(home).await? else { return Ok(None) };
    let answer = async {
        send(&mut stream, greeting).await?;
        receive::<Welcome>(&mut stream).await
    };
    let welcome = match tokio::time::timeout(ANSWER, answer).await {
        Ok(Ok(welcome)) => welcome,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the server has gone before it answered");
            return Ok(None);
        }
        Err(_) => {
            let pid = match Holder::current(home) {
                Held::By(holder) => Some(holder.pid),
                Held::Unknown | Held::Free => None,
            };
            return Err(ConnectError::Silent { pid });
        }
    };
    if let Some(error) = welcome.error {
        return Err(ConnectError::Refused(error));
    }
    if welcome.leaving {
        // Its end is the end of the connection. Whatever comes next is taken as it is.
        greeting.upgrade = false;
        let mut rest = Vec::new();
        let mut stream = stream.take(LAST_BYTES);
        if tokio::time::timeout(LEAVES, stream.read_to_end(&mut rest)).await.is_err() {
            return Err(ConnectError::Silent { pid: Some(welcome.pid) });
        }
        return Ok(None);
    }
    Ok(Some(Connected { stream, welcome, started }))
}

/// Connects to the socket. None if nobody listens.
async fn reach(home: &Home) -> Result<Option<UnixStream>, ConnectError> {
    home.prepare_socket()?;
    if let Some(stream) = knock(home.socket().to_owned()).await? {
        return Ok(Some(stream));
    }
    // A server that was started where other folders hold temporary files says in the lock where it listens.
    match Holder::current(home) {
        Held::By(holder) if holder.socket != home.socket() => knock(holder.socket).await,
        _ => Ok(None),
    }
}

async fn knock(path: PathBuf) -> Result<Option<UnixStream>, ConnectError> {
    let knocking = async {
        loop {
            match UnixStream::connect(&path).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(CROWDED).await,
                other => return other,
            }
        }
    };
    let stream = match tokio::time::timeout(ANSWER, knocking).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Ok(Err(source)) => return Err(ConnectError::Socket { path, source }),
        Err(_) => return Err(ConnectError::Silent { pid: None }),
    };
    let failed = |source| ConnectError::Socket { path: path.clone(), source };
    if stream.peer_cred().map_err(failed)?.uid() != rustix::process::getuid().as_raw() {
        return Err(ConnectError::Foreign { path });
    }
    Ok(Some(stream))
}
