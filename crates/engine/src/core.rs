//! What all sessions of one server share.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use signalbox_agents::Limits;
use signalbox_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::Catalog;
use crate::session::SessionStream;

/// How an engine is set up.
pub struct EngineConfig {
    /// The providers.
    pub catalog: Catalog,
    /// Deadlines and bounds of agents.
    pub limits: Limits,
    /// Folder for contents of files as they were before a turn; without one, turns have no diff of the workspace.
    pub blobs: Option<PathBuf>,
    /// An agent without a turn for this long is stopped; the next prompt resumes it.
    pub idle_agent: Duration,
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
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) limits: Limits,
    pub(crate) blobs: Option<PathBuf>,
    pub(crate) idle_agent: Duration,
    pub(crate) on_load: Box<dyn Fn(SessionStream) + Send + Sync>,
    pub(crate) now_ms: fn() -> i64,
    /// Session actors; shutdown waits for them.
    pub(crate) tracker: TaskTracker,
    /// Agents' drivers; they end after the sessions.
    pub(crate) agents: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("sessions", &self.tracker.len()).finish_non_exhaustive()
    }
}

/// The wall clock, Unix milliseconds.
#[must_use]
pub fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
