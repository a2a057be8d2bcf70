//! What all agents of one server share: the tasks that drive them, the budget for giant lines, and the guard.

use tokio_util::task::TaskTracker;

use crate::giants::Giants;
use crate::guard::Guard;

/// What agents are started under. Cheap to clone; the default has no guard.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    pub(crate) tracker: TaskTracker,
    pub(crate) guard: Guard,
    pub(crate) giants: Giants,
}

impl Supervisor {
    /// With this guard.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self { guard, ..Self::default() }
    }

    /// The guard of the agents.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Bytes in use for lines that agents are sending, and the most there have been. Giant lines, of more than 1 MiB, share
    /// a budget of 256 MiB; what does not fit waits unread in its agent's pipe.
    #[must_use]
    pub fn line_bytes(&self) -> (usize, usize) {
        self.giants.bytes()
    }

    /// Waits until every agent that was started has ended, and lets the guard go. No agent is to be started any more.
    pub async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.guard.close().await;
    }
}
