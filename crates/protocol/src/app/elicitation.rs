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
    #[serde(flatten)]
    pub question: McpElicitation,
    #[serde(flatten)]
    pub info: ApprovalRequestInfo,
}

/// What is asked, by `mode`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum McpElicitation {
    /// Values for fields.
    Form {
        message: String,
        /// An object schema whose properties are strings, numbers, booleans, or choices. A `pattern` of a string is in the
        /// approval's `form` only.
        #[schemars(extend("x-free-json" = true))]
        requested_schema: Value,
    },
    /// To open a web address and to go on there. It is the user who opens it: show it whole, and fetch nothing from it.
    Url {
        message: String,
        /// The agent's id of the question.
        elicitation_id: String,
        url: String,
    },
}

impl McpElicitation {
    /// What is asked, in words.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Form { message, .. } | Self::Url { message, .. } => message,
        }
    }
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
