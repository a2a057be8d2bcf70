//! What the agent reports, in order: each event becomes facts and signals of the next commit, or ends something.

use signalbox_agents::{
    AgentEvent, AgentFailure, AgentInfo, NoticeSeverity, PromptOutcome, TextChunk, Update,
};
use signalbox_facts::{
    CompactionStatus, ContextWindow, FactBody, RateLimit, SignalBody, TitleChanged, TitleOrigin, TurnId,
    TurnStatus, Warning,
};

use super::actor::Actor;
use crate::batch::{Batch, Item};
use crate::prompt::{History, Opening};

/// A batch is committed when its facts hold this much, even if more events are there.
const BATCH_BYTES: usize = 256 << 10;
/// Kinds of unknown updates that are named, and how much of a name.
const MAX_UNKNOWN: usize = 16;
const MAX_KIND_CHARS: usize = 64;
/// More limits than any account has.
const MAX_RATE_LIMITS: usize = 32;

impl Actor {
    pub(super) async fn on_events(&mut self, events: Vec<AgentEvent>) {
        let silence = |event: &AgentEvent| matches!(event, AgentEvent::Stalled(_));
        if let Some(live) = self.agent.as_mut().filter(|_| !events.iter().all(silence)) {
            live.heard_at_ms = (self.core.now_ms)();
        }
        if self.turn.is_none() {
            // What comes late starts and ends its items within one commit.
            self.items.break_text();
        }
        for event in events {
            self.on_event(event).await;
            if self.batch.as_ref().is_some_and(|batch| batch.bytes() > BATCH_BYTES) {
                self.commit().await;
            }
        }
        self.commit().await;
        self.stop_to_steer();
    }

    async fn on_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Update(update) => {
                if update == Update::Title(None) {
                    // Whose title it is that goes may be in this very batch.
                    self.commit().await;
                }
                self.update(update);
            }
            AgentEvent::Permission { key, tool, description, options } => {
                self.permission(key, *tool, description, options).await;
            }
            AgentEvent::Elicitation { key, tool_call, form } => self.elicitation(key, tool_call, *form).await,
            AgentEvent::Withdrawn { key } => self.withdrawn(key).await,
            AgentEvent::DoneElsewhere { key } => self.done_elsewhere(key).await,
            AgentEvent::PromptEnded(result) => {
                self.remember_prompt(&result);
                self.prompt_ended(result).await;
            }
            AgentEvent::Introduced(info) => {
                self.core.memory.introduced(
                    &self.row.provider,
                    &info,
                    (self.core.now_ms)(),
                    &self.core.tracker,
                );
            }
            AgentEvent::Ready(info) => self.ready(*info).await,
            AgentEvent::OptionSet { token, result } => self.option_set(token, result).await,
            AgentEvent::Forked { token, result } => self.forked(token, result).await,
            // Nobody here has asked for these.
            AgentEvent::Met(_)
            | AgentEvent::Replayed(_)
            | AgentEvent::Said(_)
            | AgentEvent::Listed { .. }
            | AgentEvent::SessionDeleted { .. } => {}
            AgentEvent::Stalled(silent) => {
                let since_ms = silent.map(|silent| {
                    (self.core.now_ms)() - i64::try_from(silent.as_millis()).unwrap_or_default()
                });
                self.signal(SignalBody::Stalled { since_ms });
            }
            // Each agent of the session has the same log.
            AgentEvent::Warning { reason: "traffic_log_failed", .. } if self.log_failure_told => {}
            AgentEvent::Warning { reason, message } => {
                self.log_failure_told |= reason == "traffic_log_failed";
                let request_id = self.opening_request();
                self.warn(reason, message, request_id);
            }
            AgentEvent::StartFailed(failure) => {
                let stopped = self.agent.as_ref().is_some_and(|live| live.agent.is_stopping());
                if !stopped {
                    tracing::warn!(session = %self.row.id, provider = %self.row.provider, %failure, "the agent did not start");
                    self.remember_failure(&failure, false);
                }
                self.agent_is_gone();
                if !stopped {
                    self.count_failure(&failure);
                }
                if stopped {
                    // By us, for what has begun since: that goes on with a fresh process.
                    self.drive_prompt().await;
                } else if self.turn.as_ref().is_some_and(|turn| turn.waiting.is_some()) {
                    self.finish_turn(TurnStatus::Failed, None, Some(failure.to_failure())).await;
                }
            }
            AgentEvent::Exited(failure) => {
                tracing::info!(session = %self.row.id, %failure, "the agent has ended");
                self.count_failure(&failure);
                self.agent_is_gone();
                // Its own turn has ended already; one that waits goes on with a fresh process.
                self.drive_prompt().await;
            }
        }
    }

    /// What an answer to a prompt tells of the agent.
    fn remember_prompt(&self, result: &Result<PromptOutcome, Box<AgentFailure>>) {
        match result {
            Ok(outcome) if outcome.had_output => {
                let (provider, now_ms) = (&self.row.provider, (self.core.now_ms)());
                self.core.memory.answered(provider, now_ms, &self.core.tracker);
            }
            Ok(_) => {}
            Err(failure) => self.remember_failure(failure, true),
        }
    }

    fn remember_failure(&self, failure: &AgentFailure, at_prompt: bool) {
        let now_ms = (self.core.now_ms)();
        self.core.memory.failed(&self.row.provider, failure, at_prompt, now_ms, &self.core.tracker);
    }

    /// The word of the prompt for which the agent's session is being opened: warnings about that are warnings of the prompt.
    fn opening_request(&self) -> Option<String> {
        self.turn.as_ref().filter(|turn| turn.waiting.is_some()).and_then(|turn| turn.request_id.clone())
    }

    fn agent_is_gone(&mut self) {
        self.agent = None;
        // The next one says what it offers; until then there is nobody to take a command.
        self.live.commands = None;
        self.give_up_settling();
    }

    async fn ready(&mut self, info: AgentInfo) {
        self.core.memory.opened(&self.row.provider, (self.core.now_ms)(), &self.core.tracker);
        let turn = self.turn.as_ref().map(|turn| turn.id);
        if self.row.agent_session.as_ref() != Some(&info.acp_session_id) {
            let body = FactBody::AgentSession { id: info.acp_session_id.clone() };
            self.batch().push(turn, Item::None, body);
        }
        if info.context_lost {
            let request_id = self.opening_request();
            self.warn(
                "context_lost",
                "The agent no longer knows the earlier conversation; it starts afresh.",
                request_id,
            );
        }
        if let Some(caution) = self.core.catalog.caution(&self.row.provider, self.row.policy) {
            let request_id = self.opening_request();
            self.warn("not_mediated", caution, request_id);
        }
        if !info.models.is_empty() {
            self.models(info.models, info.current_model);
        }
        if !info.options.is_empty() {
            self.signal(SignalBody::ConfigOptions(info.options));
        }
        let copies = info.can_fork && (info.can_resume || info.can_load);
        let opening = (!info.resumed).then(|| Opening {
            cwd: self.row.cwd.clone(),
            reads: self.core.catalog.reads_rules(&self.row.provider),
            instructions: self.row.instructions.clone().filter(|_| !info.takes_instructions),
            history: History { session: self.row.id, title: self.row.title.clone(), before: None },
        });
        if let Some(live) = &mut self.agent {
            live.ready = true;
            live.opening = opening;
            live.copies = copies;
        }
        self.commit().await;
        self.drive_prompt().await;
    }

    /// Updates belong to the open turn, or late to the one before.
    fn update(&mut self, update: Update) {
        let Some(turn) = self.turn.as_ref().map(|turn| turn.id).or(self.last_turn) else {
            self.update_without_turn(update);
            return;
        };
        match update {
            Update::Message(chunk) => self.with_items(|items, batch| items.text(batch, turn, false, chunk)),
            Update::Thought(chunk) => self.with_items(|items, batch| items.text(batch, turn, true, chunk)),
            Update::MessageContent { thought, message_id, content } => {
                self.with_items(|items, batch| items.content(batch, turn, thought, message_id, *content));
            }
            Update::Tool(patch) => {
                self.with_items(|items, batch| items.tool(batch, turn, *patch, false));
                if self.items.take_changed() {
                    self.workspace_changed();
                }
            }
            Update::Plan(plan) => self.with_items(|items, batch| items.plan(batch, turn, plan)),
            Update::Compaction { id, status, summary, error } => {
                self.with_items(|items, batch| items.compaction(batch, turn, id, status, summary));
                if let Some(error) = error.filter(|_| status == CompactionStatus::Failed) {
                    self.warn("compaction_failed", format!("Compacting the context failed: {error}"), None);
                }
            }
            Update::CompactionSummary { id, text } => {
                self.with_items(|items, batch| items.compaction_summary(batch, turn, id, &text));
            }
            other => self.session_update(other, Some(turn)),
        }
    }

    fn with_items(&mut self, change: impl FnOnce(&mut crate::items::Items, &mut Batch)) {
        self.batch();
        if let Some(batch) = &mut self.batch {
            change(&mut self.items, batch);
        }
    }

    fn session_update(&mut self, update: Update, turn: Option<TurnId>) {
        match update {
            Update::ConfigOptions(options) => {
                if self.live.config_options.as_ref() != Some(&options) {
                    self.signal(SignalBody::ConfigOptions(options));
                }
            }
            Update::Models { available, current } => self.models(available, current),
            Update::ContextWindow(window) => self.context_window(window),
            Update::RateLimits(limits) => self.rate_limits(limits),
            Update::Title(Some(title)) => self.agent_title(&title, turn),
            Update::Notice { severity, title, description } => {
                let message = description.map_or(title.clone(), |more| format!("{title}: {more}"));
                let reason = match severity {
                    NoticeSeverity::Info => "agent_notice",
                    NoticeSeverity::Warning => "agent_warning",
                    NoticeSeverity::Error => "agent_error",
                };
                let warning =
                    Warning { message, reason: reason.to_owned(), terminal: false, request_id: None };
                self.batch().push(turn, Item::None, FactBody::Warning(warning));
            }
            Update::Title(None) => self.agent_takes_title_back(turn),
            // The echo of what was sent; and modes, which are among the options.
            Update::UserMessage(_) | Update::Modes(_) => {}
            Update::Commands(commands) => {
                if self.live.commands.as_ref() != Some(&commands) {
                    self.signal(SignalBody::Commands(commands));
                }
            }
            Update::Unknown(value) => self.unknown_update(&value, turn),
            Update::Message(_)
            | Update::Thought(_)
            | Update::MessageContent { .. }
            | Update::Tool(_)
            | Update::Plan(_)
            | Update::Compaction { .. }
            | Update::CompactionSummary { .. } => {
                tracing::info!(session = %self.row.id, "an agent did something before its first turn; it is not shown");
            }
        }
    }

    /// What cannot be shown is at least named, once a kind in an agent's life.
    fn unknown_update(&mut self, update: &serde_json::Value, turn: Option<TurnId>) {
        let kind = update.get("sessionUpdate").and_then(serde_json::Value::as_str).unwrap_or_default();
        let kind: String = kind.chars().filter(|c| !c.is_control()).take(MAX_KIND_CHARS).collect();
        let Some(live) = &mut self.agent else { return };
        if live.unknown.len() >= MAX_UNKNOWN || !live.unknown.insert(kind.clone()) {
            tracing::debug!(session = %self.row.id, kind, "another update of an unknown kind");
            return;
        }
        tracing::info!(session = %self.row.id, kind, "an update of an unknown kind");
        let message =
            format!("The agent told something that signalbox does not know (`{kind}`); it is not shown.");
        let reason = "agent_update_unknown".to_owned();
        let warning = Warning { message, reason, terminal: false, request_id: None };
        self.batch().push(turn, Item::None, FactBody::Warning(warning));
    }

    /// Before the first turn there is nothing that a message could belong to; it is shown as a notice.
    fn update_without_turn(&mut self, update: Update) {
        match update {
            Update::Message(TextChunk { text, .. }) if !text.trim().is_empty() => {
                self.warn("agent_notice", text, None);
            }
            other => self.session_update(other, None),
        }
    }

    /// Zeros after a cancel are no news.
    fn context_window(&mut self, window: ContextWindow) {
        if window.used_tokens == 0 && self.live.context_window.is_some()
            || self.live.context_window == Some(window)
        {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.tokens.get_or_insert_default().window = Some(window);
        }
        self.signal(SignalBody::ContextWindow(window));
    }

    /// What was told before of other limits still holds.
    fn rate_limits(&mut self, told: Vec<RateLimit>) {
        let mut limits = self.live.rate_limits.clone();
        for limit in told {
            if let Some(known) = limits.iter_mut().find(|known| known.name == limit.name) {
                *known = limit;
            } else if limits.len() < MAX_RATE_LIMITS {
                limits.push(limit);
            }
        }
        if limits != self.live.rate_limits {
            let usage = self.row.usage.unwrap_or_default();
            self.signal(SignalBody::RateLimits { limits, usage });
        }
    }

    fn agent_title(&mut self, title: &str, turn: Option<TurnId>) {
        let title: String = title.trim().chars().take(200).collect();
        if title.is_empty() || title == self.row.title || self.row.title_origin > TitleOrigin::Agent {
            return;
        }
        let changed = TitleChanged { title, origin: TitleOrigin::Agent };
        self.batch().push(turn, Item::None, FactBody::TitleChanged(changed));
    }

    /// The agent has no title any more: what the first prompt says takes its place.
    fn agent_takes_title_back(&mut self, turn: Option<TurnId>) {
        if self.row.title_origin != TitleOrigin::Agent {
            return;
        }
        let title = crate::title::from_prompt(&self.row.preview);
        let origin = if title.is_some() { TitleOrigin::Automatic } else { TitleOrigin::Default };
        let changed = TitleChanged { title: title.unwrap_or_default(), origin };
        self.batch().push(turn, Item::None, FactBody::TitleChanged(changed));
    }
}
