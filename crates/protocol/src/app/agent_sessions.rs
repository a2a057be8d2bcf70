//! Ext: an agent's own earlier sessions, listed and adopted as threads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::thread_methods::OpenedThread;
use crate::ops::Policy;

/// Params of `provider/sessions/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSessionsListParams {
    /// The provider's name.
    pub provider: String,
    /// Only sessions of this directory; relative ones start from the connection's base directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `nextCursor` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `provider/sessions/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSessionsListResult {
    /// In the agent's order.
    pub data: Vec<ProviderSession>,
    /// The agent's own cursor, if it has more; `null` if not.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A session that an agent keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSession {
    /// The agent's own id of it.
    pub session_id: String,
    /// Where it works, if the agent says so.
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When something last happened in it, Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<i64>,
    /// The thread that goes on with it, if there is one: it cannot be adopted again while that thread is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Params of `thread/import`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadImportParams {
    /// The provider's name.
    pub provider: String,
    /// The agent's own id of the session.
    pub session_id: String,
    /// Where the thread works: an existing directory. Absent: where the agent says that the session works. Needed for agents
    /// that do not list their sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The policy of the first turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Comes back in `thread/started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Result of `thread/import`: the thread, as `thread/resume` would show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadImportResult {
    #[serde(flatten)]
    pub opened: OpenedThread,
    /// Where `thread/turns/list` goes on to older turns; `null` if `thread.turns` has all.
    #[serde(default)]
    pub turns_backwards_cursor: Option<String>,
    /// Where `thread/items/list` goes on to the items before those of `thread.turns`; `null` if there are none.
    #[serde(default)]
    pub items_backwards_cursor: Option<String>,
    /// What the thread lacks of the agent's session, for people; the same is told as `warning`.
    #[serde(default)]
    pub warnings: Vec<String>,
}
