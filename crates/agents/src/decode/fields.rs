//! Reading single fields out of JSON objects without ever failing.

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// A text field, moved out. Numbers and booleans are taken as their text, because some agents number their ids.
pub(crate) fn take_text(object: &mut Object, key: &str) -> Option<String> {
    match object.get_mut(key)?.take() {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text field that says something.
pub(crate) fn take_filled(object: &mut Object, key: &str) -> Option<String> {
    take_text(object, key).filter(|text| !text.is_empty())
}

/// A list, moved out; `null` is an empty one (it clears), anything else is absent.
pub(crate) fn take_list(object: &mut Object, key: &str) -> Option<Vec<Value>> {
    match object.get_mut(key)?.take() {
        Value::Array(list) => Some(list),
        Value::Null => Some(Vec::new()),
        _ => None,
    }
}

/// An object, moved out.
pub(crate) fn take_object(object: &mut Object, key: &str) -> Option<Object> {
    match object.get_mut(key)?.take() {
        Value::Object(inner) => Some(inner),
        _ => None,
    }
}

/// Any value but null, moved out.
pub(crate) fn take_value(object: &mut Object, key: &str) -> Option<Value> {
    Some(object.get_mut(key)?.take()).filter(|value| !value.is_null())
}

pub(crate) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

pub(crate) fn object<'a>(parent: &'a Object, key: &str) -> Option<&'a Object> {
    parent.get(key)?.as_object()
}

/// A count: whole, fractional or as text; never negative.
pub(crate) fn count(object: &Object, key: &str) -> Option<u64> {
    let value = object.get(key)?;
    value.as_u64().or_else(|| {
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        // Saturates at both ends, and NaN becomes 0.
        (number.is_finite()).then_some(number as u64)
    })
}

/// Whether a capability is there: `true`, or an object as marker.
pub(crate) fn has(object: &Object, key: &str) -> bool {
    matches!(object.get(key), Some(Value::Bool(true) | Value::Object(_)))
}

/// A value as its own object, or the value back.
pub(crate) fn into_object(value: Value) -> Result<Object, Value> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(other),
    }
}
