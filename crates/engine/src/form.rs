//! What of an answer to a question reaches the agent: only what the form asked for, and only within its bounds. Pure.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use serde_json::{Map, Number, Value};
use signalbox_facts::{FieldKind, Form, FormField};

const MAX_TEXT_SCALARS: usize = 8192;
/// What a pattern may take when it is compiled; patterns are the agent's.
const PATTERN_BYTES: usize = 1 << 20;

/// The first required field that an answer, already sanitized, has no value for.
#[must_use]
pub(crate) fn missing<'a>(form: &'a Form, content: &BTreeMap<String, Value>) -> Option<&'a FormField> {
    form.fields.iter().find(|field| field.required && !content.contains_key(&field.key))
}

/// Why an answer is none to this form: it has values, and for none of the form's fields.
#[must_use]
pub(crate) fn none_known(form: &Form, content: &Map<String, Value>) -> Option<String> {
    const SHOWN: usize = 16;
    if content.is_empty()
        || form.fields.is_empty()
        || form.fields.iter().any(|field| content.contains_key(&field.key))
    {
        return None;
    }
    let fields: Vec<_> = form.fields.iter().take(SHOWN).map(|field| format!("{:?}", field.key)).collect();
    let more = if form.fields.len() > SHOWN { ", and others" } else { "" };
    Some(format!("it has no value for any field of the form: {}{more}", fields.join(", ")))
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

/// Why the first value of an answer, already sanitized, that breaks a bound of its field cannot be taken.
#[must_use]
pub(crate) fn out_of_bounds(form: &Form, content: &BTreeMap<String, Value>) -> Option<String> {
    form.fields.iter().find_map(|field| {
        let wrong = wrong(field, content.get(&field.key)?)?;
        Some(format!("{:?} {wrong}", field.key))
    })
}

fn wrong(field: &FormField, value: &Value) -> Option<String> {
    let count = |count: usize, what: &str| {
        let count = count as u64;
        let least = field.min.as_ref().and_then(Number::as_u64).filter(|min| count < *min);
        let most = field.max.as_ref().and_then(Number::as_u64).filter(|max| count > *max);
        least
            .map(|min| format!("needs at least {min} {what}, not {count}"))
            .or_else(|| most.map(|max| format!("takes at most {max} {what}, not {count}")))
    };
    match (field.kind, value) {
        (FieldKind::Text, Value::String(text)) => {
            count(text.chars().count(), "characters").or_else(|| unlike(field, text))
        }
        (FieldKind::Number | FieldKind::Integer, Value::Number(number)) => {
            let value = number.as_f64()?;
            let beyond = |bound: &Option<Number>, is: fn(&f64, &f64) -> bool| {
                bound.clone().filter(|bound| bound.as_f64().is_some_and(|bound| is(&value, &bound)))
            };
            beyond(&field.min, f64::lt).map(|min| format!("must be at least {min}, not {number}")).or_else(
                || beyond(&field.max, f64::gt).map(|max| format!("must be at most {max}, not {number}")),
            )
        }
        (FieldKind::MultiSelect, Value::Array(values)) => count(values.len(), "choices"),
        _ => None,
    }
}

/// Whether a text is not what it should be. A pattern or a format that is not understood is left to the agent.
fn unlike(field: &FormField, text: &str) -> Option<String> {
    if let Some(pattern) = &field.pattern
        && let Ok(regex) = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build()
        && !regex.is_match(text)
    {
        return Some(format!("must match the pattern {pattern}"));
    }
    let (is_it, such_as) = match field.format.as_deref()? {
        "email" => (is_email(text), "an e-mail address such as name@example.org"),
        "uri" => (is_uri(text), "an address such as https://example.org"),
        "date" => (is_date(text), "a date such as 2026-01-31"),
        "date-time" => (is_date_time(text), "a date and time such as 2026-01-31T12:00:00Z"),
        _ => return None,
    };
    (!is_it).then(|| format!("must be {such_as}"))
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
        && !text.chars().any(char::is_whitespace)
}

fn is_uri(text: &str) -> bool {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(is_scheme)
            && !rest.is_empty()
    }) && !text.chars().any(char::is_whitespace)
}

/// Whether it has the form of an ISO 8601 date; the calendar is the agent's concern.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut number = |digits: usize, most: u16| {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()));
        part.and_then(|part| part.parse().ok()).is_some_and(|number: u16| number <= most)
    };
    number(4, 9999) && number(2, 12) && number(2, 31)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let digits =
        |from: usize| time.get(from..from + 2).is_some_and(|two| two.bytes().all(|b| b.is_ascii_digit()));
    is_date(date) && digits(0) && digits(3) && time.get(2..3) == Some(":")
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
            options: vec![FieldOption { value: "a".into(), label: "A".into(), description: None }],
            ..FormField::default()
        };
        let fields = vec![
            field("text", FieldKind::Text),
            field("count", FieldKind::Integer),
            field("one", FieldKind::Select),
            field("many", FieldKind::MultiSelect),
            field("yes", FieldKind::Boolean),
        ];
        let form = Form { fields, ..Form::default() };
        let given = json!({"text": "  x ", "count": 1.5, "one": "b", "many": ["a", "z"], "yes": "true", "smuggled": 1});
        let Value::Object(given) = given else { panic!() };
        let clean = serde_json::to_value(sanitize(&form, given)).unwrap();
        assert_eq!(clean, json!({"text": "x", "many": ["a"]}));
    }

    #[test]
    fn a_value_out_of_bounds_is_named_with_its_bound() {
        let check = |kind, change: fn(&mut FormField), value: Value| {
            let mut field = FormField { key: "f".into(), kind, ..FormField::default() };
            change(&mut field);
            let form = Form { fields: vec![field], ..Form::default() };
            out_of_bounds(&form, &BTreeMap::from([("f".to_owned(), value)]))
        };
        let text = |change, text: &str| check(FieldKind::Text, change, json!(text));
        let long = text(|f| f.max = Some(3.into()), "häße");
        assert_eq!(long.as_deref(), Some("\"f\" takes at most 3 characters, not 4"));
        assert_eq!(text(|f| f.min = Some(4.into()), "häße"), None);
        let pattern = text(|f| f.pattern = Some("^\\d+$".into()), "12a");
        assert_eq!(pattern.as_deref(), Some("\"f\" must match the pattern ^\\d+$"));
        assert_eq!(text(|f| f.pattern = Some("^\\d+$".into()), "12"), None);
        assert_eq!(text(|f| f.pattern = Some("(?<=x)broken(".into()), "12"), None, "not understood here");
        let number = |change, value| check(FieldKind::Number, change, value);
        let small = number(|f| f.min = Number::from_f64(0.5), json!(0.25));
        assert_eq!(small.as_deref(), Some("\"f\" must be at least 0.5, not 0.25"));
        assert_eq!(number(|f| f.max = Some(3.into()), json!(3)), None);
        assert!(number(|f| f.max = Some(3.into()), json!(4)).is_some());
        let many = check(FieldKind::MultiSelect, |f| f.min = Some(2.into()), json!(["a"]));
        assert_eq!(many.as_deref(), Some("\"f\" needs at least 2 choices, not 1"));
    }

    #[test]
    fn formats_are_looked_at_in_shape_only() {
        let good = [
            ("email", "a@b"),
            ("uri", "urn:x"),
            ("date", "2026-12-01"),
            ("date-time", "2026-12-01T09:30:00+01:00"),
            ("hologram", "anything"),
        ];
        let bad = [
            ("email", "a b@c"),
            ("email", "nobody"),
            ("uri", "no scheme"),
            ("date", "1.12.2026"),
            ("date", "2026-13-01"),
            ("date-time", "2026-12-01"),
        ];
        let unlike = |format: &str, text: &str| {
            unlike(&FormField { format: Some(format.into()), ..FormField::default() }, text)
        };
        for (format, text) in good {
            assert_eq!(unlike(format, text), None, "{format} {text}");
        }
        for (format, text) in bad {
            assert!(unlike(format, text).is_some(), "{format} {text}");
        }
    }
    #[test]
    fn values_for_no_field_of_the_form_are_no_answer() {
        let text = FormField { key: "name".into(), kind: FieldKind::Text, ..FormField::default() };
        let form = Form { fields: vec![text], ..Form::default() };
        let content = |value: Value| value.as_object().cloned().unwrap();
        let message = none_known(&form, &content(json!({"nmae": "x"}))).unwrap();
        assert!(message.contains("\"name\""), "{message}");
        for given in [json!({}), json!({"name": ""}), json!({"name": "x", "more": 1})] {
            assert_eq!(none_known(&form, &content(given)), None);
        }
        assert_eq!(none_known(&Form::default(), &content(json!({"a": 1}))), None);
    }
}
