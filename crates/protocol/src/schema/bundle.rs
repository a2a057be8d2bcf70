//! The one document that holds the schemas of all messages.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::entry::{Entry, Kind, Scope, Side, input_schema, output_schema};
use super::normalise::normalise;
use super::rewrite::{pascal, reference, references, rename_references, sorted, target};
use crate::app::{ErrorObject, Place, RequestId, TraceContext};

/// The name of the document; it is no address.
pub const DOCUMENT_ID: &str = "urn:signalbox:schema:v1";

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Why there is no document.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleError {
    /// Two types of one name; one of them needs another.
    #[error("two different types are named `{name}`")]
    Conflict { name: String },
    /// A schema without a title cannot be named.
    #[error("a schema of `{method}` has no title")]
    Unnamed { method: String },
    /// Two entries for one method of one side.
    #[error("`{method}` stands twice")]
    Duplicate { method: String },
    /// A request without a result.
    #[error("request `{method}` has no result")]
    NoResult { method: String },
}

/// Collects entries and types, and makes the document of them.
#[derive(Debug, Default)]
pub struct Bundle {
    /// Definitions of what is read and of what is written: one type may differ in the two.
    inputs: BTreeMap<String, Value>,
    outputs: BTreeMap<String, Value>,
    messages: BTreeMap<Group, Vec<Message>>,
    /// Top-level types that are no JSON-RPC messages.
    roots: Vec<(Side, String)>,
    methods: BTreeSet<(bool, String)>,
}

/// Which union a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    ClientRequest,
    ClientNotification,
    ServerRequest,
    ServerNotification,
}

impl Group {
    fn of(entry: &Entry) -> Self {
        match (entry.side, entry.kind) {
            (Side::Client, Kind::Request) => Self::ClientRequest,
            (Side::Client, Kind::Notification) => Self::ClientNotification,
            (Side::Server, Kind::Request) => Self::ServerRequest,
            (Side::Server, Kind::Notification) => Self::ServerNotification,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::ClientRequest => "ClientRequestMessage",
            Self::ClientNotification => "ClientNotificationMessage",
            Self::ServerRequest => "ServerRequestMessage",
            Self::ServerNotification => "ServerNotificationMessage",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ClientRequest => "A request of a client.",
            Self::ClientNotification => "A notification of a client.",
            Self::ServerRequest => "A request of the server, which a client answers.",
            Self::ServerNotification => "A notification of the server.",
        }
    }

    fn side(self) -> Side {
        match self {
            Self::ClientRequest | Self::ClientNotification => Side::Client,
            Self::ServerRequest | Self::ServerNotification => Side::Server,
        }
    }

    fn has_id(self) -> bool {
        matches!(self, Self::ClientRequest | Self::ServerRequest)
    }
}

#[derive(Debug)]
struct Message {
    entry: Entry,
    params: Option<String>,
    result: Option<String>,
}

impl Bundle {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method.
    ///
    /// # Errors
    /// If it is there already, or one of its types has no name or the name of another type.
    pub fn add(&mut self, mut entry: Entry) -> Result<(), BundleError> {
        let method = entry.method.clone();
        if !self.methods.insert((entry.side == Side::Client, method.clone())) {
            return Err(BundleError::Duplicate { method });
        }
        if entry.kind == Kind::Request && entry.result.is_none() {
            return Err(BundleError::NoResult { method });
        }
        let (params_side, result_side) = match entry.side {
            Side::Client => (Side::Client, Side::Server),
            Side::Server => (Side::Server, Side::Client),
        };
        let placed =
            entry.side == Side::Server && entry.kind == Kind::Notification && entry.scope == Scope::Thread;
        let params = match entry.params.take() {
            Some(schema) if placed => Some(with_place(schema)),
            other => other,
        };
        let params = params.map(|schema| self.define(params_side, schema, &method)).transpose()?;
        let result =
            entry.result.take().map(|schema| self.define(result_side, schema, &method)).transpose()?;
        let group = Group::of(&entry);
        self.messages.entry(group).or_default().push(Message { entry, params, result });
        Ok(())
    }

    /// Adds a type that stands for itself, such as `Op`: of clients if it is read, of the server if it is written.
    ///
    /// # Errors
    /// If it has no name, or the name of another type.
    pub fn add_type(&mut self, side: Side, schema: Value) -> Result<(), BundleError> {
        let name = self.define(side, schema, "a type")?;
        self.roots.push((side, name));
        Ok(())
    }

    /// Files a root schema and its definitions under their names.
    fn define(&mut self, side: Side, schema: Value, method: &str) -> Result<String, BundleError> {
        let Value::Object(mut root) = normalise(schema) else {
            return Err(BundleError::Unnamed { method: method.to_owned() });
        };
        let Some(name) = root.get("title").and_then(Value::as_str).map(str::to_owned) else {
            return Err(BundleError::Unnamed { method: method.to_owned() });
        };
        if let Some(Value::Object(definitions)) = root.remove("$defs") {
            for (name, definition) in definitions {
                self.file(side, name, definition)?;
            }
        }
        self.file(side, name.clone(), Value::Object(root))?;
        Ok(name)
    }

    fn file(&mut self, side: Side, name: String, definition: Value) -> Result<(), BundleError> {
        let definitions = match side {
            Side::Client => &mut self.inputs,
            Side::Server => &mut self.outputs,
        };
        match definitions.get(&name) {
            Some(known) if *known != definition => Err(BundleError::Conflict { name }),
            Some(_) => Ok(()),
            None => {
                definitions.insert(name, definition);
                Ok(())
            }
        }
    }

    /// Makes the document.
    ///
    /// # Errors
    /// If a type has the name of one of the unions made here.
    pub fn finish(mut self) -> Result<Value, BundleError> {
        self.define(Side::Server, output_schema::<ErrorObject>(), "a response")?;
        self.define(Side::Server, output_schema::<RequestId>(), "a response")?;
        self.define(Side::Client, input_schema::<TraceContext>(), "a request")?;
        let split = self.split();
        let renamed = |name: &str| split.contains(name).then(|| format!("{name}Input"));

        let mut definitions = self.outputs.clone();
        for (name, definition) in &self.inputs {
            let mut definition = definition.clone();
            rename_references(&mut definition, &renamed);
            let name = renamed(name).unwrap_or_else(|| name.clone());
            definition["title"] = Value::String(name.clone());
            retitle_variants(&mut definition, &name);
            if definitions.insert(name.clone(), definition).is_some() && !self.outputs.contains_key(&name) {
                return Err(BundleError::Conflict { name });
            }
        }
        let name_of = |side: Side, name: &str| match side {
            Side::Client => renamed(name).unwrap_or_else(|| name.to_owned()),
            Side::Server => name.to_owned(),
        };

        let mut roots = Vec::new();
        let mut add = |name: &str, definition: Value| match definitions.insert(name.to_owned(), definition) {
            Some(_) => Err(BundleError::Conflict { name: name.to_owned() }),
            None => {
                roots.push(reference(name));
                Ok(())
            }
        };
        for (group, messages) in &self.messages {
            add(group.title(), union(*group, messages, &name_of, &self.inputs))?;
        }
        if let Some(response) = responses(&self.messages, &name_of) {
            add("ResponseMessage", response)?;
        }
        add("ErrorResponseMessage", error_response())?;
        roots.extend(self.roots.iter().map(|(side, name)| reference(&name_of(*side, name))));

        prune(&mut definitions, &roots);
        Ok(sorted(json!({
            "$schema": DIALECT,
            "$id": DOCUMENT_ID,
            "title": "Signalbox",
            "description": "All messages of the app-server API and of the Op/Event protocol.",
            "oneOf": roots,
            "$defs": definitions,
        })))
    }

    /// The types whose input and output forms differ, by themselves or by what they refer to.
    fn split(&self) -> BTreeSet<String> {
        let both: Vec<&String> = self.inputs.keys().filter(|name| self.outputs.contains_key(*name)).collect();
        let mut split: BTreeSet<String> = both
            .iter()
            .filter(|name| self.inputs[**name] != self.outputs[**name])
            .map(|name| (*name).clone())
            .collect();
        loop {
            let before = split.len();
            for name in &both {
                let mut used = BTreeSet::new();
                references(&self.inputs[*name], &mut used);
                if used.iter().any(|used| split.contains(used)) {
                    split.insert((*name).clone());
                }
            }
            if split.len() == before {
                return split;
            }
        }
    }
}

/// The document as it is committed: two spaces, sorted keys, a newline at the end.
#[must_use]
pub fn to_text(document: &Value) -> String {
    format!("{:#}\n", sorted(document.clone()))
}

/// Adds what every thread-scoped notification carries beside its own fields.
fn with_place(mut schema: Value) -> Value {
    let place = output_schema::<Place>();
    if let (Some(Value::Object(properties)), Value::Object(more)) =
        (schema.get_mut("properties"), &place["properties"])
    {
        properties.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    schema
}

/// A union's variants carry its name; under another name they need another.
fn retitle_variants(definition: &mut Value, name: &str) {
    let Some(old) = name.strip_suffix("Input") else { return };
    let Some(Value::Array(variants)) = definition.get_mut("oneOf") else { return };
    for variant in variants {
        let title = variant["title"]
            .as_str()
            .and_then(|title| title.strip_prefix(old))
            .map(|rest| format!("{name}{rest}"));
        if let Some(title) = title {
            variant["title"] = Value::String(title);
        }
    }
}

fn union(
    group: Group,
    messages: &[Message],
    name_of: &impl Fn(Side, &str) -> String,
    inputs: &BTreeMap<String, Value>,
) -> Value {
    let mut variants: Vec<(&str, Value)> = messages
        .iter()
        .map(|message| (message.entry.method.as_str(), variant(group, message, name_of, inputs)))
        .collect();
    variants.sort_by_key(|(method, _)| *method);
    let variants: Vec<Value> = variants.into_iter().map(|(_, variant)| variant).collect();
    json!({
        "title": group.title(),
        "description": group.description(),
        "oneOf": variants,
        "discriminator": { "propertyName": "method" },
    })
}

fn variant(
    group: Group,
    message: &Message,
    name_of: &impl Fn(Side, &str) -> String,
    inputs: &BTreeMap<String, Value>,
) -> Value {
    let entry = &message.entry;
    let mut properties = Map::new();
    let mut required = vec!["method"];
    properties.insert("method".to_owned(), json!({ "type": "string", "const": entry.method }));
    properties.insert("jsonrpc".to_owned(), json!({ "type": "string", "const": "2.0" }));
    if group.has_id() {
        properties.insert("id".to_owned(), reference("RequestId"));
        required.push("id");
    }
    match group {
        Group::ClientRequest => {
            properties.insert("trace".to_owned(), reference("TraceContext"));
        }
        Group::ServerNotification => {
            let description = "Unix time in milliseconds at which it was sent.";
            properties
                .insert("emittedAtMs".to_owned(), json!({ "type": "integer", "description": description }));
            required.extend(["jsonrpc", "emittedAtMs"]);
        }
        Group::ServerRequest => required.push("jsonrpc"),
        Group::ClientNotification => {}
    }
    if let Some(params) = &message.params {
        properties.insert("params".to_owned(), reference(&name_of(group.side(), params)));
        // Params may be left out where every field may.
        let needed = || inputs.get(params).is_some_and(|schema| schema.get("required").is_some());
        if group.side() == Side::Server || needed() {
            required.push("params");
        }
    }
    let mut variant = json!({
        "title": format!("{}Message", pascal(&entry.method)),
        "type": "object",
        "properties": properties,
        "required": required,
        "x-method": entry.method,
        "x-side": match entry.side { Side::Client => "client", Side::Server => "server" },
        "x-scope": match entry.scope { Scope::Thread => "thread", Scope::Connection => "connection" },
    });
    if let Some(doc) = &entry.doc {
        variant["description"] = Value::String(doc.clone());
    }
    if let Some(result) = &message.result {
        let side = match group.side() {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        variant["x-result"] = reference(&name_of(side, result));
    }
    for (key, value) in &entry.annotations {
        variant[format!("x-{key}")] = value.clone();
    }
    variant
}

/// A response of either side; which of the results it holds is known from the request.
fn responses(
    messages: &BTreeMap<Group, Vec<Message>>,
    name_of: &impl Fn(Side, &str) -> String,
) -> Option<Value> {
    let mut results = BTreeSet::new();
    for (group, messages) in messages {
        let answering = match group.side() {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        let named = messages.iter().filter_map(|message| message.result.as_deref());
        results.extend(named.map(|name| name_of(answering, name)));
    }
    if results.is_empty() {
        return None;
    }
    let results: Vec<Value> = results.iter().map(|name| reference(name)).collect();
    Some(json!({
        "title": "ResponseMessage",
        "description": "The answer to a request; `x-result` of the request says which result it holds.",
        "type": "object",
        "properties": {
            "jsonrpc": { "type": "string", "const": "2.0" },
            "id": reference("RequestId"),
            "result": { "x-untagged": true, "anyOf": results },
        },
        "required": ["id", "result"],
    }))
}

fn error_response() -> Value {
    json!({
        "title": "ErrorResponseMessage",
        "description": "The answer to a request that failed; without an id if the request had none that could be read.",
        "type": "object",
        "properties": {
            "jsonrpc": { "type": "string", "const": "2.0" },
            "id": { "anyOf": [reference("RequestId"), { "type": "null" }] },
            "error": reference("ErrorObject"),
        },
        "required": ["id", "error"],
    })
}

/// Takes away the definitions no root leads to.
fn prune(definitions: &mut BTreeMap<String, Value>, roots: &[Value]) {
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> =
        roots.iter().filter_map(|root| target(&root["$ref"])).map(str::to_owned).collect();
    while let Some(name) = open.pop() {
        if let Some(definition) = definitions.get(&name)
            && reached.insert(name)
        {
            let mut used = BTreeSet::new();
            references(definition, &mut used);
            open.extend(used);
        }
    }
    definitions.retain(|name, _| reached.contains(name));
}
