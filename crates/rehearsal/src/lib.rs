//! The built-in agent: an ACP v1 agent without a model, honest when asked in prose and scripted when the
//! prompt holds directives. How a client sees each directive is told in `docs/rehearsal.md`.
//!
//! It is a process of its own, like every other agent: [`run`] is the whole `main` of that process, on real
//! stdio. [`serve`] is the same agent over any pair of streams, for tests.
//!
//! Two promises hold in every mode: nothing is run or changed without a permission that the client gave, and
//! no process of a command's group outlives the turn that started it.

mod agent;
mod command;
mod config;
mod files;
mod heard;
mod history;
mod lines;
mod memory;
mod options;
mod outbox;
mod peer;
mod play;
mod script;
mod session;
mod sessions;
mod stdio;
mod stream;
mod survey;
mod text;
mod turn;
mod visit;

use std::{io::Write as _, process::ExitCode};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    signal::unix::{SignalKind, signal},
};

pub use agent::Exit;
pub use options::{Options, OptionsError, Start};

/// The process's exit code when its environment holds a value that it cannot use.
const EXIT_USAGE: u8 = 2;
/// The process's exit code when stdio or the runtime cannot be had.
const EXIT_BROKEN: u8 = 1;

/// Serves one ACP client over this process's stdin and stdout until stdin ends, and returns the exit code.
///
/// Call it before any other runtime is built: it makes its own, with one thread. Options come from the
/// environment ([`Options::from_env`]). SIGTERM, SIGINT and SIGHUP end it as an end of stdin would, after the
/// children are killed.
#[must_use]
pub fn run() -> ExitCode {
    let options = match Options::from_env() {
        Ok(options) => options,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if let Start::Exit(code) = options.start {
        complain(&format!("leaving with code {code}, as asked by SIGNALBOX_REHEARSAL_START"));
        return ExitCode::from(code);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("no runtime: {error}"));
            return ExitCode::from(EXIT_BROKEN);
        }
    };
    let code = runtime.block_on(async {
        match stdio::open().and_then(|streams| Ok((streams, Signals::listen()?))) {
            Ok(((input, output), signals)) => {
                agent::serve_until(input, output, options, signals.first()).await.code()
            }
            Err(error) => {
                complain(&format!("stdio: {error}"));
                EXIT_BROKEN
            }
        }
    });
    // A read of a terminal cannot be interrupted; the process must not wait for it.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// Serves one ACP client over the two streams until the input ends, the output breaks or a script crashes.
///
/// Must run inside a tokio runtime with time and I/O enabled. When it returns, its tasks have ended and the
/// children they started are killed.
pub async fn serve<R, W>(input: R, output: W, options: Options) -> Exit
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    agent::serve_until(input, output, options, std::future::pending()).await
}

/// The signals that ask a process to end.
struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the first signal that comes.
    async fn first(mut self) -> u8 {
        tokio::select! {
            _ = self.term.recv() => 15,
            _ = self.int.recv() => 2,
            _ = self.hup.recv() => 1,
        }
    }
}

/// Writes one line to stderr. That it cannot be written is nothing that this process could tell anyone.
pub(crate) fn complain(text: &str) {
    let line = format!("rehearsal: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
