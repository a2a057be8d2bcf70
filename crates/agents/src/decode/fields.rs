//! Reading single fields out of JSON objects without ever failing.

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// An id is sent back as it came, so a longer one is none.
pub(crate) const ID_BYTES: usize = 4 << 10;
/// Names, labels, titles and words.
pub(crate) const NAME_BYTES: usize = 1 << 10;
/// What is said about something that has a name.
pub(crate) const ABOUT_BYTES: usize = 4 << 10;
/// Messages and questions.
pub(crate) const MESSAGE_BYTES: usize = 16 << 10;
/// Ends a text that was cut.
pub(crate) const ELLIPSIS: char = '\u{2026}';

/// The text, or its beginning with an ellipsis.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len_utf8())));
        text.push(ELLIPSIS);
        text.shrink_to_fit();
    }
    text
}

/// As many from the beginning as hold that many bytes together.
pub(crate) fn within<T>(list: Vec<T>, bytes: usize, weight: impl Fn(&T) -> usize) -> Vec<T> {
    let mut left = Some(bytes);
    let fits = |one: &T| {
        left = left.and_then(|left| left.checked_sub(weight(one)));
        left.is_some()
    };
    list.into_iter().take_while(fits).collect()
}

/// An id; `None` if it is empty or longer than [`ID_BYTES`].
pub(crate) fn take_id(object: &mut Object, key: &str) -> Option<String> {
    let id = take_filled(object, key)?;
    if id.len() > ID_BYTES {
        tracing::debug!(key, bytes = id.len(), "an immense id is none");
        return None;
    }
    Some(id)
}

/// A name that says something, cut at [`NAME_BYTES`].
pub(crate) fn take_name(object: &mut Object, key: &str) -> Option<String> {
    take_filled(object, key).map(|text| cut(text, NAME_BYTES))
}

/// A description, cut at [`ABOUT_BYTES`].
pub(crate) fn take_about(object: &mut Object, key: &str) -> Option<String> {
    take_filled(object, key).map(|text| cut(text, ABOUT_BYTES))
}

/// A message, cut at [`MESSAGE_BYTES`].
pub(crate) fn take_message(object: &mut Object, key: &str) -> Option<String> {
    take_filled(object, key).map(|text| cut(text, MESSAGE_BYTES))
}

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
