//! What is known of each provider's agent from the last times it was started: version, logins, failure. Kept in a file, so
//! that it outlives the server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use signalbox_agents::{AgentFailure, AgentInfo, AuthMethod, FailureReason};
use signalbox_facts::Provider;
use tokio_util::task::TaskTracker;

/// Characters kept of a text that an agent has written.
const TEXT_CHARS: usize = 2000;
/// Ways to log in that are kept of one agent.
const MAX_METHODS: usize = 32;

/// Whether a login is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// Nothing has shown it yet.
    #[default]
    Unknown,
    /// The agent has asked for one, and not worked since.
    Required,
    /// The agent has answered a prompt, or opened a session where it had refused one.
    Done,
}

/// What is known of one provider's agent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Its name for people, as it says.
    pub name: Option<String>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// Whether a login is needed.
    pub login: LoginState,
    /// That was told at a prompt; an open session does not disprove it.
    at_prompt: bool,
    /// A login was begun since.
    login_begun: bool,
    /// Ways to log in, as it says.
    pub methods: Vec<LoginMethod>,
    /// How it failed last, if it has not worked since.
    pub last_failure: Option<LastFailure>,
    /// When it was last heard of, Unix milliseconds.
    pub at_ms: i64,
}

/// A way to log in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoginMethod {
    /// The agent's id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// More about it.
    pub description: Option<String>,
    /// `agent` (it does it itself when asked), `terminal` (a command), or another word of the agent's.
    pub kind: String,
    /// Of `terminal`: the command line.
    pub command: Option<Vec<String>>,
    /// Of `terminal`: variables to set for it.
    pub env: BTreeMap<String, String>,
}

/// A failure of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastFailure {
    /// Stable word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// What would help.
    pub hint: Option<String>,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

impl LoginMethod {
    fn of(method: &AuthMethod) -> Self {
        Self {
            id: cut(&method.id),
            name: cut(&method.name),
            description: method.description.as_deref().map(cut),
            kind: cut(&method.kind),
            command: method.command.clone(),
            env: method.env.clone(),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

impl Known {
    fn introduced(&mut self, info: &AgentInfo) {
        self.name = Some(cut(&info.name));
        self.version = info.version.as_deref().map(cut);
        self.methods = info.auth_methods.iter().take(MAX_METHODS).map(LoginMethod::of).collect();
    }

    /// Many agents open sessions without a login and refuse only at a prompt: what one has refused there stands until it
    /// answers a prompt or a login was begun, and an open session alone proves nothing.
    fn opened(&mut self) {
        if self.at_prompt && !self.login_begun {
            return;
        }
        self.last_failure = None;
        self.login = match self.login {
            LoginState::Required if !self.at_prompt => LoginState::Done,
            LoginState::Required => LoginState::Unknown,
            other => other,
        };
        (self.at_prompt, self.login_begun) = (false, false);
    }

    fn answered(&mut self) {
        (self.login, self.last_failure) = (LoginState::Done, None);
        (self.at_prompt, self.login_begun) = (false, false);
    }

    fn failed(&mut self, failure: &AgentFailure, at_prompt: bool, at_ms: i64) {
        if failure.reason == FailureReason::AgentAuthRequired {
            (self.login, self.login_begun, self.at_prompt) = (LoginState::Required, false, at_prompt);
        }
        self.last_failure = Some(LastFailure {
            reason: failure.reason.as_str().to_owned(),
            message: cut(&failure.message),
            hint: failure.hint.as_deref().map(cut),
            at_ms,
        });
    }
}

/// What is known of all providers' agents. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    known: Mutex<BTreeMap<String, Known>>,
    /// Where it is kept; held while it is written, so that the newest is written last.
    file: Option<Mutex<PathBuf>>,
}

impl Memory {
    /// Begins with what the file holds, if there is one. A file that cannot be read is no obstacle: it is a memory.
    #[must_use]
    pub fn load(file: Option<PathBuf>) -> Self {
        let known = file.as_deref().map(read).unwrap_or_default();
        Self(Arc::new(Inner { known: Mutex::new(known), file: file.map(Mutex::new) }))
    }

    /// What is known of a provider's agent.
    #[must_use]
    pub fn of(&self, provider: &Provider) -> Option<Known> {
        self.0.known.lock().get(provider.as_str()).cloned()
    }

    /// An agent has introduced itself.
    pub(crate) fn introduced(&self, provider: &Provider, info: &AgentInfo, at_ms: i64, tasks: &TaskTracker) {
        self.change(provider, at_ms, tasks, |known| known.introduced(info));
    }

    /// An agent has opened a session.
    pub(crate) fn opened(&self, provider: &Provider, at_ms: i64, tasks: &TaskTracker) {
        self.change(provider, at_ms, tasks, Known::opened);
    }

    /// Somebody logs in: by the agent, or in a terminal.
    pub(crate) fn login_begun(&self, provider: &Provider, at_ms: i64, tasks: &TaskTracker) {
        self.change(provider, at_ms, tasks, |known| known.login_begun = true);
    }

    /// An agent has answered a prompt.
    pub(crate) fn answered(&self, provider: &Provider, at_ms: i64, tasks: &TaskTracker) {
        self.change(provider, at_ms, tasks, Known::answered);
    }

    /// An agent has failed, at a prompt or before it.
    pub(crate) fn failed(
        &self,
        provider: &Provider,
        failure: &AgentFailure,
        at_prompt: bool,
        at_ms: i64,
        tasks: &TaskTracker,
    ) {
        if failure.reason != FailureReason::Stopped {
            self.change(provider, at_ms, tasks, |known| known.failed(failure, at_prompt, at_ms));
        }
    }

    fn change(&self, provider: &Provider, at_ms: i64, tasks: &TaskTracker, change: impl FnOnce(&mut Known)) {
        {
            let mut all = self.0.known.lock();
            let known = all.entry(provider.to_string()).or_default();
            let before = known.clone();
            change(known);
            if *known == before && before.at_ms != 0 {
                // When it was last heard of is no reason to write.
                known.at_ms = at_ms;
                return;
            }
            known.at_ms = at_ms;
        }
        if self.0.file.is_some() {
            let memory = self.clone();
            tasks.spawn_blocking(move || memory.write());
        }
    }

    fn write(&self) {
        let Some(file) = &self.0.file else { return };
        let file = file.lock();
        let text = serde_json::to_vec_pretty(&*self.0.known.lock());
        let written = text.map_err(io::Error::from).and_then(|text| replace(&file, &text));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "what is known of agents is not kept");
        }
    }
}

/// What a server has last known of its providers' agents, from its file; nothing if there is none.
fn read(file: &Path) -> BTreeMap<String, Known> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "what was known of agents cannot be read");
            BTreeMap::new()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "what was known of agents cannot be read");
            BTreeMap::new()
        }
    }
}

/// Writes a file whole or not at all.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("new");
    let mut new = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    new.write_all(text)?;
    fs::rename(beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(reason: FailureReason) -> AgentFailure {
        AgentFailure {
            reason,
            message: "no".to_owned(),
            code: None,
            exit_status: None,
            stderr_tail: String::new(),
            stdout_tail: String::new(),
            methods: Vec::new(),
            command: None,
            hint: Some("log in".to_owned()),
            ends_agent: false,
        }
    }

    #[tokio::test]
    async fn what_is_known_outlives_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let (file, tasks) = (folder.path().join("known.json"), TaskTracker::new());
        let (codex, kimi) = (Provider::new("codex"), Provider::new("kimi"));
        let memory = Memory::load(Some(file.clone()));
        let info = AgentInfo { name: "Codex".into(), version: Some("2.6".into()), ..AgentInfo::default() };
        memory.introduced(&codex, &info, 5, &tasks);
        memory.answered(&codex, 6, &tasks);
        memory.failed(&kimi, &failure(FailureReason::AgentAuthRequired), false, 7, &tasks);
        tasks.close();
        tasks.wait().await;
        let again = Memory::load(Some(file));
        assert_eq!(again.of(&codex), memory.of(&codex));
        let known = again.of(&codex).unwrap();
        assert_eq!((known.version.as_deref(), known.login), (Some("2.6"), LoginState::Done));
        let known = again.of(&kimi).unwrap();
        assert_eq!(known.login, LoginState::Required);
        assert_eq!(known.last_failure.unwrap().reason, "agent_auth_required");
        assert_eq!(again.of(&Provider::new("pi")), None);
    }

    #[test]
    fn an_open_session_does_not_disprove_a_login_that_a_prompt_has_asked_for() {
        let mut known = Known::default();
        known.failed(&failure(FailureReason::AgentAuthRequired), true, 1);
        for _ in 0..2 {
            known.opened();
            assert_eq!((known.login, known.last_failure.is_some()), (LoginState::Required, true));
        }
        known.answered();
        assert_eq!((known.login, known.last_failure.is_none()), (LoginState::Done, true));
        known.failed(&failure(FailureReason::AgentFailed), false, 2);
        known.opened();
        assert_eq!((known.login, known.last_failure.is_none()), (LoginState::Done, true), "success clears");
    }

    #[test]
    fn after_a_login_only_a_prompt_shows_whether_it_holds() {
        let mut known = Known::default();
        known.opened();
        assert_eq!(known.login, LoginState::Unknown, "an open session proves nothing");
        known.failed(&failure(FailureReason::AgentAuthRequired), true, 1);
        known.login_begun = true;
        known.opened();
        assert_eq!((known.login, known.last_failure.is_none()), (LoginState::Unknown, true));
        known.failed(&failure(FailureReason::AgentAuthRequired), false, 2);
        known.opened();
        assert_eq!(known.login, LoginState::Done, "it had refused a session");
    }

    #[test]
    fn a_broken_file_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.json");
        fs::write(&file, "{\"codex\":").unwrap();
        assert_eq!(Memory::load(Some(file)).of(&Provider::new("codex")), None);
    }
}
