//! Reading an `Op` from a client's text, with errors that say what is wrong with it.

use serde_json::Value;
use thiserror::Error;

use super::op::Op;

/// Why a text is not an op.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Not JSON; the message says where it broke.
    #[error("not JSON: {0}")]
    Json(String),
    /// JSON, but not an object, or an object whose `op` is not a string.
    #[error("not an op: an object with a string `op` is expected")]
    NotAnOp,
    /// An `op` this server does not know.
    #[error("unknown op `{op}`")]
    Unknown { op: String },
    /// A known op whose fields do not fit.
    #[error("op `{op}`: {message}")]
    Fields { op: String, message: String },
}

/// Reads one op. Stricter than the plain `Deserialize` in one point: only an object is an op, never an array.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_op(text: &str) -> Result<Op, DecodeError> {
    let value: Value = serde_json::from_str(text).map_err(|error| DecodeError::Json(error.to_string()))?;
    let Some(op) = value.get("op").and_then(Value::as_str) else {
        return Err(DecodeError::NotAnOp);
    };
    let op = op.to_owned();
    from_value(op, value)
}

/// Reads an op from an object with this tag.
pub(super) fn from_value(op: String, value: Value) -> Result<Op, DecodeError> {
    serde_json::from_value(value).map_err(|error| match fields(&op, &error) {
        Some(message) => DecodeError::Fields { op, message },
        None => DecodeError::Unknown { op },
    })
}

/// What is wrong with the fields of a tagged union; none if the tag itself is not known.
pub(super) fn fields(tag: &str, error: &serde_json::Error) -> Option<String> {
    let message = error.to_string();
    let unknown = message.starts_with("unknown variant") && message.contains(&format!("`{tag}`"));
    (!unknown).then_some(message)
}
