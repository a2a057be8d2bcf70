//! What is done to a session's history as a whole: taken back, deleted; and which turns it has.

use signalbox_facts::{Committed, FactBody, Reverted, Seq, SignalBody, TurnId, TurnRow, TurnStatus};
use signalbox_store::{StoreError, TurnQuery};

use super::actor::Actor;
use super::turns::not_stored;
use crate::batch::Item;
use crate::items::Items;
use crate::submission::{Accepted, OpError, Reply};

impl Actor {
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
        self.remove().await
    }

    /// A deletion that would have to wait until the end of the turn can be stored. An ephemeral session is not worth that:
    /// what could not be stored would be deleted with the rest, and nothing else may make the room that it waits for.
    pub(super) async fn delete_stalled(&mut self, reply: Reply, trouble: &str) {
        let decision = match self.row.ephemeral {
            true => self.remove().await,
            false => Err(OpError::StorageFailed(trouble.to_owned())),
        };
        self.decided(reply, decision);
    }

    /// The rows go, and then everybody is told. Whatever the actor was about to store is not stored any more.
    async fn remove(&mut self) -> Result<Accepted, OpError> {
        if let Some(live) = &mut self.agent {
            live.stop();
        }
        match self.store.writer.delete_session(self.row.id).await {
            Ok(()) | Err(StoreError::UnknownSession { .. }) => {}
            Err(error) => return Err(OpError::StorageFailed(error.to_string())),
        }
        self.core.forget_ephemeral(self.row.id);
        self.core.secrets.forget(self.row.id);
        // Whoever asks from now on is told that there is no such session.
        self.core.sessions.lock().remove(&self.row.id);
        self.deleted = true;
        self.signal(SignalBody::Deleted);
        if let Some(batch) = self.batch.take() {
            let (_, mut told) = batch.seal();
            told.retain(|committed| matches!(committed, Committed::Signal(_)));
            self.publish(told.into()).await;
        }
        self.core.catalog.remove_traffic_logs(self.row.id).await?;
        Ok(Accepted::Applied)
    }

    /// A turn that the conversation still has.
    pub(super) async fn turn_of_history(&self, id: &str) -> Result<TurnRow, OpError> {
        let not_found = || OpError::TurnNotFound(id.to_owned());
        let turn: TurnId = id.parse().map_err(|_| not_found())?;
        let row = self.store.reader.turn(self.row.id, turn).await.map_err(unreadable)?;
        row.filter(|row| !row.reverted).ok_or_else(not_found)
    }

    /// The last fact before the next turn: after its end a turn may still have got what its agent said late.
    pub(super) async fn end_with_what_came_late(&self, turn: &TurnRow) -> Result<Seq, OpError> {
        turn.end_seq.ok_or(OpError::TurnActive(turn.id))?;
        let moment = self.store.reader.moment(self.row.id).await.map_err(unreadable)?;
        let mut moment = moment.ok_or_else(|| OpError::SessionNotFound(self.row.id.to_string()))?;
        let span = moment.turn(turn.id).await.map_err(unreadable)?;
        let stored = moment.session().last_seq;
        moment.end().await.map_err(unreadable)?;
        let span = span.ok_or_else(|| OpError::TurnNotFound(turn.id.to_string()))?;
        Ok(stored.min(span.next_seq - 1))
    }

    pub(super) async fn newest_ended_turn(&self) -> Result<Option<TurnRow>, OpError> {
        // At most the newest one is open.
        let query = TurnQuery { limit: 2, ..TurnQuery::default() };
        let turns = self.store.reader.turns(self.row.id, query).await.map_err(unreadable)?;
        Ok(turns.into_iter().find(|turn| turn.end_seq.is_some()))
    }
}

fn unreadable(error: StoreError) -> OpError {
    OpError::StorageFailed(error.to_string())
}
