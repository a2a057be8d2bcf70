//! What a session remembers of its conversation: the updates it sent, joined and bounded, ready to be replayed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::text;

/// The longest text of one message or tool call that is kept.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// All that is kept of a conversation; the oldest goes first.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_ENTRIES: usize = 2000;

/// The conversation, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct History {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Entry {
    /// A message: chunks of one kind and id, joined.
    Message { update: String, id: String, text: String },
    /// A tool call with all its updates merged in.
    Tool { call: Map<String, Value> },
    /// The latest plan of a turn.
    Plan { turn: u64, entries: Value },
}

impl History {
    /// Adds one update that was sent. Kinds that a replay does not show are left out.
    pub(crate) fn record(&mut self, turn: u64, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match kind {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let id = update["messageId"].as_str().unwrap_or_default();
                self.append(kind, id, update["content"]["text"].as_str().unwrap_or_default());
            }
            "tool_call" => {
                self.entries.push(Entry::Tool { call: Map::new() });
                if let Some(Entry::Tool { call }) = self.entries.last_mut() {
                    merge(call, update);
                }
            }
            "tool_call_update" => {
                let known = self.entries.iter_mut().rev().find_map(|entry| match entry {
                    Entry::Tool { call } if call.get("toolCallId") == Some(&update["toolCallId"]) => {
                        Some(call)
                    }
                    _ => None,
                });
                match known {
                    Some(call) => merge(call, update),
                    None => {
                        let mut call = Map::new();
                        merge(&mut call, update);
                        self.entries.push(Entry::Tool { call });
                    }
                }
            }
            "plan" => {
                self.entries.retain(|entry| !matches!(entry, Entry::Plan { turn: old, .. } if *old == turn));
                self.entries.push(Entry::Plan { turn, entries: update["entries"].clone() });
            }
            _ => {}
        }
        if self.entries.len() > MAX_ENTRIES {
            self.entries.drain(..self.entries.len() - MAX_ENTRIES);
        }
    }

    /// Joins text to the message of this kind and id, or begins it.
    pub(crate) fn append(&mut self, kind: &str, id: &str, more: &str) {
        match self.entries.last_mut() {
            Some(Entry::Message { update, id: last, text }) if update == kind && last == id => {
                if text.len() < MAX_TEXT_BYTES {
                    text.push_str(text::head(more, MAX_TEXT_BYTES - text.len()));
                }
            }
            _ => self.entries.push(Entry::Message {
                update: kind.to_owned(),
                id: id.to_owned(),
                text: text::head(more, MAX_TEXT_BYTES).to_owned(),
            }),
        }
    }

    /// The updates that tell the conversation again: a message in one chunk, a tool call with its last state.
    pub(crate) fn replay(&self) -> impl Iterator<Item = Value> + '_ {
        self.entries.iter().map(|entry| match entry {
            Entry::Message { update, id, text } => json!({
                "sessionUpdate": update,
                "messageId": id,
                "content": {"type": "text", "text": text},
            }),
            Entry::Tool { call } => {
                let mut call = call.clone();
                call.insert("sessionUpdate".to_owned(), json!("tool_call"));
                if !call.contains_key("title") {
                    call.insert("title".to_owned(), json!("Tool call"));
                }
                Value::Object(call)
            }
            Entry::Plan { entries, .. } => json!({"sessionUpdate": "plan", "entries": entries}),
        })
    }

    /// Drops the oldest entries until what is kept is small.
    pub(crate) fn shrink(&mut self) {
        let mut room = MAX_BYTES;
        let kept = self
            .entries
            .iter()
            .rev()
            .take_while(|entry| {
                let size = size(entry);
                let fits = size <= room;
                room = room.saturating_sub(size);
                fits
            })
            .count();
        self.entries.drain(..self.entries.len() - kept);
    }
}

fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Message { text, id, .. } => text.len() + id.len() + 64,
        Entry::Tool { call } => serde_json::to_string(call).map_or(MAX_BYTES, |text| text.len()),
        Entry::Plan { entries, .. } => entries.to_string().len(),
    }
}

/// Puts an update's fields over what is known of the call; long texts are cut, streams of `_meta` left out.
fn merge(call: &mut Map<String, Value>, update: &Value) {
    for (key, value) in update.as_object().into_iter().flatten() {
        match key.as_str() {
            "sessionUpdate" | "_meta" => {}
            "content" => {
                let mut content = value.clone();
                // A terminal lives in the process that ran it; a replay has nothing to show in its place.
                if let Some(blocks) = content.as_array_mut() {
                    blocks.retain(|block| block["type"] != "terminal");
                    for block in blocks {
                        cut(&mut block["content"]["text"]);
                        cut(&mut block["oldText"]);
                        cut(&mut block["newText"]);
                    }
                }
                call.insert(key.clone(), content);
            }
            _ => {
                call.insert(key.clone(), value.clone());
            }
        }
    }
}

fn cut(text: &mut Value) {
    if let Value::String(text) = text {
        let length = text::head(text, MAX_TEXT_BYTES).len();
        text.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: &str, text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn a_replay_joins_chunks_and_merges_tool_updates() {
        let mut history = History::default();
        history.record(1, &chunk("a", "one "));
        history.record(1, &chunk("a", "two"));
        history.record(
            1,
            &json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "pending"}),
        );
        history.record(1, &chunk("b", "meanwhile"));
        history.record(
            1,
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "_meta": {"x": 1}}),
        );
        let told: Vec<Value> = history.replay().collect();
        assert_eq!(told[0], chunk("a", "one two"));
        assert_eq!(
            told[1],
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "completed"})
        );
        assert_eq!(told[2], chunk("b", "meanwhile"));
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn a_long_conversation_keeps_its_newest_part() {
        let mut history = History::default();
        for n in 0..100 {
            history.record(1, &chunk(&n.to_string(), &"x".repeat(2 * MAX_TEXT_BYTES)));
        }
        history.shrink();
        let told: Vec<Value> = history.replay().collect();
        assert!(told.len() < 20 && told.len() > 10, "{}", told.len());
        assert_eq!(told.last().unwrap()["messageId"], "99");
        assert_eq!(told[0]["content"]["text"].as_str().unwrap().len(), MAX_TEXT_BYTES);
    }
}
