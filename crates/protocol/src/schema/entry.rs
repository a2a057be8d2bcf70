//! What the schema document says about one method.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::rewrite::{drop_absent_nulls, references, target};

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

/// The root schema of a type that is known only by what makes its schema, as a method table keeps it. As
/// [`input_schema`] if clients send it, as [`output_schema`] if the server does.
#[must_use]
pub fn root_schema(side: Side, make: fn(&mut SchemaGenerator) -> Schema) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings = match side {
        Side::Client => settings.for_deserialize(),
        Side::Server => settings.for_serialize(),
    };
    let mut generator = settings.into_generator();
    let made = make(&mut generator).to_value();
    let mut definitions = generator.take_definitions(true);
    // A type with a name is a reference to its definition; at the root it stands itself.
    let mut schema = match target(&made["$ref"]).map(str::to_owned) {
        Some(name) => {
            let mut root = definitions.remove(&name).unwrap_or_default();
            if let Value::Object(object) = &mut root {
                object.insert("title".to_owned(), Value::String(name.clone()));
            }
            let mut used = BTreeSet::new();
            definitions.values().chain([&root]).for_each(|schema| references(schema, &mut used));
            if used.contains(&name) {
                definitions.insert(name, root.clone());
            }
            root
        }
        None => made,
    };
    if let (Value::Object(object), false) = (&mut schema, definitions.is_empty()) {
        object.insert("$defs".to_owned(), Value::Object(definitions));
    }
    if side == Side::Server {
        drop_absent_nulls(&mut schema);
    }
    schema
}
