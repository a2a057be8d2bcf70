//! `session/update` of version 2: whole messages, terminals of the agent's own and states, onto the one internal model.
//! What looks the same as in version 1 is decoded there.

mod contents;
mod messages;
mod permission;
mod terminals;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::content::{content, tool_parts};
use super::fields::{Object, take_id, take_list, take_value, text};
use super::update::update as same_as_before;
use super::{Decoded, ToolContext, ToolMemory, tool_patch};
use crate::update::{Content, OutputPatch, TextChunk, ToolPart, ToolPatch, Update};

use contents::Contents;
pub(crate) use messages::{Kind, Messages};
pub(crate) use permission::permission;
pub(crate) use terminals::Terminals;

/// What the agent says about its foreground work.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum State {
    /// It works, waits for the user, or is in a state that this version does not know: not idle, in any case.
    Busy,
    /// Nothing is under way. The fields say why it stopped.
    Idle(Object),
}

/// What earlier updates said, as far as later ones add to it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) messages: Messages,
    pub(crate) terminals: Terminals,
    contents: Contents,
}

/// Decodes one update; `bytes` is the length of its line. One update may be several things.
pub(crate) fn update(
    mut object: Object,
    bytes: usize,
    context: &ToolContext<'_>,
    tools: &mut ToolMemory,
    memory: &mut Memory,
) -> Vec<Decoded> {
    let kind = text(&object, "sessionUpdate").unwrap_or_default().to_owned();
    match kind.as_str() {
        "user_message" => memory.whole_message(Kind::Prompt, &mut object),
        "agent_message" => memory.whole_message(Kind::Answer, &mut object),
        "agent_thought" => memory.whole_message(Kind::Thought, &mut object),
        "user_message_chunk" => memory.message_chunk(Kind::Prompt, &mut object),
        "agent_message_chunk" => memory.message_chunk(Kind::Answer, &mut object),
        "agent_thought_chunk" => memory.message_chunk(Kind::Thought, &mut object),
        "tool_call_update" => {
            let patches = memory.tool(object, context, tools);
            patches.into_iter().map(tool).collect()
        }
        "tool_call_content_chunk" => {
            memory.content_chunk(object, context, tools).map(tool).into_iter().collect()
        }
        "terminal_update" => {
            memory.terminals.update(&mut object, context.cwd).map(tool).into_iter().collect()
        }
        "terminal_output_chunk" => memory.terminals.chunk(&mut object).map(tool).into_iter().collect(),
        "state_update" => vec![Decoded::State(match text(&object, "state") {
            Some("idle") => State::Idle(object),
            _ => State::Busy,
        })],
        "replay_complete" => vec![Decoded::ReplayComplete],
        _ => vec![same_as_before(object, bytes, context, tools)],
    }
}

/// The id of the prompt that an update echoes, if it does.
pub(crate) fn echoed(update: &Object) -> Option<&str> {
    matches!(text(update, "sessionUpdate"), Some("user_message" | "user_message_chunk"))
        .then(|| text(update, "messageId"))?
}

fn tool(patch: ToolPatch) -> Decoded {
    Decoded::Update(Update::Tool(Box::new(patch)))
}

impl Memory {
    /// A message with all its content: omitted is unchanged, null and an empty list clear it.
    fn whole_message(&mut self, kind: Kind, object: &mut Object) -> Vec<Decoded> {
        let Some(blocks) = take_list(object, "content") else { return Vec::new() };
        let Some(id) = take_id(object, "messageId") else { return Vec::new() };
        let (mut all, mut others) = (String::new(), Vec::new());
        for block in blocks {
            match content(block) {
                Content::Text(text) => all.push_str(&text),
                other => others.push(other),
            }
        }
        let news = self.messages.whole(kind, &id, &all, others.len());
        let rest = all.get(news.from..).unwrap_or_default();
        let mut decoded = Vec::new();
        if !rest.is_empty() {
            decoded.push(chunk(kind, TextChunk { message_id: Some(news.id.clone()), text: rest.to_owned() }));
        }
        let others = others.into_iter().skip(news.others_from);
        decoded.extend(others.filter_map(|content| piece(kind, Some(news.id.clone()), content)));
        decoded
    }

    fn message_chunk(&mut self, kind: Kind, object: &mut Object) -> Vec<Decoded> {
        let id = take_id(object, "messageId");
        let shown = |messages: &mut Messages, text: &str, others| match &id {
            Some(id) => messages.append(kind, id, text, others).unwrap_or_else(|| id.clone()),
            None => String::new(),
        };
        match content(object.get_mut("content").map(Value::take).unwrap_or_default()) {
            Content::Text(text) if text.is_empty() => Vec::new(),
            Content::Text(text) => {
                let shown = shown(&mut self.messages, &text, 0);
                vec![chunk(kind, TextChunk { message_id: id.is_some().then_some(shown), text })]
            }
            other => {
                let shown = shown(&mut self.messages, "", 1);
                piece(kind, id.is_some().then_some(shown), other).into_iter().collect()
            }
        }
    }

    fn tool(&mut self, call: Object, context: &ToolContext<'_>, tools: &mut ToolMemory) -> Vec<ToolPatch> {
        self.tool_patch(call, context, tools).into_iter().collect()
    }

    /// The patch that an update of a call, or the call of a permission request, is.
    fn tool_patch(
        &mut self,
        call: Object,
        context: &ToolContext<'_>,
        tools: &mut ToolMemory,
    ) -> Option<ToolPatch> {
        let shows_terminal =
            |part: &Value| part.as_object().is_some_and(|part| text(part, "type") == Some("terminal"));
        if let (Some(id), Some(Value::Array(parts))) = (text(&call, "toolCallId"), call.get("content"))
            && parts.iter().any(shows_terminal)
        {
            // What the command wrote comes from its terminal, and only from there.
            tools.streams(id);
        }
        let mut patch = tool_patch(call, context, tools)?;
        if let Some(parts) = patch.content.take() {
            self.shows(&parts, &mut patch);
            patch.content = Some(parts);
        }
        self.contents.whole(&mut patch);
        Some(patch)
    }

    /// One more piece of what a call shows.
    fn content_chunk(
        &mut self,
        mut object: Object,
        context: &ToolContext<'_>,
        tools: &mut ToolMemory,
    ) -> Option<ToolPatch> {
        let id = take_id(&mut object, "toolCallId")?;
        let more = tool_parts(take_value(&mut object, "content")?, context.cwd);
        if let [ToolPart::Content(Content::Text(text))] = more.as_slice()
            && tools.takes_output(&id)
        {
            let output = Some(OutputPatch::Append(text.clone()));
            return Some(ToolPatch { id, output, ..ToolPatch::default() });
        }
        let mut patch = ToolPatch { id, ..ToolPatch::default() };
        self.shows(&more, &mut patch);
        self.contents.more(&mut patch, more);
        (patch != ToolPatch { id: patch.id.clone(), ..ToolPatch::default() }).then_some(patch)
    }

    /// What is not told yet of terminals and of calls. To be asked when the agent has said all it has to say of a turn.
    pub(crate) fn untold(&mut self) -> Vec<ToolPatch> {
        let mut patches = self.terminals.unshown();
        patches.extend(self.contents.held());
        patches
    }

    /// The call shows these pieces; what is known of terminals among them goes into its patch.
    fn shows(&mut self, parts: &[ToolPart], patch: &mut ToolPatch) {
        for part in parts {
            if let ToolPart::Terminal { id } = part {
                self.terminals.shown_by(id, patch);
            }
        }
    }
}

fn chunk(kind: Kind, chunk: TextChunk) -> Decoded {
    Decoded::Update(match kind {
        Kind::Answer => Update::Message(chunk),
        Kind::Thought => Update::Thought(chunk),
        Kind::Prompt => Update::UserMessage(chunk),
    })
}

/// A piece that is no text, of an answer or a thought: that of a prompt is known.
fn piece(kind: Kind, message_id: Option<String>, content: Content) -> Option<Decoded> {
    let thought = kind == Kind::Thought;
    let update = Update::MessageContent { thought, message_id, content: Box::new(content) };
    (kind != Kind::Prompt).then_some(Decoded::Update(update))
}
