//! One session as a client knows it, and how activities merge.

use std::collections::{BTreeMap, BTreeSet};

use signalbox_protocol::ops::{
    Activity, ActivityState, ConfigOption, Event, Form, ModelChoice, PendingInput, PendingKind, Policy,
    Provider, QueuedPrompt, RateLimit, SessionRule, SessionSnapshot, TitleOrigin, WorktreeBaseline,
};

use super::transcript::Transcript;

/// What is known of a session. A field that nobody has told is `None`; nothing is derived from another field, above
/// all not a worktree from a directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session {
    pub id: String,
    /// Whether a list or a creation receipt vouches for it; otherwise it is known from its events alone.
    pub listed: bool,
    pub title: Option<String>,
    pub title_origin: TitleOrigin,
    pub provider: Option<Provider>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub cwd: Option<String>,
    pub project_path: Option<String>,
    pub roots: Vec<String>,
    pub worktree_path: Option<String>,
    pub worktree_baseline: Option<WorktreeBaseline>,
    pub worktree_discarded: bool,
    pub policy: Option<Policy>,
    pub rules: Vec<SessionRule>,
    pub pinned: bool,
    pub archived: bool,
    pub acp_session_id: Option<String>,
    pub forked_from: Option<String>,
    /// Unix time in milliseconds.
    pub created_at: Option<i64>,
    pub updated_at: Option<i64>,

    /// The newest activity that anybody has told.
    pub activity: Activity,
    /// Whether a turn runs. Cleared by its end, by a terminal error, or by a newer activity, and by nothing else.
    pub running: bool,
    /// The turn that runs.
    pub turn: Option<OpenTurn>,
    /// What waits for an answer, by ascending `sequence`.
    pub pending: Vec<Pending>,

    pub models: Option<ModelList>,
    pub config_options: Option<Vec<ConfigOption>>,
    pub context_window: Option<Window>,
    pub usage: Option<TokenUsage>,
    pub queue: Vec<QueuedPrompt>,
    pub queue_paused: bool,
    /// The newest diff of the newest turn.
    pub diff: Option<TurnDiff>,
    /// Whether the server has it in memory no longer; it loads it when somebody needs it.
    pub unloaded: bool,

    /// Its history, if it was asked for.
    pub transcript: Option<Transcript>,

    /// When events told a value that a list tells too: a list that was asked for before does not overwrite it.
    pub(super) told: Told,
    pub(super) stream: Stream,
}

/// The turn that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenTurn {
    pub id: Option<String>,
    /// The `request_id`s of its prompts.
    pub requests: BTreeSet<String>,
}

/// A permission request or question that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    pub input_id: String,
    pub kind: PendingKind,
    pub title: String,
    pub options: Vec<(String, String)>,
    pub option_kinds: BTreeMap<String, String>,
    /// Its place in the one order of all sessions; none from a server that tells no activities.
    pub sequence: Option<u64>,
    pub form: Option<Form>,
    /// The tool call that asks.
    pub tool_call_id: Option<String>,
}

/// Something that waits, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Awaiting<'a> {
    pub session: &'a str,
    pub input: &'a Pending,
}

/// The agent's models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelList {
    pub available: Vec<ModelChoice>,
    pub current: String,
}

/// How full the agent's context is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window {
    pub used_tokens: u64,
    pub context_window: u64,
    pub cost_usd: Option<f64>,
}

/// Rolling usage of the account.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub rate_limits: Vec<RateLimit>,
}

/// What a turn has changed in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnDiff {
    pub diff: String,
    pub truncated: bool,
    pub partial: bool,
    pub turn_id: Option<String>,
    pub seq: Option<u64>,
}

/// The frame with which events last told something, 0 for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    pub(super) created: u64,
    pub(super) title: u64,
    pub(super) policy: u64,
    pub(super) model: u64,
    pub(super) effort: u64,
    pub(super) place: u64,
    pub(super) rules: u64,
    pub(super) archived: u64,
    pub(super) worktree: u64,
}

/// Where the stream of events is, as against the activity that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stream {
    /// The highest revision an event has told.
    pub(super) revision: u64,
    /// The turn of the last activity event.
    pub(super) turn: Option<String>,
    /// A list has told a later activity than the events so far: until they catch up, they tell the past.
    pub(super) behind: bool,
}

impl Session {
    pub(super) fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Takes over a list's word on this session. `mark` is the frame after which that list was asked for.
    pub(super) fn list(&mut self, listed: SessionSnapshot, mark: u64) -> bool {
        let told = self.told;
        let newer = |at: u64| at > mark;
        self.listed = true;
        if !newer(told.title) {
            self.title = Some(listed.title);
            self.title_origin = listed.title_origin;
        }
        if !newer(told.policy) {
            self.policy = Some(Policy {
                mode: listed.permission_mode,
                sandbox: listed.sandbox_policy,
                never_ask: listed.never_ask,
            });
        }
        if !newer(told.model) {
            self.model = listed.model;
        }
        if !newer(told.place) {
            self.cwd = Some(listed.cwd);
            self.roots = listed.roots;
        }
        if !newer(told.rules) {
            self.rules = listed.rules;
        }
        if !newer(told.archived) {
            self.archived = listed.archived;
        }
        if !newer(told.worktree) {
            self.worktree_discarded = listed.worktree_discarded;
        }
        self.provider = Some(listed.provider);
        self.pinned = listed.pinned;
        self.created_at = Some(listed.created_at);
        self.updated_at = (listed.updated_at != 0).then_some(listed.updated_at).or(self.updated_at);
        // These never change once they are known, so a list of an older kind cannot take them away.
        self.project_path = listed.project_path.or(self.project_path.take());
        self.worktree_path = listed.worktree_path.or(self.worktree_path.take());
        self.worktree_baseline = listed.worktree_baseline.or(self.worktree_baseline.take());
        self.acp_session_id = listed.acp_session_id.or(self.acp_session_id.take());
        self.forked_from = listed.forked_from.or(self.forked_from.take());
        if listed.activity.revision > self.activity.revision && self.stream.revision > 0 {
            self.stream.behind = true;
        }
        self.merge(listed.activity)
    }

    /// Takes over an activity event.
    pub(super) fn activity_event(&mut self, activity: Activity) -> bool {
        self.stream.revision = self.stream.revision.max(activity.revision);
        self.stream.behind = activity.revision < self.activity.revision;
        self.stream.turn = turn_of(&activity.state).map(|(turn, _)| turn.to_owned());
        self.merge(activity)
    }

    /// Of two activities the one with the higher revision is the truth, whichever came first.
    fn merge(&mut self, activity: Activity) -> bool {
        if activity.revision <= self.activity.revision {
            return false;
        }
        self.activity = activity;
        match turn_of(&self.activity.state) {
            Some((id, request)) => {
                let same = self.turn.as_ref().is_some_and(|turn| turn.id.as_deref() == Some(id));
                if !same {
                    self.turn = Some(OpenTurn { id: Some(id.to_owned()), requests: BTreeSet::new() });
                }
                if let (Some(turn), Some(request)) = (&mut self.turn, request) {
                    turn.requests.insert(request.to_owned());
                }
                self.running = true;
            }
            None => {
                self.turn = None;
                self.running = false;
            }
        }
        let before = std::mem::take(&mut self.pending);
        if let ActivityState::AwaitingInput { pending, .. } = &self.activity.state {
            self.pending = pending.iter().map(|input| Pending::from_activity(input, &before)).collect();
            self.pending.sort_by_key(|input| input.sequence);
        }
        true
    }

    /// A prompt was accepted.
    pub(super) fn turn_started(&mut self, request_id: Option<String>) {
        if self.stream.behind {
            return;
        }
        self.running = true;
        self.turn.get_or_insert_default().requests.extend(request_id);
    }

    /// A prompt went into the running turn.
    pub(super) fn steered(&mut self, request_id: Option<String>) {
        if let (false, Some(turn)) = (self.stream.behind, &mut self.turn) {
            turn.requests.extend(request_id);
        }
    }

    /// The turn is over, by its end or by a terminal error.
    pub(super) fn turn_over(&mut self) {
        if self.stream.behind {
            return;
        }
        self.running = false;
        self.turn = None;
        self.pending.clear();
    }

    /// Whether a terminal error that names this request may have ended the turn. One that answers another op has not,
    /// as long as the core says that the turn runs.
    pub(super) fn ends_by(&self, request_id: Option<&str>) -> bool {
        let (Some(request), Some(turn)) = (request_id, &self.turn) else { return true };
        turn.requests.is_empty() || turn.requests.contains(request) || turn_of(&self.activity.state).is_none()
    }

    /// A request's own event: it adds to what the activity said. It stands for itself only where a server tells no
    /// activities, because otherwise one that no activity lists is answered already.
    pub(super) fn requested(&mut self, request: Pending) {
        let known = self.pending.iter_mut().find(|input| input.input_id == request.input_id);
        match known {
            Some(input) => {
                input.tool_call_id = request.tool_call_id.or(input.tool_call_id.take());
                input.form = request.form.or(input.form.take());
            }
            None if self.activity.revision == 0 => self.pending.push(request),
            None => {}
        }
    }

    pub(super) fn resolved(&mut self, input_id: &str) {
        self.pending.retain(|input| input.input_id != input_id);
    }
}

/// The turn of an activity, and the request that opened it.
fn turn_of(state: &ActivityState) -> Option<(&str, Option<&str>)> {
    match state {
        ActivityState::Running { turn_id, prompt_request_id }
        | ActivityState::AwaitingInput { turn_id, prompt_request_id, .. } => {
            Some((turn_id, prompt_request_id.as_deref()))
        }
        ActivityState::Idle | ActivityState::Failed { .. } => None,
    }
}

impl Pending {
    fn from_activity(input: &PendingInput, before: &[Self]) -> Self {
        let known = before.iter().find(|known| known.input_id == input.input_id);
        Self {
            input_id: input.input_id.clone(),
            kind: input.kind,
            title: input.title.clone(),
            options: input.options.clone(),
            option_kinds: input.option_kinds.clone(),
            sequence: Some(input.sequence),
            form: input.form.clone().or_else(|| known.and_then(|known| known.form.clone())),
            tool_call_id: known.and_then(|known| known.tool_call_id.clone()),
        }
    }

    /// None for an event that asks nothing.
    pub(super) fn from_event(event: Event) -> Option<Self> {
        match event {
            Event::PermissionRequest { request_id, title, options, option_kinds, tool_call_id, .. } => {
                Some(Self {
                    input_id: request_id,
                    kind: PendingKind::Permission,
                    title,
                    options,
                    option_kinds,
                    sequence: None,
                    form: None,
                    tool_call_id,
                })
            }
            Event::ElicitationRequest { request_id, form, .. } => Some(Self {
                input_id: request_id,
                kind: PendingKind::Elicitation,
                title: form.message.clone(),
                options: Vec::new(),
                option_kinds: BTreeMap::new(),
                sequence: None,
                tool_call_id: form.tool_call_id.clone(),
                form: Some(form),
            }),
            _ => None,
        }
    }
}
