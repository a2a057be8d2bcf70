//! The providers of one server: which there are, whether their commands are there, and how each is started.

mod entry;
mod known;
mod mcp;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use signalbox_agents::{LaunchSpec, environment, login_path, presets};
use signalbox_facts::{Launch, Mode, Policy, Provider, Sandbox, SessionId};
use tokio::sync::OnceCell;

use crate::launch::Secrets;
use crate::submission::OpError;
pub use entry::ProviderEntry;
pub use known::{Known, LastFailure, LoginMethod, LoginState, Memory};
pub(crate) use mcp::Told as McpTold;
pub use mcp::{McpEntry, McpReach};

/// Whether a provider can be used.
#[derive(Clone, Debug)]
pub struct ProviderStatus {
    /// Its name.
    pub provider: Provider,
    /// Name for people.
    pub title: String,
    /// Whether it can be started.
    pub available: bool,
    /// It is not installed and would be downloaded.
    pub downloads: bool,
    /// Turned off in the configuration.
    pub disabled: bool,
    /// Why it cannot be started.
    pub reason: Option<String>,
    /// What to do about that.
    pub hint: Option<String>,
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
    more: ForAll,
}

/// What holds for all providers.
#[derive(Clone, Debug, Default)]
pub struct ForAll {
    /// Whether agents that are not installed may be downloaded.
    pub downloads: bool,
    /// Names of more variables that every agent gets of the connection that starts it.
    pub pass_env: Vec<String>,
    /// MCP servers that agents are told of.
    pub mcp_servers: Vec<McpEntry>,
    /// Whether what passes between us and agents is logged.
    pub log_traffic: bool,
    /// Folder of those logs; without one there are none.
    pub traffic_logs: Option<PathBuf>,
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
        let fallback_env = Fallback::Given(Arc::new(fallback_env));
        Self { entries, default, base_env, fallback_env, more: ForAll::default() }
    }

    /// The same, with what holds for all providers.
    #[must_use]
    pub fn with(self, more: ForAll) -> Self {
        Self { more, ..self }
    }

    /// What holds for all providers.
    #[must_use]
    pub fn for_all(&self) -> &ForAll {
        &self.more
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
        self.entries.iter().map(|entry| self.status(entry, path)).collect()
    }

    fn status(&self, entry: &ProviderEntry, path: Option<&str>) -> ProviderStatus {
        let found = entry.find(path, Path::new("/"), self.more.downloads);
        let command = match &found {
            Ok(found) => found.line.clone(),
            Err(_) => entry.commands.first().cloned().unwrap_or_default(),
        };
        let downloads = found.as_ref().is_ok_and(|found| found.downloads);
        let missing = found.err();
        ProviderStatus {
            provider: entry.provider.clone(),
            title: entry.title.clone(),
            available: missing.is_none(),
            downloads,
            disabled: entry.disabled,
            hint: missing.as_ref().and_then(|missing| missing.hint.clone()),
            reason: missing.map(|missing| missing.why),
            command,
            mediated: entry.mediated,
        }
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

    /// The file in which the traffic of a session's agent is logged, if it is to be.
    #[must_use]
    pub fn traffic_log(&self, provider: &Provider, session: SessionId) -> Option<PathBuf> {
        let entry = self.entries.iter().find(|entry| entry.provider == *provider)?;
        let logs = entry.log_traffic.unwrap_or(self.more.log_traffic);
        let folder = self.more.traffic_logs.as_ref().filter(|_| logs)?;
        Some(folder.join(format!("{session}.jsonl")))
    }

    /// Removes the traffic logs of a session: they hold what was said in it. Not called while its agent starts.
    ///
    /// # Errors
    /// The file that stays, and why.
    pub(crate) async fn remove_traffic_logs(&self, session: SessionId) -> Result<(), OpError> {
        let Some(folder) = self.more.traffic_logs.clone() else { return Ok(()) };
        let removed = tokio::task::spawn_blocking(move || {
            for name in [format!("{session}.jsonl"), format!("{session}.1.jsonl")] {
                let file = folder.join(name);
                match std::fs::remove_file(&file) {
                    // Without a folder there are no files.
                    Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                        tracing::warn!(%session, file = %file.display(), %error, "a traffic log of a deleted session stays");
                        return Err(OpError::TrafficLogKept { file, why: error.to_string() });
                    }
                    Ok(()) | Err(_) => {}
                }
            }
            Ok(())
        });
        removed.await.unwrap_or_else(|error| {
            tracing::warn!(%session, %error, "traffic logs of a deleted session were not looked for");
            Ok(())
        })
    }

    /// Names of the rule files that a provider's agent reads itself; none if it is not known.
    #[must_use]
    pub fn reads_rules(&self, provider: &Provider) -> Vec<String> {
        let entry = self.entries.iter().find(|entry| entry.provider == *provider);
        entry.map(|entry| entry.reads_rules.clone()).unwrap_or_default()
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
        self.launch_as(provider, cwd, offered, None, &Secrets::default())
    }

    /// The same for a session whose agent is started otherwise than its provider says.
    pub(crate) fn launch_as(
        &self,
        provider: &Provider,
        cwd: &Path,
        offered: &BTreeMap<String, String>,
        launch: Option<&Launch>,
        secrets: &Secrets,
    ) -> Result<LaunchSpec, OpError> {
        let entry = self.entry(provider)?;
        let entry = match launch {
            Some(launch) => Cow::Owned(entry.clone().overridden(launch, &secrets.env)),
            None => Cow::Borrowed(entry),
        };
        let start_in = entry.cwd.as_deref().unwrap_or(cwd);
        let allowed: Vec<&String> = entry.allow_env.iter().chain(&self.more.pass_env).collect();
        let env = environment(self.base_env.clone(), offered, &allowed, &entry.env);
        let found = entry.find(env.get("PATH"), start_in, self.more.downloads);
        let found = found.map_err(|missing| missing.of(provider))?;
        let mut line = found.line.into_iter();
        Ok(LaunchSpec {
            provider: provider.clone(),
            command: line.next().unwrap_or_default(),
            args: line.collect(),
            env,
            cwd: start_in.to_owned(),
            ask_modes: entry.ask_modes.clone(),
            edit_modes: entry.edit_modes.clone(),
            yolo_modes: entry.yolo_modes.clone(),
            protocol: entry.protocol,
            quirks: entry.quirks,
            install_hint: entry.hint.clone(),
            login_hint: entry.login_hint.clone(),
            downloads: found.downloads,
        })
    }

    /// All providers.
    #[must_use]
    pub fn entries(&self) -> &[ProviderEntry] {
        &self.entries
    }

    /// The MCP servers of which no agent that is started with what is offered is told: their names, and why.
    #[must_use]
    pub fn mcp_trouble(&self, offered: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let path = offered.get("PATH").map(String::as_str);
        let trouble =
            |entry: &McpEntry| Some((entry.name.clone(), entry.told(offered, path, Path::new("/")).err()?));
        self.more.mcp_servers.iter().filter_map(trouble).collect()
    }

    /// The MCP servers that an agent started so is told of.
    pub(crate) fn mcp_servers(
        &self,
        spec: &LaunchSpec,
        offered: &BTreeMap<String, String>,
        launch: Option<&Launch>,
        secrets: &Secrets,
    ) -> McpTold {
        let (path, cwd) = (spec.env.get("PATH"), spec.cwd.as_path());
        let configured = &self.more.mcp_servers;
        match launch.filter(|launch| !launch.mcp_servers.is_empty()) {
            None => mcp::told(configured, &spec.provider, offered, path, cwd),
            Some(launch) => {
                let (all, lost) = mcp::with_own(configured, launch, secrets);
                let mut told = mcp::told(&all, &spec.provider, offered, path, cwd);
                told.warnings.extend(lost);
                told
            }
        }
    }
}
