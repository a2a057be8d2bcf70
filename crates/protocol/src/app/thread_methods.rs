//! Starting, joining, reading and leaving a thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::launch::{LaunchParams, ThreadLaunch};
use super::policy::{ApprovalsReviewer, AskForApproval, SandboxMode, SandboxPolicy};
use super::thread::Thread;
use crate::lenient::null_as_default;
use crate::ops::{BaselineKind, Policy};

/// Params of `thread/start`. All of them may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartParams {
    /// The provider's name; absent: the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// The agent's own model id; `default` leaves it to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// An existing directory; relative ones start from the connection's base directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    /// Accepted in any form and answered `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// An id of `permissionProfile/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Additional workspace roots, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Overrides in the words of the client's own configuration: `model_reasoning_effort`; and `mcp_servers.NAME` (nested, or
    /// with dots in the keys), MCP servers of the thread's own, which take an owner because they start programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// In memory only: not in lists, not found, gone when it unloads or the server ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_start_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<String>,
    /// Only `local` exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<TurnEnvironment>>,
    /// Ext: work in a git worktree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeParams>,
    /// Ext: wins over `approvalPolicy` and `sandbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Ext: what of the provider's launch is another for this thread. Takes an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchParams>,
    /// Ext: comes back in `thread/started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// An environment a turn may run in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnvironment {
    pub environment_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Ext: what a worktree is to be made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeParams {
    #[serde(default)]
    pub base: BaselineKind,
    /// The full commit id the client displayed. If the ref has moved since, the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
}

/// What a client learns when it starts, resumes or forks a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenedThread {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub cwd: String,
    /// Additional workspace roots.
    #[serde(default, deserialize_with = "null_as_default")]
    pub runtime_workspace_roots: Vec<String>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    #[serde(default)]
    pub service_tier: Option<String>,
    /// Files the agent is instructed by.
    #[serde(default, deserialize_with = "null_as_default")]
    pub instruction_sources: Vec<String>,
    /// Ext: the newest fact in `thread`. What follows on this connection is newer.
    #[serde(default)]
    pub snapshot_seq: u64,
    /// Ext: the place in the thread's stream where this connection joined.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Ext: how its agent is started where that differs from its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<ThreadLaunch>,
}

/// Result of `thread/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartResult {
    #[serde(flatten)]
    pub opened: OpenedThread,
}

/// Params of `thread/resume`. Overrides apply only if nobody else is subscribed and no turn runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeParams {
    pub thread_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// Leave `thread.turns` empty.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
    /// Ext: answer only what followed this cursor, if it is of this server life and still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_cursor: Option<String>,
    /// Ext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Ext: `env` gives again the values of variables that the thread was started with, for the next start of its agent;
    /// nothing else is used. Takes an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchParams>,
}

/// Result of `thread/resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResumeResult {
    #[serde(flatten)]
    pub opened: OpenedThread,
    /// Where `thread/turns/list` goes on to older turns; `null` if `thread.turns` has all.
    #[serde(default)]
    pub turns_backwards_cursor: Option<String>,
    /// Where `thread/items/list` goes on to the items before those of `thread.turns`; `null` if there are none.
    #[serde(default)]
    pub items_backwards_cursor: Option<String>,
    /// Ext: `thread.turns` was left out, because what follows `afterCursor` is delivered instead.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub continued: bool,
}

/// Params of `thread/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadParams {
    pub thread_id: String,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub include_turns: bool,
}

/// Result of `thread/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadReadResult {
    pub thread: Thread,
    /// Ext: the newest fact in `thread`.
    #[serde(default)]
    pub snapshot_seq: u64,
    /// Ext: how its agent is started where that differs from its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<ThreadLaunch>,
}

/// Params of `thread/unsubscribe`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribeParams {
    pub thread_id: String,
}

/// Result of `thread/unsubscribe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribeResult {
    pub status: ThreadUnsubscribeStatus,
}

/// What `thread/unsubscribe` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadUnsubscribeStatus {
    NotLoaded,
    NotSubscribed,
    Unsubscribed,
}
