//! The way to a home's server: connects to it, starts it if none runs, introduces the connection.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use signalbox_home::{Config, Held, Holder, Home, HomeError, LockError, StartTurn, Starting};
use signalbox_protocol::greeting::{GREETING_PROTOCOL, Greeting, Welcome};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::detached::ROLE;
use super::introduce::{receive, send};
use super::launch::{self, Launch, LaunchError, STARTING};
use super::version::{VERSION, is_newer};
use crate::providers::offered_names;
use crate::standalone::LEAVING;

/// How long a server may take to answer a greeting, or a request that takes it no time.
pub const ANSWER: Duration = Duration::from_secs(10);
/// How long a server that has said that it leaves may take.
const LEAVES: Duration = LEAVING.saturating_add(Duration::from_secs(5));
/// How often a server may vanish between being found and answering.
const ATTEMPTS: usize = 8;
/// How often another server is started because the one that was being started was killed.
const KILLED: usize = 2;
/// Pause between looks at a server that others start.
const AGAIN: Duration = Duration::from_millis(10);
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
    #[error(
        "another program has been starting the server{} for {} seconds; `signalbox stop --force` ends that",
        process(*pid), STARTING.as_secs()
    )]
    Waited {
        /// The process that is to be the server, if known.
        pid: Option<u32>,
    },
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
    /// Something else listens there.
    #[error(
        "what listens on {} does not answer and is no server of this home; end that program (`fuser {}` names it), or \
         remove the socket", path.display(), path.display()
    )]
    Stranger {
        /// The socket.
        path: PathBuf,
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

/// How this program introduces itself as `client`, with what agents may be given of `env` as `config` says, and with the
/// `KEY=VALUE` of its command line.
#[must_use]
pub fn greeting(
    client: &str,
    base_dir: &Path,
    env: &BTreeMap<String, String>,
    config: &Config,
    sets: Vec<String>,
) -> Greeting {
    let offered =
        offered_names(config).into_iter().filter_map(|name| Some((name.clone(), env.get(&name)?.clone())));
    Greeting {
        protocol: GREETING_PROTOCOL,
        version: VERSION.to_owned(),
        client: client.to_owned(),
        base_dir: Some(base_dir.display().to_string()),
        env: Some(offered.collect()),
        config: sets,
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
    let mut killed = 0;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let mut turn = match turn(home, &mut greeting, started).await? {
            Turn::Needless(connected) => return Ok(*connected),
            Turn::Ours(turn) => turn,
        };
        last = match launch::launch(home, launch, &mut turn).await {
            Ok(()) => {
                started = true;
                None
            }
            // It is found in the next round.
            Err(error @ LaunchError::Held(_)) => Some(error),
            Err(error @ LaunchError::Ended { killed: true, .. }) if killed < KILLED => {
                tracing::warn!(%error, "starting another one");
                killed += 1;
                Some(error)
            }
            Err(source) => return Err(ConnectError::Launch { home: home.folder().to_owned(), source }),
        };
    }
    Err(match last {
        Some(source) => ConnectError::Launch { home: home.folder().to_owned(), source },
        None => ConnectError::Unsteady,
    })
}

/// Connects to the home's server if it runs.
///
/// # Errors
/// If it runs and does not answer.
pub async fn find_server(home: &Home, mut greeting: Greeting) -> Result<Option<Connected>, ConnectError> {
    greeting.upgrade = false;
    join(home, &mut greeting, false).await
}

/// What waiting for the turn to start the server comes to.
enum Turn {
    /// Somebody else has started it meanwhile.
    Needless(Box<Connected>),
    /// It is this program's.
    Ours(StartTurn),
}

/// Waits for the turn to start the server, or for the server that another program starts: whichever comes first.
async fn turn(home: &Home, greeting: &mut Greeting, started: bool) -> Result<Turn, ConnectError> {
    let begun = Instant::now();
    loop {
        if let Some(connected) = join(home, greeting, started).await? {
            return Ok(Turn::Needless(Box::new(connected)));
        }
        if let Some(turn) = StartTurn::try_take(home)? {
            // Whoever had the turn before may have started it.
            if let Some(connected) = join(home, greeting, started).await? {
                return Ok(Turn::Needless(Box::new(connected)));
            }
            match beginning(home) {
                None => return Ok(Turn::Ours(turn)),
                Some((pid, patience)) if begun.elapsed() >= patience => {
                    return Err(ConnectError::Silent { pid: Some(pid) });
                }
                Some(_) => {}
            }
        } else if begun.elapsed() >= STARTING {
            let pid = Starting::current(home).and_then(|starting| starting.pid);
            return Err(ConnectError::Waited { pid });
        }
        // Nobody tells when another's child listens.
        tokio::time::sleep(AGAIN).await;
    }
}

/// A server that has the home, does not leave and cannot be reached (yet): who it is, and how long it may take.
fn beginning(home: &Home) -> Option<(u32, Duration)> {
    let Held::By(holder) = Holder::current(home) else { return None };
    if holder.role != ROLE || holder.leaving {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = Duration::from_millis(holder.since_ms);
    let is_new = now.saturating_sub(since) < STARTING;
    Some((holder.pid, if is_new { STARTING } else { ANSWER }))
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
            let path = stream.peer_addr().ok().and_then(|peer| peer.as_pathname().map(Path::to_owned));
            return Err(silent(home, path.unwrap_or_else(|| home.socket().to_owned())));
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
    if let Some(stream) = knock(home, home.socket().to_owned()).await? {
        return Ok(Some(stream));
    }
    // A server that was started where other folders hold temporary files says in the lock where it listens.
    match Holder::current(home) {
        Held::By(holder) if holder.socket != home.socket() => knock(home, holder.socket).await,
        _ => Ok(None),
    }
}

/// Who does not answer at `path`: the server that has the home, or something that has nothing to do with it.
fn silent(home: &Home, path: PathBuf) -> ConnectError {
    match Holder::current(home) {
        Held::By(holder) => ConnectError::Silent { pid: Some(holder.pid) },
        Held::Unknown => ConnectError::Silent { pid: None },
        Held::Free => ConnectError::Stranger { path },
    }
}

/// Whether connecting has failed because the socket is not there, nobody listens on it, or whoever did has just ended.
fn nobody_listens(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected, NotFound,
    };
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected
    )
}

async fn knock(home: &Home, path: PathBuf) -> Result<Option<UnixStream>, ConnectError> {
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
        Ok(Err(error)) if nobody_listens(&error) => return Ok(None),
        Ok(Err(source)) => return Err(ConnectError::Socket { path, source }),
        Err(_) => return Err(silent(home, path)),
    };
    let failed = |source| ConnectError::Socket { path: path.clone(), source };
    if stream.peer_cred().map_err(failed)?.uid() != rustix::process::getuid().as_raw() {
        return Err(ConnectError::Foreign { path });
    }
    Ok(Some(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_has_just_ended_is_none() {
        for gone in
            [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset]
        {
            assert!(nobody_listens(&gone.into()), "{gone}");
        }
        assert!(!nobody_listens(&io::ErrorKind::PermissionDenied.into()));
    }
}
