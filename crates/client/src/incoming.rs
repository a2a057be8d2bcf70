//! Tells frames of the server apart, without reading what they hold.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use signalbox_protocol::app::{ErrorObject, RequestId};

use crate::error::Failure;

/// A frame of the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// An answer to a call.
    Answer { id: i64, answer: Result<Bytes, Failure> },
    /// A notification.
    Notification,
    /// A request.
    Request { id: RequestId, method: String },
    /// An error that belongs to no call of ours, or nothing that we know.
    Stray(String),
}

/// Members of any message. What is not looked at stays text.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
    #[serde(default, rename = "emittedAtMs")]
    pub(crate) emitted_at_ms: Option<i64>,
}

/// Tells what a frame is.
pub(crate) fn tell(frame: &Bytes) -> Incoming {
    let message: Message<'_> = match serde_json::from_slice(frame) {
        Ok(message) => message,
        Err(error) => return Incoming::Stray(format!("a frame that cannot be read: {error}")),
    };
    let id = message.id.filter(|id| id.get() != "null");
    match (message.method, id) {
        (Some(_), None) => Incoming::Notification,
        (Some(method), Some(id)) => match serde_json::from_str(id.get()) {
            Ok(id) => Incoming::Request { id, method: method.into_owned() },
            Err(error) => Incoming::Stray(format!("a request with an id that cannot be read: {error}")),
        },
        (None, Some(id)) => {
            let Ok(id) = id.get().parse() else {
                return Incoming::Stray("an answer with an id that is not ours".to_owned());
            };
            let answer = match (message.error, message.result) {
                (Some(error), _) => Err(error.into()),
                (None, Some(result)) => Ok(frame.slice_ref(result.get().as_bytes())),
                (None, None) => Ok(Bytes::from_static(b"null")),
            };
            Incoming::Answer { id, answer }
        }
        (None, None) => Incoming::Stray(match message.error {
            Some(error) => format!("an error without a call: {} ({})", error.message, error.code),
            None => "a frame that is no message".to_owned(),
        }),
    }
}
