//! Items: how they grow.

use signalbox_protocol::app::{FileUpdateChange, ItemBody, ThreadItem};

use super::broken::Problem;

/// Whether an item is complete.
#[must_use]
pub fn is_complete(item: &ThreadItem) -> bool {
    item.completed_at_ms.is_some()
}

/// Whether an item is not shown whole; `item/output/read` has the rest.
#[must_use]
pub fn is_cut(item: &ThreadItem) -> bool {
    item.output_truncated || !item.cut_texts.is_empty()
}

/// What a delta is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grows<'t> {
    Message(&'t str),
    Plan(&'t str),
    Output(&'t str),
    Part(u64),
    Thought(u64, &'t str),
    Patch(&'t [FileUpdateChange]),
}

/// Lets an open item grow.
pub(super) fn grow(item: &mut ThreadItem, by: Grows<'_>) -> Result<(), Problem> {
    if is_complete(item) {
        return Err(Problem::ItemComplete(item.id.clone()));
    }
    let id = &item.id;
    let out_of_order = |index| Problem::Part { item: id.clone(), index };
    match (&mut item.body, by) {
        (ItemBody::AgentMessage { text, .. }, Grows::Message(more))
        | (ItemBody::Plan { text }, Grows::Plan(more)) => text.push_str(more),
        (ItemBody::CommandExecution { aggregated_output, .. }, Grows::Output(more)) => {
            aggregated_output.get_or_insert_default().push_str(more);
        }
        (ItemBody::Reasoning { summary, .. }, Grows::Part(index)) => {
            if u64::try_from(summary.len()) != Ok(index) {
                return Err(out_of_order(index));
            }
            summary.push(String::new());
        }
        (ItemBody::Reasoning { summary, .. }, Grows::Thought(index, more)) => {
            let part = usize::try_from(index).ok().and_then(|index| summary.get_mut(index));
            part.ok_or_else(|| out_of_order(index))?.push_str(more);
        }
        (ItemBody::FileChange { changes, .. }, Grows::Patch(whole)) => *changes = whole.to_vec(),
        _ => return Err(Problem::OtherKind(item.id.clone())),
    }
    Ok(())
}
