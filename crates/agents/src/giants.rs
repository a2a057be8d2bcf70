//! Giant lines of agents: all agents of a server share a budget of memory for them, and a line waits for its share.
//!
//! A line may grow to [`GIANT_BYTES`] freely. To grow further its agent must hold a share that is enough for the longest
//! line it may send, in memory and as the message it becomes; until it has one it is not read. So whoever has begun to
//! read a giant can finish it, and no two of them wait for each other. Shares are given in the order they were wanted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What all giants of a server may come to together.
pub(crate) const BUDGET_BYTES: u32 = 256 << 20;
/// An unfinished line of more than this is a giant.
pub(crate) const GIANT_BYTES: usize = 1 << 20;
/// What a line may come to while it is handled, in its own lengths: the buffer with its spare room, the text that is being
/// unescaped, and the message.
const WEIGHT: usize = 4;
/// How long a giant may take to arrive once it is read, and what it became to be taken, if another one waits.
const LONGEST: Duration = Duration::from_secs(30);

/// The budget, and how much is in use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Giants {
    room: Arc<Semaphore>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl Default for Giants {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(BUDGET_BYTES as usize)), counts: Arc::default() }
    }
}

impl Giants {
    /// Bytes of line buffers and of long lines that are being handled: now, and the most there have been.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.counts.bytes.load(Ordering::Relaxed), self.counts.most.load(Ordering::Relaxed))
    }

    /// One agent's, whose lines have at most so many bytes. A share is never more than the budget: then it is all of it.
    pub(crate) fn share(&self, line_bytes: usize) -> Share {
        let bytes = u32::try_from(line_bytes.saturating_mul(WEIGHT)).unwrap_or(BUDGET_BYTES);
        Share { giants: self.clone(), wants: bytes.min(BUDGET_BYTES), state: State::None, bytes: 0 }
    }
}

/// What one agent has of the budget.
pub(crate) struct Share {
    giants: Giants,
    wants: u32,
    state: State,
    /// Counted for this agent.
    bytes: usize,
}

enum State {
    None,
    Waiting(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    Held { _room: OwnedSemaphorePermit, until: Instant },
}

/// Counts one that waits.
struct Waits(Arc<Counts>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Share {
    /// The unfinished line is a giant: asks for a share unless there is one.
    pub(crate) fn want(&mut self) {
        if !matches!(self.state, State::None) {
            return;
        }
        let (room, wants) = (Arc::clone(&self.giants.room), self.wants);
        self.giants.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(Arc::clone(&self.giants.counts));
        self.state = State::Waiting(Box::pin(async move {
            let _waits = waits;
            // The budget is never closed.
            room.acquire_many_owned(wants).await.ok()
        }));
    }

    /// Whether the agent must not be read for now.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Waits until there is a share. Dropping the future keeps the place in the row.
    pub(crate) async fn granted(&mut self) {
        let State::Waiting(share) = &mut self.state else { return std::future::pending().await };
        let room = share.await;
        self.state = match room {
            Some(room) => State::Held { _room: room, until: Instant::now() + LONGEST },
            None => State::None,
        };
    }

    /// What was read has been handled, and what it became was taken: gives the share back.
    pub(crate) fn release(&mut self) {
        self.state = State::None;
    }

    /// When to look again at the giant that is being read or handled.
    pub(crate) fn until(&self) -> Option<Instant> {
        match &self.state {
            State::Held { until, .. } => Some(*until),
            State::None | State::Waiting(_) => None,
        }
    }

    /// The agent was not read for so long.
    pub(crate) fn postpone(&mut self, by: Duration) {
        if let State::Held { until, .. } = &mut self.state {
            *until += by;
        }
    }

    /// Whether the giant takes too long. As long as nobody else waits, it may.
    pub(crate) fn is_late(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::Held { until, .. } if *until <= now => {
                if self.giants.counts.waiting.load(Ordering::Relaxed) > 0 {
                    return true;
                }
                *until = now + LONGEST;
                false
            }
            _ => false,
        }
    }

    /// This many bytes are now in use for this agent.
    pub(crate) fn count(&mut self, bytes: usize) {
        let counts = &self.giants.counts;
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let all = counts.bytes.fetch_add(more, Ordering::Relaxed) + more;
            counts.most.fetch_max(all, Ordering::Relaxed);
        } else {
            counts.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    async fn is_granted(share: &mut Share) -> bool {
        tokio::select! {
            biased;
            () = share.granted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn as_many_as_the_budget_holds_are_read_at_once_and_the_others_in_turn() {
        let giants = Giants::default();
        let mut shares: Vec<_> = (0..6).map(|_| giants.share(16 * MIB)).collect();
        for share in &mut shares {
            share.want();
        }
        let mut granted = Vec::new();
        for share in &mut shares {
            granted.push(is_granted(share).await);
        }
        assert_eq!(granted, [true, true, true, true, false, false]);
        shares[2].release();
        assert!(!is_granted(&mut shares[5]).await, "it is not its turn");
        assert!(is_granted(&mut shares[4]).await);
        drop(shares.remove(0));
        assert!(is_granted(shares.last_mut().unwrap()).await);
    }

    #[tokio::test]
    async fn a_giant_that_does_not_arrive_is_late_only_when_another_waits() {
        let giants = Giants::default();
        let (mut first, mut second) = (giants.share(1 << 40), giants.share(64 * MIB));
        first.want();
        assert!(is_granted(&mut first).await);
        let later = first.until().unwrap();
        assert!(!first.is_late(later) && first.until().unwrap() > later);
        second.want();
        assert!(!is_granted(&mut second).await);
        assert!(!first.is_late(later));
        first.postpone(LONGEST);
        assert!(!first.is_late(later + LONGEST));
        assert!(first.is_late(later + 2 * LONGEST));
        drop(second);
        assert!(!first.is_late(later + 2 * LONGEST), "who waited is gone");
    }

    #[test]
    fn what_is_in_use_is_counted_over_all_agents() {
        let giants = Giants::default();
        let (mut one, mut two) = (giants.share(1), giants.share(1));
        one.count(10);
        two.count(5);
        one.count(3);
        assert_eq!(giants.bytes(), (8, 15));
        drop(one);
        drop(two);
        assert_eq!(giants.bytes(), (0, 15));
    }
}
