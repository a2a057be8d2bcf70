//! What of an answer to a question reaches the agent: only what the form asked for. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use signalbox_facts::{FieldKind, Form, FormField};

const MAX_TEXT_SCALARS: usize = 8192;

/// The first required field that an answer, already sanitized, has no value for.
#[must_use]
pub(crate) fn missing<'a>(form: &'a Form, content: &BTreeMap<String, Value>) -> Option<&'a FormField> {
    form.fields.iter().find(|field| field.required && !content.contains_key(&field.key))
}

/// Drops unknown keys, values of the wrong type and choices that were not offered.
#[must_use]
pub(crate) fn sanitize(form: &Form, mut content: Map<String, Value>) -> BTreeMap<String, Value> {
    let clean = |field: &FormField| Some((field.key.clone(), clean(field, content.remove(&field.key)?)?));
    form.fields.iter().filter_map(clean).collect()
}

fn clean(field: &FormField, value: Value) -> Option<Value> {
    let offered = |text: &str| field.options.iter().any(|option| option.value == text);
    match (field.kind, value) {
        (FieldKind::Text, Value::String(text)) => {
            let text: String = text.trim().chars().take(MAX_TEXT_SCALARS).collect();
            (!text.is_empty()).then_some(Value::String(text))
        }
        (FieldKind::Number, Value::Number(number)) => Some(Value::Number(number)),
        (FieldKind::Integer, Value::Number(number)) if !number.is_f64() => Some(Value::Number(number)),
        (FieldKind::Boolean, Value::Bool(flag)) => Some(Value::Bool(flag)),
        (FieldKind::Select, Value::String(text)) if offered(&text) => Some(Value::String(text)),
        (FieldKind::MultiSelect, Value::Array(values)) => {
            let kept: Vec<_> =
                values.into_iter().filter(|value| value.as_str().is_some_and(offered)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use signalbox_facts::FieldOption;

    #[test]
    fn only_what_was_asked_for_gets_through() {
        let field = |key: &str, kind| FormField {
            key: key.into(),
            kind,
            title: None,
            description: None,
            required: false,
            options: vec![FieldOption { value: "a".into(), label: "A".into() }],
        };
        let fields = vec![
            field("text", FieldKind::Text),
            field("count", FieldKind::Integer),
            field("one", FieldKind::Select),
            field("many", FieldKind::MultiSelect),
            field("yes", FieldKind::Boolean),
        ];
        let form = Form { message: "?".into(), fields, schema: Value::Null };
        let given = json!({"text": "  x ", "count": 1.5, "one": "b", "many": ["a", "z"], "yes": "true", "smuggled": 1});
        let Value::Object(given) = given else { panic!() };
        let clean = serde_json::to_value(sanitize(&form, given)).unwrap();
        assert_eq!(clean, json!({"text": "x", "many": ["a"]}));
    }
}
