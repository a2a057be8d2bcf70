//! The calls of one connection that are not answered in its reader: queued, running, bounded.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use jsonrpsee::core::middleware::{Notification, Request, RpcServiceT};
use jsonrpsee::server::Extensions;
use jsonrpsee::types::Id;
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::context::{CallInfo, Stop};
use crate::dispatch::Service;
use crate::entry::Lane;
use crate::error::RpcError;
use crate::frame::same_id;
use crate::peer::Peer;
use crate::reply::ReplyTo;

/// After so many calls in a row a loop lets its siblings run.
pub(crate) const BREATH: usize = 64;

/// Bounds of the work that one connection may have waiting and running.
#[derive(Debug, Clone, Copy)]
pub struct WorkLimits {
    /// Calls that wait or run, all lanes together. Default 4,096.
    pub calls: usize,
    /// Their frames, in bytes. Default 16 MiB.
    pub bytes: usize,
    /// Concurrent calls that run at once; more wait. Default 1,024.
    pub concurrent: usize,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self { calls: 4096, bytes: 16 * 1024 * 1024, concurrent: 1024 }
    }
}

/// One call or notification that is on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) info: Arc<CallInfo>,
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
    pub(crate) work: Work,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) enum Work {
    Call(ReplyTo),
    Notification,
}

/// The lanes of one connection, shared by its reader, its ordered runner and its concurrent tasks.
#[derive(Debug)]
pub(crate) struct Lanes {
    service: Service,
    peer: Peer,
    tasks: TaskTracker,
    limits: WorkLimits,
    state: Mutex<State>,
    /// Wakes the ordered runner.
    ordered: Notify,
    /// Wakes the ordered runner when a concurrent call has taken its first step.
    begun: Notify,
    /// Wakes the reader when there is room again.
    room: Notify,
    /// Wakes who waits for the last call.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the number of the last concurrent call before it.
    ordered: VecDeque<(u64, Job)>,
    concurrent: VecDeque<Job>,
    /// Concurrent calls that were given a task, counted.
    spawned: u64,
    /// Those of them that have not taken their first step.
    unbegun: BTreeSet<u64>,
    running: HashMap<u64, Arc<CallInfo>>,
    running_concurrent: usize,
    calls: usize,
    bytes: usize,
    started: u64,
    finished: u64,
}

impl Lanes {
    pub(crate) fn new(service: Service, peer: Peer, tasks: TaskTracker, limits: WorkLimits) -> Arc<Self> {
        Arc::new(Self {
            service,
            peer,
            tasks,
            limits,
            state: Mutex::default(),
            ordered: Notify::new(),
            begun: Notify::new(),
            room: Notify::new(),
            idle: Notify::new(),
        })
    }

    /// If the work has met its bounds: how many calls have ended so far, which tells a slow connection from a stuck
    /// one.
    pub(crate) fn finished_if_full(&self) -> Option<u64> {
        let state = self.state.lock();
        state.is_full(&self.limits).then_some(state.finished)
    }

    /// Resolves when there may be room again.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Takes a job. The reader has looked at the bounds before it read the frame; a batch may exceed them by its
    /// own length.
    pub(crate) fn take(self: &Arc<Self>, lane: Lane, job: Job) {
        let mut state = self.state.lock();
        state.calls += 1;
        state.bytes += job.bytes;
        match lane {
            Lane::Inline | Lane::Ordered => {
                let after = state.spawned;
                state.ordered.push_back((after, job));
                drop(state);
                self.ordered.notify_one();
            }
            Lane::Concurrent if state.running_concurrent >= self.limits.concurrent => {
                state.concurrent.push_back(job);
            }
            Lane::Concurrent => {
                state.running_concurrent += 1;
                state.spawned += 1;
                let number = state.spawned;
                state.unbegun.insert(number);
                drop(state);
                let step = FirstStep { lanes: self.clone(), number };
                self.tasks.spawn(self.clone().run_concurrent(job, step));
            }
        }
    }

    /// Runs ordered jobs one at a time, in the connection's own task; never returns. A concurrent call that was read
    /// before an ordered one takes its first step before it: an interrupt reaches the core before the start behind it.
    pub(crate) async fn run_ordered(&self) {
        let mut in_a_row = 0_usize;
        loop {
            let next = self.state.lock().next_ordered();
            let job = match next {
                Next::Job(job) => job,
                Next::None => {
                    in_a_row = 0;
                    self.ordered.notified().await;
                    continue;
                }
                Next::NotYet => {
                    self.begun.notified().await;
                    continue;
                }
            };
            self.run(job).await;
            in_a_row += 1;
            if in_a_row.is_multiple_of(BREATH) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Runs a concurrent job, then those that wait for its place.
    async fn run_concurrent(self: Arc<Self>, first: Job, step: FirstStep) {
        let mut place = Place { lanes: &self, held: true };
        let mut next = Some(first);
        let mut step = Some(step);
        while let Some(job) = next {
            {
                let mut run = pin!(self.run(job));
                let polled = futures_util::poll!(run.as_mut());
                drop(step.take());
                if polled == Poll::Pending {
                    run.await;
                }
            }
            let mut state = self.state.lock();
            next = state.concurrent.pop_front();
            if next.is_none() {
                // Under the same lock, or a job could be queued in between with nobody left to run it.
                state.running_concurrent -= 1;
                place.held = false;
            }
        }
    }

    async fn run(&self, job: Job) {
        let Job { info, method, params, work, bytes } = job;
        let number = {
            let mut state = self.state.lock();
            state.started += 1;
            let number = state.started;
            state.running.insert(number, info.clone());
            number
        };
        let mut end = End { lanes: self, number, bytes, call: Some(&info) };
        let mut extensions = Extensions::new();
        extensions.insert(info.clone());
        let params = params.map(Cow::Owned);
        match work {
            Work::Notification => {
                let mut notification = Notification::new(Cow::Owned(method), params);
                notification.extensions = extensions;
                let _ = info.token.run_until_cancelled(self.service.notification(notification)).await;
                info.release();
            }
            Work::Call(reply) => {
                let mut request = Request::owned(method, None, Id::Number(number));
                request.params = params;
                request.extensions = extensions;
                match info.token.run_until_cancelled(self.service.call(request)).await {
                    Some(response) => reply.respond(&self.peer, &info, response),
                    None => self.stopped(&reply, &info),
                }
            }
        }
        end.call = None;
    }

    /// Answers a call whose handler was dropped, if anybody is there to hear it.
    fn stopped(&self, reply: &ReplyTo, info: &CallInfo) {
        let error = match info.stopped_by() {
            Stop::Gone => None,
            Stop::Cancelled => Some(RpcError::request_cancelled()),
            Stop::Shutdown => Some(RpcError::shutting_down()),
        };
        if let Some(error) = error {
            reply.refuse(&self.peer, info.raw_id.as_deref(), &error);
        }
        info.release();
    }

    /// Cancels the calls with this id: a running one's handler is dropped, a waiting one never starts. Either way
    /// the call is answered `request_cancelled`.
    pub(crate) fn cancel(&self, raw_id: &str) {
        let is_it = |info: &CallInfo| info.raw_id.as_deref().is_some_and(|id| same_id(id, raw_id));
        let waiting = {
            let mut state = self.state.lock();
            for info in state.running.values().filter(|info| is_it(info)) {
                info.stop(Stop::Cancelled);
            }
            state.remove_waiting(|job| is_it(&job.info))
        };
        self.refuse_all(waiting, &RpcError::request_cancelled());
    }

    /// The server leaves: what waits and what still runs is answered `shutting_down`.
    pub(crate) fn expire(&self) {
        let waiting = {
            let mut state = self.state.lock();
            for info in state.running.values() {
                info.stop(Stop::Shutdown);
            }
            state.remove_waiting(|_| true)
        };
        self.refuse_all(waiting, &RpcError::shutting_down());
    }

    /// The connection is gone: handlers are dropped, nothing is answered.
    pub(crate) fn abandon(&self) {
        let waiting = {
            let mut state = self.state.lock();
            for info in state.running.values() {
                info.stop(Stop::Gone);
            }
            state.remove_waiting(|_| true)
        };
        for job in waiting {
            job.info.release();
        }
    }

    /// Waits until nothing waits or runs.
    pub(crate) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.state.lock().calls == 0 {
                return;
            }
            idle.await;
        }
    }

    fn refuse_all(&self, jobs: Vec<Job>, error: &RpcError) {
        for job in jobs {
            if let Work::Call(reply) = &job.work {
                reply.refuse(&self.peer, job.info.raw_id.as_deref(), error);
            }
            job.info.release();
        }
        self.wake(self.state.lock());
    }

    fn end(&self, number: u64, bytes: usize) {
        let mut state = self.state.lock();
        state.running.remove(&number);
        state.leave(bytes);
        self.wake(state);
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let (idle, room) = (state.calls == 0, state.has_room(&self.limits));
        drop(state);
        if room {
            self.room.notify_one();
        }
        if idle {
            self.idle.notify_waiters();
        }
    }
}

/// What the ordered runner has to do.
enum Next {
    Job(Job),
    None,
    /// A concurrent call before it has not begun.
    NotYet,
}

impl State {
    fn next_ordered(&mut self) -> Next {
        let Some((after, _)) = self.ordered.front() else { return Next::None };
        if self.unbegun.first().is_some_and(|first| first <= after) {
            return Next::NotYet;
        }
        self.ordered.pop_front().map_or(Next::None, |(_, job)| Next::Job(job))
    }

    fn is_full(&self, limits: &WorkLimits) -> bool {
        self.calls >= limits.calls || self.bytes >= limits.bytes
    }

    /// Reading goes on when a part of the bound is free, not at every single call.
    fn has_room(&self, limits: &WorkLimits) -> bool {
        self.calls <= limits.calls / 4 * 3 && self.bytes <= limits.bytes / 4 * 3
    }

    fn leave(&mut self, bytes: usize) {
        self.calls -= 1;
        self.bytes -= bytes;
        self.finished += 1;
    }

    fn remove_waiting(&mut self, mut which: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let mut removed = Vec::new();
        for (after, job) in std::mem::take(&mut self.ordered) {
            if which(&job) { removed.push(job) } else { self.ordered.push_back((after, job)) }
        }
        for job in std::mem::take(&mut self.concurrent) {
            if which(&job) { removed.push(job) } else { self.concurrent.push_back(job) }
        }
        for job in &removed {
            self.leave(job.bytes);
        }
        removed
    }
}

/// A running call; its end is counted however it comes.
struct End<'a> {
    lanes: &'a Lanes,
    number: u64,
    bytes: usize,
    /// Set until the call has been answered; if it never is, what it kept is released here.
    call: Option<&'a CallInfo>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            call.release();
        }
        self.lanes.end(self.number, self.bytes);
    }
}

/// A concurrent call that has not taken its first step; dropped when it has, or never will.
#[derive(Debug)]
struct FirstStep {
    lanes: Arc<Lanes>,
    number: u64,
}

impl Drop for FirstStep {
    fn drop(&mut self) {
        self.lanes.state.lock().unbegun.remove(&self.number);
        self.lanes.begun.notify_one();
    }
}

/// A place among the concurrent calls, given back also if its task is dropped.
struct Place<'a> {
    lanes: &'a Lanes,
    held: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.held {
            self.lanes.state.lock().running_concurrent -= 1;
        }
    }
}
