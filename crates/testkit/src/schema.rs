//! Checks frames against the published schema, and against the recorded structure of the API of existing clients.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// The two documents, and what was compiled of them.
pub struct Schemas {
    ours: Value,
    recorded: Value,
    /// Variants of the message unions of our document, by union and method.
    variants: HashMap<(&'static str, String), Value>,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

const UNIONS: [&str; 4] = [
    "ClientRequestMessage",
    "ClientNotificationMessage",
    "ServerRequestMessage",
    "ServerNotificationMessage",
];

impl Schemas {
    /// The documents of this workspace, read once.
    ///
    /// # Panics
    /// If they cannot be read.
    #[must_use]
    pub fn get() -> &'static Self {
        static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
        SCHEMAS.get_or_init(|| {
            Self::new(read("schema/signalbox.schema.json"), read("tests/conformance/codex-v2.schema.json"))
        })
    }

    fn new(ours: Value, recorded: Value) -> Self {
        let mut variants = HashMap::new();
        for union in UNIONS {
            let Some(all) = ours["$defs"][union]["oneOf"].as_array() else { continue };
            for variant in all {
                let method = variant["x-method"].as_str().unwrap_or_default().to_owned();
                variants.insert((union, method), variant.clone());
            }
        }
        Self { ours, recorded, variants, compiled: Mutex::default() }
    }

    /// Checks a frame of the server, whatever it is; `request` gives the request of the client that has this id.
    ///
    /// # Errors
    /// What is wrong, with the path.
    pub fn frame(&self, frame: &Value, request: impl FnOnce(&Value) -> Option<Value>) -> Result<(), String> {
        match (frame.get("method").is_some(), frame.get("id")) {
            (true, None) => self.notification(frame),
            (true, Some(_)) => self.server_request(frame),
            (false, Some(Value::Null)) => self.error(frame),
            (false, Some(id)) => match request(id) {
                Some(request) => self.response(&request, frame),
                None => Err(format!("an answer to no request: {frame}")),
            },
            (false, None) => Err(format!("neither request, response nor notification: {frame}")),
        }
    }

    /// Checks a notification of the server.
    ///
    /// # Errors
    /// What is wrong, with the path.
    pub fn notification(&self, frame: &Value) -> Result<(), String> {
        let method = frame["method"].as_str().unwrap_or_default();
        self.message("ServerNotificationMessage", method, frame)?;
        self.recorded("notifications", method, "params", &frame["params"])
    }

    /// Checks a request of the server.
    ///
    /// # Errors
    /// What is wrong, with the path.
    pub fn server_request(&self, frame: &Value) -> Result<(), String> {
        let method = frame["method"].as_str().unwrap_or_default();
        self.message("ServerRequestMessage", method, frame)?;
        self.recorded("serverRequests", method, "params", &frame["params"])
    }

    /// Checks the answer to a request of the client. A request that was answered with a result must itself be as the
    /// schema says; `request` is it.
    ///
    /// # Errors
    /// What is wrong, with the path.
    pub fn response(&self, request: &Value, answer: &Value) -> Result<(), String> {
        let method = request["method"].as_str().unwrap_or_default();
        let Some(result) = answer.get("result") else { return self.error(answer) };
        self.message("ClientRequestMessage", method, request)?;
        let variant = &self.variants[&("ClientRequestMessage", method.to_owned())];
        let what = format!("result of {method}");
        self.check(&format!("result {method}"), || self.own(&variant["x-result"]), result, &what)?;
        self.recorded("requests", method, "result", result)
    }

    /// Checks an error.
    ///
    /// # Errors
    /// What is wrong, with the path.
    pub fn error(&self, answer: &Value) -> Result<(), String> {
        let schema = || self.own(&json!({ "$ref": "#/$defs/ErrorResponseMessage" }));
        self.check("error", schema, answer, "error response")?;
        match answer["error"]["data"]["reason"].as_str() {
            Some(reason) if !reason.is_empty() => Ok(()),
            _ => Err(format!("an error without a reason: {answer}")),
        }
    }

    fn message(&self, union: &'static str, method: &str, frame: &Value) -> Result<(), String> {
        let Some(variant) = self.variants.get(&(union, method.to_owned())) else {
            return Err(format!("{method} is not in {union} of the schema: {frame}"));
        };
        self.check(&format!("{union} {method}"), || self.own(variant), frame, method)
    }

    fn recorded(&self, part: &str, method: &str, which: &str, value: &Value) -> Result<(), String> {
        let known = &self.recorded[part][method][which];
        if known.is_null() {
            return Ok(());
        }
        let schema = || {
            let mut schema =
                json!({ "$schema": "http://json-schema.org/draft-07/schema#", "allOf": [known] });
            schema["definitions"] = reachable(&schema, &self.recorded["definitions"], "#/definitions/");
            schema
        };
        let what = format!("{which} of {method}, as existing clients read it");
        self.check(&format!("recorded {part} {method} {which}"), schema, value, &what)
    }

    /// A schema of its own for a part of our document.
    fn own(&self, part: &Value) -> Value {
        let mut schema = json!({ "$schema": self.ours["$schema"], "allOf": [part] });
        schema["$defs"] = reachable(&schema, &self.ours["$defs"], "#/$defs/");
        schema
    }

    fn check(
        &self,
        key: &str,
        schema: impl FnOnce() -> Value,
        value: &Value,
        what: &str,
    ) -> Result<(), String> {
        let known = self.compiled.lock().unwrap().get(key).cloned();
        let validator = match known {
            Some(validator) => validator,
            None => {
                let validator =
                    jsonschema::validator_for(&schema()).map_err(|error| format!("{key}: {error}"))?;
                let validator = Arc::new(validator);
                self.compiled.lock().unwrap().insert(key.to_owned(), validator.clone());
                validator
            }
        };
        if validator.is_valid(value) {
            return Ok(());
        }
        let wrong: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("at {}: {error}", path(&error.instance_path().to_string())))
            .collect();
        Err(format!("{what} is not as the schema says:\n  {}\n  in {value}", wrong.join("\n  ")))
    }
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schemas").field("methods", &self.variants.len()).finish_non_exhaustive()
    }
}

fn path(pointer: &str) -> &str {
    if pointer.is_empty() { "the whole" } else { pointer }
}

fn read(file: &str) -> Value {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The definitions that a schema refers to, by itself or through others. The whole document would have to be compiled
/// for each of its messages otherwise.
fn reachable(schema: &Value, definitions: &Value, prefix: &str) -> Value {
    let mut found = BTreeMap::new();
    let mut open = BTreeSet::new();
    references(schema, prefix, &mut open);
    while let Some(name) = open.pop_first() {
        let definition = &definitions[&name];
        let mut more = BTreeSet::new();
        references(definition, prefix, &mut more);
        found.insert(name, definition.clone());
        open.extend(more.into_iter().filter(|name| !found.contains_key(name)));
    }
    Value::Object(found.into_iter().collect::<Map<_, _>>())
}

fn references(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(target) if name == "$ref" => {
                        found.extend(target.strip_prefix(prefix).map(str::to_owned));
                    }
                    member => references(member, prefix, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, prefix, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> Schemas {
        let ours = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {
                "ServerNotificationMessage": { "oneOf": [{
                    "x-method": "tick", "type": "object", "required": ["params"],
                    "properties": { "method": { "const": "tick" }, "params": { "$ref": "#/$defs/Tick" } },
                }]},
                "Tick": { "type": "object", "required": ["n"], "properties": { "n": { "$ref": "#/$defs/N" } } },
                "N": { "type": "integer" },
            },
        });
        let recorded = json!({
            "notifications": { "tick": { "params": { "$ref": "#/definitions/Tick" } } },
            "definitions": { "Tick": { "required": ["m"] } },
        });
        Schemas::new(ours, recorded)
    }

    #[test]
    fn a_frame_that_fits_both_documents_passes() {
        let frame = json!({ "method": "tick", "params": { "n": 1, "m": 2 } });
        assert_eq!(schemas().notification(&frame), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_path() {
        let wrong =
            schemas().notification(&json!({ "method": "tick", "params": { "n": "one" } })).unwrap_err();
        assert!(wrong.contains("at /params/n: "), "{wrong}");
        let wrong = schemas().notification(&json!({ "method": "tick", "params": { "n": 1 } })).unwrap_err();
        assert!(wrong.contains("as existing clients read it"), "{wrong}");
        let wrong = schemas().notification(&json!({ "method": "tock", "params": {} })).unwrap_err();
        assert!(wrong.contains("tock is not in ServerNotificationMessage"), "{wrong}");
    }
}
