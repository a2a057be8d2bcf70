//! Permission requests of version 2: a title and a subject of their own.

use signalbox_facts::PermissionOption;

use super::Memory;
use crate::decode::asked::permission_options;
use crate::decode::content::path;
use crate::decode::fields::{Object, take_filled, take_id, take_list, take_message, take_object, text};
use crate::decode::{ToolContext, ToolMemory};
use crate::update::ToolPatch;

/// The call that a permission request is about, and its options. A request about no call is one of its own, under
/// `own_id`; so is one about something that this version does not know.
pub(crate) fn permission(
    params: &mut Object,
    own_id: String,
    context: &ToolContext<'_>,
    tools: &mut ToolMemory,
    memory: &mut Memory,
) -> (ToolPatch, Vec<PermissionOption>) {
    let options = permission_options(take_list(params, "options").unwrap_or_default());
    let title = take_message(params, "title");
    let mut subject = take_object(params, "subject").unwrap_or_default();
    let mut patch = match text(&subject, "type") {
        Some("command") => command(&mut subject, own_id, context, memory),
        // Others may name a call too, and agents of the first version put it beside the title.
        _ => {
            let call = take_object(&mut subject, "toolCall").or_else(|| take_object(params, "toolCall"));
            let known =
                call.as_ref().and_then(|call| text(call, "toolCallId")).is_some_and(|id| tools.knows(id));
            let patch = call.and_then(|call| memory.tool_patch(call, context, tools));
            match patch {
                // The request's own title is none of a call that has one.
                Some(patch) if known => return (patch, options),
                Some(patch) => patch,
                None => ToolPatch { id: own_id, ..ToolPatch::default() },
            }
        }
    };
    patch.title = patch.title.take().or(title);
    (patch, options)
}

fn command(subject: &mut Object, own_id: String, context: &ToolContext<'_>, memory: &Memory) -> ToolPatch {
    let command = take_message(subject, "command");
    let terminal = take_id(subject, "terminalId");
    let call =
        take_id(subject, "toolCallId").or_else(|| memory.terminals.call_of(&terminal?).map(str::to_owned));
    ToolPatch {
        id: call.unwrap_or(own_id),
        kind: Some("execute".to_owned()),
        title: command.clone(),
        cwd: take_filled(subject, "cwd").map(|text| path(&text, context.cwd)),
        command,
        ..ToolPatch::default()
    }
}
