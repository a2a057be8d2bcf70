//! `thread/transcript/read` (Ext): pages of the Op/Event transcript.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::TranscriptEntry;

/// Params of `thread/transcript/read`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTranscriptReadParams {
    pub thread_id: String,
    /// Only turns before this one: the `seq` of a prompt that opened a turn, as `nextBefore` gives it. Absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Most turns, 1 to 50; 20 if absent. What lies outside is brought inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `thread/transcript/read`: whole turns, oldest entry first; about 512 KiB, but at least one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTranscriptReadResult {
    pub entries: Vec<TranscriptEntry>,
    /// `before` of the next older page; `null` if there is nothing older.
    #[serde(default)]
    pub next_before: Option<u64>,
    /// The newest `seq` of the thread when the page was read. Whatever happens later has a greater one.
    pub snapshot_through: u64,
}
