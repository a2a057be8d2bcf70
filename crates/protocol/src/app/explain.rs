//! Why a thread moves or not, and what the server looks like inside (Ext).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;
use crate::ops::Activity;

/// Params of `thread/explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadExplainParams {
    pub thread_id: String,
}

/// Result of `thread/explain`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadExplainResult {
    pub thread_id: String,
    /// One or two sentences for people.
    pub explanation: String,
    /// The same for programs.
    pub state: ThreadExplanation,
    /// The thread's activity as it was stored last.
    pub activity: Activity,
    /// The open turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The agent's process, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentProcess>,
    /// Follow-ups that wait in the queue.
    pub queued: u32,
    /// Whether they wait for the next accepted prompt, because the last turn did not complete or one could not start.
    pub queue_paused: bool,
    /// Requests that the thread has not taken yet.
    pub waiting_requests: u32,
    pub archived: bool,
}

/// How far an agent's start is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AgentStage {
    /// Its process starts, or is downloaded first; it has not answered `initialize`.
    #[default]
    Starting,
    /// It logs in.
    LoggingIn,
    /// It opens its conversation, for which some wait for their MCP servers.
    Opening,
    /// Mode, model and options are set.
    Arranging,
}

/// What a thread does or waits for. Of several things the one that the others wait for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ThreadExplanation {
    /// It is not in memory; the next request that needs it loads it.
    NotLoaded,
    /// It waits for a prompt.
    Idle,
    /// What happened cannot be stored; nothing goes on until it can.
    StorageStalled { error: String, next_attempt_at_ms: i64 },
    /// Approvals wait for an answer.
    WaitingForApproval { approvals: Vec<WaitingApproval> },
    /// The prompt is put together and the workspace recorded.
    Preparing,
    /// The agent starts, or opens its conversation.
    StartingAgent {
        since_ms: i64,
        /// How far it is.
        #[serde(default)]
        stage: AgentStage,
        /// The program that may download the agent first, such as `npx`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fetched_by: Option<String>,
        /// Names of the MCP servers that it may be waiting for.
        #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
        mcp_servers: Vec<String>,
    },
    /// The former agent ends; the turn goes on with a fresh one. After several failures in a row that is put off, up to 30
    /// seconds; an interrupt ends the wait.
    RestartingAgent {
        /// When the next one is started, Unix milliseconds, if it is put off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_attempt_at_ms: Option<i64>,
    },
    /// The agent runs a tool.
    RunningTool {
        item_id: String,
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        since_ms: i64,
        /// When the agent was last heard.
        last_heard_at_ms: i64,
    },
    /// The agent has the prompt and has said nothing since.
    WaitingForAgent { since_ms: i64 },
    /// The turn was interrupted; the agent has not stopped yet.
    Interrupting,
    /// The agent is asked to stop, so that it gets what was added.
    Steering,
    /// No turn runs; the agent ends.
    StoppingAgent,
    /// The worktree is removed.
    DiscardingWorktree,
    /// The agent is asked to take a setting; what came after it waits.
    Settling { since_ms: i64 },
    /// A fork is made: the agent is asked for a copy of its conversation, and what came after that waits.
    Forking { since_ms: i64 },
    /// Follow-ups wait, and the queue is paused.
    QueuePaused {
        /// Absent if an older version of the server paused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<QueuePauseReason>,
    },
    /// It is in the archive and takes no prompts.
    Archived,
    /// It did not answer in a second: it stores something, or waits for the file system.
    Busy,
}

/// Why a queue is paused. It goes on with the next accepted prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueuePauseReason {
    /// The last turn was interrupted.
    Interrupted,
    /// The last turn failed.
    Failed,
    /// The server stopped before the last turn finished.
    Restarted,
    /// A prompt of the queue could not start.
    NotStarted,
}

/// An approval that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingApproval {
    pub approval_id: String,
    /// The agent's kind of tool; `question` if it asks for input.
    pub kind: String,
    pub title: String,
    pub requested_at_ms: i64,
}

/// An agent's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentProcess {
    /// Absent before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub provider: String,
    pub started_at_ms: i64,
    /// Its last sign of life.
    pub last_heard_at_ms: i64,
    /// Whether its conversation is open.
    pub ready: bool,
    /// Whether it was told to stop.
    pub stopping: bool,
}

/// Params of `server/diagnostics`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServerDiagnosticsParams {}

/// Result of `server/diagnostics`. Nothing in it is a secret; it names threads, but nothing that was said in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerDiagnosticsResult {
    pub version: String,
    pub pid: u32,
    pub uptime_ms: u64,
    /// Resident memory of the server; absent where the system does not tell it cheaply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    pub threads: ThreadFigures,
    /// Agents' processes, 200 at most.
    pub agents: Vec<AgentFigures>,
    /// Connections, 200 at most.
    pub connections: Vec<ConnectionFigures>,
    pub total_connections: u32,
    pub event_ring: EventRingFigures,
    pub storage: StorageFigures,
    pub limits: ServerLimits,
}

/// Threads in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadFigures {
    pub loaded: u32,
    pub idle: u32,
    pub running: u32,
    pub waiting_for_approval: u32,
    pub failed: u32,
    /// Those of which something cannot be stored.
    pub stalled: u32,
    /// Those that did not answer in a second.
    pub busy: u32,
    /// Follow-ups that wait in queues.
    pub queued: u32,
    /// Requests that no thread has taken yet.
    pub waiting_requests: u32,
    /// Approvals that wait.
    pub approvals: u32,
}

/// An agent's process and what it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentFigures {
    pub thread_id: String,
    #[serde(flatten)]
    pub process: AgentProcess,
    /// Resident memory of the process alone, without its children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What its thread does.
    pub state: ThreadExplanation,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionFigures {
    pub id: u64,
    /// Where it comes from: `stdio`, `unix`, the name of a device.
    pub label: String,
    /// The client's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `observer`, `operator` or `owner`.
    pub role: String,
    /// Threads that it follows.
    pub subscriptions: u32,
    /// Frames that it has not read.
    pub backlog_frames: u64,
    pub backlog_bytes: u64,
    /// Of them, answers to its own requests.
    pub backlog_answer_bytes: u64,
}

/// The ring of events for frontends that speak Ops and Events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRingFigures {
    pub events: u64,
    pub bytes: u64,
    pub listeners: u32,
    /// Events that the slowest listener has not read.
    pub slowest_behind: u64,
}

/// The store on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageFigures {
    pub database_bytes: u64,
    /// Its write-ahead log.
    pub wal_bytes: u64,
    /// Commits of threads since the start, and the transactions they took.
    pub commits: u64,
    pub transactions: u64,
    /// How often the disk was waited for.
    pub flushes: u64,
    pub last_flush_us: u64,
    pub longest_flush_us: u64,
    /// Bytes that wait to be written, about.
    pub queued_bytes: u64,
    /// Pieces of background work that wait.
    pub background_jobs: u32,
    /// Threads that are known to have something that `thread/search` does not find yet.
    pub index_backlog: u32,
    /// Whether the threads of before the start have been looked at for that.
    pub index_complete: bool,
}

/// Bounds that hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerLimits {
    pub event_ring_events: u64,
    pub event_ring_bytes: u64,
    pub store_queue_bytes: u64,
}
