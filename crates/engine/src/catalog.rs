//! The providers of one server: which there are, whether their commands are there, and how each is started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use signalbox_agents::{LaunchSpec, Quirks, environment, login_path, preset, presets};
use signalbox_facts::{Mode, Policy, Provider, Sandbox};
use tokio::sync::OnceCell;

use crate::submission::OpError;

/// One provider as configured.
#[derive(Clone, Debug)]
pub struct ProviderEntry {
    /// Its name.
    pub provider: Provider,
    /// Name for people.
    pub title: String,
    /// Command lines to try in order, program first.
    pub commands: Vec<Vec<String>>,
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

/// Whether a provider can be used.
#[derive(Clone, Debug)]
pub struct ProviderStatus {
    /// Its name.
    pub provider: Provider,
    /// Name for people.
    pub title: String,
    /// Whether its command is there.
    pub available: bool,
    /// Why not, and what to do.
    pub reason: Option<String>,
    /// The command line that would be used, or the first that was looked for.
    pub command: Vec<String>,
    /// Whether it asks before it acts.
    pub mediated: bool,
}

/// All providers of one server.
#[derive(Clone, Debug)]
pub struct Catalog {
    entries: Vec<ProviderEntry>,
    default: Provider,
    base_env: BTreeMap<String, String>,
    fallback_env: Fallback,
}

/// What is offered to agents of sessions whose connection offers nothing.
#[derive(Clone, Debug)]
enum Fallback {
    /// These variables.
    Given(Arc<BTreeMap<String, String>>),
    /// The `PATH` of the user's login shell, which is asked when it is first needed.
    LoginShell(Arc<OnceCell<Arc<BTreeMap<String, String>>>>),
}

impl Catalog {
    /// The known providers and these. An entry of `more` takes the place of the known one of its name; `base_env` is
    /// given to every agent, `fallback_env` is what connections without an environment of their own offer.
    #[must_use]
    pub fn new(
        more: Vec<ProviderEntry>,
        default: Provider,
        base_env: BTreeMap<String, String>,
        fallback_env: BTreeMap<String, String>,
    ) -> Self {
        let mut entries: Vec<ProviderEntry> =
            presets().iter().filter_map(|known| ProviderEntry::known(known.provider)).collect();
        for entry in more {
            match entries.iter_mut().find(|known| known.provider == entry.provider) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        Self { entries, default, base_env, fallback_env: Fallback::Given(Arc::new(fallback_env)) }
    }

    /// The same, with the `PATH` of the user's login shell as what connections without an environment offer.
    #[must_use]
    pub fn with_login_shell(self) -> Self {
        Self { fallback_env: Fallback::LoginShell(Arc::default()), ..self }
    }

    /// What agents are offered for a connection that offers `own`.
    pub async fn offered(
        &self,
        own: Option<&Arc<BTreeMap<String, String>>>,
    ) -> Arc<BTreeMap<String, String>> {
        match (own, &self.fallback_env) {
            (Some(own), _) => Arc::clone(own),
            (None, Fallback::Given(given)) => Arc::clone(given),
            (None, Fallback::LoginShell(asked)) => {
                let ask = async || {
                    Arc::new(BTreeMap::from([("PATH".to_owned(), login_path(&self.base_env).await)]))
                };
                Arc::clone(asked.get_or_init(ask).await)
            }
        }
    }

    /// The provider of sessions that name none.
    #[must_use]
    pub fn default_provider(&self) -> &Provider {
        &self.default
    }

    /// Every provider with whether it can be used with what is [offered](Catalog::offered).
    #[must_use]
    pub fn list(&self, offered: &BTreeMap<String, String>) -> Vec<ProviderStatus> {
        let path = offered.get("PATH").map(String::as_str);
        self.entries.iter().map(|entry| status(entry, path)).collect()
    }

    /// One provider.
    ///
    /// # Errors
    /// [`OpError::ProviderNotFound`] with the names there are.
    pub fn entry(&self, provider: &Provider) -> Result<&ProviderEntry, OpError> {
        self.entries.iter().find(|entry| entry.provider == *provider).ok_or_else(|| {
            OpError::ProviderNotFound {
                name: provider.to_string(),
                known: self.entries.iter().map(|entry| entry.provider.to_string()).collect(),
            }
        })
    }

    /// Names of the rule files that a provider's agent reads itself; none if it is not known.
    #[must_use]
    pub fn reads_rules(&self, provider: &Provider) -> Vec<String> {
        let entry = self.entries.iter().find(|entry| entry.provider == *provider);
        entry.map(|entry| entry.reads_rules.clone()).unwrap_or_default()
    }

    /// Whether a policy can be kept with a provider's agent.
    ///
    /// # Errors
    /// Nothing may be changed, and the agent never asks.
    pub fn suits(&self, provider: &Provider, policy: Policy) -> Result<(), OpError> {
        match self.entry(provider) {
            Ok(entry) if !entry.mediated && policy.sandbox == Sandbox::ReadOnly => {
                Err(OpError::InvalidParams {
                    path: "sandbox",
                    message: format!(
                        "{} never asks before it acts, so nothing can keep it to the sandbox read_only; choose another \
                         sandbox or another agent",
                        entry.title
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// What a user should know who relies on this policy with a provider's agent.
    #[must_use]
    pub fn caution(&self, provider: &Provider, policy: Policy) -> Option<String> {
        let entry = self.entry(provider).ok()?;
        let asks_edits = policy.sandbox == Sandbox::ReadOnly || policy.mode == Mode::Ask;
        if !entry.mediated && !policy.lets_agents_loose() {
            return Some(format!(
                "{} never asks before it acts: the thread's policy cannot hold it back.",
                entry.title
            ));
        }
        (entry.edits_unasked && asks_edits).then(|| {
            format!(
                "{} edits files inside its directory without asking: the thread's policy cannot hold that back.",
                entry.title
            )
        })
    }

    /// How to start a provider for a session in this directory, out of what is [offered](Catalog::offered).
    ///
    /// # Errors
    /// Unknown provider, or none of its commands is there.
    pub fn launch(
        &self,
        provider: &Provider,
        cwd: &Path,
        offered: &BTreeMap<String, String>,
    ) -> Result<LaunchSpec, OpError> {
        let entry = self.entry(provider)?;
        let env = environment(self.base_env.clone(), offered, &entry.allow_env, &entry.env);
        let line = installed(entry, env.get("PATH"), cwd).ok_or_else(|| OpError::ProviderUnavailable {
            provider: provider.to_string(),
            command: entry.missing(env.get("PATH"), cwd),
            hint: entry.hint.clone(),
        })?;
        let (program, args) =
            line.split_first().map(|(first, rest)| (first.clone(), rest.to_vec())).unwrap_or_default();
        Ok(LaunchSpec {
            provider: provider.clone(),
            command: program,
            args,
            env,
            cwd: entry.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
            ask_modes: entry.ask_modes.clone(),
            edit_modes: entry.edit_modes.clone(),
            yolo_modes: entry.yolo_modes.clone(),
            protocol: entry.protocol,
            quirks: entry.quirks,
            install_hint: entry.hint.clone(),
        })
    }
}

fn status(entry: &ProviderEntry, path: Option<&str>) -> ProviderStatus {
    let found = installed(entry, path, Path::new("/"));
    let reason = found.is_none().then(|| {
        let missing = format!("{:?} was not found on PATH", entry.missing(path, Path::new("/")));
        entry.hint.as_ref().map_or(missing.clone(), |hint| format!("{missing}; {hint}"))
    });
    ProviderStatus {
        provider: entry.provider.clone(),
        title: entry.title.clone(),
        available: found.is_some(),
        reason,
        command: found.or_else(|| entry.commands.first()).cloned().unwrap_or_default(),
        mediated: entry.mediated,
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
            commands: preset.commands.iter().map(|line| strings(line)).collect(),
            needs: strings(preset.needs),
            env: preset
                .set_env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            allow_env: strings(preset.env),
            cwd: None,
            ask_modes: strings(preset.ask_modes),
            edit_modes: strings(preset.edit_modes),
            yolo_modes: strings(preset.yolo_modes),
            protocol: 1,
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
            commands: vec![command],
            needs: Vec::new(),
            env: BTreeMap::new(),
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

    /// What to name as missing.
    fn missing(&self, path: Option<&str>, cwd: &Path) -> String {
        let absent = |program: &&String| !is_program(program, path, cwd);
        let first = self.commands.first().and_then(|line| line.first());
        first.filter(absent).or_else(|| self.needs.iter().find(absent)).or(first).cloned().unwrap_or_default()
    }
}

/// The first command line of which everything is there.
fn installed<'a>(entry: &'a ProviderEntry, path: Option<&str>, cwd: &Path) -> Option<&'a Vec<String>> {
    if !entry.needs.iter().all(|program| is_program(program, path, cwd)) {
        return None;
    }
    entry.commands.iter().find(|line| line.first().is_some_and(|program| is_program(program, path, cwd)))
}

/// Whether a program can be started: a path that is an executable file, or a name on `PATH`.
fn is_program(program: &str, path: Option<&str>, cwd: &Path) -> bool {
    if program.contains('/') {
        return is_executable(&cwd.join(program));
    }
    path.is_some_and(|path| std::env::split_paths(path).any(|folder| is_executable(&folder.join(program))))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
