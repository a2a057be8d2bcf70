//! Transcript pages: what the store reads of a session as entries, without the steps of tool calls that have ended. The
//! projection is pure.

use std::collections::HashMap;

use signalbox_facts::{Seq, SessionId, compact};
use signalbox_protocol::ops::{Part, Role, TranscriptEntry};
pub use signalbox_store::TranscriptError;
use signalbox_store::{PageRequest, Reader};

use crate::project;

/// Turns of a page where the caller does not say.
pub const DEFAULT_TURNS: u32 = 20;

/// A page of whole turns, oldest entry first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TranscriptPage {
    /// Its entries.
    pub entries: Vec<TranscriptEntry>,
    /// The cursor of the next older page; none if there is nothing older.
    pub next_before: Option<Seq>,
    /// The session's high-water mark at the moment of the page; none if there is no such session. What is committed later
    /// has a greater seq, and all that has is not in the page.
    pub snapshot_through: Option<Seq>,
}

/// An entry and the item it belongs to. Chunks of one message have one item, separate messages never.
pub type ItemEntry = (Option<Seq>, TranscriptEntry);

/// The same page with the item of each entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ItemPage {
    /// Its entries.
    pub entries: Vec<ItemEntry>,
    /// As in [`TranscriptPage`].
    pub next_before: Option<Seq>,
    /// As in [`TranscriptPage`].
    pub snapshot_through: Option<Seq>,
}

/// A page of a session's transcript: at most `limit` turns (20 if none, 1 to 50) and about 512 KiB, at least one turn.
///
/// # Errors
/// If the cursor is not one, the page cannot be read, or the database cannot.
pub async fn page(
    reader: &Reader,
    session: &str,
    before: Option<Seq>,
    limit: Option<u32>,
) -> Result<TranscriptPage, TranscriptError> {
    let ItemPage { entries, next_before, snapshot_through } =
        page_of_items(reader, session, before, limit).await?;
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(TranscriptPage { entries, next_before, snapshot_through })
}

/// [`page`] with the item of each entry.
///
/// # Errors
/// As [`page`].
pub async fn page_of_items(
    reader: &Reader,
    session: &str,
    before: Option<Seq>,
    limit: Option<u32>,
) -> Result<ItemPage, TranscriptError> {
    // A text that is no id names no session.
    let Ok(session) = session.parse::<SessionId>() else {
        return match before {
            Some(value) => Err(TranscriptError::InvalidCursor { value }),
            None => Ok(ItemPage::default()),
        };
    };
    let request = PageRequest { before, turns: limit.unwrap_or(DEFAULT_TURNS), ..PageRequest::default() };
    let read = reader.transcript(session, request).await?;
    // Chunks that the background has not joined yet are joined here: a page does not depend on how far it is.
    let facts = compact(&read.facts);
    let entries = facts.iter().filter_map(|fact| Some((fact.item_seq, project::entry(fact)?))).collect();
    Ok(ItemPage {
        entries: without_steps(entries),
        next_before: read.next_before,
        snapshot_through: read.snapshot_through,
    })
}

/// Leaves out each update of a tool call that was still going on where the same turn later tells how that call ended;
/// what only the update knew of title, kind and launch input moves into that end. Updates after the end (an id that is
/// used again), calls without an end, other turns and every end itself stay.
#[must_use]
pub fn superseded(entries: Vec<TranscriptEntry>) -> Vec<TranscriptEntry> {
    let entries = entries.into_iter().map(|entry| (None, entry)).collect();
    without_steps(entries).into_iter().map(|(_, entry)| entry).collect()
}

fn without_steps(mut entries: Vec<ItemEntry>) -> Vec<ItemEntry> {
    // Tool call id → place of its next end, seen from behind, within the turn.
    let mut ends: HashMap<String, usize> = HashMap::new();
    let mut is_step = vec![false; entries.len()];
    for place in (0..entries.len()).rev() {
        let (earlier, later) = entries.split_at_mut(place + 1);
        let Some((_, entry)) = earlier.last() else { continue };
        match &entry.part {
            Part::ToolCall { id, status, .. } if is_end(status) => {
                ends.insert(id.clone(), place);
            }
            Part::ToolCall { id, title, tool_kind, agent_input, .. } => {
                let end = ends.get(id).and_then(|end| later.get_mut(end - place - 1));
                let Some((_, end)) = end else { continue };
                if let Part::ToolCall {
                    title: end_title, tool_kind: end_kind, agent_input: end_input, ..
                } = &mut end.part
                {
                    if end_title.trim().is_empty() {
                        end_title.clone_from(title);
                    }
                    if end_kind.is_none() {
                        end_kind.clone_from(tool_kind);
                    }
                    if end_input.is_none() {
                        end_input.clone_from(agent_input);
                    }
                }
                is_step[place] = true;
            }
            _ if entry.role == Role::User && !entry.continues => ends.clear(),
            _ => {}
        }
    }
    let mut is_step = is_step.into_iter();
    entries.retain(|_| !is_step.next().unwrap_or(false));
    entries
}

fn is_end(status: &str) -> bool {
    let status = status.trim();
    status.eq_ignore_ascii_case("completed") || status.eq_ignore_ascii_case("failed")
}
