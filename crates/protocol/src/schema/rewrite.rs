//! Small rewrites of schema values: walking, references, key order, names.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(super) const DEFS: &str = "#/$defs/";

/// The definition a `$ref` names.
pub(super) fn target(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix(DEFS)
}

/// A reference to a definition.
pub(super) fn reference(name: &str) -> Value {
    let mut object = Map::new();
    object.insert("$ref".to_owned(), Value::String(format!("{DEFS}{name}")));
    Value::Object(object)
}

/// Whether a schema admits `null` and nothing else.
fn is_null(schema: &Value) -> bool {
    schema["type"] == "null"
}

/// The names of all definitions a schema refers to.
pub(super) fn references(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), target(value)) {
                    ("$ref", Some(name)) => {
                        names.insert(name.to_owned());
                    }
                    _ => references(value, names),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, names)),
        _ => {}
    }
}

/// Gives references another name.
pub(super) fn rename_references(schema: &mut Value, rename: &impl Fn(&str) -> Option<String>) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match (key.as_str(), target(value).and_then(rename)) {
                    ("$ref", Some(name)) => *value = Value::String(format!("{DEFS}{name}")),
                    _ => rename_references(value, rename),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename_references(value, rename)),
        _ => {}
    }
}

/// What is written is left out rather than `null` when its schema says both that it may be missing and that it may be `null`:
/// serde never does both to one field.
pub(super) fn drop_absent_nulls(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let required: BTreeSet<String> = strings(object.get("required")).collect();
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    if !required.contains(name) {
                        drop_null(property);
                    }
                }
            }
            object.values_mut().for_each(drop_absent_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_absent_nulls),
        _ => {}
    }
}

fn drop_null(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| !is_null(choice));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.insert(key, value);
            }
        }
    }
}

/// The strings of an array.
pub(super) fn strings(value: Option<&Value>) -> impl Iterator<Item = String> {
    let values = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    values.iter().filter_map(Value::as_str).map(str::to_owned)
}

/// `turn/start`, `on-request`, `accept_edits`, `userMessage` → `TurnStart`, `OnRequest`, `AcceptEdits`, `UserMessage`.
pub(super) fn pascal(word: &str) -> String {
    let mut name = String::with_capacity(word.len());
    let mut upper = true;
    for letter in word.chars() {
        if letter.is_ascii_alphanumeric() {
            name.push(if upper { letter.to_ascii_uppercase() } else { letter });
            upper = false;
        } else {
            upper = true;
        }
    }
    name
}

/// The same value with the keys of all objects in alphabetical order.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> = object.into_iter().collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}
