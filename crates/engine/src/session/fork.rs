//! Sessions that begin with this one's history: what they are made with, and whether their agent goes on with a copy of
//! this one's conversation or is told what was said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use signalbox_agents::{ForkRequest, RefusedSetting, Token};
use signalbox_facts::{
    Committed, FactBody, ForkContext, Launch, Provider, SessionCreated, SessionId, SessionRow,
    SettingsChanged, TurnRow,
};
use signalbox_protocol::ops::Op;
use signalbox_store::{Commit, Fork, ForkError, StoreError};

use super::actor::Actor;
use super::{Handle, existing_directories, existing_directory, is_choice};
use crate::batch::{Batch, Item};
use crate::convert;
use crate::submission::{Accepted, OpError, Origin, Reply};

/// A fork that is to be made.
#[derive(Debug)]
pub(super) struct Plan {
    fork: Fork,
    /// The agent's options, which no history tells.
    options: BTreeMap<String, Value>,
    /// Whether a copy of the agent's conversation would be what the fork's agent has to know.
    copy_fits: bool,
}

/// A fork for which the agent is asked for a copy of its conversation.
#[derive(Debug)]
pub(super) struct Forking {
    token: Token,
    plan: Box<Plan>,
    pub(super) reply: Reply,
    /// When the agent was asked, Unix milliseconds.
    pub(super) since_ms: i64,
}

impl Actor {
    /// Makes a session that begins with this one's history. An open turn is not part of it.
    pub(super) async fn fork(&mut self, op: Op, origin: &Origin, id: Option<SessionId>, reply: Reply) {
        let plan = match self.plan_fork(op, origin, id).await {
            Ok(plan) => plan,
            Err(error) => return self.decided(reply, Err(error)),
        };
        if plan.copy_fits
            && let Some(token) = self.ask_for_copy(&plan.fork.created)
        {
            let since_ms = (self.core.now_ms)();
            self.forking = Some(Forking { token, plan: plan.into(), reply, since_ms });
            return;
        }
        let decision = self.make_fork(plan, None).await;
        self.decided(reply, decision);
    }

    /// The agent has made a copy of its conversation, or has not: then the fork's agent is told what was said.
    pub(super) async fn forked(&mut self, token: Token, result: Result<String, RefusedSetting>) {
        let Some(forking) = self.forking.take_if(|forking| forking.token == token) else { return };
        if let Err(why) = &result {
            tracing::info!(session = %self.row.id, %why, "the agent has made no copy of its conversation");
        }
        let decision = self.make_fork(*forking.plan, result.ok()).await;
        self.decided(forking.reply, decision);
    }

    /// Asks the agent, if it is there, has nothing to do and makes copies; what it remembers must be what was said.
    fn ask_for_copy(&mut self, created: &SessionCreated) -> Option<Token> {
        let token = self.token();
        let live = self.agent.as_ref().filter(|live| live.ready && live.copies && live.opening.is_none())?;
        let request = ForkRequest { cwd: created.cwd.clone(), roots: created.roots.clone() };
        match live.agent.fork(token, request) {
            Ok(()) => Some(token),
            Err(error) => {
                tracing::debug!(session = %self.row.id, %error, "an ending agent makes no copy");
                None
            }
        }
    }

    async fn plan_fork(&self, op: Op, origin: &Origin, id: Option<SessionId>) -> Result<Plan, OpError> {
        let Op::Fork {
            through_turn,
            settings,
            provider,
            ephemeral,
            base_instructions,
            developer_instructions,
            source,
            request_id,
            ..
        } = op
        else {
            return Err(OpError::Unsupported(op.name()));
        };
        let newest = self.newest_ended_turn().await?;
        let last = match &through_turn {
            Some(turn) => Some(self.turn_of_history(turn).await?),
            None => newest.clone(),
        };
        let through_seq = match &last {
            Some(turn) => self.end_with_what_came_late(turn).await?,
            None => 1,
        };
        // The checkout stays with the session that it was made for; where that is gone, the fork works in the project.
        let here = if self.row.worktree_discarded { &self.row.project_path } else { &self.row.cwd };
        let cwd = existing_directory(here, settings.cwd.as_deref().unwrap_or("."), "cwd")?;
        let roots = match &settings.roots {
            Some(roots) => existing_directories(&cwd, roots, "roots")?,
            None => self.row.roots.clone(),
        };
        let provider =
            provider.map_or_else(|| self.row.provider.clone(), |other| Provider::new(other.name()));
        let same_provider = provider == self.row.provider;
        let offered = self.core.catalog.offered(origin.env.as_ref()).await;
        let launch = self.launch_for(same_provider);
        let secrets = self.core.secrets.of(self.row.id);
        self.core.catalog.launch_as(&provider, &cwd, &offered, launch.as_deref(), &secrets)?;
        let kept = |value: &Option<String>| value.clone().filter(|_| same_provider);
        let instructions = convert::instructions_in(base_instructions, developer_instructions);
        let id_of = |turn: &Option<TurnRow>| turn.as_ref().map(|turn| turn.id);
        let copy_fits = same_provider
            && instructions.is_none()
            && self.turn.is_none()
            && last.is_some()
            && id_of(&last) == id_of(&newest);
        let created = SessionCreated {
            provider,
            project_path: if settings.cwd.is_some() { cwd.clone() } else { self.row.project_path.clone() },
            cwd,
            roots,
            worktree: None,
            policy: settings
                .policy
                .map_or(self.row.policy, |patch| convert::policy_patch_in(patch, self.row.policy)),
            model: settings.model.filter(|model| is_choice(model)).or_else(|| kept(&self.row.model)),
            effort: settings.effort.or_else(|| kept(&self.row.effort)),
            instructions: instructions.or_else(|| self.row.instructions.clone()),
            request_id,
            source: source.as_deref().map_or(self.row.source, convert::source_in),
            forked_from: Some(self.row.id),
            fork_context: Some(ForkContext::History),
            ephemeral,
            launch,
        };
        let mut options = if same_provider { self.row.options.clone() } else { BTreeMap::new() };
        options.extend(settings.config_options.into_iter().map(|(id, value)| (id, value.into())));
        let session = id.unwrap_or_else(SessionId::generate);
        let fork = Fork {
            source: self.row.id,
            through_seq,
            session,
            created,
            agent_session: None,
            at_ms: (self.core.now_ms)(),
        };
        Ok(Plan { fork, options, copy_fits })
    }

    /// How a fork's agent is started. What is said of one provider's program fits no other.
    fn launch_for(&self, same_provider: bool) -> Option<Box<Launch>> {
        let launch = self.row.launch.clone()?;
        if same_provider {
            return Some(launch);
        }
        let rest = Launch { mcp_servers: launch.mcp_servers, ..Launch::default() };
        (rest != Launch::default()).then(|| rest.into())
    }

    async fn make_fork(&mut self, plan: Plan, copy: Option<String>) -> Result<Accepted, OpError> {
        let Plan { mut fork, options, .. } = plan;
        let context = if copy.is_some() { ForkContext::Agent } else { ForkContext::History };
        fork.created.fork_context = Some(context);
        fork.agent_session = copy;
        let session = fork.session;
        let told = Committed::Fact(Arc::new(fork.created_fact()));
        let mut row = self.copied(fork).await?;
        if row.launch.is_some() {
            self.core.secrets.keep(session, self.core.secrets.of(self.row.id));
        }
        if !options.is_empty() {
            self.set_options_of_fork(&mut row, options).await;
        }
        let cell = Arc::clone(self.core.sessions.lock().entry(session).or_default());
        let shown = row.last_seq;
        let mut receipt = vec![told.clone()];
        let unheard = AtomicBool::new(true);
        let handle = cell.get_or_init(async || {
            unheard.store(false, Ordering::Relaxed);
            Handle::spawn(&self.core, row, shown, std::mem::take(&mut receipt))
        });
        handle.await.offer(self.env.as_ref());
        if unheard.into_inner() {
            // Somebody has found and loaded it in the same moment.
            self.core.bus.committed(&[told]);
        }
        Ok(Accepted::Forked { session, context })
    }

    /// The fork's row in the store that it belongs to; it need not be that of its source.
    async fn copied(&self, fork: Fork) -> Result<SessionRow, OpError> {
        let (session, ephemeral) = (fork.session, fork.created.ephemeral);
        let source = &self.store.reader;
        let copied = match (self.row.ephemeral, ephemeral) {
            (false, false) => self.store.writer.fork(fork).await,
            (true, false) => self.core.stores.disk.writer.fork_from(source, fork).await,
            (false, true) => self.core.stores.admit(session).await?.writer.fork_from(source, fork).await,
            (true, true) => self.core.stores.admit(session).await?.writer.fork(fork).await,
        };
        copied.map_err(|error| {
            self.core.forget_ephemeral(session);
            not_forked(&error)
        })
    }

    /// A fork without its agent's options is still a fork.
    async fn set_options_of_fork(&self, row: &mut SessionRow, options: BTreeMap<String, Value>) {
        let changed = SettingsChanged { options, ..SettingsChanged::default() };
        let mut batch = Batch::new(row.id, row.last_seq, (self.core.now_ms)());
        batch.push(None, Item::None, FactBody::SettingsChanged(Box::new(changed)));
        let (expected_last_seq, entries) = batch.seal();
        let commit = Commit { session: row.id, expected_last_seq, entries };
        match self.core.stores.of(row.id).writer.commit(commit).await {
            Ok(stored) => {
                for one in &stored {
                    if let Committed::Fact(fact) = one {
                        row.apply(fact);
                    }
                }
            }
            Err(error) => tracing::error!(session = %row.id, %error, "a fork has lost its agent's options"),
        }
    }
}

fn not_forked(error: &ForkError) -> OpError {
    if let ForkError::Store(StoreError::Unreadable { session, .. }) = error {
        return OpError::SessionUnreadable(session.to_string());
    }
    OpError::StorageFailed(error.to_string())
}
