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
    /// Ext: what the agent's conversation has cost so far in US dollars, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// How much of its limits an agent's account has used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRateLimitsUpdatedNotification {
    pub rate_limits: RateLimitSnapshot,
    /// Ext: the thread whose agent told it.
    pub thread_id: String,
    /// Ext: the provider whose account it is.
    pub model_provider: String,
    /// Ext: every limit that is known, by the agent's name for it.
    #[serde(default)]
    pub limits: Vec<AccountRateLimit>,
}

/// The two limits with the shortest windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSnapshot {
    /// The shorter one.
    #[serde(default)]
    pub primary: Option<RateLimitWindow>,
    /// The longer one.
    #[serde(default)]
    pub secondary: Option<RateLimitWindow>,
}

/// How much of a limit is used, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitWindow {
    /// 0 to 100, rounded.
    pub used_percent: i32,
    #[serde(default)]
    pub window_duration_mins: Option<u64>,
    /// Unix seconds.
    #[serde(default)]
    pub resets_at: Option<i64>,
}

/// Ext: one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountRateLimit {
    pub name: String,
    /// 0 to 100.
    pub used_percent: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_minutes: Option<u64>,
    /// Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<i64>,
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
