//! Questions of agents: forms from their JSON Schema, each field with its bounds, and addresses to open.

use serde_json::{Map, Number, Value};
use signalbox_facts::{FieldKind, FieldOption, Form, FormField, FormLink};

use super::fields::{Object, count, object, take_filled, take_object, take_text, text};

/// Fields of a form; more are cut, as the fact says.
const MAX_FIELDS: usize = 32;
/// Choices of a field.
const MAX_OPTIONS: usize = 64;
/// A longer schema is not kept.
const SCHEMA_BYTES: usize = 64 << 10;
/// A longer address is no question.
const URL_BYTES: usize = 8 << 10;

/// Why a question cannot be put to anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unaskable {
    /// Its `mode` is none that this version knows.
    Mode,
    /// What is to be opened is no web address, or an immense one.
    Address,
}

/// What an `elicitation/create` request asks. `other_suffix`: see [`crate::vendors::Quirks::other_suffix`].
pub(crate) fn form(params: &mut Object, other_suffix: Option<&str>) -> Result<Form, Unaskable> {
    match text(params, "mode") {
        None | Some("form") => Ok(fields(params, other_suffix)),
        Some("url") => link(params),
        Some(_) => Err(Unaskable::Mode),
    }
}

fn link(params: &mut Object) -> Result<Form, Unaskable> {
    let url = take_text(params, "url").unwrap_or_default();
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && url.len() > scheme.len()
    });
    if !is_web || url.len() > URL_BYTES || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Unaskable::Address);
    }
    let id = take_text(params, "elicitationId").unwrap_or_default();
    let message = take_text(params, "message").unwrap_or_default();
    Ok(Form { message, link: Some(FormLink { id, url }), ..Form::default() })
}

fn fields(params: &mut Object, other_suffix: Option<&str>) -> Form {
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
    let mut fields: Vec<FormField> = fields.collect();
    if let Some(suffix) = other_suffix {
        tie_others(&mut fields, suffix);
    }
    let schema = Value::Object(schema);
    let short = serde_json::to_vec(&schema).is_ok_and(|text| text.len() <= SCHEMA_BYTES);
    Form { message, fields, schema: if short { schema } else { Value::Null }, link: None }
}

/// Ties a text to the choice that it is the other answer to, where the agent names them alike.
fn tie_others(fields: &mut [FormField], suffix: &str) {
    let is_choice = |field: &&FormField| matches!(field.kind, FieldKind::Select | FieldKind::MultiSelect);
    let choices: Vec<String> = fields.iter().filter(is_choice).map(|field| field.key.clone()).collect();
    for field in fields.iter_mut().filter(|field| field.kind == FieldKind::Text) {
        let choice = field.key.strip_suffix(suffix);
        field.other_of = choice.and_then(|key| choices.iter().find(|known| *known == key)).cloned();
    }
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
    let (least, most) = match kind {
        FieldKind::Text => ("minLength", "maxLength"),
        FieldKind::Number | FieldKind::Integer => ("minimum", "maximum"),
        FieldKind::MultiSelect => ("minItems", "maxItems"),
        FieldKind::Boolean | FieldKind::Select => ("", ""),
    };
    let bound = |key: &str| match kind {
        FieldKind::Number | FieldKind::Integer => property.get(key)?.as_number().cloned(),
        _ => count(property, key).map(Number::from),
    };
    let owned = |key| text(property, key).filter(|text| !text.is_empty()).map(str::to_owned);
    let of_text = |key| owned(key).filter(|_| kind == FieldKind::Text);
    FormField {
        key: key.to_owned(),
        title: owned("title"),
        description: owned("description"),
        required,
        default: property.get("default").filter(|value| fits(kind, &options, value)).cloned(),
        min: bound(least),
        max: bound(most),
        pattern: of_text("pattern"),
        format: of_text("format"),
        other_of: None,
        kind,
        options,
    }
}

/// Whether a value is one that the field could be answered with; a default that is not would be refused.
fn fits(kind: FieldKind, options: &[FieldOption], value: &Value) -> bool {
    let offered =
        |value: &Value| value.as_str().is_some_and(|text| options.iter().any(|option| option.value == text));
    match kind {
        FieldKind::Text => value.is_string(),
        FieldKind::Number => value.is_number(),
        FieldKind::Integer => value.is_i64() || value.is_u64(),
        FieldKind::Boolean => value.is_boolean(),
        FieldKind::Select => offered(value),
        FieldKind::MultiSelect => value.as_array().is_some_and(|values| values.iter().all(offered)),
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
            Some(FieldOption { label: label(index).unwrap_or(&value).to_owned(), value, description: None })
        });
        return options.take(MAX_OPTIONS).collect();
    }
    let constants = list("oneOf").or_else(|| list("anyOf")).into_iter().flatten();
    let options = constants.filter_map(|option| {
        let mut option = option.as_object()?.clone();
        let value = take_text(&mut option, "const")?;
        Some(FieldOption {
            label: take_filled(&mut option, "title").unwrap_or_else(|| value.clone()),
            value,
            description: take_filled(&mut option, "description"),
        })
    });
    options.take(MAX_OPTIONS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(params: Value, other_suffix: Option<&str>) -> Result<Form, Unaskable> {
        let Value::Object(mut params) = params else { panic!() };
        form(&mut params, other_suffix)
    }

    #[test]
    fn a_form_is_normalised() {
        let form = asked(
            json!({"mode":"form","message":"Which?","requestedSchema":{"type":"object","required":["a"],
            "properties":{
                "a":{"type":"string","title":"A","oneOf":[{"const":"r","title":"Red","description":"warm"},{"const":"b"}]},
                "b":{"type":"array","items":{"enum":["x","y"]},"minItems":1,"maxItems":2,"default":["y"]},
                "c":{"type":"string"},"d":{"type":"boolean","default":true}}}}),
            None,
        )
        .unwrap();
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
        let red = &form.fields[0].options[0];
        assert_eq!((red.label.as_str(), red.description.as_deref()), ("Red", Some("warm")));
        let many = &form.fields[1];
        assert_eq!((many.options.len(), &many.min, &many.max), (2, &Some(1.into()), &Some(2.into())));
        assert_eq!((&many.default, &form.fields[3].default), (&Some(json!(["y"])), &Some(json!(true))));
    }

    #[test]
    fn bounds_come_along_and_defaults_of_another_kind_do_not() {
        let form = asked(
            json!({"requestedSchema":{"properties":{
                "name":{"type":"string","minLength":2,"maxLength":9,"pattern":"^a","format":"email","default":7},
                "share":{"type":"number","minimum":0.5,"maximum":1,"default":0.75},
                "count":{"type":"integer","minimum":-3,"default":1.5},
                "one":{"type":"string","enum":["x"],"default":"gone"}}}}),
            None,
        )
        .unwrap();
        let field = |key: &str| form.fields.iter().find(|field| field.key == key).unwrap();
        let name = field("name");
        assert_eq!((&name.min, &name.max), (&Some(2.into()), &Some(9.into())));
        assert_eq!((name.pattern.as_deref(), name.format.as_deref()), (Some("^a"), Some("email")));
        assert_eq!((&name.default, &field("count").default, &field("one").default), (&None, &None, &None));
        assert_eq!((&field("share").min, &field("count").min), (&Number::from_f64(0.5), &Some((-3).into())));
        assert_eq!(field("share").default, Some(json!(0.75)));
    }

    #[test]
    fn an_answer_in_words_of_ones_own_is_tied_to_its_choice() {
        let params = json!({"requestedSchema":{"properties":{
            "q":{"type":"string","enum":["x"]},"q_custom":{"type":"string"},"r_custom":{"type":"string"}}}});
        let other = |suffix| {
            let form = asked(params.clone(), suffix).unwrap();
            form.fields.iter().map(|field| field.other_of.clone()).collect::<Vec<_>>()
        };
        assert_eq!(other(Some("_custom")), [None, Some("q".to_owned()), None]);
        assert_eq!(other(None), [None, None, None]);
    }

    #[test]
    fn an_address_to_open_is_kept_if_it_is_one_of_the_web() {
        let open = |url: &str| asked(json!({"mode":"url","elicitationId":"e","url":url,"message":"m"}), None);
        let form = open("https://x.test/login?a=1").unwrap();
        let link = FormLink { id: "e".into(), url: "https://x.test/login?a=1".into() };
        assert_eq!((form.message.as_str(), form.link, form.fields.len()), ("m", Some(link), 0));
        let long = format!("https://{}", "x".repeat(URL_BYTES));
        for url in ["", "https://", "javascript:alert(1)", "file:///etc/passwd", "https://a\nb", "x", &long] {
            assert_eq!(open(url), Err(Unaskable::Address), "{url}");
        }
        assert_eq!(asked(json!({"mode":"smoke"}), None), Err(Unaskable::Mode));
    }
}
