//! Agents that fail again and again: how long the next start waits, and how that is told.
//!
//! Nothing starts an agent but a prompt. One that failed is started anew by the next prompt, the first time at once; if it
//! goes on failing without a turn that ended well, each further start waits longer, counted from the last failure. A prompt
//! is never refused for that: its turn is open and waits, says so, and an interrupt ends it at once.

use std::time::Duration;

use signalbox_agents::{AgentFailure, FailureReason};
use tokio::time::Instant;

use super::actor::Actor;

/// The wait after the second failure; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// What is known of starts that have failed.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Failures since the last turn that ended well.
    failures: u32,
    /// When the next start may be made.
    at: Option<Instant>,
    /// A prompt waits for that moment, in Unix milliseconds, and was told so.
    pub(super) waiting_until_ms: Option<i64>,
}

impl Restarts {
    /// A turn has ended well: whatever was wrong is over.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.at = Some(now + pause(self.failures));
    }

    /// How long a start at this moment would have to wait.
    fn left(&self, now: Instant) -> Option<Duration> {
        Some(self.at?.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// The prompt that waits, if one does, waits until then.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.waiting_until_ms.and(self.at)
    }
}

/// The wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => FIRST.saturating_mul(2_u32.saturating_pow(more - 2)).min(LONGEST),
    }
}

impl Actor {
    /// An agent has failed, and nobody had asked it to end. What only the user can mend does not count: once it is mended
    /// the next prompt shall find out at once.
    pub(super) fn count_failure(&mut self, failure: &AgentFailure) {
        if matches!(failure.reason, FailureReason::AgentFailed | FailureReason::AgentTimeout) {
            self.restarts.failed(Instant::now());
        }
    }

    /// Whether the agent that the open turn needs is not to be started yet. The turn is told so, once.
    pub(super) async fn start_has_to_wait(&mut self) -> bool {
        let Some(left) = self.restarts.left(Instant::now()) else {
            self.restarts.waiting_until_ms = None;
            return false;
        };
        if self.restarts.waiting_until_ms.is_none() {
            let until = (self.core.now_ms)() + i64::try_from(left.as_millis()).unwrap_or_default();
            self.restarts.waiting_until_ms = Some(until);
            let message = format!(
                "The agent has failed {} times in a row; it is started again in {} s. An interrupt ends the wait.",
                self.restarts.failures,
                left.as_millis().div_ceil(1000),
            );
            let request_id = self.turn.as_ref().and_then(|turn| turn.request_id.clone());
            self.warn("agent_restarting", message, request_id);
            self.commit().await;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_later_ones_wait_longer_up_to_a_bound() {
        let waits: Vec<u64> = (1..=8).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }

    #[test]
    fn who_comes_late_does_not_wait_and_success_forgets() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        assert_eq!(restarts.left(now), None);
        restarts.failed(now);
        assert_eq!(restarts.left(now), None);
        restarts.failed(now);
        assert_eq!(restarts.left(now), Some(FIRST));
        assert_eq!(restarts.left(now + FIRST), None);
        assert_eq!(restarts.wake_at(), None, "nobody waits");
        restarts.waiting_until_ms = Some(1);
        assert_eq!(restarts.wake_at(), Some(now + FIRST));
        restarts.succeeded();
        restarts.failed(now);
        assert_eq!(restarts.left(now), None);
    }
}
