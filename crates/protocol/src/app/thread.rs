//! A thread: one conversation with one agent in one directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::turn::Turn;
use crate::lenient::null_as_default;
use crate::ops::{Activity, Policy, WorktreeBaseline};

/// One thread. In lists and notifications `turns` is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    pub id: String,
    /// Equal to `id`.
    pub session_id: String,
    /// The beginning of the first prompt, at most 200 characters.
    pub preview: String,
    /// The title, once there is one.
    #[serde(default)]
    pub name: Option<String>,
    pub status: ThreadStatus,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
    /// Unix seconds of the last turn.
    #[serde(default)]
    pub recency_at: Option<i64>,
    pub cwd: String,
    /// The provider's name.
    pub model_provider: String,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    pub source: SessionSource,
    #[serde(default)]
    pub thread_source: Option<String>,
    #[serde(default)]
    pub originator: Option<String>,
    /// The version of this server.
    pub cli_version: String,
    /// In memory only: not in lists, not found, gone when it unloads or the server ends.
    pub ephemeral: bool,
    #[serde(default)]
    pub history_mode: ThreadHistoryMode,
    #[serde(default)]
    pub forked_from_id: Option<String>,
    #[serde(default)]
    pub parent_thread_id: Option<String>,
    /// A file of its own, which threads here do not have: always `null`.
    #[serde(default)]
    pub path: Option<String>,
    /// Always `null`.
    #[serde(default)]
    pub project_id: Option<String>,
    #[serde(default)]
    pub git_info: Option<GitInfo>,
    pub turns: Vec<Turn>,
    /// Ext: the directory the thread was started for; differs from `cwd` in a worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// Ext: the thread's own worktree; written as `null` if it has none.
    #[serde(default)]
    pub worktree: Option<ThreadWorktree>,
    /// Ext: the policy in force.
    #[serde(default)]
    pub policy: Policy,
    /// Ext: the same value as on the Op/Event face.
    #[serde(default)]
    pub activity: Activity,
    /// Ext: cwd and additional workspace roots.
    #[serde(default, deserialize_with = "null_as_default")]
    pub roots: Vec<String>,
    /// Ext: whether it is archived.
    #[serde(default, deserialize_with = "null_as_default")]
    pub archived: bool,
}

/// What a thread is doing, as existing clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ThreadStatus {
    NotLoaded,
    Idle,
    /// The last turn failed.
    SystemError,
    Active {
        active_flags: Vec<ThreadActiveFlag>,
    },
}

/// What an active thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadActiveFlag {
    WaitingOnApproval,
    WaitingOnUserInput,
}

/// How much of a thread's history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadHistoryMode {
    #[default]
    Legacy,
    Paginated,
}

/// What kind of client started a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionSource {
    Cli,
    Vscode,
    Exec,
    AppServer,
    Unknown,
    Custom(String),
}

/// The state of the repository a thread started in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitInfo {
    #[serde(default)]
    pub sha: Option<String>,
    #[serde(default)]
    pub branch: Option<String>,
    #[serde(default)]
    pub origin_url: Option<String>,
}

/// Ext: a worktree that belongs to a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadWorktree {
    pub path: String,
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit it was made from.
    #[serde(default)]
    pub baseline: Option<WorktreeBaseline>,
}
