//! One provider as configured, and whether and how it can be started from here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use signalbox_agents::{Quirks, find_program, preset};
use signalbox_facts::{Launch, Provider};

use crate::submission::OpError;

/// Programs that fetch what they run: a start through one of them takes as long as the download.
const RUNNERS: [&str; 6] = ["npx", "pnpx", "bunx", "uvx", "pipx", "dlx"];

/// One provider as configured.
#[derive(Clone)]
pub struct ProviderEntry {
    /// Its name.
    pub provider: Provider,
    /// Name for people.
    pub title: String,
    /// Turned off in the configuration.
    pub disabled: bool,
    /// Command lines to try in order, program first.
    pub commands: Vec<Vec<String>>,
    /// The command line that downloads and runs it, where none of `commands` is there and downloads are allowed.
    pub download: Option<Vec<String>>,
    /// Whether downloads are allowed for it; else as the catalog says.
    pub may_download: Option<bool>,
    /// Whether what passes between us and it is logged; else as the catalog says.
    pub log_traffic: Option<bool>,
    /// Programs that must be there too.
    pub needs: Vec<String>,
    /// Variables set for it; values may be secret.
    pub env: BTreeMap<String, String>,
    /// Names of variables taken over from the connection that starts it.
    pub allow_env: Vec<String>,
    /// Where its process starts; the session's directory unless set.
    pub cwd: Option<PathBuf>,
    /// Modes in which it asks, best first.
    pub ask_modes: Vec<String>,
    /// Modes for policies that allow edits, best first; empty: those of `ask_modes`.
    pub edit_modes: Vec<String>,
    /// Modes for the policy yolo, best first.
    pub yolo_modes: Vec<String>,
    /// Highest ACP version to offer.
    pub protocol: u16,
    /// Whether it asks before it acts.
    pub mediated: bool,
    /// Whether it edits files inside its directory without asking.
    pub edits_unasked: bool,
    /// Names of the rule files that it reads itself; other rules are sent to it.
    pub reads_rules: Vec<String>,
    /// What is odd about it.
    pub quirks: Quirks,
    /// How to get it.
    pub hint: Option<String>,
    /// How to log in.
    pub login_hint: Option<String>,
}

// Variables carry secrets: only their names are shown.
impl std::fmt::Debug for ProviderEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderEntry")
            .field("provider", &self.provider)
            .field("commands", &self.commands)
            .field("env", &self.env.keys())
            .field("allow_env", &self.allow_env)
            .finish_non_exhaustive()
    }
}

/// How a provider can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Program and arguments.
    pub(crate) line: Vec<String>,
    /// The program may first download the agent.
    pub(crate) downloads: bool,
}

/// Why a provider cannot be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Missing {
    /// The program that is not there.
    pub(crate) program: String,
    /// What is wrong, behind "is not available: ".
    pub(crate) why: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

impl Missing {
    pub(crate) fn of(self, provider: &Provider) -> OpError {
        let Self { program: command, why, hint } = self;
        OpError::ProviderUnavailable { provider: provider.to_string(), command, why, hint }
    }
}

impl ProviderEntry {
    /// The entry of a known agent.
    #[must_use]
    pub fn known(provider: &str) -> Option<Self> {
        let preset = preset(provider)?;
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Some(Self {
            provider: Provider::new(preset.provider),
            title: preset.title.to_owned(),
            disabled: false,
            commands: preset.commands.iter().map(|line| strings(line)).collect(),
            download: preset.download.map(strings),
            may_download: None,
            needs: strings(preset.needs),
            env: preset
                .set_env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            log_traffic: None,
            allow_env: strings(preset.env),
            cwd: None,
            ask_modes: strings(preset.ask_modes),
            edit_modes: strings(preset.edit_modes),
            yolo_modes: strings(preset.yolo_modes),
            protocol: preset.protocol,
            mediated: preset.mediated,
            edits_unasked: preset.edits_unasked,
            reads_rules: strings(preset.rules),
            quirks: preset.quirks,
            hint: Some(preset.install_hint.to_owned()),
            login_hint: preset.login_hint.map(str::to_owned),
        })
    }

    /// An entry that starts this command line.
    #[must_use]
    pub fn custom(provider: &str, title: &str, command: Vec<String>) -> Self {
        Self {
            provider: Provider::new(provider),
            title: title.to_owned(),
            disabled: false,
            commands: vec![command],
            download: None,
            may_download: None,
            needs: Vec::new(),
            env: BTreeMap::new(),
            log_traffic: None,
            allow_env: Vec::new(),
            cwd: None,
            ask_modes: Vec::new(),
            edit_modes: Vec::new(),
            yolo_modes: Vec::new(),
            protocol: 1,
            mediated: true,
            edits_unasked: false,
            reads_rules: Vec::new(),
            quirks: Quirks::default(),
            hint: None,
            login_hint: None,
        }
    }

    /// Starts this program instead. What the known one needs beside it, and how it is downloaded, says nothing about
    /// another.
    pub fn set_command(&mut self, command: &str) {
        self.commands = vec![vec![command.to_owned()]];
        self.needs.clear();
        self.download = None;
    }

    /// Starts its program with these arguments, whichever program that will be.
    pub fn set_args(&mut self, args: &[String]) {
        let known = self.commands.first().and_then(|line| line.get(1..)).unwrap_or_default().to_vec();
        if let Some(download) = &mut self.download {
            // A download ends in the arguments of the first command.
            download.truncate(download.len().saturating_sub(known.len()));
            download.extend(args.iter().cloned());
        }
        for line in &mut self.commands {
            line.truncate(1);
            line.extend(args.iter().cloned());
        }
    }

    /// As this session's agent is started; `env` is what is set for it besides.
    pub(super) fn overridden(mut self, launch: &Launch, env: &BTreeMap<String, String>) -> Self {
        if let Some(command) = &launch.command {
            self.set_command(command);
            self.hint = Some("it is the command that the thread was started with".to_owned());
        }
        if let Some(args) = &launch.args {
            self.set_args(args);
        }
        let set = env.iter().filter(|(name, _)| launch.env_names.contains(name));
        self.env.extend(set.map(|(name, value)| (name.clone(), value.clone())));
        if let Some(cwd) = &launch.cwd {
            self.cwd = Some(cwd.clone());
        }
        if let Some(mode) = &launch.ask_mode {
            self.ask_modes = vec![mode.clone()];
            self.edit_modes.clear();
        }
        if let Some(mode) = &launch.edit_mode {
            self.edit_modes = vec![mode.clone()];
        }
        if let Some(mode) = &launch.yolo_mode {
            self.yolo_modes = vec![mode.clone()];
        }
        self.protocol = launch.protocol.unwrap_or(self.protocol);
        self
    }

    /// How it can be started with this `PATH` in this directory; `downloads` says whether that is allowed in general.
    pub(crate) fn find(&self, path: Option<&str>, cwd: &Path, downloads: bool) -> Result<Found, Missing> {
        if self.disabled {
            return Err(Missing {
                program: self.first_program(),
                why: "it is turned off in config.toml".to_owned(),
                hint: Some(format!("set enabled = true in [providers.{}]", self.provider)),
            });
        }
        let there = |program: &str| is_program(program, path, cwd);
        let starts = |line: &&Vec<String>| line.first().is_some_and(|program| there(program));
        let needed = self.needs.iter().find(|program| !there(program));
        let found = self.commands.iter().find(starts);
        let absent = match (found, needed) {
            (Some(line), None) => {
                return Ok(Found { line: line.clone(), downloads: is_runner(line) });
            }
            (Some(_), Some(needed)) => needed.clone(),
            (None, _) => self.first_program(),
        };
        let why = why_absent(&absent, path, cwd);
        let hint = self.hint.clone();
        let (Some(download), None, None) = (&self.download, found, needed) else {
            return Err(Missing { program: absent, why, hint });
        };
        let runner = download.first().cloned().unwrap_or_default();
        if !self.may_download.unwrap_or(downloads) {
            let allow = format!(
                "let signalbox download it: download = true under [providers.{}] in config.toml, or downloads = true \
                 under [agents] for all",
                self.provider
            );
            let hint = hint.map_or(allow.clone(), |hint| format!("{hint}; or {allow}"));
            return Err(Missing { program: absent, why, hint: Some(hint) });
        }
        if there(&runner) {
            return Ok(Found { line: download.clone(), downloads: true });
        }
        let get = if runner == "npx" { "npx comes with Node.js" } else { "uvx comes with uv" };
        Err(Missing {
            program: runner.clone(),
            why: format!("{why}, and neither was {runner:?}, which would download it"),
            hint: Some(hint.map_or(get.to_owned(), |hint| format!("{get}; or {hint}"))),
        })
    }

    /// What is looked for first.
    pub(crate) fn first_program(&self) -> String {
        self.commands.first().and_then(|line| line.first()).cloned().unwrap_or_default()
    }
}

/// Whether this command line fetches what it runs.
fn is_runner(line: &[String]) -> bool {
    let program = line.first().and_then(|program| Path::new(program).file_name()?.to_str());
    program.is_some_and(|program| RUNNERS.contains(&program))
}

/// Why a program cannot be started, with the usual slips of the pen.
fn why_absent(program: &str, path: Option<&str>, cwd: &Path) -> String {
    let name = format!("the command {program:?}");
    if program.starts_with("~/") {
        return format!("{name} was not found: `~` is not expanded, write the whole path");
    }
    let file = match program.contains('/') {
        true => Some(cwd.join(program)).filter(|file| file.exists()),
        false => path
            .into_iter()
            .flat_map(std::env::split_paths)
            .map(|folder| cwd.join(folder).join(program))
            .find(|file| file.is_file()),
    };
    match file {
        Some(file) if file.is_dir() => format!("{name} is a folder"),
        Some(file) => format!("{name} is not executable: chmod +x {}", file.display()),
        None if program.contains(char::is_whitespace) => {
            format!("{name} was not found: arguments belong into `args`")
        }
        None => format!("{name} was not found"),
    }
}

fn is_program(program: &str, path: Option<&str>, cwd: &Path) -> bool {
    locate(program, path, cwd).is_some()
}

/// The file of a program: a path, relative to `cwd`, or a name on `PATH`.
pub(crate) fn locate(program: &str, path: Option<&str>, cwd: &Path) -> Option<PathBuf> {
    let env = path.map(|path| ("PATH".to_owned(), path.to_owned())).into_iter().collect();
    find_program(program, &signalbox_agents::Environment(env), cwd)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with these programs, as `PATH`.
    fn programs(names: &[&str]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let file = folder.path().join(name);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = folder.path().display().to_string();
        (folder, path)
    }

    fn found(entry: &ProviderEntry, installed: &[&str], downloads: bool) -> Result<Found, Missing> {
        let (_folder, path) = programs(installed);
        entry.find(Some(&path), Path::new("/"), downloads)
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn slips_of_the_pen_are_told_from_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script"), "").unwrap();
        let path = folder.path().to_str().unwrap();
        let why = |program: &str| why_absent(program, Some(path), folder.path());
        assert_eq!(why("nothing"), "the command \"nothing\" was not found");
        assert!(why("~/script").contains("`~` is not expanded"));
        assert!(why("sh -c true").contains("`args`"));
        assert!(why("script").contains("is not executable: chmod +x"));
        assert!(why("./script").contains("is not executable: chmod +x"));
        assert!(why(path).ends_with("is a folder"));
    }

    #[test]
    fn an_installed_program_goes_before_a_download() {
        let entry = ProviderEntry::known("opencode").unwrap();
        let native = Found { line: words("opencode acp"), downloads: false };
        assert_eq!(found(&entry, &["opencode", "npx"], true), Ok(native));
        let download = Found { line: words("npx -y opencode-ai acp"), downloads: true };
        assert_eq!(found(&entry, &["npx"], true), Ok(download));
    }

    #[test]
    fn what_is_not_there_says_how_to_install_it_and_how_to_allow_its_download() {
        let entry = ProviderEntry::known("opencode").unwrap();
        let missing = found(&entry, &["npx"], false).unwrap_err();
        assert_eq!(missing.why, "the command \"opencode\" was not found");
        assert_eq!(
            missing.hint.as_deref(),
            Some(
                "npm install -g opencode-ai; or let signalbox download it: download = true under \
                 [providers.opencode] in config.toml, or downloads = true under [agents] for all"
            )
        );
        let missing = found(&entry, &[], true).unwrap_err();
        assert_eq!(
            missing.why,
            "the command \"opencode\" was not found, and neither was \"npx\", which would download it"
        );
        assert_eq!(missing.hint.as_deref(), Some("npx comes with Node.js; or npm install -g opencode-ai"));
    }

    #[test]
    fn a_provider_may_differ_from_what_holds_for_all() {
        let mut entry = ProviderEntry::known("opencode").unwrap();
        entry.may_download = Some(false);
        found(&entry, &["npx"], true).unwrap_err();
        entry.may_download = Some(true);
        found(&entry, &["npx"], false).unwrap();
        entry.disabled = true;
        assert_eq!(found(&entry, &["opencode"], true).unwrap_err().why, "it is turned off in config.toml");
    }

    #[test]
    fn what_an_agent_needs_beside_it_is_no_matter_of_downloads() {
        let entry = ProviderEntry::known("pi").unwrap();
        let missing = found(&entry, &["pi-acp", "npx"], true).unwrap_err();
        assert_eq!((missing.program.as_str(), missing.hint.is_some()), ("pi", true));
        assert_eq!(found(&entry, &["pi", "npx"], true).unwrap().line, words("npx -y pi-acp"));
    }

    #[test]
    fn other_arguments_are_those_of_a_download_too() {
        let mut entry = ProviderEntry::known("grok").unwrap();
        entry.set_args(&words("agent stdio --verbose"));
        assert_eq!(found(&entry, &["grok"], false).unwrap().line, words("grok agent stdio --verbose"));
        let download = words("npx -y @xai-official/grok agent stdio --verbose");
        assert_eq!(found(&entry, &["npx"], true).unwrap().line, download);
        entry.set_command("other");
        assert_eq!(found(&entry, &["npx"], true).unwrap_err().program, "other");
    }

    #[test]
    fn a_custom_one_that_runs_through_a_runner_gets_the_time_of_a_download() {
        let entry = ProviderEntry::custom("mine", "Mine", words("npx -y my-agent"));
        assert!(found(&entry, &["npx"], false).unwrap().downloads);
    }
}
