//! When a prompt of version 2 is over: its answer only says that the agent has taken it, and the agent's state tells the rest.
//!
//! Once the agent has taken the prompt, an end of its foreground work is the end of the prompt. Three things make that less
//! plain. An agent may begin work of its own at any time, so what ends before it has taken the prompt is another's end. It may
//! tell its state again without anything having happened. And its answer may come late, after the end even. Where one of
//! these leaves a doubt, an end counts when nothing has begun for a moment after it.

use serde_json::Value;
use tokio::time::Instant;

use super::conversation::Conversation;
use crate::decode::v2::State;
use crate::decode::{self, Object, RpcError};
use crate::event::{AgentEvent, PromptOutcome};
use crate::update::Update;

/// Echoes of a prompt remembered; agents send one or two.
const MAX_ECHOES: usize = 16;

/// How far a prompt of version 2 is.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// The agent has taken the prompt, as the message of this id.
    taken: Option<String>,
    /// There had been output before that: of something else, most likely.
    output_before: bool,
    /// Messages of the user that the agent told since the prompt was sent.
    echoes: Vec<String>,
    ending: Option<Ending>,
}

/// The agent has come to rest, which may be the prompt's end.
#[derive(Debug)]
struct Ending {
    idle: Object,
    /// How many of the echoes came before it.
    echoes: usize,
    /// When it counts if nothing begins before. Without: not before the prompt is taken.
    due: Option<Instant>,
}

impl Framing {
    pub(super) fn due(&self) -> Option<Instant> {
        self.ending.as_ref()?.due
    }

    pub(super) fn postpone(&mut self, by: std::time::Duration) {
        if let Some(due) = self.ending.as_mut().and_then(|ending| ending.due.as_mut()) {
            *due += by;
        }
    }
}

impl Conversation {
    /// The agent tells a message of the user: perhaps the prompt.
    pub(super) fn echoed(&mut self, id: &str) {
        let framing = self.prompt.as_mut().and_then(|prompt| prompt.framing.as_mut());
        if let Some(framing) = framing
            && framing.echoes.len() < MAX_ECHOES
            && !framing.echoes.iter().any(|known| known == id)
        {
            framing.echoes.push(id.to_owned());
        }
    }

    /// The agent has answered the prompt: it has taken it.
    pub(super) fn prompt_taken(&mut self, answer: &Value, now: Instant) {
        let settles = now + self.limits.replay_quiet;
        let Some(prompt) = &mut self.prompt else { return };
        let had_output = prompt.had_output;
        let Some(framing) = &mut prompt.framing else { return };
        let id = answer.get("messageId").and_then(Value::as_str).unwrap_or_default();
        framing.taken = Some(id.to_owned());
        framing.output_before = had_output;
        let Some(ending) = &mut framing.ending else { return };
        let echo = framing.echoes.iter().position(|echo| echo == id);
        match echo {
            // It had the prompt, and then came to rest.
            Some(echo) if echo < ending.echoes => {
                let idle = std::mem::take(&mut ending.idle);
                self.prompt_rests(idle);
            }
            // It tells prompts, and had not told this one.
            _ if ending.echoes > 0 => framing.ending = None,
            _ => ending.due = Some(settles),
        }
    }

    /// The agent tells how its foreground work stands.
    pub(super) fn state_is(&mut self, state: State, now: Instant) {
        let busy = matches!(state, State::Busy);
        let was_busy = std::mem::replace(&mut self.busy, busy);
        let settles = now + self.limits.replay_quiet;
        let Some(prompt) = &mut self.prompt else { return };
        let had_output = prompt.had_output;
        let Some(framing) = &mut prompt.framing else { return };
        let State::Idle(idle) = state else {
            framing.ending = None;
            return;
        };
        let worked = was_busy || (had_output && !framing.output_before);
        if framing.taken.is_some() && worked {
            return self.prompt_rests(idle);
        }
        let echoes = framing.echoes.len();
        // Neither taken nor told, and at rest as before: nothing has happened.
        if framing.taken.is_none() && !was_busy {
            return;
        }
        let due = (framing.taken.is_some() || echoes > 0).then_some(settles);
        framing.ending = Some(Ending { idle, echoes, due });
    }

    /// The agent asks the user: it is at work.
    pub(super) fn works_on(&mut self) {
        if let Some(framing) = self.prompt.as_mut().and_then(|prompt| prompt.framing.as_mut()) {
            framing.ending = None;
        }
    }

    /// Looks whether an end that was in doubt counts now.
    pub(super) fn ending_tick(&mut self, now: Instant) {
        let framing = self.prompt.as_mut().and_then(|prompt| prompt.framing.as_mut());
        let Some(framing) = framing.filter(|framing| framing.due().is_some_and(|due| due <= now)) else {
            return;
        };
        if let Some(ending) = framing.ending.take() {
            self.prompt_rests(ending.idle);
        }
    }

    /// The prompt is over: the agent has come to rest, for this reason.
    fn prompt_rests(&mut self, idle: Object) {
        for patch in self.v2.untold() {
            self.emit(AgentEvent::Update(Update::Tool(Box::new(patch))), 1024);
        }
        if let Some(failure) = self.killed.clone() {
            return self.prompt_lost(&failure);
        }
        let Some(prompt) = self.prompt.take() else { return };
        let cancel_requested = prompt.cancel_until.is_some();
        let reason = idle.get("stopReason").and_then(Value::as_str);
        if reason == Some("error") && !cancel_requested {
            let failure = self.failure_of("the prompt", told_error(&idle));
            return self.end_prompt(Err(Box::new(failure)));
        }
        let reason = match reason {
            Some("error") | None if cancel_requested => "cancelled",
            None => "end_turn",
            Some(reason) => reason,
        };
        self.end_prompt(Ok(PromptOutcome {
            stop_reason: decode::cut(reason.to_owned(), decode::NAME_BYTES),
            cancel_requested,
            usage: decode::prompt_usage(&idle).or(prompt.usage()),
            had_output: prompt.had_output,
        }));
    }
}

/// Why the work failed, as the agent tells it with its state.
fn told_error(idle: &Object) -> RpcError {
    match idle.get("error") {
        Some(error @ Value::Object(_)) => decode::rpc_error(error.clone()),
        _ => RpcError { code: -32603, message: "it failed without saying why".to_owned() },
    }
}
