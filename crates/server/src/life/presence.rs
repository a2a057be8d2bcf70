//! Who is there: the connections that keep a server, counted so that it never leaves somebody who has just come.

use std::sync::Arc;

use tokio::sync::watch;

/// The connections of a server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<watch::Sender<State>>);

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct State {
    pub(super) guests: usize,
    /// How many have come so far.
    pub(super) arrivals: u64,
    leaving: bool,
}

/// Somebody who is there until this is dropped.
#[derive(Debug)]
pub(crate) struct Guest(Arc<watch::Sender<State>>);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.guests -= 1);
    }
}

impl Presence {
    /// Somebody comes. None if the server has decided to leave: whoever it is must find another.
    #[must_use]
    pub(crate) fn enter(&self) -> Option<Guest> {
        let mut entered = false;
        self.0.send_if_modified(|state| {
            entered = !state.leaving;
            state.guests += usize::from(entered);
            state.arrivals += u64::from(entered);
            entered
        });
        entered.then(|| Guest(Arc::clone(&self.0)))
    }

    /// How many are there.
    #[must_use]
    pub(crate) fn guests(&self) -> usize {
        self.0.borrow().guests
    }

    /// How it stands, and whatever changes.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.0.subscribe()
    }

    /// Decides to leave, unless more than `most` are there or somebody has come since there were `arrivals`. From then on
    /// nobody comes in.
    #[must_use]
    pub(super) fn leave(&self, most: usize, arrivals: u64) -> bool {
        let mut leaving = false;
        self.0.send_if_modified(|state| {
            leaving = state.guests <= most && state.arrivals == arrivals;
            state.leaving |= leaving;
            leaving
        });
        leaving
    }

    /// Whether the server has decided to leave.
    pub(super) fn is_leaving(&self) -> bool {
        self.0.borrow().leaving
    }

    /// Decides to leave, whoever is there.
    pub(super) fn close(&self) {
        self.0.send_modify(|state| state.leaving = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(presence: &Presence) -> u64 {
        presence.watch().borrow().arrivals
    }

    #[test]
    fn whoever_comes_before_the_decision_is_kept() {
        let presence = Presence::default();
        let before = arrivals(&presence);
        let guest = presence.enter().unwrap();
        assert!(!presence.leave(0, before), "somebody is there");
        drop(guest);
        assert!(!presence.leave(0, before), "somebody was there and may have left work");
        assert!(presence.leave(0, arrivals(&presence)));
        assert!(presence.enter().is_none(), "whoever comes later finds another server");
    }

    #[test]
    fn the_one_that_asks_is_not_counted() {
        let presence = Presence::default();
        let _asking = presence.enter().unwrap();
        assert!(!presence.leave(0, 1));
        assert!(presence.leave(1, 1));
    }
}
