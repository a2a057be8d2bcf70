//! A frame on its way to a client. An event is shared by all outboxes it waits in, and framed when it is written.

use std::sync::Arc;

use signalbox_engine::OpEvent;
use signalbox_protocol::ops::{EVENT_FRAME_BYTES, ServerFrame, encode, event_frame};

use super::queue::Weight;

/// What cannot be written is said in these words.
const UNWRITABLE: &str = r#"{"kind":"error","message":"the answer cannot be written"}"#;

/// A frame.
#[derive(Debug, Clone)]
pub enum OutFrame {
    /// An event; its JSON is made once for all who get it.
    Event(Arc<OpEvent>),
    /// Any other frame.
    Text(String),
}

impl OutFrame {
    /// A frame that is for this client alone.
    #[must_use]
    pub fn of(frame: &ServerFrame) -> Self {
        // Ruled out by its types; if it happens all the same, the client gets an answer.
        let text = encode(frame).unwrap_or_else(|error| {
            tracing::error!(%error, "a frame could not be written");
            UNWRITABLE.to_owned()
        });
        Self::Text(text)
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Event(event) => event_frame(event.json()),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Weight for OutFrame {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(event) => event.json().len() + EVENT_FRAME_BYTES,
            Self::Text(text) => text.len(),
        }
    }
}
