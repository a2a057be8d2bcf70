//! What an agent tells of an earlier session of its own, on the way to facts: turns that begin with what the user said,
//! bounded, held once. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use signalbox_agents::{Content, NoticeSeverity, OutputPatch, TextChunk, ToolPart, ToolPatch, Update};
use signalbox_facts::{
    Activity, DocBlock, FactBody, Policy, Prompt, TitleChanged, TitleOrigin, ToolOutcome, TurnContext,
    TurnEnded, TurnId, TurnStatus, Warning, canonical_text, display_text,
};

use crate::batch::{Batch, Item};
use crate::items::Items;
use crate::{activity, title};

/// Most of a conversation that is kept: the newest turns.
const MAX_BYTES: usize = 32 << 20;
/// Most pieces of it.
const MAX_PIECES: usize = 100_000;
/// A chunk that joins the one before it is not made longer than this.
const JOIN_BYTES: usize = 64 << 10;
/// Most of what the user said in one prompt.
const PROMPT_BYTES: usize = 1 << 20;
/// The longest result of a call that is kept as it came.
const RESULT_BYTES: usize = 16 << 10;
/// What a piece costs besides its texts.
const PIECE_BYTES: usize = 256;
/// What opens a turn of which the agent did not tell what was asked.
const UNTOLD: &str = "(The agent did not tell what was asked here.)";

/// A conversation as it is told.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    turns: VecDeque<Told>,
    pieces: usize,
    bytes: usize,
    left_out: usize,
    title: Option<String>,
}

/// A turn as it is told.
#[derive(Debug, Default)]
struct Told {
    prompt: String,
    /// The agent's id of the message that the prompt's last chunk belongs to.
    message_id: Option<String>,
    answer: Vec<Update>,
    bytes: usize,
}

/// What the facts of an adopted session say of all its turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) policy: Policy,
}

impl Transcript {
    /// Takes the next piece.
    pub(crate) fn take(&mut self, update: Update) {
        match update {
            Update::UserMessage(chunk) => self.said(chunk),
            Update::Title(title) => self.title = title,
            Update::Tool(patch) => self.add(Update::Tool(Box::new(slim(*patch)))),
            update @ (Update::Message(_)
            | Update::Thought(_)
            | Update::MessageContent { .. }
            | Update::Plan(_)
            | Update::Notice { .. }
            | Update::Compaction { .. }
            | Update::CompactionSummary { .. }) => self.add(update),
            // State of a session that is not in use, and what this version does not know.
            _ => {}
        }
        self.cut();
    }

    /// The title that the agent told with it.
    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref().map(str::trim).filter(|title| !title.is_empty())
    }

    /// Whether nothing was told.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Turns that had no room.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Writes the turns into a batch, each with its beginning and its end. A title that the session has none of is made of
    /// the first prompt, unless it `has_title`.
    pub(crate) fn write(self, batch: &mut Batch, frame: Frame<'_>, has_title: bool) {
        let mut now = Activity::default();
        let mut untitled = !has_title;
        for told in self.turns {
            now = write_turn(batch, told, frame, &now, &mut untitled);
        }
    }

    /// What the user said. Chunks that follow each other are one prompt: agents tell its parts, and what they add to it, in
    /// several.
    fn said(&mut self, chunk: TextChunk) {
        let bytes = chunk.text.len();
        match self.turns.back_mut().filter(|told| told.answer.is_empty() && !told.prompt.is_empty()) {
            Some(told) => {
                if told.prompt.len() + bytes > PROMPT_BYTES {
                    return;
                }
                let same = told.message_id == chunk.message_id;
                if !same || chunk.message_id.is_none() && !told.prompt.ends_with(char::is_whitespace) {
                    told.prompt.push_str("\n\n");
                }
                told.prompt.push_str(&chunk.text);
                told.message_id = chunk.message_id;
                told.bytes += bytes;
            }
            None => {
                let mut prompt = chunk.text;
                prompt.truncate(prompt.floor_char_boundary(PROMPT_BYTES));
                let told = Told { prompt, message_id: chunk.message_id, answer: Vec::new(), bytes };
                self.turns.push_back(told);
                self.pieces += 1;
            }
        }
        self.bytes += bytes;
    }

    fn add(&mut self, update: Update) {
        if self.turns.is_empty() {
            self.turns.push_back(Told::default());
        }
        let Some(told) = self.turns.back_mut() else { return };
        let bytes = weight(&update);
        // A turn that fills all the room by itself is not held further.
        if told.bytes + bytes > MAX_BYTES || told.answer.len() >= MAX_PIECES {
            return;
        }
        told.bytes += bytes;
        self.bytes += bytes;
        match (told.answer.last_mut(), update) {
            (Some(Update::Message(last)), Update::Message(next))
            | (Some(Update::Thought(last)), Update::Thought(next))
                if last.message_id == next.message_id && last.text.len() + next.text.len() <= JOIN_BYTES =>
            {
                last.text.push_str(&next.text);
            }
            (_, update) => {
                told.answer.push(update);
                self.pieces += 1;
            }
        }
    }

    /// The oldest turns make room.
    fn cut(&mut self) {
        while (self.bytes > MAX_BYTES || self.pieces > MAX_PIECES) && self.turns.len() > 1 {
            if let Some(told) = self.turns.pop_front() {
                self.bytes = self.bytes.saturating_sub(told.bytes);
                self.pieces = self.pieces.saturating_sub(told.answer.len() + 1);
                self.left_out += 1;
            }
        }
    }
}

fn write_turn(
    batch: &mut Batch,
    told: Told,
    frame: Frame<'_>,
    now: &Activity,
    untitled: &mut bool,
) -> Activity {
    let turn = TurnId::generate();
    let Some(running) = activity::open_turn(now, turn, None) else { return now.clone() };
    batch.push(Some(turn), Item::None, FactBody::Activity(running.clone()));
    let is_told = !told.prompt.trim().is_empty();
    let blocks = vec![DocBlock::text(if is_told { told.prompt } else { UNTOLD.to_owned() })];
    let text = canonical_text(&blocks);
    if is_told
        && *untitled
        && let Some(title) = title::from_prompt(&text)
    {
        let changed = TitleChanged { title, origin: TitleOrigin::Automatic };
        batch.push(Some(turn), Item::None, FactBody::TitleChanged(changed));
        *untitled = false;
    }
    let context = TurnContext {
        cwd: frame.cwd.to_owned(),
        roots: Vec::new(),
        model: None,
        effort: None,
        policy: frame.policy,
        options: BTreeMap::new(),
        client_metadata: BTreeMap::new(),
        additional_context: BTreeMap::new(),
        parent_turn: None,
        root_turn: None,
    };
    let prompt = Prompt {
        display: display_text(&text),
        text,
        blocks,
        request_id: None,
        client_message_id: None,
        opens: Some(Box::new(context)),
    };
    batch.push(Some(turn), Item::New, FactBody::Prompt(Box::new(prompt)));
    let mut items = Items::new(frame.cwd.to_owned());
    for update in told.answer {
        write_update(batch, turn, &mut items, update);
    }
    items.close_open(batch, turn, ToolOutcome::Unfinished);
    let idle = activity::finish(&running, turn).unwrap_or(running);
    batch.push(Some(turn), Item::None, FactBody::Activity(idle.clone()));
    // How it ended is not told.
    let ended = TurnEnded {
        status: TurnStatus::Completed,
        stop_reason: None,
        failure: None,
        request_id: None,
        tokens: None,
    };
    batch.push(Some(turn), Item::None, FactBody::TurnEnded(Box::new(ended)));
    idle
}

fn write_update(batch: &mut Batch, turn: TurnId, items: &mut Items, update: Update) {
    match update {
        Update::Message(chunk) => items.text(batch, turn, false, chunk),
        Update::Thought(chunk) => items.text(batch, turn, true, chunk),
        Update::MessageContent { thought, message_id, content } => {
            items.content(batch, turn, thought, message_id, *content);
        }
        Update::Tool(patch) => items.tool(batch, turn, *patch, false),
        Update::Plan(plan) => items.plan(batch, turn, plan),
        Update::Compaction { id, status, summary, .. } => items.compaction(batch, turn, id, status, summary),
        Update::CompactionSummary { id, text } => items.compaction_summary(batch, turn, id, &text),
        Update::Notice { severity, title, description } => {
            let reason = match severity {
                NoticeSeverity::Info => "agent_notice",
                NoticeSeverity::Warning => "agent_warning",
                NoticeSeverity::Error => "agent_error",
            };
            let message = description.map_or(title.clone(), |more| format!("{title}: {more}"));
            batch.push(Some(turn), Item::None, warning(reason, message));
        }
        _ => {}
    }
}

/// A warning that belongs to no request.
pub(crate) fn warning(reason: &str, message: String) -> FactBody {
    FactBody::Warning(Warning { message, reason: reason.to_owned(), terminal: false, request_id: None })
}

/// Without a result that is longer than any that is shown.
fn slim(patch: ToolPatch) -> ToolPatch {
    let is_short = |result: &serde_json::Value| result.to_string().len() <= RESULT_BYTES;
    ToolPatch { raw_output: patch.raw_output.filter(is_short), ..patch }
}

fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::Image { data, .. } | Content::Audio { data, .. } => data.len(),
        Content::Resource { text, blob, .. } => text.as_ref().or(blob.as_ref()).map_or(0, String::len),
        _ => 0,
    }
}

fn weight(update: &Update) -> usize {
    PIECE_BYTES
        + match update {
            Update::Message(chunk) | Update::Thought(chunk) => chunk.text.len(),
            Update::CompactionSummary { text, .. } => text.len(),
            Update::MessageContent { content, .. } => content_bytes(content),
            Update::Tool(patch) => {
                let parts = patch.content.iter().flatten().map(|part| match part {
                    ToolPart::Content(content) => content_bytes(content),
                    ToolPart::Diff { old_text, new_text, .. } => {
                        old_text.as_ref().map_or(0, String::len) + new_text.len()
                    }
                    ToolPart::Patch(diff) => diff.unified.len(),
                    _ => 0,
                });
                let output = match &patch.output {
                    Some(OutputPatch::Append(text) | OutputPatch::Replace(text)) => text.len(),
                    None => 0,
                };
                let json = [&patch.raw_input, &patch.raw_output].into_iter().flatten();
                let json: usize = json.map(|value| value.to_string().len()).sum();
                parts.sum::<usize>() + output + json
            }
            _ => 0,
        }
}

#[cfg(test)]
#[path = "adopted_tests.rs"]
mod tests;
