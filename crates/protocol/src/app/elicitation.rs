//! Questions with fields, in the form in which existing clients know those of MCP servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval::{ApprovalDecision, ApprovalRequestInfo};

/// Params of `mcpServer/elicitation/request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerElicitationRequestParams {
    pub thread_id: String,
    #[serde(default)]
    pub turn_id: Option<String>,
    /// The provider's name.
    pub server_name: String,
    pub mode: McpElicitationMode,
    pub message: String,
    /// An object schema whose properties are strings, numbers, booleans, or choices.
    #[schemars(extend("x-free-json" = true))]
    pub requested_schema: Value,
    #[serde(flatten)]
    pub info: ApprovalRequestInfo,
}

/// How a question is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpElicitationMode {
    Form,
}

/// Answer to `mcpServer/elicitation/request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerElicitationRequestResponse {
    pub action: McpServerElicitationAction,
    /// Values by field key, with `accept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-free-json" = true))]
    pub content: Option<Value>,
}

/// What the user did with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerElicitationAction {
    Accept,
    Decline,
    Cancel,
}

impl From<McpServerElicitationAction> for ApprovalDecision {
    fn from(action: McpServerElicitationAction) -> Self {
        match action {
            McpServerElicitationAction::Accept => Self::Accept,
            McpServerElicitationAction::Decline => Self::Decline,
            McpServerElicitationAction::Cancel => Self::Cancel,
        }
    }
}
