//! `signalbox doctor`: what is there, what is missing, and what would help.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use signalbox_agents::AgentInfo;
use signalbox_home::{Config, Holder, Home, Lock, LockError};
use signalbox_server::{
    Catalog, KNOWN, Known, LoginState, Memory, ProviderStatus, ProvidersError, catalog, check_catalog,
};
use signalbox_store::{SessionQuery, Store};

use crate::args::{DoctorArgs, Global};
use crate::probes::{self, Probes};
use crate::setup::{self, complain, told};
use crate::{logs, stop};

/// What says all that is wrong with the configuration.
const CHECK: &str = "`signalbox config check` says everything that is wrong with it";

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// As it should be.
    Good,
    /// Not there, and not needed.
    Absent,
    /// Works, but somebody may want to know.
    Notable,
    /// Broken.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    /// What it belongs to.
    group: &'static str,
    name: String,
    state: State,
    /// What was found, for people.
    found: String,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Of a provider: what is known of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentKnown>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: &'static str,
    broken: bool,
    findings: &'a [Finding],
}

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: DoctorArgs) -> ExitCode {
    logs::init("off");
    let mut findings = Findings::default();
    findings.look(global, args.quick);
    let broken = findings.0.iter().any(|finding| finding.state == State::Broken);
    let written = match args.json {
        true => print_json(&findings.0, broken),
        false => print(&findings.0, broken),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
        _ if broken => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        group: &'static str,
        name: &str,
        state: State,
        found: impl Into<String>,
        hint: Option<String>,
    ) {
        self.0.push(Finding { group, name: name.to_owned(), state, found: found.into(), hint, agent: None });
    }

    fn look(&mut self, global: &Global, quick: bool) {
        let home = match Home::locate(global.home.clone(), &|name| std::env::var_os(name)) {
            Ok(home) => home,
            Err(error) => {
                let hint = "choose a folder of yours with --home DIR or SIGNALBOX_HOME".to_owned();
                self.add("home", "folder", State::Broken, told(&error), Some(hint));
                self.surroundings();
                return;
            }
        };
        self.folder(&home);
        let config = self.config(&home, global);
        self.lock_and_database(&home);
        self.providers(&home, &config, quick);
        self.surroundings();
    }

    fn folder(&mut self, home: &Home) {
        let path = home.folder().display().to_string();
        match home.write_private(".doctor", b"") {
            Ok(probe) => match std::fs::remove_file(probe) {
                Ok(()) if home.is_open_to_others() => {
                    let hint = format!("chmod 700 {path}");
                    let found = format!("{path}: other users can look into it");
                    self.add("home", "folder", State::Notable, found, Some(hint));
                }
                Ok(()) => self.add("home", "folder", State::Good, path, None),
                Err(error) => self.add("home", "folder", State::Broken, format!("{path}: {error}"), None),
            },
            Err(error) => {
                let hint = "make it writable, or choose another with --home DIR".to_owned();
                self.add("home", "folder", State::Broken, told(&error), Some(hint));
            }
        }
    }

    fn config(&mut self, home: &Home, global: &Global) -> Config {
        let file = home.config_file();
        let mut config = match Config::load(&file) {
            Ok(config) => {
                let found = if file.exists() {
                    file.display().to_string()
                } else {
                    "none; the defaults hold".to_owned()
                };
                self.add("home", "config.toml", State::Good, found, None);
                config
            }
            Err(error) => {
                self.add("home", "config.toml", State::Broken, told(&error), Some(CHECK.to_owned()));
                Config::default()
            }
        };
        match config.apply_overrides(&global.config) {
            Ok(overridden) => {
                for warning in overridden.warnings {
                    self.add("home", "arguments", State::Notable, warning, None);
                }
            }
            Err(error) => self.add("home", "arguments", State::Broken, told(&error), None),
        }
        config
    }

    fn lock_and_database(&mut self, home: &Home) {
        let lock = match Lock::take(home, "doctor", env!("CARGO_PKG_VERSION")) {
            Ok(lock) => lock,
            Err(LockError::Held { holder, .. }) => {
                let found = match &holder {
                    Some(holder) => format!("in use by signalbox {} (process {})", holder.role, holder.pid),
                    None => "in use by another signalbox process".to_owned(),
                };
                self.add("home", "database", State::Good, found, None);
                self.server(home, holder);
                return;
            }
            Err(error) => {
                self.add("home", "lock", State::Broken, told(&error), None);
                return;
            }
        };
        self.add("home", "server", State::Absent, "none runs; commands start it when they need it", None);
        let path = home.database();
        let is_new = !path.exists();
        match look_into(&path) {
            Ok(_) if is_new => self.add("home", "database", State::Good, "created just now", None),
            Ok(sessions) => self.add("home", "database", State::Good, sessions, None),
            Err(error) => {
                let hint = format!("move {} away to begin with an empty one", path.display());
                self.add("home", "database", State::Broken, error, Some(hint));
            }
        }
        drop(lock);
    }

    /// The server that holds the lock, as it tells of itself.
    fn server(&mut self, home: &Home, holder: Option<Holder>) {
        let asked = setup::runtime().map_err(|error| told(&error)).and_then(|runtime| {
            let asked = runtime.block_on(stop::health(home)).map_err(|error| told(&error));
            runtime.shutdown_background();
            asked
        });
        match asked {
            Ok(Some(server)) => {
                let up = Duration::from_millis(server.uptime_ms).as_secs();
                let found = format!(
                    "process {}, version {}, up {}, {}",
                    server.pid,
                    server.version,
                    span(up),
                    if server.idle { "nothing to do" } else { "busy" },
                );
                let other = server.version != env!("CARGO_PKG_VERSION");
                let hint = other.then(|| {
                    format!(
                        "this program is version {}; `signalbox stop` ends the server",
                        env!("CARGO_PKG_VERSION")
                    )
                });
                let state = if other { State::Notable } else { State::Good };
                self.add("home", "server", state, found, hint);
                for listener in server.listeners {
                    self.add("home", "listener", State::Good, listener, None);
                }
            }
            Ok(None) => {
                let found = match holder {
                    Some(holder) => format!("none to connect to; {} serves its own clients", holder.role),
                    None => "none to connect to".to_owned(),
                };
                self.add("home", "server", State::Absent, found, None);
            }
            Err(error) => {
                self.add("home", "server", State::Broken, error, None);
            }
        }
    }

    fn providers(&mut self, home: &Home, config: &Config, quick: bool) {
        let rehearsal = match setup::rehearsal() {
            Ok(line) => line,
            Err(error) => return self.add("providers", "rehearsal", State::Broken, told(&error), None),
        };
        for fault in check_catalog(config) {
            self.add("providers", "config.toml", State::Broken, fault, Some(CHECK.to_owned()));
        }
        let offered = setup::environment();
        let catalog = match catalog(home, config, rehearsal, offered.clone()) {
            Ok(catalog) => catalog,
            // Said above.
            Err(ProvidersError::NoCommand { .. }) => return,
            Err(error) => return self.add("providers", "config.toml", State::Broken, told(&error), None),
        };
        let mut statuses = catalog.list(&offered);
        statuses.sort_by_key(|status| !status.available);
        let mut seen = if quick { Probes::new() } else { probes::all(&catalog, &statuses, &offered, config) };
        let memory = Memory::load(Some(home.folder().join(KNOWN)));
        for status in statuses {
            let known = memory.of(&status.provider).unwrap_or_default();
            let probed = seen.remove(status.provider.as_str());
            self.0.push(provider(&catalog, status, known, probed));
        }
        if !config.agents.downloads {
            let hint = "downloads = true under [agents] of config.toml, or download = true under one [providers.NAME]";
            let found = "not allowed: what is not installed is not fetched by npx or uvx either";
            self.add("providers", "downloads", State::Absent, found, Some(hint.to_owned()));
        }
        for (name, problem) in catalog.mcp_trouble(&offered) {
            self.add(
                "MCP servers",
                &name,
                State::Notable,
                problem,
                Some("agents are not told of it".to_owned()),
            );
        }
    }

    fn surroundings(&mut self) {
        match on_path("git") {
            Some(git) => self.add("around", "git", State::Good, git.display().to_string(), None),
            None => {
                let hint = "signalbox itself needs none, but agents do".to_owned();
                self.add("around", "git", State::Notable, "not on PATH", Some(hint));
            }
        }
        let here = std::env::current_dir().ok().and_then(|cwd| signalbox_workspace::git_info(&cwd));
        match here {
            Some(info) => {
                let branch = info.branch.or(info.sha).unwrap_or_else(|| "no commit".to_owned());
                self.add(
                    "around",
                    "repository",
                    State::Good,
                    format!("{} ({branch})", info.root.display()),
                    None,
                );
            }
            None => self.add("around", "repository", State::Absent, "the current directory is in none", None),
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            let colours = match anstream::AutoStream::choice(&io::stdout()) {
                anstream::ColorChoice::Never => "without colours",
                _ => "with colours",
            };
            self.add(
                "around",
                "terminal",
                State::Good,
                format!("{term}, {colours}").trim_start_matches(", "),
                None,
            );
        } else {
            let hint = "`signalbox run` cannot ask here: what would ask is declined".to_owned();
            self.add("around", "terminal", State::Absent, "none", Some(hint));
        }
    }
}

/// What is known of a provider's agent, from now or from earlier starts.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentKnown {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    login: LoginState,
    /// Ids of the ways to log in.
    login_methods: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<String>,
    /// It was started just now and introduced itself.
    answered: bool,
}

/// What there is to say of a provider.
fn provider(
    catalog: &Catalog,
    status: ProviderStatus,
    known: Known,
    probed: Option<Result<AgentInfo, String>>,
) -> Finding {
    let is_default = status.provider == *catalog.default_provider();
    let name = status.provider.to_string();
    let mut agent = AgentKnown {
        version: known.version,
        login: known.login,
        login_methods: known.methods.into_iter().map(|method| method.id).collect(),
        last_failure: known.last_failure.map(|failure| failure.message),
        answered: matches!(probed, Some(Ok(_))),
    };
    let has_logins = !agent.login_methods.is_empty()
        || catalog.entry(&status.provider).is_ok_and(|entry| entry.login_hint.is_some());
    let mut hints = Vec::new();
    let mut state = if status.mediated { State::Good } else { State::Notable };
    let mut found = match &status.reason {
        None => status.command.join(" "),
        Some(reason) => {
            state = if is_default { State::Broken } else { State::Absent };
            // How downloads are allowed is said once, below.
            let brief = catalog.entry(&status.provider).ok().and_then(|entry| entry.hint.clone());
            hints.extend(if status.disabled { status.hint.clone() } else { brief.or(status.hint.clone()) });
            reason.clone()
        }
    };
    match probed {
        Some(Ok(info)) => {
            agent.version = info.version.or(agent.version);
            agent.login_methods = info.auth_methods.into_iter().map(|method| method.id).collect();
        }
        Some(Err(failure)) => {
            state = if is_default { State::Broken } else { State::Notable };
            hints.push(format!("it was started and failed: {failure}"));
            agent.last_failure = Some(failure);
        }
        None => {}
    }
    if let Some(version) = &agent.version {
        found = format!("{found} ({version})");
    }
    if is_default {
        found.push_str("; the default one");
    }
    if !status.mediated {
        found.push_str("; never asks before it acts");
    }
    if status.downloads {
        found.push_str("; downloaded when it starts");
    }
    if status.available && agent.login == LoginState::Required {
        state = if is_default { State::Broken } else { State::Notable };
        found.push_str("; wants a login");
        hints.push(format!("signalbox login {name}"));
    } else if let (true, Some(failure)) = (status.available, &agent.last_failure) {
        // That it introduces itself does not mean that its turns end well.
        if hints.is_empty() {
            hints.push(format!("it failed last: {failure}"));
        }
        if state == State::Good {
            state = State::Notable;
        }
    } else if status.available && agent.login == LoginState::Unknown && has_logins {
        found.push_str("; login not checked");
        hints.push(format!("a first prompt shows whether it wants one; signalbox login {name}"));
    }
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    Finding { group: "providers", name, state, found, hint, agent: Some(agent) }
}

/// How many sessions a database holds; why it cannot be used.
fn look_into(path: &Path) -> Result<String, String> {
    let runtime = setup::runtime().map_err(|error| told(&error))?;
    runtime.block_on(async {
        let store = Store::open(path).await.map_err(|error| told(&error))?;
        let page = store.reader.sessions(&SessionQuery { limit: 100, ..SessionQuery::default() }).await;
        store.close().await;
        let sessions = page.map_err(|error| told(&error))?.sessions.len();
        Ok(match sessions {
            0 => "no session yet".to_owned(),
            1 => "1 session".to_owned(),
            100 => "100 sessions or more".to_owned(),
            n => format!("{n} sessions"),
        })
    })
}

/// A time in seconds, as people say it.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn print_json(findings: &[Finding], broken: bool) -> io::Result<()> {
    let report = Report { version: env!("CARGO_PKG_VERSION"), broken, findings };
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)
}

fn print(findings: &[Finding], broken: bool) -> io::Result<()> {
    const DIM: Style = Style::new().dimmed();
    const BOLD: Style = Style::new().bold();
    let mut out = anstream::stdout().lock();
    writeln!(out, "{BOLD}signalbox {}{BOLD:#}", env!("CARGO_PKG_VERSION"))?;
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or_default();
    let mut group = "";
    for finding in findings {
        if finding.group != group {
            group = finding.group;
            writeln!(out, "\n{DIM}{group}{DIM:#}")?;
        }
        let (mark, style) = match finding.state {
            State::Good => ("✓", AnsiColor::Green.on_default()),
            State::Absent => ("○", DIM),
            State::Notable => ("!", AnsiColor::Yellow.on_default()),
            State::Broken => ("✗", AnsiColor::Red.on_default()),
        };
        let dim = if finding.state == State::Absent { DIM } else { Style::new() };
        writeln!(out, "  {style}{mark}{style:#} {dim}{:width$}  {}{dim:#}", finding.name, finding.found)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "    {:width$}  {DIM}{hint}{DIM:#}", "")?;
        }
    }
    let notable = findings.iter().any(|finding| finding.state == State::Notable);
    let verdict = match (broken, notable) {
        (true, _) => "Something is broken; see ✗ above.",
        (false, true) => "Nothing is broken, but see ! above. Try: signalbox run \"Look around\"",
        (false, false) => "All that is needed is there. Try: signalbox run \"Look around\"",
    };
    writeln!(out, "\n{verdict}")
}
