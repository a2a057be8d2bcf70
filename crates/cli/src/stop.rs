//! `signalbox stop`: ends the home's server, in order if it can, and says what it ended.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signalbox_client::Client;
use signalbox_home::{Config, Held, Holder, Home, Starting};
use signalbox_protocol::app::{ServerHealthParams, ServerStopParams, ServerStopResult, method};
use signalbox_protocol::greeting::Welcome;
use signalbox_server::life::{ANSWER, ConnectError, Connected, find_server, greeting};
use tokio::time::Instant;

use crate::args::{Global, StopArgs};
use crate::setup::{self, SetupError, complain, told};
use crate::{EXIT_USAGE, logs};

/// It did not end.
const EXIT_FAILED: u8 = 1;
/// How long a server may take to end in order.
const IN_ORDER: Duration = Duration::from_secs(40);
/// How long it may take with --force, before it is killed.
const FORCED: Duration = Duration::from_secs(5);
/// How long a server that does not answer may take to heed SIGTERM.
const HUNG: Duration = Duration::from_secs(10);
/// How often the lock is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Why a server could not be stopped.
#[derive(Debug, thiserror::Error)]
enum StopError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("process {0} cannot be signalled")]
    Signal(u32, #[source] io::Error),
    #[error("process {0} does not end; `signalbox stop --force` kills it")]
    Stays(u32),
    #[error("a process that does not say who it is holds the lock of {0}")]
    Nameless(String),
    #[error("another program has been starting a server of {home} and does not say which process; try again")]
    Starts { home: String },
    #[error("cannot say it")]
    Output(#[source] io::Error),
}

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: &StopArgs) -> ExitCode {
    logs::init("off");
    match run(global, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ StopError::Setup(_)) => {
            complain(&told(&error));
            ExitCode::from(EXIT_USAGE)
        }
        Err(StopError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&told(&error));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn run(global: &Global, args: &StopArgs) -> Result<(), StopError> {
    let home = Home::locate(global.home.clone(), &|name| std::env::var_os(name)).map_err(SetupError::Home)?;
    // Said of what is wrong with the command line only; a broken config.toml must not keep a server alive.
    Config::default().apply_overrides(&global.config).map_err(SetupError::Config)?;
    let runtime = setup::runtime()?;
    let said = runtime.block_on(stop(&home, args.force))?;
    runtime.shutdown_background();
    writeln!(io::stdout(), "{said}").map_err(StopError::Output)
}

/// Stops whoever serves the home. Gives what to say.
async fn stop(home: &Home, force: bool) -> Result<String, StopError> {
    let begun = Instant::now();
    loop {
        // In this order: a start that has ended since then has left a server that is found.
        let starting = Starting::current(home);
        if let Some(said) = stop_one(home, force).await? {
            return Ok(said);
        }
        let Some(starting) = starting else {
            return Ok(format!("no server runs for {}", home.folder().display()));
        };
        if begun.elapsed() >= if force { FORCED } else { HUNG } {
            return stop_starting(home, starting, force).await;
        }
        // Nobody tells when another's child listens.
        tokio::time::sleep(LOOK).await;
    }
}

/// Stops the server that runs. None if none does.
async fn stop_one(home: &Home, force: bool) -> Result<Option<String>, StopError> {
    let base_dir = home.folder().to_owned();
    let found = match find_server(
        home,
        greeting("stop", &base_dir, &Default::default(), &Default::default(), Vec::new()),
    )
    .await
    {
        Ok(found) => found,
        // It hangs: the kernel knows who it is.
        Err(ConnectError::Silent { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(connected) = found else { return stop_by_signal(home, force).await };
    let pid = connected.welcome.pid;
    let Some(ended) = ask(connected).await else { return stop_by_signal(home, force).await };
    if gone(home, pid, if force { FORCED } else { IN_ORDER }).await {
        return Ok(Some(ended_in_order(&ended)));
    }
    if !force {
        return Err(StopError::Stays(pid));
    }
    kill(home, pid).await.map(Some)
}

/// Stops a process that is to be a server and comes to nothing.
async fn stop_starting(home: &Home, starting: Starting, force: bool) -> Result<String, StopError> {
    let Some(pid) = starting.pid else {
        return Err(StopError::Starts { home: home.folder().display().to_string() });
    };
    signal(pid, Signal::TERM)?;
    if !is_starting(home, pid, FORCED).await {
        return Ok(format!("ended process {pid}, which was to be the server"));
    }
    if !force {
        return Err(StopError::Stays(pid));
    }
    signal(pid, Signal::KILL)?;
    match is_starting(home, pid, FORCED).await {
        true => Err(StopError::Stays(pid)),
        false => Ok(format!("killed process {pid}, which was to be the server")),
    }
}

/// Whether this process is still to be the server after so long.
async fn is_starting(home: &Home, pid: u32, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while Starting::current(home).is_some_and(|starting| starting.pid == Some(pid)) {
        if Instant::now() >= until {
            return true;
        }
        tokio::time::sleep(LOOK).await;
    }
    false
}

/// What a server tells of itself.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) uptime_ms: u64,
    pub(crate) idle: bool,
    /// Addresses that are open besides the home's socket.
    pub(crate) listeners: Vec<String>,
}

/// Asks the home's server how it is; none if none listens.
///
/// # Errors
/// If there is one that does not answer.
pub(crate) async fn health(home: &Home) -> Result<Option<Health>, ConnectError> {
    let greeting = greeting("doctor", home.folder(), &Default::default(), &Default::default(), Vec::new());
    let Some(connected) = find_server(home, greeting).await? else { return Ok(None) };
    let Welcome { pid, version, idle, listeners, .. } = connected.welcome;
    let (reader, writer) = connected.stream.into_split();
    let (client, events) = Client::over_lines(reader, writer);
    drop(events);
    let asked = tokio::time::timeout(ANSWER, client.server_health(&ServerHealthParams {})).await;
    let Ok(Ok(health)) = asked else { return Err(ConnectError::Silent { pid: Some(pid) }) };
    Ok(Some(Health { pid, version, uptime_ms: health.uptime_ms, idle, listeners }))
}

/// Asks the server to leave. None if it does not answer, or is one that knows no such request.
async fn ask(connected: Connected) -> Option<ServerStopResult> {
    let (reader, writer) = connected.stream.into_split();
    let (client, events) = Client::over_lines(reader, writer);
    drop(events);
    let asked = async {
        client.initialize("signalbox-stop", env!("CARGO_PKG_VERSION")).await?;
        client.call(method::SERVER_STOP, &ServerStopParams {}).await
    };
    tokio::time::timeout(HUNG, asked).await.ok()?.ok()
}

/// Stops whoever holds the lock and cannot be asked. None if nobody does.
async fn stop_by_signal(home: &Home, force: bool) -> Result<Option<String>, StopError> {
    let holder = match holder(home).await {
        Held::Free => return Ok(None),
        Held::Unknown => return Err(StopError::Nameless(home.folder().display().to_string())),
        Held::By(holder) => holder,
    };
    signal(holder.pid, Signal::TERM)?;
    if gone(home, holder.pid, if force { FORCED } else { HUNG }).await {
        return Ok(Some(format!("ended signalbox {} (process {})", holder.role, holder.pid)));
    }
    if !force {
        return Err(StopError::Stays(holder.pid));
    }
    kill(home, holder.pid).await.map(Some)
}

async fn kill(home: &Home, pid: u32) -> Result<String, StopError> {
    signal(pid, Signal::KILL)?;
    match gone(home, pid, FORCED).await {
        true => {
            Ok(format!("killed process {pid}; turns that ran are ended as interrupted by the next server"))
        }
        false => Err(StopError::Stays(pid)),
    }
}

/// Who holds the lock; whoever is just starting or ending is given a moment.
async fn holder(home: &Home) -> Held {
    let until = Instant::now() + FORCED;
    loop {
        match Holder::current(home) {
            Held::Unknown if Instant::now() < until => tokio::time::sleep(LOOK).await,
            held => return held,
        }
    }
}

/// Waits until this process holds the lock no more, so long at most. The lock is the last that a server gives up.
async fn gone(home: &Home, pid: u32, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        match Holder::current(home) {
            Held::By(holder) if holder.pid == pid => {}
            Held::Unknown => {}
            Held::Free | Held::By(_) => return true,
        }
        if Instant::now() >= until {
            return false;
        }
        // Nobody tells when another's child has ended.
        tokio::time::sleep(LOOK).await;
    }
}

fn signal(pid: u32, signal: Signal) -> Result<(), StopError> {
    let failed = |error: io::Error| StopError::Signal(pid, error);
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidInput)))?;
    match kill_process(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(failed(error.into())),
    }
}

fn ended_in_order(ended: &ServerStopResult) -> String {
    let mut what = Vec::new();
    match ended.open_turns {
        0 => {}
        1 => what.push("1 turn was interrupted".to_owned()),
        turns => what.push(format!("{turns} turns were interrupted")),
    }
    match ended.other_connections {
        0 => {}
        1 => what.push("1 client was connected".to_owned()),
        clients => what.push(format!("{clients} clients were connected")),
    }
    let what = if what.is_empty() { "it had nothing to do".to_owned() } else { what.join(", ") };
    format!("ended the server (process {}): {what}", ended.pid)
}
