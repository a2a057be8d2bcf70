//! What the server says unasked: notifications, and requests that wait for an answer.

use bytes::Bytes;
use serde_json::Value;
use signalbox_protocol::app::{Place, RequestId, ServerNotification, ServerRequest};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::incoming::Message;

/// Something the server says unasked.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A notification.
    Notification(Box<Notification>),
    /// A request. It waits until it is answered with [`crate::Client::respond`] or [`crate::Client::refuse`], here or
    /// by another client, or is resolved otherwise.
    Request(Box<Request>),
    /// Something this client does not know, or in a form it does not know. Requests among these have been refused.
    Unreadable(Unreadable),
}

/// A notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// What it says.
    pub body: ServerNotification,
    /// Where it stands in its thread, if it is about one.
    pub place: Option<Place>,
    /// When it was sent, Unix milliseconds.
    pub emitted_at_ms: Option<i64>,
    /// The frame as it came.
    pub frame: Bytes,
}

/// A request of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What to answer under.
    pub id: RequestId,
    /// What is asked.
    pub body: ServerRequest,
    /// The frame as it came.
    pub frame: Bytes,
}

/// An event without a meaning to this client.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Its method.
    pub method: String,
    /// The frame as it came.
    pub frame: Bytes,
    /// What does not fit; absent if the method is not known.
    pub problem: Option<String>,
}

/// An event that waits to be read, with the room it takes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) frame: Bytes,
    /// Of a request.
    pub(crate) id: Option<RequestId>,
    pub(crate) _room: OwnedSemaphorePermit,
}

/// The events of one connection, in the order in which they came.
#[derive(Debug)]
pub struct Events {
    waiting: mpsc::Receiver<Waiting>,
    refuse: mpsc::Sender<RequestId>,
}

impl Events {
    pub(crate) fn new(waiting: mpsc::Receiver<Waiting>, refuse: mpsc::Sender<RequestId>) -> Self {
        Self { waiting, refuse }
    }

    /// The next event; `None` when the connection has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        let waiting = self.waiting.recv().await?;
        let id = waiting.id.clone();
        let event = read(waiting);
        if let (Event::Unreadable(_), Some(id)) = (&event, id)
            && self.refuse.try_send(id).is_err()
        {
            tracing::debug!("a request that cannot be read was not refused either: too many of them");
        }
        Some(event)
    }
}

fn read(waiting: Waiting) -> Event {
    let Waiting { frame, id, .. } = waiting;
    let unreadable = |method: &str, problem: Option<String>| {
        Event::Unreadable(Unreadable { method: method.to_owned(), frame: frame.clone(), problem })
    };
    let message: Message<'_> = match serde_json::from_slice(&frame) {
        Ok(message) => message,
        Err(error) => return unreadable("", Some(error.to_string())),
    };
    let method = message.method.as_deref().unwrap_or_default();
    let params: Value = match message.params.map(|params| serde_json::from_str(params.get())).transpose() {
        Ok(params) => params.unwrap_or_default(),
        Err(error) => return unreadable(method, Some(error.to_string())),
    };
    match id {
        None => {
            let place = place(&params);
            match ServerNotification::decode(method, params) {
                Some(Ok(body)) => Event::Notification(Box::new(Notification {
                    body,
                    place,
                    emitted_at_ms: message.emitted_at_ms,
                    frame: frame.clone(),
                })),
                Some(Err(error)) => unreadable(method, Some(error.to_string())),
                None => unreadable(method, None),
            }
        }
        Some(id) => match ServerRequest::decode(method, params) {
            Some(Ok(body)) => Event::Request(Box::new(Request { id, body, frame: frame.clone() })),
            Some(Err(error)) => unreadable(method, Some(error.to_string())),
            None => unreadable(method, None),
        },
    }
}

fn place(params: &Value) -> Option<Place> {
    let seq = params.get("seq")?.as_u64()?;
    let cursor = params.get("cursor")?.as_str()?.to_owned();
    Some(Place { seq, cursor })
}
