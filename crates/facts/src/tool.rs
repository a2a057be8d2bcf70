//! Tool calls as facts: the whole known state of a call, bounded, every time it changes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What kind of thread item the facts of one `item_seq` make. Fixed when the item starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// What a user wrote.
    UserMessage,
    /// What the agent says.
    AgentMessage,
    /// What the agent thinks.
    Reasoning,
    /// The plan of a turn.
    Plan,
    /// A command (ACP kind `execute`).
    CommandExecution,
    /// Edits, deletes, moves.
    FileChange,
    /// A tool of an MCP server.
    McpToolCall,
    /// Any other tool.
    DynamicToolCall,
    /// The context was compacted.
    ContextCompaction,
}

/// Status of a tool call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Announced.
    Pending,
    /// Running.
    InProgress,
    /// Ended well.
    Completed,
    /// Ended badly, or closed by us; see [`ToolOutcome`].
    Failed,
}

impl ToolStatus {
    /// Whether the call has ended.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// ACP's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The finer outcome of a call that ended `failed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// Its permission was declined.
    Declined,
    /// Its turn was interrupted.
    Interrupted,
    /// Its agent died or was lost.
    AgentGone,
    /// Its turn ended while the call was open.
    Unfinished,
}

/// A file and perhaps a line that a tool touches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// 1-based line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What happens to a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileChangeKind {
    /// It is new.
    Add,
    /// It goes.
    Delete,
    /// It changes, perhaps under a new name.
    Update {
        /// The new path of a moved file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        move_path: Option<PathBuf>,
    },
}

/// The change of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileDiff {
    /// Absolute path.
    pub path: PathBuf,
    /// What happens to it.
    pub kind: FileChangeKind,
    /// Hunks of a unified diff (`@@ …`), without file headers; bounded.
    pub unified: String,
    /// Whether `unified` was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Tool and server of an MCP call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct McpTool {
    /// The server's name.
    pub server: String,
    /// The tool's name there.
    pub tool: String,
}

/// A piece of what a tool returned, besides command output and diffs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
    /// Text, bounded.
    Text {
        /// The text.
        text: String,
    },
    /// An image as a data URL or a link; data is bounded.
    Image {
        /// `data:` or other URL.
        url: String,
    },
    /// Sound as a data URL or a link; data is bounded.
    Audio {
        /// `data:` or other URL.
        url: String,
    },
    /// A link to a resource.
    Link {
        /// Where.
        uri: String,
        /// Name for people.
        name: String,
    },
}

/// The state of one tool call. `None` in `diffs`, `content` and `raw_input` means *unchanged*; every other field is
/// the whole truth, so that a projection needs no memory to show title, kind and status.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ToolCall {
    /// The agent's id; may come back in another turn for another call.
    pub id: String,
    /// The type of its item.
    pub item: ItemKind,
    /// Title for people; never empty.
    pub title: String,
    /// ACP kind, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Status.
    pub status: ToolStatus,
    /// Why a failed call failed, where we know better than the agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ToolOutcome>,
    /// Allow-listed, bounded fields of an agent or workflow launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_input: Option<Map<String, Value>>,
    /// The command line of an `execute` call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Files it touches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// MCP server and tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpTool>,
    /// The changes it makes; replaces what was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Vec<FileDiff>>,
    /// What it returned; replaces what was there. Command output is [`crate::ToolOutput`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolContent>>,
    /// Its arguments, bounded; replaces what was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
