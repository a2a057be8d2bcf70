//! `worktree/baselines` and `thread/worktree/discard` (Ext): what a thread's worktree can be made from, and its end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;
use crate::ops::{BaselineKind, WorktreeBaseline};

/// Params of `worktree/baselines`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeBaselinesParams {
    /// The directory a thread would be started in; absent: the connection's base directory, where relative ones begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of `worktree/baselines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeBaselinesResult {
    /// Every kind there is, in the order in which pickers show them.
    pub data: Vec<BaselineChoice>,
}

/// A line of a baseline picker. Nothing is fetched for it and nothing guessed; a stale ref is shown as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BaselineChoice {
    /// What it is right now. `sha` is what `worktree.sha` of `thread/start` pins.
    Available(WorktreeBaseline),
    /// It cannot be chosen.
    Unavailable {
        kind: BaselineKind,
        /// Why, for people.
        unavailable: String,
    },
}

/// Params of `thread/worktree/discard`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadWorktreeDiscardParams {
    pub thread_id: String,
    /// Also with changes that are in no commit, or commits that are on no other branch.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}
