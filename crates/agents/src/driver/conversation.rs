//! The conversation with one agent: what is sent and heard and when, without I/O and with time given from outside.
//!
//! Whoever drives it feeds lines, requests and ticks, and takes events ([`Conversation::out`]), bytes to write
//! ([`Conversation::wire`]) and the verdict that the agent must be stopped ([`Conversation::end`]).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::asked::Asked;
use super::beside::Beside;
use super::opening::{EarlyUpdate, Replay, Way};
use super::prompt::Running;
use super::settings::{Origin, Settings, Wanted};
use super::subagents::Children;
use crate::decode::{self, Hello, Line, RpcError, ToolContext, ToolMemory, v2};
use crate::event::{AgentEvent, AgentFailure, AgentInfo, FailureReason, RefusedSetting, RequestKey};
use crate::handle::{Request, Stage, Token};
use crate::masks::Masks;
use crate::process::Tail;
use crate::queue::{Sink, Weighed};
use crate::spec::{LaunchSpec, Limits, OpenSession};
use crate::vendors::Quirks;
use crate::wire_out::{Outbox, Unwritable, Version};

/// Kept of stdout lines that are no ACP.
const STRAY_BYTES: usize = 8 << 10;

/// Why the agent must be stopped, and how: politely, or beginning with a signal.
#[derive(Debug)]
pub(super) struct End {
    pub(super) failure: AgentFailure,
    pub(super) kill: bool,
}

impl End {
    pub(super) fn stopped() -> Self {
        Self { failure: AgentFailure::new(FailureReason::Stopped, "the agent was stopped"), kill: false }
    }

    pub(super) fn too_many_values(bytes: usize) -> Self {
        let most = decode::MAX_VALUES;
        let message = format!("the agent sent a message of {bytes} bytes with more than {most} values");
        Self { failure: AgentFailure::new(FailureReason::AgentFailed, message), kill: true }
    }

    pub(super) fn unfinished() -> Self {
        let message =
            "the agent began a long line, did not end it in time, and others wait for the memory it takes";
        Self { failure: AgentFailure::new(FailureReason::AgentFailed, message), kill: true }
    }

    pub(super) fn garbled(line_bytes: usize) -> Self {
        let message = format!("the agent sent a line of more than {line_bytes} bytes");
        Self { failure: AgentFailure::new(FailureReason::AgentFailed, message), kill: true }
    }
}

/// How far the agent is.
#[derive(Debug)]
pub(super) enum Phase {
    /// `initialize` waits for its answer until then.
    Initializing { until: Instant },
    /// `authenticate` waits for its answer.
    Authenticating,
    /// It has introduced itself, and nobody has asked for a session yet.
    Met,
    /// `session/new`, `resume` or `load` waits for its answer.
    Opening,
    /// Mode, model and options are being set.
    Arranging(VecDeque<Wanted>),
    /// All is set, but the replay of a loaded session may not be over.
    Settling,
    /// Prompts are taken.
    Ready,
}

/// A request of ours that waits for its answer.
#[derive(Debug)]
pub(super) enum Call {
    Initialize,
    Authenticate,
    Open(Way),
    Set {
        origin: Origin,
        wanted: Wanted,
        until: Instant,
    },
    Fork {
        token: Token,
        until: Instant,
    },
    CloseCopy {
        token: Token,
        copy: String,
        until: Instant,
    },
    List {
        token: Token,
        until: Instant,
    },
    DeleteSession {
        token: Token,
        until: Instant,
    },
    /// Before it is stopped.
    CloseOwn,
    Prompt,
}

impl Call {
    /// When it is given up, if it has a deadline of its own.
    fn until(&mut self) -> Option<&mut Instant> {
        match self {
            Self::Set { until, .. }
            | Self::Fork { until, .. }
            | Self::CloseCopy { until, .. }
            | Self::List { until, .. }
            | Self::DeleteSession { until, .. } => Some(until),
            Self::Initialize | Self::Authenticate | Self::Open(_) | Self::Prompt | Self::CloseOwn => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Set { until, .. }
            | Self::Fork { until, .. }
            | Self::CloseCopy { until, .. }
            | Self::List { until, .. }
            | Self::DeleteSession { until, .. } => Some(*until),
            Self::Initialize | Self::Authenticate | Self::Open(_) | Self::Prompt | Self::CloseOwn => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) out: Vec<Weighed>,
    /// What no failure and no warning may say.
    pub(super) masks: Masks,
    pub(super) wire: Outbox,
    pub(super) end: Option<End>,
    /// Why the agent is being killed.
    pub(super) killed: Option<AgentFailure>,

    pub(super) limits: Limits,
    /// How long `initialize` may take.
    patience: Duration,
    /// The agent may be downloaded first.
    downloads: bool,
    pub(super) open: OpenSession,
    /// It was started without a session; the first thing asked of it may open one.
    pub(super) visiting: bool,
    /// Program and arguments, for logins that use the same.
    pub(super) command_line: Vec<String>,
    pub(super) ask_modes: Vec<String>,
    pub(super) edit_modes: Vec<String>,
    pub(super) yolo_modes: Vec<String>,
    pub(super) quirks: Quirks,
    pub(super) login_hint: String,

    pub(super) phase: Phase,
    next_call: u64,
    pub(super) calls: HashMap<u64, Call>,
    pub(super) next_key: u64,
    pub(super) asked: BTreeMap<RequestKey, Asked>,

    pub(super) hello: Hello,
    pub(super) info: AgentInfo,
    /// The agent's id of the session, as soon as it is known.
    pub(super) session: Option<String>,
    pub(super) settings: Settings,
    pub(super) tools: ToolMemory,
    /// What version 2 adds to.
    pub(super) v2: v2::Memory,
    /// The agent last said that it works (version 2).
    pub(super) busy: bool,
    /// Sessions of the agent's own agents.
    pub(super) children: Children,
    /// Updates that came before the session's id.
    pub(super) early: Vec<EarlyUpdate>,
    pub(super) early_bytes: usize,
    /// Events that wait for the session to be open.
    held: Vec<Weighed>,
    held_bytes: usize,
    pub(super) replay: Option<Replay>,
    /// Prompts and settings that wait for their turn.
    pub(super) queue: VecDeque<Request>,
    pub(super) prompting: Arc<AtomicBool>,
    /// Until when its greeting is waited for.
    pub(super) greeting: Option<Instant>,
    pub(super) prompt: Option<Running>,
    /// There has been a prompt.
    pub(super) prompted: bool,
    pub(super) last_window_used: u64,
    pub(super) last_heard: Instant,
    pub(super) stalled: bool,
    stray: Tail,
    stray_count: u64,
    pub(super) beside: Beside,
}

/// Settings (and the prompt behind them) that may wait for an agent that answers none.
const MAX_QUEUED: usize = 256;
/// Bytes of events held until the session is open, and of updates held until its id is known; more are dropped.
pub(super) const HELD_BYTES: usize = 4 << 20;

impl Conversation {
    /// Begins with `initialize`; without a session to open it waits after that.
    pub(super) fn new(
        spec: &LaunchSpec,
        open: impl Into<Option<OpenSession>>,
        limits: Limits,
        prompting: Arc<AtomicBool>,
        now: Instant,
    ) -> Self {
        let open: Option<OpenSession> = open.into();
        let told = open.as_ref().is_some_and(|open| open.authenticate.is_some());
        let beside = Beside::new(told);
        let patience = if spec.downloads { limits.download } else { limits.initialize };
        let mut talk = Self {
            visiting: open.is_none(),
            masks: Masks::of(spec, open.as_ref()),
            out: Vec::new(),
            wire: Outbox::new(Version::up_to(spec.protocol)),
            end: None,
            killed: None,
            phase: Phase::Initializing { until: now + patience },
            command_line: std::iter::once(&spec.command).chain(&spec.args).cloned().collect(),
            ask_modes: spec.ask_modes.clone(),
            edit_modes: spec.edit_modes.clone(),
            yolo_modes: spec.yolo_modes.clone(),
            quirks: spec.quirks,
            login_hint: login_hint(spec),
            patience,
            downloads: spec.downloads,
            limits,
            open: open.unwrap_or_default(),
            next_call: 0,
            calls: HashMap::new(),
            next_key: 0,
            asked: BTreeMap::new(),
            hello: Hello::default(),
            info: AgentInfo { name: spec.provider.to_string(), ..AgentInfo::default() },
            session: None,
            settings: Settings::default(),
            tools: ToolMemory::default(),
            v2: v2::Memory::default(),
            busy: false,
            children: Children::default(),
            early: Vec::new(),
            early_bytes: 0,
            held: Vec::new(),
            held_bytes: 0,
            replay: None,
            queue: VecDeque::new(),
            prompting,
            greeting: None,
            prompt: None,
            prompted: false,
            last_window_used: 0,
            last_heard: now,
            stalled: false,
            stray: Tail::new(STRAY_BYTES),
            stray_count: 0,
            beside,
        };
        talk.call(Call::Initialize, |wire, id| wire.initialize(id));
        talk
    }

    /// Hands over what has happened, without secrets.
    pub(super) fn hand_over(&mut self, sink: &Sink) {
        for (event, _) in &mut self.out {
            self.masks.event(event);
        }
        sink.push(&mut self.out);
    }

    /// How far the agent's start is.
    pub(super) fn stage(&self) -> Stage {
        match self.phase {
            Phase::Initializing { .. } | Phase::Met => Stage::Starting,
            Phase::Authenticating => Stage::LoggingIn,
            Phase::Opening => Stage::Opening,
            Phase::Arranging(_) | Phase::Settling => Stage::Arranging,
            Phase::Ready => Stage::Ready,
        }
    }

    /// Whether the session is new and has not been prompted: nothing that is said is an answer.
    pub(super) fn is_untouched(&self) -> bool {
        !self.prompted && self.open.resume.is_none()
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub(super) fn stray_lines(&self) -> u64 {
        self.stray_count
    }

    pub(super) fn stray_tail(&mut self) -> String {
        self.stray.text()
    }

    pub(super) fn context(&self) -> ToolContext<'_> {
        ToolContext { cwd: &self.open.cwd, quirks: &self.quirks }
    }

    /// Sends a request.
    pub(super) fn call(
        &mut self,
        call: Call,
        write: impl FnOnce(&mut Outbox, u64) -> Result<(), Unwritable>,
    ) {
        self.next_call += 1;
        let id = self.next_call;
        match write(&mut self.wire, id) {
            Ok(()) => drop(self.calls.insert(id, call)),
            Err(error) => self.fail(FailureReason::AgentFailed, error.to_string()),
        }
    }

    /// The agent must be stopped.
    pub(super) fn fail(&mut self, reason: FailureReason, message: impl Into<String>) {
        self.fail_with(AgentFailure::new(reason, message));
    }

    pub(super) fn fail_with(&mut self, failure: AgentFailure) {
        let kill = failure.reason == FailureReason::AgentTimeout;
        self.end.get_or_insert(End { failure, kill });
    }

    /// An agent's error answer as a failure; `doing` says what was asked of it.
    pub(super) fn failure_of(&self, doing: &str, error: RpcError) -> AgentFailure {
        let mut failure = if matches!(error.code, AUTH_REQUIRED | UNAUTHORIZED) {
            let mut failure = AgentFailure::new(
                FailureReason::AgentAuthRequired,
                format!("{} wants a login: {}", self.info.name, error.message),
            );
            failure.methods = self.hello.auth_methods.clone();
            failure.hint = Some(self.login_hint.clone());
            failure
        } else {
            let message = format!("{} answered {doing} with an error: {}", self.info.name, error.message);
            AgentFailure::new(FailureReason::AgentFailed, message)
        };
        failure.code = Some(error.code);
        failure
    }

    /// Reports an event, or keeps it until the session is open.
    pub(super) fn emit(&mut self, event: AgentEvent, bytes: usize) {
        if self.is_ready() {
            self.out.push((event, bytes));
        } else if self.held_bytes < HELD_BYTES {
            self.held_bytes += bytes;
            self.held.push((event, bytes));
        } else {
            tracing::debug!(bytes, "an event before the session was open is dropped: too many");
        }
    }

    /// The session is open: what was held comes after `Ready`.
    pub(super) fn release_held(&mut self) {
        self.held_bytes = 0;
        self.out.append(&mut self.held);
    }

    pub(super) fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.emit(AgentEvent::Warning { reason, message }, 256);
    }

    /// A line from the agent.
    pub(super) fn line(&mut self, line: &[u8], now: Instant) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.heard(now);
        if self.is_ready()
            && !self.is_untouched()
            && let Some(chunk) = decode::fast::chunk(line)
            && self.session.as_deref() == Some(&*chunk.session)
        {
            self.text(chunk);
            return;
        }
        if decode::has_too_many_values(line) {
            self.end.get_or_insert_with(|| End::too_many_values(line.len()));
            return;
        }
        match decode::line(line) {
            Line::Notification { method, params } => self.notification(&method, params, line.len(), now),
            Line::Request { id, method, params } => self.asked(id, &method, params, line.len()),
            Line::Answer { id, result } => match self.calls.remove(&id) {
                Some(call) => self.answered(call, result, now),
                None => self.stray(line),
            },
            Line::Stray => self.stray(line),
        }
    }

    fn stray(&mut self, line: &[u8]) {
        self.stray_count += 1;
        self.stray.push(line);
        self.stray.push(b"\n");
        tracing::debug!(bytes = line.len(), count = self.stray_count, "a line from the agent is no ACP");
    }

    fn heard(&mut self, now: Instant) {
        self.last_heard = now;
        if self.stalled {
            self.stalled = false;
            self.out.push((AgentEvent::Stalled(None), 0));
        }
    }

    fn notification(
        &mut self,
        method: &str,
        params: serde_json::Map<String, Value>,
        bytes: usize,
        now: Instant,
    ) {
        match method {
            "session/update" => self.session_update(params, bytes, now),
            "elicitation/complete" => self.elicitation_completed(&params),
            "$/cancel_request" => self.withdrawn(params.get("requestId").unwrap_or(&Value::Null)),
            // Agents send dozens of their own; they mean nothing to us.
            _ => tracing::trace!(method, "a notification of the agent is ignored"),
        }
    }

    fn answered(&mut self, call: Call, result: Result<Value, RpcError>, now: Instant) {
        match call {
            Call::Initialize => self.initialized(result, now),
            Call::Authenticate => self.authenticated(result),
            Call::Open(way) => self.opened(way, result, now),
            Call::Set { origin, wanted, .. } => self.setting_answered(origin, wanted, result, now),
            Call::Fork { token, until } => self.fork_answered(token, until, result),
            // However it answers: more cannot be done.
            Call::CloseCopy { token, copy, .. } => self.forked(token, Ok(copy)),
            Call::List { token, .. } => self.listing_answered(token, result),
            Call::DeleteSession { token, .. } => self.deletion_answered(token, result),
            // It is stopped next, whatever it says.
            Call::CloseOwn => {}
            Call::Prompt => self.prompt_answered(result, now),
        }
    }

    /// A call on the handle.
    pub(super) fn request(&mut self, request: Request, now: Instant) {
        match request {
            Request::Cancel => self.cancel(now),
            Request::Permission(key, answer) => self.answer_permission(key, answer, now),
            Request::Elicitation(key, answer) => self.answer_elicitation(key, answer, now),
            Request::Dismiss(key) => self.dismiss(key, now),
            work if self.queue.len() >= MAX_QUEUED => self.refuse(work),
            work => {
                self.queue.push_back(work);
                self.pump(now);
            }
        }
    }

    fn refuse(&mut self, work: Request) {
        let refused = || Err(RefusedSetting::Refused("too many settings wait for the agent".to_owned()));
        match work {
            Request::Prompt(_) => {
                let message = "too many settings wait for the agent";
                self.end_prompt(Err(Box::new(AgentFailure::new(FailureReason::AgentFailed, message))));
            }
            Request::Model(token, _)
            | Request::Effort(token, _)
            | Request::Mode(token, _)
            | Request::Posture(token, _)
            | Request::Option(token, ..) => self.option_set(token, refused()),
            Request::Fork(token, _) => {
                let message = "too many settings wait for the agent".to_owned();
                self.forked(token, Err(RefusedSetting::Refused(message)));
            }
            Request::List(..) | Request::DeleteSession(..) => {
                let message = "too many calls wait for the agent";
                self.request_lost(work, &AgentFailure::new(FailureReason::AgentFailed, message));
            }
            Request::Open(_) => {}
            Request::Cancel | Request::Permission(..) | Request::Elicitation(..) | Request::Dismiss(_) => {}
        }
    }

    /// Starts work that waits: settings one after the other, a prompt when none is on its way.
    pub(super) fn pump(&mut self, now: Instant) {
        while self.is_ready() && !self.is_setting() || self.needs_no_session() {
            match self.queue.pop_front() {
                Some(Request::Prompt(prompt)) => self.start_prompt(prompt, now),
                Some(Request::Fork(token, wish)) => self.start_fork(token, wish, now),
                Some(Request::List(token, wish)) => {
                    self.start_listing(token, wish.cwd.as_deref(), wish.cursor.as_deref(), now);
                }
                Some(Request::DeleteSession(token, session)) => self.start_deletion(token, &session, now),
                Some(Request::Open(open)) => self.open_now(*open, now),
                Some(work) => self.start_setting(work, now),
                None => return,
            }
        }
    }

    /// The next moment at which [`Conversation::tick`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        let phase = match &self.phase {
            Phase::Initializing { until } => Some(*until),
            // It may wait for an answer to a question of its own.
            Phase::Authenticating | Phase::Opening if !self.asked.is_empty() => None,
            Phase::Authenticating | Phase::Opening => Some(self.last_heard + self.limits.session),
            Phase::Settling => Some(self.settled_at().unwrap_or(self.last_heard)),
            Phase::Met | Phase::Arranging(_) | Phase::Ready => None,
        };
        let calls = self.calls.values().filter_map(Call::deadline);
        phase.into_iter().chain(calls).chain(self.prompt_deadline()).min()
    }

    /// Moves every deadline: for so long the agent was not read.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.last_heard += by;
        if let Phase::Initializing { until } = &mut self.phase {
            *until += by;
        }
        if let Some(replay) = &mut self.replay {
            replay.last += by;
        }
        if let Some(greeting) = &mut self.greeting {
            *greeting += by;
        }
        for until in self.calls.values_mut().filter_map(Call::until) {
            *until += by;
        }
        if let Some(until) = self.prompt.as_mut().and_then(|prompt| prompt.cancel_until.as_mut()) {
            *until += by;
        }
        if let Some(framing) = self.prompt.as_mut().and_then(|prompt| prompt.framing.as_mut()) {
            framing.postpone(by);
        }
    }

    /// Looks which deadlines are over.
    pub(super) fn tick(&mut self, now: Instant) {
        let silent = self.asked.is_empty() && now >= self.last_heard + self.limits.session;
        match &self.phase {
            Phase::Initializing { until } if now >= *until => {
                let (name, seconds) = (&self.info.name, self.patience.as_secs_f32());
                let mut failure = AgentFailure::new(
                    FailureReason::AgentTimeout,
                    format!("{name} did not answer initialize within {seconds} s"),
                );
                if self.downloads {
                    let longer = "its download may take longer than that: install it, or raise \
                                  limits.download_seconds in config.toml";
                    failure.hint = Some(longer.to_owned());
                }
                self.fail_with(failure);
            }
            Phase::Authenticating if silent => {
                let name = &self.info.name;
                let message = format!("{name} did not finish its login; it may need one made beforehand");
                let mut failure = AgentFailure::new(FailureReason::AgentAuthRequired, message);
                failure.methods = self.hello.auth_methods.clone();
                failure.hint = Some(self.login_hint.clone());
                self.fail_with(failure);
            }
            Phase::Opening if silent => {
                let seconds = self.limits.session.as_secs_f32();
                let message = format!("{} did not open a session: silent for {seconds} s", self.info.name);
                let mut failure = AgentFailure::new(FailureReason::AgentTimeout, message);
                failure.hint = self.suspects();
                self.fail_with(failure);
            }
            Phase::Settling if self.settled_at().is_none_or(|at| now >= at) => self.ready(now),
            _ => {}
        }
        self.expire_settings(now);
        self.expire_forks(now);
        self.expire_listings(now);
        self.prompt_tick(now);
    }

    /// What may keep the agent from opening a session, besides itself: it waits for the MCP servers it was told of.
    fn suspects(&self) -> Option<String> {
        let names: Vec<_> = self.open.mcp_servers.iter().map(|server| server.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "agents wait for their MCP servers, and one that hangs keeps them from opening a session: look at {}, \
                 or set enabled = false in its table of config.toml",
                names.join(", ")
            )
        })
    }

    /// The processes are about to be stopped: whatever the agent waits for is answered.
    pub(super) fn stopping(&mut self, end: &End) {
        self.killed = end.kill.then(|| end.failure.clone());
        self.answer_all_cancelled();
        self.cancel_quietly();
        if end.failure.reason == FailureReason::Stopped {
            self.close_session();
        }
    }

    /// All processes are gone: every promise is kept, and the last event reported.
    pub(super) fn finish(&mut self, failure: AgentFailure) {
        self.prompt_lost(&failure);
        for (_, call) in std::mem::take(&mut self.calls) {
            match call {
                Call::Set { origin: Origin::Asked(token), .. } => {
                    self.option_set(token, Err(RefusedSetting::AgentGone));
                }
                call @ (Call::List { .. } | Call::DeleteSession { .. }) => self.listing_lost(&call, &failure),
                call => self.fork_lost(call, RefusedSetting::AgentGone),
            }
        }
        for work in std::mem::take(&mut self.queue) {
            match work {
                Request::Prompt(_) => self.end_prompt(Err(Box::new(failure.clone()))),
                Request::Model(token, _)
                | Request::Effort(token, _)
                | Request::Mode(token, _)
                | Request::Posture(token, _)
                | Request::Option(token, ..) => self.option_set(token, Err(RefusedSetting::AgentGone)),
                Request::Fork(token, _) => self.forked(token, Err(RefusedSetting::AgentGone)),
                work @ (Request::List(..) | Request::DeleteSession(..)) => self.request_lost(work, &failure),
                Request::Open(_)
                | Request::Cancel
                | Request::Permission(..)
                | Request::Elicitation(..)
                | Request::Dismiss(_) => {}
            }
        }
        let ready = self.is_ready();
        let failure = Box::new(failure);
        self.out
            .push((if ready { AgentEvent::Exited(failure) } else { AgentEvent::StartFailed(failure) }, 0));
    }
}

/// What a user can do who has to log in.
fn login_hint(spec: &LaunchSpec) -> String {
    let ours = format!("run `signalbox login {}`", spec.provider);
    match &spec.login_hint {
        Some(theirs) => format!("{ours}; or {theirs}"),
        None => ours,
    }
}

/// ACP's error code for a login that is needed.
pub(super) const AUTH_REQUIRED: i64 = -32000;
/// The HTTP status that some agents answer with instead.
const UNAUTHORIZED: i64 = 401;
