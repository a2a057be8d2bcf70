//! What all sessions of one server share.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_agents::{Limits, Supervisor};
use signalbox_facts::{Provider, SessionId};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attendance::{Attendance, Unattended};
use crate::bus::Bus;
use crate::catalog::{Catalog, Memory};
use crate::check::Checks;
use crate::files::Finder;
use crate::launch::AllSecrets;
use crate::prompt::Sources;
use crate::session::{Gate, Handle, SessionStream};
use crate::stores::Stores;
use crate::submission::OpError;
use crate::worktrees::Worktrees;

/// First and longest pause between attempts to store, or to flush, what could not be.
pub(crate) const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How an engine is set up.
pub struct EngineConfig {
    /// The providers.
    pub catalog: Catalog,
    /// Deadlines and bounds of agents.
    pub limits: Limits,
    /// What agents are started under, their guard included.
    pub agents: Supervisor,
    /// Folder for contents of files as they were before a turn; without one, turns have no diff of the workspace.
    pub blobs: Option<PathBuf>,
    /// Folder for checkouts that cannot lie beside their repository; made when it is needed.
    pub worktrees: PathBuf,
    /// An agent without turns and watchers for this long is stopped; the next prompt resumes it.
    pub idle_agent: Duration,
    /// A session without turns and watchers for this long leaves memory; the next Op loads it.
    pub idle_session: Duration,
    /// Bytes of memory that all ephemeral sessions may take together: [`crate::EPHEMERAL_BYTES`].
    pub ephemeral_bytes: u64,
    /// Where skills and rules are looked for, besides a session's own directories.
    pub sources: Sources,
    /// Where what is known of providers' agents is kept; without one it is kept in memory only.
    pub known: Option<PathBuf>,
    /// What happens to approvals that nobody is there to answer.
    pub unattended: Unattended,
    /// Called whenever a session is loaded, before anything of it is released; the stream must be read without
    /// waiting for any client.
    pub on_load: Box<dyn Fn(SessionStream) + Send + Sync>,
    /// Unix milliseconds; tests put their own clock here.
    pub now_ms: fn() -> i64,
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

pub(crate) struct Core {
    pub(crate) stores: Stores,
    pub(crate) catalog: Catalog,
    pub(crate) limits: Limits,
    pub(crate) blobs: Option<PathBuf>,
    pub(crate) worktrees: Worktrees,
    pub(crate) idle_agent: Duration,
    pub(crate) idle_session: Duration,
    pub(crate) sources: Sources,
    pub(crate) memory: Memory,
    pub(crate) checks: Checks,
    /// Values that sessions were started with, which no row has.
    pub(crate) secrets: AllSecrets,
    pub(crate) on_load: Box<dyn Fn(SessionStream) + Send + Sync>,
    pub(crate) now_ms: fn() -> i64,
    pub(crate) unattended: Unattended,
    pub(crate) attendance: Arc<Attendance>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) finder: Finder,
    /// Places for agents that are visited for their own sessions.
    pub(crate) visits: Semaphore,
    /// Agents' sessions that are being adopted.
    pub(crate) importing: Mutex<HashSet<(Provider, String)>>,
    /// The sessions in memory.
    pub(crate) sessions: Mutex<HashMap<SessionId, Arc<OnceCell<Handle>>>>,
    /// Session actors; shutdown waits for them.
    pub(crate) tracker: TaskTracker,
    /// The agents; they end after the sessions.
    pub(crate) agents: Supervisor,
    pub(crate) shutdown: CancellationToken,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("sessions", &self.tracker.len()).finish_non_exhaustive()
    }
}

impl Core {
    /// A session has left memory; another actor of it may be loaded from now on.
    pub(crate) fn forget_loaded(&self, session: SessionId, gate: &Arc<Gate>) {
        let mut sessions = self.sessions.lock();
        let is_its = |cell: &Arc<OnceCell<Handle>>| cell.get().is_some_and(|handle| handle.is_of(gate));
        if sessions.get(&session).is_some_and(is_its) {
            sessions.remove(&session);
        }
    }

    /// An ephemeral session is gone, and what it took; of any other session nothing.
    pub(crate) fn forget_ephemeral(&self, session: SessionId) {
        if let Some(empty) = self.stores.forget(session) {
            self.secrets.forget(session);
            self.tracker.spawn(async move { empty.close().await });
        }
    }

    /// Has the disk confirm what is stored already, however long that takes.
    ///
    /// # Errors
    /// The server stops meanwhile.
    pub(crate) async fn flush_until_done(&self, session: SessionId) -> Result<(), OpError> {
        let mut pause = RETRY.0;
        while let Err(error) = self.stores.of(session).writer.flush().await {
            tracing::error!(%session, %error, "the disk did not confirm a flush; trying again");
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY.1),
                () = self.shutdown.cancelled() => return Err(OpError::ShuttingDown),
            }
        }
        Ok(())
    }
}

/// The wall clock, Unix milliseconds.
#[must_use]
pub fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
