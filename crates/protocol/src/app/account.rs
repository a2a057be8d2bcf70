//! `account/read`. Accounts are the agents' own matter, so there is none here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;

/// Params of `account/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadParams {
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub refresh_token: bool,
}

/// Result of `account/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountReadResult {
    /// Always `null`: agents log in by themselves.
    #[serde(default)]
    pub account: Option<Account>,
    /// Always false.
    pub requires_openai_auth: bool,
    #[serde(default)]
    pub user_id: Option<String>,
}

/// An account, in the one form that says no more than that there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Account {
    ApiKey,
}
