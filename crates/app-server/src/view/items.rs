//! Items as facts make them: the body of each kind, what an update changes of it, what closing does to it.

use serde_json::{Map, Value, json};
use signalbox_facts::{
    CompactionStatus, DocBlock, FactBody, FileChangeKind, FileDiff, ItemKind, Plan, PlanStatus, Prompt, Seq,
    ToolCall, ToolContent, ToolOutcome, ToolStatus,
};
use signalbox_protocol::app::{
    CommandAction, CommandExecutionSource, CommandExecutionStatus, DynamicToolCallOutputContentItem,
    DynamicToolCallStatus, FileUpdateChange, ItemBody, McpToolCallError, McpToolCallResult,
    McpToolCallStatus, PatchApplyStatus, PatchChangeKind, ThreadItem, ToolCallInfo, ToolCallLocation,
};

use super::convert;
use super::long::Rest;

/// An item that begins with this body.
pub(super) fn item(seq: Seq, at_ms: i64, body: ItemBody) -> ThreadItem {
    ThreadItem {
        id: convert::item_id(seq),
        body,
        started_at_ms: Some(at_ms),
        completed_at_ms: None,
        late: false,
        tool_call: None,
        output_truncated: false,
        cut_texts: Vec::new(),
    }
}

/// Whether facts with this body make items.
pub(super) fn makes_item(body: &FactBody) -> bool {
    matches!(
        body,
        FactBody::Prompt(_)
            | FactBody::AgentText(_)
            | FactBody::AgentThought(_)
            | FactBody::ToolCall(_)
            | FactBody::ToolOutput(_)
            | FactBody::Plan(_)
            | FactBody::ContextCompaction(_)
    )
}

pub(super) fn user_message(prompt: &Prompt) -> ItemBody {
    ItemBody::UserMessage {
        content: if prompt.is_legacy() {
            convert::input_out(&[DocBlock::text(prompt.text.as_str())])
        } else {
            convert::input_out(&prompt.blocks)
        },
        client_id: prompt.client_message_id.clone(),
    }
}

/// A message or thought, still empty: its text comes as deltas.
pub(super) fn empty_text(thought: bool) -> ItemBody {
    if thought {
        ItemBody::Reasoning { summary: Vec::new(), content: Vec::new() }
    } else {
        ItemBody::AgentMessage { text: String::new(), phase: None }
    }
}

/// Begins the one summary part that a thought has here.
pub(super) fn add_summary_part(body: &mut ItemBody) {
    if let ItemBody::Reasoning { summary, .. } = body {
        summary.push(String::new());
    }
}

/// Adds to the text of a message or of a thought (which has one summary part).
pub(super) fn append_text(body: &mut ItemBody, more: &str, rest: &mut Rest, limit: usize) {
    match body {
        ItemBody::AgentMessage { text, .. } => rest.push(text, more, limit),
        ItemBody::Reasoning { summary, .. } => {
            if let Some(part) = summary.last_mut() {
                rest.push(part, more, limit);
            }
        }
        _ => {}
    }
}

/// The text of a message or of a thought: what grows without a bound.
pub(super) fn text(body: &ItemBody) -> Option<&str> {
    match body {
        ItemBody::AgentMessage { text, .. } => Some(text),
        ItemBody::Reasoning { summary, .. } => summary.last().map(String::as_str),
        _ => None,
    }
}

/// The same message or thought with another text, and where that is.
pub(super) fn with_text(body: &ItemBody, shown: String) -> (ItemBody, &'static str) {
    match body {
        ItemBody::Reasoning { content, .. } => {
            (ItemBody::Reasoning { summary: vec![shown], content: content.clone() }, "/summary/0")
        }
        ItemBody::AgentMessage { phase, .. } => {
            (ItemBody::AgentMessage { text: shown, phase: *phase }, "/text")
        }
        other => (other.clone(), ""),
    }
}

/// The text of a plan's item: the agent's own Markdown, or its entries as a list of tasks.
pub(super) fn plan_text(plan: &Plan) -> String {
    if let Some(markdown) = &plan.markdown {
        return markdown.clone();
    }
    let mut text = String::new();
    for entry in &plan.entries {
        let done = entry.status == PlanStatus::Completed;
        text.push_str(if done { "- [x] " } else { "- [ ] " });
        text.push_str(&entry.content);
        text.push('\n');
    }
    text
}

/// What has been told of a call, which its body alone does not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Told {
    /// Output came as such ([`append_output`]); content must not replace it.
    output: bool,
    /// Diffs came; the files that the call names are no substitute any more.
    diffs: bool,
}

/// The item of a tool call, before [`update_tool`] fills it.
pub(super) fn tool(call: &ToolCall) -> ItemBody {
    match call.item {
        ItemKind::CommandExecution => ItemBody::CommandExecution {
            command: String::new(),
            cwd: String::new(),
            process_id: None,
            source: CommandExecutionSource::Agent,
            status: CommandExecutionStatus::InProgress,
            command_actions: Vec::new(),
            aggregated_output: None,
            exit_code: None,
            duration_ms: None,
        },
        ItemKind::FileChange => {
            ItemBody::FileChange { changes: Vec::new(), status: PatchApplyStatus::InProgress }
        }
        ItemKind::McpToolCall => ItemBody::McpToolCall {
            server: String::new(),
            tool: String::new(),
            status: McpToolCallStatus::InProgress,
            arguments: Value::Object(Map::new()),
            result: None,
            error: None,
            duration_ms: None,
            declined: false,
        },
        // The others are no tool calls; a fact that says so is shown as what it can be.
        _ => ItemBody::DynamicToolCall {
            tool: String::new(),
            namespace: None,
            arguments: Value::Object(Map::new()),
            status: DynamicToolCallStatus::InProgress,
            content_items: None,
            success: None,
            duration_ms: None,
            declined: false,
        },
    }
}

/// Takes in what a fact says of the call.
pub(super) fn update_tool(body: &mut ItemBody, call: &ToolCall, told: &mut Told) {
    // A call that goes on is not declined yet, whatever was said about it.
    let is_declined = call.status.is_final() && call.outcome == Some(ToolOutcome::Declined);
    match body {
        ItemBody::CommandExecution { command, cwd, status, command_actions, exit_code, .. } => {
            let line = call.command.as_ref().unwrap_or(&call.title);
            if command != line {
                command.clone_from(line);
                *command_actions = vec![CommandAction::Unknown { command: line.clone() }];
            }
            if let Some(path) = &call.cwd {
                *cwd = convert::path(path);
            }
            *status = match call.status {
                ToolStatus::Pending | ToolStatus::InProgress => CommandExecutionStatus::InProgress,
                ToolStatus::Completed => CommandExecutionStatus::Completed,
                ToolStatus::Failed if is_declined => CommandExecutionStatus::Declined,
                ToolStatus::Failed => CommandExecutionStatus::Failed,
            };
            *exit_code = call.exit_code;
        }
        ItemBody::FileChange { changes, status } => {
            if let Some(diffs) = &call.diffs {
                told.diffs = true;
                *changes = diffs.iter().map(change).collect();
            } else if !told.diffs {
                *changes = announced(call);
            }
            *status = match call.status {
                ToolStatus::Pending | ToolStatus::InProgress => PatchApplyStatus::InProgress,
                ToolStatus::Completed => PatchApplyStatus::Completed,
                ToolStatus::Failed if is_declined => PatchApplyStatus::Declined,
                ToolStatus::Failed => PatchApplyStatus::Failed,
            };
        }
        ItemBody::McpToolCall { server, tool, status, arguments, result, error, declined, .. } => {
            if let Some(mcp) = &call.mcp {
                server.clone_from(&mcp.server);
                tool.clone_from(&mcp.tool);
            }
            if let Some(input) = &call.raw_input {
                arguments.clone_from(input);
            }
            if let Some(content) = &call.content {
                let mut blocks: Vec<Value> = content.iter().map(mcp_block).collect();
                if let Some(text) =
                    result.as_mut().filter(|_| told.output).and_then(|old| first(&mut old.content))
                {
                    blocks.insert(0, text);
                }
                *result = Some(McpToolCallResult { content: blocks, structured_content: None });
            }
            *status = match call.status {
                ToolStatus::Pending | ToolStatus::InProgress => McpToolCallStatus::InProgress,
                ToolStatus::Completed => McpToolCallStatus::Completed,
                ToolStatus::Failed => McpToolCallStatus::Failed,
            };
            *error = (call.status == ToolStatus::Failed)
                .then(|| McpToolCallError { message: convert::failed_call_message(call) });
            *declined = is_declined;
        }
        ItemBody::DynamicToolCall { tool, arguments, status, content_items, success, declined, .. } => {
            tool.clone_from(&call.title);
            if let Some(input) = &call.raw_input {
                arguments.clone_from(input);
            }
            if let Some(content) = &call.content {
                let mut items: Vec<_> = content.iter().map(content_item).collect();
                if let Some(text) = content_items.as_mut().filter(|_| told.output).and_then(first) {
                    items.insert(0, text);
                }
                *content_items = Some(items);
            }
            *status = match call.status {
                ToolStatus::Pending | ToolStatus::InProgress => DynamicToolCallStatus::InProgress,
                ToolStatus::Completed => DynamicToolCallStatus::Completed,
                ToolStatus::Failed => DynamicToolCallStatus::Failed,
            };
            *success = call.status.is_final().then_some(call.status == ToolStatus::Completed);
            *declined = is_declined;
        }
        _ => {}
    }
}

fn first<T>(list: &mut Vec<T>) -> Option<T> {
    if list.is_empty() { None } else { Some(list.swap_remove(0)) }
}

/// What the agent says about the call, for clients that look beyond the item's kind.
pub(super) fn tool_info(call: &ToolCall) -> ToolCallInfo {
    ToolCallInfo {
        id: call.id.clone(),
        title: call.title.clone(),
        kind: call.kind.clone(),
        locations: call
            .locations
            .iter()
            .map(|place| ToolCallLocation {
                path: convert::path(&place.path),
                line: place.line.map(u64::from),
            })
            .collect(),
        error: call.error.clone(),
    }
}

/// Adds output to a tool call's item, or puts it in the place of what is there. A command has it as such, other calls as the first piece of what they returned; a file change has no place for it.
pub(super) fn append_output(body: &mut ItemBody, more: &str, replace: bool, told: &mut Told) {
    let had = std::mem::replace(&mut told.output, true);
    let put = |text: &mut String| {
        if replace {
            text.clear();
        }
        text.push_str(more);
    };
    match body {
        ItemBody::CommandExecution { aggregated_output, .. }
            if aggregated_output.is_some() || !more.is_empty() =>
        {
            put(aggregated_output.get_or_insert_default());
        }
        ItemBody::McpToolCall { result, .. } => {
            let result = result
                .get_or_insert_with(|| McpToolCallResult { content: Vec::new(), structured_content: None });
            if !had {
                result.content.insert(0, json!({ "type": "text", "text": "" }));
            }
            if let Some(Value::String(text)) =
                result.content.first_mut().and_then(|block| block.get_mut("text"))
            {
                put(text);
            }
        }
        ItemBody::DynamicToolCall { content_items, .. } => {
            let items = content_items.get_or_insert_default();
            if !had {
                items.insert(0, DynamicToolCallOutputContentItem::InputText { text: String::new() });
            }
            if let Some(DynamicToolCallOutputContentItem::InputText { text }) = items.first_mut() {
                put(text);
            }
        }
        _ => {}
    }
}

/// Whether there is output already.
pub(super) fn has_output(body: &ItemBody) -> bool {
    match body {
        ItemBody::CommandExecution { aggregated_output, .. } => {
            aggregated_output.as_ref().is_some_and(|output| !output.is_empty())
        }
        _ => false,
    }
}

/// Whether output of this item is streamed: there is a delta for commands only.
pub(super) fn streams_output(body: &ItemBody) -> bool {
    matches!(body, ItemBody::CommandExecution { .. })
}

/// The changes of a file change.
pub(super) fn changes(body: &ItemBody) -> &[FileUpdateChange] {
    match body {
        ItemBody::FileChange { changes, .. } => changes,
        _ => &[],
    }
}

/// Completes an item that has its completion time: what is still in progress has failed, and calls learn how long they
/// took.
pub(super) fn close(item: &mut ThreadItem) {
    let took_ms = item.started_at_ms.zip(item.completed_at_ms).map_or(0, |(from, to)| (to - from).max(0));
    match &mut item.body {
        ItemBody::CommandExecution { status, duration_ms, .. } => {
            if *status == CommandExecutionStatus::InProgress {
                *status = CommandExecutionStatus::Failed;
            }
            *duration_ms = Some(took_ms);
        }
        ItemBody::FileChange { status, .. } if *status == PatchApplyStatus::InProgress => {
            *status = PatchApplyStatus::Failed;
        }
        ItemBody::McpToolCall { status, error, duration_ms, .. } => {
            if *status == McpToolCallStatus::InProgress {
                *status = McpToolCallStatus::Failed;
                *error = Some(McpToolCallError { message: convert::UNFINISHED.to_owned() });
            }
            *duration_ms = Some(took_ms);
        }
        ItemBody::DynamicToolCall { status, success, duration_ms, .. } => {
            if *status == DynamicToolCallStatus::InProgress {
                *status = DynamicToolCallStatus::Failed;
                *success = Some(false);
            }
            *duration_ms = Some(took_ms);
        }
        _ => {}
    }
}

/// An item as it may be told to have begun: one that is complete by now comes whole with its end.
pub(super) fn begun(mut item: ThreadItem) -> ThreadItem {
    if item.completed_at_ms.take().is_none() {
        return item;
    }
    match &mut item.body {
        ItemBody::AgentMessage { text, .. } => text.clear(),
        ItemBody::Reasoning { summary, .. } => summary.iter_mut().for_each(String::clear),
        ItemBody::CommandExecution { status, aggregated_output, exit_code, duration_ms, .. } => {
            *status = CommandExecutionStatus::InProgress;
            *aggregated_output = None;
            (*exit_code, *duration_ms) = (None, None);
        }
        ItemBody::FileChange { status, .. } => *status = PatchApplyStatus::InProgress,
        ItemBody::McpToolCall { status, result, error, duration_ms, declined, .. } => {
            *status = McpToolCallStatus::InProgress;
            (*result, *error, *duration_ms, *declined) = (None, None, None, false);
        }
        ItemBody::DynamicToolCall { status, content_items, success, duration_ms, declined, .. } => {
            *status = DynamicToolCallStatus::InProgress;
            (*content_items, *success, *duration_ms, *declined) = (None, None, None, false);
        }
        _ => {}
    }
    item
}

/// Whether a compaction needs no further update.
pub(super) fn is_final(status: CompactionStatus) -> bool {
    status != CompactionStatus::InProgress
}

/// A change of a file as clients know it: for a new or deleted file its content, else the hunks.
fn change(diff: &FileDiff) -> FileUpdateChange {
    let (kind, text) = match &diff.kind {
        FileChangeKind::Add => (PatchChangeKind::Add, convert::content_of(&diff.unified, '+')),
        FileChangeKind::Delete => (PatchChangeKind::Delete, convert::content_of(&diff.unified, '-')),
        FileChangeKind::Update { move_path } => {
            let move_path = move_path.as_deref().map(convert::path);
            (PatchChangeKind::Update { move_path }, None)
        }
    };
    FileUpdateChange {
        path: convert::path(&diff.path),
        kind,
        diff: text.unwrap_or_else(|| diff.unified.clone()),
    }
}

/// The changes of a call that has told no diff yet: the files it names, so that people see what an approval is about.
fn announced(call: &ToolCall) -> Vec<FileUpdateChange> {
    let mut changes: Vec<FileUpdateChange> = Vec::new();
    for place in &call.locations {
        let path = convert::path(&place.path);
        if changes.iter().any(|known| known.path == path) {
            continue;
        }
        let kind = if call.kind.as_deref() == Some("delete") {
            PatchChangeKind::Delete
        } else {
            PatchChangeKind::Update { move_path: None }
        };
        changes.push(FileUpdateChange { path, kind, diff: String::new() });
    }
    changes
}

fn content_item(content: &ToolContent) -> DynamicToolCallOutputContentItem {
    match content {
        ToolContent::Text { text } => DynamicToolCallOutputContentItem::InputText { text: text.clone() },
        ToolContent::Image { url } => DynamicToolCallOutputContentItem::InputImage { image_url: url.clone() },
        ToolContent::Audio { url } => DynamicToolCallOutputContentItem::InputAudio { audio_url: url.clone() },
        ToolContent::Link { uri, name } => {
            DynamicToolCallOutputContentItem::InputText { text: format!("[{name}]({uri})") }
        }
    }
}

/// An MCP content block. An image of which only the URL is known is a link there.
fn mcp_block(content: &ToolContent) -> Value {
    match content {
        ToolContent::Text { text } => json!({ "type": "text", "text": text }),
        ToolContent::Image { url } => match data_url(url) {
            Some((mime, data)) => json!({ "type": "image", "mimeType": mime, "data": data }),
            None => json!({ "type": "resource_link", "uri": url, "name": "image" }),
        },
        ToolContent::Audio { url } => match data_url(url) {
            Some((mime, data)) => json!({ "type": "audio", "mimeType": mime, "data": data }),
            None => json!({ "type": "resource_link", "uri": url, "name": "audio" }),
        },
        ToolContent::Link { uri, name } => json!({ "type": "resource_link", "uri": uri, "name": name }),
    }
}

fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
