//! The JSON-RPC side of the agent: frames to the client, and the requests that wait for its answers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::outbox::{Gone, Outbox};

pub(crate) const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
pub(crate) const INTERNAL: i32 = -32603;
pub(crate) const AUTH_REQUIRED: i32 = -32000;
pub(crate) const NOT_FOUND: i32 = -32002;

/// An error as it goes to the client.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }
}

/// What a request to the client came to: its result, or its error object.
pub(crate) type Answer = Result<Value, Value>;

/// The client, as the agent talks to it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) outbox: Outbox,
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>,
    last_id: Arc<AtomicU64>,
}

impl Peer {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, waiting: Arc::default(), last_id: Arc::default() }
    }

    /// Sends a `session/update`.
    pub(crate) async fn update(&self, session: &str, update: &Value) -> Result<(), Gone> {
        self.outbox.send(update_frame(session, update)).await
    }

    /// Sends a request and waits for its answer, as long as it takes. Dropping the future forgets the request;
    /// a later answer is then ignored.
    pub(crate) async fn request(&self, method: &str, params: &Value) -> Result<Answer, Gone> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(id, sender);
        let _forget = Forget { peer: self, id };
        self.outbox
            .send(frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})))
            .await?;
        answer.await.map_err(|_| Gone)
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: &Value) -> Result<(), Gone> {
        self.outbox.send(frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}))).await
    }

    /// Sends a request whose answer nobody will wait for.
    pub(crate) async fn tell(&self, method: &str, params: &Value) -> Result<(), Gone> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.outbox.send(frame(&request)).await
    }

    /// Hands the client's answer to the request that waits for it. Unknown ids are nobody's.
    pub(crate) fn resolve(&self, id: &Value, answer: Answer) {
        let waiting = id.as_u64().and_then(|id| self.waiting.lock().remove(&id));
        match waiting {
            // The one who asked may have been cancelled in this moment.
            Some(sender) => drop(sender.send(answer)),
            None => tracing::debug!(%id, "an answer that nobody waits for"),
        }
    }

    /// Answers a request of the client.
    pub(crate) async fn answer(&self, id: &Value, answer: Result<Value, RpcError>) -> Result<(), Gone> {
        self.outbox.answer(answer_frame(id, answer)).await
    }
}

struct Forget<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.peer.waiting.lock().remove(&self.id);
    }
}

/// The frame of a `session/update`.
pub(crate) fn update_frame(session: &str, update: &Value) -> Vec<u8> {
    frame(&json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    }))
}

/// The frame that answers a request.
pub(crate) fn answer_frame(id: &Value, answer: Result<Value, RpcError>) -> Vec<u8> {
    match answer {
        Ok(result) => frame(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(error) => frame(&json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": error.code, "message": error.message},
        })),
    }
}

fn frame(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}
