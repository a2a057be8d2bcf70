//! An agent's own sessions: listed, adopted with what the agent tells of them, deleted. Each time an agent is started for
//! it that nothing else uses.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use signalbox_agents::{AgentEvent, AgentInfo, ListedSession, OpenSession, Visit, dismiss_request};
use signalbox_facts::{
    Committed, FactBody, Launch, Policy, Provider, SessionCreated, SessionId, SessionSource, TitleChanged,
    TitleOrigin, TurnId,
};
use signalbox_protocol::ops::{Import, Op};
use tokio::sync::SemaphorePermit;

use crate::adopted::{Frame, Transcript, warning};
use crate::batch::{Batch, Item};
use crate::convert;
use crate::core::Core;
use crate::engine::Engine;
use crate::launch::Secrets;
use crate::session::{Handle, existing_directory};
use crate::submission::{Accepted, OpError, Origin, Reply, Submission};

/// Agents that are visited at a time; each may hold a conversation in memory.
pub(crate) const VISITS: usize = 4;
/// Sessions of one answer, unless the agent tells more in one page.
const LISTED: usize = 500;
/// Pages that are asked for to fill one answer.
const PAGES: usize = 20;
/// Pages in which a session is looked for that is to be adopted.
const PAGES_SEARCHED: usize = 200;
/// Longest time that a session may take to be adopted.
const LONGEST: Duration = Duration::from_secs(600);

/// Which of an agent's own sessions.
#[derive(Clone, Debug)]
pub struct AgentSessionQuery {
    /// Whose.
    pub provider: Provider,
    /// Only those of this directory, absolute.
    pub cwd: Option<PathBuf>,
    /// From here on: [`AgentSessions::next`] of the answer before.
    pub cursor: Option<String>,
}

/// Some of an agent's own sessions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AgentSessions {
    /// In the agent's order.
    pub sessions: Vec<AgentSession>,
    /// The agent's own cursor, if it has more.
    pub next: Option<String>,
}

/// A session that an agent keeps.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentSession {
    /// What the agent tells of it.
    pub listed: ListedSession,
    /// The session of ours that goes on with it.
    pub adopted: Option<SessionId>,
}

impl Engine {
    /// An agent's own sessions. Starts the agent, asks it, and stops it again.
    ///
    /// # Errors
    /// The provider cannot be used, its agent fails or wants a login, or it does not list ([`OpError::Agent`] with the
    /// reason `unsupported_by_agent`).
    pub async fn agent_sessions(
        &self,
        query: AgentSessionQuery,
        origin: &Origin,
    ) -> Result<AgentSessions, OpError> {
        let core = self.core();
        let _place = place(core)?;
        let work = async {
            let mut visit =
                visit(core, &query.provider, start_in(query.cwd.as_deref(), origin), origin, None).await?;
            if !visit.info().can_list {
                return Err(cannot_list(visit.info()));
            }
            pages(&mut visit, query.cwd, query.cursor).await
        };
        let (listed, next) = within(core, work).await?;
        let adopted = core.stores.disk.reader.agent_sessions(&query.provider).await;
        let adopted = adopted.map_err(|error| OpError::StorageFailed(error.to_string()))?;
        let sessions = listed.into_iter().map(|listed| {
            let adopted = adopted.get(&listed.id).copied();
            AgentSession { listed, adopted }
        });
        Ok(AgentSessions { sessions: sessions.collect(), next })
    }

    /// Adopts an agent's session: what the agent tells of it is stored in one commit, so there is all of it or nothing.
    pub(crate) async fn import(
        &self,
        session: SessionId,
        wish: Import,
        origin: &Origin,
    ) -> Result<Accepted, OpError> {
        let core = self.arc();
        let provider = Provider::new(wish.provider.name());
        let _once = Once::begin(core, &provider, &wish.agent_session)?;
        let adopted = core.stores.disk.reader.agent_sessions(&provider).await;
        let adopted = adopted.map_err(|error| OpError::StorageFailed(error.to_string()))?;
        if let Some(thread) = adopted.get(&wish.agent_session) {
            return Err(OpError::AlreadyImported { session: wish.agent_session, thread: Some(*thread) });
        }
        let _place = place(core)?;
        let base = start_in(None, origin);
        let cwd = wish.cwd.as_deref().map(|cwd| existing_directory(&base, cwd, "cwd")).transpose()?;
        let work = async {
            let visit = visit(core, &provider, cwd.clone().unwrap_or(base), origin, None).await?;
            tell(visit, &wish.agent_session, cwd).await
        };
        let told = within(core, work).await?;
        self.adopt(session, provider, wish, told, origin).await
    }

    async fn adopt(
        &self,
        session: SessionId,
        provider: Provider,
        wish: Import,
        told: Told,
        origin: &Origin,
    ) -> Result<Accepted, OpError> {
        let core = self.arc();
        let Told { listed, cwd, agent_session, transcript, warnings } = told;
        let now = (core.now_ms)();
        let at_ms = listed.updated_at_ms.filter(|at| (0..=now).contains(at)).unwrap_or(now);
        let policy = wish.initial_policy.map_or_else(Policy::default, convert::policy_in);
        let created = SessionCreated {
            provider,
            project_path: cwd.clone(),
            cwd: cwd.clone(),
            roots: Vec::new(),
            worktree: None,
            policy,
            model: None,
            effort: None,
            instructions: None,
            request_id: wish.request_id,
            source: wish.source.as_deref().map_or(SessionSource::App, convert::source_in),
            forked_from: None,
            fork_context: None,
            ephemeral: false,
            launch: None,
        };
        let mut batch = Batch::new(session, 0, at_ms);
        batch.push(None, Item::None, FactBody::SessionCreated(Box::new(created)));
        let title = listed.title.as_deref().filter(|title| !title.trim().is_empty()).or(transcript.title());
        let title = title.map(|title| title.trim().chars().take(200).collect::<String>());
        let has_title = title.is_some();
        if let Some(title) = title {
            let changed = TitleChanged { title, origin: TitleOrigin::Agent };
            batch.push(None, Item::None, FactBody::TitleChanged(changed));
        }
        for (reason, message) in warnings {
            batch.push(None, Item::None, warning(reason, message));
        }
        transcript.write(&mut batch, Frame { cwd: &cwd, policy }, has_title);
        batch.push(None, Item::None, FactBody::AgentSession { id: agent_session });
        let (row, released) = self.commit_new(batch).await?;
        let turns: Vec<TurnId> = released.iter().filter_map(ended_turn).collect();
        let shown = row.last_seq;
        let receipt: Vec<Committed> = released.into_iter().take(1).collect();
        let cell = Arc::clone(core.sessions.lock().entry(session).or_default());
        let handle = cell.get_or_init(async || Handle::spawn(core, row, shown, receipt)).await;
        handle.offer(origin.env.as_ref());
        self.settle_turns(session, turns);
        Ok(Accepted::Created { session })
    }

    /// Ended turns are gone over once by the store, which also makes them searchable; so many in the background, one by one.
    fn settle_turns(&self, session: SessionId, turns: Vec<TurnId>) {
        let core = Arc::clone(self.arc());
        self.core().tracker.spawn(async move {
            let settle = async {
                for turn in turns {
                    if let Err(error) = core.stores.disk.writer.compact(session, turn).await {
                        tracing::debug!(%session, %error, "the rest of an adopted session waits for the next start");
                        break;
                    }
                }
            };
            core.shutdown.run_until_cancelled(settle).await;
        });
    }

    /// Deletes a session and then, once its agent has stopped using it, what the agent itself keeps of it.
    pub(crate) async fn delete_with_agent_session(&self, session: SessionId, submission: Submission) {
        let row = self.row(session).await;
        let secrets = self.core().secrets.of(session);
        let Submission { id, op, origin, session: new, interrupt, reply } = submission;
        let (deleted, decision) = Reply::to_caller();
        let op = match op {
            Op::Delete { session, request_id, .. } => {
                Op::Delete { session, agent_session: false, request_id }
            }
            other => other,
        };
        let plain = Submission { id, op, origin: origin.clone(), session: new, interrupt, reply: deleted };
        self.dispatch(plain).await;
        let engine = self.clone();
        self.core().tracker.spawn(async move {
            let decision = decision.await.unwrap_or(Err(OpError::ShuttingDown));
            let (Ok(accepted), Ok(row)) = (&decision, row) else { return reply.send(decision) };
            let Some(own) = row.agent_session else { return reply.send(decision) };
            let launch = row.launch.as_deref().map(|launch| (launch, &*secrets));
            let gone =
                engine.delete_agent_session(&row.provider, &row.cwd, own.clone(), &origin, launch).await;
            reply.send(match gone {
                Ok(()) => Ok(accepted.clone()),
                Err(error) => Err(OpError::AgentSessionKept { session: own, why: error.to_string() }),
            });
        });
    }

    /// Has a provider's agent delete one of its own sessions.
    async fn delete_agent_session(
        &self,
        provider: &Provider,
        cwd: &Path,
        agent_session: String,
        origin: &Origin,
        launch: Option<(&Launch, &Secrets)>,
    ) -> Result<(), OpError> {
        let core = self.core();
        let _place = place(core)?;
        let work = async {
            let start = if cwd.is_dir() { cwd.to_owned() } else { start_in(None, origin) };
            let mut visit = visit(core, provider, start, origin, launch).await?;
            if !visit.info().can_delete {
                let message = format!("{} cannot delete its sessions", visit.info().name);
                return Err(OpError::Agent { reason: "unsupported_by_agent", message });
            }
            visit.delete(agent_session).await.map_err(OpError::AgentFailed)
        };
        within(core, work).await
    }
}

/// What was found out about a session that is to be adopted.
struct Told {
    listed: ListedSession,
    cwd: PathBuf,
    agent_session: String,
    transcript: Transcript,
    warnings: Vec<(&'static str, String)>,
}

/// Finds the session, opens it, and hears what is told of it.
async fn tell(mut visit: Visit, id: &str, wanted: Option<PathBuf>) -> Result<Told, OpError> {
    let info = visit.info().clone();
    if !info.can_load && !info.can_resume {
        let message = format!("{} cannot open its earlier sessions again", info.name);
        return Err(OpError::Agent { reason: "unsupported_by_agent", message });
    }
    let listed = find(&mut visit, id, wanted.is_some()).await?;
    let cwd = match (wanted, &listed.cwd) {
        (Some(cwd), _) => cwd,
        (None, Some(cwd)) => existing_directory(Path::new("/"), &cwd.display().to_string(), "cwd")
            .map_err(|_| gone_directory(cwd))?,
        (None, None) => return Err(no_directory(&info)),
    };
    let open =
        OpenSession { cwd: cwd.clone(), resume: Some(id.to_owned()), replay: true, ..OpenSession::default() };
    let (agent, mut events) = visit.open(open).map_err(OpError::AgentFailed)?;
    let mut transcript = Transcript::default();
    let mut ready = None;
    'events: while let Some(some) = events.recv().await {
        for event in some {
            match event {
                AgentEvent::Replayed(update) => transcript.take(update),
                AgentEvent::Ready(info) => {
                    ready = Some(info);
                    break 'events;
                }
                AgentEvent::StartFailed(failure) | AgentEvent::Exited(failure) => {
                    return Err(OpError::AgentFailed(failure));
                }
                // Of a session that is not in use.
                other => dismiss_request(&agent, &other),
            }
        }
    }
    agent.stop();
    let Some(ready) = ready else {
        let message = format!("{} has ended before its session was open", info.name);
        return Err(OpError::Agent { reason: "agent_failed", message });
    };
    let warnings = warnings(&ready, &transcript);
    Ok(Told { listed, cwd, agent_session: ready.acp_session_id, transcript, warnings })
}

fn warnings(info: &AgentInfo, transcript: &Transcript) -> Vec<(&'static str, String)> {
    let mut warnings = Vec::new();
    let name = &info.name;
    if !info.replayed {
        let message = format!(
            "{name} can go on with the session but does not tell what was said in it; only what comes is shown here"
        );
        warnings.push(("history_unavailable", message));
    } else if transcript.is_empty() {
        let message = format!("{name} opened the session and told nothing of what was said in it");
        warnings.push(("history_unavailable", message));
    }
    match transcript.left_out() {
        0 => {}
        count => {
            let message = format!("the session is very long; its oldest {count} turns are not shown here");
            warnings.push(("history_cut", message));
        }
    }
    warnings
}

/// What the agent lists of a session. Where the directory is known the list may fail: it only adds title and time.
async fn find(visit: &mut Visit, id: &str, has_directory: bool) -> Result<ListedSession, OpError> {
    let bare = ListedSession { id: id.to_owned(), ..ListedSession::default() };
    if !visit.info().can_list {
        return Ok(bare);
    }
    let (mut cursor, mut seen) = (None, HashSet::new());
    for _ in 0..PAGES_SEARCHED {
        let page = match visit.list(None, cursor).await {
            Ok(page) => page,
            Err(failure) if has_directory && failure.code.is_some() => {
                tracing::info!(%failure, "a session is adopted that cannot be looked up");
                return Ok(bare);
            }
            Err(failure) => return Err(OpError::AgentFailed(failure)),
        };
        if let Some(found) = page.sessions.into_iter().find(|session| session.id == id) {
            return Ok(found);
        }
        cursor = page.next.filter(|next| seen.insert(next.clone()));
        if cursor.is_none() {
            break;
        }
    }
    if has_directory {
        return Ok(bare);
    }
    let message = format!(
        "{} does not list a session {id}; if it is one of another directory, name that directory",
        visit.info().name
    );
    Err(OpError::Agent { reason: "agent_session_not_found", message })
}

/// Pages until there is enough for one answer. An agent that says the same cursor again has no more.
async fn pages(
    visit: &mut Visit,
    cwd: Option<PathBuf>,
    mut cursor: Option<String>,
) -> Result<(Vec<ListedSession>, Option<String>), OpError> {
    let mut seen: HashSet<String> = cursor.iter().cloned().collect();
    let mut known = HashSet::new();
    let mut sessions = Vec::new();
    for _ in 0..PAGES {
        let page = visit.list(cwd.clone(), cursor).await.map_err(OpError::AgentFailed)?;
        sessions.extend(page.sessions.into_iter().filter(|session| known.insert(session.id.clone())));
        cursor = page.next;
        if cursor.as_ref().is_some_and(|next| !seen.insert(next.clone())) {
            tracing::info!(agent = visit.info().name, "the agent's list of sessions repeats itself");
            cursor = None;
        }
        if cursor.is_none() || sessions.len() >= LISTED {
            break;
        }
    }
    Ok((sessions, cursor))
}

async fn visit(
    core: &Core,
    provider: &Provider,
    start_in: PathBuf,
    origin: &Origin,
    launch: Option<(&Launch, &Secrets)>,
) -> Result<Visit, OpError> {
    let offered = core.catalog.offered(origin.env.as_ref()).await;
    let spec = match launch {
        Some((launch, secrets)) => {
            core.catalog.launch_as(provider, &start_in, &offered, Some(launch), secrets)?
        }
        None => core.catalog.launch(provider, &start_in, &offered)?,
    };
    Visit::begin(spec, core.limits.clone(), &core.agents).await.map_err(OpError::AgentFailed)
}

/// Where an agent starts that is only visited: agents look for their own configuration there.
fn start_in(cwd: Option<&Path>, origin: &Origin) -> PathBuf {
    let directory = cwd.filter(|cwd| cwd.is_dir()).or(origin.base_dir.as_deref());
    directory.map_or_else(|| std::env::current_dir().unwrap_or_else(|_| "/".into()), Path::to_owned)
}

fn place(core: &Core) -> Result<SemaphorePermit<'_>, OpError> {
    core.visits.try_acquire().map_err(|_| OpError::Overloaded)
}

/// In the time that a visit may take, and no longer than the server runs. Given up, the agent is stopped.
async fn within<T>(core: &Core, work: impl Future<Output = Result<T, OpError>>) -> Result<T, OpError> {
    tokio::select! {
        done = tokio::time::timeout(LONGEST, work) => done.unwrap_or_else(|_| {
            let message = format!("the agent was not done within {} s", LONGEST.as_secs());
            Err(OpError::Agent { reason: "agent_timeout", message })
        }),
        () = core.shutdown.cancelled() => Err(OpError::ShuttingDown),
    }
}

fn cannot_list(info: &AgentInfo) -> OpError {
    let by_id = match info.can_load || info.can_resume {
        true => "; a session whose id and directory are known can be adopted by them",
        false => ", nor open earlier ones again",
    };
    let message = format!("{} cannot list its sessions{by_id}", info.name);
    OpError::Agent { reason: "unsupported_by_agent", message }
}

fn no_directory(info: &AgentInfo) -> OpError {
    let message = format!("{} does not say where the session works; name its directory", info.name);
    OpError::InvalidParams { path: "cwd", message }
}

fn gone_directory(cwd: &Path) -> OpError {
    let message = format!("the session worked in {}, which is gone; name another directory", cwd.display());
    OpError::InvalidParams { path: "cwd", message }
}

fn ended_turn(committed: &Committed) -> Option<TurnId> {
    match committed {
        Committed::Fact(fact) if matches!(fact.body, FactBody::TurnEnded(_)) => fact.turn,
        _ => None,
    }
}

/// One session of an agent is adopted by one caller at a time.
struct Once<'a> {
    core: &'a Core,
    key: (Provider, String),
}

impl<'a> Once<'a> {
    fn begin(core: &'a Core, provider: &Provider, session: &str) -> Result<Self, OpError> {
        let key = (provider.clone(), session.to_owned());
        if core.importing.lock().insert(key.clone()) {
            return Ok(Self { core, key });
        }
        Err(OpError::AlreadyImported { session: session.to_owned(), thread: None })
    }
}

impl Drop for Once<'_> {
    fn drop(&mut self) {
        self.core.importing.lock().remove(&self.key);
    }
}
