//! One thread's deliveries on their way to one connection: held back while an answer must go first, merged if the client
//! wants fewer, left out while it is too slow for them.
//!
//! The lock of a flow is kept while its frames enter the outbox, so that nothing overtakes. It is never held over an await.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use signalbox_facts::{Seq, SessionId, SessionRow};
use signalbox_protocol::app::method;
use signalbox_rpc::{Frame, Merging, Peer, Pushed};

use crate::approvals::Ask;
use crate::hub::frames::Placed;
use crate::hub::ring::Cut;
use crate::hubs::Hubs;

/// Most bytes that are held for one thread, if an answer takes so long that more comes.
const HELD_BYTES: usize = 4 * 1024 * 1024;
/// Most text of one thread that waits to be merged with what follows.
const MERGED_BYTES: usize = 256 * 1024;

/// What a connection is told of a thread that it does not follow: what everybody is told, and warnings about its own calls.
const TOLD_TO_ALL: [&str; 11] = [
    method::THREAD_STARTED,
    method::THREAD_STATUS_CHANGED,
    method::THREAD_ACTIVITY_CHANGED,
    method::THREAD_NAME_UPDATED,
    method::THREAD_ARCHIVED,
    method::THREAD_UNARCHIVED,
    method::THREAD_DELETED,
    method::THREAD_CLOSED,
    method::THREAD_WORKTREE_DISCARDED,
    method::THREAD_RESYNC_REQUIRED,
    method::WARNING,
];

/// Something for one connection.
#[derive(Debug, Clone)]
pub(crate) enum Delivery {
    /// A notification about the thread.
    Notify(Placed),
    /// A raw core event.
    Event(Frame),
    /// A request about an approval.
    Ask(Ask),
}

impl Delivery {
    fn bytes(&self) -> usize {
        match self {
            Self::Notify(told) => told.frame.bytes().len(),
            Self::Event(frame) => frame.bytes().len(),
            Self::Ask(ask) => ask.frame.bytes().len(),
        }
    }
}

/// A thread at the point from which on a connection was told nothing.
#[derive(Debug)]
pub(crate) struct Known {
    /// The session's row at that point.
    pub(crate) row: SessionRow,
    /// Where the turn begins that was in view.
    pub(crate) turn_first: Option<Seq>,
    /// Through here it was told what only facts of no turn say.
    pub(crate) said: Seq,
}

/// Whose deliveries are left out, and what makes up for them.
#[derive(Debug, Clone)]
pub(crate) enum Gap {
    /// The client will be told what it has missed as soon as it reads again.
    Behind(Arc<Known>),
    /// The client was told to resume the thread.
    Lost,
}

/// What became of a delivery.
#[derive(Debug, Default)]
#[must_use = "who was full must be told no more, and cuts belong into the thread's ring"]
pub(crate) struct Taken {
    /// It was taken, but over the bound: no more, please.
    pub(crate) full: Option<Full>,
    /// Cursors that this client may have seen without all that precedes them.
    pub(crate) cuts: Vec<Cut>,
    /// Text waits to be merged and nothing did before.
    pub(crate) waits: bool,
    /// It is held back and nothing was before, in this round of holds.
    pub(crate) held: Option<u64>,
    /// It was not taken, and must be made good.
    pub(crate) missed: bool,
}

/// What deliveries are held back for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// The answer to a call about the thread, which should come first. It may take as long as an agent takes, and the agent may
    /// wait for this client, so the hold can be let go before.
    Answer,
    /// The thread itself, without which the client can make nothing of the rest.
    Snapshot,
}

/// Why no more can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The client reads too slowly.
    Outbox,
    /// An answer takes too long.
    Held,
}

/// A thread's deliveries for a connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) session: SessionId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The connection follows the thread.
    following: bool,
    holds: usize,
    /// How many of them are for a snapshot.
    snapshots: usize,
    /// The holds have lasted too long: only those for a snapshot still count.
    let_go: bool,
    /// Counts how often holds have begun.
    round: u64,
    waiting: VecDeque<Delivery>,
    bytes: usize,
    /// Deltas that wait for their successors, if the client wants fewer.
    merging: Vec<Waiting>,
    gap: Option<Gap>,
    /// Notifications that were not taken although the connection does not follow the thread.
    missed: Vec<&'static str>,
}

#[derive(Debug)]
struct Waiting {
    merging: Merging,
    first: u64,
    last: u64,
}

/// Where deliveries go, and how.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) hubs: &'a Hubs,
    pub(crate) peer: &'a Peer,
    /// Deltas are merged.
    pub(crate) merges: bool,
}

impl Flow {
    pub(crate) fn new(session: SessionId) -> Arc<Self> {
        Arc::new(Self { session, state: Mutex::default() })
    }

    /// Nothing is kept here, so that it can be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        !state.following
            && state.holds == 0
            && state.gap.is_none()
            && state.missed.is_empty()
            && state.merging.is_empty()
    }

    pub(super) fn follow(&self, following: bool) {
        let mut state = self.state.lock();
        state.following = following;
        if following {
            state.missed = Vec::new();
        } else {
            state.gap = None;
        }
    }

    /// The thread has left memory. What the client has missed until then is still to be told.
    pub(super) fn unload(&self) {
        let mut state = self.state.lock();
        state.following = false;
        if matches!(state.gap, Some(Gap::Lost)) {
            state.gap = None;
        }
    }

    pub(crate) fn is_following(&self) -> bool {
        self.state.lock().following
    }

    /// Whether the connection gets everything of the thread now.
    pub(crate) fn is_whole(&self) -> bool {
        let state = self.state.lock();
        state.following && state.gap.is_none()
    }

    pub(super) fn hold(&self, holding: Holding) {
        let mut state = self.state.lock();
        if state.holds == 0 {
            state.round += 1;
        }
        state.holds += 1;
        state.snapshots += usize::from(holding == Holding::Snapshot);
    }

    /// One hold less. What waited goes out in order when the last one ends.
    pub(super) fn release(&self, to: To<'_>, holding: Holding) -> Taken {
        let mut state = self.state.lock();
        state.holds -= 1;
        state.snapshots -= usize::from(holding == Holding::Snapshot);
        state.let_go &= state.holds > 0;
        state.release(to)
    }

    /// The holds of this round have lasted too long, if they still do: what waits for answers goes out.
    pub(super) fn let_go(&self, to: To<'_>, round: u64) -> Taken {
        let mut state = self.state.lock();
        if state.holds == 0 || state.round != round {
            return Taken::default();
        }
        state.let_go = true;
        state.release(to)
    }

    /// Delivers; lets it wait if the thread is held, and leaves it out if the client is behind.
    pub(crate) fn deliver(&self, to: To<'_>, delivery: Delivery) -> Taken {
        let mut taken = Taken::default();
        let mut state = self.state.lock();
        if state.gap.is_none() {
            state.put(to, delivery, &mut taken);
        }
        taken
    }

    /// Delivers what is for this client alone, and what makes up for what it has missed.
    pub(crate) fn deliver_own(&self, to: To<'_>, delivery: Delivery) -> Taken {
        let mut taken = Taken::default();
        self.state.lock().put(to, delivery, &mut taken);
        taken
    }

    /// Delivers to a connection that does not follow the thread. What it does not take is noted.
    pub(super) fn deliver_unfollowed(&self, to: To<'_>, told: Placed) -> Taken {
        let method = told.frame.method();
        let mut taken = Taken::default();
        let mut state = self.state.lock();
        if state.gap.is_some() {
            return taken;
        }
        if state.missed.is_empty() {
            state.put(to, Delivery::Notify(told), &mut taken);
        } else {
            taken.missed = true;
        }
        if taken.missed && !state.missed.contains(&method) {
            state.missed.push(method);
        }
        taken
    }

    /// Sends the text that waits to be merged.
    pub(super) fn flush(&self, to: To<'_>) -> Vec<Cut> {
        let mut taken = Taken::default();
        self.state.lock().flush(to, &mut taken);
        taken.cuts
    }

    /// What waits is in the snapshot that is about to be made, so it is not told again. Warnings are in no snapshot; they go
    /// out now, because their place is before it.
    pub(super) fn superseded(&self, to: To<'_>) -> Taken {
        let mut taken = Taken::default();
        let mut state = self.state.lock();
        state.gap = None;
        state.bytes = 0;
        state.merging = Vec::new();
        for delivery in std::mem::take(&mut state.waiting) {
            if matches!(&delivery, Delivery::Notify(told) if told.frame.method() == method::WARNING) {
                state.send(to, delivery, &mut taken);
            }
        }
        taken
    }

    /// The client has left the thread: of what is held only what everybody is told is still told.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.following = false;
        state.gap = None;
        state.merging = Vec::new();
        state.waiting.retain(|delivery| match delivery {
            Delivery::Notify(told) => TOLD_TO_ALL.contains(&told.frame.method()),
            Delivery::Event(_) => true,
            Delivery::Ask(_) => false,
        });
        state.bytes = state.waiting.iter().map(Delivery::bytes).sum();
    }

    /// A request about this approval that still waits here is forgotten; false if there was none.
    pub(crate) fn forget_held(&self, approval: &str) -> bool {
        let mut state = self.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|delivery| !matches!(delivery, Delivery::Ask(ask) if ask.id() == approval));
        before != state.waiting.len()
    }

    /// From now on the thread's deliveries are left out; false if they are already.
    pub(crate) fn open_gap(&self, gap: Gap) -> bool {
        let mut state = self.state.lock();
        let opened = state.following && state.gap.is_none();
        if opened {
            state.gap = Some(gap);
        }
        opened
    }

    /// What this client knew when it fell behind, if it is to be told now what it missed.
    pub(super) fn to_catch_up(&self) -> Option<Arc<Known>> {
        let state = self.state.lock();
        match &state.gap {
            Some(Gap::Behind(known)) if !state.is_held() => Some(known.clone()),
            _ => None,
        }
    }

    /// The gap that began there is still open.
    pub(crate) fn is_behind(&self, since: &Arc<Known>) -> bool {
        matches!(&self.state.lock().gap, Some(Gap::Behind(known)) if Arc::ptr_eq(known, since))
    }

    /// The client was told a part of what it missed: from now on it knows this. False if the gap is closed already.
    pub(crate) fn narrow_gap(&self, since: &Arc<Known>, now: Arc<Known>) -> bool {
        let mut state = self.state.lock();
        match &mut state.gap {
            Some(Gap::Behind(known)) if Arc::ptr_eq(known, since) => {
                *known = now;
                true
            }
            _ => false,
        }
    }

    /// The client was told what it missed.
    pub(crate) fn close_gap(&self) {
        self.state.lock().gap = None;
    }

    pub(super) fn missed_something(&self) -> bool {
        !self.state.lock().missed.is_empty()
    }

    /// The methods of what was not taken.
    pub(crate) fn take_missed(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().missed)
    }
}

impl State {
    fn is_held(&self) -> bool {
        self.snapshots > 0 || (self.holds > 0 && !self.let_go)
    }

    /// What waits goes out, unless it is still held.
    fn release(&mut self, to: To<'_>) -> Taken {
        let mut taken = Taken::default();
        if !self.is_held() {
            self.bytes = 0;
            for delivery in std::mem::take(&mut self.waiting) {
                self.send(to, delivery, &mut taken);
            }
        }
        taken
    }

    fn put(&mut self, to: To<'_>, delivery: Delivery, taken: &mut Taken) {
        if !self.is_held() {
            self.send(to, delivery, taken);
            return;
        }
        if self.waiting.is_empty() {
            taken.held = Some(self.round);
        }
        self.bytes += delivery.bytes();
        self.waiting.push_back(delivery);
        if self.bytes <= HELD_BYTES {
            return;
        }
        if self.following {
            taken.full = Some(Full::Held);
            return;
        }
        // An early notification is better than a lost one.
        self.bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            self.send(to, waiting, taken);
        }
    }

    fn send(&mut self, to: To<'_>, delivery: Delivery, taken: &mut Taken) {
        match delivery {
            Delivery::Notify(told) => {
                if to.merges && self.merge(&told, taken) {
                    if self.merging.iter().map(|waiting| waiting.merging.text_bytes()).sum::<usize>()
                        > MERGED_BYTES
                    {
                        self.flush(to, taken);
                    }
                    return;
                }
                self.flush(to, taken);
                let place = told.place;
                self.push(to, told.frame, place, taken);
            }
            Delivery::Event(frame) => {
                self.flush(to, taken);
                self.push(to, frame, 0, taken);
            }
            Delivery::Ask(ask) => {
                self.flush(to, taken);
                ask.send(to.hubs, to.peer);
            }
        }
    }

    /// Lets a delta wait for its successors; false if it is none.
    fn merge(&mut self, told: &Placed, taken: &mut Taken) -> bool {
        let Some(key) = told.frame.delta_key() else { return false };
        if let Some(waiting) = self.merging.iter_mut().find(|waiting| waiting.merging.key() == key) {
            waiting.last = told.place;
            return waiting.merging.add(&told.frame);
        }
        let Some(merging) = Merging::new(&told.frame) else { return false };
        taken.waits |= self.merging.is_empty();
        self.merging.push(Waiting { merging, first: told.place, last: told.place });
        true
    }

    fn flush(&mut self, to: To<'_>, taken: &mut Taken) {
        if self.merging.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.merging);
        waiting.sort_by_key(|waiting| waiting.last);
        if let [first, .., last] = &waiting[..] {
            // Between the first and the last the client has some text without what precedes it.
            taken.cuts.push(Cut { text: None, from: first.last, to: last.last });
        }
        for Waiting { merging, first, .. } in waiting {
            self.push(to, merging.into_frame(), first, taken);
        }
    }

    fn push(&mut self, to: To<'_>, frame: Frame, place: u64, taken: &mut Taken) {
        let text = frame.delta_key();
        match to.peer.notify(frame.clone()) {
            Pushed::Dropped => taken.cuts.extend(text.map(|text| Cut::open(text, place))),
            // The rest of what belongs together is taken too, so that what is left out begins between two commits.
            Pushed::Refused if self.following => {
                taken.full = Some(Full::Outbox);
                // A connection that has ended takes nothing; its end is noticed elsewhere.
                let _ = to.peer.notify(frame.essential());
            }
            Pushed::Refused => taken.missed = true,
            // A connection that has ended takes nothing; its end is noticed elsewhere.
            Pushed::Queued | Pushed::Merged | Pushed::OptedOut | Pushed::Closed => {}
        }
    }
}
