//! Plans in their three forms: the whole list, an identified list or Markdown, and its removal.

use serde_json::Value;
use signalbox_facts::{PlanEntry, PlanStatus};

use super::fields::{Object, into_object, take_filled, take_list, take_object, take_text, text};
use crate::update::PlanPatch;

/// Entries of one plan; more are cut.
const MAX_ENTRIES: usize = 500;

/// `plan`: the whole list.
pub(crate) fn plan(update: &mut Object) -> PlanPatch {
    PlanPatch { id: None, entries: entries(update), markdown: None }
}

/// `plan_update`: a list or Markdown, with an id.
pub(crate) fn plan_update(update: &mut Object) -> PlanPatch {
    let mut plan = take_object(update, "plan").unwrap_or_default();
    let id = take_filled(&mut plan, "planId").or_else(|| take_filled(&mut plan, "id"));
    match text(&plan, "type") {
        Some("markdown") => {
            let markdown = take_text(&mut plan, "content").or_else(|| take_text(&mut plan, "markdown"));
            PlanPatch { id, entries: Vec::new(), markdown: Some(markdown.unwrap_or_default()) }
        }
        _ => PlanPatch { id, entries: entries(&mut plan), markdown: None },
    }
}

/// `plan_removed`: an empty plan.
pub(crate) fn plan_removed(update: &mut Object) -> PlanPatch {
    PlanPatch { id: take_filled(update, "planId"), ..PlanPatch::default() }
}

fn entries(object: &mut Object) -> Vec<PlanEntry> {
    take_list(object, "entries").unwrap_or_default().into_iter().take(MAX_ENTRIES).filter_map(entry).collect()
}

fn entry(value: Value) -> Option<PlanEntry> {
    let mut object = match value {
        Value::String(content) => {
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
        content: take_text(&mut object, "content")?,
        priority: take_filled(&mut object, "priority"),
        status,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
