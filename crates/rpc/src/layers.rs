//! The layers around the method table that know nothing of it: batches, reasons, spans, panics.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use jsonrpsee::core::middleware::{Batch, BatchEntry, Notification, Request, RpcServiceT};
use jsonrpsee::server::{BatchResponseBuilder, Extensions, MethodResponse};
use jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;
use jsonrpsee::types::{ErrorObjectOwned, Id};
use serde::Deserialize;
use serde_json::Value;
use tracing::Instrument;

use crate::context::CallInfo;
use crate::error::{self, RpcError, next_incident};

/// What all layers have in common: they can be shared and speak jsonrpsee's response type.
pub(crate) trait Layer:
    RpcServiceT<
        MethodResponse = MethodResponse,
        NotificationResponse = MethodResponse,
        BatchResponse = MethodResponse,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Layer for S where
    S: RpcServiceT<
            MethodResponse = MethodResponse,
            NotificationResponse = MethodResponse,
            BatchResponse = MethodResponse,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

pub(crate) fn info_of(extensions: &Extensions) -> Option<&Arc<CallInfo>> {
    extensions.get::<Arc<CallInfo>>()
}

pub(crate) fn refuse(id: Id<'_>, error: &RpcError) -> MethodResponse {
    MethodResponse::error(id, ErrorObjectOwned::from(error))
}

/// Runs the entries of a batch one after the other, each through all layers below, and joins their answers.
///
/// Connections take batches apart themselves, because each entry has a lane; this serves transports that only have
/// one answer to give, such as HTTP POST.
#[derive(Clone)]
pub(crate) struct BatchSplit<S>(pub(crate) S);

impl<S: Layer> RpcServiceT for BatchSplit<S> {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.0.call(request)
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let inner = self.0.clone();
        async move {
            // Each answer is bounded by the table; the array is bounded by whoever puts the client's ids in.
            let mut answers = BatchResponseBuilder::new_with_limit(usize::MAX);
            for entry in batch {
                let answer = match entry {
                    Ok(BatchEntry::Call(request)) => inner.call(request).await,
                    Ok(BatchEntry::Notification(notification)) => {
                        inner.notification(notification).await;
                        continue;
                    }
                    Err(invalid) => {
                        let (error, id) = invalid.into_parts();
                        MethodResponse::error(id, error)
                    }
                };
                if let Err(too_large) = answers.append(answer) {
                    return too_large;
                }
            }
            if answers.is_empty() {
                return MethodResponse::notification();
            }
            MethodResponse::from_batch(answers.finish())
        }
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.0.notification(n)
    }
}

/// Makes sure that an error has `data.reason` and `data.retryable`, whatever jsonrpsee produced.
#[derive(Clone)]
pub(crate) struct Reasons<S> {
    pub(crate) inner: S,
    pub(crate) limit_bytes: usize,
}

impl<S: Layer> RpcServiceT for Reasons<S> {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let (inner, limit) = (self.inner.clone(), self.limit_bytes);
        async move {
            let id = request.id.clone();
            let response = inner.call(request).await;
            if !response.is_error() {
                return response;
            }
            match with_reason(response.as_ref(), limit) {
                Some(error) => refuse(id, &error).with_extensions(response.into_parts().2),
                None => response,
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.batch(batch)
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.notification(n)
    }
}

/// The error that should be answered in place of `json`, or `None` if that has a reason already.
fn with_reason(json: &str, limit_bytes: usize) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Answer {
        error: Foreign,
    }
    #[derive(Deserialize)]
    struct Foreign {
        code: i32,
        message: String,
        #[serde(default)]
        data: Value,
    }
    let Ok(Answer { error: Foreign { code, message, data } }) = serde_json::from_str(json) else {
        return Some(RpcError::internal("an error answer that cannot be read"));
    };
    if data.get("reason").is_some_and(Value::is_string) {
        return None;
    }
    Some(match code {
        OVERSIZED_RESPONSE_CODE => RpcError::result_too_large(limit_bytes),
        error::PARSE_ERROR => RpcError::parse_error(message),
        error::INVALID_REQUEST => RpcError::invalid_request(message),
        error::METHOD_NOT_FOUND => RpcError::new(code, "method_not_found", message),
        error::INVALID_PARAMS => RpcError::invalid_params(data.as_str().unwrap_or(&message), "", None),
        _ => RpcError::internal(format!("{message} ({code})")),
    })
}

/// Opens a span for each call, so that whatever is logged below names the request.
#[derive(Clone)]
pub(crate) struct Trace<S>(pub(crate) S);

impl<S: Layer> RpcServiceT for Trace<S> {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let span = span(&request.method, &request.extensions);
        let inner = self.0.clone();
        async move { inner.call(request).await }.instrument(span)
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.0.batch(batch)
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let span = span(&n.method, &n.extensions);
        let inner = self.0.clone();
        async move { inner.notification(n).await }.instrument(span)
    }
}

fn span(method: &str, extensions: &Extensions) -> tracing::Span {
    let span = tracing::info_span!(
        "request",
        method,
        id = tracing::field::Empty,
        connection = tracing::field::Empty,
        traceparent = tracing::field::Empty,
    );
    if !span.is_disabled()
        && let Some(info) = info_of(extensions)
    {
        span.record("connection", info.origin.connection.0);
        if let Some(id) = &info.raw_id {
            span.record("id", &**id);
        }
        if let Some(trace) = &info.trace {
            span.record("traceparent", &*trace.traceparent);
        }
    }
    span
}

/// A panic in a handler is that request's `internal` error, with the incident in the log.
#[derive(Clone)]
pub(crate) struct CatchPanic<S>(pub(crate) S);

impl<S: Layer> RpcServiceT for CatchPanic<S> {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let inner = self.0.clone();
        async move {
            let (id, method) = (request.id.clone(), request.method.clone());
            // Sync handlers run when the inner future is made, so making it must happen inside.
            let run = async move { inner.call(request).await };
            match AssertUnwindSafe(run).catch_unwind().await {
                Ok(response) => response,
                Err(panic) => refuse(id, &panicked(&method, &*panic)),
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.0.batch(batch)
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let inner = self.0.clone();
        async move {
            let method = n.method.clone();
            let run = async move { inner.notification(n).await };
            AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| {
                let _logged = panicked(&method, &*panic);
                MethodResponse::notification()
            })
        }
    }
}

fn panicked(method: &str, panic: &(dyn Any + Send)) -> RpcError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let incident = next_incident();
    tracing::error!(incident, method, panic = text, "a handler panicked");
    RpcError::internal_with(&incident)
}
