//! Turns that are over and have been read whole, kept for the next who reads them: bounded, oldest use first out.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use signalbox_facts::{Seq, SessionId};
use signalbox_protocol::app::Turn;

/// Most bytes of one thread's turns, as JSON.
const MOST_OF_THREAD: usize = 8 * 1024 * 1024;
/// Most bytes of all threads' turns, as JSON.
const MOST: usize = 16 * 1024 * 1024;

/// Old turns by thread. A turn before which a newer one began changes only by a revert, which [`OldTurns::forget`]s.
#[derive(Debug, Default)]
pub(crate) struct OldTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    threads: HashMap<SessionId, Kept>,
    bytes: usize,
    /// Uses so far.
    clock: u64,
    /// What was forgotten so far: who has read before that must not keep.
    forgotten: u64,
}

/// All turns of a thread that began before a seq, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    pub(crate) turns: Arc<Vec<Turn>>,
    pub(crate) before: Seq,
    pub(crate) bytes: usize,
    used: u64,
}

impl OldTurns {
    /// A word for [`OldTurns::keep`], to be asked for before anything is read.
    pub(crate) fn word(&self) -> u64 {
        self.0.lock().forgotten
    }

    /// What is kept of the turns before a seq.
    pub(crate) fn get(&self, session: SessionId, before: Seq) -> Kept {
        let mut state = self.0.lock();
        state.clock += 1;
        let used = state.clock;
        let kept = state.threads.get_mut(&session).filter(|kept| kept.before <= before);
        let kept = kept.map(|kept| {
            kept.used = used;
            kept.clone()
        });
        kept.unwrap_or_default()
    }

    /// Keeps the turns before a seq, unless something was forgotten since `word` was given.
    pub(crate) fn keep(
        &self,
        session: SessionId,
        turns: Arc<Vec<Turn>>,
        before: Seq,
        bytes: usize,
        word: u64,
    ) {
        let mut state = self.0.lock();
        if bytes > MOST_OF_THREAD || state.forgotten != word {
            return;
        }
        state.drop_thread(session);
        while state.bytes + bytes > MOST {
            let oldest = state.threads.iter().min_by_key(|(_, kept)| kept.used).map(|(session, _)| *session);
            let Some(oldest) = oldest else { break };
            state.drop_thread(oldest);
        }
        let used = state.clock;
        state.bytes += bytes;
        state.threads.insert(session, Kept { turns, before, bytes, used });
    }

    /// A thread's turns have changed, or the thread is gone.
    pub(crate) fn forget(&self, session: SessionId) {
        let mut state = self.0.lock();
        state.forgotten += 1;
        state.drop_thread(session);
    }
}

impl State {
    fn drop_thread(&mut self, session: SessionId) {
        if let Some(kept) = self.threads.remove(&session) {
            self.bytes -= kept.bytes;
        }
    }
}
