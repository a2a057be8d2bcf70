//! Tool calls: patches by id, with command, output, exit code and MCP tool found wherever the agent puts them.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use signalbox_facts::{McpTool, ToolStatus};

use super::content::{location, path, tool_parts};
use super::fields::{
    MESSAGE_BYTES, NAME_BYTES, Object, cut, object, take_id, take_list, take_message, take_name, take_text,
    take_value, text,
};
use crate::update::{Content, OutputPatch, ToolPart, ToolPatch};
use crate::vendors::Quirks;

/// Calls remembered at a time; an agent that keeps more open loses only the finer output handling.
const MAX_CALLS: usize = 512;
/// Output remembered, of all calls together, to tell more of it from other output.
const OUTPUT_BYTES: usize = 1 << 20;
/// Pieces of content, locations of one call.
const MAX_PARTS: usize = 1000;

/// A longer command line is cut; scripts may be long.
const COMMAND_BYTES: usize = 4 * MESSAGE_BYTES;

/// What decoding a call needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolContext<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) quirks: &'a Quirks,
}

/// What earlier updates said of the calls of a turn. Forgotten when the next one begins, because ids come again.
#[derive(Debug, Default)]
pub(crate) struct ToolMemory {
    calls: HashMap<String, Call>,
    /// Bytes of all [`Call::shown`].
    shown_bytes: usize,
}

#[derive(Debug, Default)]
struct Call {
    execute: bool,
    /// Output comes as chunks in `_meta`, so text content is not it.
    streamed: bool,
    /// The output shown so far, if it came as text content.
    shown: String,
}

impl ToolMemory {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether there has been word of a call.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// What the call writes comes in chunks of its own, so text content is not it.
    pub(crate) fn streams(&mut self, id: &str) {
        if self.calls.len() < MAX_CALLS || self.calls.contains_key(id) {
            self.calls.entry(id.to_owned()).or_default().streamed = true;
        }
    }

    /// Whether more text content of a call is more output of its command.
    pub(crate) fn takes_output(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|call| call.execute && !call.streamed)
    }
}

/// The patch that a `tool_call`, a `tool_call_update` or the `toolCall` of a permission request is; `None` without an id.
pub(crate) fn tool_patch(
    mut call: Object,
    context: &ToolContext<'_>,
    memory: &mut ToolMemory,
) -> Option<ToolPatch> {
    let id = take_id(&mut call, "toolCallId").or_else(|| take_id(&mut call, "id"))?;
    let meta = match call.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Object::new(),
    };
    let (status, cancelled) = status(take_text(&mut call, "status"));
    let raw_input = take_value(&mut call, "rawInput");
    let raw_output = take_value(&mut call, "rawOutput");
    let name = take_name(&mut call, "name").or_else(|| meta_name(&meta));
    let kind = take_name(&mut call, "kind").or_else(|| {
        let tool = object(&meta, context.quirks.kind_in_meta?)?;
        Some(acp_kind(text(tool, "kind")?).to_owned())
    });
    let mut patch = ToolPatch {
        announced: false,
        title: take_message(&mut call, "title"),
        status,
        cancelled,
        content: take_list(&mut call, "content").map(|list| {
            list.into_iter().flat_map(|part| tool_parts(part, context.cwd)).take(MAX_PARTS).collect()
        }),
        locations: take_list(&mut call, "locations").map(|list| {
            list.into_iter().take(MAX_PARTS).filter_map(|value| location(value, context.cwd)).collect()
        }),
        command: raw_input.as_ref().and_then(command).map(|text| cut(text, COMMAND_BYTES)),
        cwd: working_directory(raw_input.as_ref(), &meta).map(|text| path(text, context.cwd)),
        exit_code: exit_code(&meta, raw_output.as_ref()),
        mcp: mcp(name.as_deref(), raw_input.as_ref()),
        id,
        name,
        kind,
        raw_input,
        raw_output,
        output: None,
    };
    find_output(&mut patch, &meta, context.quirks, memory);
    Some(patch)
}

/// A status and whether it means cancelled; unknown words change nothing.
fn status(word: Option<String>) -> (Option<ToolStatus>, bool) {
    match word.as_deref() {
        Some("pending") => (Some(ToolStatus::Pending), false),
        Some("in_progress" | "running" | "paused") => (Some(ToolStatus::InProgress), false),
        Some("completed") => (Some(ToolStatus::Completed), false),
        Some("failed" | "error") => (Some(ToolStatus::Failed), false),
        Some("cancelled" | "canceled") => (Some(ToolStatus::Failed), true),
        _ => (None, false),
    }
}

/// ACP's word for the kinds that agents use among themselves.
fn acp_kind(kind: &str) -> &str {
    match kind {
        "write" | "edit" | "create" => "edit",
        "list" | "grep" | "glob" => "search",
        "plan" => "think",
        other => other,
    }
}

fn meta_name(meta: &Object) -> Option<String> {
    let tools = meta.values().filter_map(Value::as_object);
    let mut names = tools.filter_map(|tool| text(tool, "toolName").or_else(|| text(tool, "name")));
    names.find(|name| !name.is_empty() && name.len() <= NAME_BYTES).map(str::to_owned)
}

/// The command line in a call's arguments.
fn command(input: &Value) -> Option<String> {
    let input = input.as_object()?;
    match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) if !command.trim().is_empty() => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [] => None,
                // A shell around the command says nothing to people.
                [shell, "-lc" | "-c", script] if shell.ends_with("sh") => Some((*script).to_owned()),
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

fn working_directory<'a>(input: Option<&'a Value>, meta: &'a Object) -> Option<&'a str> {
    let input = input.and_then(Value::as_object);
    let given = ["cwd", "workdir", "workingDirectory"].iter().find_map(|key| text(input?, key));
    given.or_else(|| text(object(meta, "terminal_info")?, "cwd")).filter(|text| !text.is_empty())
}

fn exit_code(meta: &Object, output: Option<&Value>) -> Option<i32> {
    let number = |object: &Object| {
        let found = ["exit_code", "exitCode", "exit"].iter().find_map(|key| object.get(*key)?.as_i64());
        found.and_then(|code| i32::try_from(code).ok())
    };
    let output = output.and_then(Value::as_object);
    object(meta, "terminal_exit")
        .and_then(number)
        .or_else(|| number(output?))
        .or_else(|| number(object(output?, "metadata")?))
}

/// `mcp__server__tool`, or server and tool among the arguments.
fn mcp(name: Option<&str>, input: Option<&Value>) -> Option<McpTool> {
    if let Some((server, tool)) = name.and_then(|name| name.strip_prefix("mcp__")?.split_once("__"))
        && !server.is_empty()
        && !tool.is_empty()
    {
        return Some(McpTool { server: server.to_owned(), tool: tool.to_owned() });
    }
    let input = input?.as_object()?;
    let (server, tool) = (text(input, "server")?, text(input, "tool")?);
    let is_short = server.len().max(tool.len()) <= NAME_BYTES;
    (is_short && input.contains_key("arguments"))
        .then(|| McpTool { server: server.to_owned(), tool: tool.to_owned() })
}

/// Finds what a command wrote: chunks in `_meta`, the text content of a running command, or the result at the end.
/// Text content that is output, or only the arguments, is taken out of the content.
fn find_output(patch: &mut ToolPatch, meta: &Object, quirks: &Quirks, memory: &mut ToolMemory) {
    if memory.calls.len() >= MAX_CALLS && !memory.calls.contains_key(&patch.id) {
        return;
    }
    let call = memory.calls.entry(patch.id.clone()).or_default();
    if let Some(kind) = &patch.kind {
        call.execute = kind == "execute";
    }
    let ended = patch.status.is_some_and(ToolStatus::is_final);
    for key in ["terminal_output_delta", "terminal_output"] {
        if let Some(chunk) = object(meta, key).and_then(|output| text(output, "data")) {
            call.streamed = true;
            patch.output = Some(OutputPatch::Append(chunk.to_owned()));
        }
    }
    if quirks.arguments_in_content && !ended {
        drop_texts(patch, |text| text.trim_start().starts_with('{'));
    }
    if !call.execute || patch.output.is_some() {
        return;
    }
    if call.streamed {
        // The same output once more, as the model gets it.
        drop_texts(patch, |_| ended);
        return;
    }
    let running = patch.status == Some(ToolStatus::InProgress) && quirks.output_in_content;
    if !ended && !running {
        return;
    }
    let structured = if ended { patch.raw_output.as_ref().and_then(structured_output) } else { None };
    let shown = patch.content.as_deref().map(texts).filter(|text| !text.is_empty());
    let shown = if quirks.fenced_output { shown.map(unfenced) } else { shown };
    let plain = || match &patch.raw_output {
        Some(Value::String(text)) if ended => Some(text.clone()),
        _ => None,
    };
    if let Some(output) = structured.or(shown).or_else(plain) {
        drop_texts(patch, |_| true);
        patch.output = call.show(output, &mut memory.shown_bytes);
    }
}

impl Call {
    /// Only what is new, if the rest is known.
    fn show(&mut self, output: String, remembered: &mut usize) -> Option<OutputPatch> {
        let patch = match output.strip_prefix(self.shown.as_str()) {
            Some("") => return None,
            Some(more) if !self.shown.is_empty() => OutputPatch::Append(more.to_owned()),
            _ => OutputPatch::Replace(output.clone()),
        };
        *remembered -= self.shown.len();
        self.shown = if *remembered + output.len() <= OUTPUT_BYTES { output } else { String::new() };
        *remembered += self.shown.len();
        Some(patch)
    }
}

/// What a command wrote, out of the structured results that agents have for it.
fn structured_output(result: &Value) -> Option<String> {
    let result = result.as_object()?;
    for key in ["output", "formatted_output", "aggregated_output"] {
        match result.get(key) {
            Some(Value::String(text)) => return Some(text.clone()),
            Some(Value::Array(bytes)) if !bytes.is_empty() => {
                let bytes = bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
                let bytes: Option<Vec<u8>> = bytes.collect();
                return bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            }
            _ => {}
        }
    }
    let (out, err) = (text(result, "stdout"), text(result, "stderr"));
    (out.is_some() || err.is_some()).then(|| [out, err].into_iter().flatten().collect())
}

fn texts(parts: &[ToolPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ToolPart::Content(Content::Text(text)) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Without the fenced block around it.
fn unfenced(text: String) -> String {
    let inner = text.trim().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((_language, body)) => body.to_owned(),
        None => text,
    }
}

/// Takes text out of the content; content of which nothing is left says nothing.
fn drop_texts(patch: &mut ToolPatch, matches: impl Fn(&str) -> bool) {
    let Some(parts) = &mut patch.content else { return };
    let before = parts.len();
    parts.retain(|part| !matches!(part, ToolPart::Content(Content::Text(text)) if matches(text)));
    if parts.is_empty() && before > 0 {
        patch.content = None;
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
