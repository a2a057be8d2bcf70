//! The words of the method table: lanes, roles, and what an entry says about itself.

use std::any::type_name;
use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

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

/// From which side a type is seen: a member with a default may be left out by who sends it to us, but is always
/// there in what we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Contract {
    /// Clients send it.
    Deserialize,
    /// We send it.
    Serialize,
}

impl Contract {
    /// A schema generator (JSON Schema 2020-12) that sees types from this side.
    pub fn generator(self) -> SchemaGenerator {
        let settings = SchemaSettings::draft2020_12();
        match self {
            Self::Deserialize => settings.for_deserialize(),
            Self::Serialize => settings.for_serialize(),
        }
        .into_generator()
    }
}

/// A type of the wire: how to make its schema, and from which side.
#[derive(Debug, Clone, Copy)]
pub struct WireType {
    /// The Rust type's name, for messages and documentation.
    pub rust_name: &'static str,
    /// From which side it is seen; the generator must have been made for the same one.
    pub contract: Contract,
    /// The schema, as a reference into the generator's definitions where the type has a name.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// The name of the schema in the definitions.
    pub schema_name: fn() -> Cow<'static, str>,
}

impl WireType {
    pub(crate) fn received<T: JsonSchema>() -> Self {
        Self::of::<T>(Contract::Deserialize)
    }

    pub(crate) fn sent<T: JsonSchema>() -> Self {
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
