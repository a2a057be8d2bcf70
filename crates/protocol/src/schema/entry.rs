//! What the schema document says about one method.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::rewrite::drop_absent_nulls;

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Client,
    Server,
}

/// Whether a message is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Request,
    Notification,
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One thread; notifications of the server carry their place in it.
    Thread,
    /// The connection or the whole server.
    Connection,
}

/// One method: its schemas, and annotations for readers and generators.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub method: String,
    pub side: Side,
    pub kind: Kind,
    pub scope: Scope,
    pub doc: Option<String>,
    /// Root schema of the params; none if the method takes none.
    pub params: Option<Value>,
    /// Root schema of the result of a request.
    pub result: Option<Value>,
    /// Written as `x-<key>`.
    pub annotations: BTreeMap<String, Value>,
}

impl Entry {
    fn new(method: &str, side: Side, kind: Kind, params: Option<Value>) -> Self {
        let doc = params
            .as_ref()
            .and_then(|schema| schema["description"].as_str())
            .filter(|doc| !doc.starts_with("Params of "))
            .map(str::to_owned);
        Self {
            method: method.to_owned(),
            side,
            kind,
            scope: Scope::Connection,
            doc,
            params,
            result: None,
            annotations: BTreeMap::new(),
        }
    }

    /// A request of clients, with the schemas of its params and result as made by [`input_schema`] and [`output_schema`].
    #[must_use]
    pub fn client_request(method: &str, params: Option<Value>, result: Value) -> Self {
        let mut entry = Self::new(method, Side::Client, Kind::Request, params);
        entry.result = Some(result);
        entry
    }

    /// A notification of clients.
    #[must_use]
    pub fn client_notification(method: &str, params: Option<Value>) -> Self {
        Self::new(method, Side::Client, Kind::Notification, params)
    }

    /// A notification of the server.
    #[must_use]
    pub fn server_notification<P: JsonSchema>(method: &str) -> Self {
        Self::new(method, Side::Server, Kind::Notification, Some(output_schema::<P>()))
    }

    /// A request of the server; say with [`Entry::answered_with`] what clients answer.
    #[must_use]
    pub fn server_request<P: JsonSchema>(method: &str) -> Self {
        Self::new(method, Side::Server, Kind::Request, Some(output_schema::<P>()))
    }

    /// The client's answer to a request of the server.
    #[must_use]
    pub fn answered_with<A: JsonSchema>(mut self) -> Self {
        self.result = Some(input_schema::<A>());
        self
    }

    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    #[must_use]
    pub fn doc(mut self, doc: impl Into<String>) -> Self {
        self.doc = Some(doc.into());
        self
    }

    /// Adds `x-<key>`: lane, role, stability and whatever else a method table knows.
    #[must_use]
    pub fn annotate(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }
}

/// The schema of what is read: optional fields may be left out or `null`.
#[must_use]
pub fn input_schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// The schema of what is written: a field is there or not, and `null` only where it really is written.
#[must_use]
pub fn output_schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    drop_absent_nulls(&mut schema);
    schema
}
