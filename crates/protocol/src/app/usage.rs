//! Token counts of a thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of a thread: all of it, and its last request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsage {
    pub total: TokenUsageBreakdown,
    /// `totalTokens` is how much of the context is filled.
    pub last: TokenUsageBreakdown,
    /// How many tokens the context holds.
    #[serde(default)]
    pub model_context_window: Option<i64>,
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    pub cached_input_tokens: i64,
    #[serde(default)]
    pub cache_write_input_tokens: i64,
    pub output_tokens: i64,
    pub reasoning_output_tokens: i64,
}
