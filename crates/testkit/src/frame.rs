//! One frame as it came, and what kind it is.

use serde_json::Value;

/// What a client received.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The answer to a request of the client, good or bad.
    Response(Value),
    /// Something the server tells.
    Notification(Value),
    /// Something the server asks.
    Request(Value),
    /// The answer to a batch.
    Batch(Vec<Value>),
}

impl Frame {
    /// Reads a line.
    ///
    /// # Panics
    /// If it is no JSON-RPC frame: the server never writes anything else.
    #[must_use]
    pub fn read(line: &[u8]) -> Self {
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => panic!("the server wrote no JSON ({error}): {}", String::from_utf8_lossy(line)),
        };
        match value {
            Value::Array(answers) => Self::Batch(answers),
            frame if frame.get("method").is_some() && frame.get("id").is_some() => Self::Request(frame),
            frame if frame.get("method").is_some() => Self::Notification(frame),
            frame if frame.get("id").is_some() => Self::Response(frame),
            frame => panic!("neither request, response nor notification: {frame}"),
        }
    }

    /// The frame as JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Self::Response(frame) | Self::Notification(frame) | Self::Request(frame) => frame.clone(),
            Self::Batch(answers) => Value::Array(answers.clone()),
        }
    }

    /// The method of a notification or request.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Notification(frame) | Self::Request(frame) => frame["method"].as_str(),
            Self::Response(_) | Self::Batch(_) => None,
        }
    }

    /// The notification's params, if it is one of this method.
    #[must_use]
    pub fn notification(&self, method: &str) -> Option<&Value> {
        match self {
            Self::Notification(frame) if frame["method"] == method => Some(&frame["params"]),
            _ => None,
        }
    }
}
