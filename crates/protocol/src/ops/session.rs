//! A session as lists and snapshots show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::activity::Activity;
use super::policy::{PermissionMode, SandboxLevel, SessionRule};
use super::provider::Provider;

/// One session of a list. Every key is always written, absent values as `null`; documents of older servers that lack a
/// field with a default are read all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSnapshot {
    pub id: String,
    pub title: String,
    #[serde(default)]
    pub title_origin: TitleOrigin,
    #[serde(default)]
    pub pinned: bool,
    #[serde(default)]
    pub archived: bool,
    #[serde(default)]
    pub activity: Activity,
    pub provider: Provider,
    #[serde(default)]
    pub model: Option<String>,
    /// The directory the session was started for; differs from `cwd` in a worktree session.
    #[serde(default)]
    pub project_path: Option<String>,
    /// Where the agent works.
    pub cwd: String,
    /// Additional workspace roots.
    #[serde(default)]
    pub roots: Vec<String>,
    #[serde(default)]
    pub worktree_path: Option<String>,
    /// The commit the worktree was made from; never resolved again.
    #[serde(default)]
    pub worktree_baseline: Option<WorktreeBaseline>,
    /// Whether the session's worktree was removed; its history stays.
    #[serde(default)]
    pub worktree_discarded: bool,
    pub permission_mode: PermissionMode,
    #[serde(default)]
    pub sandbox_policy: SandboxLevel,
    /// Ext: nobody is asked; what the mode would ask is rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_ask: bool,
    /// What "allow for this session" answers left.
    #[serde(default)]
    pub rules: Vec<SessionRule>,
    /// The agent's own id of the conversation.
    #[serde(default)]
    pub acp_session_id: Option<String>,
    /// The session this one was forked from.
    #[serde(default)]
    pub forked_from: Option<String>,
    /// Always `inherit`: this server has no memory of its own, and existing clients require the field.
    #[serde(default)]
    pub memory_read: MemoryAccess,
    /// Always `inherit`, like `memory_read`.
    #[serde(default)]
    pub memory_write: MemoryAccess,
    /// Unix time in milliseconds.
    pub created_at: i64,
    /// Unix time in milliseconds of the last change; 0 if unknown.
    #[serde(default)]
    pub updated_at: i64,
}

/// Where a title came from. An automatic title never replaces a manual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TitleOrigin {
    #[default]
    Default,
    Automatic,
    Manual,
}

/// Whether a session may use the memory of a server that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAccess {
    #[default]
    Inherit,
    Allow,
    Deny,
}

/// Which local ref a worktree is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// The HEAD of the selected checkout.
    #[default]
    Current,
    /// What `refs/remotes/origin/HEAD` names locally; never fetched, never guessed.
    OriginDefault,
}

/// The commit a worktree was made from, as resolved at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeBaseline {
    pub kind: BaselineKind,
    #[serde(rename = "ref")]
    pub reference: String,
    /// The full object id.
    pub sha: String,
    /// For people: ref and short id.
    pub display: String,
}

/// How the agent of a forked session knows what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForkContext {
    /// It goes on with a copy that the source's agent made of its own conversation.
    Agent,
    /// It begins a new conversation, and its first prompt comes with the newest part of the history.
    History,
}
