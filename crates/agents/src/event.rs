//! What an agent reports: its events, what it can do, and how it fails.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};
use signalbox_facts::{ConfigOption, Failure, Form, Model, PermissionOption};

use crate::handle::Token;
use crate::listed::SessionPage;
use crate::update::{AgentModes, ToolPatch, Update};

/// An open request of the agent, in this agent's life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestKey(pub u64);

/// What an agent reports, in order. The last event is always [`AgentEvent::StartFailed`] or [`AgentEvent::Exited`];
/// after it the stream ends. Every accepted prompt gets exactly one [`AgentEvent::PromptEnded`] before that.
#[derive(Clone, PartialEq, Debug)]
pub enum AgentEvent {
    /// The agent has introduced itself: what it is and can do, with nothing of a session yet. Comes also where no session
    /// can be opened.
    Introduced(Box<AgentInfo>),
    /// The agent has introduced itself; it was started without a session ([`crate::Visit`]).
    Met(Box<AgentInfo>),
    /// The session is open and prompts are taken.
    Ready(Box<AgentInfo>),
    /// A piece of the history of a session that was opened with [`crate::OpenSession::replay`], before `Ready`.
    Replayed(Update),
    /// The agent could not be started or its session not be opened; its processes are gone. The last event.
    StartFailed(Box<AgentFailure>),
    /// Something of the conversation or of the session's state.
    Update(Update),
    /// The agent asks whether it may do something. `tool` may be the first mention of its id, or only the id.
    Permission {
        /// For the answer.
        key: RequestKey,
        /// What is known of the call; merge it into the call of that id.
        tool: Box<ToolPatch>,
        /// What the agent says about the request itself, at most 4,000 characters.
        description: Option<String>,
        /// The agent's own options, in its order; may be empty (then only a cancellation can be answered).
        options: Vec<PermissionOption>,
    },
    /// The agent asks the user a question. It may come before [`AgentEvent::Ready`], which may wait for the answer.
    Elicitation {
        /// For the answer.
        key: RequestKey,
        /// The tool call it belongs to.
        tool_call: Option<String>,
        /// The form, or an address to open.
        form: Box<Form>,
    },
    /// A permission request or question needs no answer any more: the agent withdrew it, or a cancel answered it.
    Withdrawn {
        /// Which one.
        key: RequestKey,
    },
    /// What a question asked for is done, outside of the session; the agent has its answer.
    DoneElsewhere {
        /// Which one.
        key: RequestKey,
    },
    /// The agent answered the prompt. What it still sends afterwards are late updates of that turn.
    PromptEnded(Result<PromptOutcome, Box<AgentFailure>>),
    /// A setting has been taken or refused.
    OptionSet {
        /// From the call.
        token: Token,
        /// Refused: why.
        result: Result<(), RefusedSetting>,
    },
    /// The agent has copied its conversation, or has not.
    Forked {
        /// From the call.
        token: Token,
        /// The agent's own id of the copy, for [`crate::OpenSession::resume`]. Refused: why.
        result: Result<String, RefusedSetting>,
    },
    /// Some of the agent's own sessions, or why it tells none.
    Listed {
        /// From the call.
        token: Token,
        /// The page.
        result: Result<SessionPage, Box<AgentFailure>>,
    },
    /// One of the agent's own sessions is gone, or is not.
    SessionDeleted {
        /// From the call.
        token: Token,
        /// Not: why.
        result: Result<(), Box<AgentFailure>>,
    },
    /// The agent has been silent in a prompt for this long; `None`: it speaks again.
    Stalled(Option<Duration>),
    /// A piece of what the agent writes to stderr while it logs its user in ([`crate::OpenSession::authenticate`]).
    Said(String),
    /// Something worked less well than asked for, but the session goes on.
    Warning {
        /// Stable snake_case word.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// The agent is gone: stopped, died or was killed. The last event.
    Exited(Box<AgentFailure>),
}

/// What an agent told about itself and its session.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AgentInfo {
    /// Name for people.
    pub name: String,
    /// Its version, where it says.
    pub version: Option<String>,
    /// ACP version spoken.
    pub protocol: u16,
    /// The agent's own id of the session, for resuming it.
    pub acp_session_id: String,
    /// An earlier session goes on.
    pub resumed: bool,
    /// An earlier session was asked for and is not there; this one is new.
    pub context_lost: bool,
    /// Models on offer; may be empty.
    pub models: Vec<Model>,
    /// The current model's id; empty if unknown.
    pub current_model: String,
    /// All options, modes and models of older agents included.
    pub options: Vec<ConfigOption>,
    /// Its session modes, where it has any.
    pub modes: Option<AgentModes>,
    /// Whether the mode that the policy wants is in force, or none was needed.
    pub mode_in_force: bool,
    /// Takes images in prompts.
    pub takes_images: bool,
    /// Takes audio in prompts.
    pub takes_audio: bool,
    /// Takes embedded resources in prompts.
    pub takes_resources: bool,
    /// Took the additional roots.
    pub takes_roots: bool,
    /// Took the instructions as its system prompt.
    pub takes_instructions: bool,
    /// Takes MCP servers over HTTP.
    pub mcp_http: bool,
    /// Takes MCP servers over SSE.
    pub mcp_sse: bool,
    /// Sessions can be loaded (with replay).
    pub can_load: bool,
    /// Sessions can be resumed (without replay).
    pub can_resume: bool,
    /// Sessions can be forked.
    pub can_fork: bool,
    /// Sessions can be listed.
    pub can_list: bool,
    /// Sessions can be closed; one is before its agent is stopped.
    pub can_close: bool,
    /// Sessions can be deleted.
    pub can_delete: bool,
    /// The history of the session was told ([`AgentEvent::Replayed`]).
    pub replayed: bool,
    /// Ways to log in.
    pub auth_methods: Vec<AuthMethod>,
}

/// A way to log in that the agent offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthMethod {
    /// The agent's id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// More about it.
    pub description: Option<String>,
    /// `agent` (it does it itself when asked) or `terminal` (run a command in a terminal).
    pub kind: String,
    /// For `terminal`: the command line that logs in, without secrets.
    pub command: Option<Vec<String>>,
    /// For `terminal`: variables to set for that command.
    pub env: BTreeMap<String, String>,
}

/// How a prompt ended well, that is: with an answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PromptOutcome {
    /// ACP stop reason; unknown ones as they came.
    pub stop_reason: String,
    /// Whether a cancel had been sent before the answer came.
    pub cancel_requested: bool,
    /// Tokens of this prompt, where the agent reports them.
    pub usage: Option<TokenUsage>,
    /// Whether the agent said or did anything for it.
    pub had_output: bool,
}

/// Tokens of one prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TokenUsage {
    /// Input, cached ones included.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Part of the input read from a cache.
    pub cached_input: u64,
    /// Part of the output spent on reasoning.
    pub reasoning: u64,
    /// Input and output.
    pub total: u64,
}

/// Why a setting was not taken, or a copy not made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusedSetting {
    /// The agent has no such option, model or mode.
    #[error("the agent does not offer {0}")]
    NotOffered(String),
    /// The agent answered with an error.
    #[error("the agent refused it: {0}")]
    Refused(String),
    /// The agent did not answer in time.
    #[error("the agent did not answer")]
    NoAnswer,
    /// The agent is gone.
    #[error("the agent is gone")]
    AgentGone,
}

/// Kind of failure; the words are those of the app-server API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailureReason {
    /// Died, spoke nonsense or answered with an error.
    AgentFailed,
    /// Did not answer in time.
    AgentTimeout,
    /// Wants a login.
    AgentAuthRequired,
    /// Its command is not there.
    ProviderUnavailable,
    /// It was stopped because the caller asked for it.
    Stopped,
}

impl FailureReason {
    /// The stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentFailed => "agent_failed",
            Self::AgentTimeout => "agent_timeout",
            Self::AgentAuthRequired => "agent_auth_required",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::Stopped => "agent_stopped",
        }
    }
}

/// How an agent, or one request to it, failed.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentFailure {
    /// Kind.
    pub reason: FailureReason,
    /// For people; readable alone.
    pub message: String,
    /// The agent's JSON-RPC error code, if it answered with an error.
    pub code: Option<i64>,
    /// How its process ended (`exit status: 3`, `signal: 9 (SIGKILL)`), if it did.
    pub exit_status: Option<String>,
    /// The end of what it wrote to stderr.
    pub stderr_tail: String,
    /// The end of what it wrote to stdout that was not ACP.
    pub stdout_tail: String,
    /// Ways to log in.
    pub methods: Vec<AuthMethod>,
    /// The command that was, or was to be, started.
    pub command: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
    /// The agent ends because of it: what comes next needs a fresh process.
    pub ends_agent: bool,
}

impl AgentFailure {
    pub(crate) fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            code: None,
            exit_status: None,
            stderr_tail: String::new(),
            stdout_tail: String::new(),
            methods: Vec::new(),
            command: None,
            hint: None,
            ends_agent: false,
        }
    }

    /// The same as stored and told to clients; fields that say nothing are left out.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        let mut data = Map::new();
        let mut put = |key: &str, value: Value| drop(data.insert(key.to_owned(), value));
        if let Some(code) = self.code {
            put("code", json!(code));
        }
        if let Some(status) = &self.exit_status {
            put("exitStatus", json!(status));
        }
        for (key, text) in [("stderrTail", &self.stderr_tail), ("stdoutTail", &self.stdout_tail)] {
            if !text.is_empty() {
                put(key, json!(text));
            }
        }
        if !self.methods.is_empty() {
            put("methods", self.methods.iter().map(AuthMethod::to_value).collect());
        }
        for (key, text) in [("command", &self.command), ("hint", &self.hint)] {
            if let Some(text) = text {
                put(key, json!(text));
            }
        }
        Failure {
            reason: self.reason.as_str().to_owned(),
            message: self.message.clone(),
            retryable: matches!(self.reason, FailureReason::AgentFailed | FailureReason::AgentTimeout),
            data,
        }
    }
}

impl fmt::Display for AgentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl AuthMethod {
    /// As JSON for clients.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"id": self.id, "name": self.name, "description": self.description, "kind": self.kind, "command": self.command})
    }
}
