//! The service: jsonrpsee's `RpcServiceT`, layer around layer, from batch splitting down to the method table.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use jsonrpsee::core::middleware::{Batch, Notification, Request, RpcServiceBuilder, RpcServiceT};
use jsonrpsee::server::{
    ConnectionId as JsonrpseeConnectionId, Extensions, MethodCallback, MethodResponse, Methods,
};
use jsonrpsee::types::error::ErrorCode;
use jsonrpsee::types::{ErrorObject, Id, Params};

use crate::entry::{Entry, Lane};
use crate::error::RpcError;
use crate::layers::{BatchSplit, CatchPanic, Layer, Reasons, Trace, info_of, refuse};

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
