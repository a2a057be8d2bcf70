//! Agents that the agent sends out: each is shown as a call, as agents of the first version do it themselves.
//!
//! What a subagent says and does in its own session is not shown; what is said to it and what it reports is.

use serde_json::{Value, json};
use signalbox_facts::ToolStatus;

use crate::decode::content::content;
use crate::decode::fields::{Object, object, take_filled, take_list, text};
use crate::update::{Content, ToolPart, ToolPatch};

/// Subagents remembered, the latest ones.
const MAX_SUBAGENTS: usize = 256;

/// The sessions of a session's subagents.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    known: Vec<String>,
}

impl Subagents {
    /// `subagent_update`.
    pub(super) fn update(&mut self, update: &mut Object) -> Option<ToolPatch> {
        let id = take_filled(update, "sessionId")?;
        let known = self.known.contains(&id);
        let state = object(update, "state");
        let reason = state.and_then(|state| text(state, "stopReason"));
        let status = state.and_then(|state| match text(state, "state")? {
            "idle" if matches!(reason, Some("cancelled" | "error")) => Some(ToolStatus::Failed),
            "idle" => Some(ToolStatus::Completed),
            _ => Some(ToolStatus::InProgress),
        });
        let cancelled = status == Some(ToolStatus::Failed) && reason == Some("cancelled");
        if !known {
            // One that rests and of which nothing else is told is one from before.
            if status.is_some_and(ToolStatus::is_final) && update.get("title").is_none() {
                return None;
            }
            if self.known.len() >= MAX_SUBAGENTS {
                self.known.remove(0);
            }
            self.known.push(id.clone());
        }
        let description = take_filled(update, "description");
        let title = take_filled(update, "title");
        Some(ToolPatch {
            title: match (title, known) {
                (None, false) => description.clone().or_else(|| Some("Subagent".to_owned())),
                (title, _) => title,
            },
            kind: (!known).then(|| "think".to_owned()),
            status,
            cancelled,
            id,
            ..ToolPatch::default()
        })
    }

    /// `session_message`, if it is to a subagent (its task) or from one (its report).
    pub(super) fn message(&mut self, update: &mut Object) -> Option<ToolPatch> {
        let known = |key| text(update, key).filter(|id| self.known.iter().any(|known| known == id));
        let (to, from) = (known("recipientSessionId"), known("senderSessionId"));
        let to_it = to.is_some();
        let id = to.or(from)?.to_owned();
        let blocks = take_list(update, "content").unwrap_or_default().into_iter().map(content);
        let mut patch = ToolPatch { id, ..ToolPatch::default() };
        if to_it {
            let texts = blocks.filter_map(|block| match block {
                Content::Text(text) => Some(text),
                _ => None,
            });
            patch.raw_input = Some(json!({"prompt": Value::String(texts.collect())}));
        } else {
            patch.content = Some(blocks.map(ToolPart::Content).collect());
        }
        Some(patch)
    }
}
