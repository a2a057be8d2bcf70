//! What agents ask of the user: permission requests and elicitation forms.

use serde_json::{Map, Value};
use signalbox_facts::{FieldKind, FieldOption, Form, FormField, OptionKind, PermissionOption};

use super::fields::{Object, into_object, object, take_filled, take_list, take_object, take_text, text};

/// Fields of a form; more are cut, as the fact says.
const MAX_FIELDS: usize = 32;
/// Choices of a field or of a permission request.
const MAX_OPTIONS: usize = 64;
/// A longer schema is not kept.
const SCHEMA_BYTES: usize = 64 << 10;

/// The options of a permission request, those without an id left out.
pub(crate) fn permission_options(list: Vec<Value>) -> Vec<PermissionOption> {
    list.into_iter().take(MAX_OPTIONS).filter_map(permission_option).collect()
}

fn permission_option(value: Value) -> Option<PermissionOption> {
    let mut object = into_object(value).ok()?;
    let id = take_filled(&mut object, "optionId").or_else(|| take_filled(&mut object, "id"))?;
    let label = take_filled(&mut object, "name").unwrap_or_else(|| id.clone());
    let kind = match take_text(&mut object, "kind").unwrap_or_default() {
        kind if kind == "allow_once" => OptionKind::AllowOnce,
        kind if kind == "allow_always" => OptionKind::AllowAlways,
        kind if kind == "reject_once" => OptionKind::RejectOnce,
        kind if kind == "reject_always" => OptionKind::RejectAlways,
        kind => OptionKind::Other(kind),
    };
    Some(PermissionOption { id, label, kind })
}

/// The form of an `elicitation/create` request; `None` for one that is no form.
pub(crate) fn form(params: &mut Object) -> Option<Form> {
    if text(params, "mode").is_some_and(|mode| mode != "form") {
        return None;
    }
    let message = take_text(params, "message").unwrap_or_default();
    let schema = take_object(params, "requestedSchema").unwrap_or_default();
    let empty = Map::new();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = object(&schema, "properties").unwrap_or(&empty);
    let fields = properties.iter().take(MAX_FIELDS).filter_map(|(key, property)| {
        Some(field(key, property.as_object()?, required.contains(&key.as_str())))
    });
    let fields = fields.collect();
    let schema = Value::Object(schema);
    let short = serde_json::to_vec(&schema).is_ok_and(|text| text.len() <= SCHEMA_BYTES);
    Some(Form { message, fields, schema: if short { schema } else { Value::Null } })
}

fn field(key: &str, property: &Object, required: bool) -> FormField {
    let empty = Map::new();
    let items = object(property, "items").unwrap_or(&empty);
    let (kind, options) = match text(property, "type") {
        Some("boolean") => (FieldKind::Boolean, Vec::new()),
        Some("integer") => (FieldKind::Integer, Vec::new()),
        Some("number") => (FieldKind::Number, Vec::new()),
        Some("array") => (FieldKind::MultiSelect, field_options(items)),
        _ => match field_options(property) {
            options if options.is_empty() => (FieldKind::Text, options),
            options => (FieldKind::Select, options),
        },
    };
    let owned = |key| text(property, key).filter(|text| !text.is_empty()).map(str::to_owned);
    FormField {
        key: key.to_owned(),
        kind,
        title: owned("title"),
        description: owned("description"),
        required,
        options,
    }
}

/// Choices: `enum` with perhaps `enumNames`, or `oneOf`/`anyOf` of constants.
fn field_options(schema: &Object) -> Vec<FieldOption> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames");
        let label = |index: usize| names.and_then(|names| names.get(index)?.as_str());
        let options = values.iter().enumerate().filter_map(|(index, value)| {
            let value = value.as_str()?.to_owned();
            Some(FieldOption { label: label(index).unwrap_or(&value).to_owned(), value })
        });
        return options.take(MAX_OPTIONS).collect();
    }
    let constants = list("oneOf").or_else(|| list("anyOf")).into_iter().flatten();
    let options = constants.filter_map(|option| {
        let option = option.as_object()?;
        let value = text(option, "const")?.to_owned();
        Some(FieldOption { label: text(option, "title").unwrap_or(&value).to_owned(), value })
    });
    options.take(MAX_OPTIONS).collect()
}

/// The tool call that a permission request is about, and its options.
pub(crate) fn permission(params: &mut Object) -> (Object, Vec<PermissionOption>) {
    let mut call = take_object(params, "toolCall").unwrap_or_default();
    // Newer agents give the request a title of its own.
    if !call.contains_key("title")
        && let Some(title) = take_filled(params, "title")
    {
        call.insert("title".to_owned(), Value::String(title));
    }
    (call, permission_options(take_list(params, "options").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_option_kinds_are_kept() {
        let Value::Array(list) = json!([{"optionId":"a","name":"A","kind":"allow_twice"},{"optionId":0,"kind":"reject_once"},{"name":"no id"}])
        else {
            panic!()
        };
        let options = permission_options(list);
        assert_eq!(options.len(), 2);
        assert_eq!(options[0].kind, OptionKind::Other("allow_twice".into()));
        assert_eq!((options[1].id.as_str(), options[1].label.as_str()), ("0", "0"));
    }

    #[test]
    fn a_form_is_normalised() {
        let Value::Object(mut params) = json!({"mode":"form","message":"Which?","requestedSchema":{"type":"object","required":["a"],
            "properties":{
                "a":{"type":"string","title":"A","oneOf":[{"const":"r","title":"Red"},{"const":"b"}]},
                "b":{"type":"array","items":{"enum":["x","y"]}},
                "c":{"type":"string"},"d":{"type":"boolean"}}}})
        else {
            panic!()
        };
        let form = form(&mut params).unwrap();
        let kinds: Vec<_> =
            form.fields.iter().map(|field| (field.key.as_str(), field.kind, field.required)).collect();
        assert_eq!(
            kinds,
            [
                ("a", FieldKind::Select, true),
                ("b", FieldKind::MultiSelect, false),
                ("c", FieldKind::Text, false),
                ("d", FieldKind::Boolean, false)
            ]
        );
        assert_eq!(form.fields[0].options[0].label, "Red");
        assert_eq!(form.fields[1].options.len(), 2);
    }

    #[test]
    fn a_link_to_open_is_no_form() {
        let Value::Object(mut params) = json!({"mode":"url","url":"https://x","message":"m"}) else {
            panic!()
        };
        assert!(form(&mut params).is_none());
    }
}
