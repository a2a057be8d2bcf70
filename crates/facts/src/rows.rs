//! Rows derived from facts, kept beside them for lists and for loading a session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Activity, Fact, FactBody, Failure, Launch, Policy, Provider, QueueChanged, Seq, SessionId, SessionRule,
    TitleOrigin, TurnContext, TurnId, TurnStatus, Usage, Worktree,
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
    /// How its agent is started where that differs from its provider.
    pub launch: Option<Box<Launch>>,
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
    /// Time of the last turn's start or end, Unix milliseconds; never before `created_at_ms`, because a fork's turns are
    /// older than itself.
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

/// Scalars of a preview.
const PREVIEW_SCALARS: usize = 200;

impl SessionRow {
    /// The row that a `session_created` fact makes; `None` for any other fact.
    #[must_use]
    pub fn created(fact: &Fact) -> Option<Self> {
        let FactBody::SessionCreated(created) = &fact.body else { return None };
        Some(Self {
            id: fact.session,
            provider: created.provider.clone(),
            cwd: created.cwd.clone(),
            roots: created.roots.clone(),
            project_path: created.project_path.clone(),
            worktree: created.worktree.clone(),
            worktree_discarded: false,
            policy: created.policy,
            model: created.model.clone(),
            effort: created.effort.clone(),
            options: BTreeMap::new(),
            instructions: created.instructions.clone(),
            title: String::new(),
            title_origin: TitleOrigin::Default,
            preview: String::new(),
            source: created.source,
            forked_from: created.forked_from,
            ephemeral: created.ephemeral,
            launch: created.launch.clone(),
            archived: false,
            agent_session: None,
            activity: Activity::default(),
            usage: None,
            queue: None,
            rules: Vec::new(),
            created_at_ms: fact.at_ms,
            updated_at_ms: fact.at_ms,
            last_seq: fact.through_seq,
        })
    }

    /// Takes in a later fact. This is the one definition of what follows from a fact for its session's row.
    pub fn apply(&mut self, fact: &Fact) {
        self.last_seq = self.last_seq.max(fact.through_seq);
        match &fact.body {
            FactBody::TitleChanged(changed) => {
                self.title.clone_from(&changed.title);
                self.title_origin = changed.origin;
            }
            FactBody::Activity(activity) => self.activity = activity.clone(),
            FactBody::Prompt(prompt) => {
                self.updated_at_ms = fact.at_ms.max(self.created_at_ms);
                if self.preview.is_empty() {
                    self.preview = prompt.display.chars().take(PREVIEW_SCALARS).collect();
                }
            }
            FactBody::TurnEnded(_) => self.updated_at_ms = fact.at_ms.max(self.created_at_ms),
            FactBody::PolicyChanged(changed) => self.policy = changed.policy,
            FactBody::SettingsChanged(changed) => {
                let changed = (**changed).clone();
                self.model = changed.model.or_else(|| self.model.take());
                self.effort = changed.effort.or_else(|| self.effort.take());
                self.cwd = changed.cwd.unwrap_or_else(|| std::mem::take(&mut self.cwd));
                self.roots = changed.roots.unwrap_or_else(|| std::mem::take(&mut self.roots));
                self.options.extend(changed.options);
            }
            FactBody::AgentSession { id } => self.agent_session = Some(id.clone()),
            FactBody::Usage(usage) => self.usage = Some(*usage),
            FactBody::QueueChanged(queue) => {
                let queue = QueueChanged { request_id: None, ..queue.clone() };
                self.queue = Some(queue).filter(|queue| !queue.is_plain());
            }
            FactBody::PermissionResolved(resolved) => {
                if let Some(rule) = &resolved.kept_rule
                    && !self.rules.contains(rule)
                {
                    self.rules.push(rule.clone());
                }
            }
            FactBody::RuleRemoved { rule } => self.rules.retain(|kept| kept != rule),
            // What the agent remembers is no longer what the session holds.
            FactBody::Reverted(_) => self.agent_session = None,
            FactBody::Archived { archived } => self.archived = *archived,
            FactBody::WorktreeDiscarded(_) => self.worktree_discarded = true,
            FactBody::SessionCreated(_)
            | FactBody::AgentText(_)
            | FactBody::AgentThought(_)
            | FactBody::ToolCall(_)
            | FactBody::ToolOutput(_)
            | FactBody::Plan(_)
            | FactBody::PermissionRequested(_)
            | FactBody::TurnDiff(_)
            | FactBody::ContextCompaction(_)
            | FactBody::Warning(_) => {}
        }
    }

    /// The directories that belong to the session: its cwd and the additional roots.
    #[must_use]
    pub fn all_roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.roots).cloned().collect()
    }
}
