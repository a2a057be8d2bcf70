//! Why a thread moves or not, and the server's inside.

use signalbox_engine::{AgentReport, Diagnostics, Explanation, Stage, Why, convert as core};
use signalbox_facts::{ActivityState, InputKind, PendingInput, QueuePause, SessionId};
use signalbox_protocol::app::{
    AgentFigures, AgentProcess, AgentStage, ConnectionFigures, EventRingFigures, QueuePauseReason,
    ServerDiagnosticsParams, ServerDiagnosticsResult, ServerLimits, StorageFigures, ThreadExplainParams,
    ThreadExplainResult, ThreadExplanation, ThreadFigures, WaitingApproval, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role, RpcError};
use signalbox_store::StoreFigures;

use crate::app::{AppServer, session_id};
use crate::errors::Error;

/// Entries of each list.
const MOST: usize = 200;
/// Bytes of one unit of the store's queue.
const UNIT_BYTES: u64 = 16 * 1024;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_EXPLAIN,
                Lane::Concurrent,
                "Ext: says why a thread moves or does not. It loads nothing, and answers also while the thread's storage \
                 or agent does not.",
            ),
            explain,
        )
        .method(
            MethodSpec::new(
                method::SERVER_DIAGNOSTICS,
                Lane::Concurrent,
                "Ext: the server's inside: threads, agents, connections, queues, storage. No secrets, and nothing that \
                 was said.",
            )
            .role(Role::Operator),
            diagnostics,
        );
}

async fn explain(ctx: Ctx<AppServer>, params: ThreadExplainParams) -> Result<ThreadExplainResult, Error> {
    let app = ctx.app();
    let explained = app.engine().explain(session_id(&params.thread_id)?).await?;
    let state = state_out(&explained);
    Ok(ThreadExplainResult {
        thread_id: params.thread_id,
        explanation: sentence(&state, &explained, app.now_ms()),
        state,
        activity: core::activity_out(&explained.activity),
        turn_id: explained.turn.map(|turn| turn.to_string()),
        agent: explained.agent.as_ref().map(agent_out),
        queued: count(explained.queued),
        queue_paused: explained.queue_paused,
        waiting_requests: count(explained.waiting.0 + explained.waiting.1),
        archived: explained.archived,
    })
}

async fn diagnostics(
    ctx: Ctx<AppServer>,
    _: ServerDiagnosticsParams,
) -> Result<ServerDiagnosticsResult, RpcError> {
    let app = ctx.app();
    let Diagnostics { sessions, ring, store } = app.engine().diagnostics().await;
    let (connections, total) = app.hubs().connection_figures(MOST);
    let pid = std::process::id();
    Ok(ServerDiagnosticsResult {
        version: app.info().version.to_owned(),
        pid,
        uptime_ms: app.uptime_ms(),
        memory_bytes: memory_of(pid),
        threads: threads(&sessions),
        agents: sessions.iter().filter_map(agent_figures).take(MOST).collect(),
        connections,
        total_connections: count(total),
        event_ring: EventRingFigures {
            events: ring.events as u64,
            bytes: ring.bytes as u64,
            listeners: count(ring.listeners),
            slowest_behind: ring.slowest_behind,
        },
        storage: storage(&store),
        limits: ServerLimits {
            event_ring_events: ring.max_events as u64,
            event_ring_bytes: ring.max_bytes as u64,
            store_queue_bytes: store.max_queued_units as u64 * UNIT_BYTES,
        },
    })
}

/// What an explanation is on the wire.
fn state_out(explained: &Explanation) -> ThreadExplanation {
    match explained.state.clone() {
        Why::NotLoaded | Why::Idle if explained.archived => ThreadExplanation::Archived,
        Why::NotLoaded | Why::Idle if explained.queued > 0 && explained.queue_paused => {
            ThreadExplanation::QueuePaused { reason: explained.queue_paused_by.map(pause_out) }
        }
        Why::NotLoaded => ThreadExplanation::NotLoaded,
        Why::Idle => ThreadExplanation::Idle,
        Why::Stalled { error, next_attempt_at_ms } => {
            ThreadExplanation::StorageStalled { error, next_attempt_at_ms }
        }
        Why::AwaitingInput { pending } => {
            ThreadExplanation::WaitingForApproval { approvals: pending.iter().map(approval_out).collect() }
        }
        Why::Preparing => ThreadExplanation::Preparing,
        Why::StartingAgent { since_ms, stage, fetching, mcp_servers } => ThreadExplanation::StartingAgent {
            since_ms,
            stage: match stage {
                Stage::Starting => AgentStage::Starting,
                Stage::LoggingIn => AgentStage::LoggingIn,
                Stage::Opening => AgentStage::Opening,
                Stage::Arranging | Stage::Ready => AgentStage::Arranging,
            },
            fetched_by: fetching,
            mcp_servers,
        },
        Why::RestartingAgent { at_ms } => ThreadExplanation::RestartingAgent { next_attempt_at_ms: at_ms },
        Why::RunningTool { item_seq, title, kind, since_ms, heard_at_ms } => ThreadExplanation::RunningTool {
            item_id: format!("i{item_seq}"),
            title,
            kind,
            since_ms,
            last_heard_at_ms: heard_at_ms,
        },
        Why::AwaitingAgent { since_ms } => ThreadExplanation::WaitingForAgent { since_ms },
        Why::Interrupting => ThreadExplanation::Interrupting,
        Why::Steering => ThreadExplanation::Steering,
        Why::StoppingAgent => ThreadExplanation::StoppingAgent,
        Why::DiscardingWorktree => ThreadExplanation::DiscardingWorktree,
        Why::Forking { since_ms } => ThreadExplanation::Forking { since_ms },
        Why::Settling { since_ms } => ThreadExplanation::Settling { since_ms },
        Why::Busy => ThreadExplanation::Busy,
    }
}

fn pause_out(pause: QueuePause) -> QueuePauseReason {
    match pause {
        QueuePause::Interrupted => QueuePauseReason::Interrupted,
        QueuePause::Failed => QueuePauseReason::Failed,
        QueuePause::Restarted => QueuePauseReason::Restarted,
        QueuePause::NotStarted => QueuePauseReason::NotStarted,
    }
}

fn approval_out(input: &PendingInput) -> WaitingApproval {
    let kind = match input.kind {
        InputKind::Elicitation => "question",
        InputKind::Permission => input.tool_kind.as_deref().unwrap_or("other"),
    };
    WaitingApproval {
        approval_id: input.id.to_string(),
        kind: kind.to_owned(),
        title: input.title.clone(),
        requested_at_ms: input.requested_at_ms,
    }
}

fn agent_out(agent: &AgentReport) -> AgentProcess {
    AgentProcess {
        pid: agent.pid,
        provider: agent.provider.to_string(),
        started_at_ms: agent.started_at_ms,
        last_heard_at_ms: agent.heard_at_ms,
        ready: agent.ready,
        stopping: agent.stopping,
    }
}

/// The explanation for people.
fn sentence(state: &ThreadExplanation, explained: &Explanation, now_ms: i64) -> String {
    let since = |since_ms: i64| lasting(now_ms - since_ms);
    let said = match state {
        ThreadExplanation::NotLoaded => {
            "The thread is not in memory. Nothing runs; a prompt loads it.".to_owned()
        }
        ThreadExplanation::Idle => match &explained.activity.state {
            ActivityState::Failed { message, .. } => {
                format!("The last turn did not complete: {message} The thread waits for a prompt.")
            }
            _ => "The thread is idle: it waits for a prompt.".to_owned(),
        },
        ThreadExplanation::StorageStalled { error, next_attempt_at_ms } => format!(
            "What happened cannot be stored ({error}), so nothing goes on. The next attempt is in {}.",
            lasting(next_attempt_at_ms - now_ms)
        ),
        ThreadExplanation::WaitingForApproval { approvals } => match &approvals[..] {
            [one] => format!(
                "For {} an approval has been waiting for an answer: {}.",
                since(one.requested_at_ms),
                one.title
            ),
            many => {
                let oldest = many.iter().map(|one| one.requested_at_ms).min().unwrap_or(now_ms);
                format!("{} approvals wait for answers, the oldest for {}.", many.len(), since(oldest))
            }
        },
        ThreadExplanation::Preparing => {
            "The prompt is put together and the workspace recorded; then the agent gets it.".to_owned()
        }
        ThreadExplanation::StartingAgent { since_ms, stage, fetched_by, mcp_servers } => {
            let since = since(*since_ms);
            match (stage, fetched_by) {
                (AgentStage::Starting, Some(program)) => {
                    format!("The agent has been starting for {since}: {program} may be downloading it.")
                }
                (AgentStage::Starting, None) => format!("The agent has been starting for {since}."),
                (AgentStage::LoggingIn, _) => {
                    format!("The agent was started {since} ago and waits for its login.")
                }
                (AgentStage::Opening, _) if !mcp_servers.is_empty() => format!(
                    "The agent was started {since} ago and opens its conversation; it may be waiting for its MCP \
                     servers: {}.",
                    mcp_servers.join(", ")
                ),
                (AgentStage::Opening, _) => {
                    format!("The agent was started {since} ago and opens its conversation.")
                }
                (AgentStage::Arranging, _) => {
                    format!("The agent was started {since} ago; mode, model and options are being set.")
                }
            }
        }
        ThreadExplanation::RestartingAgent { next_attempt_at_ms: None } => {
            "The former agent ends; the turn goes on with a fresh one.".to_owned()
        }
        ThreadExplanation::RestartingAgent { next_attempt_at_ms: Some(at_ms) } => format!(
            "The agent has failed several times in a row; it is started again in {}.",
            lasting(at_ms - now_ms)
        ),
        ThreadExplanation::RunningTool { title, since_ms, last_heard_at_ms, .. } => format!(
            "The agent has been running a tool for {}: {title}. It was heard {} ago.",
            since(*since_ms),
            since(*last_heard_at_ms)
        ),
        ThreadExplanation::WaitingForAgent { since_ms } => {
            format!("The agent has the prompt; it was last heard {} ago.", since(*since_ms))
        }
        ThreadExplanation::Interrupting => {
            "The turn was interrupted; the agent has not stopped yet.".to_owned()
        }
        ThreadExplanation::Steering => {
            "The agent is asked to stop, so that it gets what was added.".to_owned()
        }
        ThreadExplanation::StoppingAgent => "No turn runs; the agent ends.".to_owned(),
        ThreadExplanation::DiscardingWorktree => {
            "The worktree is removed; what else is asked waits.".to_owned()
        }
        ThreadExplanation::Settling { since_ms } => format!(
            "The agent has been asked to take a setting for {}; what came after it waits.",
            since(*since_ms)
        ),
        ThreadExplanation::Forking { since_ms } => format!(
            "A fork is made: the agent has been asked for a copy of its conversation for {}; what came after it waits.",
            since(*since_ms)
        ),
        ThreadExplanation::QueuePaused { reason } => {
            let why = match reason {
                Some(QueuePauseReason::Interrupted) => "the last turn was interrupted",
                Some(QueuePauseReason::Failed) => "the last turn failed",
                Some(QueuePauseReason::Restarted) => "the server stopped before the last turn finished",
                Some(QueuePauseReason::NotStarted) => "a prompt of it could not start",
                None => "the last turn did not complete or a prompt of it could not start",
            };
            format!("The queue is paused, because {why}. It goes on with the next accepted prompt.")
        }
        ThreadExplanation::Archived => "The thread is in the archive and takes no prompts.".to_owned(),
        ThreadExplanation::Busy => {
            "The thread did not answer in a second: it stores something, or waits for the file system."
                .to_owned()
        }
    };
    match explained.queued {
        0 => said,
        1 => format!("{said} One prompt waits in its queue."),
        more => format!("{said} {more} prompts wait in its queue."),
    }
}

/// A duration for people.
fn lasting(ms: i64) -> String {
    match ms.max(0) / 1000 {
        0 => "less than a second".to_owned(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn threads(sessions: &[(SessionId, Explanation)]) -> ThreadFigures {
    let of =
        |fits: &dyn Fn(&Explanation) -> bool| count(sessions.iter().filter(|(_, one)| fits(one)).count());
    let sum = |part: &dyn Fn(&Explanation) -> usize| count(sessions.iter().map(|(_, one)| part(one)).sum());
    let state = |one: &Explanation| one.activity.state.clone();
    ThreadFigures {
        loaded: count(sessions.len()),
        idle: of(&|one| matches!(state(one), ActivityState::Idle)),
        running: of(&|one| matches!(state(one), ActivityState::Running { .. })),
        waiting_for_approval: of(&|one| matches!(state(one), ActivityState::AwaitingInput { .. })),
        failed: of(&|one| matches!(state(one), ActivityState::Failed { .. })),
        stalled: of(&|one| matches!(one.state, Why::Stalled { .. })),
        busy: of(&|one| one.state == Why::Busy),
        queued: sum(&|one| one.queued),
        waiting_requests: sum(&|one| one.waiting.0 + one.waiting.1),
        approvals: sum(&|one| one.activity.pending().len()),
    }
}

fn agent_figures((session, explained): &(SessionId, Explanation)) -> Option<AgentFigures> {
    let agent = explained.agent.as_ref()?;
    Some(AgentFigures {
        thread_id: session.to_string(),
        process: agent_out(agent),
        memory_bytes: agent.pid.and_then(memory_of),
        state: state_out(explained),
    })
}

fn storage(store: &StoreFigures) -> StorageFigures {
    StorageFigures {
        database_bytes: store.database_bytes,
        wal_bytes: store.wal_bytes,
        commits: store.commits,
        transactions: store.transactions,
        flushes: store.flushes,
        last_flush_us: store.last_flush_us,
        longest_flush_us: store.longest_flush_us,
        queued_bytes: store.queued_units as u64 * UNIT_BYTES,
        background_jobs: count(store.chores),
        index_backlog: count(store.index_backlog),
        index_complete: store.index_swept && store.index_backlog == 0,
    }
}

pub(crate) fn connection_figures(
    peer: &signalbox_rpc::Peer,
    connection: &crate::connection::Connection,
) -> ConnectionFigures {
    let backlog = peer.backlog();
    ConnectionFigures {
        id: peer.id().0,
        label: peer.label().to_string(),
        client: connection.client().map(|client| client.name.clone()),
        role: peer.role().name().to_owned(),
        subscriptions: count(connection.following()),
        backlog_frames: backlog.frames as u64,
        backlog_bytes: backlog.bytes as u64,
        backlog_answer_bytes: backlog.answer_bytes as u64,
    }
}

/// Resident memory of a process, where the system has it in a file.
fn memory_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_facts::Activity;

    fn explained(state: Why) -> Explanation {
        Explanation {
            state,
            activity: Activity::default(),
            turn: None,
            agent: None,
            queued: 0,
            queue_paused: false,
            queue_paused_by: None,
            waiting: (0, 0),
            archived: false,
        }
    }

    #[test]
    fn what_holds_a_thread_up_is_told_before_what_merely_is() {
        let archived = Explanation { archived: true, queued: 1, queue_paused: true, ..explained(Why::Idle) };
        assert_eq!(state_out(&archived), ThreadExplanation::Archived);
        let paused = Explanation { queued: 1, queue_paused: true, ..explained(Why::NotLoaded) };
        assert_eq!(state_out(&paused), ThreadExplanation::QueuePaused { reason: None });
        for (by, told) in [
            (QueuePause::Interrupted, "the last turn was interrupted"),
            (QueuePause::Failed, "the last turn failed"),
            (QueuePause::Restarted, "the server stopped before the last turn finished"),
            (QueuePause::NotStarted, "a prompt of it could not start"),
        ] {
            let paused = Explanation { queue_paused_by: Some(by), ..paused.clone() };
            assert!(sentence(&state_out(&paused), &paused, 0).contains(told), "{by:?}");
        }
        let running = Explanation { queued: 1, queue_paused: true, ..explained(Why::Interrupting) };
        assert_eq!(state_out(&running), ThreadExplanation::Interrupting);
    }

    #[test]
    fn sentences_name_times_and_what_waits() {
        let told = |explained: &Explanation| sentence(&state_out(explained), explained, 200_000);
        assert_eq!(
            told(&explained(Why::AwaitingAgent { since_ms: 190_500 })),
            "The agent has the prompt; it was last heard 9 s ago."
        );
        let stalled = Why::Stalled { error: "disk full".into(), next_attempt_at_ms: 205_000 };
        assert_eq!(
            told(&explained(stalled)),
            "What happened cannot be stored (disk full), so nothing goes on. The next attempt is in 5 s."
        );
        let starting = |stage, fetching| Why::StartingAgent {
            since_ms: -10_000_000,
            stage,
            fetching,
            mcp_servers: vec!["files".to_owned()],
        };
        let queued = Explanation { queued: 2, ..explained(starting(Stage::Opening, None)) };
        let fetched = explained(starting(Stage::Starting, Some("npx".to_owned())));
        assert_eq!(told(&fetched), "The agent has been starting for 2 h: npx may be downloading it.");
        assert_eq!(
            told(&queued),
            "The agent was started 2 h ago and opens its conversation; it may be waiting for its MCP servers: files. \
             2 prompts wait in its queue."
        );
        let state = ActivityState::Failed {
            turn_id: None,
            reason: signalbox_facts::FailedReason::Interrupted,
            message: "It stopped.".into(),
        };
        let failed = Explanation { activity: Activity { revision: 1, state }, ..explained(Why::Idle) };
        assert_eq!(
            told(&failed),
            "The last turn did not complete: It stopped. The thread waits for a prompt."
        );
    }
}
