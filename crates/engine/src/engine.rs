//! The engine: takes submissions, finds or loads their session, creates sessions, mends what a stop left open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_facts::{
    Activity, ActivityState, Committed, Decision, Fact, FactBody, FailedReason, Failure, Launch,
    PermissionResolved, Policy, Provider, QueuePause, ResolvedBy, ResolverKind, SessionCreated, SessionId,
    SessionRow, SessionSource, SettingsChanged, TitleChanged, TitleOrigin, ToolOutcome, ToolStatus,
    TurnEnded, TurnStatus,
};
use signalbox_protocol::ops::{self, ContextEntry, DocBlock, NewSession, Op};
use signalbox_store::{Commit, CommitError, Listed, Reader, Store, StoreError};
use signalbox_workspace::BlobStore;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attendance::Attending;
use crate::batch::{Batch, Item};
use crate::bus::OpEvents;
use crate::catalog::Catalog;
use crate::catalog::Memory;
use crate::check::Checks;
use crate::convert;
use crate::core::{Core, EngineConfig};
use crate::files::{FileQuery, Files, Finder, PRUNE_EVERY};
use crate::import::VISITS;
use crate::items::open_calls;
use crate::launch::{AllSecrets, taken};
use crate::making::take_back_what_a_kill_left;
use crate::prompt::{self, Compiled, Document, Skills, SkillsError};
use crate::session::{
    Handle, SessionStream, Watching, existing_directories, existing_directory, is_choice, is_control,
};
use crate::stores::Stores;
use crate::submission::{Accepted, OpError, Origin, Reply, Submission};
use crate::worktrees::{Place, Worktrees};

/// What is kept of file contents from before turns: this much, and not longer unused than this.
const BLOB_BYTES: u64 = 512 << 20;
const BLOB_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The core of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    /// Starts the engine on a store that no other process writes: turns that a stop left open are ended first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn start(store: Store, config: EngineConfig) -> Result<Self, StoreError> {
        let core = Arc::new(Core {
            stores: Stores::new(store, config.ephemeral_bytes),
            catalog: config.catalog,
            limits: config.limits,
            blobs: config.blobs,
            worktrees: Worktrees::new(config.worktrees),
            idle_agent: config.idle_agent,
            idle_session: config.idle_session,
            sources: config.sources,
            memory: Memory::load(config.known),
            checks: Checks::default(),
            secrets: AllSecrets::default(),
            on_load: config.on_load,
            now_ms: config.now_ms,
            unattended: config.unattended,
            attendance: Arc::default(),
            bus: Arc::default(),
            finder: Finder::default(),
            visits: Semaphore::new(VISITS),
            importing: Mutex::default(),
            sessions: Mutex::default(),
            tracker: TaskTracker::new(),
            agents: config.agents,
            shutdown: CancellationToken::new(),
        });
        let engine = Self { core };
        engine.end_what_a_stop_left_open().await?;
        engine.prune_blobs();
        take_back_what_a_kill_left(&engine.core).await;
        engine.go_on_with_queues().await?;
        Ok(engine)
    }

    /// What is known of providers' agents.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.core.memory
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn arc(&self) -> &Arc<Core> {
        &self.core
    }

    /// The providers.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.core.catalog
    }

    /// The store on disk, for reading: lists, and every session that is not ephemeral.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.core.stores.disk.reader
    }

    /// The store that a session is in, for reading: whoever reads about one session asks here, because an ephemeral one is
    /// not in the store on disk. To be asked anew for each read: an ephemeral session takes its store along when it goes.
    #[must_use]
    pub fn reader_of(&self, session: SessionId) -> Reader {
        self.core.stores.reader_of(session)
    }

    /// Ids of the sessions in memory.
    #[must_use]
    pub fn loaded(&self) -> Vec<SessionId> {
        let sessions = self.core.sessions.lock();
        let is_loaded = |cell: &OnceCell<Handle>| cell.get().is_some_and(|handle| handle.gate().is_open());
        let loaded = sessions.iter().filter(|(_, cell)| is_loaded(cell));
        let mut ids: Vec<_> = loaded.map(|(session, _)| *session).collect();
        ids.sort_unstable();
        ids
    }

    /// Submits an Op and waits for the core's decision, which never waits for an agent's answer to a prompt.
    ///
    /// # Errors
    /// The core declined it.
    pub async fn submit(&self, op: Op, origin: Origin) -> Result<Accepted, OpError> {
        self.submit_as(op, origin, None).await
    }

    /// The same; a new session gets this id.
    ///
    /// # Errors
    /// The core declined it.
    pub async fn submit_as(
        &self,
        op: Op,
        origin: Origin,
        session: Option<SessionId>,
    ) -> Result<Accepted, OpError> {
        self.decided(op, origin, session, false).await
    }

    /// The same for the answer to an approval that also interrupts the turn. The agent hears of the interrupt first, so it
    /// does not go on with what the answer would let it go on with.
    ///
    /// # Errors
    /// The core declined it; then nothing is interrupted either.
    pub async fn submit_interrupting(&self, op: Op, origin: Origin) -> Result<Accepted, OpError> {
        self.decided(op, origin, None, true).await
    }

    async fn decided(
        &self,
        op: Op,
        origin: Origin,
        session: Option<SessionId>,
        interrupt: bool,
    ) -> Result<Accepted, OpError> {
        let (reply, decision) = Reply::to_caller();
        let id = signalbox_facts::SubmissionId::generate();
        self.dispatch(Submission { id, op, origin, session, interrupt, reply }).await;
        decision.await.unwrap_or(Err(OpError::ShuttingDown))
    }

    /// Takes an Op of a frontend that only reads events: what is accepted shows in the session's events, and what is
    /// declined is told as an `error` event with the Op's `request_id`. Returns when the Op is in the core's hands; it
    /// never waits for an agent. Ops of one caller keep their order if it waits for each call of this to return.
    pub async fn dispatch_op(&self, op: Op, origin: Origin) {
        let reply = Reply::to_events(Arc::clone(&self.core.bus), &op);
        let id = signalbox_facts::SubmissionId::generate();
        self.dispatch(Submission { id, op, origin, session: None, interrupt: false, reply }).await;
    }

    /// All sessions' events from now on, each after what it tells was committed.
    #[must_use]
    pub fn op_events(&self) -> OpEvents {
        self.core.bus.listen()
    }

    /// Somebody is there who can answer the approvals of one session, or of all, until the guard is dropped. If nobody is,
    /// [`EngineConfig::unattended`] decides.
    #[must_use]
    pub fn attend(&self, session: Option<SessionId>) -> Attending {
        self.core.attendance.attend(session)
    }

    /// Somebody has asked which approvals wait, in one session or in all: for a minute that counts as being there.
    pub fn approvals_listed(&self, session: Option<SessionId>) {
        self.core.attendance.listed(session, tokio::time::Instant::now());
    }

    /// Takes a submission; its reply channel gets the decision. Submissions of one caller keep their order if the
    /// caller waits for each call of this to return.
    pub async fn dispatch(&self, submission: Submission) {
        if self.core.shutdown.is_cancelled() {
            return submission.reply.send(Err(OpError::ShuttingDown));
        }
        let Some(session) = submission.op.session() else {
            return self.create(submission).await;
        };
        let session = match parse(session) {
            Ok(session) => session,
            Err(error) => return submission.reply.send(Err(error)),
        };
        if matches!(submission.op, Op::Delete { agent_session: true, .. }) {
            return Box::pin(self.delete_with_agent_session(session, submission)).await;
        }
        let control = is_control(&submission.op);
        let mut submission = Box::new(submission);
        loop {
            let handle = match self.handle(session).await {
                Ok(handle) => handle,
                Err(OpError::SessionUnreadable(id)) if matches!(submission.op, Op::Delete { .. }) => {
                    return submission.reply.send(self.delete_unreadable(&id).await);
                }
                Err(error) => return submission.reply.send(Err(error)),
            };
            match handle.submit(submission, control) {
                Ok(()) => return,
                Err(too_late) => submission = too_late,
            }
        }
    }

    /// Loads a session, if it is not in memory.
    ///
    /// # Errors
    /// There is no such session, or it cannot be read.
    pub async fn load(&self, session: SessionId) -> Result<(), OpError> {
        self.handle(session).await.map(drop)
    }

    /// Offers variables to the next agent of a session in memory: whoever resumes it says where its agents live. Held in
    /// memory only.
    pub fn offer(&self, session: SessionId, env: Option<&Arc<BTreeMap<String, String>>>) {
        if let Some(handle) = self.handle_in_memory(session) {
            handle.offer(env);
        }
    }

    /// Gives values that a session was started with and that no row has, for the next start of its agent: those of `wish.env`,
    /// and of the variables and headers of `wish.mcp_servers`. Held in memory only. Gives the names of what the session was
    /// not started with and that is left out for it.
    pub fn give_launch_values(
        &self,
        session: SessionId,
        launch: Option<&Launch>,
        wish: ops::Launch,
    ) -> Vec<String> {
        self.core.secrets.give(session, launch, wish)
    }

    /// The variables that a session was started with and whose values this server does not have, or not any more; those of its
    /// MCP servers as `NAME.VARIABLE`.
    #[must_use]
    pub fn lost_launch_values(&self, session: SessionId, launch: &Launch) -> Vec<String> {
        let secrets = self.core.secrets.of(session);
        let of_agent = secrets.lost_env(launch).into_iter().map(str::to_owned);
        let of_servers = launch.mcp_servers.iter().flat_map(|(server, reach)| {
            let lost = secrets.lost_mcp(server, reach);
            lost.into_iter().map(move |name| format!("{server}.{name}"))
        });
        of_agent.chain(of_servers).collect()
    }

    /// Everything that a session commits from now on.
    ///
    /// # Errors
    /// There is no such session, or it cannot be read.
    pub async fn subscribe(&self, session: SessionId) -> Result<SessionStream, OpError> {
        loop {
            if let Some(stream) = self.handle(session).await?.subscribe().await {
                return Ok(stream);
            }
        }
    }

    /// Loads a session if it is not in memory, and keeps it there with its agent until the guard is dropped. Whoever
    /// listens to all sessions keeps none of them.
    ///
    /// # Errors
    /// There is no such session, or it cannot be read.
    pub async fn watch(&self, session: SessionId) -> Result<Watching, OpError> {
        loop {
            if let Some(watching) = self.handle(session).await?.gate().watch() {
                return Ok(watching);
            }
        }
    }

    /// What the next prompt of a session would be if it were this document: the very blocks that the agent would get, what
    /// they leave out, and what is unresolved. Nothing is stored and no agent is started.
    ///
    /// # Errors
    /// There is no such session, or it cannot be read.
    pub async fn preview_prompt(
        &self,
        session: SessionId,
        doc: Vec<DocBlock>,
        context: BTreeMap<String, ContextEntry>,
    ) -> Result<Compiled, OpError> {
        let row = self.row(session).await?;
        let document = Document {
            blocks: convert::doc_in(doc),
            context: convert::context_in(context),
            roots: row.all_roots(),
            chats: BTreeMap::new(),
        };
        let reads = self.core.catalog.reads_rules(&row.provider);
        Ok(prompt::preview(&self.core.stores, &row, reads, document, &self.core.sources).await)
    }

    /// Files and directories whose paths fit a few letters.
    pub async fn find_files(&self, query: FileQuery) -> Files {
        let found = self.core.finder.find(query, &self.core.tracker).await;
        self.forget_listings();
        found
    }

    /// Listings of files go when nobody has searched for a while.
    fn forget_listings(&self) {
        if self.core.finder.begin_pruning() {
            let core = Arc::clone(&self.core);
            self.core.tracker.spawn(async move {
                let prune = async {
                    loop {
                        tokio::time::sleep(PRUNE_EVERY).await;
                        if !core.finder.prune() {
                            break;
                        }
                    }
                };
                core.shutdown.run_until_cancelled(prune).await;
            });
        }
    }

    /// The skills that prompts of a session with these roots can name, the working directory first.
    ///
    /// # Errors
    /// The file system does not answer in time.
    pub async fn skills(&self, roots: Vec<PathBuf>) -> Result<Skills, SkillsError> {
        prompt::list_skills(roots, &self.core.sources).await
    }

    /// Ends open turns, stops all agents and waits for all of it. Any number of callers may wait.
    pub async fn shutdown(&self) {
        self.core.shutdown.cancel();
        self.core.finder.stop();
        self.core.tracker.close();
        self.core.tracker.wait().await;
        self.core.agents.finish().await;
        self.core.bus.close();
    }

    /// A session of which nothing can be read can at least be removed. Whether it had a checkout is not known.
    async fn delete_unreadable(&self, id: &str) -> Result<Accepted, OpError> {
        let session = parse(id)?;
        match self.core.stores.disk.writer.delete_session(session).await {
            Ok(()) => {}
            Err(StoreError::UnknownSession { .. }) => return Err(OpError::SessionNotFound(id.to_owned())),
            Err(error) => return Err(OpError::StorageFailed(error.to_string())),
        }
        tracing::warn!(%session, "a session that could not be read was deleted; a checkout of it would be left");
        let reason = ops::CloseReason::Deleted;
        self.core.bus.tell(ops::Event::SessionClosed { session: id.to_owned(), reason });
        self.core.catalog.remove_traffic_logs(session).await?;
        Ok(Accepted::Applied)
    }

    pub(crate) async fn row(&self, session: SessionId) -> Result<SessionRow, OpError> {
        let row = self.core.stores.reader_of(session).session(session).await;
        let row = row.map_err(|error| unreadable(session, &error))?;
        row.ok_or_else(|| OpError::SessionNotFound(session.to_string()))
    }

    /// The handle of a session that is in memory, without loading it.
    pub(crate) fn handle_in_memory(&self, session: SessionId) -> Option<Handle> {
        self.core.sessions.lock().get(&session).and_then(|cell| cell.get()).cloned()
    }

    /// The session in memory. One that is leaving it is waited for, so that there are never two.
    async fn handle(&self, session: SessionId) -> Result<Handle, OpError> {
        loop {
            let handle = self.loaded_handle(session).await?;
            if handle.gate().is_open() {
                return Ok(handle);
            }
            tokio::select! {
                () = handle.gate().ended() => self.core.forget_loaded(session, handle.gate()),
                () = self.core.shutdown.cancelled() => return Err(OpError::ShuttingDown),
            }
        }
    }

    async fn loaded_handle(&self, session: SessionId) -> Result<Handle, OpError> {
        let cell = Arc::clone(self.core.sessions.lock().entry(session).or_default());
        let loaded = cell.get_or_try_init(async || {
            let row = self.row(session).await?;
            let shown = row.last_seq;
            Ok(Handle::spawn(&self.core, row, shown, Vec::new()))
        });
        let loaded = loaded.await.cloned();
        if loaded.is_err() {
            let mut sessions = self.core.sessions.lock();
            if sessions.get(&session).is_some_and(|cell| !cell.initialized()) {
                sessions.remove(&session);
            }
        }
        loaded
    }

    async fn create(&self, submission: Submission) {
        let Submission { op, origin, session, reply, .. } = submission;
        let session = session.unwrap_or_else(SessionId::generate);
        let new = match op {
            Op::NewSession(new) => new,
            Op::Import(wish) => {
                // It takes as long as an agent takes, and is done to its end whether or not its submitter waits.
                let engine = self.clone();
                let import = async move { reply.send(engine.import(session, wish, &origin).await) };
                self.core.tracker.spawn(import);
                return;
            }
            other => return reply.send(Err(OpError::Unsupported(other.name()))),
        };
        let engine = self.clone();
        let (tracker, on_its_own) = (self.core.tracker.clone(), new.use_worktree || new.ephemeral);
        // A submitter that has gone away is no error; the session stays.
        let create = async move { reply.send(engine.create_session(session, new, &origin).await) };
        if on_its_own {
            // A checkout takes a while. It is made, and stored or taken back, whether or not its submitter waits; so is an
            // ephemeral session's place in memory.
            tracker.spawn(create);
        } else {
            create.await;
        }
    }

    async fn create_session(
        &self,
        session: SessionId,
        mut new: NewSession,
        origin: &Origin,
    ) -> Result<Accepted, OpError> {
        let provider = Provider::new(new.provider.name());
        let base = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
        let cwd = existing_directory(&base, &new.cwd, "cwd")?;
        let roots = existing_directories(&cwd, &new.roots, "roots")?;
        let offered = self.core.catalog.offered(origin.env.as_ref()).await;
        let (launch, secrets) = taken(new.launch.take().map(|launch| *launch).unwrap_or_default())?;
        self.core.catalog.launch_as(&provider, &cwd, &offered, launch.as_deref(), &secrets)?;
        if new.ephemeral && new.use_worktree {
            let message =
                "an ephemeral thread leaves nothing behind that would know its worktree; start a thread \
                           that is stored, or leave the worktree out"
                    .to_owned();
            return Err(OpError::InvalidParams { path: "use_worktree", message });
        }
        let policy = new.initial_policy.map_or_else(Policy::default, convert::policy_in);
        self.core.catalog.suits(&provider, policy)?;
        let place = Place::prepare(&self.core, session, &new, cwd).await?;
        let created = SessionCreated {
            provider,
            project_path: place.project_path.clone(),
            cwd: place.cwd.clone(),
            roots,
            worktree: place.worktree(),
            policy,
            model: new.model.filter(|model| is_choice(model)),
            effort: new.effort,
            instructions: convert::instructions_in(new.base_instructions, new.developer_instructions),
            request_id: new.request_id,
            source: new.source.as_deref().map_or(SessionSource::App, convert::source_in),
            forked_from: None,
            fork_context: None,
            ephemeral: new.ephemeral,
            launch,
        };
        let mut batch = Batch::new(session, 0, (self.core.now_ms)());
        batch.push(None, Item::None, FactBody::SessionCreated(Box::new(created)));
        place.warn(&mut batch);
        if !new.config_options.is_empty() {
            let options = new.config_options.into_iter().map(|(id, value)| (id, value.into())).collect();
            let changed = SettingsChanged { options, ..SettingsChanged::default() };
            batch.push(None, Item::None, FactBody::SettingsChanged(Box::new(changed)));
        }
        if let Some(title) = new.title.filter(|title| !title.trim().is_empty()) {
            let changed = TitleChanged { title, origin: TitleOrigin::Manual };
            batch.push(None, Item::None, FactBody::TitleChanged(changed));
        }
        if new.ephemeral {
            self.core.stores.admit(session).await?;
        }
        let (row, released) = match self.commit_new(batch).await {
            Ok(stored) => stored,
            Err(error) => {
                self.core.forget_ephemeral(session);
                return Err(place.take_back(&self.core, error).await);
            }
        };
        self.core.secrets.keep(session, Arc::new(secrets));
        let cell = Arc::clone(self.core.sessions.lock().entry(session).or_default());
        let handle = cell.get_or_init(async || Handle::spawn(&self.core, row, 0, released)).await;
        handle.offer(origin.env.as_ref());
        place.stored(&self.core).await;
        Ok(Accepted::Created { session })
    }

    pub(crate) async fn commit_new(&self, batch: Batch) -> Result<(SessionRow, Vec<Committed>), OpError> {
        let (expected_last_seq, released) = batch.seal();
        let facts = facts_of(&released);
        let mut row = facts.first().and_then(|fact| SessionRow::created(fact));
        for fact in facts.iter().skip(1) {
            if let Some(row) = &mut row {
                row.apply(fact);
            }
        }
        let row = row.ok_or(OpError::Unsupported("a session without its first fact"))?;
        let commit = Commit { session: row.id, expected_last_seq, entries: released.clone() };
        match self.core.stores.of(row.id).writer.commit(commit).await {
            Ok(_) => {}
            // Stored, and not confirmed by the disk: shown once it is. Only a stop of the server ends the wait.
            Err(CommitError::Unflushed { .. }) => self.core.flush_until_done(row.id).await?,
            Err(error) => return Err(OpError::StorageFailed(error.to_string())),
        }
        Ok((row, released))
    }

    /// No turn runs yet, so what earlier ones recorded may go, save what the next ones are likely to need again.
    fn prune_blobs(&self) {
        let Some(folder) = self.core.blobs.clone().filter(|folder| folder.exists()) else { return };
        self.core.tracker.spawn_blocking(move || {
            let pruned = BlobStore::open(&folder).and_then(|store| store.prune(BLOB_BYTES, BLOB_AGE));
            if let Err(error) = pruned {
                tracing::warn!(folder = %folder.display(), %error, "old contents of files were not removed");
            }
        });
    }

    /// Sessions found running cannot own an agent any more: their pending inputs expire, their open items are closed,
    /// their turn ends as interrupted.
    async fn end_what_a_stop_left_open(&self) -> Result<(), StoreError> {
        for listed in self.core.stores.disk.reader.open_sessions().await? {
            // An unreadable row was logged by the reader; lists show it as a stub.
            let Listed::Session(row) = listed else { continue };
            let session = row.id;
            if let Err(error) = self.end_open_turn(row).await {
                // One session that cannot be mended hurts no other; it is tried again at the next start.
                tracing::error!(%session, %error, "an open turn could not be ended");
            }
        }
        Ok(())
    }

    /// A queue that a stop found between two turns goes on: its session is loaded, and does the rest itself.
    async fn go_on_with_queues(&self) -> Result<(), StoreError> {
        for session in self.core.stores.disk.reader.queued_sessions().await? {
            if let Err(error) = self.load(session).await {
                tracing::error!(%session, %error, "a session with waiting prompts could not be loaded");
            }
        }
        Ok(())
    }

    async fn end_open_turn(&self, row: Box<SessionRow>) -> Result<(), StoreError> {
        let Some(turn) = row.activity.turn() else { return Ok(()) };
        let facts = self.core.stores.disk.reader.facts_of_turn(row.id, turn).await?;
        let mut batch = Batch::new(row.id, row.last_seq, (self.core.now_ms)());
        let message = "signalbox stopped before the turn finished.";
        let pending = row.activity.pending();
        let (mut revision, request_id) = (row.activity.revision, prompt_request(&row.activity));
        for input in pending {
            let resolved =
                PermissionResolved::of(input, Decision::Cancel, ResolvedBy::kind(ResolverKind::Restart));
            let item = input.item_seq.map_or(Item::None, Item::Of);
            batch.push(Some(turn), item, FactBody::PermissionResolved(Box::new(resolved)));
        }
        for (item, mut call) in open_calls(&facts) {
            call.status = ToolStatus::Failed;
            call.outcome = Some(ToolOutcome::Interrupted);
            batch.push(Some(turn), Item::Of(item), FactBody::ToolCall(Box::new(call)));
        }
        if let Some(queue) = row.queue.as_ref().and_then(|queue| queue.held_up(QueuePause::Restarted)) {
            batch.push(None, Item::None, FactBody::QueueChanged(queue));
        }
        revision += 1;
        let state = ActivityState::Failed {
            turn_id: Some(turn),
            reason: FailedReason::Interrupted,
            message: message.to_owned(),
        };
        batch.push(Some(turn), Item::None, FactBody::Activity(Activity { revision, state }));
        let failure = Failure {
            reason: "server_restarted".to_owned(),
            message: message.to_owned(),
            retryable: true,
            data: serde_json::Map::new(),
        };
        let ended = TurnEnded {
            status: TurnStatus::Interrupted,
            stop_reason: None,
            failure: Some(failure),
            request_id,
            tokens: None,
        };
        batch.push(Some(turn), Item::None, FactBody::TurnEnded(Box::new(ended)));
        let (expected_last_seq, released) = batch.seal();
        let commit = Commit { session: row.id, expected_last_seq, entries: released };
        if let Err(error) = self.core.stores.disk.writer.commit(commit).await {
            tracing::error!(session = %row.id, %error, "an open turn could not be ended");
        }
        Ok(())
    }
}

fn prompt_request(activity: &Activity) -> Option<String> {
    match &activity.state {
        ActivityState::Running { prompt_request_id, .. }
        | ActivityState::AwaitingInput { prompt_request_id, .. } => prompt_request_id.clone(),
        ActivityState::Idle | ActivityState::Failed { .. } => None,
    }
}

fn facts_of(entries: &[Committed]) -> Vec<Arc<Fact>> {
    let fact = |entry: &Committed| match entry {
        Committed::Fact(fact) => Some(Arc::clone(fact)),
        Committed::Signal(_) => None,
    };
    entries.iter().filter_map(fact).collect()
}

fn parse(session: &str) -> Result<SessionId, OpError> {
    session.parse().map_err(|_| OpError::SessionNotFound(session.to_owned()))
}

fn unreadable(session: SessionId, error: &StoreError) -> OpError {
    match error {
        StoreError::Unreadable { .. } => OpError::SessionUnreadable(session.to_string()),
        other => OpError::StorageFailed(other.to_string()),
    }
}
