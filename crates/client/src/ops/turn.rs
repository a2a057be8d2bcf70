//! Turns and their items: what the rows of a transcript mean, wherever they came from.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use signalbox_protocol::ops::{DocBlock, Part, Role, TranscriptEntry};

/// One row of a transcript: an entry of a page, or a live event. Both are folded into turns by the same function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) seq: Option<u64>,
    pub(super) through_seq: Option<u64>,
    /// The turn it opens, if it does and if that is known.
    pub(super) turn: Option<String>,
    pub(super) content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Prompt {
        text: Option<String>,
        display: Option<String>,
        doc: Option<Vec<DocBlock>>,
        continues: bool,
    },
    Text {
        message_id: Option<String>,
        text: String,
    },
    Reasoning {
        text: String,
    },
    ToolCall {
        id: String,
        title: String,
        status: String,
        kind: Option<String>,
        agent_input: Option<Map<String, Value>>,
    },
    Plan {
        entries: Vec<String>,
    },
}

/// A turn: the prompt that opened it and what followed. What an agent said before any prompt is a turn too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// Known only of turns whose start this client has seen.
    pub id: Option<String>,
    /// The sequence of its first row; none if a server without sequences sent it.
    pub seq: Option<u64>,
    pub items: Vec<Item>,
}

/// One item of a turn. `seq` is the sequence of its first row.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Prompt {
        seq: Option<u64>,
        /// What was written. `turn_started` does not say it: unknown until a page is read, if another client wrote it.
        text: Option<String>,
        /// The bounded form for lists.
        display: Option<String>,
        /// The document, if this client wrote it.
        doc: Option<Vec<DocBlock>>,
        /// Whether it went into the turn instead of opening it.
        continues: bool,
    },
    Text {
        seq: Option<u64>,
        /// The last sequence that belongs to it so far.
        through_seq: Option<u64>,
        /// None if the server does not say; then messages that follow each other cannot be told apart.
        message_id: Option<String>,
        text: String,
    },
    Reasoning {
        seq: Option<u64>,
        through_seq: Option<u64>,
        text: String,
    },
    ToolCall {
        seq: Option<u64>,
        id: String,
        title: String,
        status: String,
        kind: Option<String>,
        agent_input: Option<Map<String, Value>>,
    },
    Plan {
        seq: Option<u64>,
        entries: Vec<String>,
    },
}

impl Row {
    pub(super) fn from_entry(entry: TranscriptEntry) -> Self {
        let user = entry.role == Role::User;
        let content = match entry.part {
            Part::Prompt { text, display } => Content::Prompt {
                text: Some(text),
                display: Some(display),
                doc: None,
                continues: entry.continues,
            },
            // Databases of old servers hold prompts in this form.
            Part::Text { text, .. } if user => {
                Content::Prompt { text: Some(text), display: None, doc: None, continues: entry.continues }
            }
            Part::Text { text, message_id } => {
                Content::Text { message_id: message_id.filter(|id| !id.is_empty()), text }
            }
            Part::Reasoning { text } => Content::Reasoning { text },
            Part::ToolCall { id, title, status, tool_kind, agent_input } => {
                Content::ToolCall { id, title, status, kind: tool_kind, agent_input }
            }
            Part::Plan { entries } => Content::Plan { entries },
        };
        Self { seq: Some(entry.seq), through_seq: entry.through_seq, turn: None, content }
    }
}

/// Folds rows, oldest first, into turns.
pub(super) fn turns(rows: impl IntoIterator<Item = Row>) -> Vec<Turn> {
    let mut turns = Vec::new();
    for row in rows {
        fold(&mut turns, row);
    }
    turns
}

/// Folds one more row into the last turn, or opens the next one with it.
pub(super) fn fold(turns: &mut Vec<Turn>, row: Row) {
    let opens = matches!(row.content, Content::Prompt { continues: false, .. });
    if opens || turns.is_empty() {
        turns.push(Turn { id: row.turn.clone(), seq: row.seq, items: Vec::new() });
    }
    if let Some(turn) = turns.last_mut() {
        turn.fold(row);
    }
}

impl Turn {
    fn fold(&mut self, row: Row) {
        let seq = row.seq;
        let last = row.through_seq.or(row.seq);
        match row.content {
            Content::Prompt { text, display, doc, continues } => {
                self.items.push(Item::Prompt { seq, text, display, doc, continues });
            }
            Content::Text { message_id, text } => match self.items.last_mut() {
                Some(Item::Text { message_id: open, text: said, through_seq, .. })
                    if open.is_none() || message_id.is_none() || *open == message_id =>
                {
                    said.push_str(&text);
                    *through_seq = last.or(*through_seq);
                    if open.is_none() {
                        *open = message_id;
                    }
                }
                _ => self.items.push(Item::Text { seq, through_seq: last, message_id, text }),
            },
            Content::Reasoning { text } => match self.items.last_mut() {
                Some(Item::Reasoning { text: thought, through_seq, .. }) => {
                    thought.push_str(&text);
                    *through_seq = last.or(*through_seq);
                }
                _ => self.items.push(Item::Reasoning { seq, through_seq: last, text }),
            },
            Content::ToolCall { id, title, status, kind, agent_input } => {
                self.fold_tool(seq, id, title, status, kind, agent_input);
            }
            // A plan comes whole every time.
            Content::Plan { entries } => {
                let known = self.items.iter_mut().rev().find_map(|item| match item {
                    Item::Plan { entries, .. } => Some(entries),
                    _ => None,
                });
                match known {
                    Some(known) => *known = entries,
                    None => self.items.push(Item::Plan { seq, entries }),
                }
            }
        }
    }

    /// Rows with one id are one call within a turn. What a later row does not say stays as an earlier one said it.
    fn fold_tool(
        &mut self,
        seq: Option<u64>,
        id: String,
        title: String,
        status: String,
        kind: Option<String>,
        agent_input: Option<Map<String, Value>>,
    ) {
        let known = self.items.iter_mut().rev().find_map(|item| match item {
            Item::ToolCall { id: known, title, status, kind, agent_input, .. } if *known == id => {
                Some((title, status, kind, agent_input))
            }
            _ => None,
        });
        let Some((known_title, known_status, known_kind, known_input)) = known else {
            self.items.push(Item::ToolCall { seq, id, title, status, kind, agent_input });
            return;
        };
        if !title.trim().is_empty() {
            *known_title = title;
        }
        if !status.trim().is_empty() {
            *known_status = status;
        }
        if kind.is_some() {
            *known_kind = kind;
        }
        if agent_input.is_some() {
            *known_input = agent_input;
        }
    }

    /// Takes over what only somebody who was there can know: ids, and the documents of own prompts.
    pub(super) fn remember(&mut self, seen: &Self) {
        if self.id.is_none() {
            self.id.clone_from(&seen.id);
        }
        for item in &mut self.items {
            let Item::Prompt { seq, doc, .. } = item else { continue };
            for old in &seen.items {
                if let Item::Prompt { seq: Some(old_seq), doc: Some(old_doc), .. } = old
                    && *seq == Some(*old_seq)
                    && doc.is_none()
                {
                    *doc = Some(old_doc.clone());
                }
            }
        }
    }

    /// Sequences of its prompts whose words are not known.
    pub(super) fn unknown_prompts(&self, into: &mut BTreeSet<u64>) {
        for item in &self.items {
            if let Item::Prompt { seq: Some(seq), text: None, doc: None, .. } = item {
                into.insert(*seq);
            }
        }
    }
}
