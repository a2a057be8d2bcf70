//! The service: jsonrpsee's `RpcServiceT`, layer around layer, from batch splitting down to the method table.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use jsonrpsee::core::middleware::{Batch, BatchEntry, Notification, Request, RpcServiceBuilder, RpcServiceT};
use jsonrpsee::server::{
    BatchResponseBuilder, ConnectionId as JsonrpseeConnectionId, Extensions, MethodCallback, MethodResponse,
    Methods,
};
use jsonrpsee::types::error::{ErrorCode, OVERSIZED_RESPONSE_CODE};
use jsonrpsee::types::{ErrorObject, ErrorObjectOwned, Id, Params};
use serde::Deserialize;
use serde_json::Value;
use tracing::Instrument;

use crate::context::CallInfo;
use crate::error::{self, RpcError, next_incident};
use crate::registry::{Entry, Lane};

/// Largest result, in bytes, unless [`Service::with_max_result`] says otherwise.
pub const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;

/// The closed table with its layers; cheap to clone, shared by all connections and transports.
///
/// The layers, outermost first: a batch is split, so that all others see single calls; whatever an error came from,
/// it gets its `data.reason`; a span is opened; a panic becomes `internal`; handshake and role are checked; the
/// method runs.
#[derive(Clone)]
pub struct Service {
    stack: Stack,
    table: Arc<Table>,
}

type Stack = BatchSplit<Reasons<Trace<CatchPanic<Admit<Root>>>>>;

#[derive(Debug)]
struct Table {
    methods: Methods,
    notifications: Methods,
    by_name: HashMap<&'static str, Entry>,
    told: HashMap<&'static str, Entry>,
    entries: Vec<Entry>,
    max_result_bytes: usize,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("entries", &self.table.entries.len()).finish_non_exhaustive()
    }
}

impl Service {
    pub(crate) fn new(
        methods: Methods,
        notifications: Methods,
        by_name: HashMap<&'static str, Entry>,
        told: HashMap<&'static str, Entry>,
        entries: Vec<Entry>,
    ) -> Self {
        let max_result_bytes = MAX_RESULT_BYTES;
        Self::around(Table { methods, notifications, by_name, told, entries, max_result_bytes })
    }

    fn around(table: Table) -> Self {
        let table = Arc::new(table);
        let root = Root(table.clone());
        let (admitted, limit_bytes) = (table.clone(), table.max_result_bytes);
        let stack = RpcServiceBuilder::new()
            .layer_fn(BatchSplit)
            .layer_fn(move |inner| Reasons { inner, limit_bytes })
            .layer_fn(Trace)
            .layer_fn(CatchPanic)
            .layer_fn(move |inner| Admit { inner, table: admitted.clone() })
            .service(root);
        Self { stack, table }
    }

    /// The same table with another bound for one result, in bytes; a larger one becomes `result_too_large`.
    #[must_use]
    pub fn with_max_result(&self, max_result_bytes: usize) -> Self {
        let Table { methods, notifications, by_name, told, entries, .. } = &*self.table;
        Self::around(Table {
            methods: methods.clone(),
            notifications: notifications.clone(),
            by_name: by_name.clone(),
            told: told.clone(),
            entries: entries.clone(),
            max_result_bytes,
        })
    }

    /// All entries of the table, in the order in which they were added.
    pub fn describe(&self) -> &[Entry] {
        &self.table.entries
    }

    /// Where a method runs. Unknown ones are refused in the reader.
    pub(crate) fn lane(&self, method: &str) -> Lane {
        self.table.by_name.get(method).map_or(Lane::Inline, |entry| entry.lane)
    }

    /// Whether there is a handler for a notification of clients.
    pub(crate) fn listens_to(&self, method: &str) -> bool {
        self.table.notifications.method(method).is_some()
    }

    pub(crate) fn max_result_bytes(&self) -> usize {
        self.table.max_result_bytes
    }
}

impl RpcServiceT for Service {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.stack.call(request)
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.stack.batch(batch)
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.stack.notification(n)
    }
}

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

fn info_of(extensions: &Extensions) -> Option<&Arc<CallInfo>> {
    extensions.get::<Arc<CallInfo>>()
}

fn refuse(id: Id<'_>, error: &RpcError) -> MethodResponse {
    MethodResponse::error(id, ErrorObjectOwned::from(error))
}

/// Runs the entries of a batch one after the other, each through all layers below, and joins their answers.
///
/// Connections take batches apart themselves, because each entry has a lane; this serves transports that only have
/// one answer to give, such as HTTP POST.
#[derive(Clone)]
struct BatchSplit<S>(S);

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
struct Reasons<S> {
    inner: S,
    limit_bytes: usize,
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

/// A panic in a handler is that request's `internal` error, with the incident in the log.
#[derive(Clone)]
struct CatchPanic<S>(S);

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

/// Opens a span for each call, so that whatever is logged below names the request.
#[derive(Clone)]
struct Trace<S>(S);

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

/// Lets a call through if its connection has said hello and its role suffices.
#[derive(Clone)]
struct Admit<S> {
    inner: S,
    table: Arc<Table>,
}

impl<S> Admit<S> {
    fn refusal(&self, entry: Option<&Entry>, extensions: &Extensions) -> Option<RpcError> {
        let Some(info) = info_of(extensions) else {
            return Some(RpcError::internal("a call without its origin"));
        };
        if !info.origin.gate.is_open() && !entry.is_some_and(|entry| entry.before_initialize) {
            return Some(RpcError::not_initialized());
        }
        let needs = entry.map(|entry| entry.role).filter(|needs| info.origin.role < *needs);
        needs.map(RpcError::unauthorized)
    }
}

impl<S: Layer> RpcServiceT for Admit<S> {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let entry = self.table.by_name.get(&*request.method);
        let refusal = self.refusal(entry, &request.extensions);
        let inner = self.inner.clone();
        async move {
            match refusal {
                Some(error) => refuse(request.id, &error),
                None => inner.call(request).await,
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.batch(batch)
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let refusal = self.refusal(self.table.told.get(&*n.method), &n.extensions);
        let inner = self.inner.clone();
        async move {
            match refusal {
                Some(error) => {
                    tracing::debug!(method = %n.method, %error, "a client's notification was ignored");
                    MethodResponse::notification()
                }
                None => inner.notification(n).await,
            }
        }
    }
}

/// The method table itself.
#[derive(Clone)]
struct Root(Arc<Table>);

impl RpcServiceT for Root {
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let table = self.0.clone();
        async move {
            let Request { id, method, params, extensions, .. } = request;
            let params = Params::new(params.as_ref().map(|params| params.get()));
            let limit = table.max_result_bytes;
            match table.methods.method(&method) {
                Some(MethodCallback::Sync(run)) => run(id, params, limit, extensions),
                Some(MethodCallback::Async(run)) => {
                    run(id.into_owned(), params.into_owned(), NO_CONNECTION, limit, extensions).await
                }
                // The registry makes no subscriptions.
                Some(MethodCallback::Subscription(_) | MethodCallback::Unsubscription(_)) | None => {
                    refuse(id, &RpcError::method_not_found(&method))
                }
            }
        }
    }

    fn batch<'a>(&self, _batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        // Batches are split above; a whole one cannot get here.
        let error = ErrorObject::from(ErrorCode::InternalError);
        std::future::ready(MethodResponse::error(Id::Null, error))
    }

    fn notification<'a>(&self, n: Notification<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let table = self.0.clone();
        async move {
            let Notification { method, params, extensions, .. } = n;
            let params = Params::new(params.as_ref().map(|params| params.get())).into_owned();
            match table.notifications.method(&method) {
                Some(MethodCallback::Async(run)) => run(Id::Null, params, NO_CONNECTION, 0, extensions).await,
                _ => MethodResponse::notification(),
            }
        }
    }
}

/// jsonrpsee's own connection number; ours travels in the call's extensions.
const NO_CONNECTION: JsonrpseeConnectionId = JsonrpseeConnectionId(0);
