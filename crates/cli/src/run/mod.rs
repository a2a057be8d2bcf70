//! `signalbox run`: one prompt, watched. Itself a client of the app-server API, of the home's server or of one in memory.

mod ask;
pub(crate) mod clean;
mod diff;
mod ending;
mod keyboard;
mod output;
mod screen;
mod session;
mod view;
mod wrap;

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use signalbox_client::{CallError, Client};
use signalbox_protocol::app::TurnStatus;
use signalbox_server::{Drained, Signals, Standalone};
use tokio_util::task::TaskTracker;

use crate::args::{Global, RunArgs};
use crate::connect;
use crate::details::with_details;
use crate::setup::{self, Prepared, SetupError, complain, told};
use crate::{EXIT_USAGE, logs};

use session::{Ending, Session};

const EXIT_FAILED: u8 = 1;
const EXIT_INTERRUPTED: u8 = 130;
/// How long a turn may take to begin after somebody has interrupted that.
const OPENED: Duration = Duration::from_secs(2);
/// Longest prompt that is read from stdin, in bytes: what a frame may hold, with room for its escapes.
const PROMPT_BYTES: u64 = 8 * 1024 * 1024;

/// Why a turn could not be watched to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// No server.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No prompt.
    #[error("the prompt cannot be read from stdin")]
    Stdin(#[source] io::Error),
    /// A prompt of nothing.
    #[error("the prompt is empty; say what the agent is to do, or - to read it from stdin")]
    NoPrompt,
    /// A prompt that no frame could hold.
    #[error("the prompt is longer than {PROMPT_BYTES} bytes")]
    LongPrompt,
    /// Not a directory.
    #[error("cannot work in {}", path.display())]
    Cwd {
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing to go on with.
    #[error("there is no thread of {} to go on with; leave --last out to begin one", cwd.display())]
    NoThread {
        /// The directory.
        cwd: PathBuf,
    },
    /// The server declined.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Terminal or signals cannot be used.
    #[error("the terminal cannot be used")]
    Terminal(#[source] io::Error),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
    /// The connection ended in the middle.
    #[error("the server ended before the turn did; what the agent had said until then is in the thread")]
    ServerGone,
}

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: RunArgs) -> ExitCode {
    // Logs would lie across what is shown; whoever wants them asks for them.
    logs::init("off");
    match run(global, args) {
        Ok(ending) => ending.into(),
        Err(error) => {
            complain(&explained(&error));
            ExitCode::from(match error {
                RunError::ServerGone | RunError::Output(_) => EXIT_FAILED,
                _ => EXIT_USAGE,
            })
        }
    }
}

fn run(global: &Global, mut args: RunArgs) -> Result<Ending, RunError> {
    let cwd = directory(args.cwd.as_deref())?;
    if args.prompt == "-" {
        args.prompt = read_prompt()?;
    }
    if args.prompt.trim().is_empty() {
        return Err(RunError::NoPrompt);
    }
    let prepared = setup::prepare(global, "run")?;
    let runtime = setup::runtime()?;
    let result = match args.standalone {
        true => runtime.block_on(serve_and_watch(prepared, args, cwd)),
        false => runtime.block_on(watch_in_server(prepared, args, cwd, &global.config)),
    };
    // A read of a terminal cannot be interrupted; the process must not wait for it.
    runtime.shutdown_background();
    result
}

/// Runs the turn in the home's server.
async fn watch_in_server(
    prepared: Prepared,
    args: RunArgs,
    cwd: PathBuf,
    sets: &[String],
) -> Result<Ending, RunError> {
    let mut signals = Signals::listen().map_err(RunError::Terminal)?;
    let Prepared { setup, warnings } = prepared;
    let open = async {
        let connected = connect::to_server(&setup, "run", sets).await?;
        let (reader, writer) = connected.stream.into_split();
        let (client, events) = Client::over_lines(reader, writer);
        Session::open(client, events, args, cwd, &warnings).await
    };
    let mut open = std::pin::pin!(open);
    let session = tokio::select! {
        session = &mut open => session?,
        _ = signals.next() => {
            // A turn that was asked for just now must not go on alone.
            if let Ok(Ok(session)) = tokio::time::timeout(OPENED, open).await {
                session.abandon().await;
            }
            return Ok(Ending::Turn(TurnStatus::Interrupted));
        }
    };
    session.watch(&mut signals).await
}

async fn serve_and_watch(prepared: Prepared, args: RunArgs, cwd: PathBuf) -> Result<Ending, RunError> {
    let mut signals = Signals::listen().map_err(RunError::Terminal)?;
    let Prepared { setup, warnings } = prepared;
    let server = Standalone::start(setup).await.map_err(SetupError::Start)?;
    let tasks = TaskTracker::new();
    let (client, events) = connect::in_memory(&server, &tasks);
    let result = match Session::open(client, events, args, cwd, &warnings).await {
        Ok(session) => session.watch(&mut signals).await,
        Err(error) => Err(error),
    };
    // The agent is stopped and everything stored before the process leaves; whoever is in a hurry says so again.
    if server.drain(&mut signals).await == Drained::Forced {
        return Ok(Ending::Turn(TurnStatus::Interrupted));
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        tasks.close();
        tasks.wait().await;
    })
    .await;
    result
}

/// The directory to work in, absolute.
fn directory(cwd: Option<&Path>) -> Result<PathBuf, RunError> {
    let path = cwd.unwrap_or(Path::new("."));
    let failed = |source| RunError::Cwd { path: path.to_owned(), source };
    let absolute = path.canonicalize().map_err(failed)?;
    if absolute.is_dir() { Ok(absolute) } else { Err(failed(io::Error::from(io::ErrorKind::NotADirectory))) }
}

fn read_prompt() -> Result<String, RunError> {
    if io::stdin().is_terminal() {
        complain("type the prompt, then Ctrl-D");
    }
    let mut prompt = String::new();
    io::stdin().take(PROMPT_BYTES + 1).read_to_string(&mut prompt).map_err(RunError::Stdin)?;
    if prompt.len() as u64 > PROMPT_BYTES { Err(RunError::LongPrompt) } else { Ok(prompt) }
}

/// An error with what would help.
fn explained(error: &RunError) -> String {
    let text = told(error);
    let RunError::Call(CallError::Refused(failure)) = error else {
        return match error {
            RunError::Setup(SetupError::Start(error)) => crate::setup::unstarted(error),
            _ => text,
        };
    };
    let text = with_details(&text, &failure.data);
    match failure.reason.as_str() {
        "provider_not_found" if !failure.data.contains_key("hint") => {
            format!(
                "{text}\n  `signalbox doctor` says which of them are installed; config.toml may name others. A server that \
                 runs knows those that were there when it started: `signalbox stop` ends it"
            )
        }
        _ => text,
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Turn(TurnStatus::Completed) => Self::SUCCESS,
            Ending::Turn(TurnStatus::Failed | TurnStatus::InProgress) => Self::from(EXIT_FAILED),
            Ending::Turn(TurnStatus::Interrupted) | Ending::Unread => Self::from(EXIT_INTERRUPTED),
        }
    }
}
