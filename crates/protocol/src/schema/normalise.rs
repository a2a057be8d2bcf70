//! Brings schemas into the one layout that code generators for several languages take without losing anything.
//!
//! Generators overwrite, flatten or number what they do not expect: a `$ref` with siblings, unions without names or
//! discriminator, enums written as unions. So after this pass
//! - a tagged union is a `oneOf` of inline, titled objects whose tag is a required constant, with a `discriminator`;
//! - an externally tagged one is a `oneOf` of titled variants, marked `x-tagging: external`;
//! - what else is a union says `x-untagged`;
//! - a fieldless enum is a `string` with `enum`, its documentation in `x-enumDescriptions`;
//! - every definition has its name as title;
//! - integers have bounds in place of Rust's format names, none beyond what a double holds exactly;
//! - free JSON is marked `x-free-json`.

use serde_json::{Map, Value, json};

use super::rewrite::{pascal, sorted, strings, target};

type Object = Map<String, Value>;

/// The largest integer that survives in languages whose numbers are doubles.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// Normalises a root schema and its definitions. The order of the result depends on nothing but the content.
#[must_use]
pub fn normalise(schema: Value) -> Value {
    let Value::Object(mut root) = schema else { return schema };
    let definitions = match root.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let pass = Pass { definitions: &definitions };
    let name = root.get("title").and_then(Value::as_str).unwrap_or("Root").to_owned();
    let mut result = match pass.node(Value::Object(root), &name) {
        Value::Object(root) => root,
        other => return other,
    };
    if !definitions.is_empty() {
        let normalised = definitions
            .iter()
            .map(|(name, definition)| (name.clone(), titled(pass.node(definition.clone(), name), name)))
            .collect();
        result.insert("$defs".to_owned(), Value::Object(normalised));
    }
    sorted(Value::Object(result))
}

fn titled(schema: Value, title: &str) -> Value {
    match schema {
        Value::Object(mut object) => {
            object.insert("title".to_owned(), title.into());
            Value::Object(object)
        }
        other => json!({ "title": title, "allOf": [other] }),
    }
}

struct Pass<'a> {
    definitions: &'a Object,
}

impl Pass<'_> {
    /// One schema; `name` is what unnamed variants in it are named after.
    fn node(&self, schema: Value, name: &str) -> Value {
        let mut object = match schema {
            Value::Bool(true) => return json!({ "x-free-json": true }),
            Value::Object(object) => object,
            other => return other,
        };
        object.remove("$schema");
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if object.contains_key("$ref") && object.len() > 1 {
            object = self.reference_with_siblings(object);
        }
        if let Some(Value::Array(variants)) = object.remove("oneOf") {
            object = self.union(object, variants, name);
        }
        bound_integer(&mut object);
        for (key, value) in &mut object {
            let schema = value.take();
            *value = match (key.as_str(), schema) {
                ("properties", Value::Object(properties)) => Value::Object(
                    properties
                        .into_iter()
                        .map(|(key, property)| {
                            let name = format!("{name}{}", pascal(&key));
                            let property = self.node(property, &name);
                            (key, property)
                        })
                        .collect(),
                ),
                ("items" | "additionalProperties", schema) => self.node(schema, &format!("{name}Item")),
                ("anyOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                    Value::Array(schemas.into_iter().map(|schema| self.node(schema, name)).collect())
                }
                (_, other) => other,
            };
        }
        object
            .get("additionalProperties")
            .is_some_and(|schema| *schema == Value::Bool(false))
            .then(|| object.shift_remove("additionalProperties"));
        Value::Object(object)
    }

    /// A reference stands alone: merged into what it extends, or wrapped if only annotations stand beside it.
    fn reference_with_siblings(&self, mut object: Object) -> Object {
        if ["properties", "required", "type"].iter().any(|key| object.contains_key(*key)) {
            let definition = object.remove("$ref").and_then(|reference| {
                target(&reference).and_then(|name| self.definitions.get(name)).cloned()
            });
            if let Some(Value::Object(definition)) = definition {
                return merged(definition, object);
            }
            return object;
        }
        let reference = object.remove("$ref").unwrap_or_default();
        object.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
        object
    }

    /// A `oneOf`, by what its variants are.
    fn union(&self, mut base: Object, variants: Vec<Value>, name: &str) -> Object {
        let mut words = Words::default();
        let mut objects = Vec::new();
        for variant in variants {
            match variant {
                Value::Object(mut variant) => {
                    if variant.contains_key("$ref") && variant.len() > 1 {
                        variant = self.reference_with_siblings(variant);
                    }
                    if !words.take(&variant) {
                        objects.push(variant);
                    }
                }
                other => {
                    base.insert("x-untagged".to_owned(), true.into());
                    objects.push(json!({ "allOf": [other] }).as_object().cloned().unwrap_or_default());
                }
            }
        }
        if base.contains_key("x-untagged") {
            return self.untagged(base, words, objects, name);
        }
        if objects.is_empty() {
            words.write(&mut base);
            return base;
        }
        match tag_of(&objects) {
            Some(tag) if words.is_empty() => self.tagged(base, &tag, objects, name),
            _ => self.externally_tagged(base, words, objects, name),
        }
    }

    fn tagged(&self, mut base: Object, tag: &str, variants: Vec<Object>, name: &str) -> Object {
        // Fields that stand beside a flattened union belong to each of its variants.
        let mut shared = Object::new();
        for key in ["properties", "required"] {
            if let Some(value) = base.remove(key) {
                shared.insert(key.to_owned(), value);
            }
        }
        base.remove("type");
        let variants = variants
            .into_iter()
            .map(|variant| {
                let mut variant = merged(shared.clone(), variant);
                let word = constant(&variant, tag).unwrap_or_default();
                let title = format!("{name}{}", pascal(&word));
                first_required(&mut variant, tag);
                variant.insert("type".to_owned(), "object".into());
                titled(self.node(Value::Object(variant), &title), &title)
            })
            .collect();
        base.insert("oneOf".to_owned(), Value::Array(variants));
        base.insert("discriminator".to_owned(), json!({ "propertyName": tag }));
        base
    }

    fn externally_tagged(&self, mut base: Object, words: Words, variants: Vec<Object>, name: &str) -> Object {
        let mut all = Vec::new();
        if !words.is_empty() {
            let mut variant = Object::new();
            words.write(&mut variant);
            all.push(titled(Value::Object(variant), &format!("{name}Word")));
        }
        for variant in variants {
            let key = strings(variant.get("required")).next().unwrap_or_default();
            let title = format!("{name}{}", pascal(&key));
            all.push(titled(self.node(Value::Object(variant), &title), &title));
        }
        base.insert("oneOf".to_owned(), Value::Array(all));
        base.insert("x-tagging".to_owned(), "external".into());
        base
    }

    fn untagged(&self, mut base: Object, words: Words, variants: Vec<Object>, name: &str) -> Object {
        let mut all: Vec<Value> =
            variants.into_iter().map(|variant| self.node(Value::Object(variant), name)).collect();
        if !words.is_empty() {
            let mut variant = Object::new();
            words.write(&mut variant);
            all.push(titled(Value::Object(variant), &format!("{name}Word")));
        }
        base.insert("oneOf".to_owned(), Value::Array(all));
        base
    }
}

/// The words of a fieldless enum, with what is said about each.
#[derive(Default)]
struct Words {
    words: Vec<Value>,
    descriptions: Object,
}

impl Words {
    /// Takes a variant that is a word or several; false if it is something else.
    fn take(&mut self, variant: &Object) -> bool {
        if variant.get("type").is_none_or(|kind| kind != "string") {
            return false;
        }
        if let Some(word) = variant.get("const") {
            if let (Some(word), Some(description)) = (word.as_str(), variant.get("description")) {
                self.descriptions.insert(word.to_owned(), description.clone());
            }
            self.words.push(word.clone());
            return true;
        }
        let Some(Value::Array(words)) = variant.get("enum") else { return false };
        self.words.extend(words.iter().cloned());
        if let Some(Value::Object(descriptions)) = variant.get("x-enumDescriptions") {
            self.descriptions.extend(descriptions.clone());
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn write(self, schema: &mut Object) {
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), Value::Array(self.words));
        if !self.descriptions.is_empty() {
            schema.insert("x-enumDescriptions".to_owned(), Value::Object(self.descriptions));
        }
    }
}

/// The required property that is another constant in each variant.
fn tag_of(variants: &[Object]) -> Option<String> {
    let first = variants.first()?;
    let candidates = strings(first.get("required"));
    candidates.into_iter().find(|tag| variants.iter().all(|variant| constant(variant, tag).is_some()))
}

fn constant(variant: &Object, property: &str) -> Option<String> {
    variant.get("properties")?.get(property)?.get("const")?.as_str().map(str::to_owned)
}

/// Puts a property first among the required ones.
fn first_required(schema: &mut Object, property: &str) {
    let rest = strings(schema.get("required")).filter(|name| name != property);
    let required: Vec<Value> = std::iter::once(property.to_owned()).chain(rest).map(Value::from).collect();
    schema.insert("required".to_owned(), Value::Array(required));
}

/// `base` with everything `more` has; properties and required names of both.
fn merged(mut base: Object, more: Object) -> Object {
    for (key, value) in more {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(properties)), Value::Object(more)) if key == "properties" => {
                properties.extend(more)
            }
            (Some(Value::Array(required)), Value::Array(more)) if key == "required" => {
                for name in more {
                    if !required.contains(&name) {
                        required.push(name);
                    }
                }
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
    base
}

/// Puts bounds in the place of Rust's names for numbers.
fn bound_integer(object: &mut Object) {
    let Some(format) = object.get("format").and_then(Value::as_str).map(str::to_owned) else { return };
    let (low, high) = match format.as_str() {
        "uint8" => (0, i64::from(u8::MAX)),
        "uint16" => (0, i64::from(u16::MAX)),
        "uint32" => (0, i64::from(u32::MAX)),
        "uint64" | "uint" => (0, MAX_SAFE),
        "int8" => (i64::from(i8::MIN), i64::from(i8::MAX)),
        "int16" => (i64::from(i16::MIN), i64::from(i16::MAX)),
        "int32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        "int64" | "int" => (-MAX_SAFE, MAX_SAFE),
        "float" | "double" => {
            object.remove("format");
            return;
        }
        _ => return,
    };
    object.remove("format");
    object.insert("minimum".to_owned(), low.into());
    object.insert("maximum".to_owned(), high.into());
}
