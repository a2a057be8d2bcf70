//! One conversation: its folder, its choices, what it remembers, and the turn that runs in it.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    history::History,
    memory::{Listed, Memory},
};

/// A session of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    state: Arc<Mutex<State>>,
}

struct State {
    kept: Kept,
    busy: Option<Busy>,
}

/// What a session is made of, as it is kept on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) cwd: PathBuf,
    pub(crate) config: Config,
    pub(crate) title: Option<String>,
    /// Turns so far; ids of messages and tool calls contain it, so they stay unique after a resume.
    pub(crate) turns: u64,
    /// Estimated tokens of all turns.
    pub(crate) tokens: u64,
    /// What `allow_always` was answered for: `run COMMAND`, `write PATH`, `delete PATH`.
    pub(crate) always: BTreeSet<String>,
    pub(crate) history: History,
}

/// The one thing a session does at a time: a prompt, or the replay of a load.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    /// The JSON-RPC id of the request that is served.
    pub(crate) request: Value,
    /// Asks it to end.
    pub(crate) cancel: CancellationToken,
    /// Ends it, whatever it does.
    pub(crate) kill: CancellationToken,
    /// Cancelled when its answer is queued.
    pub(crate) done: CancellationToken,
}

impl Busy {
    /// The tokens of something that ends with `process` at the latest.
    pub(crate) fn new(request: Value, process: &CancellationToken) -> Self {
        let kill = process.child_token();
        Self { request, cancel: kill.child_token(), kill, done: CancellationToken::new() }
    }
}

impl Session {
    pub(crate) fn new(id: String, kept: Kept) -> Self {
        Self { id: id.into(), state: Arc::new(Mutex::new(State { kept, busy: None })) }
    }

    /// A new conversation in `cwd`.
    pub(crate) fn fresh(id: String, cwd: PathBuf) -> Self {
        let kept = Kept {
            cwd,
            config: Config::default(),
            title: None,
            turns: 0,
            tokens: 0,
            always: BTreeSet::new(),
            history: History::default(),
        };
        Self::new(id, kept)
    }

    /// Reads or changes what is kept; the lock is held for the closure only.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Kept) -> T) -> T {
        look(&mut self.state.lock().kept)
    }

    /// Takes the session for one request; `false` if it is taken.
    pub(crate) fn begin(&self, busy: Busy) -> bool {
        let mut state = self.state.lock();
        if state.busy.is_some() {
            return false;
        }
        state.busy = Some(busy);
        true
    }

    pub(crate) fn end(&self) {
        self.state.lock().busy = None;
    }

    pub(crate) fn busy(&self) -> Option<Busy> {
        self.state.lock().busy.clone()
    }

    /// Writes the session to disk. A failure costs a later load, not this turn.
    pub(crate) fn save(&self, memory: &Memory) {
        if !memory.keeps() {
            return;
        }
        let kept = self.with(|kept| {
            kept.history.shrink();
            kept.clone()
        });
        if let Err(error) = memory.save(&self.id, &kept) {
            tracing::warn!(session = %self.id, error = %error, "the conversation is not kept");
        }
    }

    pub(crate) fn listed(&self) -> Listed {
        self.with(|kept| kept.listed(&self.id))
    }
}

impl Kept {
    pub(crate) fn listed(&self, id: &str) -> Listed {
        Listed { id: id.to_owned(), cwd: self.cwd.clone(), title: self.title.clone() }
    }
}
