//! The gate of a loaded session: everything that goes into its queues passes it, and it is counted there who keeps the
//! session in memory. It is closed once, for good, before the session leaves memory; whoever finds it closed waits for the
//! end and asks the session that is loaded after it.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use signalbox_facts::SessionId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::core::Core;

/// The gate of one actor.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Cancelled when nothing is left of the actor.
    ended: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) open: bool,
    watchers: usize,
    left_at: Instant,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        let state = State { open: true, watchers: 0, left_at: Instant::now() };
        Arc::new(Self { state: Mutex::new(state), ended: CancellationToken::new() })
    }

    /// Kept while something is put into a queue, so that it is in there before the gate closes, or not at all.
    pub(crate) fn pass(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.lock()).filter(|state| state.open)
    }

    /// Somebody watches from now on; `None` if the gate is closed.
    pub(crate) fn watch(self: &Arc<Self>) -> Option<Watching> {
        self.pass()?.watchers += 1;
        Some(Watching(Arc::clone(self)))
    }

    /// Since when nobody watches; `None` while somebody does.
    pub(crate) fn unwatched_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.watchers == 0).then_some(state.left_at)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().open
    }

    /// Closes the gate if nobody watches and nothing waits behind it.
    pub(crate) fn close_if(&self, nothing_waits: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        if state.open && state.watchers == 0 && nothing_waits() {
            state.open = false;
        }
        !state.open
    }

    /// Closes the gate, whoever watches.
    pub(crate) fn close(&self) {
        self.state.lock().open = false;
    }

    /// Waits until nothing is left of the actor.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// Somebody follows a session: until this is dropped it stays in memory, and so does its agent.
#[derive(Debug)]
pub struct Watching(Arc<Gate>);

impl Clone for Watching {
    fn clone(&self) -> Self {
        self.0.state.lock().watchers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.watchers -= 1;
        state.left_at = Instant::now();
    }
}

/// That an actor is there. However it ends, the next request finds the session out of memory, and no gate that nobody
/// stands behind.
#[derive(Debug)]
pub(super) struct Presence {
    core: Arc<Core>,
    session: SessionId,
    gate: Arc<Gate>,
}

impl Presence {
    pub(super) fn new(core: Arc<Core>, session: SessionId, gate: Arc<Gate>) -> Self {
        Self { core, session, gate }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.gate.close();
        self.core.forget_ephemeral(self.session);
        self.core.forget_loaded(self.session, &self.gate);
        self.gate.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gate_stays_open_while_somebody_watches_or_something_waits() {
        let gate = Gate::new();
        let (first, second) = (gate.watch().unwrap(), gate.watch().unwrap().clone());
        assert!(!gate.close_if(|| true));
        drop(first);
        assert!(!gate.close_if(|| true) && gate.unwatched_since().is_none());
        drop(second);
        assert!(!gate.close_if(|| false));
        assert!(gate.close_if(|| true));
        assert!(gate.watch().is_none() && gate.pass().is_none());
    }
}
