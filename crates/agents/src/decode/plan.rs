//! Plans in their three forms: the whole list, an identified list or Markdown, and its removal.

use serde_json::Value;
use signalbox_facts::{PlanEntry, PlanStatus, ToolStatus};

use super::fields::{
    ABOUT_BYTES, Object, cut, into_object, take_id, take_list, take_name, take_object, take_text, text,
    within,
};
use crate::update::{PlanPatch, ToolPatch};

/// Entries of one plan; more are cut.
const MAX_ENTRIES: usize = 500;
/// Of one plan.
const MAX_BYTES: usize = 256 << 10;

/// `plan`: the whole list.
pub(crate) fn plan(update: &mut Object) -> PlanPatch {
    PlanPatch { id: None, entries: entries(update), markdown: None }
}

/// `plan_update`: a list or Markdown, with an id.
pub(crate) fn plan_update(update: &mut Object) -> PlanPatch {
    let mut plan = take_object(update, "plan").unwrap_or_default();
    let id = take_id(&mut plan, "planId").or_else(|| take_id(&mut plan, "id"));
    match text(&plan, "type") {
        Some("markdown") => {
            let markdown = take_text(&mut plan, "content").or_else(|| take_text(&mut plan, "markdown"));
            PlanPatch {
                id,
                entries: Vec::new(),
                markdown: Some(cut(markdown.unwrap_or_default(), MAX_BYTES)),
            }
        }
        _ => PlanPatch { id, entries: entries(&mut plan), markdown: None },
    }
}

/// The plan in the arguments of a tool call, under this name; whole, as agents give it. A call that failed planned nothing.
pub(crate) fn plan_in_arguments(call: &ToolPatch, name: &str) -> Option<PlanPatch> {
    if !matches!(call.status, Some(ToolStatus::InProgress | ToolStatus::Completed)) {
        return None;
    }
    let list = call.raw_input.as_ref()?.get(name)?.as_array()?;
    let entries = list.iter().take(MAX_ENTRIES).cloned().filter_map(entry).collect();
    Some(PlanPatch { id: None, entries: short(entries), markdown: None })
}

/// `plan_removed`: an empty plan.
pub(crate) fn plan_removed(update: &mut Object) -> PlanPatch {
    PlanPatch { id: take_id(update, "planId"), ..PlanPatch::default() }
}

fn short(entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
    within(entries, MAX_BYTES, |entry| entry.content.len() + entry.priority.as_ref().map_or(0, String::len))
}

fn entries(object: &mut Object) -> Vec<PlanEntry> {
    let list = take_list(object, "entries").unwrap_or_default();
    short(list.into_iter().take(MAX_ENTRIES).filter_map(entry).collect())
}

fn entry(value: Value) -> Option<PlanEntry> {
    let mut object = match value {
        Value::String(content) => {
            let content = cut(content, ABOUT_BYTES);
            return Some(PlanEntry { content, priority: None, status: PlanStatus::Pending });
        }
        other => into_object(other).ok()?,
    };
    let status = match text(&object, "status") {
        Some("in_progress") => PlanStatus::InProgress,
        Some("completed" | "done") => PlanStatus::Completed,
        _ => PlanStatus::Pending,
    };
    Some(PlanEntry {
        content: cut(take_text(&mut object, "content")?, ABOUT_BYTES),
        priority: take_name(&mut object, "priority"),
        status,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_in_the_arguments_of_a_call_is_read_once_the_call_runs() {
        let mut call = ToolPatch {
            raw_input: Some(
                json!({"todos": [{"content": "a", "status": "completed", "priority": "high"}, 7, {"content": "b"}]}),
            ),
            ..ToolPatch::default()
        };
        assert_eq!(plan_in_arguments(&call, "todos"), None);
        call.status = Some(ToolStatus::InProgress);
        let plan = plan_in_arguments(&call, "todos").unwrap();
        let told: Vec<_> = plan.entries.iter().map(|entry| (entry.content.as_str(), entry.status)).collect();
        assert_eq!(told, [("a", PlanStatus::Completed), ("b", PlanStatus::Pending)]);
        assert_eq!(plan_in_arguments(&call, "steps"), None);
        call.status = Some(ToolStatus::Failed);
        assert_eq!(plan_in_arguments(&call, "todos"), None);
    }

    #[test]
    fn entries_with_unknown_words_are_kept() {
        let Value::Object(mut update) = json!({"entries":[{"content":"a","status":"blocked","priority":"urgent"},{"content":"b","status":"completed"},7]})
        else {
            panic!()
        };
        let plan = plan(&mut update);
        assert_eq!(plan.entries.len(), 2);
        assert_eq!(
            (plan.entries[0].status, plan.entries[0].priority.as_deref()),
            (PlanStatus::Pending, Some("urgent"))
        );
        assert_eq!(plan.entries[1].status, PlanStatus::Completed);
    }

    #[test]
    fn a_markdown_plan_keeps_its_text() {
        let Value::Object(mut update) = json!({"plan":{"type":"markdown","planId":"p","content":"# Do"}})
        else {
            panic!()
        };
        let plan = plan_update(&mut update);
        assert_eq!((plan.id.as_deref(), plan.markdown.as_deref()), (Some("p"), Some("# Do")));
    }
}
