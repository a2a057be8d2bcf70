//! What goes into the core: an Op with its envelope; and what the core decides about it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use signalbox_agents::AgentFailure;
use signalbox_facts::{
    Decision, Failure, ForkContext, PermissionResolved, ResolvedBy, ResolverKind, SessionId, SubmissionId,
    TurnId,
};
use signalbox_protocol::ops::Op;
use tokio::sync::oneshot;

use crate::bus::Bus;
use crate::rejection::Declinable;

/// Where a submission comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Name of the client or device, for people; it is shown as who answered an approval.
    pub client: Option<String>,
    /// In whose name an approval is answered, if the client does not do so itself; `client` then says why.
    pub resolver: Option<ResolverKind>,
    /// Variables that agents may be given, of the process that the connection comes from. In memory only.
    pub env: Option<Arc<BTreeMap<String, String>>>,
    /// Where the connection's relative directories begin; an agent that is only asked for its sessions starts there.
    pub base_dir: Option<PathBuf>,
    /// W3C `traceparent` of the request.
    pub traceparent: Option<String>,
    /// W3C `tracestate` of the request.
    pub tracestate: Option<String>,
}

impl Origin {
    /// Who is shown as having answered an approval.
    pub(crate) fn resolved_by(self) -> ResolvedBy {
        ResolvedBy { kind: self.resolver.unwrap_or(ResolverKind::Client), name: self.client }
    }
}

/// An Op on its way into the core.
#[derive(Debug)]
pub struct Submission {
    /// Its id.
    pub id: SubmissionId,
    /// What is asked.
    pub op: Op,
    /// Who asks.
    pub origin: Origin,
    /// For `new_session`: the id that the session shall have.
    pub session: Option<SessionId>,
    /// For the answer to an approval: it also interrupts the turn, and the agent hears of that first.
    pub interrupt: bool,
    /// Takes the core's decision, not the outcome of a turn.
    pub reply: Reply,
}

/// Takes the core's decision about one submission, exactly once: if nobody decides, it says that the server is stopping.
#[derive(Debug)]
pub struct Reply(Option<To>);

#[derive(Debug)]
enum To {
    /// Somebody waits.
    Caller(oneshot::Sender<Result<Accepted, OpError>>),
    /// What is accepted shows in the session's own events; that it was declined is told as one more.
    Events { bus: Arc<Bus>, op: Declinable },
}

impl Reply {
    /// For a caller who waits for the decision.
    #[must_use]
    pub fn to_caller() -> (Self, oneshot::Receiver<Result<Accepted, OpError>>) {
        let (sender, decision) = oneshot::channel();
        (Self(Some(To::Caller(sender))), decision)
    }

    /// For a frontend that only reads events.
    pub(crate) fn to_events(bus: Arc<Bus>, op: &Op) -> Self {
        Self(Some(To::Events { bus, op: Declinable::of(op) }))
    }

    /// Tells the decision.
    pub(crate) fn send(self, decision: Result<Accepted, OpError>) {
        self.send_while(false, decision);
    }

    /// The same, of a session in which a turn may be open.
    pub(crate) fn send_while(mut self, turn_open: bool, decision: Result<Accepted, OpError>) {
        self.decide(turn_open, decision);
    }

    fn decide(&mut self, turn_open: bool, decision: Result<Accepted, OpError>) {
        match self.0.take() {
            // A caller that has gone away is no error.
            Some(To::Caller(sender)) => drop(sender.send(decision)),
            Some(To::Events { bus, op }) => {
                let event = match &decision {
                    Err(error) => op.event(error, turn_open),
                    Ok(Accepted::Repeated { turn }) => Some(op.repeated(*turn)),
                    Ok(_) => None,
                };
                if let Some(event) = event {
                    bus.tell(event);
                }
            }
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.decide(false, Err(OpError::ShuttingDown));
    }
}

/// The core took it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// A session exists.
    Created {
        /// Its id.
        session: SessionId,
    },
    /// A session exists that began with another one's history.
    Forked {
        /// Its id.
        session: SessionId,
        /// How its agent knows what was said before.
        context: ForkContext,
    },
    /// A turn began.
    Started {
        /// Its id.
        turn: TurnId,
    },
    /// The input went into the open turn.
    Steered {
        /// That turn.
        turn: TurnId,
    },
    /// The same client message was accepted before.
    Repeated {
        /// The turn it went into.
        turn: TurnId,
    },
    /// The input waits for the open turn to end.
    Queued {
        /// The id its turn will have.
        turn: TurnId,
    },
    /// The open turn is being interrupted; `None` if there was none.
    Interrupting {
        /// The turn.
        turn: Option<TurnId>,
    },
    /// It holds, in the row and in the running agent.
    Applied,
}

/// The core did not take it. Nothing has changed, unless a variant says otherwise.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum OpError {
    /// There is no such session.
    #[error("thread not found: {0}")]
    SessionNotFound(String),
    /// The session's row cannot be read.
    #[error("the stored thread {0} cannot be read")]
    SessionUnreadable(String),
    /// A turn is open and a start was asked for.
    #[error("a turn is running")]
    TurnActive(TurnId),
    /// No turn is open, and the Op needs one.
    #[error("no active turn to {verb}")]
    NoActiveTurn {
        /// What was to be done with it.
        verb: &'static str,
    },
    /// The open turn takes no more input.
    #[error("{what}")]
    NotSteerable {
        /// Why, for people.
        what: &'static str,
        /// What kind of turn it is: `compact`.
        kind: &'static str,
    },
    /// The session has no such turn.
    #[error("turn not found: {0}")]
    TurnNotFound(String),
    /// The session's worktree must be discarded first.
    #[error("the thread has a worktree at {0}; discard it first")]
    WorktreePresent(String),
    /// Another turn is open.
    #[error("expected active turn id {} but found {}", quoted(expected, *steer), quoted(&found.to_string(), *steer))]
    ActiveTurnMismatch {
        /// The caller's.
        expected: String,
        /// The open one.
        found: TurnId,
        /// Whether it was to be steered; the frozen texts differ.
        steer: bool,
    },
    /// It does not fit.
    #[error("{message}")]
    InvalidParams {
        /// Path of the field.
        path: &'static str,
        /// What was wrong and what to do.
        message: String,
    },
    /// No provider of this name.
    #[error("there is no provider {name:?}; known are {}", known.join(", "))]
    ProviderNotFound {
        /// The name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// It cannot be started: its command is not there, or it is turned off.
    #[error("{provider} is not available: {why}")]
    ProviderUnavailable {
        /// The provider.
        provider: String,
        /// The command.
        command: String,
        /// What is wrong.
        why: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The agent refused a setting or failed at it.
    #[error("{message}")]
    Agent {
        /// Stable word.
        reason: &'static str,
        /// What it said.
        message: String,
    },
    /// The agent could not be started, failed, or wants a login.
    #[error("{0}")]
    AgentFailed(Box<AgentFailure>),
    /// An agent's session that is to be adopted is one of ours already.
    #[error("{}", already_imported(session, *thread))]
    AlreadyImported {
        /// The agent's own id.
        session: String,
        /// Ours; none if it is being adopted right now.
        thread: Option<SessionId>,
    },
    /// The session is deleted, and what its agent keeps of it is not.
    #[error("the thread is deleted; the agent's own session {session} is not: {why}")]
    AgentSessionKept {
        /// The agent's own id.
        session: String,
        /// Why, for people.
        why: String,
    },
    /// The session is deleted, and a log of what passed between it and its agent is not.
    #[error("the thread is deleted; its traffic log {} is not, remove it yourself: {why}", file.display())]
    TrafficLogKept {
        /// The file.
        file: PathBuf,
        /// Why, for people.
        why: String,
    },
    /// No such approval waits in this session.
    #[error("no approval {0} is waiting")]
    ApprovalNotFound(String),
    /// The approval has its answer already.
    #[error("the approval {id} was resolved before")]
    ApprovalResolved {
        /// The approval.
        id: String,
        /// How.
        resolution: Box<Resolution>,
    },
    /// The session is in the archive.
    #[error("the thread is archived; unarchive it first")]
    Archived,
    /// Its checkout is gone.
    #[error("the thread's worktree was discarded")]
    WorktreeDiscarded,
    /// The baseline is no longer the commit that the caller was shown.
    #[error("the baseline {base} was to be {expected} and is now {found}; look again and choose")]
    WorktreeMoved {
        /// `current` or `origin_default`.
        base: String,
        /// The caller's sha.
        expected: String,
        /// The sha now.
        found: String,
    },
    /// There is no checkout that could be used, or none can be made or removed.
    #[error("{message}")]
    WorktreeUnavailable {
        /// Stable word for why.
        cause: &'static str,
        /// For people.
        message: String,
    },
    /// Discarding the checkout would lose work.
    #[error("{message}")]
    WorktreeDirty {
        /// For people.
        message: String,
        /// Files changed, staged or untracked.
        files: usize,
        /// Commits that nothing else has.
        commits: usize,
    },
    /// The session waits for the disk, or this commit failed.
    #[error("the thread's facts cannot be stored: {0}")]
    StorageFailed(String),
    /// Too much is waiting.
    #[error("too many requests are waiting; retry later")]
    Overloaded,
    /// The session's queue of follow-ups has no room.
    #[error(
        "the queue is full: it holds at most {entries} follow-ups of together {bytes} bytes; retry when one has \
         started, or take one out"
    )]
    QueueFull {
        /// Most follow-ups.
        entries: usize,
        /// Most bytes of them together.
        bytes: usize,
    },
    /// Memory holds as many ephemeral sessions as it may.
    #[error(
        "{most} ephemeral threads are in memory, which is the most; close one, or start a thread that is stored"
    )]
    TooManyEphemeral {
        /// How many there may be.
        most: usize,
    },
    /// A cancel came before it was accepted.
    #[error("cancelled before it was accepted")]
    Cancelled,
    /// This version does not do that yet.
    #[error("{0} is not supported by this version")]
    Unsupported(&'static str),
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// How an approval was resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// `client`, `policy`, `interrupt`, `restart` or `unattended`.
    pub by: &'static str,
    /// Name of the client or rule.
    pub name: Option<String>,
    /// `accept`, `acceptForSession`, `decline`, `cancel` or `answered`.
    pub decision: &'static str,
    /// Unix milliseconds.
    pub at_ms: i64,
}

impl Resolution {
    /// A resolution in the words of the app-server API.
    #[must_use]
    pub fn of(resolved: &PermissionResolved, at_ms: i64) -> Self {
        Self {
            by: match resolved.by.kind {
                ResolverKind::Client => "client",
                ResolverKind::Policy => "policy",
                ResolverKind::Interrupt => "interrupt",
                ResolverKind::Restart => "restart",
                ResolverKind::Unattended => "unattended",
                ResolverKind::Agent => "agent",
            },
            name: resolved.by.name.clone(),
            decision: match resolved.decision {
                Decision::Accept => "accept",
                Decision::AcceptForSession => "acceptForSession",
                Decision::Decline => "decline",
                Decision::Cancel => "cancel",
                Decision::Answered => "answered",
            },
            at_ms,
        }
    }
}

fn already_imported(session: &str, thread: Option<SessionId>) -> String {
    match thread {
        Some(thread) => {
            format!(
                "the agent's session {session} is thread {thread}; go on there, or delete that thread first"
            )
        }
        None => format!("the agent's session {session} is being adopted right now"),
    }
}

fn quoted(id: &str, steer: bool) -> String {
    if steer { format!("`{id}`") } else { id.to_owned() }
}

impl OpError {
    /// The stable word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SessionNotFound(_) => "thread_not_found",
            Self::SessionUnreadable(_) => "thread_unreadable",
            Self::TurnActive(_) => "turn_active",
            Self::NoActiveTurn { .. } => "no_active_turn",
            Self::ActiveTurnMismatch { .. } => "active_turn_mismatch",
            Self::NotSteerable { .. } => "not_steerable",
            Self::TurnNotFound(_) => "turn_not_found",
            Self::WorktreePresent(_) => "worktree_present",
            Self::InvalidParams { .. } => "invalid_params",
            Self::ProviderNotFound { .. } => "provider_not_found",
            Self::ProviderUnavailable { .. } => "provider_unavailable",
            Self::Agent { reason, .. } => reason,
            Self::AgentFailed(failure) => failure.reason.as_str(),
            Self::AlreadyImported { .. } => "already_imported",
            Self::AgentSessionKept { .. } => "agent_session_kept",
            Self::TrafficLogKept { .. } => "traffic_log_kept",
            Self::ApprovalNotFound(_) => "approval_not_found",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::Archived => "thread_archived",
            Self::WorktreeDiscarded | Self::WorktreeUnavailable { .. } => "worktree_unavailable",
            Self::WorktreeMoved { .. } => "worktree_moved",
            Self::WorktreeDirty { .. } => "worktree_dirty",
            Self::StorageFailed(_) => "storage_failed",
            Self::Overloaded | Self::QueueFull { .. } | Self::TooManyEphemeral { .. } => "server_overloaded",
            Self::Cancelled => "cancelled",
            Self::Unsupported(_) => "unsupported_op",
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// Whether the same Op may be taken later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        if let Self::AgentFailed(failure) = self {
            return failure.to_failure().retryable;
        }
        matches!(
            self,
            Self::StorageFailed(_)
                | Self::Overloaded
                | Self::QueueFull { .. }
                | Self::TooManyEphemeral { .. }
                | Self::ShuttingDown
        )
    }

    /// More about it, by the names of the app-server API.
    #[must_use]
    pub fn data(&self) -> Map<String, Value> {
        let value = match self {
            Self::TurnActive(turn) => json!({ "activeTurnId": turn.to_string() }),
            Self::ActiveTurnMismatch { found, .. } => json!({ "activeTurnId": found.to_string() }),
            Self::NotSteerable { what, kind } => json!({
                "message": what,
                "codexErrorInfo": { "activeTurnNotSteerable": { "turnKind": kind } },
            }),
            Self::InvalidParams { path, .. } => json!({ "path": path }),
            Self::ProviderUnavailable { command, hint, .. } => json!({ "command": command, "hint": hint }),
            Self::ProviderNotFound { known, .. } => json!({ "known": known }),
            Self::ApprovalResolved { resolution, .. } => json!({
                "by": { "kind": resolution.by, "name": resolution.name },
                "decision": resolution.decision,
                "at": resolution.at_ms,
            }),
            Self::AgentSessionKept { session, .. } => json!({ "sessionId": session }),
            Self::TrafficLogKept { file, .. } => json!({ "path": file }),
            Self::AgentFailed(failure) => return failure.to_failure().data,
            Self::AlreadyImported { thread: Some(thread), .. } => json!({ "threadId": thread.to_string() }),
            Self::Overloaded => json!({ "retryAfterMs": 100 }),
            Self::QueueFull { .. } | Self::TooManyEphemeral { .. } => json!({ "retryAfterMs": 10_000 }),
            Self::WorktreeDiscarded => json!({ "cause": "worktree_discarded" }),
            Self::WorktreeUnavailable { cause, .. } => json!({ "cause": cause }),
            Self::WorktreeMoved { base, expected, found } => {
                json!({ "base": base, "expected": expected, "found": found })
            }
            Self::WorktreeDirty { files, commits, .. } => json!({ "files": files, "commits": commits }),
            _ => Value::Null,
        };
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The same as the failure of a turn.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure {
            reason: self.reason().to_owned(),
            message: self.to_string(),
            retryable: self.retryable(),
            data: self.data(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_texts_that_existing_clients_match() {
        let found = TurnId::generate();
        let steer = OpError::ActiveTurnMismatch { expected: "A".into(), found, steer: true };
        assert_eq!(steer.to_string(), format!("expected active turn id `A` but found `{found}`"));
        let interrupt = OpError::ActiveTurnMismatch { expected: "A".into(), found, steer: false };
        assert_eq!(interrupt.to_string(), format!("expected active turn id A but found {found}"));
        assert_eq!(OpError::NoActiveTurn { verb: "interrupt" }.to_string(), "no active turn to interrupt");
        assert_eq!(OpError::SessionNotFound("x".into()).to_string(), "thread not found: x");
    }
}
