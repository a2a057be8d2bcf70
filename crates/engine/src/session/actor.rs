//! The actor's state, its loop, and the commit that everything shown passes.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signalbox_agents::{Agent, AgentEvent, AgentEvents, PromptBlock, RequestKey, Token};
use signalbox_facts::{
    Activity, Committed, FactBody, InputId, Seq, SessionRow, SignalBody, TokensAtEnd, TurnId, Warning,
};
use signalbox_protocol::ops::Op;
use signalbox_store::{Commit, CommitError, StorageKind, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};

use super::diffs::{Diffs, Done};
use super::fork::Forking;
use super::restart::Restarts;
use super::unattended::Alone;
use super::worktree::{Checkout, Removed};
use super::{Control, Delivery, Gate, Live, SessionStream};
use crate::batch::{Batch, Item};
use crate::core::{Core, RETRY};
use crate::explain::Why;
use crate::items::Items;
use crate::prompt::{Document, Opening};
use crate::submission::{Accepted, OpError, Reply, Resolution, Submission};

/// Resolutions that are remembered, so that a late answer is told what happened.
const RESOLUTIONS: usize = 256;

/// One loaded session.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(super) core: Arc<Core>,
    /// Where its facts are.
    pub(super) store: Store,
    /// The session as committed; memory never runs ahead of it.
    pub(super) row: SessionRow,
    pub(super) live: Live,
    pub(super) turn: Option<OpenTurn>,
    /// The turn that late updates belong to.
    pub(super) last_turn: Option<TurnId>,
    pub(super) items: Items,
    pub(super) agent: Option<LiveAgent>,
    /// Which of the agent's open requests a pending input answers.
    pub(super) parked: HashMap<InputId, RequestKey>,
    pub(super) resolved: VecDeque<(InputId, Resolution)>,
    pub(super) batch: Option<Batch>,
    pub(super) settling: Option<Settling>,
    /// A fork for which the agent is asked for a copy of its conversation; work waits for it.
    pub(super) forking: Option<Forking>,
    /// Work taken out of the queue by a cancel that it survived.
    pub(super) kept: VecDeque<Box<Submission>>,
    /// Environment offered by the connection that last used the session. Never stored, never logged.
    pub(super) env: Option<Arc<BTreeMap<String, String>>>,
    pub(super) next_token: u64,
    pub(super) inbox: Inbox,
    pub(super) gate: Arc<Gate>,
    /// When it was last asked for something, or a turn ended.
    pub(super) rested_since: Instant,
    pub(super) diffs: Diffs,
    pub(super) alone: Alone,
    pub(super) restarts: Restarts,
    pub(super) checkout: Checkout,
    /// Who waits for the session to be deleted.
    pub(super) deleting: Option<Reply>,
    /// The session's rows are gone; so is the actor, soon.
    pub(super) deleted: bool,
    /// Its people know that the traffic of its agents cannot be logged.
    pub(super) log_failure_told: bool,
    subscribers: Vec<mpsc::Sender<Delivery>>,
}

/// The two queues of a session.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) control: mpsc::Receiver<Control>,
    pub(super) work: mpsc::Receiver<Box<Submission>>,
}

/// The open turn.
#[derive(Debug)]
pub(super) struct OpenTurn {
    pub(super) id: TurnId,
    /// Where its agent works, whatever is set meanwhile.
    pub(super) cwd: PathBuf,
    /// Seq of the prompt that opened it.
    pub(super) prompt_seq: Seq,
    pub(super) request_id: Option<String>,
    /// What opened it, until it is compiled.
    pub(super) uncompiled: Option<Document>,
    /// Compiled and waiting for the agent to be ready.
    pub(super) waiting: Option<Vec<PromptBlock>>,
    /// The agent has a prompt of this turn.
    pub(super) prompting: bool,
    /// The agent has had none of it yet.
    pub(super) fresh: bool,
    /// Somebody interrupted it.
    pub(super) cancelled: bool,
    /// It compacts the agent's context and takes no input.
    pub(super) compacting: bool,
    /// The agent was told to stop so that it can be steered.
    pub(super) stopping: bool,
    /// Compiled steering input that the agent has not got yet.
    pub(super) steers: Vec<Vec<PromptBlock>>,
    pub(super) meta: serde_json::Map<String, serde_json::Value>,
    /// What it has learned of tokens and context window.
    pub(super) tokens: Option<TokensAtEnd>,
}

/// The running agent.
#[derive(Debug)]
pub(super) struct LiveAgent {
    pub(super) agent: Agent,
    pub(super) events: AgentEvents,
    pub(super) ready: bool,
    /// The directory that its conversation was opened in.
    pub(super) cwd: PathBuf,
    /// What goes with its first prompt, if its conversation is new.
    pub(super) opening: Option<Opening>,
    /// Makes copies of its conversation that another process can go on with.
    pub(super) copies: bool,
    /// The program that may download it first.
    pub(super) fetching: Option<String>,
    /// The MCP servers it was told of.
    pub(super) mcp_servers: Vec<String>,
    /// When it was started, and its last sign of life: Unix milliseconds.
    pub(super) started_at_ms: i64,
    pub(super) heard_at_ms: i64,
    /// Kinds of updates that it sent and nobody here knows.
    pub(super) unknown: BTreeSet<String>,
}

impl LiveAgent {
    /// Stops it. From here on it is as if there were none, save that another one has to wait for its end.
    pub(super) fn stop(&mut self) {
        self.agent.stop();
        self.ready = false;
    }
}

/// A setting that the agent is asked to take; work waits for it.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) token: Token,
    pub(super) then: FactBody,
    pub(super) reply: Reply,
    /// Unix milliseconds.
    pub(super) since_ms: i64,
    /// The agent has told its models meanwhile.
    pub(super) models_told: bool,
}

impl Actor {
    pub(super) fn new(
        core: Arc<Core>,
        row: SessionRow,
        inbox: Inbox,
        gate: Arc<Gate>,
        subscriber: mpsc::Sender<Delivery>,
    ) -> Self {
        Self {
            alone: Alone::new(&core),
            store: core.stores.of(row.id),
            core,
            items: Items::new(row.cwd.clone()),
            last_turn: row.activity.turn(),
            row,
            live: Live::default(),
            turn: None,
            agent: None,
            parked: HashMap::new(),
            resolved: VecDeque::new(),
            batch: None,
            settling: None,
            forking: None,
            kept: VecDeque::new(),
            env: None,
            next_token: 0,
            inbox,
            gate,
            rested_since: Instant::now(),
            diffs: Diffs::default(),
            checkout: Checkout::default(),
            restarts: Restarts::default(),
            deleting: None,
            deleted: false,
            log_failure_told: false,
            subscribers: vec![subscriber],
        }
    }

    pub(super) async fn run(mut self, released: Vec<Committed>) {
        if !released.is_empty() {
            self.publish(released.into()).await;
        }
        let shutdown = self.core.shutdown.clone();
        while !self.deleted {
            self.drive_discard();
            let ending = self.kept.front().is_some_and(|first| self.waits_for_end(&first.op));
            let free =
                self.settling.is_none() && self.forking.is_none() && self.checkout.is_free() && !ending;
            if free && self.queue_is_due() {
                self.run_queue().await;
                continue;
            }
            if free && let Some(submission) = self.kept.pop_front() {
                self.work(submission).await;
                continue;
            }
            let rest = self.rests_until(free);
            let look_at = self.look_for_people_at();
            let restart_at = self.restarts.wake_at();
            let step = tokio::select! {
                biased;
                () = shutdown.cancelled() => None,
                message = self.inbox.control.recv() => message.map(Step::Control),
                events = next_events(self.agent.as_mut()) => Some(Step::Agent(events)),
                done = self.diffs.done() => Some(Step::Diff(done)),
                removed = self.checkout.removed() => Some(Step::CheckoutRemoved(removed)),
                () = self.alone.wait(look_at) => Some(Step::LookForPeople),
                submission = self.inbox.work.recv(), if free => submission.map(Step::Work),
                () = moment(rest) => Some(Step::Rested),
                () = moment(restart_at) => Some(Step::Restart),
            };
            match step {
                None => break,
                Some(Step::Control(Control::Op(submission))) => {
                    self.rested_since = Instant::now();
                    self.control(submission).await;
                }
                Some(Step::Control(Control::Subscribe(reply))) => self.subscribe(reply),
                Some(Step::Control(Control::Explain(reply))) => self.explain(reply, None),
                Some(Step::Control(Control::Offer(offered))) => self.env = Some(offered.0),
                Some(Step::Agent(Some(events))) => self.on_events(events).await,
                Some(Step::Agent(None)) => self.agent = None,
                Some(Step::Diff(done)) => self.diff_done(done).await,
                Some(Step::CheckoutRemoved(removed)) => self.checkout_removed(removed).await,
                Some(Step::LookForPeople) => self.look_for_people().await,
                Some(Step::Work(submission)) => {
                    self.rested_since = Instant::now();
                    self.work(submission).await;
                }
                Some(Step::Restart) => self.drive_prompt().await,
                Some(Step::Rested) => {
                    if self.leaves_memory() {
                        self.unload().await;
                        break;
                    }
                }
            }
        }
        self.end().await;
    }

    /// The actor ends, because the server stops or the session is gone or leaves memory: the open turn ends, everybody who
    /// waits is told. Behind the closed gate nobody comes any more.
    async fn end(mut self) {
        self.gate.close();
        let gone = || OpError::SessionNotFound(self.row.id.to_string());
        let left = if self.deleted { gone() } else { OpError::ShuttingDown };
        self.inbox.control.close();
        self.inbox.work.close();
        if self.turn.is_some() && !self.deleted {
            self.stop_turn_for_shutdown().await;
        }
        if let Some(settling) = self.settling.take() {
            self.decided(settling.reply, Err(left.clone()));
        }
        if let Some(forking) = self.forking.take() {
            self.decided(forking.reply, Err(left.clone()));
        }
        self.finish_discard().await;
        if let Some(live) = self.agent.take() {
            live.agent.stop();
        }
        while let Some(message) = self.inbox.control.recv().await {
            if let Control::Op(submission) = message {
                self.decided(submission.reply, Err(left.clone()));
            }
        }
        for submission in std::mem::take(&mut self.kept) {
            self.decided(submission.reply, Err(left.clone()));
        }
        while let Some(submission) = self.inbox.work.recv().await {
            self.decided(submission.reply, Err(left.clone()));
        }
    }

    fn subscribe(&mut self, reply: oneshot::Sender<SessionStream>) {
        let (sender, deliveries) = mpsc::channel(super::STREAM);
        let stream = SessionStream { row: self.row.clone(), live: self.live.clone(), deliveries };
        if reply.send(stream).is_ok() {
            self.subscribers.push(sender);
        }
    }

    // ---- commit ----

    /// The batch being put together; begins one if there is none.
    pub(super) fn batch(&mut self) -> &mut Batch {
        let (session, last_seq, now_ms) = (self.row.id, self.row.last_seq, self.core.now_ms);
        self.batch.get_or_insert_with(|| Batch::new(session, last_seq, now_ms()))
    }

    /// Activity as it will be after the batch.
    pub(super) fn activity(&self) -> Activity {
        let coming = self.batch.as_ref().and_then(Batch::activity);
        coming.unwrap_or(&self.row.activity).clone()
    }

    pub(super) fn warn(&mut self, reason: &str, message: impl Into<String>, request_id: Option<String>) {
        let turn = self.turn.as_ref().map(|turn| turn.id);
        let warning =
            Warning { message: message.into(), reason: reason.to_owned(), terminal: false, request_id };
        self.batch().push(turn, Item::None, FactBody::Warning(warning));
    }

    pub(super) fn signal(&mut self, body: SignalBody) {
        let turn = self.turn.as_ref().map(|turn| turn.id);
        match &body {
            SignalBody::Models { available, current } => {
                self.live.models = Some((available.clone(), current.clone()));
            }
            SignalBody::ConfigOptions(options) => self.live.config_options = Some(options.clone()),
            SignalBody::Commands(commands) => self.live.commands = Some(commands.clone()),
            SignalBody::ContextWindow(window) => self.live.context_window = Some(*window),
            SignalBody::RateLimits { limits, .. } => self.live.rate_limits.clone_from(limits),
            SignalBody::Stalled { .. } | SignalBody::Unloaded | SignalBody::Deleted => {}
        }
        self.batch().signal(turn, body);
    }

    /// Stores the batch and shows it. On an error nothing of it is stored or shown, and it is gone.
    pub(super) async fn try_commit(&mut self) -> Result<(), CommitError> {
        let Some(batch) = self.batch.take().filter(|batch| !batch.is_empty()) else { return Ok(()) };
        let (expected, entries) = batch.seal();
        self.store(expected, &entries).await?;
        self.release(entries).await;
        Ok(())
    }

    /// Stores the batch and shows it, however long the store needs to recover: the agent is not read meanwhile.
    pub(super) async fn commit(&mut self) {
        let Some(batch) = self.batch.take().filter(|batch| !batch.is_empty()) else { return };
        let (expected, entries) = batch.seal();
        let mut pause = RETRY.0;
        while let Err(error) = self.store(expected, &entries).await {
            if self.deleted {
                return;
            }
            tracing::error!(session = %self.row.id, %error, "facts cannot be stored; the session is stalled");
            if !matches!(error, CommitError::Storage { .. }) || self.core.shutdown.is_cancelled() {
                // Nothing that waiting could mend. What was not stored is not shown; the next start closes the turn.
                return;
            }
            self.refuse_while_stalled(pause, &error).await;
            if self.deleted {
                return;
            }
            pause = (pause * 2).min(RETRY.1);
        }
        self.release(entries).await;
    }

    /// Waits for the next attempt; whoever asks for something meanwhile is told at once.
    async fn refuse_while_stalled(&mut self, pause: Duration, error: &CommitError) {
        let trouble = self.trouble(error);
        if let Some(reply) = self.deleting.take() {
            self.delete_stalled(reply, &trouble).await;
            if self.deleted {
                return;
            }
        }
        let until = Instant::now() + pause;
        let retry_at_ms = (self.core.now_ms)() + i64::try_from(pause.as_millis()).unwrap_or_default();
        let shutdown = self.core.shutdown.clone();
        loop {
            let submission = tokio::select! {
                () = sleep_until(until) => return,
                () = shutdown.cancelled() => return,
                message = self.inbox.control.recv() => match message {
                    Some(Control::Op(submission)) => submission,
                    Some(Control::Subscribe(reply)) => {
                        self.subscribe(reply);
                        continue;
                    }
                    Some(Control::Explain(reply)) => {
                        let why = Why::Stalled { error: trouble.clone(), next_attempt_at_ms: retry_at_ms };
                        self.explain(reply, Some(why));
                        continue;
                    }
                    Some(Control::Offer(offered)) => {
                        self.env = Some(offered.0);
                        continue;
                    }
                    None => return,
                },
                submission = self.inbox.work.recv() => match submission {
                    Some(submission) => submission,
                    None => return,
                },
            };
            if matches!(submission.op, Op::Delete { .. }) {
                self.delete_stalled(submission.reply, &trouble).await;
                if self.deleted {
                    return;
                }
                continue;
            }
            if let (Op::Cancel { .. }, Some(live)) = (&submission.op, &self.agent) {
                // The agent is stopped now; that the turn was interrupted is stored when it can be.
                if let Some(turn) = &mut self.turn {
                    turn.cancelled = true;
                }
                if let Err(error) = live.agent.cancel() {
                    tracing::debug!(session = %self.row.id, %error, "cancel of a stalled session");
                }
            }
            submission
                .reply
                .send_while(self.row.activity.is_open(), Err(OpError::StorageFailed(trouble.clone())));
        }
    }

    /// What keeps the facts from being stored, for people.
    fn trouble(&self, error: &CommitError) -> String {
        match error {
            CommitError::Storage { kind: StorageKind::Full, .. } if self.row.ephemeral => {
                "the memory for ephemeral threads is full; delete one of them to make room".to_owned()
            }
            error => error.to_string(),
        }
    }

    async fn store(&self, expected: u64, entries: &[Committed]) -> Result<(), CommitError> {
        // A signal leaves no row; as this session has no other commit in flight, it cannot overtake one.
        if entries.iter().all(|entry| matches!(entry, Committed::Signal(_))) {
            return Ok(());
        }
        let commit = Commit { session: self.row.id, expected_last_seq: expected, entries: entries.to_vec() };
        match self.store.writer.commit(commit).await {
            Ok(_) => Ok(()),
            // The facts are stored; only the disk has not confirmed them.
            Err(CommitError::Unflushed { session, .. }) => {
                self.core.flush_until_done(session).await.map_err(|_stopping| CommitError::Closed)
            }
            Err(error) => Err(error),
        }
    }

    async fn release(&mut self, entries: Vec<Committed>) {
        for entry in &entries {
            if let Committed::Fact(fact) = entry {
                self.row.apply(fact);
            }
        }
        self.publish(entries.into()).await;
    }

    pub(super) async fn publish(&mut self, delivery: Delivery) {
        let mut gone = false;
        for subscriber in &self.subscribers {
            gone |= subscriber.send(Arc::clone(&delivery)).await.is_err();
        }
        self.core.bus.committed(&delivery);
        if gone {
            self.subscribers.retain(|subscriber| !subscriber.is_closed());
        }
    }

    // ---- small things the other files share ----

    /// Tells the decision about an Op; on events it shows whether a turn is open.
    pub(super) fn decided(&self, reply: Reply, decision: Result<Accepted, OpError>) {
        reply.send_while(self.row.activity.is_open(), decision);
    }

    pub(super) fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.row.all_roots()
    }

    pub(super) fn remember(&mut self, input: InputId, resolution: Resolution) {
        if self.resolved.len() == RESOLUTIONS {
            self.resolved.pop_front();
        }
        self.resolved.push_back((input, resolution));
    }
}

enum Step {
    Control(Control),
    Agent(Option<Vec<AgentEvent>>),
    Diff(Done),
    CheckoutRemoved(Result<Removed, JoinError>),
    LookForPeople,
    Work(Box<Submission>),
    Rested,
    Restart,
}

/// Waits for a moment; without one for ever.
async fn moment(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn next_events(agent: Option<&mut LiveAgent>) -> Option<Vec<AgentEvent>> {
    match agent {
        Some(live) => live.events.recv().await,
        None => std::future::pending().await,
    }
}
