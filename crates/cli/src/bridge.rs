//! `signalbox app-server` on stdio: a bridge to the home's server.

use std::process::ExitCode;

use signalbox_rpc::Stdio;
use signalbox_server::bridge::{BridgeError, BridgeOptions, bridge};
use signalbox_server::life::{Launch, for_server, greeting};
use signalbox_server::{Setup, Signals};

use crate::EXIT_USAGE;
use crate::setup::{SetupError, complain, told};

/// Carries the client on stdin and stdout to the home's server. `sets` are the `KEY=VALUE` of the command line.
pub(crate) fn main(setup: Setup, sets: &[String]) -> ExitCode {
    match run(setup, sets) {
        Ok(code) => code,
        Err(error) => {
            complain(&told(&error));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn run(setup: Setup, sets: &[String]) -> Result<ExitCode, SetupError> {
    let options = BridgeOptions {
        greeting: greeting("bridge", &setup.base_dir, &setup.env, &setup.config, sets.to_vec()),
        launch: Launch::this_program(for_server(sets)).map_err(SetupError::Binary)?,
        max_frame_bytes: setup.config.limits.frame_bytes,
        home: setup.home,
    };
    // It only moves bytes: one thread is enough, and small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(SetupError::Runtime)?;
    let carried = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(BridgeError::Stdio)?;
        let stdio = Stdio::take().map_err(BridgeError::Stdio)?;
        bridge(options, stdio, &mut signals, complain).await
    });
    // What is blocked somewhere in the kernel must not hold up the end.
    runtime.shutdown_background();
    Ok(match carried {
        Ok(left) => {
            tracing::info!(?left, "the bridge leaves");
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&told(&error));
            match error {
                BridgeError::Stdio(_) | BridgeError::Connect(_) => ExitCode::from(EXIT_USAGE),
                BridgeError::Lost { .. } | BridgeError::Refused(_) => ExitCode::FAILURE,
            }
        }
    })
}
