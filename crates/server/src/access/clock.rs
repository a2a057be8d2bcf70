//! The two clocks of access: the wall's, for what is stored, and one that never jumps, for what is in memory.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signalbox_engine::wall_clock_ms;

/// Both clocks. Tests put their own here.
#[derive(Clone)]
pub struct Clock(Arc<Both>);

struct Both {
    wall_ms: Box<dyn Fn() -> i64 + Send + Sync>,
    steady: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    /// Unix milliseconds, and the time since some moment, which only grows.
    pub fn new(
        wall_ms: impl Fn() -> i64 + Send + Sync + 'static,
        steady: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Both { wall_ms: Box::new(wall_ms), steady: Box::new(steady) }))
    }

    /// Unix milliseconds.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        (self.0.wall_ms)()
    }

    /// Time since some moment.
    #[must_use]
    pub fn steady(&self) -> Duration {
        (self.0.steady)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        let begin = Instant::now();
        Self::new(wall_clock_ms, move || begin.elapsed())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A moment by which something in memory ends. The steady clock may stand still while the machine sleeps, and the wall's may be
/// set back: whichever comes first holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) wall_ms: i64,
    steady: Duration,
}

impl Deadline {
    pub(super) fn after(clock: &Clock, time: Duration) -> Self {
        let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self { wall_ms: clock.wall_ms().saturating_add(ms), steady: clock.steady().saturating_add(time) }
    }

    pub(super) fn is_over(self, clock: &Clock) -> bool {
        clock.steady() >= self.steady || clock.wall_ms() >= self.wall_ms
    }
}
