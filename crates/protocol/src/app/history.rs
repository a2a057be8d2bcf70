//! What is done to a thread's history as a whole: forked, taken back, archived, deleted, compacted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::policy::{AskForApproval, SandboxMode};
use super::thread::Thread;
use super::thread_methods::OpenedThread;
use crate::lenient::null_as_default;
use crate::ops::{ForkContext, Policy};

/// Params of `thread/fork`. What is absent is as in the thread that is forked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadForkParams {
    /// The thread whose history the new one begins with.
    pub thread_id: String,
    /// The last turn that is taken along; absent: all turns that have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<String>,
    /// Leave `thread.turns` of the result empty.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
    /// The agent's own model id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Another provider; its agent is told what was said so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
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
    /// Overrides in the words of the client's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<String>,
    /// In memory only: not in lists, not found, gone when it unloads or the server ends.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_source: Option<String>,
    /// Ext: wins over `approvalPolicy` and `sandbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Ext: comes back in `thread/started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Result of `thread/fork`: the new thread, to which the caller is subscribed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadForkResult {
    #[serde(flatten)]
    pub opened: OpenedThread,
    /// Ext: where `thread/turns/list` goes on to older turns; absent if `thread.turns` has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_backwards_cursor: Option<String>,
    /// Ext: how the new thread's agent knows what was said: by a copy of the agent's own conversation, or because it is told.
    pub context: ForkContext,
}

/// Params of `thread/revert`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRevertParams {
    pub thread_id: String,
    /// The first turn that is taken back; all later ones go with it.
    pub before_turn_id: String,
}

/// Result of `thread/revert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRevertResult {
    /// The thread with the newest turns that are left.
    pub thread: Thread,
    /// Where `thread/turns/list` goes on to older turns; `null` if `thread.turns` has all.
    #[serde(default)]
    pub turns_backwards_cursor: Option<String>,
    /// Always `null`.
    #[serde(default)]
    pub items_backwards_cursor: Option<String>,
    /// Ext: the newest fact in `thread`.
    #[serde(default)]
    pub snapshot_seq: u64,
}

/// Params of `thread/archive`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchiveParams {
    pub thread_id: String,
}

/// Params of `thread/unarchive`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchiveParams {
    pub thread_id: String,
}

/// Result of `thread/unarchive`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchiveResult {
    /// The thread without turns.
    pub thread: Thread,
}

/// Params of `thread/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeleteParams {
    pub thread_id: String,
    /// Ext: also have the agent delete its own session, behind the thread. Otherwise that stays where the agent keeps it, and
    /// may be adopted again.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub delete_agent_session: bool,
}

/// Params of `thread/compact/start`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCompactStartParams {
    pub thread_id: String,
}
