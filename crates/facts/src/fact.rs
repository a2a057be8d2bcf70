//! The stored unit of truth and every body it can have.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Activity, AdditionalContext, ContextWindow, DocBlock, Launch, PendingInput, PermissionResolved, Policy,
    Prompt, Provider, Seq, SessionId, SessionRule, SessionSource, ToolCall, TurnId,
};

/// One committed fact of a session's append-only log.
#[derive(Clone, PartialEq, Debug)]
pub struct Fact {
    /// The session.
    pub session: SessionId,
    /// The turn it belongs to; facts between turns have none, late ones that of the turn before.
    pub turn: Option<TurnId>,
    /// Its number.
    pub seq: Seq,
    /// The last number it covers; greater than `seq` only in a compacted row.
    pub through_seq: Seq,
    /// The first seq of the item it belongs to; the item's wire id is `i<item_seq>`.
    pub item_seq: Option<Seq>,
    /// When, Unix milliseconds.
    pub at_ms: i64,
    /// What.
    pub body: FactBody,
}

impl Fact {
    /// Whether this fact opens its item.
    #[must_use]
    pub fn starts_item(&self) -> bool {
        self.item_seq == Some(self.seq)
    }

    /// Whether the fact is part of the Op/Event protocol's transcript.
    #[must_use]
    pub fn is_transcript(&self) -> bool {
        matches!(
            self.body,
            FactBody::Prompt(_)
                | FactBody::AgentText(_)
                | FactBody::AgentThought(_)
                | FactBody::ToolCall(_)
                | FactBody::Plan(_)
        )
    }
}

/// What a fact says. The tag is what the store keeps in its `kind` column too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FactBody {
    /// The session exists.
    SessionCreated(Box<SessionCreated>),
    /// It has a (new) title.
    TitleChanged(TitleChanged),
    /// Its activity changed; the whole snapshot.
    Activity(Activity),
    /// A prompt was accepted.
    Prompt(Box<Prompt>),
    /// A chunk of an answer.
    AgentText(AgentText),
    /// A chunk of a thought.
    AgentThought(AgentText),
    /// A tool call began or changed.
    ToolCall(Box<ToolCall>),
    /// A chunk of a command's output.
    ToolOutput(ToolOutput),
    /// The plan, whole.
    Plan(Plan),
    /// An input was parked; it is in the activity before it as well.
    PermissionRequested(Box<PendingInput>),
    /// An input has its answer, or a policy decided without asking.
    PermissionResolved(Box<PermissionResolved>),
    /// A session rule was taken back.
    RuleRemoved {
        /// Which one.
        rule: SessionRule,
    },
    /// The policy changed.
    PolicyChanged(PolicyChanged),
    /// Other settings changed.
    SettingsChanged(Box<SettingsChanged>),
    /// The agent's own id of its conversation, for resuming it. Shown to nobody.
    AgentSession {
        /// ACP `sessionId`.
        id: String,
    },
    /// The diff of the turn so far.
    TurnDiff(TurnDiff),
    /// Rolling token usage of the session.
    Usage(Usage),
    /// The context was compacted.
    ContextCompaction(ContextCompaction),
    /// The turn ended.
    TurnEnded(Box<TurnEnded>),
    /// Something went wrong that did not end a turn, or could not start one.
    Warning(Warning),
    /// Turns were taken back.
    Reverted(Reverted),
    /// The session was put into, or taken out of, the archive.
    Archived {
        /// Which of the two.
        archived: bool,
    },
    /// The queue of follow-up prompts, whole.
    QueueChanged(QueueChanged),
    /// The checkout is gone, the history stays.
    WorktreeDiscarded(WorktreeDiscarded),
}

impl FactBody {
    /// The tag, as stored.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SessionCreated(_) => "session_created",
            Self::TitleChanged(_) => "title_changed",
            Self::Activity(_) => "activity",
            Self::Prompt(_) => "prompt",
            Self::AgentText(_) => "agent_text",
            Self::AgentThought(_) => "agent_thought",
            Self::ToolCall(_) => "tool_call",
            Self::ToolOutput(_) => "tool_output",
            Self::Plan(_) => "plan",
            Self::PermissionRequested(_) => "permission_requested",
            Self::PermissionResolved(_) => "permission_resolved",
            Self::RuleRemoved { .. } => "rule_removed",
            Self::PolicyChanged(_) => "policy_changed",
            Self::SettingsChanged(_) => "settings_changed",
            Self::AgentSession { .. } => "agent_session",
            Self::TurnDiff(_) => "turn_diff",
            Self::Usage(_) => "usage",
            Self::ContextCompaction(_) => "context_compaction",
            Self::TurnEnded(_) => "turn_ended",
            Self::Warning(_) => "warning",
            Self::Reverted(_) => "reverted",
            Self::Archived { .. } => "archived",
            Self::QueueChanged(_) => "queue_changed",
            Self::WorktreeDiscarded(_) => "worktree_discarded",
        }
    }

    /// Whether the commit that holds this must reach the disk before it is shown.
    #[must_use]
    pub fn is_boundary(&self) -> bool {
        matches!(
            self,
            Self::SessionCreated(_)
                | Self::Prompt(_)
                | Self::PermissionRequested(_)
                | Self::PermissionResolved(_)
                | Self::RuleRemoved { .. }
                | Self::PolicyChanged(_)
                | Self::SettingsChanged(_)
                | Self::TurnEnded(_)
                | Self::Reverted(_)
                | Self::Archived { .. }
                | Self::QueueChanged(_)
                | Self::WorktreeDiscarded(_)
        )
    }

    /// Whether it is a chunk that joins with the chunk before it of the same item.
    #[must_use]
    pub fn is_chunk(&self) -> bool {
        match self {
            Self::AgentText(_) | Self::AgentThought(_) => true,
            Self::ToolOutput(output) => !output.replace,
            _ => false,
        }
    }
}

/// Where a session came from and what it was set up with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionCreated {
    /// Its provider.
    pub provider: Provider,
    /// Working directory, absolute; inside the checkout for a worktree session.
    pub cwd: PathBuf,
    /// Additional workspace roots, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// The directory the user selected.
    pub project_path: PathBuf,
    /// The checkout made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// Initial policy.
    pub policy: Policy,
    /// Initial model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Initial effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Instructions for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What made it.
    pub source: SessionSource,
    /// The session it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<SessionId>,
    /// Of a fork: how its agent knows what was said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_context: Option<ForkContext>,
    /// Lives in memory only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
    /// How its agent is started where that differs from its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Box<Launch>>,
}

/// How the agent of a forked session knows what was said before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkContext {
    /// It goes on with a copy that the source's agent made of its own conversation.
    Agent,
    /// It begins a new conversation and is told the newest part of the history.
    History,
}

/// A checkout made for a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worktree {
    /// Its root, absolute.
    pub path: PathBuf,
    /// Its branch, short.
    pub branch: String,
    /// The commit it was made from.
    pub baseline: WorktreeBaseline,
}

/// The commit a worktree was made from: provenance, never resolved again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorktreeBaseline {
    /// `current` or `origin_default`.
    pub kind: String,
    /// The ref as resolved then.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Full sha.
    pub sha: String,
    /// For people: `origin/main @ 01234567`.
    pub display: String,
}

/// Who chose a title; later ones in this order win over earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleOrigin {
    /// Nobody yet.
    #[default]
    Default,
    /// From the first prompt.
    Automatic,
    /// The agent.
    Agent,
    /// A person; wins for good.
    Manual,
}

/// A new title.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TitleChanged {
    /// The title.
    pub title: String,
    /// Who chose it.
    pub origin: TitleOrigin,
}

/// A chunk of an answer or of a thought.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentText {
    /// Equal for the chunks of one item, never empty.
    pub message_id: String,
    /// The chunk.
    pub text: String,
}

/// A chunk of a command's output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The agent's tool call id.
    pub id: String,
    /// The chunk.
    pub text: String,
    /// Whether it replaces what came before, rather than extending it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// A plan, whole.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Its entries.
    pub entries: Vec<PlanEntry>,
    /// The agent's own text of it, if it came as Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
}

/// A line of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// ACP priority (`high`, `medium`, `low`), where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a plan's entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// The policy now in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyChanged {
    /// Both axes.
    pub policy: Policy,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Settings now in force; absent fields did not change.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SettingsChanged {
    /// The agent's model id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Working directory, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Additional roots, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<PathBuf>>,
    /// Agent options by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Value>,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The unified diff of the turn so far.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnDiff {
    /// Git style, bounded.
    pub diff: String,
    /// Whether it was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Whether the state before the turn is not fully known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The session's rolling sum of tokens, as prompt results report them. Never the context window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from a cache, part of the input.
    #[serde(default)]
    pub cached_input_tokens: u64,
    /// Output tokens spent on reasoning, part of the output.
    #[serde(default)]
    pub reasoning_output_tokens: u64,
    /// Tokens of the last prompt alone: input and output.
    #[serde(default)]
    pub last_total_tokens: u64,
}

/// A compaction of the agent's context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContextCompaction {
    /// The agent's id of it.
    pub id: String,
    /// How far it is.
    pub status: CompactionStatus,
    /// What the agent kept of the conversation, in its own words, bounded; absent means unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// How far a compaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStatus {
    /// Going on.
    InProgress,
    /// Done.
    Completed,
    /// Failed or given up.
    Failed,
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Open.
    InProgress,
    /// The agent finished.
    Completed,
    /// Somebody, or a stop of the server, cut it off.
    Interrupted,
    /// It could not go on.
    Failed,
}

/// The end of a turn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TurnEnded {
    /// How.
    pub status: TurnStatus,
    /// ACP's stop reason, unknown ones as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Why a turn failed, or what cut it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// `request_id` of the prompt that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Tokens as they stood, if the turn brought news of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensAtEnd>,
}

/// Token usage and context window when a turn ended. The window is told by signals, which leave no row, so this is what a
/// reloaded turn knows of it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TokensAtEnd {
    /// The session's rolling sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How full the context was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<ContextWindow>,
}

/// What went wrong, for people and programs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Stable snake_case word (`agent_failed`, `agent_auth_required`, `server_stopped`, …).
    pub reason: String,
    /// For people.
    pub message: String,
    /// Whether the same prompt may work when sent again.
    pub retryable: bool,
    /// Exit status, stderr tail, login methods and the like.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
}

/// Something to tell people that does not change the turn's state. `terminal` marks a request that could not begin.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Warning {
    /// For people.
    pub message: String,
    /// Stable snake_case word.
    pub reason: String,
    /// Whether an operation stopped, as opposed to something that merely went less well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// `request_id` of the Op that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Turns taken back from the conversation. Nothing is deleted; projections leave out what it covers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reverted {
    /// The first turn that is gone.
    pub before_turn: TurnId,
    /// Seq of that turn's first fact: facts from here to this one are covered.
    pub from_seq: Seq,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The queue of follow-up prompts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct QueueChanged {
    /// In order of running.
    pub entries: Vec<QueuedPrompt>,
    /// Whether it waits for the next accepted prompt, after an interrupted or failed turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Why it is paused. Absent also in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<QueuePause>,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl QueueChanged {
    /// Whether nothing waits and nothing is held up: the state of a session that was never queued for.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.entries.is_empty() && !self.paused
    }

    /// The queue as it is after a turn that did not complete; `None` if nothing waits that could be held up.
    #[must_use]
    pub fn held_up(&self, by: QueuePause) -> Option<Self> {
        (!self.paused && !self.entries.is_empty()).then(|| self.halted(by))
    }

    /// The queue as it is when nothing of it starts by itself any more.
    #[must_use]
    pub fn halted(&self, by: QueuePause) -> Self {
        Self { paused: true, paused_by: Some(by), ..self.clone() }
    }

    /// Follow-ups start again.
    pub fn goes_on(&mut self) {
        (self.paused, self.paused_by) = (false, None);
    }
}

/// Why a queue is paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePause {
    /// Somebody interrupted the turn.
    Interrupted,
    /// The turn failed.
    Failed,
    /// The server stopped before the turn finished.
    Restarted,
    /// A prompt of the queue could not start.
    NotStarted,
}

/// A follow-up prompt that waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QueuedPrompt {
    /// The id its turn will have.
    pub turn: TurnId,
    /// The prompt.
    pub blocks: Vec<DocBlock>,
    /// The client's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Client metadata of the turn, passed to the agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_metadata: BTreeMap<String, String>,
    /// Additional context by source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_context: BTreeMap<String, AdditionalContext>,
    /// Settings that hold from its turn on, as the Op gave them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// The turn that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn: Option<TurnId>,
    /// The turn that the chain of causes began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_turn: Option<TurnId>,
    /// W3C `traceparent` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// W3C `tracestate` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// A discarded checkout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorktreeDiscarded {
    /// Where it was.
    pub path: PathBuf,
    /// Whether there was something to remove.
    pub removed_checkout: bool,
    /// The branch that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_branch: Option<String>,
}
