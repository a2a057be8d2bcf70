//! The transcript: what pages of history are made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One entry of a transcript page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptEntry {
    pub seq: u64,
    pub role: Role,
    pub part: Part,
    /// The last sequence an entry covers that stands for several streamed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through_seq: Option<u64>,
    /// Whether this prompt went into the running turn instead of opening one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
}

/// Who wrote an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Agent,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Part {
    /// What the user wrote; `display` is a bounded form of it for lists.
    Prompt { text: String, display: String },
    /// The agent's words. Old databases hold prompts in this form too.
    Text {
        text: String,
        /// As in `agent_text`: rows of one message share it, and two messages in a row are told apart by it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// The agent's thoughts.
    Reasoning { text: String },
    /// A tool call or an update of one; rows with one id belong together.
    ToolCall {
        id: String,
        title: String,
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_kind: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_input: Option<Map<String, Value>>,
    },
    /// The agent's plan, a line an entry.
    Plan { entries: Vec<String> },
}
