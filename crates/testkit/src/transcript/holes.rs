//! Holes and what they are bound to, what is left out, and how a line is compared with a frame.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Stands for anything.
pub(super) const ANY: &str = "…";

const LEFT_OUT: [&str; 10] = [
    "at",
    "jsonrpc",
    "seq",
    "snapshotSeq",
    "cursor",
    "revision",
    "userAgent",
    "cliVersion",
    "version",
    "platformOs",
];
const LEFT_OUT_ENDS: [&str; 4] = ["At", "_at", "Ms", "_ms"];

/// The frame without what differs from run to run.
pub(super) fn steady(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let stays = |name: &str| {
                !LEFT_OUT.contains(&name) && !LEFT_OUT_ENDS.iter().any(|end| name.ends_with(end))
            };
            let members = members.iter().filter(|(name, _)| stays(name));
            Value::Object(members.map(|(name, value)| (name.clone(), steady(value))).collect())
        }
        Value::Array(values) => values.iter().map(steady).collect(),
        other => other.clone(),
    }
}

/// What the holes are bound to, by name.
#[derive(Debug, Default)]
pub(super) struct Holes(BTreeMap<String, String>);

impl Holes {
    pub(super) fn bind(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// The text with every bound hole filled.
    pub(super) fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value))
    }

    /// A hole in the text that is not bound.
    pub(super) fn unbound(text: &str) -> Option<&str> {
        text.match_indices("\"<").find_map(|(at, _)| {
            let rest = &text[at + 1..];
            let hole = &rest[..rest.find('"')?];
            hole.ends_with('>').then_some(hole)
        })
    }

    /// Compares a line with a frame that has been made steady. Binds what is free.
    pub(super) fn compare(&mut self, line: &Value, frame: &Value, path: &str) -> Result<(), String> {
        match (line, frame) {
            (Value::String(any), _) if any == ANY => Ok(()),
            (Value::String(text), Value::String(actual)) => self.compare_text(text, actual, path),
            (Value::Object(wanted), Value::Object(actual)) => self.compare_members(wanted, actual, path),
            (Value::Array(wanted), Value::Array(actual)) => {
                if wanted.len() != actual.len() {
                    return Err(format!("at {path}: {} elements instead of {}", actual.len(), wanted.len()));
                }
                let mut both = wanted.iter().zip(actual).enumerate();
                both.try_for_each(|(at, (wanted, actual))| {
                    self.compare(wanted, actual, &format!("{path}/{at}"))
                })
            }
            (wanted, actual) if wanted == actual => Ok(()),
            (wanted, actual) => Err(format!("at {path}: {actual} instead of {wanted}")),
        }
    }

    fn compare_text(&mut self, text: &str, actual: &str, path: &str) -> Result<(), String> {
        if let Some(name) = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'))
            && !name.contains('<')
            && !self.0.contains_key(name)
        {
            if let Some((other, _)) = self.0.iter().find(|(_, value)| *value == actual) {
                return Err(format!("at {path}: <{other}> instead of something new for <{name}>"));
            }
            self.bind(name, actual.to_owned());
            return Ok(());
        }
        let filled = self.fill(text);
        if filled == actual { Ok(()) } else { Err(format!("at {path}: {actual:?} instead of {filled:?}")) }
    }

    fn compare_members(
        &mut self,
        wanted: &Map<String, Value>,
        actual: &Map<String, Value>,
        path: &str,
    ) -> Result<(), String> {
        for (name, value) in wanted.iter().filter(|(name, _)| *name != ANY) {
            let Some(there) = actual.get(name) else { return Err(format!("at {path}: no {name}")) };
            self.compare(value, there, &format!("{path}/{name}"))?;
        }
        let more: Vec<_> = actual.keys().filter(|name| !wanted.contains_key(*name)).collect();
        if more.is_empty() || wanted.contains_key(ANY) {
            Ok(())
        } else {
            Err(format!("at {path}: also {more:?}"))
        }
    }

    /// The frame as a line: ids become holes, folders too, and what the old line left open stays open.
    pub(super) fn line_of(&mut self, frame: &Value, old: Option<&Value>) -> Value {
        self.name_ids(frame, "");
        let line = self.hollow(frame);
        match old {
            Some(old) => reopen(line, old),
            None => line,
        }
    }

    fn name_ids(&mut self, value: &Value, owner: &str) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if let Value::String(id) = member {
                        let owner = match (name.as_str(), owner) {
                            ("id", "") | ("requestId" | "approvalId" | "input_id", _) => "approval",
                            ("sessionId", _) => "thread",
                            ("id", "item" | "items") => {
                                item_name(members["type"].as_str().unwrap_or_default())
                            }
                            ("id", owner) => owner.trim_end_matches('s'),
                            (name, _) => name.trim_end_matches("Id").trim_end_matches("_id"),
                        };
                        self.name_id(id, owner);
                    }
                    self.name_ids(member, name);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.name_ids(value, owner)),
            _ => {}
        }
    }

    fn name_id(&mut self, id: &str, owner: &str) {
        if !(is_uuid(id) || is_item(id)) || self.0.values().any(|known| known == id) {
            return;
        }
        let free = |name: &String| !self.0.contains_key(name);
        let numbered = (2..).map(|number| format!("{owner}{number}"));
        if let Some(name) = std::iter::once(owner.to_owned()).chain(numbered).find(free) {
            self.bind(&name, id.to_owned());
        }
    }

    fn hollow(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.empty(text)),
            Value::Array(values) => values.iter().map(|value| self.hollow(value)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), self.hollow(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn empty(&self, text: &str) -> String {
        // Item ids are short enough to occur in any text by chance.
        if is_item(text) {
            let known = self.0.iter().find(|(_, value)| *value == text);
            return known.map_or_else(|| text.to_owned(), |(name, _)| format!("<{name}>"));
        }
        // Longer values first: a folder before the folder it lies in.
        let mut known: Vec<_> = self.0.iter().filter(|(_, value)| !is_item(value)).collect();
        known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(*value, &format!("<{name}>")))
    }
}

/// Puts the `…` of the old line into the new one.
fn reopen(new: Value, old: &Value) -> Value {
    match (new, old) {
        (_, Value::String(any)) if any == ANY => Value::String(ANY.to_owned()),
        (Value::Object(members), Value::Object(before)) => {
            let open = before.contains_key(ANY);
            let kept = members.into_iter().filter(|(name, _)| !open || before.contains_key(name));
            let mut kept: Map<String, Value> = kept
                .map(|(name, value)| match before.get(&name) {
                    Some(before) => (name, reopen(value, before)),
                    None => (name, value),
                })
                .collect();
            if open {
                kept.insert(ANY.to_owned(), Value::String(ANY.to_owned()));
            }
            Value::Object(kept)
        }
        (Value::Array(values), Value::Array(before)) if values.len() == before.len() => {
            values.into_iter().zip(before).map(|(value, before)| reopen(value, before)).collect()
        }
        (new, _) => new,
    }
}

fn item_name(kind: &str) -> &str {
    match kind {
        "userMessage" => "prompt",
        "agentMessage" => "message",
        "reasoning" => "thought",
        "commandExecution" => "command",
        "fileChange" => "change",
        "plan" => "plan",
        _ => "tool",
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

fn is_item(text: &str) -> bool {
    text.strip_prefix('i').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hole_is_bound_once_and_then_must_match() {
        let mut holes = Holes::default();
        holes.compare(&json!({ "a": "<x>" }), &json!({ "a": "1" }), "").unwrap();
        holes.compare(&json!({ "b": "<x>" }), &json!({ "b": "1" }), "").unwrap();
        let wrong = holes.compare(&json!({ "b": "<x>" }), &json!({ "b": "2" }), "").unwrap_err();
        assert_eq!(wrong, r#"at /b: "2" instead of "1""#);
        let wrong = holes.compare(&json!({ "b": "<y>" }), &json!({ "b": "1" }), "").unwrap_err();
        assert!(wrong.contains("<x> instead of something new"), "{wrong}");
    }

    #[test]
    fn members_must_be_the_same_unless_left_open() {
        let mut holes = Holes::default();
        let frame = json!({ "a": 1, "b": 2 });
        assert!(holes.compare(&json!({ "a": 1 }), &frame, "").is_err());
        assert!(holes.compare(&json!({ "a": 1, "c": 1, "…": "…" }), &frame, "").is_err());
        holes.compare(&json!({ "a": 1, "…": "…" }), &frame, "").unwrap();
        holes.compare(&json!({ "a": "…", "b": 2 }), &frame, "").unwrap();
    }

    #[test]
    fn times_and_places_are_left_out() {
        let frame =
            json!({ "seq": 1, "startedAtMs": 2, "updatedAt": 3, "turn": { "durationMs": 4, "id": "t" } });
        assert_eq!(steady(&frame), json!({ "turn": { "id": "t" } }));
    }

    #[test]
    fn ids_become_holes_named_for_what_they_are() {
        let mut holes = Holes::default();
        holes.bind("work", "/tmp/w".to_owned());
        let uuid = "01234567-89ab-7cde-8f01-23456789abcd";
        let frame = json!({ "threadId": uuid, "item": { "id": "i7", "type": "agentMessage", "text": "in /tmp/w/a" } });
        let old = json!({ "item": { "id": "…", "…": "…" }, "threadId": "<thread>" });
        assert_eq!(
            holes.line_of(&frame, None),
            json!({ "threadId": "<thread>", "item": { "id": "<message>", "type": "agentMessage", "text": "in <work>/a" } })
        );
        assert_eq!(
            holes.line_of(&frame, Some(&old)),
            json!({ "threadId": "<thread>", "item": { "id": "…", "…": "…" } })
        );
    }
}
