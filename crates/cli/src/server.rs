//! `signalbox server` (hidden): the home's server, as a process of its own that other commands start.

use std::collections::BTreeMap;
use std::process::ExitCode;

use signalbox_home::{Home, LockError};
use signalbox_server::life::{DetachedError, ROLE, Readiness, ServerLog, detached};
use signalbox_server::{Drained, StartError};

use crate::args::Global;
use crate::setup::{self, Prepared, SetupError, complain, told};
use crate::{EXIT_USAGE, logs};

/// Runs the subcommand.
pub(crate) fn main(global: &Global) -> ExitCode {
    // Ctrl-C at the terminal of whoever started it, or the end of that terminal, is none of its business. It leads its own
    // session already only if it was started by hand in a special way.
    let _ = rustix::process::setsid();
    let mut readiness = match Readiness::take() {
        Ok(readiness) => Some(readiness),
        Err(error) => {
            complain(&told(&error));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match run(global, &mut readiness) {
        Ok(Drained::Whole) => ExitCode::SUCCESS,
        Ok(Drained::Forced) => ExitCode::FAILURE,
        Err(error) => {
            let (text, is_served) = match &error {
                ServerError::Detached(DetachedError::Start(error)) => (explained(error), is_served(error)),
                error => (told(error), false),
            };
            tracing::error!("{text}");
            match readiness {
                Some(readiness) if is_served => readiness.held(text),
                Some(readiness) => readiness.failed(text),
                None => {}
            }
            ExitCode::from(EXIT_USAGE)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ServerError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("the log cannot be written")]
    Log(#[source] std::io::Error),
    #[error(transparent)]
    Detached(#[from] DetachedError),
}

fn run(global: &Global, readiness: &mut Option<Readiness>) -> Result<Drained, ServerError> {
    let home = Home::locate(global.home.clone(), &|name| std::env::var_os(name)).map_err(SetupError::Home)?;
    logs::init_to("info", ServerLog::open(&home).map_err(ServerError::Log)?);
    let Prepared { mut setup, warnings } = setup::prepare(global, "server")?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    // What agents get of the environment is each connection's.
    setup.env = BTreeMap::new();
    let runtime = setup::runtime()?;
    let drained = runtime.block_on(detached(setup, readiness));
    // What is blocked somewhere in the kernel must not hold up the end.
    runtime.shutdown_background();
    Ok(drained?)
}

/// Whether another such server has the home, which does as well.
fn is_served(error: &StartError) -> bool {
    match error {
        StartError::Lock(LockError::Held { holder, .. }) => {
            holder.as_ref().is_none_or(|holder| holder.role == ROLE)
        }
        _ => false,
    }
}

/// Why the server does not begin, with what would help.
fn explained(error: &StartError) -> String {
    let text = told(error);
    match error {
        StartError::Lock(LockError::Held { .. }) if is_served(error) => {
            format!(
                "{text}\n  one server is enough for a home: commands find it, and `signalbox stop` ends it"
            )
        }
        StartError::Lock(LockError::Held { .. }) => {
            format!("{text}\n  end that process, or use another home with --home DIR")
        }
        _ => text,
    }
}
