//! What all agents of one server share: the tasks that drive them, and the guard.

use tokio_util::task::TaskTracker;

use crate::guard::Guard;

/// What agents are started under. Cheap to clone; the default has no guard.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    pub(crate) tracker: TaskTracker,
    pub(crate) guard: Guard,
}

impl Supervisor {
    /// With this guard.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self { tracker: TaskTracker::new(), guard }
    }

    /// The guard of the agents.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Waits until every agent that was started has ended, and lets the guard go. No agent is to be started any more.
    pub async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.guard.close().await;
    }
}
