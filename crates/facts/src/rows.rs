//! Rows derived from facts, kept beside them for lists and for loading a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Activity, Failure, Policy, Provider, QueueChanged, Seq, SessionId, SessionRule, TitleOrigin, TurnContext,
    TurnId, TurnStatus, Usage, Worktree,
};

/// What made a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionSource {
    /// `signalbox run`.
    Cli,
    /// Any other client.
    #[default]
    App,
}

/// A session as lists and the actor see it. Everything in it follows from its facts.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Its provider.
    pub provider: Provider,
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// Additional roots, absolute.
    pub roots: Vec<PathBuf>,
    /// The directory the user selected.
    pub project_path: PathBuf,
    /// Its checkout.
    pub worktree: Option<Worktree>,
    /// Whether that checkout was discarded.
    pub worktree_discarded: bool,
    /// Policy in force.
    pub policy: Policy,
    /// The agent's model id, as chosen.
    pub model: Option<String>,
    /// Reasoning effort, as chosen.
    pub effort: Option<String>,
    /// Agent options, as chosen.
    pub options: BTreeMap<String, Value>,
    /// Instructions for the agent.
    pub instructions: Option<String>,
    /// Title; empty until there is one.
    pub title: String,
    /// Who chose it.
    pub title_origin: TitleOrigin,
    /// At most 200 scalars of the first prompt.
    pub preview: String,
    /// What made it.
    pub source: SessionSource,
    /// What it was forked from.
    pub forked_from: Option<SessionId>,
    /// Lives in memory only.
    pub ephemeral: bool,
    /// In the archive.
    pub archived: bool,
    /// ACP `sessionId` of the last agent conversation.
    pub agent_session: Option<String>,
    /// Activity.
    pub activity: Activity,
    /// Rolling token usage.
    pub usage: Option<Usage>,
    /// Follow-up prompts.
    pub queue: Option<QueueChanged>,
    /// Rules kept from "allow for this session".
    pub rules: Vec<SessionRule>,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// Time of the last turn's start or end, Unix milliseconds.
    pub updated_at_ms: i64,
    /// High-water mark of its facts; never derived from the rows.
    pub last_seq: Seq,
}

/// A turn as lists see it.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnRow {
    /// Its id.
    pub id: TurnId,
    /// Its session.
    pub session: SessionId,
    /// Seq of the first fact of the commit that opened it (its activity fact); its facts begin here.
    pub first_seq: Seq,
    /// Seq of its `turn_ended` fact.
    pub end_seq: Option<Seq>,
    /// How it ended.
    pub status: TurnStatus,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Settings it ran with.
    pub context: TurnContext,
    /// Whether a revert covers it.
    pub reverted: bool,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// Unix milliseconds.
    pub ended_at_ms: Option<i64>,
}
