//! Which store a session is in: the one on disk, or the one in memory for ephemeral sessions, which is made when the first
//! of them is and goes with the last.

use std::collections::HashSet;

use parking_lot::Mutex;
use signalbox_facts::SessionId;
use signalbox_store::{Reader, Store};

use crate::submission::OpError;

/// Ephemeral sessions at the same time.
const MAX_EPHEMERAL: usize = 256;
/// Bytes that they may take together, unless a server is told otherwise.
pub const EPHEMERAL_BYTES: u64 = 512 * 1024 * 1024;
const PAGE: u64 = 4096;

/// The stores of one engine.
#[derive(Debug)]
pub(crate) struct Stores {
    /// The one that lists and survives restarts.
    pub(crate) disk: Store,
    memory: Mutex<Memory>,
    /// Held while the store in memory is made, so that there are never two.
    making: tokio::sync::Mutex<()>,
    /// Pages of the store in memory.
    most_pages: u32,
}

#[derive(Debug, Default)]
struct Memory {
    store: Option<Store>,
    sessions: HashSet<SessionId>,
}

impl Stores {
    pub(crate) fn new(disk: Store, ephemeral_bytes: u64) -> Self {
        let most_pages = u32::try_from(ephemeral_bytes / PAGE).unwrap_or(u32::MAX);
        Self { disk, memory: Mutex::default(), making: tokio::sync::Mutex::default(), most_pages }
    }

    /// The store of a session: that on disk, unless the session is known to be ephemeral.
    pub(crate) fn of(&self, session: SessionId) -> Store {
        let memory = self.memory.lock();
        let ephemeral = memory.store.as_ref().filter(|_| memory.sessions.contains(&session));
        ephemeral.unwrap_or(&self.disk).clone()
    }

    /// Whether there is any ephemeral session.
    pub(crate) fn has_ephemeral(&self) -> bool {
        !self.memory.lock().sessions.is_empty()
    }

    pub(crate) fn reader_of(&self, session: SessionId) -> Reader {
        self.of(session).reader
    }

    /// A place in memory for a session that will be ephemeral.
    ///
    /// # Errors
    /// There are too many, or memory is short.
    pub(crate) async fn admit(&self, session: SessionId) -> Result<Store, OpError> {
        let _making = self.making.lock().await;
        let made = {
            let mut memory = self.memory.lock();
            if memory.sessions.len() >= MAX_EPHEMERAL {
                return Err(OpError::TooManyEphemeral { most: MAX_EPHEMERAL });
            }
            if memory.store.is_some() {
                memory.sessions.insert(session);
            }
            memory.store.clone()
        };
        if let Some(store) = made {
            return Ok(store);
        }
        let made = Store::in_memory_of(self.most_pages).await;
        let store = made.map_err(|error| OpError::StorageFailed(error.to_string()))?;
        let mut memory = self.memory.lock();
        memory.sessions.insert(session);
        Ok(memory.store.insert(store).clone())
    }

    /// An ephemeral session is gone. Gives the store to close, if that was the last of them.
    #[must_use]
    pub(crate) fn forget(&self, session: SessionId) -> Option<Store> {
        let mut memory = self.memory.lock();
        let was_last = memory.sessions.remove(&session) && memory.sessions.is_empty();
        if was_last { memory.store.take() } else { None }
    }
}
