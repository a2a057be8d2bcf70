//! `signalbox serve`: a server for clients on other programs, pages and machines.

use std::process::ExitCode;

use signalbox_protocol::app::ConnectionRole;
use signalbox_server::http::HttpDoor;
use signalbox_server::{Drained, Listen, Signals, Standalone, bind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{Global, ServeArgs};
use crate::listeners::{self, announce, tell};
use crate::opened::{self, OpenedError};
use crate::setup::{self, complain, told};
use crate::{EXIT_FORCED, EXIT_USAGE, logs};

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: &ServeArgs) -> ExitCode {
    logs::init("warn");
    let prepared = match setup::prepare(global, "serve") {
        Ok(prepared) => prepared,
        Err(error) => return refuse(&error),
    };
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = match setup::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&error),
    };
    let code = match args.standalone {
        true => runtime.block_on(serve(prepared.setup, args)),
        false => runtime.block_on(have_served(&prepared.setup, args, &global.config)),
    };
    // What is blocked somewhere in the kernel must not hold up the end.
    runtime.shutdown_background();
    code
}

/// Has the home's server listen.
async fn have_served(setup: &signalbox_server::Setup, args: &ServeArgs, sets: &[String]) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return refuse(&error),
    };
    let options = match args.listener.options(args.allow_local.then_some(ConnectionRole::Operator)) {
        Ok(options) => options,
        Err(error) => return refuse(&error),
    };
    let addresses = args.listen.iter().map(|listen| (listen.clone(), options.clone())).collect();
    match opened::serve(setup, "serve", sets, addresses, &mut signals).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ OpenedError::Gone) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
        Err(error) => refuse(&error),
    }
}

async fn serve(setup: signalbox_server::Setup, args: &ServeArgs) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return refuse(&error),
    };
    let options = match args.listener.options(args.allow_local.then_some(ConnectionRole::Operator)) {
        Ok(options) => options,
        Err(error) => return refuse(&error),
    };
    let home = setup.home.clone();
    let server = match Standalone::start(setup).await {
        Ok(server) => server,
        Err(error) => {
            complain(&setup::unstarted(&error));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let listeners = TaskTracker::new();
    let mut doors = Vec::new();
    // All of them, before anybody is let in through one.
    for listen in &args.listen {
        match listen {
            Listen::Tcp { address, tls } => match listeners::bind(*address, *tls, options.clone()) {
                Ok(door) => doors.push(door),
                Err(error) => return refuse(&error),
            },
            Listen::Unix(path) => match bind(&home, path.as_deref()) {
                Ok(door) => {
                    tell(&format!("listening on unix://{}", door.path().display()));
                    listeners.spawn(server.listen(door));
                }
                Err(error) => return refuse(&error),
            },
            Listen::Stdio => {
                complain("serve has no client on stdin and stdout; `signalbox app-server` has");
                return ExitCode::from(EXIT_USAGE);
            }
        }
    }
    if let Err(error) = hint(&server, &doors) {
        return refuse(&error);
    }
    for door in doors {
        listeners.spawn(door.run(server.site().clone(), CancellationToken::new()));
    }
    tokio::select! {
        signal = signals.next() => tracing::info!(signal, "leaving"),
        () = server.asked_to_leave() => tracing::info!("leaving, as asked"),
    }
    match server.drain(&mut signals).await {
        Drained::Whole => ExitCode::SUCCESS,
        Drained::Forced => ExitCode::from(EXIT_FORCED),
    }
}

/// Says where it listens, and how a client begins. The token itself stays in its file.
fn hint(server: &Standalone, doors: &[HttpDoor]) -> Result<(), signalbox_server::access::AccessError> {
    doors.iter().for_each(announce);
    let Some(door) = doors.iter().find(|door| !door.is_open()) else { return Ok(()) };
    server.access().home_token()?;
    let file = server.access().home_token_file();
    tell(&format!(
        "  curl -H \"Authorization: Bearer $(cat {})\" -H 'Content-Type: application/json' \\\n    \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/health\"}}' {}/rpc",
        file.display(),
        door.http_url(),
    ));
    Ok(())
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    complain(&told(error));
    ExitCode::from(EXIT_USAGE)
}
