//! How often a crowd is told of growing text: the more clients follow a thread, the longer its hub gathers chunks.
//!
//! What a delivery costs is waking a connection and writing to its socket, once a client, however short the text. So a
//! hub with many subscribers takes in the next chunks together; the outboxes merge them, and each client is written
//! to once. Few subscribers wait for nothing, and nobody waits longer than a screen takes to show it.

use std::time::Duration;

use tokio::time::Instant;

/// Subscribers at which gathering begins to be worth its delay.
const CROWD: u32 = 4;
/// What each of them adds to the time that is gathered.
const EACH: Duration = Duration::from_micros(300);
/// One picture of a screen.
const LONGEST: Duration = Duration::from_millis(16);

/// How long chunks are gathered after some were told to so many subscribers; `None`: not at all.
fn gathering(subscribers: usize) -> Option<Duration> {
    let subscribers = u32::try_from(subscribers).unwrap_or(u32::MAX);
    (subscribers >= CROWD).then(|| EACH.saturating_mul(subscribers).min(LONGEST))
}

/// When a hub takes in what was committed next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    until: Option<Instant>,
}

impl Pace {
    /// Chunks, and nothing else, were told to so many subscribers.
    pub(super) fn told_chunks(&mut self, subscribers: usize) {
        self.until = gathering(subscribers).map(|time| Instant::now() + time);
    }

    /// Resolves when the next commit may be taken in. Cancel-safe.
    pub(super) async fn ready(&mut self) {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
            self.until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_wait_for_nothing_and_a_crowd_waits_for_a_picture_at_most() {
        assert_eq!((gathering(0), gathering(1), gathering(3)), (None, None, None));
        assert_eq!(gathering(16), Some(Duration::from_micros(4800)));
        assert_eq!(gathering(1000), Some(LONGEST));
        assert!((4..200).all(|count| gathering(count) <= gathering(count + 1)));
    }

    #[test]
    fn only_a_crowd_is_waited_for() {
        let mut pace = Pace::default();
        pace.told_chunks(1);
        assert!(pace.until.is_none());
        pace.told_chunks(10);
        assert!(pace.until.is_some_and(|until| until <= Instant::now() + LONGEST));
        // The crowd has gone.
        pace.told_chunks(3);
        assert!(pace.until.is_none());
    }

    #[tokio::test]
    async fn chunks_are_gathered_once() {
        let mut pace = Pace::default();
        pace.told_chunks(4);
        pace.ready().await;
        assert!(pace.until.is_none());
        pace.ready().await;
    }
}
