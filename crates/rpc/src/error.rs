//! `RpcError`: the one error shape of the wire, `{code, message, data: {reason, retryable, …}}`.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonrpsee::types::{ErrorObject, ErrorObjectOwned};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::entry::Role;

/// Malformed JSON or UTF-8.
pub const PARSE_ERROR: i32 = -32700;
/// A frame that is no request, or a request that is refused as a whole.
pub const INVALID_REQUEST: i32 = -32600;
/// The method is not in the table.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i32 = -32602;
/// Our fault; `data.incident` is in the log too.
pub const INTERNAL: i32 = -32603;
/// Too much work is waiting; `data.retryAfterMs` says when to try again.
pub const SERVER_OVERLOADED: i32 = -32001;
/// The connection's role does not suffice; `data.needs` names the one that does.
pub const UNAUTHORIZED: i32 = -32020;
/// The method needs a connection on which the server can send too.
pub const NEEDS_BIDIRECTIONAL_TRANSPORT: i32 = -32025;
/// The server is leaving.
pub const SHUTTING_DOWN: i32 = -32026;
/// The client cancelled the request (`$/cancelRequest`).
pub const REQUEST_CANCELLED: i32 = -32800;

/// How long a client should wait after `server_overloaded`, in milliseconds.
pub const RETRY_AFTER_MS: u64 = 200;

/// Longest piece of client text that is echoed in an error, in bytes.
const ECHO_BYTES: usize = 200;

/// An error as clients see it.
///
/// `reason` is a stable snake_case word that clients may match; `message` is for people; `retryable` says whether
/// the very same request may succeed later. Everything else goes into `data` under its own camelCase name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({reason}, {code})")]
pub struct RpcError {
    /// JSON-RPC error code.
    pub code: i32,
    /// One sentence for people.
    pub message: Cow<'static, str>,
    /// Stable snake_case word for programs.
    pub reason: &'static str,
    /// Whether the same request may succeed later without being changed.
    pub retryable: bool,
    /// Further members of `data`, beside `reason` and `retryable`.
    pub data: Map<String, Value>,
}

impl RpcError {
    /// An error that is not retryable and has no further data.
    pub fn new(code: i32, reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), reason, retryable: false, data: Map::new() }
    }

    /// Marks the error as one that may go away by itself.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds a member to `data`.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.data.insert(member.to_owned(), value.into());
        self
    }

    /// -32700: the frame is not JSON, or not UTF-8.
    pub fn parse_error(detail: impl Display) -> Self {
        Self::new(PARSE_ERROR, "parse_error", format!("Parse error: {}", shortened(&detail.to_string())))
    }

    /// -32600: the frame is JSON but no request, notification or response.
    pub fn invalid_request(detail: impl Display) -> Self {
        Self::new(
            INVALID_REQUEST,
            "invalid_request",
            format!("Invalid request: {}", shortened(&detail.to_string())),
        )
    }

    /// -32600: the frame was longer than the limit and has been skipped.
    pub fn frame_too_large(limit_bytes: usize) -> Self {
        Self::new(
            INVALID_REQUEST,
            "frame_too_large",
            format!("Invalid request: the frame is larger than {limit_bytes} bytes"),
        )
        .with("limitBytes", limit_bytes)
    }

    /// -32600: a call before `initialize`.
    pub fn not_initialized() -> Self {
        Self::new(INVALID_REQUEST, "not_initialized", "Not initialized")
    }

    /// -32600: a second `initialize`.
    pub fn already_initialized() -> Self {
        Self::new(INVALID_REQUEST, "already_initialized", "Already initialized")
    }

    /// -32601: no such method; `data.method` names it.
    pub fn method_not_found(method: &str) -> Self {
        let method = shortened(method);
        Self::new(METHOD_NOT_FOUND, "method_not_found", format!("Method not found: {method}"))
            .with("method", method.into_owned())
    }

    /// -32602: the parameters do not fit. `path` is where in the parameters, empty for the whole.
    pub fn invalid_params(detail: impl Display, path: &str, expected: Option<&str>) -> Self {
        let detail = detail.to_string();
        let detail = shortened(&detail);
        let message = match path {
            "" => format!("Invalid params: {detail}"),
            path => format!("Invalid params: {detail} (at {})", shortened(path)),
        };
        let error = Self::new(INVALID_PARAMS, "invalid_params", message).with("path", &*shortened(path));
        match expected {
            Some(expected) => error.with("expected", &*shortened(expected)),
            None => error,
        }
    }

    /// -32602: the result would be larger than a frame may be.
    pub fn result_too_large(limit_bytes: usize) -> Self {
        Self::new(
            INVALID_PARAMS,
            "result_too_large",
            format!("The result is larger than {limit_bytes} bytes; ask for less"),
        )
        .with("limitBytes", limit_bytes)
    }

    /// -32603: our fault. The cause is logged here, once, under the incident that the client is told; the client
    /// does not see the cause itself.
    pub fn internal(cause: impl Display) -> Self {
        let incident = next_incident();
        tracing::error!(incident, %cause, "a request failed internally");
        Self::internal_with(&incident)
    }

    /// -32603 for a cause that the caller has logged under `incident`.
    pub(crate) fn internal_with(incident: &str) -> Self {
        Self::new(INTERNAL, "internal", format!("Internal error (incident {incident})"))
            .with("incident", incident)
    }

    /// -32001: too much is waiting on this connection or behind it.
    pub fn server_overloaded() -> Self {
        Self::new(SERVER_OVERLOADED, "server_overloaded", "Server overloaded; retry later.")
            .retryable()
            .with("retryAfterMs", RETRY_AFTER_MS)
    }

    /// -32020: the connection's role does not suffice.
    pub fn unauthorized(needs: Role) -> Self {
        Self::new(UNAUTHORIZED, "unauthorized", format!("This needs the role {}", needs.name()))
            .with("needs", needs.name())
    }

    /// -32025: the method needs a connection on which the server can send too (not HTTP POST).
    pub fn needs_bidirectional_transport() -> Self {
        Self::new(
            NEEDS_BIDIRECTIONAL_TRANSPORT,
            "needs_bidirectional_transport",
            "This method needs a bidirectional transport (stdio, unix socket or WebSocket)",
        )
    }

    /// -32026: the server is leaving; another one will answer.
    pub fn shutting_down() -> Self {
        Self::new(SHUTTING_DOWN, "shutting_down", "The server is shutting down").retryable()
    }

    /// -32800: the client withdrew the request.
    pub fn request_cancelled() -> Self {
        Self::new(REQUEST_CANCELLED, "request_cancelled", "The request was cancelled")
    }

    /// The complete answer to a request: `raw_id` is the client's id as it wrote it, or `null`.
    pub(crate) fn response(&self, raw_id: &str) -> Vec<u8> {
        // A struct of strings, numbers and JSON values always serializes.
        let error = serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned());
        format!(r#"{{"jsonrpc":"2.0","id":{raw_id},"error":{error}}}"#).into_bytes()
    }
}

impl Serialize for RpcError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut error = serializer.serialize_map(Some(3))?;
        error.serialize_entry("code", &self.code)?;
        error.serialize_entry("message", &self.message)?;
        error.serialize_entry("data", &Data(self))?;
        error.end()
    }
}

/// The `data` member: reason and retryable first, then what the error adds.
struct Data<'a>(&'a RpcError);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut data = serializer.serialize_map(Some(2 + self.0.data.len()))?;
        data.serialize_entry("reason", self.0.reason)?;
        data.serialize_entry("retryable", &self.0.retryable)?;
        for (member, value) in &self.0.data {
            data.serialize_entry(member, value)?;
        }
        data.end()
    }
}

impl From<&RpcError> for ErrorObjectOwned {
    fn from(error: &RpcError) -> Self {
        ErrorObject::owned(error.code, error.message.clone().into_owned(), Some(Data(error)))
    }
}

/// A name for one failure that is both in the log and in the answer; never repeats, also over restarts.
pub(crate) fn next_incident() -> String {
    static START_MS: OnceLock<u128> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let start =
        START_MS.get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
    format!("{start:x}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Client text cut to a length that is safe to echo.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= ECHO_BYTES {
        return Cow::Borrowed(text);
    }
    let end = (0..=ECHO_BYTES).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    Cow::Owned(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_always_starts_with_reason_and_retryable() {
        let error = RpcError::server_overloaded();
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"code":-32001,"message":"Server overloaded; retry later.","data":{"reason":"server_overloaded","retryable":true,"retryAfterMs":200}}"#
        );
    }

    #[test]
    fn frozen_messages_are_exact() {
        assert_eq!(RpcError::not_initialized().message, "Not initialized");
        assert_eq!(RpcError::already_initialized().message, "Already initialized");
    }

    #[test]
    fn long_client_text_is_not_echoed_whole() {
        let error = RpcError::method_not_found(&"é".repeat(5_000));
        assert!(error.message.len() < 300);
        assert!(error.data["method"].as_str().unwrap().ends_with('…'));
    }

    #[test]
    fn incidents_never_repeat() {
        assert_ne!(next_incident(), next_incident());
    }
}
