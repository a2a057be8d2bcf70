//! What the agent asks: permission requests and questions, each answered exactly once, and all else refused at once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::conversation::Conversation;
use crate::decode::{self, asked, form, v2};
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
    /// Of an address to open: the agent's id of it, by which it tells that it is done.
    link: Option<String>,
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
            return self.answer_cancelled(&Asked { id, kind, link: None });
        }
        let session = decode::take_id(&mut params, "sessionId").filter(|session| self.is_child(session));
        let mut link = None;
        self.next_key += 1;
        let key = RequestKey(self.next_key);
        let event = match kind {
            Kind::Permission => {
                let description = asked::description(&mut params);
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
                let mut tool = tool;
                if let Some(session) = &session {
                    self.of_child(session, &mut tool);
                }
                AgentEvent::Permission { key, tool: Box::new(tool), description, options }
            }
            Kind::Elicitation => {
                let tool_call = decode::take_id(&mut params, "toolCallId").map(|id| match &session {
                    Some(session) => format!("{session}/{id}"),
                    None => id,
                });
                match form::form(&mut params, self.quirks.other_suffix) {
                    Ok(form) => {
                        link = form.link.as_ref().map(|link| link.id.clone());
                        AgentEvent::Elicitation { key, tool_call, form: Box::new(form) }
                    }
                    Err(unaskable) => return self.decline_unaskable(&id, unaskable),
                }
            }
        };
        self.works_on();
        self.asked.insert(key, Asked { id, kind, link });
        if self.is_ready() {
            self.emit(event, bytes);
        } else {
            // The session may not open before this is answered.
            self.out.push((event, bytes));
        }
    }

    fn decline_unaskable(&mut self, id: &Value, unaskable: form::Unaskable) {
        let what = match unaskable {
            form::Unaskable::Mode => "in a form that signalbox does not know",
            form::Unaskable::Address => "to open something that is no plain web address",
            form::Unaskable::Size => "in a form that is too large to be shown",
        };
        self.wire.elicitation(id, ElicitationAnswer::Decline);
        let message = format!("{} asked {what}; that was declined", self.info.name);
        self.warn("question_declined", message);
    }

    /// The agent says that what an address was to be opened for is done.
    pub(super) fn elicitation_completed(&mut self, params: &Map<String, Value>) {
        let done = params.get("elicitationId").and_then(Value::as_str);
        let is_it = |asked: &Asked| asked.link.is_some() && asked.link.as_deref() == done;
        let found = self.asked.iter().find(|(_, asked)| is_it(asked)).map(|(key, _)| *key);
        // One that was answered before is no longer here, and nothing is to be told about it.
        if let Some((key, asked)) = found.and_then(|key| Some((key, self.asked.remove(&key)?))) {
            self.wire.elicitation(&asked.id, ElicitationAnswer::Accept(BTreeMap::new()));
            self.emit(AgentEvent::DoneElsewhere { key }, 0);
        }
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
