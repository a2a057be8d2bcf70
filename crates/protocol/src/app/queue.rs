//! `thread/queue/*`: follow-ups that wait for the running turn to end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::UserInput;
use super::turn_methods::QueuedSubmission;

/// Params of `thread/queue/add`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddParams {
    pub thread_id: String,
    pub input: Vec<UserInput>,
    /// Makes the request exactly-once in its thread, also across restarts.
    pub client_user_message_id: String,
    /// Kept on the turn and passed to the agent as metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// Result of `thread/queue/add`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueAddResult {
    pub queued_submission: QueuedSubmission,
}

/// Params of `thread/queue/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListParams {
    pub thread_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `thread/queue/list`, in the order of running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueListResult {
    pub data: Vec<QueuedSubmission>,
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// Ext: whether it waits for the next accepted prompt, because the last turn did not complete.
    #[serde(default)]
    pub paused: bool,
}

/// Params of `thread/queue/update`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateParams {
    pub thread_id: String,
    pub queued_submission_id: String,
    /// What takes the place of the follow-up's input.
    pub input: Vec<UserInput>,
    /// The metadata from now on; absent: as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
}

/// Result of `thread/queue/update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueUpdateResult {
    pub queued_submission: QueuedSubmission,
}

/// Params of `thread/queue/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueDeleteParams {
    pub thread_id: String,
    pub queued_submission_id: String,
}

/// Result of `thread/queue/delete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueDeleteResult {
    /// False if no such follow-up waits: it may have run already.
    pub deleted: bool,
}

/// Params of `thread/queue/reorder`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueReorderParams {
    pub thread_id: String,
    /// The ids of all follow-ups that wait, each once, in the order in which they shall run.
    pub queued_submission_ids: Vec<String>,
}
