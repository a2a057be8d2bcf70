//! A session at rest: after a while its agent stops, after a longer one it leaves memory. The next Op brings both back.

use signalbox_facts::SignalBody;
use tokio::time::Instant;

use super::actor::Actor;

impl Actor {
    /// When to see whether the rest was long enough; `None` while there is anything to do. `free` says that no setting and
    /// no checkout is waited for.
    pub(super) fn rests_until(&mut self, free: bool) -> Option<Instant> {
        if self.turn.is_some() || !free {
            self.rested_since = Instant::now();
            return None;
        }
        // An agent that is ending comes back as its last event.
        if self.agent.as_ref().is_some_and(|live| live.agent.is_gone()) {
            return None;
        }
        // Nobody is woken when the last watcher leaves; the look after the next rest finds out since when.
        let since = self.quiet_since().unwrap_or_else(Instant::now);
        Some(since + self.patience())
    }

    /// How long it rests before something is done about it.
    fn patience(&self) -> std::time::Duration {
        match self.agent {
            Some(_) => self.core.idle_agent.min(self.core.idle_session),
            None => self.core.idle_session,
        }
    }

    /// Since when nobody watches and nobody asks; `None` while somebody watches.
    fn quiet_since(&self) -> Option<Instant> {
        Some(self.gate.unwatched_since()?.max(self.rested_since))
    }

    /// The rest may have been long enough: stops the agent, and without one says whether the session leaves memory. Then the
    /// gate is closed, and nothing waits behind it.
    pub(super) fn leaves_memory(&mut self) -> bool {
        let patience = self.patience();
        if self.quiet_since().is_none_or(|since| since + patience > Instant::now()) {
            return false;
        }
        if let Some(live) = &mut self.agent {
            live.stop();
            return false;
        }
        let inbox = &self.inbox;
        self.gate.close_if(|| inbox.control.is_empty() && inbox.work.is_empty())
    }

    /// Tells everybody, and takes an ephemeral session out of the store, where nobody could find it any more.
    pub(super) async fn unload(&mut self) {
        self.signal(SignalBody::Unloaded);
        self.commit().await;
        if self.row.ephemeral
            && let Err(error) = self.store.writer.delete_session(self.row.id).await
        {
            tracing::error!(session = %self.row.id, %error, "an ephemeral session stays in memory until the last has gone");
        }
        if self.row.ephemeral {
            // What goes wrong is logged there; nobody is left who could be told.
            let _logged = self.core.catalog.remove_traffic_logs(self.row.id).await;
        }
    }
}
