//! From the command line to a server's setup: home, configuration, the built-in agent's command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use signalbox_home::{Config, ConfigError, Home, HomeError};
use signalbox_server::life::ConnectError;
use signalbox_server::{GUARD, REHEARSAL, Setup, StartError};

use crate::args::Global;

/// A command could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// No home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No current directory.
    #[error("the current directory cannot be used")]
    BaseDir(#[source] std::io::Error),
    /// Where this program lies is not known.
    #[error("this program cannot find itself")]
    Binary(#[source] std::io::Error),
    /// No runtime.
    #[error("no runtime")]
    Runtime(#[source] std::io::Error),
    /// No server.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No way to the home's server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// What a command runs with.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) setup: Setup,
    /// About `-c` arguments; to be shown where the command shows warnings.
    pub(crate) warnings: Vec<String>,
}

/// Finds the home and reads the configuration.
pub(crate) fn prepare(global: &Global, role: &'static str) -> Result<Prepared, SetupError> {
    let home = Home::locate(global.home.clone(), &|name| std::env::var_os(name))?;
    let mut config = Config::load(&home.config_file())?;
    let mut warnings = config.apply_overrides(&global.config)?.warnings;
    if home.is_open_to_others() {
        let path = home.folder().display();
        warnings.push(format!("other users can look into {path}: chmod 700 {path}"));
    }
    let setup = Setup {
        home,
        config,
        role,
        base_dir: std::env::current_dir().map_err(SetupError::BaseDir)?,
        rehearsal: rehearsal()?,
        guard: this_program(GUARD)?,
        env: environment(),
    };
    Ok(Prepared { setup, warnings })
}

/// Why no server could be started, with what would help.
pub(crate) fn unstarted(error: &StartError) -> String {
    let text = told(error);
    match error {
        StartError::Lock(signalbox_home::LockError::Held { .. }) => {
            format!(
                "{text}\n  `signalbox stop` ends it; or leave --standalone out, or use another home with --home DIR"
            )
        }
        _ => text,
    }
}

/// The command line of the built-in agent: this very program.
pub(crate) fn rehearsal() -> Result<Vec<String>, SetupError> {
    this_program(REHEARSAL)
}

/// The command line of this very program with one argument.
fn this_program(argument: &str) -> Result<Vec<String>, SetupError> {
    let program: PathBuf = std::env::current_exe().map_err(SetupError::Binary)?;
    Ok(vec![program.to_string_lossy().into_owned(), argument.to_owned()])
}

/// This process's environment, as far as it is text. Agents get what they are allowed of it.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// A runtime with as few threads as serve well.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, SetupError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().map_err(SetupError::Runtime)
}

/// An error with all its causes, for people.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// Writes one line to stderr. That it cannot be written is nothing that could be told anywhere.
pub(crate) fn complain(text: &str) {
    use std::io::Write;
    let mut stderr = anstream::stderr().lock();
    let style = anstyle::AnsiColor::Red.on_default().bold();
    let _ = writeln!(stderr, "{style}signalbox:{style:#} {text}");
}
