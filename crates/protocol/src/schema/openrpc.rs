//! The same contract as an OpenRPC document, for generic JSON-RPC tools.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::rewrite::{references, sorted, target};

/// The version of OpenRPC that the document follows.
pub const OPENRPC_VERSION: &str = "1.3.2";

const SCHEMAS: &str = "#/components/schemas/";

/// What clients call and tell are its methods; what the server says is beside them, because OpenRPC has no place for it:
/// `x-server-requests` and `x-server-notifications`, in the same form. `schema` is the JSON Schema document.
#[must_use]
pub fn open_rpc(schema: &Value, version: &str) -> Value {
    let mut used = BTreeSet::new();
    let mut list = |union: &str| -> Vec<Value> {
        let messages = schema["$defs"][union]["oneOf"].as_array();
        let messages = messages.map(Vec::as_slice).unwrap_or_default();
        messages.iter().map(|message| method(message, schema, &mut used)).collect()
    };
    let mut methods = list("ClientRequestMessage");
    methods.extend(list("ClientNotificationMessage"));
    let (requests, notifications) = (list("ServerRequestMessage"), list("ServerNotificationMessage"));
    let mut document = json!({
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "signalbox app-server API",
            "description": "JSON-RPC 2.0 over stdio or a socket, in both directions: threads, turns and items of coding agents.",
            "version": version,
            "license": { "name": "Apache-2.0" },
        },
        "methods": methods,
        "x-server-requests": requests,
        "x-server-notifications": notifications,
        "components": { "schemas": definitions(schema, used) },
    });
    relocate(&mut document);
    sorted(document)
}

/// A message as a method object. Params are one object; its members are told one by one, and the whole as
/// `x-params-schema`.
fn method(message: &Value, schema: &Value, used: &mut BTreeSet<String>) -> Value {
    let mut method = Map::new();
    method.insert("name".to_owned(), message["x-method"].clone());
    if let Some(doc) = message["description"].as_str() {
        let summary = doc.split_inclusive(". ").next().unwrap_or(doc).trim();
        method.insert("summary".to_owned(), summary.into());
        method.insert("description".to_owned(), doc.into());
    }
    method.insert("paramStructure".to_owned(), "by-name".into());
    let params = &message["properties"]["params"];
    references(params, used);
    let object = target(&params["$ref"]).map_or(params, |name| &schema["$defs"][name]);
    method.insert("params".to_owned(), descriptors(object, used));
    if params.is_object() {
        method.insert("x-params-schema".to_owned(), params.clone());
    }
    if let Some(name) = target(&message["x-result"]["$ref"]) {
        used.insert(name.to_owned());
        let result = json!({ "name": name, "schema": message["x-result"] });
        method.insert("result".to_owned(), result);
    }
    for key in ["x-lane", "x-role", "x-stability", "x-scope"] {
        if let Some(value) = message.get(key) {
            method.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(method)
}

/// Content descriptors of an object's members, those that are required first.
fn descriptors(object: &Value, used: &mut BTreeSet<String>) -> Value {
    let required: Vec<&str> =
        object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(members) = object["properties"].as_object() else { return json!([]) };
    let mut descriptors: Vec<(bool, Value)> = Vec::new();
    for (name, schema) in members {
        references(schema, used);
        let needed = required.contains(&name.as_str());
        let mut descriptor = json!({ "name": name, "required": needed, "schema": schema });
        if let Some(doc) = schema["description"].as_str() {
            descriptor["description"] = doc.into();
        }
        descriptors.push((!needed, descriptor));
    }
    descriptors.sort_by_key(|(optional, _)| *optional);
    descriptors.into_iter().map(|(_, descriptor)| descriptor).collect()
}

/// The definitions that are used, and those that they use.
fn definitions(schema: &Value, mut used: BTreeSet<String>) -> Map<String, Value> {
    let mut definitions = Map::new();
    // Every error is of this form.
    used.insert("ErrorObject".to_owned());
    while let Some(name) = used.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        let definition = schema["$defs"][&name].clone();
        references(&definition, &mut used);
        definitions.insert(name, definition);
    }
    definitions
}

/// Definitions lie elsewhere in this document.
fn relocate(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match (key.as_str(), target(value).map(str::to_owned)) {
                    ("$ref", Some(name)) => *value = Value::String(format!("{SCHEMAS}{name}")),
                    _ => relocate(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(relocate),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::rewrite::DEFS;
    use super::*;

    #[test]
    fn a_method_tells_its_members_and_its_result() {
        let schema = json!({ "$defs": {
            "ClientRequestMessage": { "oneOf": [{
                "x-method": "a/b", "description": "Does it. And more.", "x-lane": "inline",
                "properties": { "params": { "$ref": "#/$defs/P" } }, "x-result": { "$ref": "#/$defs/R" },
            }] },
            "P": { "properties": { "x": { "$ref": "#/$defs/X" }, "y": { "type": "string" } }, "required": ["y"] },
            "X": { "type": "integer" }, "R": { "type": "object" }, "ErrorObject": {}, "Unused": {},
        } });
        let document = open_rpc(&schema, "1.2.3");
        let method = &document["methods"][0];
        assert_eq!(method["summary"], "Does it.");
        assert_eq!(method["params"][0]["name"], "y");
        assert_eq!(method["params"][0]["required"], true);
        assert_eq!(method["params"][1]["schema"]["$ref"], "#/components/schemas/X");
        assert_eq!(method["result"]["schema"]["$ref"], "#/components/schemas/R");
        let names: Vec<_> =
            document["components"]["schemas"].as_object().into_iter().flat_map(Map::keys).collect();
        assert_eq!(names, ["ErrorObject", "P", "R", "X"]);
        assert!(!document.to_string().contains(DEFS));
    }
}
