//! What an agent tells: chunks on the fast path, everything else through the decoder, replays left out.

use std::borrow::Cow;

use serde_json::{Map, Value};
use signalbox_facts::ToolStatus;
use tokio::time::Instant;

use super::conversation::Conversation;
use crate::decode::fast::{Chunk, Stream};
use crate::decode::{self, Decoded, v2};
use crate::event::AgentEvent;
use crate::update::{NoticeSeverity, PlanPatch, TextChunk, ToolPatch, Update};
use crate::wire_out::Version;

/// A chunk that joins what is not yet in the queue is not made longer than this.
const JOIN_BYTES: usize = 32 << 10;

impl Conversation {
    /// A chunk of text for the open session.
    pub(super) fn text(&mut self, mut chunk: Chunk<'_>) {
        if let (Version::V2, Some(id)) = (self.wire.version, &chunk.message_id) {
            let kind = match chunk.stream {
                Stream::Message => v2::Kind::Answer,
                Stream::Thought => v2::Kind::Thought,
            };
            if let Some(id) = self.v2.messages.append(kind, id, &chunk.text, 0) {
                chunk.message_id = Some(Cow::Owned(id));
            }
        }
        if let Some(prompt) = &mut self.prompt {
            prompt.had_output = true;
        }
        // Most chunks of a read follow one of the same message: no event, no allocation.
        let last = self.out.last_mut().and_then(|(event, bytes)| match (event, chunk.stream) {
            (AgentEvent::Update(Update::Message(last)), Stream::Message)
            | (AgentEvent::Update(Update::Thought(last)), Stream::Thought) => Some((last, bytes)),
            _ => None,
        });
        if let Some((last, bytes)) = last
            && last.message_id.as_deref() == chunk.message_id.as_deref()
            && last.text.len() + chunk.text.len() <= JOIN_BYTES
        {
            last.text.push_str(&chunk.text);
            *bytes += chunk.text.len();
            return;
        }
        let text = TextChunk {
            message_id: chunk.message_id.as_deref().map(str::to_owned),
            text: Cow::into_owned(chunk.text.clone()),
        };
        let bytes = text.text.len();
        let update = match chunk.stream {
            Stream::Message => Update::Message(text),
            Stream::Thought => Update::Thought(text),
        };
        self.out.push((AgentEvent::Update(update), bytes));
    }

    pub(super) fn session_update(&mut self, mut params: Map<String, Value>, bytes: usize, now: Instant) {
        let session = match params.get("sessionId") {
            Some(Value::String(session)) => session.clone(),
            // With one session an agent there is no doubt.
            _ => String::new(),
        };
        match &self.session {
            None => return self.keep_early(session, params, bytes),
            Some(own) if !session.is_empty() && session != *own && !self.is_child(&session) => {
                tracing::debug!(bytes, "an update for a session that is not ours is ignored");
                return;
            }
            Some(_) => {}
        }
        let Some(Value::Object(update)) = params.remove("update") else { return };
        if self.is_child(&session) || is_of_children(&update) {
            return self.of_children(&session, update, bytes, now);
        }
        if let Some(replay) = &mut self.replay
            && (is_history(&update) || self.open.replay && is_title(&update))
        {
            replay.last = now;
            if self.open.replay {
                self.replayed(update, bytes);
            }
            return;
        }
        if let Some(id) = v2::echoed(&update) {
            self.echoed(id);
        }
        if let Some(prompt) = &mut self.prompt
            && let Some(usage) = decode::chunk_usage(&update)
        {
            prompt.add_usage(usage);
        }
        for decoded in self.decode(update, bytes) {
            self.take_in(decoded, bytes, now);
        }
    }

    /// Tells what an update says, or does what it means.
    fn take_in(&mut self, decoded: Decoded, bytes: usize, now: Instant) {
        match decoded {
            Decoded::Update(update) => {
                let plan = self.plan_in(&update);
                self.tell(update, bytes);
                if let Some(plan) = plan {
                    self.tell(Update::Plan(plan), bytes);
                }
            }
            Decoded::Options(options) => {
                self.settings.options_are(options);
                self.tell_settings();
            }
            Decoded::Mode(mode) => {
                self.settings.mode_is(&mode);
                self.tell_settings();
            }
            Decoded::Usage(usage) => {
                let limits = decode::rate_limits(&usage);
                if !limits.is_empty() {
                    self.tell(Update::RateLimits(limits), 0);
                }
                // After a cancel some agents report an empty window; good numbers are not overwritten by it.
                if let Some(window) = decode::context_window(&usage)
                    && (window.used_tokens > 0 || (self.last_window_used == 0 && !self.is_cancelling()))
                {
                    self.last_window_used = window.used_tokens;
                    self.tell(Update::ContextWindow(window), 0);
                }
            }
            Decoded::State(state) => self.state_is(state, now),
            Decoded::ReplayComplete => self.replay = None,
            Decoded::Nothing => {}
        }
    }

    /// The plan that a call carries, where the agent tells its plans so.
    fn plan_in(&self, update: &Update) -> Option<PlanPatch> {
        let Update::Tool(call) = update else { return None };
        decode::plan_in_arguments(call, self.quirks.plan_in_arguments?)
    }

    /// Whether what is told as the user's words is the agent's own addition to them.
    fn is_added(&self, update: &Update) -> bool {
        let (Update::UserMessage(chunk), Some(begin)) = (update, self.quirks.added_to_prompts) else {
            return false;
        };
        chunk.text.trim_start().starts_with(begin)
    }

    /// The same of a call that is told again: it was made, although agents tell its arguments while it is pending still.
    fn plan_in_history(&self, update: &Update) -> Option<PlanPatch> {
        match update {
            Update::Tool(call) if call.status == Some(ToolStatus::Pending) => {
                let made = ToolPatch { status: Some(ToolStatus::InProgress), ..(**call).clone() };
                decode::plan_in_arguments(&made, self.quirks.plan_in_arguments?)
            }
            other => self.plan_in(other),
        }
    }

    /// An update of a child's session, or about children. A history that nobody asked for makes them known and no more.
    fn of_children(&mut self, session: &str, update: Map<String, Value>, bytes: usize, now: Instant) {
        let muted = !self.open.replay;
        if let Some(replay) = &mut self.replay {
            replay.last = now;
            if muted {
                if update.get("sessionUpdate").and_then(Value::as_str) == Some("subagent_update") {
                    self.subagent(update, true);
                }
                return;
            }
        }
        self.child_update(session, update, bytes);
    }

    /// Tells a piece of the history that was asked for, as it comes: so a long one is not held here.
    fn replayed(&mut self, update: Map<String, Value>, bytes: usize) {
        let kind = update.get("sessionUpdate").and_then(Value::as_str);
        let asked = matches!(kind, Some("user_message_chunk" | "user_message"));
        let before = self.replay.as_mut().map(|replay| std::mem::replace(&mut replay.asked, asked));
        if asked && before == Some(false) {
            // Ids come again in another turn, for other calls.
            self.tools.clear();
        }
        for decoded in self.decode(update, bytes) {
            if let Decoded::Update(update) = decoded {
                if self.is_added(&update) {
                    continue;
                }
                let plan = self.plan_in_history(&update);
                self.out.push((AgentEvent::Replayed(update), bytes));
                self.out.extend(plan.map(|plan| (AgentEvent::Replayed(Update::Plan(plan)), bytes)));
            }
        }
    }

    /// What an update says, in the version that is spoken.
    pub(super) fn decode(&mut self, update: Map<String, Value>, bytes: usize) -> Vec<Decoded> {
        let mut tools = std::mem::take(&mut self.tools);
        let decoded = if self.wire.version == Version::V2 {
            let mut memory = std::mem::take(&mut self.v2);
            let decoded = v2::update(update, bytes, &self.context(), &mut tools, &mut memory);
            self.v2 = memory;
            decoded
        } else {
            vec![decode::update(update, bytes, &self.context(), &mut tools)]
        };
        self.tools = tools;
        decoded
    }

    pub(super) fn tell(&mut self, update: Update, bytes: usize) {
        if self.replay.is_some() && self.open.replay && matches!(update, Update::Tool(_)) {
            // A call that stands for a subagent of the history.
            self.out.push((AgentEvent::Replayed(update), bytes));
            return;
        }
        let update = match update {
            // Some agents greet with the news of their version.
            Update::Message(TextChunk { text, .. }) if self.is_untouched() => {
                self.greeting = None;
                let title = text.trim_matches(|letter: char| letter == '-' || letter.is_whitespace());
                if title.is_empty() {
                    return;
                }
                Update::Notice { severity: NoticeSeverity::Info, title: title.to_owned(), description: None }
            }
            other => other,
        };
        let output = matches!(
            update,
            Update::Message(_)
                | Update::MessageContent { .. }
                | Update::Thought(_)
                | Update::Tool(_)
                | Update::Plan(_)
        );
        if let Some(prompt) = &mut self.prompt {
            prompt.had_output |= output;
        }
        let bytes = match &update {
            Update::Message(chunk) | Update::Thought(chunk) => chunk.text.len(),
            _ => bytes,
        };
        self.emit(AgentEvent::Update(update), bytes);
    }
}

/// Whether an update is about an agent's own agents.
fn is_of_children(update: &Map<String, Value>) -> bool {
    matches!(
        update.get("sessionUpdate").and_then(Value::as_str),
        Some("subagent_update" | "session_message" | "session_message_chunk")
    )
}

/// Whether an update tells of the session as a whole: its title.
fn is_title(update: &Map<String, Value>) -> bool {
    update.get("sessionUpdate").and_then(Value::as_str) == Some("session_info_update")
}

/// Whether an update is part of the conversation, and thus of a replay, rather than of the session's state.
fn is_history(update: &Map<String, Value>) -> bool {
    matches!(
        update.get("sessionUpdate").and_then(Value::as_str),
        Some(
            "user_message_chunk"
                | "agent_message_chunk"
                | "agent_thought_chunk"
                | "tool_call"
                | "tool_call_update"
                | "plan"
                | "plan_update"
                | "plan_removed"
                | "compaction_update"
                | "compaction_summary_chunk"
                | "notice"
                // Version 2.
                | "user_message"
                | "agent_message"
                | "agent_thought"
                | "tool_call_content_chunk"
                | "terminal_update"
                | "terminal_output_chunk"
                | "subagent_update"
                | "session_message"
        )
    )
}
