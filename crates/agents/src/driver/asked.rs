//! What the agent asks: permission requests and questions, each answered exactly once, and all else refused at once.

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::conversation::Conversation;
use crate::decode::{self, asked, v2};
use crate::event::{AgentEvent, RequestKey};
use crate::handle::{Answer, ElicitationAnswer};
use crate::update::ToolPatch;
use crate::wire_out::Version;

/// Requests that may be open at a time; an agent that asks more gets a cancellation at once.
const MAX_OPEN: usize = 256;

/// A request that waits for the user.
#[derive(Debug)]
pub(super) struct Asked {
    /// The agent's id, as it came.
    id: Value,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Permission,
    Elicitation,
}

impl Conversation {
    pub(super) fn asked(&mut self, id: Value, method: &str, mut params: Map<String, Value>, bytes: usize) {
        let kind = match method {
            "session/request_permission" => Kind::Permission,
            "elicitation/create" => Kind::Elicitation,
            _ => {
                // Several agents block until they are refused.
                tracing::debug!(method, "a request of the agent is none that signalbox knows");
                return self.wire.method_not_found(&id);
            }
        };
        if self.is_cancelling() || self.asked.len() >= MAX_OPEN {
            return self.answer_cancelled(&Asked { id, kind });
        }
        self.next_key += 1;
        let key = RequestKey(self.next_key);
        let event = match kind {
            Kind::Permission => {
                // A request about no call we know of is about one of its own.
                let own_id = format!("request-{}", key.0);
                let mut tools = std::mem::take(&mut self.tools);
                let (tool, options) = if self.wire.version == Version::V2 {
                    let mut memory = std::mem::take(&mut self.v2);
                    let context = self.context();
                    let asked = v2::permission(&mut params, own_id, &context, &mut tools, &mut memory);
                    self.v2 = memory;
                    asked
                } else {
                    let (call, options) = asked::permission(&mut params);
                    let tool = decode::tool_patch(call, &self.context(), &mut tools);
                    (tool.unwrap_or_else(|| ToolPatch { id: own_id, ..ToolPatch::default() }), options)
                };
                self.tools = tools;
                AgentEvent::Permission { key, tool: Box::new(tool), options }
            }
            Kind::Elicitation => {
                let tool_call = decode::take_text(&mut params, "toolCallId");
                match asked::form(&mut params) {
                    Some(form) => AgentEvent::Elicitation { key, tool_call, form: Box::new(form) },
                    // A link to open: not advertised, so not to be expected.
                    None => return self.wire.elicitation(&id, ElicitationAnswer::Decline),
                }
            }
        };
        self.works_on();
        self.asked.insert(key, Asked { id, kind });
        self.emit(event, bytes);
    }

    pub(super) fn answer_permission(&mut self, key: RequestKey, answer: Answer, now: Instant) {
        if let Some(asked) = self.take(key, Kind::Permission) {
            self.wire.permission(&asked.id, answer);
            // The agent's silence counts from here.
            self.last_heard = now;
        }
    }

    pub(super) fn answer_elicitation(&mut self, key: RequestKey, answer: ElicitationAnswer, now: Instant) {
        if let Some(asked) = self.take(key, Kind::Elicitation) {
            self.wire.elicitation(&asked.id, answer);
            self.last_heard = now;
        }
    }

    pub(super) fn dismiss(&mut self, key: RequestKey, now: Instant) {
        if let Some(asked) = self.asked.remove(&key) {
            self.answer_cancelled(&asked);
            self.last_heard = now;
        }
    }

    fn take(&mut self, key: RequestKey, kind: Kind) -> Option<Asked> {
        let asked = self.asked.get(&key)?;
        if asked.kind != kind {
            tracing::warn!(key = key.0, "an answer of the wrong kind is ignored");
            return None;
        }
        self.asked.remove(&key)
    }

    /// The agent takes a request back; it still gets its one answer.
    pub(super) fn withdrawn(&mut self, id: &Value) {
        let found = self.asked.iter().find(|(_, asked)| asked.id == *id).map(|(key, _)| *key);
        if let Some(asked) = found.and_then(|key| self.asked.remove(&key)) {
            self.answer_cancelled(&asked);
        }
        if let Some(key) = found {
            self.emit(AgentEvent::Withdrawn { key }, 0);
        }
    }

    pub(super) fn answer_all_cancelled(&mut self) {
        for (key, asked) in std::mem::take(&mut self.asked) {
            self.answer_cancelled(&asked);
            self.emit(AgentEvent::Withdrawn { key }, 0);
        }
    }

    fn answer_cancelled(&mut self, asked: &Asked) {
        match asked.kind {
            Kind::Permission => self.wire.permission(&asked.id, Answer::Cancelled),
            Kind::Elicitation => self.wire.elicitation(&asked.id, ElicitationAnswer::Cancel),
        }
    }
}
