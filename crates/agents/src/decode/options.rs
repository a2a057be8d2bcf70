//! Config options, and the modes and models of older agents.

use serde_json::Value;
use signalbox_facts::{Choice, ConfigOption, ConfigValue, Model};

use super::fields::{into_object, take_filled, take_list, take_text, text};
use crate::update::AgentModes;

/// The whole set of config options. Entries without an id are left out, unknown types too (they could not be set).
pub(crate) fn config_options(list: Vec<Value>) -> Vec<ConfigOption> {
    list.into_iter().filter_map(config_option).collect()
}

fn config_option(value: Value) -> Option<ConfigOption> {
    let mut object = into_object(value).ok()?;
    // The first version's word and the second's.
    let id = take_filled(&mut object, "id").or_else(|| take_filled(&mut object, "configId"))?;
    let name = take_filled(&mut object, "name").unwrap_or_else(|| id.clone());
    let category = take_filled(&mut object, "category");
    let choices = take_list(&mut object, "options").map(choices).unwrap_or_default();
    let boolean = text(&object, "type") == Some("boolean");
    let current = match object.get_mut("currentValue").map(Value::take) {
        Some(Value::Bool(flag)) => ConfigValue::Flag(flag),
        Some(Value::String(choice)) if !boolean => ConfigValue::Choice(choice),
        _ if boolean => ConfigValue::Flag(false),
        _ if choices.is_empty() => return None,
        _ => ConfigValue::Choice(String::new()),
    };
    Some(ConfigOption { id, name, category, current, choices })
}

/// Choices, flat or in groups (groups are flattened).
fn choices(list: Vec<Value>) -> Vec<Choice> {
    let mut all = Vec::with_capacity(list.len());
    for value in list {
        let Ok(mut object) = into_object(value) else { continue };
        if let Some(group) = take_list(&mut object, "options") {
            all.extend(choices(group));
        } else if let Some(id) = take_text(&mut object, "value") {
            let name = take_filled(&mut object, "name").unwrap_or_else(|| id.clone());
            all.push(Choice { id, name, description: take_filled(&mut object, "description") });
        }
    }
    all
}

/// The `models` of older agents: those on offer and the current one.
pub(crate) fn models(value: Value) -> Option<(Vec<Model>, String)> {
    let mut object = into_object(value).ok()?;
    let current = take_text(&mut object, "currentModelId").unwrap_or_default();
    let list = take_list(&mut object, "availableModels")?;
    let available = list.into_iter().filter_map(|value| {
        let mut object = into_object(value).ok()?;
        let id = take_filled(&mut object, "modelId")?;
        let name = take_filled(&mut object, "name").unwrap_or_else(|| id.clone());
        Some(Model { id, name, description: take_filled(&mut object, "description") })
    });
    Some((available.collect(), current))
}

/// Session modes.
pub(crate) fn modes(value: Value) -> Option<AgentModes> {
    let mut object = into_object(value).ok()?;
    let current = take_text(&mut object, "currentModeId").unwrap_or_default();
    let list = take_list(&mut object, "availableModes")?;
    let available = list.into_iter().filter_map(|value| {
        let mut object = into_object(value).ok()?;
        let id = take_filled(&mut object, "id")?;
        let name = take_filled(&mut object, "name").unwrap_or_else(|| id.clone());
        Some(Choice { id, name, description: take_filled(&mut object, "description") })
    });
    Some(AgentModes { available: available.collect(), current })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_flattened_and_odd_entries_left_out() {
        let Value::Array(list) = json!([
            {"id":"model","category":"model","type":"select","currentValue":"b","options":[
                {"group":"g","name":"G","options":[{"value":"a","name":"A"},{"value":"b"}]},
                {"group":"h","name":"H","options":[{"value":"c","name":"C","description":null}]}]},
            {"id":"fast","name":"Fast","type":"boolean","currentValue":true},
            {"name":"no id","type":"boolean","currentValue":true},
            {"id":"slider","type":"range","currentValue":3},
            "text"
        ]) else {
            panic!()
        };
        let options = config_options(list);
        assert_eq!(options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(), ["model", "fast"]);
        assert_eq!(
            options[0].choices.iter().map(|choice| choice.id.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert_eq!(options[1].current, ConfigValue::Flag(true));
    }
}
