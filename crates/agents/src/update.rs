//! The one internal model of what agents send: upserts by id, whatever the protocol version or the vendor's habits.

use std::path::PathBuf;

use serde_json::Value;
use signalbox_facts::{
    Choice, Command, CompactionStatus, ConfigOption, ContextWindow, FileDiff, Location, McpTool, Model,
    PlanEntry, RateLimit, ToolStatus,
};

/// Something of the conversation or of the session's state.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// A chunk of an answer. What was shown is never taken back: an agent that corrects a message tells the corrected one as
    /// another, under an id of its own.
    Message(TextChunk),
    /// A chunk of a thought.
    Thought(TextChunk),
    /// The agent's echo of a prompt; live ones repeat what was sent.
    UserMessage(TextChunk),
    /// A piece of a message or thought that is no text.
    MessageContent {
        /// It is one of a thought.
        thought: bool,
        /// The agent's id of the message.
        message_id: Option<String>,
        /// The piece.
        content: Box<Content>,
    },
    /// A tool call began or changed; an unknown id begins one.
    Tool(Box<ToolPatch>),
    /// The plan, whole.
    Plan(PlanPatch),
    /// The agent's options, the whole set; modes and models of older agents included.
    ConfigOptions(Vec<ConfigOption>),
    /// The models on offer and the current one's id (empty if unknown).
    Models {
        /// All of them.
        available: Vec<Model>,
        /// The current one.
        current: String,
    },
    /// The session mode changed.
    Modes(AgentModes),
    /// The slash commands on offer, the whole set.
    Commands(Vec<Command>),
    /// The agent gave the session a title; `None` takes it back.
    Title(Option<String>),
    /// How full the context is.
    ContextWindow(ContextWindow),
    /// How much of some limits the agent's account has used; others stay as they were told before.
    RateLimits(Vec<RateLimit>),
    /// Something for the user to know.
    Notice {
        /// How bad.
        severity: NoticeSeverity,
        /// In short.
        title: String,
        /// More about it.
        description: Option<String>,
    },
    /// The agent compacts its context.
    Compaction {
        /// The agent's id of it.
        id: String,
        /// How far it is.
        status: CompactionStatus,
        /// What it keeps of the conversation, whole, if it says so at once.
        summary: Option<String>,
        /// Why it failed.
        error: Option<String>,
    },
    /// More of what a compaction keeps of the conversation.
    CompactionSummary {
        /// The agent's id of the compaction.
        id: String,
        /// The piece.
        text: String,
    },
    /// An update of a kind this version does not know, bounded.
    Unknown(Value),
}

/// A chunk of text. What waits in the queue merges: chunks that follow each other and have the same id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextChunk {
    /// The agent's id of the message, if it has ids. Some agents use one id for a thought and the answer after it, so
    /// key by kind and id; without ids, chunks that follow each other belong together.
    pub message_id: Option<String>,
    /// The text.
    pub text: String,
}

/// Content of a message or tool that is no plain text, or text where a list of pieces is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// MIME type.
        mime: String,
        /// Base64.
        data: String,
        /// Where it is, if the agent says.
        uri: Option<String>,
    },
    /// Sound.
    Audio {
        /// MIME type.
        mime: String,
        /// Base64.
        data: String,
    },
    /// A link to a resource.
    Link {
        /// Where.
        uri: String,
        /// Name for people.
        name: String,
    },
    /// A resource with its content.
    Resource {
        /// Where.
        uri: String,
        /// MIME type.
        mime: Option<String>,
        /// Its text; absent for binary content.
        text: Option<String>,
        /// Its bytes, base64; absent for text.
        blob: Option<String>,
    },
    /// A kind this version does not know.
    Unknown(Value),
}

impl Content {
    /// A word for what it is.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Image { .. } => "image",
            Self::Audio { .. } => "audio",
            Self::Link { .. } => "link",
            Self::Resource { .. } => "resource",
            Self::Unknown(_) => "content of an unknown kind",
        }
    }
}

/// What is new about a tool call. `None` means *unchanged*.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ToolPatch {
    /// The agent's id of the call; may come back in another turn for another call.
    pub id: String,
    /// It announces the call. Not every call is announced, and an update may come before.
    pub announced: bool,
    /// Title for people.
    pub title: Option<String>,
    /// The tool's own name (`Bash`, `mcp__server__tool`), where the agent gives it.
    pub name: Option<String>,
    /// ACP kind; unknown ones as they came, `other` where the agent says so.
    pub kind: Option<String>,
    /// Status. It may go backwards; `pending` after `in_progress` is noise.
    pub status: Option<ToolStatus>,
    /// The agent says that the call was cancelled (`status` is then `Failed`).
    pub cancelled: bool,
    /// What it shows; replaces what was there.
    pub content: Option<Vec<ToolPart>>,
    /// Files it touches; replaces what was there.
    pub locations: Option<Vec<Location>>,
    /// Its arguments; may still grow.
    pub raw_input: Option<Value>,
    /// What it returned, as the agent's model sees it.
    pub raw_output: Option<Value>,
    /// The command line, where the agent states it.
    pub command: Option<String>,
    /// Where the command runs, where the agent states it.
    pub cwd: Option<PathBuf>,
    /// What a command wrote.
    pub output: Option<OutputPatch>,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// MCP server and tool, where recognisable.
    pub mcp: Option<McpTool>,
}

impl ToolPatch {
    /// Whether it says nothing but that there is more output.
    #[must_use]
    pub fn only_appends(&self) -> bool {
        matches!(self.output, Some(OutputPatch::Append(_)))
            && self.title.is_none()
            && self.name.is_none()
            && self.kind.is_none()
            && self.status.is_none()
            && self.content.is_none()
            && self.locations.is_none()
            && self.raw_input.is_none()
            && self.raw_output.is_none()
            && self.command.is_none()
            && self.cwd.is_none()
            && self.exit_code.is_none()
            && self.mcp.is_none()
    }
}

/// What a command wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputPatch {
    /// More of it.
    Append(String),
    /// All of it.
    Replace(String),
}

/// A piece of what a tool call shows.
#[derive(Clone, PartialEq, Debug)]
pub enum ToolPart {
    /// Content.
    Content(Content),
    /// A change of a file. The texts may be the whole file, a hunk or the replaced string.
    Diff {
        /// Absolute path.
        path: PathBuf,
        /// `None` for a new file.
        old_text: Option<String>,
        /// The new text.
        new_text: String,
    },
    /// A change of a file, as hunks of a unified diff.
    Patch(FileDiff),
    /// A terminal of the agent's own; its output comes as [`ToolPatch::output`].
    Terminal {
        /// The agent's id of it.
        id: String,
    },
    /// Another session that the call is about, such as that of a subagent.
    Session {
        /// The agent's id of it.
        id: String,
    },
    /// A kind this version does not know.
    Unknown(Value),
}

/// A plan, whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanPatch {
    /// The agent's id of the plan, if it has several.
    pub id: Option<String>,
    /// Its entries; empty for a Markdown plan or one that was removed.
    pub entries: Vec<PlanEntry>,
    /// Its text, if it came as Markdown.
    pub markdown: Option<String>,
}

/// Session modes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentModes {
    /// All of them.
    pub available: Vec<Choice>,
    /// The current one's id.
    pub current: String,
}

/// How bad a notice is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoticeSeverity {
    /// Good to know.
    Info,
    /// May matter.
    Warning,
    /// Something went wrong.
    Error,
}
