//! Named places in the commit pipeline where a test can stop, delay, fail or kill the process. Empty without the
//! feature `fail-points`.

/// A place in the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(not(feature = "fail-points"), allow(unreachable_pub, reason = "public with the feature only"))]
pub enum FailPoint {
    /// Before the transaction begins.
    BeforeBegin,
    /// Inside a session's savepoint, its facts and derived rows written.
    InSavepoint,
    /// Everything written, not committed.
    BeforeCommit,
    /// Committed, not flushed, nobody told.
    AfterCommit,
    /// In the flush task, before the disk is asked.
    BeforeFlush,
    /// Flushed, nobody told.
    AfterFlush,
    /// Between two slices of a compaction or deletion.
    BetweenSlices,
}

#[cfg(feature = "fail-points")]
mod armed {
    use std::collections::HashMap;
    use std::str::FromStr;
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::sync::Notify;

    use super::FailPoint;

    impl FromStr for FailPoint {
        type Err = ();

        fn from_str(name: &str) -> Result<Self, ()> {
            Ok(match name {
                "before_begin" => Self::BeforeBegin,
                "in_savepoint" => Self::InSavepoint,
                "before_commit" => Self::BeforeCommit,
                "after_commit" => Self::AfterCommit,
                "before_flush" => Self::BeforeFlush,
                "after_flush" => Self::AfterFlush,
                "between_slices" => Self::BetweenSlices,
                _ => return Err(()),
            })
        }
    }

    /// What happens at an armed point.
    #[derive(Clone, Debug)]
    enum Action {
        Abort,
        Error,
        Delay(Duration),
        Hold(Arc<Hold>),
    }

    #[derive(Default, Debug)]
    struct Hold {
        reached: Notify,
        release: Notify,
    }

    #[derive(Debug)]
    struct Armed {
        action: Action,
        /// Times that the point is passed before the action.
        skip: u32,
        /// Times that the action happens; none is always.
        times: Option<u32>,
    }

    /// The armed fail points of a store; clones share them.
    #[derive(Clone, Default, Debug)]
    pub struct FailPoints(Arc<Mutex<HashMap<FailPoint, Armed>>>);

    impl FailPoints {
        /// Those of `SIGNALBOX_FAIL_POINT`: `NAME:ACTION[:SKIP]`, several separated by commas. Actions are `abort`,
        /// `error` and `delay_MS`; `SKIP` times the point is passed first. What cannot be understood is logged.
        #[must_use]
        pub fn from_environment() -> Self {
            let points = Self::default();
            let Ok(text) = std::env::var("SIGNALBOX_FAIL_POINT") else { return points };
            for spec in text.split(',').filter(|spec| !spec.is_empty()) {
                if points.arm(spec).is_none() {
                    tracing::error!(spec, "SIGNALBOX_FAIL_POINT not understood");
                }
            }
            points
        }

        fn arm(&self, spec: &str) -> Option<()> {
            let mut parts = spec.split(':');
            let point = parts.next()?.parse().ok()?;
            let action = match parts.next().unwrap_or("abort") {
                "abort" => Action::Abort,
                "error" => Action::Error,
                other => Action::Delay(Duration::from_millis(other.strip_prefix("delay_")?.parse().ok()?)),
            };
            let skip = parts.next().map_or(Some(0), |skip| skip.parse().ok())?;
            self.0.lock().insert(point, Armed { action, skip, times: None });
            Some(())
        }

        /// Fails with an I/O error at the point, `times` times, after passing it `skip` times.
        pub fn fail(&self, point: FailPoint, skip: u32, times: u32) {
            self.0.lock().insert(point, Armed { action: Action::Error, skip, times: Some(times.max(1)) });
        }

        /// Stops at the point once, until the guard lets it go.
        #[must_use]
        pub fn hold(&self, point: FailPoint) -> Held {
            let hold = Arc::new(Hold::default());
            let action = Action::Hold(hold.clone());
            self.0.lock().insert(point, Armed { action, skip: 0, times: Some(1) });
            Held(hold)
        }

        /// Whether any point is armed.
        pub(crate) fn any(&self) -> bool {
            !self.0.lock().is_empty()
        }

        pub(crate) async fn hit(&self, point: FailPoint) -> std::io::Result<()> {
            let action = {
                let mut points = self.0.lock();
                let Some(armed) = points.get_mut(&point) else { return Ok(()) };
                if armed.skip > 0 {
                    armed.skip -= 1;
                    return Ok(());
                }
                let action = armed.action.clone();
                if let Some(times) = &mut armed.times {
                    *times -= 1;
                    if *times == 0 {
                        points.remove(&point);
                    }
                }
                action
            };
            match action {
                Action::Abort => std::process::abort(),
                Action::Error => Err(std::io::Error::other(format!("fail point {point:?}"))),
                Action::Delay(delay) => {
                    tokio::time::sleep(delay).await;
                    Ok(())
                }
                Action::Hold(hold) => {
                    hold.reached.notify_one();
                    hold.release.notified().await;
                    Ok(())
                }
            }
        }
    }

    /// A point at which the pipeline stops; dropping it lets the pipeline go on.
    #[derive(Debug)]
    pub struct Held(Arc<Hold>);

    impl Held {
        /// Waits until the pipeline has arrived.
        pub async fn reached(&self) {
            self.0.reached.notified().await;
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.release.notify_one();
        }
    }
}

#[cfg(feature = "fail-points")]
pub use armed::{FailPoints, Held};

/// Nothing can be armed in this build.
#[cfg(not(feature = "fail-points"))]
#[derive(Clone, Default, Debug)]
pub(crate) struct FailPoints;

#[cfg(not(feature = "fail-points"))]
impl FailPoints {
    pub(crate) fn any(&self) -> bool {
        false
    }

    pub(crate) async fn hit(&self, _: FailPoint) -> std::io::Result<()> {
        Ok(())
    }
}
