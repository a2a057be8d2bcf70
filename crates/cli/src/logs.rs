//! Logs, to stderr or a server's file: `RUST_LOG` chooses what, `LOG_FORMAT=json` how.

use std::io::IsTerminal;

use signalbox_server::life::ServerLog;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Begins to log to stderr. `default` is what is logged unless `RUST_LOG` says otherwise.
pub(crate) fn init(default: &str) {
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    begin(default, std::io::stderr, coloured);
}

/// Begins to log to a server's own log.
pub(crate) fn init_to(default: &str, log: ServerLog) {
    begin(default, move || log.clone(), false);
}

fn begin<W>(default: &str, writer: W, coloured: bool)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let set = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|value| !value.is_empty());
    let filter = EnvFilter::builder().parse_lossy(set.as_deref().unwrap_or(default));
    // Where the log cannot be written (a full disk, a pipe that nobody reads any more), what would be logged is lost; told
    // on stderr as well, as is the default, it would be a panic of whoever logs.
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
    let begun = if std::env::var("LOG_FORMAT").is_ok_and(|format| format == "json") {
        logs.json().flatten_event(true).try_init()
    } else {
        logs.with_ansi(coloured).with_target(false).try_init()
    };
    // Only a second call could fail; then logs are on already.
    drop(begun);
}
