//! What agents ask of the user before they act: permission requests. Questions are in `form.rs`.

use serde_json::Value;
use signalbox_facts::{OptionKind, PermissionOption};

use super::fields::{Object, into_object, take_filled, take_id, take_list, take_name, take_object};

/// Choices of a permission request.
const MAX_OPTIONS: usize = 64;
/// Kept of a request's description.
const DESCRIPTION_CHARS: usize = 4000;

/// The options of a permission request, those without an id left out.
pub(crate) fn permission_options(list: Vec<Value>) -> Vec<PermissionOption> {
    list.into_iter().take(MAX_OPTIONS).filter_map(permission_option).collect()
}

fn permission_option(value: Value) -> Option<PermissionOption> {
    let mut object = into_object(value).ok()?;
    let id = take_id(&mut object, "optionId").or_else(|| take_id(&mut object, "id"))?;
    let label = take_name(&mut object, "name").unwrap_or_else(|| id.clone());
    let kind = match take_name(&mut object, "kind").unwrap_or_default() {
        kind if kind == "allow_once" => OptionKind::AllowOnce,
        kind if kind == "allow_always" => OptionKind::AllowAlways,
        kind if kind == "reject_once" => OptionKind::RejectOnce,
        kind if kind == "reject_always" => OptionKind::RejectAlways,
        kind => OptionKind::Other(kind),
    };
    Some(PermissionOption { id, label, kind })
}

/// What the agent says about the request itself (version 2).
pub(crate) fn description(params: &mut Object) -> Option<String> {
    take_filled(params, "description").map(|text| text.chars().take(DESCRIPTION_CHARS).collect())
}

/// The tool call that a permission request is about, and its options.
pub(crate) fn permission(params: &mut Object) -> (Object, Vec<PermissionOption>) {
    let mut call = take_object(params, "toolCall").unwrap_or_default();
    // Newer agents give the request a title of its own.
    if !call.contains_key("title")
        && let Some(title) = take_name(params, "title")
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
}
