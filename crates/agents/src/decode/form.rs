//! Questions of agents: forms from their JSON Schema, each field with its bounds, and addresses to open.

use serde_json::{Map, Number, Value};
use signalbox_facts::{FieldKind, FieldOption, Form, FormField, FormLink};

use super::fields::{
    ABOUT_BYTES, ID_BYTES, MESSAGE_BYTES, NAME_BYTES, Object, count, cut, object, take_about, take_id,
    take_message, take_name, take_object, take_text, text,
};

/// A form of more fields is not asked: what is not shown cannot be answered.
const MAX_FIELDS: usize = 256;
/// Choices of a field.
const MAX_OPTIONS: usize = 64;
/// All texts of a form together.
const FORM_BYTES: usize = 512 << 10;
/// A longer schema is not kept.
const SCHEMA_BYTES: usize = 64 << 10;
/// A longer address is no question.
const URL_BYTES: usize = 8 << 10;

/// Why a question cannot be put to anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unaskable {
    /// Its `mode` is none that this version knows.
    Mode,
    /// What is to be opened is no web address, an immense one, or one that looks like another.
    Address,
    /// It has more fields or longer texts than anybody can be shown.
    Size,
}

/// What an `elicitation/create` request asks. `other_suffix`: see [`crate::vendors::Quirks::other_suffix`].
pub(crate) fn form(params: &mut Object, other_suffix: Option<&str>) -> Result<Form, Unaskable> {
    match text(params, "mode") {
        None | Some("form") => fields(params, other_suffix),
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
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || is_invisible(c);
    if !is_web || url.len() > URL_BYTES || url.chars().any(is_odd) || has_user(&url) {
        return Err(Unaskable::Address);
    }
    let id = take_id(params, "elicitationId").unwrap_or_default();
    let message = take_message(params, "message").unwrap_or_default();
    Ok(Form { message, link: Some(FormLink { id, url }), ..Form::default() })
}

/// Characters that are not seen, or change the order in which others are.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether a name of a user stands before the host, which then looks like another host. Browsers take a backslash for a
/// slash.
fn has_user(url: &str) -> bool {
    let rest = url.split_once(':').map_or("", |(_, rest)| rest).trim_start_matches(['/', '\\']);
    rest.split(['/', '\\', '?', '#']).next().is_some_and(|host| host.contains('@'))
}

fn fields(params: &mut Object, other_suffix: Option<&str>) -> Result<Form, Unaskable> {
    let message = take_message(params, "message").unwrap_or_default();
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
    if properties.len() > MAX_FIELDS || properties.keys().any(|key| key.len() > ID_BYTES) {
        return Err(Unaskable::Size);
    }
    let fields = properties.iter().filter_map(|(key, property)| {
        Some(field(key, property.as_object()?, required.contains(&key.as_str())))
    });
    let mut fields: Vec<FormField> = fields.collect();
    if let Some(suffix) = other_suffix {
        tie_others(&mut fields, suffix);
    }
    if fields.iter().map(weight).sum::<usize>() > FORM_BYTES {
        return Err(Unaskable::Size);
    }
    let schema = Value::Object(schema);
    let short = serde_json::to_vec(&schema).is_ok_and(|text| text.len() <= SCHEMA_BYTES);
    Ok(Form { message, fields, schema: if short { schema } else { Value::Null }, link: None })
}

fn weight(field: &FormField) -> usize {
    let some = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let option = |option: &FieldOption| option.value.len() + option.label.len() + some(&option.description);
    let default = field.default.as_ref().map_or(0, |value| value.to_string().len());
    field.key.len()
        + some(&field.title)
        + some(&field.description)
        + default
        + field.options.iter().map(option).sum::<usize>()
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
    let owned = |key, bytes| {
        let text = text(property, key).filter(|text| !text.is_empty());
        text.map(|text| cut(head(text, bytes).to_owned(), bytes))
    };
    // A part of a pattern is another pattern.
    let of_text = |key| {
        let text = text(property, key).filter(|text| !text.is_empty() && text.len() <= NAME_BYTES);
        text.filter(|_| kind == FieldKind::Text).map(str::to_owned)
    };
    let is_usual = |value: &&Value| value.as_str().is_none_or(|text| text.len() <= MESSAGE_BYTES);
    FormField {
        key: key.to_owned(),
        title: owned("title", NAME_BYTES),
        description: owned("description", ABOUT_BYTES),
        required,
        default: property
            .get("default")
            .filter(is_usual)
            .filter(|value| fits(kind, &options, value))
            .cloned(),
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

/// So much of a text that cutting it shows that there was more.
fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes + 4)).unwrap_or_default()
}

/// Choices: `enum` with perhaps `enumNames`, or `oneOf`/`anyOf` of constants.
fn field_options(schema: &Object) -> Vec<FieldOption> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames");
        let label = |index: usize| names.and_then(|names| names.get(index)?.as_str());
        let options = values.iter().enumerate().filter_map(|(index, value)| {
            let value = value.as_str().filter(|value| value.len() <= ID_BYTES)?;
            let label = label(index).unwrap_or(value);
            let label = cut(head(label, NAME_BYTES).to_owned(), NAME_BYTES);
            Some(FieldOption { label, value: value.to_owned(), description: None })
        });
        return options.take(MAX_OPTIONS).collect();
    }
    let constants = list("oneOf").or_else(|| list("anyOf")).into_iter().flatten();
    let options = constants.filter_map(|option| {
        let mut option = option.as_object()?.clone();
        let value = take_text(&mut option, "const").filter(|value| value.len() <= ID_BYTES)?;
        Some(FieldOption {
            label: take_name(&mut option, "title").unwrap_or_else(|| value.clone()),
            value,
            description: take_about(&mut option, "description"),
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
    fn a_form_is_bounded_or_not_asked() {
        let of = |count: usize| {
            let fields = (0..count).map(|at| (format!("f{at}"), json!({"type": "string"})));
            asked(json!({"requestedSchema": {"properties": fields.collect::<Map<_, _>>()}}), None)
        };
        assert_eq!(of(MAX_FIELDS).unwrap().fields.len(), MAX_FIELDS);
        assert_eq!(of(MAX_FIELDS + 1), Err(Unaskable::Size));
        let big = "b".repeat(1 << 20);
        let key = json!({"requestedSchema": {"properties": {big.clone(): {"type": "string"}}}});
        assert_eq!(asked(key, None), Err(Unaskable::Size));
        let form = json!({"message": big, "requestedSchema": {"properties": {"a": {"type": "string", "title": big,
            "description": big, "default": big, "pattern": big, "format": big},
            "b": {"enum": [big, "x"], "enumNames": ["y", big]},
            "c": {"oneOf": [{"const": big}, {"const": "x", "title": big, "description": big}]}}}});
        let form = asked(form, None).unwrap();
        assert_eq!((form.fields.len(), &form.schema), (3, &Value::Null));
        assert_eq!(form.fields.iter().map(|field| field.options.len()).collect::<Vec<_>>(), [0, 1, 1]);
        let bytes = form.message.len() + form.fields.iter().map(weight).sum::<usize>();
        assert!(bytes < 40 << 10, "{bytes}");
        assert!(form.message.ends_with('\u{2026}'));
        // Many texts that are each short enough.
        let fields = (0..200).map(|at| (format!("f{at}"), json!({"description": big})));
        let form = asked(json!({"requestedSchema": {"properties": fields.collect::<Map<_, _>>()}}), None);
        assert_eq!(form, Err(Unaskable::Size));
    }

    #[test]
    fn an_address_to_open_is_kept_if_it_is_one_of_the_web() {
        let open = |url: &str| asked(json!({"mode":"url","elicitationId":"e","url":url,"message":"m"}), None);
        let form = open("https://x.test/login?a=1").unwrap();
        let link = FormLink { id: "e".into(), url: "https://x.test/login?a=1".into() };
        assert_eq!((form.message.as_str(), form.link, form.fields.len()), ("m", Some(link), 0));
        let long = format!("https://{}", "x".repeat(URL_BYTES));
        for url in [
            "https://user:pw@x.test",
            "https://good.test@evil.test/",
            "https:///a@b",
            "https://a\u{202e}b",
            "https://a\u{200b}b",
            "https://a\u{2066}b",
        ] {
            assert_eq!(open(url), Err(Unaskable::Address), "{url:?}");
        }
        assert!(open("https://x.test/@me?to=a@b").is_ok());
        for url in ["", "https://", "javascript:alert(1)", "file:///etc/passwd", "https://a\nb", "x", &long] {
            assert_eq!(open(url), Err(Unaskable::Address), "{url}");
        }
        assert_eq!(asked(json!({"mode":"smoke"}), None), Err(Unaskable::Mode));
    }
}
