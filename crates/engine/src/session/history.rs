//! What is done to a session's history as a whole: forked, taken back, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use signalbox_facts::{
    Committed, FactBody, ForkContext, Provider, Reverted, SessionCreated, SessionId, SessionRow,
    SettingsChanged, SignalBody, TurnId, TurnRow, TurnStatus,
};
use signalbox_protocol::ops::Op;
use signalbox_store::{Commit, Fork, ForkError, StoreError, TurnQuery};

use super::actor::Actor;
use super::turns::not_stored;
use super::{Handle, existing_directories, existing_directory, is_choice};
use crate::batch::{Batch, Item};
use crate::convert;
use crate::items::Items;
use crate::submission::{Accepted, OpError, Origin, Reply};

impl Actor {
    /// Makes a session that begins with this one's history. An open turn is not part of it.
    pub(super) async fn fork(
        &mut self,
        op: Op,
        origin: &Origin,
        id: Option<SessionId>,
    ) -> Result<Accepted, OpError> {
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
        if ephemeral {
            return Err(OpError::Unsupported("an ephemeral session"));
        }
        let last = match &through_turn {
            Some(turn) => Some(self.turn_of_history(turn).await?),
            None => self.newest_ended_turn().await?,
        };
        let through_seq = match &last {
            Some(turn) => turn.end_seq.ok_or(OpError::TurnActive(turn.id))?,
            None => 1,
        };
        // The checkout stays with the session that it was made for; where that is gone, the fork works in the project.
        let here = if self.row.worktree_discarded { &self.row.project_path } else { &self.row.cwd };
        let cwd = existing_directory(here, settings.cwd.as_deref().unwrap_or("."), "cwd")?;
        let roots = match &settings.roots {
            Some(roots) => existing_directories(&cwd, roots, "roots")?,
            None => self.row.roots.clone(),
        };
        let same_provider = provider.is_none();
        let provider =
            provider.map_or_else(|| self.row.provider.clone(), |other| Provider::new(other.name()));
        self.core.catalog.launch(&provider, &cwd, origin.env.as_deref())?;
        let kept = |value: &Option<String>| value.clone().filter(|_| same_provider);
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
            instructions: convert::instructions_in(base_instructions, developer_instructions)
                .or_else(|| self.row.instructions.clone()),
            request_id,
            source: source.as_deref().map_or(self.row.source, convert::source_in),
            forked_from: Some(self.row.id),
            fork_context: Some(ForkContext::History),
            ephemeral: false,
        };
        let session = id.unwrap_or_else(SessionId::generate);
        let at_ms = (self.core.now_ms)();
        let fork = Fork { source: self.row.id, through_seq, session, created, at_ms };
        let told = Committed::Fact(Arc::new(fork.created_fact()));
        let mut row = self.store.writer.fork(fork).await.map_err(|error| not_forked(&error))?;
        let mut options = if same_provider { self.row.options.clone() } else { BTreeMap::new() };
        options.extend(settings.config_options.into_iter().map(|(id, value)| (id, value.into())));
        if !options.is_empty() {
            self.set_options_of_fork(&mut row, options).await;
        }
        let cell = Arc::clone(self.core.sessions.lock().entry(session).or_default());
        let shown = row.last_seq;
        let mut receipt = vec![told.clone()];
        let unheard = AtomicBool::new(true);
        cell.get_or_init(async || {
            unheard.store(false, Ordering::Relaxed);
            Handle::spawn(&self.core, row, shown, std::mem::take(&mut receipt))
        })
        .await;
        if unheard.into_inner() {
            // Somebody has found and loaded it in the same moment.
            self.core.bus.committed(&[told]);
        }
        Ok(Accepted::Forked { session, context: ForkContext::History })
    }

    /// The agent's options, which no history tells. A fork without them is still a fork.
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

    /// Takes back a turn and all that followed. The agent's memory of them goes with its conversation.
    pub(super) async fn revert(
        &mut self,
        before_turn: &str,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        if let Some(open) = &self.turn {
            return Err(OpError::TurnActive(open.id));
        }
        let turn = self.turn_of_history(before_turn).await?;
        let reverted = Reverted { before_turn: turn.id, from_seq: turn.first_seq, request_id };
        self.batch().push(None, Item::None, FactBody::Reverted(reverted));
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        if let Some(live) = &mut self.agent {
            live.stop();
        }
        self.items = Items::new(self.row.cwd.clone());
        // What the old agent still says belongs to nothing any more.
        self.last_turn = None;
        Ok(Accepted::Applied)
    }

    /// Removes the session: the turn ends, what waits for an answer expires, the agent stops, the rows go.
    pub(super) async fn delete(&mut self, reply: Reply) {
        self.deleting = Some(reply);
        let decision = self.delete_all().await;
        // While nothing could be stored it was declined already.
        if let Some(reply) = self.deleting.take() {
            self.decided(reply, decision);
        }
    }

    async fn delete_all(&mut self) -> Result<Accepted, OpError> {
        if let Some(worktree) = self.row.worktree.as_ref().filter(|_| !self.row.worktree_discarded) {
            return Err(OpError::WorktreePresent(worktree.path.display().to_string()));
        }
        if self.turn.is_some() {
            if let Some(live) = &self.agent
                && let Err(error) = live.agent.cancel()
            {
                tracing::debug!(session = %self.row.id, %error, "cancel before a deletion");
            }
            self.finish_turn(TurnStatus::Interrupted, Some("cancelled".to_owned()), None).await;
            if self.deleting.is_none() {
                return Err(OpError::StorageFailed("the end of the turn had to wait".to_owned()));
            }
        }
        if let Some(live) = &mut self.agent {
            live.stop();
        }
        match self.store.writer.delete_session(self.row.id).await {
            Ok(()) | Err(StoreError::UnknownSession { .. }) => {}
            Err(error) => return Err(OpError::StorageFailed(error.to_string())),
        }
        self.core.forget_ephemeral(self.row.id);
        // Whoever asks from now on is told that there is no such session.
        self.core.sessions.lock().remove(&self.row.id);
        self.deleted = true;
        self.signal(SignalBody::Deleted);
        self.commit().await;
        Ok(Accepted::Applied)
    }

    /// A turn that the conversation still has.
    async fn turn_of_history(&self, id: &str) -> Result<TurnRow, OpError> {
        let not_found = || OpError::TurnNotFound(id.to_owned());
        let turn: TurnId = id.parse().map_err(|_| not_found())?;
        let row = self.store.reader.turn(self.row.id, turn).await.map_err(unreadable)?;
        row.filter(|row| !row.reverted).ok_or_else(not_found)
    }

    async fn newest_ended_turn(&self) -> Result<Option<TurnRow>, OpError> {
        // At most the newest one is open.
        let query = TurnQuery { limit: 2, ..TurnQuery::default() };
        let turns = self.store.reader.turns(self.row.id, query).await.map_err(unreadable)?;
        Ok(turns.into_iter().find(|turn| turn.end_seq.is_some()))
    }
}

fn unreadable(error: StoreError) -> OpError {
    OpError::StorageFailed(error.to_string())
}

fn not_forked(error: &ForkError) -> OpError {
    if let ForkError::Store(StoreError::Unreadable { session, .. }) = error {
        return OpError::SessionUnreadable(session.to_string());
    }
    OpError::StorageFailed(error.to_string())
}
