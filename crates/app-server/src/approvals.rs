//! Approvals as they travel: which are open, who was asked, and what becomes of each answer.
//!
//! An approval is asked of every subscribed operator. The first usable answer becomes an Op; the core decides which
//! answer was first. An answer that cannot be used resolves nothing and marks its connection as unable; when all who
//! could answer are, the approval is rejected once, so that nothing hangs on clients that cannot answer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use signalbox_engine::{OpError, Origin, Resolution};
use signalbox_facts::{
    Decision, InputId, InputKind, PendingInput, PermissionResolved, ResolvedBy, ResolverKind, SessionId,
};
use signalbox_protocol::app::{
    Approval, ApprovalDecision, ServerRequest, ServerRequestResolvedNotification, method,
};
use signalbox_rpc::{ConnectionId, Frame, Peer, RequestEnd, StrayResponse};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::Subscriber;
use crate::doors::{ApprovalAnswered, DoorCaller};
use crate::hubs::Hubs;
use crate::methods::outcome_of;
use crate::view::answer::{Answer, AnswerError, Reply, answer};
use crate::view::convert;

/// Resolutions that are remembered, so that a late answer is told what happened.
const REMEMBERED: usize = 1024;

/// The open approvals of all loaded threads, and the newest resolved ones.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    open: Mutex<HashMap<InputId, Arc<Open>>>,
    resolved: Mutex<VecDeque<Resolved>>,
}

/// An open approval.
#[derive(Debug)]
pub(crate) struct Open {
    /// The approval's id, as it is written.
    pub(crate) id: String,
    pub(crate) session: SessionId,
    pub(crate) input: PendingInput,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    record: Option<Approval>,
    ask: Option<(&'static str, Frame)>,
    unable: HashSet<ConnectionId>,
    /// Subscribers were told that nobody can answer it.
    told_stuck: bool,
    /// It is being rejected, because nobody can answer it or nobody wants to be asked.
    rejecting: bool,
    /// The last answer of each connection that is on its way to the core; the next one waits for it.
    answering: HashMap<ConnectionId, CancellationToken>,
}

/// What became of an approval.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) session: SessionId,
    resolved: PermissionResolved,
    at_ms: i64,
}

impl Resolved {
    pub(crate) fn resolution(&self) -> Resolution {
        Resolution::of(&self.resolved, self.at_ms)
    }
}

/// A request of ours about an approval, for one connection.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    open: Arc<Open>,
    method: &'static str,
    pub(crate) frame: Frame,
}

impl Open {
    pub(crate) fn new(session: SessionId, input: PendingInput) -> Arc<Self> {
        Arc::new(Self { id: input.id.to_string(), session, input, state: Mutex::default() })
    }

    /// Keeps the record that clients list.
    pub(crate) fn record(&self, approval: Approval) {
        self.state.lock().record = Some(approval);
    }

    /// Keeps the request that is sent now and to whoever joins.
    ///
    /// # Errors
    /// If it cannot be serialized, which its types rule out.
    pub(crate) fn asked(self: &Arc<Self>, request: &ServerRequest) -> Result<Ask, serde_json::Error> {
        let method = request.method();
        let frame = Frame::request(&self.id, method, request)?;
        self.state.lock().ask = Some((method, frame.clone()));
        Ok(Ask { open: self.clone(), method, frame })
    }

    /// The request, if it was sent.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<Ask> {
        let asked = self.state.lock().ask.clone();
        asked.map(|(method, frame)| Ask { open: self.clone(), method, frame })
    }

    /// Puts an answer of a connection behind the one before it, so that the first that came is the first that is
    /// decided about. The guard lets the next one go.
    fn line_up(&self, connection: ConnectionId) -> (Option<CancellationToken>, DropGuard) {
        let mine = CancellationToken::new();
        let before = self.state.lock().answering.insert(connection, mine.clone());
        (before, mine.drop_guard())
    }

    /// The method under which it was asked.
    fn method(&self) -> &'static str {
        self.state.lock().ask.as_ref().map_or(method::APPROVAL_RESPOND, |(method, _)| method)
    }
}

impl Approvals {
    /// An input was parked.
    pub(crate) fn open(&self, open: Arc<Open>) {
        self.open.lock().insert(open.input.id, open);
    }

    pub(crate) fn get(&self, input: InputId) -> Option<Arc<Open>> {
        self.open.lock().get(&input).cloned()
    }

    /// The open approvals of a thread, in the order in which they were parked.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<Arc<Open>> {
        let mut open: Vec<_> =
            self.open.lock().values().filter(|open| open.session == session).cloned().collect();
        open.sort_by_key(|open| open.input.sequence);
        open
    }

    /// The records of all that is open, or of a thread's, by sequence.
    pub(crate) fn records(&self, session: Option<SessionId>) -> Vec<Approval> {
        let wanted = |open: &&Arc<Open>| session.is_none_or(|session| open.session == session);
        let open: Vec<_> = self.open.lock().values().filter(wanted).cloned().collect();
        let mut records: Vec<_> = open.iter().filter_map(|open| open.state.lock().record.clone()).collect();
        records.sort_by_key(|record| record.sequence);
        records
    }

    /// An approval was resolved, by whomever.
    pub(crate) fn resolve(&self, session: SessionId, resolved: &PermissionResolved, at_ms: i64) {
        let open = self.open.lock().remove(&resolved.input);
        if open.is_none() {
            // Decided without asking anybody: no answer can come.
            return;
        }
        self.remember(session, resolved, at_ms);
    }

    /// Remembers how an approval was resolved, so that a late answer can be told.
    pub(crate) fn remember(&self, session: SessionId, resolved: &PermissionResolved, at_ms: i64) {
        let mut known = self.resolved.lock();
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back(Resolved { session, resolved: resolved.clone(), at_ms });
    }

    /// An approval needs no answer any more.
    pub(crate) fn close(&self, input: InputId) {
        self.open.lock().remove(&input);
    }

    /// What became of an approval that is not open any more.
    pub(crate) fn resolved(&self, input: InputId) -> Option<Resolved> {
        self.resolved.lock().iter().rev().find(|known| known.resolved.input == input).cloned()
    }

    /// How it is told that an input needs no answer any more, to who missed it.
    pub(crate) fn told(&self, session: SessionId, input: &PendingInput) -> ServerRequestResolvedNotification {
        let resolved = self.resolved(input.id).map(|known| known.resolved).unwrap_or_else(|| {
            // One that is not remembered any more was of a turn that is long over.
            let by = ResolvedBy { kind: ResolverKind::Interrupt, name: None };
            PermissionResolved::of(input, Decision::Cancel, by)
        });
        convert::resolved_out(session, &resolved, input.kind == InputKind::Elicitation)
    }

    /// A thread has left memory.
    pub(crate) fn forget(&self, session: SessionId) {
        self.open.lock().retain(|_, open| open.session != session);
    }
}

impl Ask {
    pub(crate) fn id(&self) -> &str {
        &self.open.id
    }

    /// Sends it, and waits for the answer on a task that ends with the approval or the connection.
    pub(crate) fn send(self, hubs: &Hubs, peer: &Peer) {
        let answer = peer.request_frame(&self.open.id, self.frame);
        let (hubs, subscriber) = (hubs.clone(), Subscriber::new(peer));
        let (open, method) = (self.open, self.method);
        let (before, next) = open.line_up(peer.id());
        hubs.clone().spawn(async move {
            let answer = answer.await;
            if let Some(before) = before {
                before.cancelled().await;
            }
            let _next = next;
            match answer {
                Ok(result) => settle(&hubs, &subscriber, &open, method, &result).await,
                Err(RequestEnd::Rejected(error)) => {
                    unable(&hubs, &subscriber, &open, &format!("it was answered with an error ({error})"))
                        .await;
                }
                Err(end @ RequestEnd::TooMany) => {
                    unable(&hubs, &subscriber, &open, &end.to_string()).await;
                }
                Err(RequestEnd::Withdrawn | RequestEnd::Superseded | RequestEnd::Closed) => {}
            }
        });
    }
}

/// A client has answered.
async fn settle(
    hubs: &Hubs,
    subscriber: &Subscriber,
    open: &Arc<Open>,
    method: &'static str,
    result: &RawValue,
) {
    let reply = match reply_of(method, result, &open.input) {
        Ok(reply) => reply,
        Err(error) => return unable(hubs, subscriber, open, &error.to_string()).await,
    };
    match answer(open.session, &open.input, reply) {
        Ok(answer) => {
            let decision = match answer.then_interrupt {
                true => ApprovalDecision::Cancel,
                false => outcome_of(&answer.op, &open.input).decision,
            };
            match submit(hubs, answer, subscriber.name()).await {
                Ok(()) => note(hubs, DoorCaller::of_peer(&subscriber.peer), open, decision),
                Err(error) => hubs.warn(subscriber, open.session, refusal(&open.id, &error)),
            }
        }
        Err(error @ AnswerError::NothingAllowsOnce { .. }) => {
            let message = format!("Approval {} stays open: {error}.", open.id);
            hubs.warn(subscriber, open.session, message);
        }
        Err(error) => unable(hubs, subscriber, open, &error.to_string()).await,
    }
}

/// Whoever keeps the audit log hears of an answer that was taken.
pub(crate) fn note(hubs: &Hubs, caller: DoorCaller, open: &Open, decision: ApprovalDecision) {
    if let Some(doors) = hubs.doors() {
        let (thread, approval) = (open.session.to_string(), open.id.clone());
        doors.approval_answered(caller, ApprovalAnswered { thread, approval, decision });
    }
}

fn refusal(id: &str, error: &OpError) -> String {
    match error {
        OpError::ApprovalResolved { resolution, .. } => late(id, resolution),
        other => format!("The answer to approval {id} was not taken: {other}."),
    }
}

fn late(id: &str, resolution: &Resolution) -> String {
    let name = resolution.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let Resolution { by, decision, .. } = resolution;
    format!("The answer to approval {id} came too late: it was resolved by {by}{name} as {decision}.")
}

/// Hands an answer to the core.
///
/// # Errors
/// The core did not take it; then nothing has changed.
pub(crate) async fn submit(hubs: &Hubs, answer: Answer, client: String) -> Result<(), OpError> {
    submit_as(hubs, answer, Origin { client: Some(client), ..Origin::default() }).await
}

async fn submit_as(hubs: &Hubs, answer: Answer, origin: Origin) -> Result<(), OpError> {
    let engine = hubs.engine().ok_or(OpError::ShuttingDown)?;
    let Answer { op, then_interrupt } = answer;
    if then_interrupt {
        engine.submit_interrupting(op, origin).await?;
    } else {
        engine.submit(op, origin).await?;
    }
    Ok(())
}

/// This connection cannot answer this approval. It stays open for the others.
async fn unable(hubs: &Hubs, subscriber: &Subscriber, open: &Arc<Open>, why: &str) {
    open.state.lock().unable.insert(subscriber.peer.id());
    let message = format!("The answer to {} (approval {}) could not be used: {why}.", open.method(), open.id);
    hubs.warn(subscriber, open.session, message);
    reject_if_stuck(hubs, open).await;
}

/// Rejects an approval if there are subscribed operators, but none that can answer it.
pub(crate) async fn reject_if_stuck(hubs: &Hubs, open: &Arc<Open>) {
    let Some(hub) = hubs.get(open.session) else { return };
    let operators: Vec<_> = hub.subscribers().into_iter().filter(Subscriber::can_answer).collect();
    let (stuck, first) = {
        let mut state = open.state.lock();
        let is_unable = |operator: &Subscriber| state.unable.contains(&operator.peer.id());
        let stuck = !operators.is_empty() && operators.iter().all(is_unable);
        (stuck, stuck && !std::mem::replace(&mut state.told_stuck, true))
    };
    if !stuck {
        return;
    }
    if first {
        // Said before it is done, so that it stands before what follows from it.
        let message = format!("No client can answer {}; approval {} is rejected.", open.method(), open.id);
        for subscriber in hub.subscribers() {
            hubs.warn(&subscriber, open.session, message.clone());
        }
    }
    reject(hubs, open, ResolverKind::Unattended, None).await;
}

/// Rejects an approval in no client's name; false if that was done before, or it was resolved otherwise. `why` is shown.
pub(crate) async fn reject(hubs: &Hubs, open: &Arc<Open>, resolver: ResolverKind, why: Option<&str>) -> bool {
    if std::mem::replace(&mut open.state.lock().rejecting, true) {
        return false;
    }
    let decline = Reply { decision: Some(ApprovalDecision::Decline), ..Reply::default() };
    let answer = match answer(open.session, &open.input, decline) {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(session = %open.session, approval = open.id, %error, "an approval cannot be declined");
            return false;
        }
    };
    let origin = Origin { client: why.map(str::to_owned), resolver: Some(resolver), ..Origin::default() };
    match submit_as(hubs, answer, origin).await {
        Ok(()) => true,
        Err(OpError::ApprovalResolved { .. } | OpError::ApprovalNotFound(_)) => false,
        Err(error) => {
            // Whoever subscribes or answers next may try again.
            open.state.lock().rejecting = false;
            tracing::warn!(session = %open.session, approval = open.id, %error, "an approval was not rejected");
            false
        }
    }
}

/// A response that nobody waits for: late, or a second try after an answer that could not be used.
pub(crate) fn stray(hubs: &Hubs, peer: &Peer, response: StrayResponse<'_>) {
    let Some(input) = response.id.and_then(|id| id.parse::<InputId>().ok()) else {
        tracing::debug!(connection = %peer.id(), "a response to nothing we asked");
        return;
    };
    let subscriber = Subscriber::new(peer);
    if let Some(resolved) = hubs.approvals().resolved(input) {
        let message = late(&input.to_string(), &resolved.resolution());
        hubs.warn(&subscriber, resolved.session, message);
        return;
    }
    let Some(open) = hubs.approvals().get(input).filter(|_| subscriber.can_answer()) else {
        tracing::debug!(connection = %peer.id(), approval = %input, "a response to an unknown approval");
        return;
    };
    let Ok(result) = response.outcome.map(ToOwned::to_owned) else { return };
    let hubs = hubs.clone();
    let (before, next) = open.line_up(peer.id());
    hubs.clone().spawn(async move {
        if let Some(before) = before {
            before.cancelled().await;
        }
        let _next = next;
        let method = open.method();
        settle(&hubs, &subscriber, &open, method, &result).await;
    });
}

fn reply_of(method: &str, result: &RawValue, input: &PendingInput) -> Result<Reply, serde_json::Error> {
    fn read<T: DeserializeOwned>(result: &RawValue) -> Result<T, serde_json::Error> {
        // Serde would read a struct from an array as well; an answer is an object.
        if !result.get().trim_start().starts_with('{') {
            return Err(serde::de::Error::custom("an answer is an object"));
        }
        serde_json::from_str(result.get())
    }
    Ok(match method {
        method::ITEM_FILE_CHANGE_REQUEST_APPROVAL => {
            read::<signalbox_protocol::app::FileChangeRequestApprovalResponse>(result)?.into()
        }
        method::ITEM_TOOL_REQUEST_USER_INPUT => Reply::from_question(read(result)?, input),
        method::MCP_SERVER_ELICITATION_REQUEST => {
            read::<signalbox_protocol::app::McpServerElicitationRequestResponse>(result)?.into()
        }
        _ => read::<signalbox_protocol::app::CommandExecutionRequestApprovalResponse>(result)?.into(),
    })
}
