//! Answers: JSON, and refusals that always carry a `reason`.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::value::RawValue;
use signalbox_rpc::{INVALID_REQUEST, RpcError, UNAUTHORIZED};

/// What is sent behind the head.
pub(super) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;
/// A whole answer.
pub(super) type Answer = Response<Body>;

/// Why a request is not served.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    error: Box<Told>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug)]
enum Told {
    Error(RpcError),
    /// One that somebody else has written.
    Written(Box<RawValue>),
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: RpcError) -> Self {
        let headers = match status {
            StatusCode::SERVICE_UNAVAILABLE => vec![(RETRY_AFTER, HeaderValue::from_static("1"))],
            _ => Vec::new(),
        };
        Self { status, error: Box::new(Told::Error(error)), headers }
    }

    /// With an error object as it came from a method.
    pub(super) fn written(status: StatusCode, error: Box<RawValue>) -> Self {
        Self { status, error: Box::new(Told::Written(error)), headers: Vec::new() }
    }

    /// A request that is wrong in itself.
    pub(super) fn bad(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, RpcError::new(INVALID_REQUEST, reason, message.into()))
    }

    /// Whoever asks may not.
    pub(super) fn forbidden(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, RpcError::new(UNAUTHORIZED, reason, message.into()))
    }

    pub(super) fn method_not_allowed(allow: &'static str, hint: &str) -> Self {
        let message = format!("This takes {allow}{hint}");
        let mut refusal = Self::bad(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        refusal.headers.push((ALLOW, HeaderValue::from_static(allow)));
        refusal
    }

    /// Says more in the head.
    pub(super) fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.push((name, value));
    }

    pub(super) fn leaving() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::shutting_down())
    }

    pub(super) fn overloaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, RpcError::server_overloaded())
    }

    /// The body: a JSON-RPC error without an id.
    fn text(&self) -> String {
        let error = match &*self.error {
            Told::Written(error) => error.get().to_owned(),
            // An error of strings, numbers and JSON values always serializes.
            Told::Error(error) => serde_json::to_string(error).unwrap_or_else(|_| "null".to_owned()),
        };
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let mut answer = json(refusal.status, refusal.text());
        answer.headers_mut().extend(refusal.headers);
        answer
    }
}

/// A JSON document.
pub(super) fn json(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "application/json", text)
}

/// A body of some type.
pub(super) fn typed(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new().boxed_unsync());
    *answer.status_mut() = status;
    answer
}
