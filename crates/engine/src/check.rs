//! Starting an agent outside any session: to learn what it is, whether it opens a session, or to have its user log in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_agents::{FailureReason, Limits, Onlooker, OpenSession, ProbeNews, Probed, RequestKey, probe};
use signalbox_facts::Provider;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc};

use crate::catalog::LoginMethod;
use crate::engine::Engine;
use crate::submission::OpError;

/// Agents that are checked at a time.
const AT_A_TIME: usize = 4;
/// Logins at a time: each waits for its user, so they take no places of checks.
const LOGINS: usize = 8;
/// How long a check waits for its turn. After that whoever asks is told to come again.
const WAIT: Duration = Duration::from_secs(2);
/// How long a login may take in which a user reads a page and types a code.
const LOGIN: Duration = Duration::from_secs(600);
/// Longest check, besides the start of an agent.
const SESSION: Duration = Duration::from_secs(60);
/// Answers that may wait to be given to an agent.
const ANSWERS: usize = 16;

/// Who is being checked, so that nobody is twice at a time.
#[derive(Debug)]
pub(crate) struct Checks {
    places: Semaphore,
    one_at_a_time: Mutex<HashMap<Provider, Arc<Semaphore>>>,
    /// Where answers to questions of a login go.
    logins: Mutex<HashMap<Provider, mpsc::Sender<(RequestKey, bool)>>>,
    login_places: Semaphore,
    logging_in: Mutex<HashMap<Provider, Arc<Semaphore>>>,
    wait: Duration,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            places: Semaphore::new(AT_A_TIME),
            one_at_a_time: Mutex::default(),
            login_places: Semaphore::new(LOGINS),
            logging_in: Mutex::default(),
            logins: Mutex::default(),
            wait: WAIT,
        }
    }
}

/// What a check holds while it runs.
#[derive(Debug)]
struct Turn<'a> {
    _own: OwnedSemaphorePermit,
    _place: SemaphorePermit<'a>,
}

impl Checks {
    /// Waits for a turn, for a moment. One login at a time a provider, and one other check.
    async fn turn(&self, provider: &Provider, check: &Check) -> Result<Turn<'_>, OpError> {
        let (places, one_each) = match check {
            Check::Login(_) => (&self.login_places, &self.logging_in),
            Check::Introduction | Check::Session => (&self.places, &self.one_at_a_time),
        };
        let own = {
            let mut all = one_each.lock();
            Arc::clone(all.entry(provider.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let both = async {
            let own = own.acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
            let place = places.acquire().await.map_err(|_| OpError::ShuttingDown)?;
            Ok(Turn { _own: own, _place: place })
        };
        tokio::time::timeout(self.wait, both).await.unwrap_or(Err(OpError::Overloaded))
    }
}

/// What to check of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// Its introduction.
    Introduction,
    /// Whether it opens a session, in an empty directory of its own.
    Session,
    /// Whether it opens one after a login by this method.
    Login(String),
}

/// What a login takes.
#[derive(Clone, PartialEq, Debug)]
pub enum Login {
    /// The method's command, in a terminal.
    Terminal,
    /// The agent has done it itself; what came of it.
    Agent(Box<Probed>),
}

impl Engine {
    /// Starts a provider's agent as far as the check needs it, and stops it. One at a time a provider, beside at most one
    /// login. What is learnt is kept ([`Engine::memory`](Engine::memory)). Dropping the future stops the agent.
    ///
    /// # Errors
    /// There is no such provider, or it cannot be started from here; [`OpError::Overloaded`] if others are being checked
    /// and are not done within two seconds.
    pub async fn check_provider(
        &self,
        provider: &Provider,
        check: Check,
        env: Option<&Arc<BTreeMap<String, String>>>,
    ) -> Result<Probed, OpError> {
        self.check_watched(provider, check, env, None).await
    }

    async fn check_watched(
        &self,
        provider: &Provider,
        check: Check,
        env: Option<&Arc<BTreeMap<String, String>>>,
        news: Option<mpsc::Sender<ProbeNews>>,
    ) -> Result<Probed, OpError> {
        let core = self.core();
        let catalog = &core.catalog;
        catalog.entry(provider)?;
        let _turn = core.checks.turn(provider, &check).await?;
        let folder = tempfile::Builder::new().prefix("signalbox-check-").tempdir();
        let folder = folder.map_err(|error| OpError::Agent {
            reason: "agent_failed",
            message: format!("no directory can be made for the check: {error}"),
        })?;
        let offered = catalog.offered(env).await;
        let spec = catalog.launch(provider, folder.path(), &offered)?;
        let mut limits: Limits = core.limits.clone();
        let start = if spec.downloads { limits.download } else { limits.initialize };
        let longest = match &check {
            Check::Introduction => start,
            Check::Session => start + SESSION,
            Check::Login(_) => {
                limits.session = LOGIN;
                start + LOGIN
            }
        };
        let session = |authenticate: Option<String>| OpenSession {
            authenticate,
            cwd: folder.path().to_owned(),
            ..OpenSession::default()
        };
        let open = match &check {
            Check::Introduction => None,
            Check::Session => Some(session(None)),
            Check::Login(method) => Some(session(Some(method.clone()))),
        };
        let (answer, answers) = mpsc::channel(ANSWERS);
        let _login = news.is_some().then(|| Answerable::begin(&core.checks, provider, answer));
        let onlooker = news.map(|news| Onlooker { news, answers });
        let probing = probe(spec, open, limits, longest, &core.agents, onlooker);
        let probed = core.shutdown.run_until_cancelled(probing).await.ok_or(OpError::ShuttingDown)?;
        self.remember(provider, &check, &probed);
        Ok(probed)
    }

    fn remember(&self, provider: &Provider, check: &Check, probed: &Probed) {
        let core = self.core();
        let (memory, at_ms, tasks) = (&core.memory, (core.now_ms)(), &core.tracker);
        if let Some(info) = &probed.info {
            memory.introduced(provider, info, at_ms, tasks);
        }
        match &probed.failure {
            Some(failure) if failure.reason != FailureReason::Stopped => {
                memory.failed(provider, failure, false, at_ms, tasks);
            }
            _ if *check != Check::Introduction => memory.opened(provider, at_ms, tasks),
            _ => {}
        }
    }

    /// Logs a provider's user in by one of the agent's methods: what the agent does itself is done and waited for, for at
    /// most ten minutes; a method that needs a terminal is given back. Without a name the only method is meant. What the user
    /// must see meanwhile is told as `news`; addresses in it are answered by [`Engine::answer_login`].
    ///
    /// # Errors
    /// As [`Engine::check_provider`]; and there is no such method, or none or several without a name.
    pub async fn log_in(
        &self,
        provider: &Provider,
        method: Option<&str>,
        env: Option<&Arc<BTreeMap<String, String>>>,
        news: mpsc::Sender<ProbeNews>,
    ) -> Result<(LoginMethod, Login), OpError> {
        let known = self.memory().of(provider).map(|known| known.methods).unwrap_or_default();
        let methods = if known.is_empty() {
            let probed = self.check_provider(provider, Check::Introduction, env).await?;
            if let (None, Some(failure)) = (&probed.info, &probed.failure) {
                let (reason, message) = (failure.reason.as_str(), failure.message.clone());
                return Err(OpError::Agent { reason, message });
            }
            self.memory().of(provider).map(|known| known.methods).unwrap_or_default()
        } else {
            known
        };
        let hint = self.core().catalog.entry(provider)?.login_hint.clone();
        let invalid = |message: String| OpError::InvalidParams { path: "method_id", message };
        let names = || methods.iter().map(|method| method.id.as_str()).collect::<Vec<_>>().join(", ");
        let chosen = match (method, methods.as_slice()) {
            (_, []) => {
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                return Err(invalid(format!("{provider} offers no way to log in through it{hint}")));
            }
            (Some(id), all) => all.iter().find(|method| method.id == id).ok_or_else(|| {
                invalid(format!("{provider} has no login method {id:?}; it has {}", names()))
            })?,
            (None, [only]) => only,
            (None, _) => {
                return Err(invalid(format!("{provider} has several login methods, name one: {}", names())));
            }
        };
        let core = self.core();
        core.memory.login_begun(provider, (core.now_ms)(), &core.tracker);
        if chosen.command.is_some() {
            return Ok((chosen.clone(), Login::Terminal));
        }
        let check = Check::Login(chosen.id.clone());
        let probed = self.check_watched(provider, check, env, Some(news)).await?;
        Ok((chosen.clone(), Login::Agent(Box::new(probed))))
    }

    /// Tells the agent of a running login that an address it asked for was opened, or will not be. One that needs no answer
    /// any more gets none.
    ///
    /// # Errors
    /// No login with this provider is going on.
    pub fn answer_login(&self, provider: &Provider, key: RequestKey, opened: bool) -> Result<(), OpError> {
        let logins = self.core().checks.logins.lock();
        let none = || OpError::InvalidParams {
            path: "provider",
            message: format!("no login with {provider} is going on"),
        };
        let login = logins.get(provider).ok_or_else(none)?;
        login.try_send((key, opened)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => OpError::InvalidParams {
                path: "requestId",
                message: format!("{provider} was given more answers than it asked for"),
            },
            mpsc::error::TrySendError::Closed(_) => none(),
        })
    }
}

/// A login that can be answered, until it is over.
struct Answerable<'a> {
    checks: &'a Checks,
    provider: &'a Provider,
}

impl<'a> Answerable<'a> {
    fn begin(checks: &'a Checks, provider: &'a Provider, answer: mpsc::Sender<(RequestKey, bool)>) -> Self {
        checks.logins.lock().insert(provider.clone(), answer);
        Self { checks, provider }
    }
}

impl Drop for Answerable<'_> {
    fn drop(&mut self) {
        self.checks.logins.lock().remove(self.provider);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn logins_take_no_places_of_checks_and_nobody_waits_long() {
        let checks = Checks { wait: Duration::from_millis(20), ..Checks::default() };
        let login = Check::Login("browser".to_owned());
        let named = |n: usize| Provider::new(&format!("agent-{n}"));
        let mut logins = Vec::new();
        for n in 0..LOGINS {
            logins.push(checks.turn(&named(n), &login).await.unwrap());
        }
        // Neither a second login of one nor a ninth, but each can be checked.
        for n in [0, LOGINS] {
            assert_eq!(checks.turn(&named(n), &login).await.err(), Some(OpError::Overloaded));
        }
        let mut held = Vec::new();
        for n in 0..AT_A_TIME {
            held.push(checks.turn(&named(n), &Check::Session).await.unwrap());
        }
        for n in [0, AT_A_TIME] {
            let declined = checks.turn(&named(n), &Check::Introduction).await;
            assert_eq!(declined.err(), Some(OpError::Overloaded));
        }
        // Whoever is through makes room, and whoever gave up holds nothing.
        held.clear();
        logins.pop();
        assert!(checks.turn(&named(AT_A_TIME), &Check::Introduction).await.is_ok());
        assert!(checks.turn(&named(LOGINS), &login).await.is_ok());
    }
}
