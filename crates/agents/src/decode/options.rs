//! Config options, and the modes and models of older agents.

use serde_json::Value;
use signalbox_facts::{Choice, ConfigOption, ConfigValue, Model};

use super::fields::{
    ID_BYTES, into_object, take_about, take_id, take_list, take_name, take_text, text, within,
};
use crate::update::AgentModes;

/// Options kept; choices of one, groups taken together.
const MAX_OPTIONS: usize = 200;
const MAX_CHOICES: usize = 2000;
/// Of all options together; of all models; of all modes.
const MAX_BYTES: usize = 1 << 20;
/// The value of an option of an unknown type, as text.
const MAX_VALUE_CHARS: usize = 200;

/// The whole set of config options; entries without an id are left out.
pub(crate) fn config_options(list: Vec<Value>) -> Vec<ConfigOption> {
    let options = list.into_iter().take(MAX_OPTIONS).filter_map(config_option).collect();
    within(options, MAX_BYTES, |option| {
        let about = option.category.as_deref().map_or(0, str::len)
            + weight(&option.id, &option.name, &option.description);
        let choices = option.choices.iter();
        about + choices.map(|choice| weight(&choice.id, &choice.name, &choice.description)).sum::<usize>()
    })
}

fn weight(id: &str, name: &str, about: &Option<String>) -> usize {
    id.len() + name.len() + about.as_ref().map_or(0, String::len)
}

fn config_option(value: Value) -> Option<ConfigOption> {
    let mut object = into_object(value).ok()?;
    // The first version's word and the second's.
    let id = take_id(&mut object, "id").or_else(|| take_id(&mut object, "configId"))?;
    let name = take_name(&mut object, "name").unwrap_or_else(|| id.clone());
    let category = take_name(&mut object, "category");
    let description = take_about(&mut object, "description");
    let mut choices = Vec::new();
    add_choices(take_list(&mut object, "options").unwrap_or_default(), None, &mut choices);
    let value = object.get_mut("currentValue").map(Value::take).unwrap_or_default();
    let (current, fixed) = match (text(&object, "type"), value) {
        (Some("boolean"), Value::Bool(flag)) => (ConfigValue::Flag(flag), false),
        (Some("boolean"), _) => (ConfigValue::Flag(false), false),
        (Some("select") | None, Value::String(choice)) if choice.len() <= ID_BYTES => {
            let fixed = choices.is_empty();
            (ConfigValue::Choice(choice), fixed)
        }
        (None, Value::Bool(flag)) => (ConfigValue::Flag(flag), false),
        (Some("select") | None, _) if !choices.is_empty() => (ConfigValue::Choice(String::new()), false),
        // What can be set of it, and how, is not known; that it is there is.
        (_, value) => (ConfigValue::Choice(shown(value)), true),
    };
    if fixed {
        choices.clear();
    }
    Some(ConfigOption { id, name, category, description, current, choices, fixed })
}

/// A value of any type as text.
fn shown(value: Value) -> String {
    let text = match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    text.chars().take(MAX_VALUE_CHARS).collect()
}

/// Choices, flat or in groups; those of a group know its name.
fn add_choices(list: Vec<Value>, group: Option<&str>, all: &mut Vec<Choice>) {
    for value in list {
        if all.len() == MAX_CHOICES {
            return;
        }
        let Ok(mut object) = into_object(value) else { continue };
        if let Some(inner) = take_list(&mut object, "options").filter(|_| group.is_none()) {
            let name = take_name(&mut object, "name").or_else(|| take_name(&mut object, "group"));
            add_choices(inner, Some(name.as_deref().unwrap_or_default()), all);
        } else if let Some(id) = take_text(&mut object, "value").filter(|id| id.len() <= ID_BYTES) {
            let name = take_name(&mut object, "name").unwrap_or_else(|| id.clone());
            let group = group.filter(|name| !name.is_empty()).map(str::to_owned);
            all.push(Choice { id, name, description: take_about(&mut object, "description"), group });
        }
    }
}

/// The `models` of older agents: those on offer and the current one.
pub(crate) fn models(value: Value) -> Option<(Vec<Model>, String)> {
    let mut object = into_object(value).ok()?;
    let current = take_id(&mut object, "currentModelId").unwrap_or_default();
    let list = take_list(&mut object, "availableModels")?;
    let available = list.into_iter().filter_map(|value| {
        let mut object = into_object(value).ok()?;
        let id = take_id(&mut object, "modelId")?;
        let name = take_name(&mut object, "name").unwrap_or_else(|| id.clone());
        Some(Model { id, name, description: take_about(&mut object, "description") })
    });
    let available = available.take(MAX_CHOICES).collect();
    Some((within(available, MAX_BYTES, |one: &Model| weight(&one.id, &one.name, &one.description)), current))
}

/// Session modes.
pub(crate) fn modes(value: Value) -> Option<AgentModes> {
    let mut object = into_object(value).ok()?;
    let current = take_id(&mut object, "currentModeId").unwrap_or_default();
    let list = take_list(&mut object, "availableModes")?;
    let available = list.into_iter().filter_map(|value| {
        let mut object = into_object(value).ok()?;
        let id = take_id(&mut object, "id")?;
        let name = take_name(&mut object, "name").unwrap_or_else(|| id.clone());
        Some(Choice { id, name, description: take_about(&mut object, "description"), group: None })
    });
    let available = available.take(MAX_CHOICES).collect();
    let available = within(available, MAX_BYTES, |one: &Choice| weight(&one.id, &one.name, &one.description));
    Some(AgentModes { available, current })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn choices_keep_their_group_and_unknown_types_are_shown_but_fixed() {
        let Value::Array(list) = json!([
            {"id":"model","category":"model","type":"select","currentValue":"b","options":[
                {"group":"g","name":"G","options":[{"value":"a","name":"A"},{"value":"b"}]},
                {"group":"h","name":"H","options":[{"value":"c","name":"C","description":null}]}]},
            {"id":"fast","name":"Fast","type":"boolean","currentValue":true},
            {"name":"no id","type":"boolean","currentValue":true},
            {"id":"slider","type":"range","currentValue":3,"description":"How far","options":[{"value":"x"}]},
            "text"
        ]) else {
            panic!()
        };
        let options = config_options(list);
        assert_eq!(
            options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(),
            ["model", "fast", "slider"]
        );
        let choices = options[0].choices.iter();
        assert_eq!(
            choices.map(|choice| (choice.id.as_str(), choice.group.as_deref())).collect::<Vec<_>>(),
            [("a", Some("G")), ("b", Some("G")), ("c", Some("H"))]
        );
        assert_eq!((&options[1].current, options[1].fixed), (&ConfigValue::Flag(true), false));
        let slider = &options[2];
        assert_eq!((&slider.current, slider.fixed), (&ConfigValue::Choice("3".into()), true));
        assert_eq!((slider.choices.len(), slider.description.as_deref()), (0, Some("How far")));
    }
}
