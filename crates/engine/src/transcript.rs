//! Transcript pages: what the store reads of a session as entries, without the steps of tool calls that have ended. The
//! projection is pure.

use std::collections::HashMap;

use signalbox_facts::{Seq, SessionId, compact};
use signalbox_protocol::ops::{Part, Role, TranscriptEntry};
pub use signalbox_store::TranscriptError;
use signalbox_store::{PageRequest, Reader, TranscriptFacts};

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
    Ok(of_facts(reader.transcript(session, request).await?))
}

/// The page that these facts make. Pure.
#[must_use]
pub fn of_facts(read: TranscriptFacts) -> ItemPage {
    // Chunks that the background has not joined yet are joined here: a page does not depend on how far it is.
    let facts = compact(&read.facts);
    let entries = facts.iter().filter_map(|fact| Some((fact.item_seq, project::entry(fact)?))).collect();
    ItemPage {
        entries: without_steps(entries),
        next_before: read.next_before,
        snapshot_through: read.snapshot_through,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn user(seq: Seq) -> TranscriptEntry {
        let part = Part::Prompt { text: "go".into(), display: "go".into() };
        TranscriptEntry { seq, role: Role::User, part, through_seq: None, continues: false }
    }

    fn tool(seq: Seq, status: &str) -> TranscriptEntry {
        let part = Part::ToolCall {
            id: "call".into(),
            title: String::new(),
            status: status.into(),
            tool_kind: None,
            agent_input: None,
        };
        TranscriptEntry { seq, role: Role::Agent, part, through_seq: None, continues: false }
    }

    fn known(mut entry: TranscriptEntry, name: &str) -> TranscriptEntry {
        if let Part::ToolCall { title, tool_kind, agent_input, .. } = &mut entry.part {
            *title = name.into();
            *tool_kind = Some("agent".into());
            *agent_input = serde_json::json!({ "agent_type": name }).as_object().cloned();
        }
        entry
    }

    fn seqs(entries: &[TranscriptEntry]) -> Vec<Seq> {
        entries.iter().map(|entry| entry.seq).collect()
    }

    #[test]
    fn an_end_takes_the_place_of_the_steps_before_it_and_keeps_what_they_knew() {
        let kept = superseded(vec![
            user(0),
            known(tool(1, "pending"), "explorer"),
            tool(2, "in_progress"),
            tool(3, "completed"),
            tool(4, "in_progress"),
            user(5),
            tool(6, "failed"),
        ]);
        assert_eq!(seqs(&kept), [0, 3, 4, 5, 6]);
        assert_eq!(kept[1], known(tool(3, "completed"), "explorer"));
        assert_eq!(kept[4], tool(6, "failed"));
    }

    #[test]
    fn the_nearest_step_wins_and_the_end_itself_before_all() {
        let kept = superseded(vec![
            user(0),
            known(tool(1, "pending"), "far"),
            known(tool(2, "in_progress"), "near"),
            tool(3, "completed"),
        ]);
        assert_eq!(kept[1], known(tool(3, "completed"), "near"));
        let kept =
            superseded(vec![user(0), known(tool(1, "pending"), "step"), known(tool(2, "failed"), "end")]);
        assert_eq!(kept[1], known(tool(2, "failed"), "end"));
    }

    #[test]
    fn steps_without_an_end_stay() {
        let all = vec![user(0), tool(1, "pending"), tool(2, "in_progress")];
        assert_eq!(superseded(all.clone()), all);
    }

    #[test]
    fn an_end_of_another_turn_ends_nothing_here() {
        let all = vec![user(0), tool(1, "pending"), user(2), tool(3, "completed")];
        assert_eq!(superseded(all.clone()), all);
        // A prompt that steers does not begin a turn.
        let steered = TranscriptEntry { continues: true, ..user(2) };
        let kept = superseded(vec![user(0), tool(1, "pending"), steered, tool(3, "completed")]);
        assert_eq!(seqs(&kept), [0, 2, 3]);
    }

    #[test]
    fn every_end_stays_and_the_next_one_takes_the_steps() {
        let kept = superseded(vec![
            user(0),
            known(tool(1, "pending"), "first"),
            tool(2, "completed"),
            known(tool(3, "pending"), "second"),
            tool(4, "failed"),
        ]);
        assert_eq!(seqs(&kept), [0, 2, 4]);
        assert_eq!(kept[1], known(tool(2, "completed"), "first"));
        assert_eq!(kept[2], known(tool(4, "failed"), "second"));
    }

    #[test]
    fn a_status_is_read_whatever_its_case_and_the_space_around_it() {
        for end in ["  COMPLETED ", "Failed", "completed"] {
            let kept = superseded(vec![user(0), tool(1, "pending"), tool(2, end)]);
            assert_eq!(seqs(&kept), [0, 2], "{end}");
        }
        let kept = superseded(vec![user(0), tool(1, "pending"), tool(2, "complete")]);
        assert_eq!(seqs(&kept), [0, 1, 2]);
    }
}
