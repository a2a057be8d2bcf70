//! The method table as data: name, types, doc, lane, role and stability of everything a client can meet.

use std::any::type_name;
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use jsonrpsee::server::{Extensions, MethodCallback, MethodResponse, Methods, ResponsePayload};
use jsonrpsee::types::{ErrorObjectOwned, Id};
use schemars::generate::Contract;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::context::{CallInfo, Ctx};
use crate::decode::decode;
use crate::dispatch::Service;
use crate::error::RpcError;

/// The notification with which a client cancels a request; handled by the connection itself.
pub const CANCEL_REQUEST: &str = "$/cancelRequest";

/// In which order and where a method runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Lane {
    /// In the connection's reader: only for what is answered from memory in microseconds.
    Inline,
    /// One at a time a connection, in the order in which the calls arrived. Such a handler must not wait for
    /// its client, because the client's later ordered calls wait for it.
    Ordered,
    /// Beside everything else, on a task of its own.
    Concurrent,
}

/// What a connection may do; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Reads.
    Observer,
    /// Also prompts and answers.
    Operator,
    /// Also pairs, revokes and configures.
    Owner,
}

impl Role {
    /// The role's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observer => "observer",
            Self::Operator => "operator",
            Self::Owner => "owner",
        }
    }
}

/// How much clients may rely on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stability {
    /// Changes only compatibly.
    Stable,
    /// May change or go.
    Experimental,
}

/// What the table says about a method beside its types.
#[derive(Debug, Clone, Copy)]
pub struct MethodSpec {
    /// The name on the wire.
    pub name: &'static str,
    /// What it does, in whole sentences, for the published schema.
    pub doc: &'static str,
    /// Where it runs.
    pub lane: Lane,
    /// The least role that may call it.
    pub role: Role,
    /// How much clients may rely on it.
    pub stability: Stability,
    /// Whether it is answered before the handshake.
    pub before_initialize: bool,
}

impl MethodSpec {
    /// A stable method of observers that needs the handshake; change the fields that differ.
    pub const fn new(name: &'static str, lane: Lane, doc: &'static str) -> Self {
        Self { name, doc, lane, role: Role::Observer, stability: Stability::Stable, before_initialize: false }
    }

    /// The least role that may call it.
    #[must_use]
    pub const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Marks it as one that may change or go.
    #[must_use]
    pub const fn experimental(mut self) -> Self {
        self.stability = Stability::Experimental;
        self
    }

    /// Marks it as one that is answered before the handshake.
    #[must_use]
    pub const fn before_initialize(mut self) -> Self {
        self.before_initialize = true;
        self
    }
}

/// Name and documentation of a notification or server request.
#[derive(Debug, Clone, Copy)]
pub struct MessageSpec {
    /// The name on the wire.
    pub name: &'static str,
    /// What it says, in whole sentences, for the published schema.
    pub doc: &'static str,
    /// How much clients may rely on it.
    pub stability: Stability,
}

impl MessageSpec {
    /// A stable message; change the field that differs.
    pub const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, stability: Stability::Stable }
    }
}

/// The parameters of a method that takes none: an object whose members are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoParams {}

/// The parameters of `$/cancelRequest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelParams {
    /// The id of the request to cancel, as it was sent.
    pub id: CancelId,
}

/// A request id: a string or a 64-bit signed integer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CancelId {
    /// A number.
    Number(i64),
    /// A string.
    Text(String),
}

/// Who sends an entry, and whether it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryKind {
    /// The client calls, we answer.
    Method,
    /// The client tells us something.
    ClientNotification,
    /// We tell the client something.
    ServerNotification,
    /// We call, the client answers.
    ServerRequest,
}

/// A type of the wire: how to make its schema, and from which side.
#[derive(Debug, Clone)]
pub struct WireType {
    /// The Rust type's name, for messages and documentation.
    pub rust_name: &'static str,
    /// `Deserialize` for what clients send, `Serialize` for what we send. The generator must have been made with
    /// the same contract.
    pub contract: Contract,
    /// The schema, as a reference into the generator's definitions where the type has a name.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// The name of the schema in the definitions.
    pub schema_name: fn() -> Cow<'static, str>,
}

impl WireType {
    fn received<T: JsonSchema>() -> Self {
        Self::of::<T>(Contract::Deserialize)
    }

    fn sent<T: JsonSchema>() -> Self {
        Self::of::<T>(Contract::Serialize)
    }

    fn of<T: JsonSchema>(contract: Contract) -> Self {
        Self {
            rust_name: type_name::<T>(),
            contract,
            schema: |generator| generator.subschema_for::<T>(),
            schema_name: T::schema_name,
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Who sends it.
    pub kind: EntryKind,
    /// The name on the wire.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Where it runs (methods and client notifications; the latter are always ordered).
    pub lane: Lane,
    /// The least role that may call it (methods only).
    pub role: Role,
    /// How much clients may rely on it.
    pub stability: Stability,
    /// Whether it is answered before the handshake.
    pub before_initialize: bool,
    /// Its parameters.
    pub params: WireType,
    /// Its result, where it has one.
    pub result: Option<WireType>,
}

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
                        tracing::warn!(method = spec.name, %error, "a client's notification failed");
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
