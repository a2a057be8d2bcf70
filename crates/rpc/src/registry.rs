//! The method table while it is being filled: handlers, and the data of everything a client can meet.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use jsonrpsee::server::{Extensions, MethodCallback, MethodResponse, Methods, ResponsePayload};
use jsonrpsee::types::{ErrorObjectOwned, Id};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::{CallInfo, Ctx};
use crate::decode::decode;
use crate::dispatch::Service;
use crate::entry::{
    CANCEL_REQUEST, CancelParams, Entry, EntryKind, Lane, MessageSpec, MethodSpec, Role, WireType,
};
use crate::error::RpcError;

/// Why a table cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two entries of one kind have the same name.
    #[error("{0} is registered twice")]
    Duplicate(&'static str),
    /// An async handler cannot run in the reader.
    #[error("{0} is an async method on the inline lane; register it with method_sync or choose another lane")]
    AsyncInline(&'static str),
}

type MakeCallback<A> = Box<dyn Fn(&A) -> MethodCallback + Send + Sync>;

/// The table while it is being filled. `A` is the application's state, cloned into each call.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, RpcError};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct EchoParams { text: String }
/// #[derive(Serialize, JsonSchema)]
/// struct EchoResult { text: String }
///
/// let mut registry: Registry<()> = Registry::new();
/// registry.method(
///     MethodSpec::new("echo", Lane::Concurrent, "Says the same again."),
///     |_: Ctx<()>, params: EchoParams| async move { Ok::<_, RpcError>(EchoResult { text: params.text }) },
/// );
/// let service = registry.build(())?;
/// # Ok::<(), signalbox_rpc::RegistryError>(())
/// ```
pub struct Registry<A> {
    entries: Vec<Entry>,
    methods: Vec<(&'static str, MakeCallback<A>)>,
    notifications: Vec<(&'static str, MakeCallback<A>)>,
    problem: Option<RegistryError>,
}

impl<A> std::fmt::Debug for Registry<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl<A: Clone + Send + Sync + 'static> Default for Registry<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Clone + Send + Sync + 'static> Registry<A> {
    /// A table with `$/cancelRequest` only.
    pub fn new() -> Self {
        let mut registry =
            Self { entries: Vec::new(), methods: Vec::new(), notifications: Vec::new(), problem: None };
        let cancel = MessageSpec::new(CANCEL_REQUEST, "Cancels a request that is not answered yet.");
        registry.declare(
            EntryKind::ClientNotification,
            cancel,
            WireType::received::<CancelParams>(),
            None,
            true,
        );
        registry
    }

    /// Adds a method with an async handler, on the ordered or the concurrent lane.
    ///
    /// The handler's future is dropped when the request is cancelled or its connection is gone: work that must be
    /// finished belongs to an actor or task that the handler talks to.
    pub fn method<P, R, E, F, Fut>(&mut self, spec: MethodSpec, handler: F) -> &mut Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        E: Into<RpcError> + 'static,
        F: Fn(Ctx<A>, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
    {
        if spec.lane == Lane::Inline {
            self.problem.get_or_insert(RegistryError::AsyncInline(spec.name));
        }
        self.add_method::<P, R>(spec);
        let handler = Arc::new(handler);
        let callback = move |app: &A| {
            let (app, handler) = (app.clone(), handler.clone());
            MethodCallback::Async(Arc::new(move |id, params, _, max_response, extensions| {
                let (app, handler) = (app.clone(), handler.clone());
                Box::pin(async move {
                    let call = match call_of::<P>(&extensions, params.as_str()) {
                        Ok(call) => call,
                        Err(error) => return refuse(id, &error),
                    };
                    let (info, params) = call;
                    match handler(Ctx::new(app, info), params).await {
                        Ok(result) => respond(id, &result, max_response),
                        Err(error) => refuse(id, &error.into()),
                    }
                })
            }))
        };
        self.methods.push((spec.name, Box::new(callback)));
        self
    }

    /// Adds a method whose handler does not wait for anything; the only kind that the inline lane takes.
    pub fn method_sync<P, R, E, F>(&mut self, spec: MethodSpec, handler: F) -> &mut Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        E: Into<RpcError> + 'static,
        F: Fn(Ctx<A>, P) -> Result<R, E> + Send + Sync + 'static,
    {
        self.add_method::<P, R>(spec);
        let handler = Arc::new(handler);
        let callback = move |app: &A| {
            let (app, handler) = (app.clone(), handler.clone());
            MethodCallback::Sync(Arc::new(move |id, params, max_response, extensions| {
                let (info, params) = match call_of::<P>(&extensions, params.as_str()) {
                    Ok(call) => call,
                    Err(error) => return refuse(id, &error),
                };
                match handler(Ctx::new(app.clone(), info), params) {
                    Ok(result) => respond(id, &result, max_response),
                    Err(error) => refuse(id, &error.into()),
                }
            }))
        };
        self.methods.push((spec.name, Box::new(callback)));
        self
    }

    /// Adds a handler for a notification of clients. It runs on the ordered lane; nothing is answered, and its
    /// error is logged. Notifications without a handler are ignored.
    pub fn on_notification<P, E, F, Fut>(&mut self, spec: MessageSpec, handler: F) -> &mut Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        E: Into<RpcError> + 'static,
        F: Fn(Ctx<A>, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.declare(EntryKind::ClientNotification, spec, WireType::received::<P>(), None, false);
        let handler = Arc::new(handler);
        let callback = move |app: &A| {
            let (app, handler) = (app.clone(), handler.clone());
            MethodCallback::Async(Arc::new(move |_, params, _, _, extensions| {
                let (app, handler) = (app.clone(), handler.clone());
                Box::pin(async move {
                    let done = match call_of::<P>(&extensions, params.as_str()) {
                        Ok((info, params)) => handler(Ctx::new(app, info), params).await.map_err(Into::into),
                        Err(error) => Err(error),
                    };
                    if let Err(error) = done {
                        // Not its message, which may quote what the client sent.
                        let (code, reason) = (error.code, error.reason);
                        tracing::warn!(method = spec.name, code, reason, "a client's notification failed");
                    }
                    MethodResponse::notification()
                })
            }))
        };
        self.notifications.push((spec.name, Box::new(callback)));
        self
    }

    /// Declares a notification that we send.
    pub fn server_notification<P: JsonSchema>(&mut self, spec: MessageSpec) -> &mut Self {
        self.declare(EntryKind::ServerNotification, spec, WireType::sent::<P>(), None, false);
        self
    }

    /// Declares a request that we send.
    pub fn server_request<P: JsonSchema, R: JsonSchema>(&mut self, spec: MessageSpec) -> &mut Self {
        let result = Some(WireType::received::<R>());
        self.declare(EntryKind::ServerRequest, spec, WireType::sent::<P>(), result, false);
        self
    }

    /// All entries, in the order in which they were added.
    pub fn describe(&self) -> &[Entry] {
        &self.entries
    }

    /// Closes the table around the application's state.
    ///
    /// # Errors
    /// If a name is registered twice, or an async handler stands on the inline lane.
    pub fn build(self, app: A) -> Result<Service, RegistryError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let collect = |callbacks: Vec<(&'static str, MakeCallback<A>)>| {
            let mut methods = Methods::new();
            for (name, make) in callbacks {
                methods
                    .verify_and_insert(name, make(&app))
                    .map_err(|_already_there| RegistryError::Duplicate(name))?;
            }
            Ok(methods)
        };
        let methods = collect(self.methods)?;
        let notifications = collect(self.notifications)?;
        let of_kind = |kind: EntryKind| {
            let entries = self.entries.iter().filter(move |entry| entry.kind == kind);
            entries.map(|entry| (entry.name, entry.clone())).collect::<HashMap<_, _>>()
        };
        let (by_name, told) = (of_kind(EntryKind::Method), of_kind(EntryKind::ClientNotification));
        Ok(Service::new(methods, notifications, by_name, told, self.entries))
    }

    fn add_method<P: JsonSchema, R: JsonSchema>(&mut self, spec: MethodSpec) {
        self.add(Entry {
            kind: EntryKind::Method,
            name: spec.name,
            doc: spec.doc,
            lane: spec.lane,
            role: spec.role,
            stability: spec.stability,
            before_initialize: spec.before_initialize,
            params: WireType::received::<P>(),
            result: Some(WireType::sent::<R>()),
        });
    }

    fn declare(
        &mut self,
        kind: EntryKind,
        spec: MessageSpec,
        params: WireType,
        result: Option<WireType>,
        before_initialize: bool,
    ) {
        self.add(Entry {
            kind,
            name: spec.name,
            doc: spec.doc,
            lane: Lane::Ordered,
            role: Role::Observer,
            stability: spec.stability,
            before_initialize,
            params,
            result,
        });
    }

    fn add(&mut self, entry: Entry) {
        if self.entries.iter().any(|other| other.kind == entry.kind && other.name == entry.name) {
            self.problem.get_or_insert(RegistryError::Duplicate(entry.name));
        }
        self.entries.push(entry);
    }
}

/// The call's own data and its parameters, decoded.
fn call_of<P: DeserializeOwned>(
    extensions: &Extensions,
    params: Option<&str>,
) -> Result<(Arc<CallInfo>, P), RpcError> {
    let Some(info) = extensions.get::<Arc<CallInfo>>() else {
        return Err(RpcError::internal("a call reached its handler without its origin"));
    };
    Ok((info.clone(), decode(params)?))
}

/// Serializes a result without wanting it `Clone`, as jsonrpsee's payload would.
struct ByRef<'a, R>(&'a R);

impl<R> Clone for ByRef<'_, R> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<R: Serialize> Serialize for ByRef<'_, R> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn respond(id: Id<'_>, result: &impl Serialize, max_response: usize) -> MethodResponse {
    MethodResponse::response(id, ResponsePayload::success(ByRef(result)), max_response)
}

fn refuse(id: Id<'_>, error: &RpcError) -> MethodResponse {
    MethodResponse::error(id, ErrorObjectOwned::from(error))
}
