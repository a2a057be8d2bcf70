//! From an agent's updates to the facts of items: which item a chunk belongs to, what a tool call has become. Pure.
//!
//! The same rules that close an item here close it in the thread view: a message ends where another item starts, and
//! never by output or updates of a tool call that is already there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use serde_json::Value;
use signalbox_agents::{Content, OutputPatch, PlanPatch, TextChunk, ToolPart, ToolPatch};
use signalbox_facts::{
    AgentText, CompactionStatus, ContextCompaction, Fact, FactBody, FileDiff, ItemKind, Location, Plan, Seq,
    ToolCall, ToolContent, ToolOutcome, ToolOutput, ToolStatus, TurnId,
};

use crate::agent_input::launch_fields;
use crate::batch::{Batch, Item};
use crate::diff::{bounded_diff, file_diff};
use crate::output::{Output, Piece};
use crate::shown::{MAX_CONTENT_BYTES, bounded, cut, describe, media, tool_content, words};

const MAX_TITLE_BYTES: usize = 512;
const MAX_COMMAND_BYTES: usize = 16 << 10;
const MAX_ERROR_BYTES: usize = 4 << 10;
const MAX_PLANS: usize = 16;
const MAX_SUMMARY_BYTES: usize = 64 << 10;
const MAX_LOCATIONS: usize = 256;
const MAX_DIFFS: usize = 256;
/// Calls of turns before that are remembered.
const MAX_EARLIER: usize = 1024;

/// The items of one turn.
#[derive(Debug, Default)]
pub(crate) struct Items {
    cwd: PathBuf,
    text: Option<OpenText>,
    /// By the agent's id, with its item.
    plans: Vec<(Option<String>, Seq, Plan)>,
    tools: HashMap<String, Tool>,
    /// Ids in the order of their first mention, so that closing is in order.
    order: Vec<String>,
    /// Calls of turns before, the newest last: what still comes of them is not of this turn.
    earlier: VecDeque<String>,
    compactions: HashMap<String, Compaction>,
    /// The compaction that was asked for, while nobody has said that it is over, and whether the agent has told of it.
    asked_compaction: Option<(Seq, bool)>,
    output: bool,
    /// A call that may change files has completed.
    changed: bool,
    /// What completed calls carried, the latest of each file.
    file_diffs: BTreeMap<PathBuf, FileDiff>,
}

#[derive(Debug)]
struct OpenText {
    thought: bool,
    agent_id: Option<String>,
    item: Seq,
}

#[derive(Debug)]
struct Tool {
    /// The item, once the call is shown.
    item: Option<Seq>,
    call: ToolCall,
    output: Output,
    declined: bool,
    /// The latest diffs, until the call has completed.
    diffs: Vec<FileDiff>,
    /// Something of what it returned has been shown.
    shown: bool,
    /// The agent has stated the command line; until then the title stands in for it.
    stated: bool,
    /// When it was first shown, Unix milliseconds.
    since_ms: i64,
}

/// A compaction that the agent has told of.
#[derive(Debug)]
struct Compaction {
    item: Seq,
    status: CompactionStatus,
    /// What it keeps, as far as it has been told.
    summary: String,
}

/// An open call.
#[derive(Debug)]
pub(crate) struct OpenTool<'a> {
    pub(crate) item: Seq,
    pub(crate) title: &'a str,
    pub(crate) kind: Option<&'a str>,
    pub(crate) since_ms: i64,
}

impl Items {
    /// The items of a new turn in this directory.
    #[must_use]
    pub(crate) fn new(cwd: PathBuf) -> Self {
        Self { cwd, ..Self::default() }
    }

    /// The items of the turn behind this one.
    #[must_use]
    pub(crate) fn of_next_turn(&mut self, cwd: PathBuf) -> Self {
        let mut earlier = std::mem::take(&mut self.earlier);
        earlier.extend(self.order.drain(..));
        let more = earlier.len().saturating_sub(MAX_EARLIER);
        earlier.drain(..more);
        Self { cwd, earlier, ..Self::default() }
    }

    /// A chunk of an answer or a thought.
    pub(crate) fn text(&mut self, batch: &mut Batch, turn: TurnId, thought: bool, chunk: TextChunk) {
        if chunk.text.is_empty() {
            return;
        }
        self.output = true;
        let open = self.text.as_ref().filter(|open| {
            open.thought == thought
                && (open.agent_id == chunk.message_id
                    || open.agent_id.is_none()
                    || chunk.message_id.is_none())
        });
        let (item, seq) = match open {
            Some(open) => (Item::Of(open.item), open.item),
            None => (Item::New, batch.next_seq()),
        };
        let text = AgentText { message_id: format!("m{seq}"), text: chunk.text };
        let body = if thought { FactBody::AgentThought(text) } else { FactBody::AgentText(text) };
        batch.push(Some(turn), item, body);
        if item == Item::New {
            self.text = Some(OpenText { thought, agent_id: chunk.message_id, item: seq });
        }
    }

    /// A piece of an answer or a thought that is no text: an image or a sound is an item of its own, of others it is shown
    /// what text can say.
    pub(crate) fn content(
        &mut self,
        batch: &mut Batch,
        turn: TurnId,
        thought: bool,
        message_id: Option<String>,
        content: Content,
    ) {
        let Some((title, piece)) = media(&content) else {
            let text = describe(&content);
            return self.text(batch, turn, thought, TextChunk { message_id, text });
        };
        self.output = true;
        self.text = None;
        let mut call = Tool::new(format!("content-{}", batch.next_seq())).call;
        call.title = title.to_owned();
        call.status = ToolStatus::Completed;
        call.content = Some(vec![piece]);
        batch.push(Some(turn), Item::New, FactBody::ToolCall(Box::new(call)));
    }

    /// Ends the message or thought that is open: what follows is a new item.
    pub(crate) fn break_text(&mut self) {
        self.text = None;
    }

    /// A plan, whole. An agent may have several, each with an id of its own.
    pub(crate) fn plan(&mut self, batch: &mut Batch, turn: TurnId, patch: PlanPatch) {
        let plan = Plan { entries: patch.entries, markdown: patch.markdown };
        let known = self.plans.iter().position(|(id, ..)| *id == patch.id);
        let item = match known.map(|place| &self.plans[place]) {
            Some((_, _, last)) if *last == plan => return,
            Some((_, item, _)) => Item::Of(*item),
            None if plan.entries.is_empty() && plan.markdown.is_none() => return,
            None if self.plans.len() == MAX_PLANS => return,
            None => Item::New,
        };
        let seq = batch.push(Some(turn), item, FactBody::Plan(plan.clone()));
        if item == Item::New {
            self.text = None;
            self.output = true;
        }
        match known {
            Some(place) => self.plans[place].2 = plan,
            None => self.plans.push((patch.id, seq, plan)),
        }
    }

    /// The agent compacts its context.
    pub(crate) fn compaction(
        &mut self,
        batch: &mut Batch,
        turn: TurnId,
        id: String,
        status: CompactionStatus,
        summary: Option<String>,
    ) {
        self.output = true;
        if let Some((item, claimed @ false)) = &mut self.asked_compaction {
            // The agent tells of the one that it was asked for.
            *claimed = true;
            let (item, summary) = (*item, String::new());
            let status = CompactionStatus::InProgress;
            self.compactions.insert(id.clone(), Compaction { item, status, summary });
        }
        let known = self.compactions.get_mut(&id);
        let summary = summary.map(|summary| cut(summary, MAX_SUMMARY_BYTES)).or_else(|| {
            let ends = status != CompactionStatus::InProgress;
            known
                .as_ref()
                .filter(|known| ends && !known.summary.is_empty())
                .map(|known| known.summary.clone())
        });
        let body = ContextCompaction { id: id.clone(), status, summary: summary.clone() };
        let item = match known {
            Some(known) => {
                known.status = status;
                batch.push(Some(turn), Item::Of(known.item), FactBody::ContextCompaction(body));
                known.item
            }
            None => {
                let item = batch.push(Some(turn), Item::New, FactBody::ContextCompaction(body));
                self.text = None;
                let summary = summary.unwrap_or_default();
                self.compactions.insert(id, Compaction { item, status, summary });
                item
            }
        };
        if status != CompactionStatus::InProgress
            && self.asked_compaction.is_some_and(|(asked, _)| asked == item)
        {
            self.asked_compaction = None;
        }
    }

    /// More of what a compaction keeps. It is stored with the compaction's end.
    pub(crate) fn compaction_summary(&mut self, batch: &mut Batch, turn: TurnId, id: String, text: &str) {
        if !self.compactions.contains_key(&id) {
            self.compaction(batch, turn, id.clone(), CompactionStatus::InProgress, None);
        }
        let Some(known) = self.compactions.get_mut(&id) else { return };
        let room = MAX_SUMMARY_BYTES.saturating_sub(known.summary.len());
        known.summary.push_str(&text[..text.floor_char_boundary(room)]);
        if known.status != CompactionStatus::InProgress {
            let (status, summary) = (known.status, Some(known.summary.clone()));
            let body = FactBody::ContextCompaction(ContextCompaction { id, status, summary });
            batch.push(Some(turn), Item::Of(known.item), body);
        }
    }

    /// The turn is one that somebody asked for so that the agent compacts its context.
    pub(crate) fn compaction_asked(&mut self, batch: &mut Batch, turn: TurnId) {
        let body = FactBody::ContextCompaction(ContextCompaction {
            id: "requested".to_owned(),
            status: CompactionStatus::InProgress,
            summary: None,
        });
        let item = batch.push(Some(turn), Item::New, body);
        self.text = None;
        self.output = true;
        self.asked_compaction = Some((item, false));
    }

    /// With the turn ends the compaction that it was for, if the agent has not said so itself.
    pub(crate) fn compaction_ended(&mut self, batch: &mut Batch, turn: TurnId, completed: bool) {
        let Some((item, _)) = self.asked_compaction.take() else { return };
        let status = if completed { CompactionStatus::Completed } else { CompactionStatus::Failed };
        let id = "requested".to_owned();
        let body = FactBody::ContextCompaction(ContextCompaction { id, status, summary: None });
        batch.push(Some(turn), Item::Of(item), body);
    }

    /// A tool call began or changed. `asked` is true when a permission request speaks of it: then it is shown even
    /// without a kind.
    pub(crate) fn tool(&mut self, batch: &mut Batch, turn: TurnId, patch: ToolPatch, asked: bool) {
        let id = patch.id.clone();
        if !asked && self.is_stale(&patch) {
            tracing::debug!(call = %id, "an update of a call that ended with an earlier turn is left out");
            return;
        }
        if self.tools.get(&id).is_some_and(|tool| begins_anew(tool, &patch)) {
            self.tools.remove(&id);
            self.order.retain(|known| *known != id);
        }
        let tool = self.tools.entry(id.clone()).or_insert_with(|| {
            self.order.push(id.clone());
            Tool::new(id)
        });
        self.output = true;
        let before = tool.call.clone();
        let mut pieces = Vec::new();
        tool.merge(patch, &self.cwd, &mut pieces);
        let ready = asked || tool.is_known() || !tool.output.is_empty() || tool.call.status.is_final();
        if tool.item.is_none() && !ready {
            return;
        }
        if tool.call.status.is_final() {
            pieces.extend(tool.output.finish());
        }
        let mut changed = tool.call != before || tool.call.diffs.is_some() || tool.call.content.is_some();
        if tool.item.is_none() {
            self.text = None;
            let mut call = tool.call.clone();
            call.item = item_kind(&call);
            tool.call.item = call.item;
            // What has output must be open while it comes.
            changed = call.status.is_final() && !pieces.is_empty();
            if changed {
                call.status = ToolStatus::InProgress;
                call.outcome = None;
                call.exit_code = None;
            }
            tool.item = Some(batch.push(Some(turn), Item::New, FactBody::ToolCall(Box::new(call))));
            tool.since_ms = batch.at_ms();
        }
        let Some(item) = tool.item else { return };
        for piece in pieces {
            let (text, replace) = match piece {
                Piece::Append(text) => (text, false),
                Piece::Replace(text) => (text, true),
            };
            let body = FactBody::ToolOutput(ToolOutput { id: tool.call.id.clone(), text, replace });
            batch.push(Some(turn), Item::Of(item), body);
        }
        if changed {
            batch.push(Some(turn), Item::Of(item), FactBody::ToolCall(Box::new(tool.call.clone())));
        }
        if let Some(diffs) = tool.call.diffs.take() {
            tool.diffs = diffs;
        }
        if tool.call.status == ToolStatus::Completed && before.status != ToolStatus::Completed {
            self.changed |= may_change_files(&tool.call);
            let completed = std::mem::take(&mut tool.diffs).into_iter();
            self.file_diffs.extend(completed.map(|diff| (diff.path.clone(), diff)));
        }
        // From here on `None` means unchanged.
        tool.call.content = None;
        tool.call.raw_input = None;
    }

    /// Whether a patch tells of a call that ended with an earlier turn, such as the output of a command that outlived the
    /// cancel of its turn, rather than of one that has the same id.
    fn is_stale(&self, patch: &ToolPatch) -> bool {
        let says_what = patch.title.is_some() || patch.kind.is_some() || patch.raw_input.is_some();
        let begins = patch.announced || says_what && !patch.status.is_some_and(ToolStatus::is_final);
        !begins && !self.tools.contains_key(&patch.id) && self.earlier.contains(&patch.id)
    }

    /// The permission of a call was declined: however the agent closes it, that is its outcome.
    pub(crate) fn declined(&mut self, id: &str) {
        if let Some(tool) = self.tools.get_mut(id) {
            tool.declined = true;
        }
    }

    /// Closes every call that is still open.
    pub(crate) fn close_open(&mut self, batch: &mut Batch, turn: TurnId, outcome: ToolOutcome) {
        for id in &self.order {
            let Some(tool) = self.tools.get_mut(id) else { continue };
            if tool.call.status.is_final() {
                continue;
            }
            tool.call.status = ToolStatus::Failed;
            tool.call.outcome = Some(if tool.declined { ToolOutcome::Declined } else { outcome });
            let item = tool.item.map_or(Item::New, Item::Of);
            if item == Item::New {
                tool.call.item = item_kind(&tool.call);
            } else if let Some(Piece::Append(text)) = tool.output.finish() {
                let body = FactBody::ToolOutput(ToolOutput { id: id.clone(), text, replace: false });
                batch.push(Some(turn), item, body);
            }
            let seq = batch.push(Some(turn), item, FactBody::ToolCall(Box::new(tool.call.clone())));
            tool.item.get_or_insert(seq);
        }
        self.text = None;
    }

    /// The call that is shown and still open, the one that began last.
    #[must_use]
    pub(crate) fn open_tool(&self) -> Option<OpenTool<'_>> {
        self.order.iter().rev().find_map(|id| {
            let tool = self.tools.get(id).filter(|tool| !tool.call.status.is_final())?;
            let (title, kind, since_ms) = (&*tool.call.title, tool.call.kind.as_deref(), tool.since_ms);
            Some(OpenTool { item: tool.item?, title, kind, since_ms })
        })
    }

    /// Whether a call that is shown is still open.
    #[must_use]
    pub(crate) fn has_open_tool(&self) -> bool {
        self.tools.values().any(|tool| tool.item.is_some() && !tool.call.status.is_final())
    }

    /// Whether the agent has said or done anything in this turn.
    #[must_use]
    pub(crate) fn has_output(&self) -> bool {
        self.output
    }

    /// Whether a call that may change files has completed since the last time this was asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The changes that completed calls carried, by path.
    pub(crate) fn file_diffs(&self) -> impl Iterator<Item = &FileDiff> {
        self.file_diffs.values()
    }

    /// What is known of a call.
    #[must_use]
    pub(crate) fn call(&self, id: &str) -> Option<(&ToolCall, Option<Seq>)> {
        self.tools.get(id).map(|tool| (&tool.call, tool.item))
    }
}

/// The calls that a turn's facts leave open, with their items, in order.
#[must_use]
pub(crate) fn open_calls(facts: &[Fact]) -> Vec<(Seq, ToolCall)> {
    let mut open: Vec<(Seq, ToolCall)> = Vec::new();
    for fact in facts {
        let (Some(item), FactBody::ToolCall(call)) = (fact.item_seq, &fact.body) else { continue };
        open.retain(|(other, _)| *other != item);
        if !call.status.is_final() {
            open.push((item, ToolCall { diffs: None, content: None, raw_input: None, ..(**call).clone() }));
        }
    }
    open.sort_by_key(|(item, _)| *item);
    open
}

impl Tool {
    fn new(id: String) -> Self {
        Self {
            item: None,
            call: ToolCall {
                title: "Tool call".to_owned(),
                id,
                item: ItemKind::DynamicToolCall,
                kind: None,
                status: ToolStatus::Pending,
                outcome: None,
                agent_input: None,
                command: None,
                cwd: None,
                exit_code: None,
                locations: Vec::new(),
                mcp: None,
                diffs: None,
                content: None,
                raw_input: None,
                error: None,
            },
            output: Output::default(),
            declined: false,
            diffs: Vec::new(),
            shown: false,
            stated: false,
            since_ms: 0,
        }
    }

    /// Whether enough is known to show it: its kind, and of a command that is only announced also the command line,
    /// which some agents send a moment later.
    fn is_known(&self) -> bool {
        let announced = is_command(&self.call) && self.call.status == ToolStatus::Pending;
        self.call.kind.is_some() && (self.stated || !announced)
    }

    fn merge(&mut self, patch: ToolPatch, cwd: &Path, pieces: &mut Vec<Piece>) {
        let call = &mut self.call;
        if let Some(title) = patch.title.filter(|title| !title.trim().is_empty()) {
            call.title = cut(title, MAX_TITLE_BYTES);
        }
        // An agent that falls back to `other` does not take back what it said before.
        if let Some(kind) = patch.kind.filter(|kind| call.kind.is_none() || kind != "other") {
            call.kind = Some(kind);
        }
        call.mcp = patch.mcp.or_else(|| call.mcp.take());
        if let Some(command) = patch.command {
            call.command = Some(cut(command, MAX_COMMAND_BYTES));
            self.stated = true;
        }
        call.cwd = patch.cwd.map(|path| cwd.join(path)).or_else(|| call.cwd.take());
        call.exit_code = patch.exit_code.or(call.exit_code);
        if let Some(locations) = patch.locations {
            let absolute = |location: Location| Location { path: cwd.join(location.path), ..location };
            call.locations = locations.into_iter().take(MAX_LOCATIONS).map(absolute).collect();
        }
        if let Some(raw_input) = patch.raw_input.filter(|value| !value.is_null()) {
            if let Some(fields) = launch_fields(call.kind.as_deref(), &call.title, &raw_input) {
                call.agent_input = Some(fields);
            }
            call.raw_input = Some(bounded(raw_input));
        }
        // Text that was shown may go on as output; what is left of the content may be nothing.
        let moved = patch.output.is_some() && self.shown && !is_command(call);
        if let Some(output) = patch.output {
            pieces.extend(match output {
                OutputPatch::Append(text) => self.output.append(&text),
                OutputPatch::Replace(text) => self.output.replace(&text),
            });
        }
        if let Some(parts) = patch.content {
            self.take_parts(parts, cwd, moved);
        }
        self.take_status(patch.status, patch.cancelled);
        self.take_result(patch.raw_output);
        let call = &mut self.call;
        if is_command(call) {
            if call.cwd.is_none() {
                call.cwd = Some(cwd.to_owned());
            }
            if !self.stated {
                call.command = Some(call.title.clone());
            }
        }
    }

    fn take_status(&mut self, status: Option<ToolStatus>, cancelled: bool) {
        let call = &mut self.call;
        let Some(status) = status else { return };
        let regress = call.status.is_final() && !status.is_final()
            || call.status == ToolStatus::InProgress && status == ToolStatus::Pending;
        if regress {
            return;
        }
        call.status = status;
        if status.is_final() && self.declined {
            call.status = ToolStatus::Failed;
            call.outcome = Some(ToolOutcome::Declined);
        } else if cancelled {
            call.outcome = Some(ToolOutcome::Interrupted);
        } else if call.outcome == Some(ToolOutcome::Unfinished)
            || call.outcome == Some(ToolOutcome::Interrupted)
        {
            // A late update knows better than our closing.
            call.outcome = None;
        }
    }

    /// What the call returned as the agent's model sees it: shown where nothing else was, and the reason of a failure.
    fn take_result(&mut self, result: Option<Value>) {
        let call = &mut self.call;
        if !call.status.is_final() {
            return;
        }
        self.shown |= call.content.is_some() || call.diffs.is_some() || !self.diffs.is_empty();
        let words = result.and_then(words);
        if call.status == ToolStatus::Failed && call.outcome.is_none() && !is_command(call) {
            let said = call.content.iter().flatten().find_map(|piece| match piece {
                ToolContent::Text { text } if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            });
            if let Some(said) = said.or_else(|| words.clone()) {
                call.error = Some(cut(said, MAX_ERROR_BYTES));
            }
        } else {
            call.error = None;
        }
        let has_place = matches!(item_kind(call), ItemKind::McpToolCall | ItemKind::DynamicToolCall);
        if let Some(words) = words.filter(|_| has_place && !self.shown && self.output.is_empty()) {
            self.shown = true;
            call.content = Some(vec![ToolContent::Text { text: cut(words, MAX_CONTENT_BYTES) }]);
        }
    }

    fn take_parts(&mut self, parts: Vec<ToolPart>, cwd: &Path, moved: bool) {
        let delete = self.call.kind.as_deref() == Some("delete");
        let mut diffs: Vec<FileDiff> = Vec::new();
        let mut content = Vec::new();
        for part in parts {
            match part {
                ToolPart::Diff { path, old_text, new_text } if diffs.len() < MAX_DIFFS => {
                    diffs.push(file_diff(cwd.join(path), old_text.as_deref(), &new_text, delete));
                }
                ToolPart::Patch(diff) if diffs.len() < MAX_DIFFS => diffs.push(bounded_diff(diff)),
                // What a command wrote comes as output; text beside that describes it.
                ToolPart::Content(Content::Text(_)) if is_command(&self.call) => {}
                ToolPart::Content(one) => content.extend(tool_content(one)),
                ToolPart::Session { id } => {
                    content.push(ToolContent::Text { text: format!("[session {id}]") });
                }
                ToolPart::Unknown(value) => {
                    content.push(ToolContent::Text { text: bounded(value).to_string() })
                }
                ToolPart::Diff { .. } | ToolPart::Patch(_) | ToolPart::Terminal { .. } => {}
            }
        }
        if !diffs.is_empty() {
            if self.call.locations.is_empty() {
                self.call.locations =
                    diffs.iter().map(|diff| Location { path: diff.path.clone(), line: None }).collect();
            }
            self.call.diffs = Some(diffs);
        }
        if !content.is_empty() || moved {
            self.shown = true;
            self.call.content = Some(content);
        }
    }
}

/// Whether a patch for a call that has ended announces another call under the same id.
fn begins_anew(tool: &Tool, patch: &ToolPatch) -> bool {
    tool.call.status.is_final()
        && patch.status.is_some_and(|status| !status.is_final())
        && (patch.title.is_some() || patch.kind.is_some() || patch.raw_input.is_some())
}

fn may_change_files(call: &ToolCall) -> bool {
    matches!(call.kind.as_deref(), Some("edit" | "delete" | "move" | "execute"))
}

fn is_command(call: &ToolCall) -> bool {
    call.kind.as_deref() == Some("execute") && call.mcp.is_none()
}

fn item_kind(call: &ToolCall) -> ItemKind {
    match call.kind.as_deref() {
        _ if call.mcp.is_some() => ItemKind::McpToolCall,
        Some("execute") => ItemKind::CommandExecution,
        Some("edit" | "delete" | "move") => ItemKind::FileChange,
        _ => ItemKind::DynamicToolCall,
    }
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
