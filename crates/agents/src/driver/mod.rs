//! The one task that drives an agent: it owns process and pipes, and feeds a [`Conversation`] that knows no I/O.
//!
//! It never waits for the receiver of its events: when that is slow, chunks merge and then the agent's output is not
//! read. So a cancel, an answer or a stop always gets through.

mod asked;
mod beside;
#[cfg(test)]
mod content_tests;
mod conversation;
mod foreground;
#[cfg(test)]
mod foreground_tests;
mod fork;
mod opening;
mod prompt;
mod sessions;
mod settings;
mod subagents;
#[cfg(test)]
mod tests;
mod updates;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::event::{AgentFailure, FailureReason};
use crate::giants::{GIANT_BYTES, Giants, Share};
use crate::guard::Guard;
use crate::handle::Request;
use crate::process::{Lines, Process, Tail};
use crate::queue::Sink;
use crate::spec::{LaunchSpec, Limits, OpenSession};
use crate::traffic::Traffic;
use conversation::{Conversation, End};

/// Answers that may wait for an agent that does not read its input, before its output is no longer read.
const REPLY_BYTES: usize = 1 << 20;
/// Silence after which an exited agent's output is taken to be complete though something still holds the pipe.
const DRAIN_QUIET: Duration = Duration::from_millis(300);
/// Longest time that such an output is read.
const DRAIN_LONGEST: Duration = Duration::from_secs(5);
/// Longest wait for an agent that is being stopped to read what waits for it.
const FLUSH_LONGEST: Duration = Duration::from_secs(1);
/// Read at a time from stderr.
const STDERR_READ: usize = 8 << 10;

/// What the handle can see without asking.
#[derive(Debug)]
pub(crate) struct Shared {
    /// A prompt runs.
    pub(crate) prompting: Arc<AtomicBool>,
    /// Process id; 0 before there is a process.
    pub(crate) pid: Arc<AtomicU32>,
    /// How far its start is: a [`Stage`] as number.
    pub(crate) stage: Arc<AtomicU8>,
}

/// Who else is told what happens.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) guard: Guard,
    pub(crate) giants: Giants,
    pub(crate) traffic: Option<Traffic>,
}

/// Runs an agent from its start to the end of its last process.
#[allow(clippy::too_many_arguments, reason = "called once, by `start`, with what it has put together")]
pub(crate) async fn run(
    spec: LaunchSpec,
    open: Option<OpenSession>,
    limits: Limits,
    mut requests: mpsc::Receiver<Request>,
    sink: Sink,
    stop: CancellationToken,
    shared: Shared,
    watch: Watch,
) {
    let mut talk = Conversation::new(&spec, open, limits.clone(), shared.prompting, Instant::now());
    let mut traffic = watch.traffic;
    let mut failure = match Process::spawn(&spec, &watch.guard) {
        Ok(process) => {
            shared.pid.store(process.id().unwrap_or_default(), Ordering::Relaxed);
            if let Some(traffic) = &traffic {
                traffic.started(&spec, process.id());
            }
            let mut driver = Driver {
                lines: Lines::new(limits.line_bytes),
                share: watch.giants.share(limits.line_bytes),
                stderr: Tail::new(limits.stderr_bytes),
                errors: vec![0; STDERR_READ],
                closing: None,
                stage: shared.stage,
                process,
                limits,
                traffic: traffic.take(),
            };
            let failure = driver.drive(&mut talk, &mut requests, &sink, &stop).await;
            traffic = driver.traffic;
            failure
        }
        Err(failure) => *failure,
    };
    // Program and arguments come from the launch table or the configuration; neither holds secrets.
    let words = std::iter::once(&spec.command).chain(&spec.args).map(String::as_str);
    failure.command = Some(words.collect::<Vec<_>>().join(" "));
    let (reason, exit, stray_lines) = (failure.reason.as_str(), &failure.exit_status, talk.stray_lines());
    tracing::debug!(provider = %spec.provider, reason, ?exit, stray_lines, "agent ended");
    if let Some(traffic) = &mut traffic {
        if let Some(message) = traffic.failed() {
            talk.warn("traffic_log_failed", message);
        }
        traffic.ended(reason, exit.clone());
    }
    requests.close();
    while let Ok(request) = requests.try_recv() {
        talk.request(request, Instant::now());
    }
    talk.finish(failure);
    talk.hand_over(&sink);
}

struct Driver {
    process: Process,
    traffic: Option<Traffic>,
    lines: Lines,
    share: Share,
    stderr: Tail,
    errors: Vec<u8>,
    limits: Limits,
    stage: Arc<AtomicU8>,
    /// The agent has exited or closed its output: when to take that as its end.
    closing: Option<Closing>,
}

struct Closing {
    quiet: Instant,
    latest: Instant,
}

/// What happened on the pipes.
enum Io {
    Wrote(io::Result<usize>),
    Output(io::Result<usize>),
    Errors(io::Result<usize>),
    Exited,
    /// A giant line may be read on.
    Turn,
}

impl Driver {
    async fn drive(
        &mut self,
        talk: &mut Conversation,
        requests: &mut mpsc::Receiver<Request>,
        sink: &Sink,
        stop: &CancellationToken,
    ) -> AgentFailure {
        let end = self.work(talk, requests, sink, stop).await;
        talk.stopping(&end);
        let End { mut failure, kill } = end;
        self.stop(talk, sink, kill).await;
        failure.exit_status = self.process.leader.status.map(|status| status.to_string());
        failure.stderr_tail = self.stderr.text();
        failure.stdout_tail = talk.stray_tail();
        failure
    }

    /// Until the agent ends, fails or is to stop.
    async fn work(
        &mut self,
        talk: &mut Conversation,
        requests: &mut mpsc::Receiver<Request>,
        sink: &Sink,
        stop: &CancellationToken,
    ) -> End {
        let mut timer = std::pin::pin!(sleep_until(Instant::now()));
        let mut unread_since = None;
        loop {
            let now = Instant::now();
            let taken = sink.has_room();
            self.rest(taken, now);
            let room = taken && !self.share.is_waiting();
            // While we do not read the agent, its answers cannot be late.
            match (room, unread_since) {
                (false, None) => unread_since = Some(now),
                (true, Some(since)) => {
                    let unread = now.saturating_duration_since(since);
                    talk.postpone(unread);
                    if self.is_giant() {
                        self.share.postpone(unread);
                    }
                    if let Some(closing) = &mut self.closing {
                        closing.quiet += unread;
                        closing.latest += unread;
                    }
                    unread_since = None;
                }
                _ => {}
            }
            if room && talk.next_deadline().is_some_and(|deadline| deadline <= now) {
                talk.tick(now);
            }
            if room && self.is_giant() && self.share.is_late(now) {
                talk.end.get_or_insert_with(End::unfinished);
            }
            self.stage.store(talk.stage() as u8, Ordering::Relaxed);
            talk.hand_over(sink);
            if let Some(end) = talk.end.take() {
                return end;
            }
            if sink.is_closed() {
                return End::stopped();
            }
            // Nor shall what a dying agent wrote last be lost.
            let closing = self.closing.as_ref().filter(|_| room).map(|closing| closing.quiet);
            if closing.is_some_and(|quiet| quiet <= now) {
                return self.died(talk);
            }
            let deadline = talk.next_deadline().filter(|_| room);
            let arrival = self.share.until().filter(|_| room || !self.is_giant());
            if let Some(deadline) = [deadline, arrival, closing].into_iter().flatten().min() {
                // Most deadlines only move away; the timer then fires once too early, which costs less than moving
                // it at every read.
                if timer.is_elapsed() || deadline < timer.deadline() {
                    timer.as_mut().reset(deadline);
                }
            }
            let armed = !timer.is_elapsed();
            let read = taken && talk.wire.waiting_replies() < REPLY_BYTES;
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::stopped(),
                request = requests.recv() => match request {
                    Some(request) => talk.request(request, Instant::now()),
                    None => return End::stopped(),
                },
                io = self.io(talk.wire.pending(), read) => self.handle(io, talk),
                () = sink.emptied(), if !taken => {}
                () = timer.as_mut(), if armed => {}
            }
        }
    }

    /// The next thing on the pipes. Dropping the future loses nothing.
    async fn io(&mut self, pending: &[u8], read: bool) -> Io {
        let Self { process: Process { leader, stdin, stdout, stderr, .. }, lines, share, errors, .. } = self;
        let running = leader.status.is_none();
        let waits = share.is_waiting();
        let (write, read) = (stdin.is_some() && !pending.is_empty(), read && !waits && stdout.is_some());
        let read_errors = stderr.is_some();
        tokio::select! {
            biased;
            result = async { match stdin {
                Some(pipe) => pipe.write(pending).await,
                None => std::future::pending().await,
            } }, if write => Io::Wrote(result),
            result = async { match stderr {
                Some(pipe) => pipe.read(errors).await,
                None => std::future::pending().await,
            } }, if read_errors => Io::Errors(result),
            result = async { match stdout {
                Some(pipe) => pipe.read_buf(lines.space()).await,
                None => std::future::pending().await,
            } }, if read => Io::Output(result),
            () = share.granted(), if waits => Io::Turn,
            () = leader.ended(), if running => Io::Exited,
            else => std::future::pending().await,
        }
    }

    fn handle(&mut self, io: Io, talk: &mut Conversation) {
        match io {
            Io::Wrote(Ok(count)) if count > 0 => {
                if let Some(traffic) = &mut self.traffic {
                    traffic.sent(talk.wire.pending().get(..count).unwrap_or_default());
                }
                talk.wire.wrote(count);
            }
            Io::Wrote(_) => {
                // It closed its input: nothing can be asked of it any more.
                self.process.stdin = None;
                talk.wire.close();
                self.ends_soon();
            }
            Io::Errors(Ok(count)) if count > 0 => {
                let bytes = self.errors.get(..count).unwrap_or_default();
                if let Some(traffic) = &mut self.traffic {
                    traffic.errors(bytes);
                }
                self.stderr.push(bytes);
                talk.says_beside(bytes);
            }
            Io::Errors(_) => self.process.stderr = None,
            Io::Output(Ok(count)) if count > 0 => {
                let now = Instant::now();
                let buffer = self.lines.capacity();
                self.share.count(buffer);
                while let Some(line) = self.lines.next() {
                    if line.len() > GIANT_BYTES {
                        // The message that is made of it.
                        self.share.count(buffer + line.len());
                    }
                    if let Some(traffic) = &self.traffic {
                        traffic.heard(line);
                    }
                    talk.line(line, now);
                }
                if let Some(message) = self.traffic.as_mut().and_then(Traffic::failed) {
                    talk.warn("traffic_log_failed", message);
                }
                self.lines.give_back();
                self.share.count(self.lines.capacity());
                if self.is_giant() {
                    self.share.want();
                }
                if self.lines.too_long() {
                    talk.end = Some(End::garbled(self.limits.line_bytes));
                }
                if let Some(closing) = &mut self.closing {
                    closing.quiet = closing.latest.min(now + DRAIN_QUIET);
                }
            }
            Io::Output(_) => {
                if let Some(rest) = self.lines.rest() {
                    if let Some(traffic) = &self.traffic {
                        traffic.heard(rest);
                    }
                    talk.line(rest, Instant::now());
                }
                self.lines.give_back();
                self.share.count(self.lines.capacity());
                self.process.stdout = None;
                self.ends_soon();
            }
            Io::Turn => {}
            Io::Exited => {
                self.process.exited();
                self.ends_soon();
            }
        }
    }

    /// Whether the line that is being read is a giant.
    fn is_giant(&self) -> bool {
        self.lines.begun() > GIANT_BYTES
    }

    /// Lets go of the share of a giant that has been handled, when what it became has been `taken` or nobody takes it in time.
    fn rest(&mut self, taken: bool, now: Instant) {
        if !self.is_giant() && (taken || self.share.is_late(now)) {
            self.share.release();
        }
    }

    /// The agent has exited, or closed a pipe and should exit now.
    fn ends_soon(&mut self) {
        let now = Instant::now();
        let exited = self.process.leader.status.is_some();
        let wait = match (exited, self.process.stdout.is_some()) {
            (true, false) => Duration::ZERO,
            (true, true) => DRAIN_QUIET,
            (false, _) => self.limits.stop_grace,
        };
        let latest = self.closing.as_ref().map_or(now + DRAIN_LONGEST, |closing| closing.latest);
        self.closing = Some(Closing { quiet: now + wait, latest });
    }

    fn died(&self, talk: &Conversation) -> End {
        let message = match (self.process.leader.status, talk.is_ready()) {
            (Some(status), true) => format!("the agent exited unexpectedly ({status})"),
            (Some(status), false) => format!("the agent exited before its session was open ({status})"),
            (None, _) => "the agent closed its input or output".to_owned(),
        };
        End { failure: AgentFailure::new(FailureReason::AgentFailed, message), kill: false }
    }

    /// The stop ladder: end of input, SIGTERM, SIGKILL, and whatever still carries the agent's mark. Every step is
    /// bounded. What the agent says meanwhile is still heard.
    async fn stop(&mut self, talk: &mut Conversation, sink: &Sink, kill: bool) {
        let grace = self.limits.stop_grace;
        self.process.note_descendants().await;
        if !kill {
            // Answers and a cancel first, or the agent would see the end of its input with a request open.
            self.pump(talk, sink, grace.min(FLUSH_LONGEST), |driver, talk| {
                let process = &driver.process;
                let said = talk.wire.pending().is_empty() && !talk.is_closing_session();
                said || process.stdin.is_none() || process.leader.status.is_some()
            })
            .await;
            self.process.stdin = None;
            talk.wire.close();
            self.pump(talk, sink, grace, |driver, _| driver.process.leader.status.is_some()).await;
        }
        self.process.stdin = None;
        talk.wire.close();
        for signal in [Signal::TERM, Signal::KILL] {
            if self.process.leader.status.is_some() {
                break;
            }
            self.process.signal(signal);
            self.pump(talk, sink, grace, |driver, _| driver.process.leader.status.is_some()).await;
        }
        self.process.sweep().await;
        // Nobody holds the pipes now: what is in them is soon read.
        self.pump(talk, sink, DRAIN_QUIET, |driver, _| {
            driver.process.stdout.is_none() && driver.process.stderr.is_none()
        })
        .await;
    }

    /// Serves the pipes until `done`, or for so long.
    async fn pump(
        &mut self,
        talk: &mut Conversation,
        sink: &Sink,
        longest: Duration,
        done: impl Fn(&Self, &Conversation) -> bool,
    ) {
        let mut timer = std::pin::pin!(sleep_until(Instant::now() + longest));
        while !done(self, talk) {
            let read = sink.has_room();
            self.rest(read, Instant::now());
            tokio::select! {
                io = self.io(talk.wire.pending(), read) => self.handle(io, talk),
                () = timer.as_mut() => return,
            }
            talk.hand_over(sink);
        }
    }
}
