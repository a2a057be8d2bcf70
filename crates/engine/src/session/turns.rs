//! The life of a turn: start, steer, interrupt, end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use signalbox_agents::{OpenSession, PromptRequest, start};
use signalbox_facts::{
    Decision, DocBlock, FactBody, FailedReason, Failure, PermissionResolved, Prompt, QueuePause, ResolvedBy,
    ResolverKind, SubmissionId, TitleChanged, TitleOrigin, TokensAtEnd, ToolOutcome, TurnContext, TurnEnded,
    TurnId, TurnStatus, Usage, Warning, canonical_text, display_text,
};
use signalbox_protocol::ops::{Op, TurnInput, TurnMode};
use signalbox_store::CommitError;

use super::actor::{Actor, LiveAgent, OpenTurn};
use crate::batch::Item;
use crate::policy::posture;
use crate::prompt::Document;
use crate::submission::{Accepted, OpError, Origin, Reply, Submission};
use crate::{activity, convert, title};

/// The command by which agents are told to compact their context.
const COMPACT: &str = "compact";

/// Input about which something is to be decided.
#[derive(Debug)]
pub(super) enum Admitted {
    /// Its blocks.
    New(Vec<DocBlock>),
    /// It was accepted before, into this turn.
    Before(TurnId),
}

/// A turn that is about to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) turn: TurnId,
    pub(super) input: TurnInput,
    pub(super) blocks: Vec<DocBlock>,
    pub(super) origin: Origin,
}

impl Actor {
    /// Whether this work has to wait for the end of a turn that was interrupted: whoever stops a turn and types the next
    /// prompt means a turn of its own. Whoever asks for one thing exactly is told how it stands.
    pub(super) fn waits_for_end(&self, op: &Op) -> bool {
        let Op::TurnInput(input) = op else { return false };
        let plain = input.mode == TurnMode::Auto && input.expected_turn.is_none();
        plain && self.turn.as_ref().is_some_and(|turn| turn.cancelled)
    }

    /// Decides about an input: start, steer, or decline. Replies as soon as the decision is stored.
    pub(super) async fn turn_input(&mut self, input: TurnInput, origin: Origin, sender: Reply) {
        match self.decide_input(input, origin).await {
            Ok(accepted) => {
                sender.send(Ok(accepted));
                self.drive_prompt().await;
            }
            Err(error) => {
                self.batch = None;
                sender.send_while(self.row.activity.is_open(), Err(error));
            }
        }
    }

    async fn decide_input(&mut self, input: TurnInput, origin: Origin) -> Result<Accepted, OpError> {
        let blocks = match self.admitted(&input).await? {
            Admitted::New(blocks) => blocks,
            Admitted::Before(turn) => return Ok(Accepted::Repeated { turn }),
        };
        match (&self.turn, input.mode) {
            (Some(turn), TurnMode::Start) => Err(OpError::TurnActive(turn.id)),
            (Some(_), TurnMode::Queue) => self.enqueue(input, blocks, &origin).await,
            (Some(_), _) => self.steer(input, blocks, &origin).await,
            (None, TurnMode::Steer) => Err(OpError::NoActiveTurn { verb: "steer" }),
            (None, _) if input.expected_turn.is_some() => Err(OpError::NoActiveTurn { verb: "steer" }),
            (None, _) => self.start_turn(Start { turn: TurnId::generate(), input, blocks, origin }).await,
        }
    }

    /// Whether the session takes input at all, and this one: not empty, and not accepted before.
    pub(super) async fn admitted(&self, input: &TurnInput) -> Result<Admitted, OpError> {
        if self.row.archived {
            return Err(OpError::Archived);
        }
        if self.row.worktree_discarded {
            return Err(OpError::WorktreeDiscarded);
        }
        let blocks = convert::doc_in(input.doc.clone());
        if is_blank(&blocks) {
            return Err(empty_input());
        }
        causes(input)?;
        let before = match &input.client_message_id {
            Some(id) => self.accepted_before(id, &blocks).await?,
            None => None,
        };
        Ok(before.map_or(Admitted::New(blocks), Admitted::Before))
    }

    /// The turn that a client's message went into, if it was accepted before. The same id with another text is an error.
    async fn accepted_before(&self, id: &str, blocks: &[DocBlock]) -> Result<Option<TurnId>, OpError> {
        if let Some(queued) = self.queued_before(id, blocks)? {
            return Ok(Some(queued));
        }
        let receipt = self.store.reader.receipt(self.row.id, id).await;
        let Some(receipt) = receipt.map_err(|error| OpError::StorageFailed(error.to_string()))? else {
            return Ok(None);
        };
        let facts = self.store.reader.facts(self.row.id, receipt.seq, receipt.seq).await;
        let facts = facts.map_err(|error| OpError::StorageFailed(error.to_string()))?;
        let same = facts
            .iter()
            .any(|fact| matches!(&fact.body, FactBody::Prompt(prompt) if prompt.blocks == blocks));
        if same {
            return Ok(receipt.turn);
        }
        Err(used_before(id))
    }

    pub(super) async fn start_turn(&mut self, start: Start) -> Result<Accepted, OpError> {
        let Start { turn, input, blocks, origin } = start;
        let policy_before = self.row.policy;
        let strayed = self.look_at_checkout().await?;
        self.apply_settings(input.settings.clone(), None)?;
        self.look_at_directory()?;
        let Some(running) = activity::open_turn(&self.row.activity, turn, input.request_id.clone()) else {
            // Only if the row says that a turn is open while none is; the next start of the server mends it.
            return Err(OpError::TurnActive(self.row.activity.turn().unwrap_or(turn)));
        };
        let text = canonical_text(&blocks);
        let context = self.turn_context(&input)?;
        self.queue_goes_on(turn);
        self.batch().push(Some(turn), Item::None, FactBody::Activity(running));
        if self.row.title_origin == TitleOrigin::Default
            && let Some(title) = title::from_prompt(&text)
        {
            let changed = TitleChanged { title, origin: TitleOrigin::Automatic };
            self.batch().push(Some(turn), Item::None, FactBody::TitleChanged(changed));
        }
        let cwd = context.cwd.clone();
        let prompt = Prompt {
            display: display_text(&text),
            text,
            blocks: blocks.clone(),
            request_id: input.request_id.clone(),
            client_message_id: input.client_message_id,
            opens: Some(Box::new(context.clone())),
        };
        let prompt_seq = self.batch().push(Some(turn), Item::New, FactBody::Prompt(Box::new(prompt)));
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        self.items = self.items.of_next_turn(cwd.clone());
        let meta = prompt_meta(&context.client_metadata, &origin);
        self.turn = Some(OpenTurn {
            id: turn,
            cwd,
            prompt_seq,
            request_id: input.request_id,
            uncompiled: Some(self.document(blocks, context.additional_context)),
            waiting: None,
            prompting: false,
            fresh: true,
            cancelled: false,
            compacting: false,
            stopping: false,
            steers: Vec::new(),
            meta,
            tokens: None,
        });
        self.last_turn = Some(turn);
        if self.row.policy != policy_before {
            self.policy_in_force().await;
        }
        self.record_workspace();
        self.checkout_strayed(strayed).await;
        Ok(Accepted::Started { turn })
    }

    /// Whether the directory that the agent is to work in is still there.
    fn look_at_directory(&self) -> Result<(), OpError> {
        let coming = self.coming_settings().and_then(|coming| coming.cwd);
        let cwd = coming.as_ref().unwrap_or(&self.row.cwd);
        if cwd.is_dir() {
            return Ok(());
        }
        let message =
            format!("the working directory {} is gone; give the thread another one as cwd", cwd.display());
        Err(OpError::InvalidParams { path: "cwd", message })
    }

    /// Has the agent compact its context: a turn of its own, which takes no input.
    pub(super) async fn compact(&mut self, request_id: Option<String>, origin: Origin, sender: Reply) {
        let decision = self.start_compaction(request_id, origin).await;
        if decision.is_err() {
            self.batch = None;
        }
        self.decided(sender, decision);
        self.drive_prompt().await;
    }

    async fn start_compaction(
        &mut self,
        request_id: Option<String>,
        origin: Origin,
    ) -> Result<Accepted, OpError> {
        if let Some(open) = &self.turn {
            return Err(OpError::TurnActive(open.id));
        }
        let offered = self.live.commands.iter().flatten().any(|command| command.name == COMPACT);
        if !offered {
            let message =
                "the agent offers no compact command; it says what it offers once it runs".to_owned();
            return Err(OpError::Agent { reason: "unsupported_by_agent", message });
        }
        let blocks = vec![DocBlock::text(format!("/{COMPACT}"))];
        let input = TurnInput { request_id, ..TurnInput::new(self.row.id.to_string(), Vec::new()) };
        let start = Start { turn: TurnId::generate(), input, blocks, origin };
        let accepted = self.start_turn(start).await?;
        if let Some(open) = &mut self.turn {
            open.compacting = true;
            let turn = open.id;
            self.batch();
            if let Some(batch) = &mut self.batch {
                self.items.compaction_asked(batch, turn);
            }
            self.commit().await;
        }
        Ok(accepted)
    }

    fn turn_context(&self, input: &TurnInput) -> Result<TurnContext, OpError> {
        let (parent_turn, root_turn) = causes(input)?;
        // What the batch changes counts already.
        let mut row = self.row.clone();
        if let Some(patch) = self.coming_settings() {
            row.policy = patch.policy.unwrap_or(row.policy);
            row.cwd = patch.cwd.unwrap_or(row.cwd);
            row.roots = patch.roots.unwrap_or(row.roots);
            row.model = patch.model.or(row.model);
            row.effort = patch.effort.or(row.effort);
        }
        Ok(TurnContext {
            cwd: row.cwd,
            roots: row.roots,
            model: row.model,
            effort: row.effort,
            policy: row.policy,
            options: row.options,
            client_metadata: input.client_metadata.clone(),
            additional_context: convert::context_in(input.additional_context.clone()),
            parent_turn,
            root_turn,
        })
    }

    /// More input for the open turn: stored at once, given to the agent when it has stopped.
    async fn steer(
        &mut self,
        input: TurnInput,
        blocks: Vec<DocBlock>,
        origin: &Origin,
    ) -> Result<Accepted, OpError> {
        let Some(open) = &self.turn else { return Err(OpError::NoActiveTurn { verb: "steer" }) };
        let turn = open.id;
        if let Some(expected) = input.expected_turn.filter(|expected| *expected != turn.to_string()) {
            return Err(OpError::ActiveTurnMismatch { expected, found: turn, steer: true });
        }
        if open.cancelled {
            return Err(OpError::NoActiveTurn { verb: "steer" });
        }
        if open.compacting {
            let what = "the agent compacts its context; it takes input again after that";
            return Err(OpError::NotSteerable { what, kind: "compact" });
        }
        let before = self.row.policy;
        // They hold from here on, the directory from the next turn on.
        self.apply_settings(input.settings, None)?;
        let context = convert::context_in(input.additional_context);
        let meta = prompt_meta(&input.client_metadata, origin);
        // Before the agent can be prompted with it.
        if let Some(open) = &mut self.turn {
            open.meta.extend(meta);
        }
        let document = self.document(blocks, context);
        self.store_steer(turn, document, input.request_id, input.client_message_id)
            .await
            .map_err(|error| not_stored(&error))?;
        if self.row.policy != before {
            self.policy_in_force().await;
        }
        Ok(Accepted::Steered { turn })
    }

    pub(super) async fn store_steer(
        &mut self,
        turn: TurnId,
        document: Document,
        request_id: Option<String>,
        client_message_id: Option<String>,
    ) -> Result<(), CommitError> {
        let text = canonical_text(&document.blocks);
        let prompt = Prompt {
            display: display_text(&text),
            text,
            blocks: document.blocks.clone(),
            request_id: request_id.clone(),
            client_message_id,
            opens: None,
        };
        self.batch().push(Some(turn), Item::New, FactBody::Prompt(Box::new(prompt)));
        self.try_commit().await?;
        self.items.break_text();
        let blocks = self.compiled(document, request_id).await;
        if let Some(open) = &mut self.turn {
            open.steers.push(blocks);
        }
        self.stop_to_steer();
        Ok(())
    }

    /// Stops the agent so that it can be prompted again, unless a tool call or an approval is open: those come first.
    pub(super) fn stop_to_steer(&mut self) {
        let held = self.items.has_open_tool() || !self.parked.is_empty();
        let (Some(open), Some(live)) = (&mut self.turn, &self.agent) else { return };
        if open.steers.is_empty() || !open.prompting || open.stopping || open.cancelled || held {
            return;
        }
        open.stopping = true;
        if let Err(error) = live.agent.cancel() {
            tracing::debug!(session = %self.row.id, %error, "stopping an agent to steer it");
        }
    }

    /// Starts the agent if there is none, and prompts it if it is ready.
    pub(super) async fn drive_prompt(&mut self) {
        self.compile_opened().await;
        if self.turn.as_ref().is_none_or(|turn| turn.waiting.is_none()) {
            return;
        }
        if self.agent.as_ref().is_some_and(|live| live.agent.is_gone()) {
            // Its last events are still to come; they lead here again.
            return;
        }
        let fresh = self.turn.as_ref().filter(|turn| turn.fresh).map(|turn| turn.cwd.clone());
        if let Some(live) = self.agent.as_mut().filter(|live| fresh.is_some_and(|cwd| cwd != live.cwd)) {
            // An agent's conversation belongs to its directory; it is opened again in the new one when this one is gone.
            live.stop();
            return;
        }
        if self.agent.is_none() && self.start_has_to_wait().await {
            return;
        }
        if self.agent.is_none()
            && let Err(error) = self.start_agent().await
        {
            self.finish_turn(TurnStatus::Failed, None, Some(error.to_failure())).await;
            return;
        }
        if self.diffs.is_recording() || self.agent.as_ref().is_none_or(|live| !live.ready) {
            return;
        }
        let mut blocks = if self.is_command() { Vec::new() } else { self.opening().await };
        let (Some(open), Some(live)) = (&mut self.turn, &mut self.agent) else { return };
        let Some(waiting) = open.waiting.take() else { return };
        blocks.extend(waiting);
        let request = PromptRequest { blocks, meta: open.meta.clone() };
        match live.agent.prompt(request) {
            Ok(()) => {
                open.prompting = true;
                live.heard_at_ms = (self.core.now_ms)();
                open.fresh = false;
            }
            Err(error) => {
                let failure = failure("agent_failed", format!("the agent did not take the prompt: {error}"));
                self.finish_turn(TurnStatus::Failed, None, Some(failure)).await;
            }
        }
    }

    async fn start_agent(&mut self) -> Result<(), OpError> {
        let cwd = self.turn.as_ref().map_or(&self.row.cwd, |turn| &turn.cwd).clone();
        self.core.catalog.suits(&self.row.provider, self.row.policy)?;
        let offered = self.core.catalog.offered(self.env.as_ref()).await;
        let (launch, secrets) = (self.row.launch.clone(), self.core.secrets.of(self.row.id));
        let launch = launch.as_deref();
        let spec = self.core.catalog.launch_as(&self.row.provider, &cwd, &offered, launch, &secrets)?;
        let told = self.core.catalog.mcp_servers(&spec, &offered, launch, &secrets);
        let request_id = self.turn.as_ref().and_then(|turn| turn.request_id.clone());
        let lost = launch.map(|launch| secrets.lost_env(launch)).unwrap_or_default();
        if !lost.is_empty() {
            let message = format!(
                "The agent is started without {}: this server no longer has the values that the thread was started with, \
                 which are kept in memory only. thread/resume with `launch.env` gives them again, for the next start.",
                lost.join(", ")
            );
            self.warn("launch_env_lost", message, request_id.clone());
        }
        for warning in told.warnings {
            self.warn("mcp_server_left_out", warning, request_id.clone());
        }
        let fetching = spec.downloads.then(|| spec.command.clone());
        if let Some(program) = &fetching {
            let message = format!(
                "{} is started through {program}, which may download it first: that can take minutes.",
                spec.provider
            );
            self.warn("agent_downloading", message, request_id);
        }
        // Told before what may take long begins.
        self.commit().await;
        let mcp_servers: Vec<_> = told.servers.iter().map(|server| server.name.clone()).collect();
        let open = OpenSession {
            authenticate: None,
            cwd: cwd.clone(),
            roots: self.row.roots.clone(),
            resume: self.row.agent_session.clone(),
            replay: false,
            model: self.row.model.clone(),
            effort: self.row.effort.clone(),
            options: self.row.options.clone(),
            posture: posture(self.row.policy),
            instructions: self.row.instructions.clone(),
            mcp_servers: told.servers,
            traffic_log: self.core.catalog.traffic_log(&self.row.provider, self.row.id),
            meta: Map::new(),
        };
        let (agent, events) = start(spec, open, self.core.limits.clone(), &self.core.agents);
        let now_ms = (self.core.now_ms)();
        self.agent = Some(LiveAgent {
            agent,
            events,
            ready: false,
            cwd,
            opening: None,
            copies: false,
            fetching,
            mcp_servers,
            started_at_ms: now_ms,
            heard_at_ms: now_ms,
            unknown: BTreeSet::new(),
        });
        Ok(())
    }

    /// Interrupts the open turn: what waits for an answer is cancelled, the agent is told to stop.
    pub(super) async fn cancel(&mut self, expected: Option<String>) -> Result<Accepted, OpError> {
        let Some(open) = &mut self.turn else { return Ok(Accepted::Interrupting { turn: None }) };
        let turn = open.id;
        if let Some(expected) = expected.filter(|expected| *expected != turn.to_string()) {
            return Err(OpError::ActiveTurnMismatch { expected, found: turn, steer: false });
        }
        let first = !std::mem::replace(&mut open.cancelled, true);
        let prompting = open.prompting;
        if first {
            self.settle_parked(ResolverKind::Interrupt);
            self.commit().await;
        }
        if !prompting {
            // The agent has nothing of this turn yet, so nobody would answer.
            self.finish_turn(TurnStatus::Interrupted, Some("cancelled".to_owned()), None).await;
        } else if let Some(live) = &self.agent
            && let Err(error) = live.agent.cancel()
        {
            tracing::debug!(session = %self.row.id, %error, "cancelling an agent that is ending");
        }
        // Answered behind the cancel, so that the agent does not go on with its next step in between.
        self.answer_parked_cancelled();
        Ok(Accepted::Interrupting { turn: Some(turn) })
    }

    /// A cancel takes back prompts that were submitted before it and are not accepted yet, and nothing else. Gives their
    /// number. Ids of submissions are in the order in which they were submitted.
    pub(super) fn drop_waiting_prompts(&mut self, cancel: SubmissionId) -> usize {
        while let Ok(submission) = self.inbox.work.try_recv() {
            self.kept.push_back(submission);
        }
        let (dropped, kept): (Vec<Box<Submission>>, Vec<Box<Submission>>) =
            self.kept.drain(..).partition(|submission| {
                matches!(submission.op, Op::Prompt { .. } | Op::TurnInput(_)) && submission.id < cancel
            });
        self.kept = kept.into();
        let count = dropped.len();
        for submission in dropped {
            submission.reply.send(Err(OpError::Cancelled));
        }
        count
    }

    /// Marks everything that waits as cancelled, in the batch, and answers the agent, which has ended its prompt already.
    pub(super) fn drain_parked(&mut self, by: ResolverKind) {
        self.settle_parked(by);
        self.answer_parked_cancelled();
    }

    /// Marks everything that waits as cancelled, in the batch.
    fn settle_parked(&mut self, by: ResolverKind) {
        let now = self.activity();
        let Some(running) = activity::drain(&now) else { return };
        let turn = now.turn();
        self.batch().push(turn, Item::None, FactBody::Activity(running));
        for input in now.pending() {
            let resolved = PermissionResolved::of(input, Decision::Cancel, ResolvedBy::kind(by));
            self.resolve_in_batch(resolved, input.item_seq);
        }
    }

    fn answer_parked_cancelled(&mut self) {
        if let Some(live) = &self.agent {
            for key in self.parked.drain().map(|(_, key)| key) {
                if let Err(error) = live.agent.dismiss(key) {
                    tracing::debug!(session = %self.row.id, %error, "cancelling a request of an ending agent");
                }
            }
        }
        self.parked.clear();
    }

    /// The agent has answered the prompt, or will not.
    pub(super) async fn prompt_ended(
        &mut self,
        result: Result<signalbox_agents::PromptOutcome, Box<signalbox_agents::AgentFailure>>,
    ) {
        let Some(open) = &mut self.turn else { return };
        open.prompting = false;
        let stopped_to_steer = std::mem::take(&mut open.stopping);
        let cancelled = open.cancelled;
        match &result {
            Ok(outcome) => self.count_usage(outcome.usage),
            Err(error) => {
                // Without an answer of its own the agent is dying: what comes next needs a fresh process.
                if let Some(live) = self.agent.as_mut().filter(|_| error.code.is_none() || error.ends_agent) {
                    live.ready = false;
                }
            }
        }
        let Some(open) = &mut self.turn else { return };
        let steered = !cancelled && !open.steers.is_empty() && (result.is_ok() || stopped_to_steer);
        if steered {
            open.waiting = Some(std::mem::take(&mut open.steers).concat());
            let turn = open.id;
            self.drain_parked(ResolverKind::Interrupt);
            self.batch();
            if let Some(batch) = &mut self.batch {
                self.items.close_open(batch, turn, ToolOutcome::Unfinished);
            }
            self.commit().await;
            self.drive_prompt().await;
            return;
        }
        match result {
            _ if cancelled => {
                self.finish_turn(TurnStatus::Interrupted, Some("cancelled".to_owned()), None).await
            }
            Ok(outcome) => self.finish_turn(TurnStatus::Completed, Some(outcome.stop_reason), None).await,
            Err(error) => self.finish_turn(TurnStatus::Failed, None, Some(error.to_failure())).await,
        }
    }

    fn count_usage(&mut self, tokens: Option<signalbox_agents::TokenUsage>) {
        let Some(tokens) = tokens.filter(|tokens| tokens.total > 0) else { return };
        let so_far = self.row.usage.unwrap_or_default();
        let usage = Usage {
            input_tokens: so_far.input_tokens + tokens.input,
            output_tokens: so_far.output_tokens + tokens.output,
            cached_input_tokens: so_far.cached_input_tokens + tokens.cached_input,
            reasoning_output_tokens: so_far.reasoning_output_tokens + tokens.reasoning,
            last_total_tokens: tokens.total,
        };
        if let Some(turn) = &mut self.turn {
            turn.tokens.get_or_insert_default().usage = Some(usage);
        }
        let turn = self.turn.as_ref().map(|turn| turn.id);
        self.batch().push(turn, Item::None, FactBody::Usage(usage));
    }

    /// Ends the open turn: what waits is cancelled, what is open is closed, then the activity, then the end.
    pub(super) async fn finish_turn(
        &mut self,
        status: TurnStatus,
        stop_reason: Option<String>,
        failure: Option<Failure>,
    ) {
        let Some(open) = self.turn.take() else { return };
        let turn = open.id;
        self.restarts.waiting_until_ms = None;
        if status == TurnStatus::Completed {
            self.restarts.succeeded();
        }
        self.drain_parked(ResolverKind::Interrupt);
        let outcome = match (status, &failure) {
            (TurnStatus::Interrupted, _) => ToolOutcome::Interrupted,
            (TurnStatus::Failed, _) => ToolOutcome::AgentGone,
            _ => ToolOutcome::Unfinished,
        };
        self.batch();
        if let Some(batch) = &mut self.batch {
            self.items.close_open(batch, turn, outcome);
            self.items.compaction_ended(batch, turn, status == TurnStatus::Completed);
        }
        if status == TurnStatus::Completed && !self.items.has_output() {
            let warning = Warning {
                message: "The agent ended the turn without saying or doing anything.".to_owned(),
                reason: "no_output".to_owned(),
                terminal: false,
                request_id: open.request_id.clone(),
            };
            self.batch().push(Some(turn), Item::None, FactBody::Warning(warning));
        }
        self.final_diff().await;
        match (status, &failure) {
            (TurnStatus::Completed, _) => {}
            (TurnStatus::Interrupted, None) => self.queue_pauses(QueuePause::Interrupted),
            // Only a stop of the server both interrupts a turn and fails it.
            (TurnStatus::Interrupted, Some(_)) => self.queue_pauses(QueuePause::Restarted),
            _ => self.queue_pauses(QueuePause::Failed),
        }
        let now = self.activity();
        let ended = match (&failure, status) {
            (Some(failure), TurnStatus::Failed) => {
                activity::fail(&now, turn, FailedReason::ProviderError, failure.message.clone())
            }
            (Some(failure), _) => {
                activity::fail(&now, turn, FailedReason::Interrupted, failure.message.clone())
            }
            (None, _) => activity::finish(&now, turn),
        };
        if let Some(ended) = ended {
            self.batch().push(Some(turn), Item::None, FactBody::Activity(ended));
        }
        let tokens = open.tokens.map(|news| TokensAtEnd {
            usage: news.usage.or(self.row.usage),
            window: news.window.or(self.live.context_window),
        });
        let ended = TurnEnded { status, stop_reason, failure, request_id: open.request_id, tokens };
        self.batch().push(Some(turn), Item::None, FactBody::TurnEnded(Box::new(ended)));
        self.commit().await;
        self.store.writer.request_compaction(self.row.id, turn);
    }

    /// The server stops while a turn is open.
    pub(super) async fn stop_turn_for_shutdown(&mut self) {
        if let Some(live) = &self.agent
            && let Err(error) = live.agent.cancel()
        {
            tracing::debug!(session = %self.row.id, %error, "cancel at shutdown");
        }
        let failure = failure("server_stopped", "signalbox stopped before the turn finished.");
        let failure = Failure { retryable: true, ..failure };
        self.drain_parked(ResolverKind::Restart);
        self.finish_turn(TurnStatus::Interrupted, Some("cancelled".to_owned()), Some(failure)).await;
    }
}

pub(super) fn used_before(id: &str) -> OpError {
    let message = format!("the message id {id:?} was used for another input; use a new id");
    OpError::InvalidParams { path: "client_message_id", message }
}

pub(super) fn empty_input() -> OpError {
    let message = "the input is empty; send at least one text, file, image or resource".to_owned();
    OpError::InvalidParams { path: "doc", message }
}

pub(super) fn is_blank(blocks: &[DocBlock]) -> bool {
    blocks.iter().all(|block| match block {
        DocBlock::Text { text, .. } => text.trim().is_empty(),
        DocBlock::Context { .. } => true,
        _ => false,
    })
}

fn prompt_meta(metadata: &BTreeMap<String, String>, origin: &Origin) -> Map<String, Value> {
    let mut meta: Map<String, Value> =
        metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
    for (key, value) in [("traceparent", &origin.traceparent), ("tracestate", &origin.tracestate)] {
        if let Some(value) = value {
            meta.insert(key.to_owned(), Value::from(value.clone()));
        }
    }
    meta
}

/// The turn that caused an input, and the one that the chain of causes began with. They may be of other sessions.
pub(super) fn causes(input: &TurnInput) -> Result<(Option<TurnId>, Option<TurnId>), OpError> {
    let turn = |id: &Option<String>, path: &'static str| {
        let Some(id) = id else { return Ok(None) };
        let message =
            format!("{id:?} is no turn's id; send the id of the turn that caused this one, or nothing");
        id.parse().map(Some).map_err(|_| OpError::InvalidParams { path, message })
    };
    Ok((turn(&input.parent_turn, "parent_turn")?, turn(&input.root_turn, "root_turn")?))
}

pub(super) fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure { reason: reason.to_owned(), message: message.into(), retryable: false, data: Map::new() }
}

pub(super) fn not_stored(error: &CommitError) -> OpError {
    match error {
        CommitError::Closed => OpError::ShuttingDown,
        other => OpError::StorageFailed(other.to_string()),
    }
}
