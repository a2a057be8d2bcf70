//! The stream of all sessions' events, for frontends that are built on Ops and Events alone.
//!
//! A ring bounded in events and in bytes. Tellers never wait: a listener that falls behind is told how many it missed. This is
//! the seam at which a node could relay its sessions' events to others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use signalbox_facts::{Committed, Seq};
use signalbox_protocol::ops::Event;
use tokio::sync::Notify;

use crate::project;

/// Events that a listener may be behind.
const EVENTS: usize = 8192;
/// Bytes of their JSON that are kept for it.
const BYTES: usize = 16 << 20;

/// One event, serialized once for all who get it.
#[derive(Debug)]
pub struct OpEvent {
    /// The newest fact of its session when it was told; `None` for what no session's log has part in.
    pub seq: Option<Seq>,
    /// The event.
    pub event: Event,
    json: Box<str>,
}

impl OpEvent {
    /// The event as JSON.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// Why there is no next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpEventsError {
    /// The listener was too slow; the oldest event that is left comes next.
    #[error("{missed} events were missed")]
    Lagged {
        /// How many it will never get.
        missed: u64,
    },
    /// The engine has stopped.
    #[error("the engine has stopped")]
    Closed,
}

/// All events from one moment on.
#[derive(Debug)]
pub struct OpEvents {
    bus: Arc<Bus>,
    id: u64,
    next: u64,
}

impl OpEvents {
    /// The next event. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Events were missed, or no more will come.
    pub async fn recv(&mut self) -> Result<Arc<OpEvent>, OpEventsError> {
        let bus = Arc::clone(&self.bus);
        loop {
            // Registered before the ring is looked at, so that nothing told in between is slept through.
            let mut changed = std::pin::pin!(bus.changed.notified());
            changed.as_mut().enable();
            if let Some(next) = self.try_recv() {
                return next;
            }
            changed.await;
        }
    }

    /// What is there without waiting.
    pub fn try_recv(&mut self) -> Option<Result<Arc<OpEvent>, OpEventsError>> {
        let mut ring = self.bus.ring.lock();
        if self.next < ring.first {
            let missed = ring.first - self.next;
            self.next = ring.first;
            ring.listeners.insert(self.id, self.next);
            return Some(Err(OpEventsError::Lagged { missed }));
        }
        let place = usize::try_from(self.next - ring.first).unwrap_or(usize::MAX);
        match ring.events.get(place).map(Arc::clone) {
            Some(event) => {
                self.next += 1;
                ring.listeners.insert(self.id, self.next);
                Some(Ok(event))
            }
            None => ring.closed.then_some(Err(OpEventsError::Closed)),
        }
    }
}

impl Drop for OpEvents {
    fn drop(&mut self) {
        let mut ring = self.bus.ring.lock();
        ring.listeners.remove(&self.id);
        if ring.listeners.is_empty() {
            ring.forget_all();
        }
    }
}

/// How full the ring is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingFigures {
    /// Events that are kept.
    pub events: usize,
    /// The bound of `events`.
    pub max_events: usize,
    /// Bytes of their JSON.
    pub bytes: usize,
    /// The bound of `bytes`.
    pub max_bytes: usize,
    /// Who listens.
    pub listeners: usize,
    /// Events that the slowest of them has not read.
    pub slowest_behind: u64,
}

/// Where events are told.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    /// Number of the oldest event that is kept.
    first: u64,
    events: VecDeque<Arc<OpEvent>>,
    bytes: usize,
    /// Number of a listener → the event that it gets next.
    listeners: HashMap<u64, u64>,
    next_listener: u64,
    closed: bool,
}

impl Ring {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.json.len();
            self.first += 1;
        }
    }

    fn forget_all(&mut self) {
        while !self.events.is_empty() {
            self.drop_oldest();
        }
    }
}

impl Bus {
    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> OpEvents {
        let mut ring = self.ring.lock();
        let next = ring.first + ring.events.len() as u64;
        let id = ring.next_listener;
        ring.next_listener += 1;
        ring.listeners.insert(id, next);
        OpEvents { bus: Arc::clone(self), id, next }
    }

    /// How full the ring is, and how far the slowest listener is behind.
    pub(crate) fn figures(&self) -> RingFigures {
        let ring = self.ring.lock();
        let newest = ring.first + ring.events.len() as u64;
        let slowest = ring.listeners.values().min().map_or(0, |next| newest.saturating_sub(*next));
        RingFigures {
            events: ring.events.len(),
            max_events: EVENTS,
            bytes: ring.bytes,
            max_bytes: BYTES,
            listeners: ring.listeners.len(),
            slowest_behind: slowest,
        }
    }

    fn is_heard(&self) -> bool {
        !self.ring.lock().listeners.is_empty()
    }

    /// Tells what was committed.
    pub(crate) fn committed(&self, delivery: &[Committed]) {
        if !self.is_heard() {
            return;
        }
        for committed in delivery {
            if let Some(event) = project::event(committed) {
                let seq = match committed {
                    Committed::Fact(fact) => fact.through_seq,
                    Committed::Signal(signal) => signal.seq,
                };
                self.push(Some(seq), event);
            }
        }
        self.changed.notify_waiters();
    }

    /// Tells what no log holds: that something was declined.
    pub(crate) fn tell(&self, event: Event) {
        if self.is_heard() {
            self.push(None, event);
            self.changed.notify_waiters();
        }
    }

    fn push(&self, seq: Option<Seq>, event: Event) {
        let json = match serde_json::to_string(&event) {
            Ok(json) => json.into_boxed_str(),
            // Ruled out by its types; if it happens all the same it costs this one event.
            Err(error) => {
                return tracing::error!(%error, event = event.name(), "an event could not be written");
            }
        };
        let mut ring = self.ring.lock();
        ring.bytes += json.len();
        ring.events.push_back(Arc::new(OpEvent { seq, event, json }));
        // The newest is kept whatever its size.
        while ring.events.len() > EVENTS || (ring.bytes > BYTES && ring.events.len() > 1) {
            ring.drop_oldest();
        }
    }

    /// Nothing more will be told.
    pub(crate) fn close(&self) {
        self.ring.lock().closed = true;
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> Event {
        Event::Error {
            session: None,
            message: message.to_owned(),
            terminal: false,
            request_id: None,
            reason: None,
        }
    }

    #[tokio::test]
    async fn everybody_gets_the_same_serialized_event() {
        let bus = Arc::new(Bus::default());
        bus.tell(error("before anybody listened"));
        let (mut first, mut second) = (bus.listen(), bus.listen());
        bus.tell(error("x"));
        let (one, two) = (first.recv().await.unwrap(), second.recv().await.unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(one.json(), r#"{"event":"error","session":null,"message":"x","terminal":false}"#);
        bus.close();
        assert_eq!(first.recv().await.unwrap_err(), OpEventsError::Closed);
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_how_many_it_missed_and_goes_on() {
        let bus = Arc::new(Bus::default());
        let mut slow = bus.listen();
        for number in 0..EVENTS + 3 {
            bus.tell(error(&number.to_string()));
        }
        assert_eq!(slow.recv().await.unwrap_err(), OpEventsError::Lagged { missed: 3 });
        let Event::Error { message, .. } = &slow.recv().await.unwrap().event else { panic!() };
        assert_eq!(message, "3");
    }

    #[tokio::test]
    async fn large_events_count_by_their_bytes() {
        let bus = Arc::new(Bus::default());
        let mut slow = bus.listen();
        for _ in 0..5 {
            bus.tell(error(&"x".repeat(BYTES / 2)));
        }
        assert!(matches!(slow.recv().await, Err(OpEventsError::Lagged { missed: 4 })));
        assert!(slow.recv().await.is_ok());
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let bus = Arc::new(Bus::default());
        let mut listener = bus.listen();
        let (heard, ()) = tokio::join!(listener.recv(), async { bus.tell(error("x")) });
        assert!(heard.is_ok());
    }
}
