//! `session/update`: from its kind to the internal model.

use serde_json::{Value, json};
use signalbox_facts::{Command, CompactionStatus, ConfigOption};

use super::content::content;
use super::fields::{
    Object, cut, take_filled, take_id, take_list, take_message, take_name, take_object, take_text, text,
};
use super::v2::State;
use super::{ToolContext, ToolMemory, config_options, plan, tool_patch};
use crate::update::{Content, NoticeSeverity, TextChunk, ToolPatch, Update};

/// An unknown update longer than this is kept by its kind only.
const UNKNOWN_BYTES: usize = 16 << 10;
/// Scalars of a session's title.
const MAX_TITLE_CHARS: usize = 500;
/// A longer summary of a compaction is cut.
const SUMMARY_BYTES: usize = 256 << 10;
/// Stands for the id of a compaction that has none.
const COMPACTION: &str = "compaction";
/// Slash commands kept; some agents have hundreds.
const MAX_COMMANDS: usize = 1000;
/// Of each text of a command; what else they carry (some have whole manuals in `_meta`) is not kept.
const MAX_COMMAND_CHARS: usize = 500;

/// A decoded update, or one that changes what the driver itself keeps.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// For the receiver.
    Update(Update),
    /// The whole set of config options.
    Options(Vec<ConfigOption>),
    /// The mode that is now in force.
    Mode(String),
    /// The context window or what an agent calls so; kept raw, because the driver knows when it means nothing.
    Usage(Object),
    /// What the agent's foreground work has come to (version 2).
    State(State),
    /// The history that was asked for has come, all of it (version 2).
    ReplayComplete,
    /// Nothing that anybody can see.
    Nothing,
}

/// Decodes one update; `bytes` is the length of its line.
pub(crate) fn update(
    mut object: Object,
    bytes: usize,
    context: &ToolContext<'_>,
    tools: &mut ToolMemory,
) -> Decoded {
    let kind = take_name(&mut object, "sessionUpdate").unwrap_or_default();
    Decoded::Update(match kind.as_str() {
        "agent_message_chunk" => match chunk(&mut object) {
            Ok(chunk) if chunk.text.is_empty() => return Decoded::Nothing,
            Ok(chunk) => Update::Message(chunk),
            Err((message_id, content)) => {
                Update::MessageContent { thought: false, message_id, content: Box::new(content) }
            }
        },
        "agent_thought_chunk" => match chunk(&mut object) {
            Ok(chunk) if chunk.text.is_empty() => return Decoded::Nothing,
            Ok(chunk) => Update::Thought(chunk),
            Err((message_id, content)) => {
                Update::MessageContent { thought: true, message_id, content: Box::new(content) }
            }
        },
        "user_message_chunk" => match chunk(&mut object) {
            Ok(chunk) if !chunk.text.is_empty() => Update::UserMessage(chunk),
            _ => return Decoded::Nothing,
        },
        "tool_call" | "tool_call_update" => match tool_patch(object, context, tools) {
            Some(patch) => Update::Tool(Box::new(ToolPatch { announced: kind == "tool_call", ..patch })),
            None => return Decoded::Nothing,
        },
        "plan" => Update::Plan(plan::plan(&mut object)),
        "plan_update" => Update::Plan(plan::plan_update(&mut object)),
        "plan_removed" => Update::Plan(plan::plan_removed(&mut object)),
        "available_commands_update" => Update::Commands(commands(&mut object)),
        "config_option_update" => match take_list(&mut object, "configOptions") {
            Some(list) => return Decoded::Options(config_options(list)),
            None => return Decoded::Nothing,
        },
        "current_mode_update" => {
            let mode = take_id(&mut object, "currentModeId").or_else(|| take_id(&mut object, "modeId"));
            return mode.map_or(Decoded::Nothing, Decoded::Mode);
        }
        "session_info_update" => match object.get("title") {
            Some(Value::String(title)) if !title.trim().is_empty() => {
                Update::Title(Some(title.trim().chars().take(MAX_TITLE_CHARS).collect()))
            }
            Some(Value::Null) => Update::Title(None),
            // Times and `_meta` alone are no new title.
            _ => return Decoded::Nothing,
        },
        "usage_update" => return Decoded::Usage(object),
        "notice" => Update::Notice {
            severity: match text(&object, "severity") {
                Some("info") => NoticeSeverity::Info,
                Some("error") => NoticeSeverity::Error,
                _ => NoticeSeverity::Warning,
            },
            title: take_name(&mut object, "title").unwrap_or_default(),
            description: take_message(&mut object, "description"),
        },
        "compaction_update" => Update::Compaction {
            id: take_id(&mut object, "compactionId").unwrap_or_else(|| COMPACTION.to_owned()),
            status: match text(&object, "status") {
                Some("completed") => CompactionStatus::Completed,
                Some("failed" | "cancelled") => CompactionStatus::Failed,
                _ => CompactionStatus::InProgress,
            },
            summary: take_list(&mut object, "summary")
                .map(texts)
                .filter(|text| !text.is_empty())
                .map(summary),
            error: take_message(&mut object, "error"),
        },
        "compaction_summary_chunk" => Update::CompactionSummary {
            id: take_id(&mut object, "compactionId").unwrap_or_else(|| COMPACTION.to_owned()),
            text: summary(texts(vec![object.get_mut("content").map(Value::take).unwrap_or_default()])),
        },
        _ if bytes > UNKNOWN_BYTES => Update::Unknown(json!({"sessionUpdate": kind, "omittedBytes": bytes})),
        _ => {
            object.insert("sessionUpdate".to_owned(), Value::String(kind));
            Update::Unknown(Value::Object(object))
        }
    })
}

fn chunk(object: &mut Object) -> Result<TextChunk, (Option<String>, Content)> {
    let message_id = take_id(object, "messageId");
    match content(object.get_mut("content").map(Value::take).unwrap_or_default()) {
        Content::Text(text) => Ok(TextChunk { message_id, text }),
        other => Err((message_id, other)),
    }
}

fn summary(text: String) -> String {
    cut(text, SUMMARY_BYTES)
}

/// The texts among some content blocks.
fn texts(blocks: Vec<Value>) -> String {
    let texts = blocks.into_iter().filter_map(|block| match content(block) {
        Content::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// The slash commands of an update, or of the answer to an opening request.
pub(crate) fn commands(object: &mut Object) -> Vec<Command> {
    let list = take_list(object, "availableCommands").unwrap_or_default();
    let commands = list.into_iter().filter_map(|value| {
        let Value::Object(mut command) = value else { return None };
        let mut input = take_object(&mut command, "input").unwrap_or_default();
        let short = |text: String| text.chars().take(MAX_COMMAND_CHARS).collect::<String>();
        Some(Command {
            name: take_filled(&mut command, "name").map(short)?,
            description: take_text(&mut command, "description").map(short).unwrap_or_default(),
            hint: take_filled(&mut input, "hint").map(short),
        })
    });
    commands.take(MAX_COMMANDS).collect()
}
