//! The outbox of one connection: bounded in bytes, never blocking who pushes, merging deltas for a client that lags.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::hooks::CloseReason;
use crate::merging::Merging;
use crate::outgoing::{Class, DeltaKey, Frame};

/// What a queued frame costs beside its bytes, so that a bound in bytes bounds the number of frames as well.
const FRAME_OVERHEAD: usize = 64;
/// Most bytes that the writer takes at once.
const BURST_BYTES: usize = 256 * 1024;
/// A merged delta is not grown beyond this many bytes of text; the next one begins a new frame.
const MERGED_TEXT_BYTES: usize = 256 * 1024;
/// Texts of which a piece was dropped and that are not known to be complete; the oldest are forgotten.
const MAX_CUT_TEXTS: usize = 1024;

/// Bounds of an outbox, in bytes (each queued frame counts 64 more than its length). What a client has asked for does not
/// count as its lagging: answers have a bound of their own.
#[derive(Debug, Clone, Copy)]
pub struct OutboxLimits {
    /// From here on deltas that cannot be merged into the last queued frame are dropped. Default 2 MiB: more than one
    /// large item, so that a client that reads loses nothing behind it.
    pub soft_bytes: usize,
    /// When so much waits, lifecycle frames are not taken any more: see [`Overflow`]. It may be exceeded by what
    /// belongs together (one frame, or what one commit tells), so that a frame of any size passes. Default 8 MiB.
    pub hard_bytes: usize,
    /// While the answers to the client's own requests take more than this, it is not read. Default 4 MiB.
    pub answer_bytes: usize,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        Self { soft_bytes: 2 * 1024 * 1024, hard_bytes: 8 * 1024 * 1024, answer_bytes: 4 * 1024 * 1024 }
    }
}

/// What becomes of a client for which a lifecycle frame finds the outbox at its hard bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The connection is closed with [`CloseReason::Overflow`].
    Close,
    /// The frame is refused with [`Pushed::Refused`], and whoever pushed it must make up for it (the client's
    /// subscription becomes a place in the stream until [`Peer::drained`](crate::Peer::drained)).
    Refuse,
}

/// What became of a pushed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a refused frame is lost unless somebody makes up for it"]
pub enum Pushed {
    /// It is queued.
    Queued,
    /// It was a delta and went into its predecessor.
    Merged,
    /// It was a delta and the client lags: it is gone, and so are the later pieces of that text.
    Dropped,
    /// The client does not want notifications of this method.
    OptedOut,
    /// The outbox is at its hard bound and the policy is [`Overflow::Refuse`].
    Refused,
    /// The connection is closed or closing.
    Closed,
}

/// How full an outbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Frames that wait.
    pub frames: usize,
    /// Their bytes, with 64 a frame added.
    pub bytes: usize,
    /// The part of `bytes` that answers make up.
    pub answer_bytes: usize,
}

/// What the writer gets.
#[derive(Debug)]
pub enum Burst {
    /// The given vector holds frames to be written, in order.
    Frames,
    /// Everything has been handed out and nothing will follow: close.
    End(CloseReason),
}

/// The sending side; cloned into every peer.
#[derive(Debug, Clone)]
pub(crate) struct Outbox(Arc<Inner>);

/// The receiving side: the writer of a transport takes frames from it in bursts.
#[derive(Debug)]
pub struct OutboxReader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: OutboxLimits,
    state: Mutex<State>,
    /// Wakes an async writer.
    filled: Notify,
    /// Wakes a writer that is a thread.
    filled_thread: Condvar,
    /// Wakes those who wait for room.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Queued>,
    bytes: usize,
    answer_bytes: usize,
    cut: VecDeque<DeltaKey>,
    cut_set: HashSet<DeltaKey>,
    /// Set when no more frames are taken.
    end: Option<CloseReason>,
    writer_waits: bool,
    /// The overflow of this episode has been told; cleared when the outbox is below its soft bound again.
    overflow_told: bool,
}

#[derive(Debug)]
struct Queued {
    body: Body,
    cost: usize,
    answer: bool,
}

#[derive(Debug)]
enum Body {
    Whole(Bytes),
    Delta(Merging),
}

/// The result of a push, with what the caller has to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PushResult {
    pub(crate) pushed: Pushed,
    /// The hard bound was met for the first time in this episode.
    pub(crate) overflowed: bool,
}

impl Outbox {
    pub(crate) fn new(limits: OutboxLimits) -> (Self, OutboxReader) {
        let inner = Arc::new(Inner {
            limits,
            state: Mutex::default(),
            filled: Notify::new(),
            filled_thread: Condvar::new(),
            room: Notify::new(),
        });
        (Self(inner.clone()), OutboxReader(inner))
    }

    pub(crate) fn push(&self, frame: Frame) -> PushResult {
        let mut state = self.0.state.lock();
        let result = state.push(frame, &self.0.limits);
        self.wake_writer(state);
        result
    }

    /// Nothing more is taken; what is queued will still be written, then the writer ends.
    pub(crate) fn finish(&self, reason: CloseReason) {
        let mut state = self.0.state.lock();
        state.end.get_or_insert(reason);
        self.wake_writer(state);
        self.0.room.notify_waiters();
    }

    /// Nothing more is taken and what is queued is gone.
    pub(crate) fn abort(&self, reason: CloseReason) {
        let mut state = self.0.state.lock();
        state.end.get_or_insert(reason);
        state.queue = VecDeque::new();
        state.bytes = 0;
        state.answer_bytes = 0;
        self.wake_writer(state);
        self.0.room.notify_waiters();
    }

    /// Later pieces of this text are dropped until it is complete, because an earlier one will never come.
    pub(crate) fn cut(&self, key: DeltaKey) {
        self.0.state.lock().cut(key);
    }

    /// All texts of this scope are whole again: pieces that come from now on are taken.
    pub(crate) fn mend(&self, scope: u128) {
        let mut state = self.0.state.lock();
        state.cut.retain(|key| key.scope != scope);
        state.cut_set.retain(|key| key.scope != scope);
    }

    /// Whether deltas would be dropped.
    pub(crate) fn is_slow(&self) -> bool {
        self.0.state.lock().told_bytes() > self.0.limits.soft_bytes
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let state = self.0.state.lock();
        Backlog { frames: state.queue.len(), bytes: state.bytes, answer_bytes: state.answer_bytes }
    }

    /// Waits until unread answers are below their bound, or the outbox has ended.
    pub(crate) async fn answer_room(&self) {
        self.wait_until(|state, limits| state.answer_bytes <= limits.answer_bytes).await;
    }

    /// Waits until the outbox is below half its soft bound, or has ended.
    pub(crate) async fn drained(&self) {
        self.wait_until(|state, limits| state.told_bytes() <= limits.soft_bytes / 2).await;
    }

    async fn wait_until(&self, condition: impl Fn(&State, &OutboxLimits) -> bool) {
        let met = || {
            let state = self.0.state.lock();
            state.end.is_some() || condition(&state, &self.0.limits)
        };
        while !met() {
            let room = self.0.room.notified();
            // Made before looking again, so a wake-up in between is not lost.
            if met() {
                return;
            }
            room.await;
        }
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.writer_waits) {
            drop(state);
            self.0.filled.notify_one();
            self.0.filled_thread.notify_one();
        }
    }
}

impl OutboxReader {
    /// Waits for frames and puts up to some hundred KiB of them into `into`. Cancel-safe.
    pub async fn burst(&mut self, into: &mut Vec<Bytes>) -> Burst {
        loop {
            if let Some(burst) = self.take(into, &mut self.0.state.lock()) {
                return burst;
            }
            self.0.filled.notified().await;
        }
    }

    /// The same for a writer that is a thread.
    pub fn burst_blocking(&mut self, into: &mut Vec<Bytes>) -> Burst {
        let mut state = self.0.state.lock();
        loop {
            if let Some(burst) = self.take(into, &mut state) {
                return burst;
            }
            self.0.filled_thread.wait(&mut state);
        }
    }

    /// Waits until no more frames are taken; some may still be queued.
    pub(crate) async fn ended(&self) {
        Outbox(self.0.clone()).wait_until(|_, _| false).await;
    }

    fn take(&self, into: &mut Vec<Bytes>, state: &mut State) -> Option<Burst> {
        if state.queue.is_empty() {
            let burst = state.end.clone().map(Burst::End);
            state.writer_waits = burst.is_none();
            return burst;
        }
        let mut taken = 0;
        let (told_before, answers_before) = (state.told_bytes(), state.answer_bytes);
        while taken < BURST_BYTES {
            let Some(queued) = state.queue.pop_front() else { break };
            state.bytes -= queued.cost;
            state.answer_bytes -= if queued.answer { queued.cost } else { 0 };
            taken += queued.cost;
            into.push(queued.body.into_bytes());
        }
        if state.queue.is_empty() && state.queue.capacity() > 1024 {
            state.queue = VecDeque::new();
        }
        let limits = &self.0.limits;
        state.overflow_told &= state.told_bytes() > limits.soft_bytes;
        let crossed = |before: usize, now: usize, bound: usize| before > bound && now <= bound;
        if crossed(answers_before, state.answer_bytes, limits.answer_bytes)
            || crossed(told_before, state.told_bytes(), limits.soft_bytes / 2)
        {
            self.0.room.notify_waiters();
        }
        Some(Burst::Frames)
    }
}

impl State {
    fn push(&mut self, frame: Frame, limits: &OutboxLimits) -> PushResult {
        let plain = |pushed| PushResult { pushed, overflowed: false };
        if self.end.is_some() {
            return plain(Pushed::Closed);
        }
        let cost = frame.bytes.len() + FRAME_OVERHEAD;
        if let Some(pushed) = self.push_delta(&frame, cost, limits) {
            return plain(pushed);
        }
        let Frame { bytes, class, ends, .. } = frame;
        match class {
            Class::Lifecycle if self.told_bytes() > limits.hard_bytes => {
                let overflowed = !std::mem::replace(&mut self.overflow_told, true);
                return PushResult { pushed: Pushed::Refused, overflowed };
            }
            Class::Lifecycle | Class::Essential | Class::Answer | Class::Delta { .. } => {}
        }
        if let Some(key) = ends
            && self.cut_set.remove(&key)
        {
            self.cut.retain(|cut| *cut != key);
        }
        let answer = class == Class::Answer;
        self.enqueue(Queued { body: Body::Whole(bytes), cost, answer });
        plain(Pushed::Queued)
    }

    /// `None` if it is no delta.
    fn push_delta(&mut self, frame: &Frame, cost: usize, limits: &OutboxLimits) -> Option<Pushed> {
        let Class::Delta { key, text } = &frame.class else { return None };
        let key = *key;
        if self.cut_set.contains(&key) {
            return Some(Pushed::Dropped);
        }
        if self.merge(&frame.bytes, key, text, limits) {
            return Some(Pushed::Merged);
        }
        let told = self.told_bytes();
        if told > 0 && told + cost > limits.soft_bytes {
            // The pieces that follow go too: a text that stops is late, a text with a hole is wrong.
            self.cut(key);
            return Some(Pushed::Dropped);
        }
        let body = Body::Delta(Merging::new(frame)?);
        self.enqueue(Queued { body, cost, answer: false });
        Some(Pushed::Queued)
    }

    fn cut(&mut self, key: DeltaKey) {
        if !self.cut_set.insert(key) {
            return;
        }
        self.cut.push_back(key);
        if self.cut.len() > MAX_CUT_TEXTS
            && let Some(oldest) = self.cut.pop_front()
        {
            self.cut_set.remove(&oldest);
        }
    }

    /// Joins the delta with the last queued frame, if that is a delta of the same text and there is room.
    fn merge(&mut self, frame: &Bytes, key: DeltaKey, text: &Range<usize>, limits: &OutboxLimits) -> bool {
        if self.told_bytes() + text.len() > limits.hard_bytes {
            return false;
        }
        let Some(last) = self.queue.back_mut() else { return false };
        match &mut last.body {
            Body::Delta(merging)
                if merging.key() == key && merging.text_bytes() + text.len() <= MERGED_TEXT_BYTES =>
            {
                merging.extend(frame, text);
            }
            _ => return false,
        }
        last.cost += text.len();
        self.bytes += text.len();
        true
    }

    /// What waits beside answers.
    fn told_bytes(&self) -> usize {
        self.bytes - self.answer_bytes
    }

    fn enqueue(&mut self, queued: Queued) {
        self.bytes += queued.cost;
        self.answer_bytes += if queued.answer { queued.cost } else { 0 };
        self.queue.push_back(queued);
    }
}

impl Body {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Delta(merging) => merging.into_frame().bytes,
        }
    }
}
