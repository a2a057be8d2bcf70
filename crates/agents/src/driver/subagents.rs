//! Sessions that an agent opens for agents of its own: each is shown as one tool call that holds what it says, its own
//! calls and requests stand beside it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use signalbox_facts::ToolStatus;

use super::conversation::Conversation;
use crate::decode::{self, ChildState, Decoded};
use crate::update::{OutputPatch, ToolPatch, Update};

/// Sessions and messages of one agent that are remembered at a time.
const MAX_CHILDREN: usize = 256;
const MAX_MESSAGES: usize = 1024;
/// Remembered of what a child said last, to know its report to the parent when it is the same.
const LAST_BYTES: usize = 64 << 10;
/// Of a task as it is shown.
const PROMPT_CHARS: usize = 4000;

/// The children of the open session.
#[derive(Debug, Default)]
pub(super) struct Children {
    known: HashMap<String, Child>,
    /// Which way a message goes, by its id; its pieces do not say it.
    messages: HashMap<String, (Direction, String)>,
}

/// Which way a message between parent and child goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Task,
    Report,
}

#[derive(Debug, Default)]
struct Child {
    title: Option<String>,
    description: Option<String>,
    prompt: Option<String>,
    /// It has not said that it is through.
    works: bool,
    /// What was told of its input in this turn.
    told: Option<Value>,
    /// Kind and id of the message that its last text belonged to.
    last: Option<(bool, Option<String>)>,
    /// The text of that message.
    said: String,
}

impl Children {
    /// A turn begins: calls of the one before are closed, and whoever goes on is told of anew.
    pub(super) fn turn_begins(&mut self) {
        self.known.values_mut().for_each(|child| child.told = None);
        if self.messages.len() > MAX_MESSAGES / 2 {
            self.messages.clear();
        }
    }

    /// Room for one more: one that is through is forgotten. False if all of them work.
    fn make_room(&mut self) -> bool {
        if self.known.len() < MAX_CHILDREN {
            return true;
        }
        let through = self.known.iter().find(|(_, child)| !child.works).map(|(session, _)| session.clone());
        through.is_some_and(|session| self.known.remove(&session).is_some())
    }
}

impl Child {
    fn title(&self) -> &str {
        self.title.as_deref().unwrap_or("Subagent")
    }
}

/// The id of the call that a child is shown as.
fn call_id(session: &str) -> String {
    format!("subagent/{session}")
}

impl Conversation {
    /// Whether a session is a child of the open one.
    pub(super) fn is_child(&self, session: &str) -> bool {
        self.children.known.contains_key(session)
    }

    /// A call of a child beside those of its parent: ids of two sessions may be the same, and people see whose it is.
    pub(super) fn of_child(&self, session: &str, call: &mut ToolPatch) {
        let Some(child) = self.children.known.get(session) else { return };
        call.id = format!("{session}/{}", call.id);
        if let Some(title) = &mut call.title {
            *title = format!("{}: {title}", child.title());
        }
    }

    /// `subagent_update`.
    pub(super) fn subagent(&mut self, mut update: Map<String, Value>, is_replay: bool) {
        let Some(session) = decode::take_id(&mut update, "sessionId") else {
            return;
        };
        let ended = matches!(
            decode::child_state(update.get("state")),
            Some(ChildState::Ended | ChildState::Failed | ChildState::Cancelled)
        );
        if !self.is_child(&session) && ended && !update.contains_key("title") {
            // One from before, of which nothing else is told.
            return;
        }
        if !self.is_child(&session) && !self.children.make_room() {
            tracing::debug!("one subagent too many is not shown");
            return;
        }
        let child = self.children.known.entry(session.clone()).or_default();
        for (key, field) in [("title", &mut child.title), ("description", &mut child.description)] {
            if update.contains_key(key) {
                *field = decode::take_name(&mut update, key).filter(|text| !text.trim().is_empty());
            }
        }
        if is_replay {
            return;
        }
        let state = decode::child_state(update.get("state"));
        let (status, cancelled) = match state {
            Some(ChildState::Works) => (Some(ToolStatus::InProgress), false),
            Some(ChildState::Ended) => (Some(ToolStatus::Completed), false),
            Some(ChildState::Failed) => (Some(ToolStatus::Failed), false),
            Some(ChildState::Cancelled) => (Some(ToolStatus::Failed), true),
            None => (None, false),
        };
        let ends = status.is_some_and(ToolStatus::is_final);
        if ends && child.works && child.told.is_none() {
            // It began in an earlier turn, where its call was closed.
            self.child_call(&session, ToolPatch::default());
        }
        if let Some(child) = self.children.known.get_mut(&session) {
            child.works = if status.is_some() { !ends } else { child.works };
        }
        self.child_call(&session, ToolPatch { status, cancelled, ..ToolPatch::default() });
        if ends && let Some(child) = self.children.known.get_mut(&session) {
            // If it goes on later, that is another call, which is told its task again.
            child.told = None;
        }
    }

    /// Tells what is new about the call that a child is shown as.
    fn child_call(&mut self, session: &str, patch: ToolPatch) {
        let Some(child) = self.children.known.get_mut(session) else { return };
        let ends = patch.status.is_some_and(ToolStatus::is_final);
        let input = json!({
            "tool": "subagent",
            "name": child.title,
            "description": child.description,
            "prompt": child.prompt,
            "sessionId": session,
        });
        let news = (!ends && child.told.as_ref() != Some(&input)).then(|| {
            child.told = Some(input.clone());
            input
        });
        let begins = news.is_some() && child.works;
        let patch = ToolPatch {
            id: call_id(session),
            status: patch.status.or(begins.then_some(ToolStatus::InProgress)),
            title: (!ends).then(|| child.title().to_owned()),
            name: Some("subagent".to_owned()),
            kind: Some("think".to_owned()),
            raw_input: news,
            ..patch
        };
        self.tell(Update::Tool(Box::new(patch)), 512);
    }

    /// `session_message`: a task for a child, or its report, as seen in the transcript of `session`.
    pub(super) fn session_message(&mut self, session: &str, mut update: Map<String, Value>) {
        let mut take = |key: &str| decode::take_id(&mut update, key).unwrap_or_default();
        let (id, from, to) = (take("messageId"), take("senderSessionId"), take("recipientSessionId"));
        let (direction, child) = if self.is_child(&to) {
            (Direction::Task, to)
        } else if self.is_child(&from) && session != from {
            (Direction::Report, from)
        } else {
            return;
        };
        if self.children.messages.len() < MAX_MESSAGES {
            self.children.messages.insert(id, (direction, child.clone()));
        }
        let text = decode::texts_of(&mut update, "content");
        self.message_text(direction, &child, &text);
    }

    /// `session_message_chunk`: more of a message that was told of.
    pub(super) fn session_message_chunk(&mut self, mut update: Map<String, Value>) {
        let id = decode::take_id(&mut update, "messageId").unwrap_or_default();
        let Some((direction, child)) = self.children.messages.get(&id).cloned() else { return };
        let text = decode::texts_of(&mut update, "content");
        match direction {
            Direction::Task => {
                let known = self.children.known.get(&child).and_then(|child| child.prompt.clone());
                self.message_text(direction, &child, &(known.unwrap_or_default() + &text));
            }
            Direction::Report => self.child_text(&child, false, Some(id), &text),
        }
    }

    fn message_text(&mut self, direction: Direction, session: &str, text: &str) {
        let Some(child) = self.children.known.get_mut(session).filter(|_| !text.is_empty()) else { return };
        match direction {
            Direction::Task => {
                let prompt: String = text.chars().take(PROMPT_CHARS).collect();
                if child.prompt.as_ref() != Some(&prompt) {
                    child.prompt = Some(prompt);
                    self.child_call(session, ToolPatch::default());
                }
            }
            // Often it is what the child said last, which is there already.
            Direction::Report if child.said.trim() == text.trim() => {}
            Direction::Report => {
                child.last = None;
                self.child_text(session, false, None, text);
            }
        }
    }

    /// A piece of what a child says or thinks.
    fn child_text(&mut self, session: &str, thought: bool, message_id: Option<String>, text: &str) {
        let Some(child) = self.children.known.get_mut(session).filter(|_| !text.is_empty()) else { return };
        let message = Some((thought, message_id));
        let mut shown = String::new();
        if child.last != message {
            if !child.said.is_empty() {
                shown.push_str("\n\n");
            }
            child.said.clear();
            child.last = message;
        }
        if child.said.len() + text.len() <= LAST_BYTES {
            child.said.push_str(text);
        }
        shown.push_str(text);
        let known = child.told.is_some();
        let patch = ToolPatch { output: Some(OutputPatch::Append(shown)), ..ToolPatch::default() };
        if known {
            let patch = ToolPatch { id: call_id(session), ..patch };
            self.tell(Update::Tool(Box::new(patch)), text.len());
        } else {
            self.child_call(session, patch);
        }
    }

    /// An update of a child's own session.
    pub(super) fn child_update(&mut self, session: &str, update: Map<String, Value>, bytes: usize) {
        match update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default() {
            "subagent_update" => return self.subagent(update, false),
            "session_message" => return self.session_message(session, update),
            "session_message_chunk" => return self.session_message_chunk(update),
            _ => {}
        }
        for decoded in self.decode(update, bytes) {
            self.child_told(session, decoded, bytes);
        }
    }

    fn child_told(&mut self, session: &str, decoded: Decoded, bytes: usize) {
        match decoded {
            Decoded::Update(Update::Message(chunk)) => {
                self.child_text(session, false, chunk.message_id, &chunk.text);
            }
            Decoded::Update(Update::Thought(chunk)) => {
                self.child_text(session, true, chunk.message_id, &chunk.text);
            }
            Decoded::Update(Update::Tool(mut call)) => {
                self.of_child(session, &mut call);
                self.tell(Update::Tool(call), bytes);
            }
            Decoded::Update(update @ (Update::Notice { .. } | Update::Unknown(_))) => {
                self.tell(update, bytes)
            }
            Decoded::Update(Update::MessageContent { content, .. }) => {
                self.child_text(session, false, None, &format!("[{}]", content.kind()));
            }
            // Options, plans and the like are the child's own; its parent's stay as they are.
            _ => tracing::trace!("an update of a subagent that only concerns itself"),
        }
    }
}
