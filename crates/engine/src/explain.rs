//! Why a session is, or is not, moving: plain data, told by the one who knows. Sentences are the frontends' matter.

use signalbox_agents::Stage;
use signalbox_facts::{Activity, PendingInput, Provider, QueuePause, Seq, SessionRow, TurnId};

/// What a session is doing or waiting for.
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// The reason; of several the one that the others wait for.
    pub state: Why,
    /// Its committed activity.
    pub activity: Activity,
    /// The open turn.
    pub turn: Option<TurnId>,
    /// Its agent's process, if there is one.
    pub agent: Option<AgentReport>,
    /// Follow-ups that wait.
    pub queued: usize,
    /// Whether they wait for the next accepted prompt.
    pub queue_paused: bool,
    /// Why they do, if it is known.
    pub queue_paused_by: Option<QueuePause>,
    /// Submissions that are not taken yet: those that never wait for an agent, and all others.
    pub waiting: (usize, usize),
    /// In the archive.
    pub archived: bool,
}

/// The reason why a session moves or not.
#[derive(Clone, PartialEq, Debug)]
pub enum Why {
    /// It is not in memory; nothing runs.
    NotLoaded,
    /// Nothing is to be done.
    Idle,
    /// Facts could not be stored; nothing goes on until they are.
    Stalled {
        /// What the store said.
        error: String,
        /// When it is tried again, Unix milliseconds.
        next_attempt_at_ms: i64,
    },
    /// Somebody has to answer.
    AwaitingInput {
        /// What waits, in order.
        pending: Vec<PendingInput>,
    },
    /// The workspace is recorded or the prompt put together; the agent has not got it yet.
    Preparing,
    /// The agent's process starts, or opens its conversation.
    StartingAgent {
        /// Since when, Unix milliseconds.
        since_ms: i64,
        /// How far it is.
        stage: Stage,
        /// The program that may download it first.
        fetching: Option<String>,
        /// The MCP servers that it may be waiting for.
        mcp_servers: Vec<String>,
    },
    /// The old agent ends, or has failed again and again; the turn goes on with a fresh one.
    RestartingAgent {
        /// When that is started, Unix milliseconds, if it is put off.
        at_ms: Option<i64>,
    },
    /// The agent runs a tool.
    RunningTool {
        /// Its item.
        item_seq: Seq,
        /// What it is.
        title: String,
        /// The agent's kind of tool.
        kind: Option<String>,
        /// Since when, Unix milliseconds.
        since_ms: i64,
        /// The agent's last sign of life, Unix milliseconds.
        heard_at_ms: i64,
    },
    /// The agent thinks, or is silent.
    AwaitingAgent {
        /// Its last sign of life, or when it was prompted, Unix milliseconds.
        since_ms: i64,
    },
    /// The turn was interrupted; the agent has not stopped yet.
    Interrupting,
    /// The agent is told to stop so that it gets more input.
    Steering,
    /// The agent was told to stop, and no turn runs.
    StoppingAgent,
    /// The checkout is removed.
    DiscardingWorktree,
    /// The agent is asked to take a setting; work waits for it.
    Settling {
        /// Since when, Unix milliseconds.
        since_ms: i64,
    },
    /// A fork is to be made, and the agent is asked for a copy of its conversation; work waits for it.
    Forking {
        /// Since when, Unix milliseconds.
        since_ms: i64,
    },
    /// It has not answered: it stores something, or waits for the file system.
    Busy,
}

/// An agent's process.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentReport {
    /// Process id, once it runs.
    pub pid: Option<u32>,
    /// Whose.
    pub provider: Provider,
    /// When it was started, Unix milliseconds.
    pub started_at_ms: i64,
    /// Its last sign of life, Unix milliseconds.
    pub heard_at_ms: i64,
    /// Whether its conversation is open.
    pub ready: bool,
    /// Whether it was told to stop.
    pub stopping: bool,
}

impl Explanation {
    /// Of a session of which only the row is known.
    #[must_use]
    pub(crate) fn of_row(row: &SessionRow, state: Why) -> Self {
        let queue = row.queue.as_ref();
        Self {
            state,
            turn: row.activity.turn().filter(|_| row.activity.is_open()),
            activity: row.activity.clone(),
            agent: None,
            queued: queue.map_or(0, |queue| queue.entries.len()),
            queue_paused: queue.is_some_and(|queue| queue.paused),
            queue_paused_by: queue.and_then(|queue| queue.paused_by),
            waiting: (0, 0),
            archived: row.archived,
        }
    }
}
