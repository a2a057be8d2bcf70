//! The life of a prompt: sent, cancelled, stalled, answered, lost. Each one ends exactly once.

use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::time::Instant;

use super::conversation::{Call, Conversation, End};
use super::foreground::Framing;
use crate::decode::{self, RpcError};
use crate::event::{AgentEvent, AgentFailure, FailureReason, PromptOutcome, TokenUsage};
use crate::handle::{PromptBlock, PromptRequest, Request};
use crate::wire_out::Version;

/// The prompt that an agent works on.
#[derive(Debug)]
pub(super) struct Running {
    since: Instant,
    /// A cancel was sent; the answer is due then.
    pub(super) cancel_until: Option<Instant>,
    pub(super) had_output: bool,
    /// Summed from chunks, for agents that report tokens nowhere else.
    usage: Option<TokenUsage>,
    /// In version 2: how far it is.
    pub(super) framing: Option<Framing>,
}

impl Running {
    pub(super) fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    pub(super) fn add_usage(&mut self, more: TokenUsage) {
        let sum = self.usage.get_or_insert_default();
        sum.input = sum.input.saturating_add(more.input);
        sum.output = sum.output.saturating_add(more.output);
        sum.cached_input = sum.cached_input.saturating_add(more.cached_input);
        sum.reasoning = sum.reasoning.saturating_add(more.reasoning);
        sum.total = sum.total.saturating_add(more.total);
    }
}

impl Conversation {
    pub(super) fn start_prompt(&mut self, prompt: PromptRequest, now: Instant) {
        self.prompted = true;
        // Ids come again in another turn, for other calls.
        self.tools.clear();
        self.children.turn_begins();
        let blocks = prompt.blocks.into_iter().map(|block| self.fitting(block)).collect();
        let session = self.session.clone().unwrap_or_default();
        // An answer to an earlier prompt that is still to come must not be taken for one to this.
        self.calls.retain(|_, call| !matches!(call, Call::Prompt));
        let framing = (self.wire.version == Version::V2).then(Framing::default);
        self.prompt =
            Some(Running { since: now, cancel_until: None, had_output: false, usage: None, framing });
        self.call(Call::Prompt, |wire, id| wire.prompt(id, &session, blocks, prompt.meta));
    }

    /// A block in a form that this agent takes.
    fn fitting(&mut self, block: PromptBlock) -> PromptBlock {
        match block {
            PromptBlock::Image { mime, uri, .. } if !self.hello.images => {
                self.warn("image_left_out", format!("{} takes no images; one was left out", self.info.name));
                match uri {
                    Some(uri) => PromptBlock::Link { name: uri.clone(), uri, mime: Some(mime) },
                    None => PromptBlock::Text("[an image was left out here]".to_owned()),
                }
            }
            PromptBlock::Resource { uri, text, .. } if !self.hello.resources => {
                let fence = fence(&text);
                PromptBlock::Context(format!("{uri}:\n{fence}\n{text}\n{fence}"))
            }
            other => other,
        }
    }

    /// Cancels the running prompt, or one that still waits.
    pub(super) fn cancel(&mut self, now: Instant) {
        let waiting = self.queue.iter().position(|work| matches!(work, Request::Prompt(_)));
        if let Some(at) = waiting {
            self.queue.remove(at);
            let stop_reason = "cancelled".to_owned();
            self.end_prompt(Ok(PromptOutcome {
                stop_reason,
                cancel_requested: true,
                ..PromptOutcome::default()
            }));
            return;
        }
        let until = now + self.limits.cancel;
        match &mut self.prompt {
            Some(prompt) if prompt.cancel_until.is_none() => prompt.cancel_until = Some(until),
            _ => return,
        }
        let session = self.session.clone().unwrap_or_default();
        if let Err(error) = self.wire.cancel(&session) {
            self.fail(FailureReason::AgentFailed, error.to_string());
        }
        self.answer_all_cancelled();
    }

    /// Whether a cancel is under way; then nothing is asked any more.
    pub(super) fn is_cancelling(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.cancel_until.is_some())
    }

    /// A cancel because the agent is being stopped.
    pub(super) fn cancel_quietly(&mut self) {
        if let (Some(prompt), Some(session)) = (&mut self.prompt, &self.session)
            && prompt.cancel_until.is_none()
        {
            // Nothing waits for this any more, so it has no deadline.
            prompt.cancel_until = Some(prompt.since);
            if let Err(error) = self.wire.cancel(session) {
                tracing::debug!(%error, "no cancel before the stop");
            }
        }
    }

    pub(super) fn prompt_answered(&mut self, result: Result<Value, RpcError>, now: Instant) {
        // In version 2 a good answer is no end, unless the agent ends the prompt with it as in the version before.
        if let (Some(Running { framing: Some(_), .. }), Ok(answer)) = (&self.prompt, &result)
            && answer.get("stopReason").is_none()
        {
            return self.prompt_taken(answer, now);
        }
        // An agent that is being killed may still answer on its way out. It takes no further prompt, and whoever waits for
        // this one must learn that.
        if let Some(failure) = self.killed.clone() {
            return self.prompt_lost(&failure);
        }
        let Some(prompt) = self.prompt.take() else { return };
        let cancel_requested = prompt.cancel_until.is_some();
        let trouble = result.as_ref().err().and_then(trouble);
        let outcome = match result {
            Ok(result) => {
                let result = result.as_object();
                let stop_reason = result.and_then(|result| result.get("stopReason")?.as_str());
                Ok(PromptOutcome {
                    stop_reason: decode::cut(
                        stop_reason.unwrap_or("end_turn").to_owned(),
                        decode::NAME_BYTES,
                    ),
                    cancel_requested,
                    usage: result.and_then(decode::prompt_usage).or(prompt.usage),
                    had_output: prompt.had_output,
                })
            }
            // Agents must not answer a cancelled prompt with an error, and some do.
            Err(error) if cancel_requested => {
                tracing::debug!(code = error.code, "a cancelled prompt was answered with an error");
                Ok(PromptOutcome {
                    stop_reason: "cancelled".to_owned(),
                    cancel_requested,
                    usage: prompt.usage,
                    had_output: prompt.had_output,
                })
            }
            Err(error) => {
                let failure = self.failure_of("the prompt", error);
                let ends_agent = trouble == Some(Trouble::SessionLost);
                Err(Box::new(AgentFailure { ends_agent, ..failure }))
            }
        };
        self.end_prompt(outcome);
        match trouble {
            // Only opening it again helps; a process that lost it may not even know how it was told its settings.
            Some(Trouble::SessionLost) => {
                let message = format!("{} no longer knows its session", self.info.name);
                self.fail(FailureReason::AgentFailed, message);
            }
            // Nothing of ours runs there, so whatever does is in the way of every prompt to come.
            Some(Trouble::Busy) => {
                let session = self.session.clone().unwrap_or_default();
                if let Err(error) = self.wire.cancel(&session) {
                    self.fail(FailureReason::AgentFailed, error.to_string());
                }
            }
            None => {}
        }
    }

    /// Reports a prompt's end, and lets the next one come.
    pub(super) fn end_prompt(&mut self, outcome: Result<PromptOutcome, Box<AgentFailure>>) {
        self.prompting.store(false, Ordering::Release);
        if self.stalled {
            self.stalled = false;
            self.out.push((AgentEvent::Stalled(None), 0));
        }
        self.out.push((AgentEvent::PromptEnded(outcome), 0));
    }

    /// The agent is gone with a prompt open.
    pub(super) fn prompt_lost(&mut self, failure: &AgentFailure) {
        if self.prompt.take().is_some() {
            self.end_prompt(Err(Box::new(failure.clone())));
        }
    }

    pub(super) fn prompt_deadline(&self) -> Option<Instant> {
        let prompt = self.prompt.as_ref()?;
        let silence = match prompt.cancel_until {
            Some(until) => Some(until),
            // While the user is asked, silence is no sign of trouble.
            None if self.stalled || !self.asked.is_empty() => None,
            None => Some(self.silent_since(prompt) + self.limits.stall),
        };
        let ending = prompt.framing.as_ref().and_then(Framing::due);
        silence.into_iter().chain(ending).min()
    }

    fn silent_since(&self, prompt: &Running) -> Instant {
        self.last_heard.max(prompt.since)
    }

    pub(super) fn prompt_tick(&mut self, now: Instant) {
        self.ending_tick(now);
        let Some(prompt) = &self.prompt else { return };
        match prompt.cancel_until {
            Some(until) if now >= until => {
                let seconds = self.limits.cancel.as_secs_f32();
                let message =
                    format!("{} did not stop within {seconds} s of being cancelled", self.info.name);
                let failure = AgentFailure::new(FailureReason::AgentTimeout, message);
                self.end.get_or_insert(End { failure, kill: true });
            }
            None if !self.stalled && self.asked.is_empty() => {
                let silent = now.saturating_duration_since(self.silent_since(prompt));
                if silent >= self.limits.stall {
                    self.stalled = true;
                    self.out.push((AgentEvent::Stalled(Some(silent)), 0));
                }
            }
            _ => {}
        }
    }
}

/// What an error that answers a prompt says about the prompts to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// The agent does not know the session any more.
    SessionLost,
    /// It still works on a prompt that has ended for us.
    Busy,
}

/// The codes for this differ from agent to agent, and most are used for anything else as well; so it is told by the words.
fn trouble(error: &RpcError) -> Option<Trouble> {
    const NOT_FOUND: i64 = -32002;
    let words = error.message.to_lowercase();
    let has = |all: &[&str]| all.iter().any(|one| words.contains(one));
    if error.code == NOT_FOUND
        || has(&["session"]) && has(&["not found", "unknown session", "no such session", "does not exist"])
    {
        return Some(Trouble::SessionLost);
    }
    (has(&["already"]) && has(&["running", "in progress", "busy"])).then_some(Trouble::Busy)
}

/// A fence that the text does not contain.
fn fence(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    fence
}
