//! What an agent tells of the sessions it opens for agents of its own.

use serde_json::Value;

use super::content::content;
use super::fields::{Object, take_list};
use crate::update::Content;

/// What a child session does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChildState {
    /// It works, or waits for an answer that is asked for by itself.
    Works,
    /// It is through with what it was asked for.
    Ended,
    /// It gave up.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// The `state` of a `subagent_update`; `None` says nothing new.
pub(crate) fn child_state(state: Option<&Value>) -> Option<ChildState> {
    let (word, reason) = match state? {
        Value::String(word) => (word.as_str(), None),
        Value::Object(state) => {
            (state.get("state")?.as_str()?, state.get("stopReason").and_then(Value::as_str))
        }
        _ => return None,
    };
    match (word, reason) {
        ("running" | "requires_action", _) => Some(ChildState::Works),
        ("idle", Some("cancelled")) => Some(ChildState::Cancelled),
        ("idle", Some("refusal")) => Some(ChildState::Failed),
        ("idle", _) => Some(ChildState::Ended),
        _ => None,
    }
}

/// The texts of a block or a list of blocks; of others what they are.
pub(crate) fn texts_of(object: &mut Object, key: &str) -> String {
    let blocks = match object.get(key) {
        Some(Value::Array(_)) => take_list(object, key).unwrap_or_default(),
        _ => object.remove(key).into_iter().filter(|value| !value.is_null()).collect(),
    };
    let texts = blocks.into_iter().map(|block| match content(block) {
        Content::Text(text) => text,
        other => format!("[{}]", other.kind()),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_are_read_with_the_reason_they_ended_for() {
        let state = |value: Value| child_state(Some(&value));
        assert_eq!(state(json!({"state":"running"})), Some(ChildState::Works));
        assert_eq!(state(json!({"state":"requires_action"})), Some(ChildState::Works));
        assert_eq!(state(json!({"state":"idle","stopReason":"end_turn"})), Some(ChildState::Ended));
        assert_eq!(state(json!({"state":"idle","stopReason":"cancelled"})), Some(ChildState::Cancelled));
        assert_eq!(state(json!({"state":"dreaming"})), None);
        assert_eq!((state(Value::Null), child_state(None)), (None, None));
    }

    #[test]
    fn content_is_a_block_or_a_list_of_them() {
        let texts = |value: Value| texts_of(json!({"content": value}).as_object_mut().unwrap(), "content");
        assert_eq!(texts(json!({"type":"text","text":"a"})), "a");
        assert_eq!(texts(json!([{"type":"text","text":"a"},{"type":"image","data":""}])), "a[image]");
        assert_eq!(texts(Value::Null), "");
    }
}
