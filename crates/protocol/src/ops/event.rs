//! `Event`: everything the core tells, each after what it tells has been committed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::activity::Activity;
use super::form::{ElicitationAction, Form};
use super::policy::{Policy, SessionRule};
use super::queue::QueuedPrompt;
use super::session::{ForkContext, WorktreeBaseline};

/// One event. `transcript_seq` is the sequence of the stored fact behind it; a client that holds a snapshot applies only
/// what is newer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A session exists. A client can work with this receipt alone, even if a list cannot be read.
    SessionCreated {
        session: String,
        #[serde(default)]
        cwd: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project_path: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree_path: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree_baseline: Option<WorktreeBaseline>,
        /// The session whose history this one began with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<String>,
        /// Of a fork: how its agent knows what was said before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fork_context: Option<ForkContext>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    SessionTitleChanged {
        session: String,
        title: String,
    },
    SessionActivityChanged {
        session: String,
        activity: Activity,
    },
    /// A prompt was accepted and stored; sent exactly once a turn.
    TurnStarted {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// A piece of a message. Pieces of one message share a `message_id`, which is never empty.
    AgentText {
        session: String,
        message_id: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// A piece of the agent's reasoning.
    AgentThought {
        session: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// A tool call or an update of one. Updates may leave out what was said before; clients merge by `id`.
    ToolCall {
        session: String,
        id: String,
        title: String,
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// Launch fields of a delegated agent or workflow, bounded and allow-listed; never the whole input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_input: Option<Map<String, Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// The agent's plan, whole.
    Plan {
        session: String,
        entries: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// A permission request waits for an answer.
    PermissionRequest {
        session: String,
        request_id: String,
        title: String,
        /// Pairs of option id and label.
        options: Vec<(String, String)>,
        /// ACP's kind of each option, by option id.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        option_kinds: BTreeMap<String, String>,
        /// The `tool_call` that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
    /// A question with fields waits for an answer.
    ElicitationRequest {
        session: String,
        request_id: String,
        form: Form,
    },
    /// A request is settled: by an answer, or by the server without asking anyone.
    PermissionResolved {
        session: String,
        request_id: String,
        /// The option that was taken; `null` (written) if none was.
        #[serde(default)]
        option_id: Option<String>,
        by: Resolver,
        /// The rule that took an automatic decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// How a question with fields was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<ElicitationAction>,
        /// What was asked, when no request was sent before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
        /// The rule that the answer left for the rest of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_rule: Option<SessionRule>,
    },
    /// A session rule was taken back.
    RuleRemoved {
        session: String,
        rule: SessionRule,
    },
    /// Tokens of the session so far, as the agent reports them with its turns.
    Usage {
        session: String,
        input_tokens: u64,
        output_tokens: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rate_limits: Vec<RateLimit>,
    },
    /// How full the agent's context is. Session state, not part of the transcript.
    ContextWindow {
        session: String,
        used_tokens: u64,
        context_window: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The models the agent offers.
    Models {
        session: String,
        available: Vec<ModelChoice>,
        /// The id of the current one; may be empty.
        current: String,
    },
    /// The agent's options, all of them.
    ConfigOptions {
        session: String,
        options: Vec<ConfigOption>,
    },
    /// Row and live handler hold this pair.
    ExecutionPolicyChanged {
        session: String,
        policy: Policy,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Settings other than the policy now hold; absent ones did not change.
    SettingsChanged {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        roots: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        config_options: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// The turn is over and the session takes a new prompt. `stop_reason` is ACP's word.
    TurnEnded {
        session: String,
        stop_reason: String,
    },
    /// Something went wrong. Only a terminal error ends a turn or an operation.
    Error {
        /// `null` (written) if it concerns no session.
        #[serde(default)]
        session: Option<String>,
        message: String,
        #[serde(default)]
        terminal: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Stable snake_case word for programs; the message is for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A prompt went into the running turn.
    PromptSteered {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// What the turn has changed in the workspace so far, as one unified diff.
    TurnDiff {
        session: String,
        diff: String,
        /// Whether the diff was cut to its bound.
        #[serde(default)]
        truncated: bool,
        /// Whether the state before the turn could not be recorded completely.
        #[serde(default)]
        partial: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_seq: Option<u64>,
    },
    /// This turn and all after it, up to `through_seq`, are no longer part of the history.
    SessionReverted {
        session: String,
        before_turn: String,
        through_seq: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    SessionArchived {
        session: String,
        archived: bool,
    },
    /// The session's queue of follow-ups, whole.
    QueueChanged {
        session: String,
        queue: Vec<QueuedPrompt>,
        /// Whether it waits for the next accepted prompt, because the last turn did not complete.
        #[serde(default)]
        paused: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    WorktreeDiscarded {
        session: String,
        worktree_path: String,
        removed_checkout: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deleted_branch: Option<String>,
    },
    /// The session is no longer loaded, or no longer there.
    SessionClosed {
        session: String,
        reason: CloseReason,
    },
}

/// One limit on what an account may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateLimit {
    /// The agent's name for it.
    pub name: String,
    /// 0 to 100.
    pub used_percent: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_minutes: Option<u64>,
    /// Unix time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<i64>,
}

/// A model an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelChoice {
    pub id: String,
    pub name: String,
    /// Always written.
    #[serde(default)]
    pub description: Option<String>,
}

/// An option an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigOption {
    pub id: String,
    pub name: String,
    /// Always written.
    #[serde(default)]
    pub category: Option<String>,
    /// The id of the current choice; `true` or `false` for a switch.
    pub current: String,
    #[serde(default)]
    pub choices: Vec<ConfigChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// It is of a type that the server does not know: `current` is its value as text, and it cannot be set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// One choice of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigChoice {
    pub id: String,
    pub name: String,
    /// Always written.
    #[serde(default)]
    pub description: Option<String>,
    /// The heading it stands under; choices of one group follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Who settled a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resolver {
    pub kind: ResolverKind,
    /// The client's or device's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What settled a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolverKind {
    /// A client answered.
    Client,
    /// The policy or a session rule.
    Policy,
    /// The turn was interrupted.
    Interrupt,
    /// The server or the agent stopped.
    Restart,
    /// Nobody was there who could have answered.
    Unattended,
    /// The agent: what it asked for was done elsewhere.
    Agent,
}

/// Why a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    Unloaded,
    Deleted,
}

impl Event {
    /// The tag, as written in `event`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session_created",
            Self::SessionTitleChanged { .. } => "session_title_changed",
            Self::SessionActivityChanged { .. } => "session_activity_changed",
            Self::TurnStarted { .. } => "turn_started",
            Self::AgentText { .. } => "agent_text",
            Self::AgentThought { .. } => "agent_thought",
            Self::ToolCall { .. } => "tool_call",
            Self::Plan { .. } => "plan",
            Self::PermissionRequest { .. } => "permission_request",
            Self::ElicitationRequest { .. } => "elicitation_request",
            Self::PermissionResolved { .. } => "permission_resolved",
            Self::RuleRemoved { .. } => "rule_removed",
            Self::Usage { .. } => "usage",
            Self::ContextWindow { .. } => "context_window",
            Self::Models { .. } => "models",
            Self::ConfigOptions { .. } => "config_options",
            Self::ExecutionPolicyChanged { .. } => "execution_policy_changed",
            Self::SettingsChanged { .. } => "settings_changed",
            Self::TurnEnded { .. } => "turn_ended",
            Self::Error { .. } => "error",
            Self::PromptSteered { .. } => "prompt_steered",
            Self::TurnDiff { .. } => "turn_diff",
            Self::SessionReverted { .. } => "session_reverted",
            Self::SessionArchived { .. } => "session_archived",
            Self::QueueChanged { .. } => "queue_changed",
            Self::WorktreeDiscarded { .. } => "worktree_discarded",
            Self::SessionClosed { .. } => "session_closed",
        }
    }

    /// The session it is about; none only for an error that concerns none.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Error { session, .. } => session.as_deref(),
            Self::SessionCreated { session, .. }
            | Self::SessionTitleChanged { session, .. }
            | Self::SessionActivityChanged { session, .. }
            | Self::TurnStarted { session, .. }
            | Self::AgentText { session, .. }
            | Self::AgentThought { session, .. }
            | Self::ToolCall { session, .. }
            | Self::Plan { session, .. }
            | Self::PermissionRequest { session, .. }
            | Self::ElicitationRequest { session, .. }
            | Self::PermissionResolved { session, .. }
            | Self::RuleRemoved { session, .. }
            | Self::SettingsChanged { session, .. }
            | Self::Usage { session, .. }
            | Self::ContextWindow { session, .. }
            | Self::Models { session, .. }
            | Self::ConfigOptions { session, .. }
            | Self::ExecutionPolicyChanged { session, .. }
            | Self::TurnEnded { session, .. }
            | Self::PromptSteered { session, .. }
            | Self::TurnDiff { session, .. }
            | Self::SessionReverted { session, .. }
            | Self::SessionArchived { session, .. }
            | Self::QueueChanged { session, .. }
            | Self::WorktreeDiscarded { session, .. }
            | Self::SessionClosed { session, .. } => Some(session),
        }
    }
}
