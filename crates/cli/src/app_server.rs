//! `signalbox app-server`: a server for other programs.

use std::process::ExitCode;

use signalbox_protocol::app::ConnectionRole;
use signalbox_rpc::Stdio;
use signalbox_server::{Drained, Listen, Signals, Standalone, bind};
use tokio_util::sync::CancellationToken;

use crate::args::{AppServerArgs, Global};
use crate::listeners::{self, ListenerArgs};
use crate::opened::{self, OpenedError};
use crate::setup::{self, complain, told};
use crate::{EXIT_FORCED, EXIT_USAGE, bridge, logs};

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: AppServerArgs) -> ExitCode {
    let listen = if args.stdio { Listen::Stdio } else { args.listen };
    logs::init("warn");
    let mut prepared = match setup::prepare(global, "app-server") {
        Ok(prepared) => prepared,
        Err(error) => return refuse(&error),
    };
    let mut sets = global.config.clone();
    if let Some(unattended) = args.unattended {
        sets.push(format!("server.unattended={unattended}"));
        prepared.setup.config.server.unattended = unattended;
    }
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    if listen == Listen::Stdio && !args.standalone {
        return bridge::main(prepared.setup, &sets);
    }
    let runtime = match setup::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&error),
    };
    let code = match listen {
        listen @ (Listen::Unix(_) | Listen::Tcp { .. }) if !args.standalone => {
            runtime.block_on(have_served(&prepared.setup, listen, &args.listener, &sets))
        }
        listen => runtime.block_on(serve(prepared.setup, listen, &args.listener)),
    };
    // What is blocked somewhere in the kernel must not hold up the end.
    runtime.shutdown_background();
    code
}

/// Has the home's server listen.
async fn have_served(
    setup: &signalbox_server::Setup,
    listen: Listen,
    listener: &ListenerArgs,
    sets: &[String],
) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return refuse(&error),
    };
    let options = match listener.options(local_role(&listen, listener)) {
        Ok(options) => options,
        Err(error) => return refuse(&error),
    };
    match opened::serve(setup, "app-server", sets, vec![(listen, options)], &mut signals).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ OpenedError::Gone) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
        Err(error) => refuse(&error),
    }
}

/// Existing clients expect that whoever asks for an address by name finds it open to this machine.
fn local_role(listen: &Listen, listener: &ListenerArgs) -> Option<ConnectionRole> {
    let loopback = matches!(listen, Listen::Tcp { address, .. } if address.ip().is_loopback());
    (loopback && !listener.asks_for_credentials()).then_some(ConnectionRole::Operator)
}

async fn serve(setup: signalbox_server::Setup, listen: Listen, listener: &ListenerArgs) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
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
    match listen {
        Listen::Stdio => {
            let stdio = match Stdio::take() {
                Ok(stdio) => stdio,
                Err(error) => return refuse(&error),
            };
            tokio::select! {
                reason = server.serve(stdio, "stdio") => tracing::info!(%reason, "the client has left"),
                signal = signals.next() => tracing::info!(signal, "leaving"),
            }
        }
        Listen::Unix(path) => {
            let door = match bind(&home, path.as_deref()) {
                Ok(door) => door,
                Err(error) => return refuse(&error),
            };
            tracing::info!(socket = %door.path().display(), "listening");
            tokio::select! {
                () = server.listen(door) => {}
                () = server.asked_to_leave() => tracing::info!("leaving, as asked"),
                signal = signals.next() => tracing::info!(signal, "leaving"),
            }
        }
        Listen::Tcp { address, tls } => {
            let options = match listener.options(local_role(&Listen::Tcp { address, tls }, listener)) {
                Ok(options) => options,
                Err(error) => return refuse(&error),
            };
            let door = match listeners::bind(address, tls, options) {
                Ok(door) => door,
                Err(error) => return refuse(&error),
            };
            listeners::announce(&door);
            tokio::select! {
                () = door.run(server.site().clone(), CancellationToken::new()) => {}
                () = server.asked_to_leave() => tracing::info!("leaving, as asked"),
                signal = signals.next() => tracing::info!(signal, "leaving"),
            }
        }
    }
    match server.drain(&mut signals).await {
        Drained::Whole => ExitCode::SUCCESS,
        Drained::Forced => ExitCode::from(EXIT_FORCED),
    }
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    complain(&told(error));
    ExitCode::from(EXIT_USAGE)
}
