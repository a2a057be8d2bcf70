//! Frames that the bridge makes itself: answers that no server gives any more, and what a thread's followers are owed.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use signalbox_protocol::app::method;

use super::flights::Flight;

/// Code of errors of a server that is going or gone.
const SERVER_GONE: i32 = -32026;

/// The answer to requests that a server took with it: one error, or a batch of them.
pub(super) fn unanswered(flight: &Flight) -> Bytes {
    let entries: Vec<Answer<'_>> = flight.requests.iter().filter_map(|asked| answer(&asked.id)).collect();
    match entries.as_slice() {
        [one] if !flight.is_batch => write(one),
        batch => write(&batch),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: Value,
}

fn answer(id: &str) -> Option<Answer<'_>> {
    // It came as JSON.
    let id = serde_json::from_str(id).ok()?;
    let error = json!({
        "code": SERVER_GONE,
        "message": "the server ended before it answered; whether the request was carried out is not known",
        "data": { "reason": "server_restarted", "retryable": true },
    });
    Some(Answer { jsonrpc: "2.0", id, error })
}

/// A request of the bridge's own.
pub(super) fn request(id: &str, method: &str, params: &Value) -> Bytes {
    write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// The client's handshake once more, under this id as it is to be written.
pub(super) fn initialize(id: &str, params: Option<&RawValue>) -> Option<Bytes> {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        method: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a RawValue>,
    }
    let id = serde_json::from_str(id).ok()?;
    Some(write(&Request { jsonrpc: "2.0", id, method: method::INITIALIZE, params }))
}

/// A notification without params.
pub(super) fn initialized() -> Bytes {
    write(&json!({ "jsonrpc": "2.0", "method": method::INITIALIZED }))
}

/// A notification about a thread, at a place in its stream.
pub(super) fn notification(
    method: &str,
    mut params: Map<String, Value>,
    (seq, cursor): (u64, String),
    now_ms: i64,
) -> Bytes {
    params.insert("seq".to_owned(), seq.into());
    params.insert("cursor".to_owned(), cursor.into());
    write(&json!({ "jsonrpc": "2.0", "method": method, "params": params, "emittedAtMs": now_ms }))
}

/// The answer to `initialize`, with the bridge's version in it.
pub(super) fn with_bridge_version(answer: &[u8], version: &str) -> Option<Bytes> {
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let info = answer.pointer_mut("/result/serverInfo")?.as_object_mut()?;
    info.insert("bridgeVersion".to_owned(), version.into());
    Some(write(&answer))
}

fn write(frame: &impl Serialize) -> Bytes {
    match serde_json::to_vec(frame) {
        Ok(bytes) => bytes.into(),
        Err(error) => {
            // Ruled out by the types: all of them are JSON already.
            tracing::error!(%error, "a frame of the bridge could not be written");
            Bytes::new()
        }
    }
}
