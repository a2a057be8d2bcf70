//! Items: what a client sees of a turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::input::UserInput;
use crate::lenient::null_as_default;

/// One item of a turn. Its id is unique in its thread, and the same live and after a reload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItem {
    /// `i` and the sequence of the item's first fact.
    pub id: String,
    #[serde(flatten)]
    pub body: ItemBody,
    /// Ext: when the item started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<i64>,
    /// Ext: when the item completed; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at_ms: Option<i64>,
    /// Ext: it arrived after its turn had ended.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Ext: the agent's tool call behind the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallInfo>,
    /// Ext: texts of this item are not whole here: `cutTexts` names them, and `item/output/read` has them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub output_truncated: bool,
    /// Ext: the texts that are not whole here, each with a mark in place of what is left out.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub cut_texts: Vec<CutText>,
}

/// Ext: a text of an item that is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CutText {
    /// Which one, as a JSON pointer into the item.
    pub field: String,
    /// Bytes of the whole text.
    pub total_bytes: u64,
}

/// What kind of item it is, and its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ItemBody {
    UserMessage {
        content: Vec<UserInput>,
        /// The `clientUserMessageId` it was sent with.
        #[serde(default)]
        client_id: Option<String>,
    },
    AgentMessage {
        text: String,
        #[serde(default)]
        phase: Option<MessagePhase>,
    },
    Reasoning {
        #[serde(default, deserialize_with = "null_as_default")]
        summary: Vec<String>,
        #[serde(default, deserialize_with = "null_as_default")]
        content: Vec<String>,
    },
    /// The turn's plan as text.
    Plan {
        text: String,
    },
    CommandExecution {
        command: String,
        cwd: String,
        #[serde(default)]
        process_id: Option<String>,
        #[serde(default)]
        source: CommandExecutionSource,
        status: CommandExecutionStatus,
        command_actions: Vec<CommandAction>,
        /// Standard output and error as they came, up to the bound.
        #[serde(default)]
        aggregated_output: Option<String>,
        #[serde(default)]
        exit_code: Option<i32>,
        #[serde(default)]
        duration_ms: Option<i64>,
    },
    FileChange {
        changes: Vec<FileUpdateChange>,
        status: PatchApplyStatus,
    },
    McpToolCall {
        server: String,
        tool: String,
        status: McpToolCallStatus,
        arguments: Value,
        #[serde(default)]
        result: Option<McpToolCallResult>,
        #[serde(default)]
        error: Option<McpToolCallError>,
        #[serde(default)]
        duration_ms: Option<i64>,
        /// Ext: it failed because it was declined.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
        declined: bool,
    },
    DynamicToolCall {
        tool: String,
        #[serde(default)]
        namespace: Option<String>,
        arguments: Value,
        status: DynamicToolCallStatus,
        #[serde(default)]
        content_items: Option<Vec<DynamicToolCallOutputContentItem>>,
        #[serde(default)]
        success: Option<bool>,
        #[serde(default)]
        duration_ms: Option<i64>,
        /// Ext: it failed because it was declined.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
        declined: bool,
    },
    /// The agent's context was compacted.
    ContextCompaction {
        /// Ext: what the agent kept of the conversation, in its own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
}

/// What the agent itself says about its tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallInfo {
    /// The agent's id of the call.
    pub id: String,
    pub title: String,
    /// ACP's word: read, edit, delete, move, search, execute, think, fetch, switch_mode, other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<ToolCallLocation>,
    /// Why it failed, as the agent says. Of a command its output says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A place in a file that a tool call is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallLocation {
    pub path: String,
    /// One-based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Which part of an answer a message is, where the agent tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    Commentary,
    PartialAnswer,
    FinalAnswer,
}

/// Who started a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionSource {
    #[default]
    Agent,
    UserShell,
    UnifiedExecStartup,
    UnifiedExecInteraction,
}

/// How far a command is. Open when its turn ends: `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// What a command does, as far as it is understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum CommandAction {
    Read {
        command: String,
        name: String,
        path: String,
    },
    ListFiles {
        command: String,
        #[serde(default)]
        path: Option<String>,
    },
    Search {
        command: String,
        #[serde(default)]
        query: Option<String>,
        #[serde(default)]
        path: Option<String>,
    },
    Unknown {
        command: String,
    },
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileUpdateChange {
    pub path: String,
    pub kind: PatchChangeKind,
    /// A unified diff; for a new or deleted file its content.
    pub diff: String,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PatchChangeKind {
    Add,
    Delete,
    Update {
        /// Where the file went, if it was moved too. The name is spelled as existing clients do.
        #[serde(default)]
        move_path: Option<String>,
    },
}

/// How far an edit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PatchApplyStatus {
    InProgress,
    Completed,
    Failed,
    Declined,
}

/// How far a call of an MCP server's tool is. Declined calls are `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// What an MCP server's tool returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolCallResult {
    /// MCP content blocks as they came.
    pub content: Vec<Value>,
    #[serde(default)]
    pub structured_content: Option<Value>,
}

/// Why a call of an MCP server's tool failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpToolCallError {
    pub message: String,
}

/// How far any other tool call is. Declined calls are `failed` with `success: false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DynamicToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// One piece of what a tool returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DynamicToolCallOutputContentItem {
    InputText { text: String },
    InputImage { image_url: String },
    InputAudio { audio_url: String },
}
