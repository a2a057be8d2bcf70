//! Searching: in what was said, and for files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::listing::SortDirection;
use super::thread::Thread;
use crate::lenient::null_as_default;

/// Params of `thread/search`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchParams {
    /// Words that all have to be in one prompt or message, in any order; the last one may be the beginning of a word. What
    /// stands together without a space stands together in what is found. Nothing in it is syntax.
    pub search_term: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only threads in the archive; absent or false: only those outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_key: Option<ThreadSearchSortKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// Only threads of these kinds; empty or absent: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_kinds: Option<Vec<String>>,
    /// Accepted and ignored: there are no accounts.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub current_account_only: bool,
    /// Accepted and ignored: threads are not attached to each other.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub include_attached_threads: bool,
}

/// What found threads are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadSearchSortKey {
    CreatedAt,
    UpdatedAt,
    /// The same as `updated_at`.
    RecencyAt,
}

/// Result of `thread/search`, newest first unless asked otherwise; each thread once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSearchResult {
    pub data: Vec<ThreadMatch>,
    /// For the next page.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// With the opposite `sortDirection`: for the page before this one.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
    /// Ext: false while older threads are still being indexed, or an answer that has just ended: then there may be more
    /// matches than these. Answers of running turns are never found, their prompts are.
    pub complete: bool,
}

/// A thread with its newest match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMatch {
    pub thread: Thread,
    /// A piece of the prompt or message, on one line.
    pub snippet: String,
    /// Ext: the turn of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Ext: the item.
    pub item_id: String,
    /// Ext: its first seq.
    pub seq: u64,
}

/// Params of `fuzzyFileSearch`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchParams {
    /// Letters of a path, in order; words in any order. Empty finds nothing.
    pub query: String,
    /// Directories, absolute or relative to the connection's base directory; 16 at most.
    pub roots: Vec<String>,
    /// A later search of this connection with the same token cancels this one, which then finds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation_token: Option<String>,
}

/// Result of `fuzzyFileSearch`: at most 50, the best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzyFileSearchResult {
    pub files: Vec<FuzzyFileMatch>,
    /// Ext: false if not every file was looked at: too many, too slow, or cancelled.
    pub complete: bool,
}

/// A file or directory that matches. Its members are spelled as existing clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FuzzyFileMatch {
    /// The root, as the client wrote it.
    pub root: String,
    /// Relative to the root.
    pub path: String,
    pub match_type: FuzzyFileMatchType,
    /// The last part of the path.
    pub file_name: String,
    /// Greater is better; comparable within one result.
    pub score: u32,
    /// Places of the matched characters in `path`, ascending.
    #[serde(default)]
    pub indices: Option<Vec<u32>>,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FuzzyFileMatchType {
    File,
    Directory,
}
