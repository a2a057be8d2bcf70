//! `Op`: everything that can be asked of the core. No frontend has another way in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::doc::{ContextEntry, DocBlock};
use super::form::ElicitationAnswer;
use super::launch::Launch;
use super::policy::{PermissionMode, Policy, SandboxLevel, SessionRule};
use super::provider::Provider;
use super::session::BaselineKind;
use super::settings::SettingsPatch;

/// A submission. `request_id` is the submitter's own word; it comes back on the events that answer the submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Create a session. Answered by `session_created` or a terminal `error` without a session.
    NewSession(NewSession),
    /// Adopt one of an agent's own earlier sessions, with what the agent tells of it. Answered as `new_session`, when the
    /// agent has told it.
    Import(Import),
    /// Submit a document as a new turn. While a turn runs it is declined with a non-terminal `error`.
    Prompt {
        session: String,
        doc: Vec<DocBlock>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Interrupt the current turn and drain its pending inputs.
    Cancel {
        session: String,
        /// Only if this turn is the open one; absent: whichever is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<String>,
    },
    /// Answer a permission request.
    AnswerPermission {
        session: String,
        request_id: String,
        /// One of the advertised option ids; `null` (written) or absent cancels.
        #[serde(default)]
        option_id: Option<String>,
        /// With an allowing option: keep a rule, so that the same is allowed for the rest of the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        for_session: bool,
        /// With a rejecting option, or with `decline`: what to tell the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Without an option: this declines, although no option says so. The agent hears that its request was cancelled,
        /// and the turn goes on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decline: bool,
    },
    /// Answer a question with fields.
    AnswerElicitation { session: String, request_id: String, answer: ElicitationAnswer },
    /// Persist and apply both policy axes in one step.
    SetExecutionPolicy {
        session: String,
        mode: PermissionMode,
        sandbox: SandboxLevel,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// The older single-axis form: the other axis stays.
    SetPermissionMode { session: String, mode: PermissionMode },
    /// The older single-axis form: the other axis stays.
    SetSandbox { session: String, sandbox: SandboxLevel },
    /// Take back a rule that an "allow for this session" answer left.
    RemoveRule {
        session: String,
        rule: SessionRule,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Set the session's model, in the agent's own id.
    SetModel { session: String, model: String },
    /// Set an option the agent has reported.
    SetConfigOption {
        session: String,
        config_id: String,
        /// One of the option's choices. A JSON boolean is read as `true` or `false`.
        #[serde(deserialize_with = "choice_or_switch")]
        #[schemars(with = "String")]
        value: String,
    },
    /// Submit user input and let the core decide whether it starts, steers or waits.
    TurnInput(TurnInput),
    /// Change settings that hold from now on, all in one step.
    ThreadSettings {
        session: String,
        #[serde(flatten)]
        settings: SettingsPatch,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Make a new session with this one's history.
    Fork {
        session: String,
        /// The last turn to take along; absent: all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        through_turn: Option<String>,
        /// Settings in which the new session differs.
        #[serde(default, skip_serializing_if = "SettingsPatch::is_empty")]
        settings: SettingsPatch,
        /// A provider other than the session's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Provider>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ephemeral: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_instructions: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        developer_instructions: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Take back this turn and everything after it. Nothing is deleted.
    Revert {
        session: String,
        before_turn: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Put a follow-up at the end of the session's queue.
    QueueAdd {
        session: String,
        doc: Vec<DocBlock>,
        /// Makes the addition exactly-once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_message_id: Option<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        client_metadata: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Replace a waiting follow-up.
    QueueEdit {
        session: String,
        queued: String,
        doc: Vec<DocBlock>,
        /// The metadata from now on; absent: as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_metadata: Option<BTreeMap<String, String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Take a waiting follow-up out of the queue.
    QueueRemove {
        session: String,
        queued: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Give the queue this order.
    QueueMove {
        session: String,
        /// The ids of all waiting follow-ups.
        order: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Give the session a title; no automatic one will replace it.
    Rename {
        session: String,
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Take the session out of the list.
    Archive {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Put it back into the list.
    Unarchive {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Stop the agent and remove the session with its history. Refused while its worktree exists.
    Delete {
        session: String,
        /// Also have the agent delete its own session, behind this one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        agent_session: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Ask the agent to compact its context, as a turn of its own.
    Compact {
        session: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Remove the session's checkout and branch; the history stays.
    DiscardWorktree {
        session: String,
        /// Also with changes that are in no commit, or commits that are on no other branch.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
}

/// What a session is created with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewSession {
    pub provider: Provider,
    /// An existing directory.
    pub cwd: String,
    /// Whether the agent works in a git worktree of its own.
    pub use_worktree: bool,
    /// What the worktree is made from; absent means `current`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_base: Option<BaselineKind>,
    /// The full commit id the client displayed. If the ref has moved since, the request is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_base_sha: Option<String>,
    /// The policy of the first turn on; absent means `ask` and `workspace_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_policy: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Additional workspace roots, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Values for options of the agent, set once it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_options: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Takes the place of the agent's system prompt where the agent allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    /// Added to the agent's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Kept in memory only, and gone when the session unloads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
    /// What kind of client made it, for lists that filter by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What of the provider's launch is another for this session. Takes an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
}

/// Which session of an agent is to be adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Import {
    pub provider: Provider,
    /// The agent's own id of it.
    pub agent_session: String,
    /// Where it works: an existing directory. Absent: where the agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The policy of the first turn on; absent means `ask` and `workspace_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_policy: Option<Policy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What kind of client asked for it, for lists that filter by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl NewSession {
    /// A session of this provider in this directory, everything else left to the core.
    #[must_use]
    pub fn new(provider: Provider, cwd: impl Into<String>) -> Self {
        Self {
            provider,
            cwd: cwd.into(),
            use_worktree: false,
            worktree_base: None,
            worktree_base_sha: None,
            initial_policy: None,
            request_id: None,
            roots: Vec::new(),
            model: None,
            effort: None,
            config_options: BTreeMap::new(),
            title: None,
            base_instructions: None,
            developer_instructions: None,
            ephemeral: false,
            source: None,
            launch: None,
        }
    }
}

/// User input for a session, whatever it is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnInput {
    pub session: String,
    pub doc: Vec<DocBlock>,
    #[serde(default, skip_serializing_if = "TurnMode::is_auto")]
    pub mode: TurnMode,
    /// Steer this turn and no other; declined if it is not the running one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn: Option<String>,
    /// Makes the submission exactly-once in its session, also across restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// Applied before the turn starts, and in force after it.
    #[serde(default, skip_serializing_if = "SettingsPatch::is_empty")]
    pub settings: SettingsPatch,
    /// What the client's surroundings add, by source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_context: BTreeMap<String, ContextEntry>,
    /// Kept on the turn and passed to the agent as metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_metadata: BTreeMap<String, String>,
    /// The turn that caused this one, and the one at the root of that chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_turn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl TurnInput {
    /// Input for this session that says nothing beyond its document.
    #[must_use]
    pub fn new(session: impl Into<String>, doc: Vec<DocBlock>) -> Self {
        Self {
            session: session.into(),
            doc,
            mode: TurnMode::Auto,
            expected_turn: None,
            client_message_id: None,
            settings: SettingsPatch::default(),
            additional_context: BTreeMap::new(),
            client_metadata: BTreeMap::new(),
            parent_turn: None,
            root_turn: None,
            request_id: None,
        }
    }
}

/// What the submitter of input allows the core to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnMode {
    /// Start when idle, steer when a turn runs.
    #[default]
    Auto,
    /// Start; declined while a turn runs.
    Start,
    /// Steer; declined when no turn runs.
    Steer,
    /// Start when idle, wait for the turn's end otherwise.
    Queue,
}

impl TurnMode {
    /// Whether this is what an absent `mode` means.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

impl Op {
    /// The tag, as written in `op`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NewSession(_) => "new_session",
            Self::Import(_) => "import",
            Self::Prompt { .. } => "prompt",
            Self::Cancel { .. } => "cancel",
            Self::AnswerPermission { .. } => "answer_permission",
            Self::AnswerElicitation { .. } => "answer_elicitation",
            Self::SetExecutionPolicy { .. } => "set_execution_policy",
            Self::SetPermissionMode { .. } => "set_permission_mode",
            Self::SetSandbox { .. } => "set_sandbox",
            Self::RemoveRule { .. } => "remove_rule",
            Self::SetModel { .. } => "set_model",
            Self::SetConfigOption { .. } => "set_config_option",
            Self::TurnInput(_) => "turn_input",
            Self::ThreadSettings { .. } => "thread_settings",
            Self::Fork { .. } => "fork",
            Self::Revert { .. } => "revert",
            Self::QueueAdd { .. } => "queue_add",
            Self::QueueEdit { .. } => "queue_edit",
            Self::QueueRemove { .. } => "queue_remove",
            Self::QueueMove { .. } => "queue_move",
            Self::Rename { .. } => "rename",
            Self::Archive { .. } => "archive",
            Self::Unarchive { .. } => "unarchive",
            Self::Delete { .. } => "delete",
            Self::Compact { .. } => "compact",
            Self::DiscardWorktree { .. } => "discard_worktree",
        }
    }

    /// Whether it says which programs the server starts: that is for owners.
    #[must_use]
    pub fn says_what_is_started(&self) -> bool {
        matches!(self, Self::NewSession(new) if new.launch.is_some())
    }

    /// The session it is about; none for `new_session` and `import`.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::NewSession(_) | Self::Import(_) => None,
            Self::TurnInput(input) => Some(&input.session),
            Self::Prompt { session, .. }
            | Self::Cancel { session, .. }
            | Self::AnswerPermission { session, .. }
            | Self::AnswerElicitation { session, .. }
            | Self::SetExecutionPolicy { session, .. }
            | Self::SetPermissionMode { session, .. }
            | Self::SetSandbox { session, .. }
            | Self::RemoveRule { session, .. }
            | Self::SetModel { session, .. }
            | Self::SetConfigOption { session, .. }
            | Self::ThreadSettings { session, .. }
            | Self::Fork { session, .. }
            | Self::Revert { session, .. }
            | Self::QueueAdd { session, .. }
            | Self::QueueEdit { session, .. }
            | Self::QueueRemove { session, .. }
            | Self::QueueMove { session, .. }
            | Self::Rename { session, .. }
            | Self::Archive { session, .. }
            | Self::Unarchive { session, .. }
            | Self::Delete { session, .. }
            | Self::Compact { session, .. }
            | Self::DiscardWorktree { session, .. } => Some(session),
        }
    }

    /// The submitter's correlation id. The `request_id` of an answer names the request it answers, so it is none.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::NewSession(new) => new.request_id.as_deref(),
            Self::Import(wish) => wish.request_id.as_deref(),
            Self::TurnInput(input) => input.request_id.as_deref(),
            Self::Cancel { .. }
            | Self::AnswerPermission { .. }
            | Self::AnswerElicitation { .. }
            | Self::SetPermissionMode { .. }
            | Self::SetSandbox { .. }
            | Self::SetModel { .. }
            | Self::SetConfigOption { .. } => None,
            Self::Prompt { request_id, .. }
            | Self::SetExecutionPolicy { request_id, .. }
            | Self::RemoveRule { request_id, .. }
            | Self::ThreadSettings { request_id, .. }
            | Self::Fork { request_id, .. }
            | Self::Revert { request_id, .. }
            | Self::QueueAdd { request_id, .. }
            | Self::QueueEdit { request_id, .. }
            | Self::QueueRemove { request_id, .. }
            | Self::QueueMove { request_id, .. }
            | Self::Rename { request_id, .. }
            | Self::Archive { request_id, .. }
            | Self::Unarchive { request_id, .. }
            | Self::Delete { request_id, .. }
            | Self::Compact { request_id, .. }
            | Self::DiscardWorktree { request_id, .. } => request_id.as_deref(),
        }
    }
}

/// A choice as string; a JSON boolean is read as `true` or `false`.
pub(crate) fn choice_or_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a choice as string, or a boolean")]
    enum ChoiceOrSwitch {
        Choice(String),
        Switch(bool),
    }
    Ok(match ChoiceOrSwitch::deserialize(deserializer)? {
        ChoiceOrSwitch::Choice(choice) => choice,
        ChoiceOrSwitch::Switch(on) => on.to_string(),
    })
}
