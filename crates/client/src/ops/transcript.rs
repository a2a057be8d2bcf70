//! The transcript of one session: pages and live rows become one sequence of turns, without gap and without repetition.

use std::collections::{BTreeSet, VecDeque};

use super::turn::{Row, Turn, fold, turns};

/// Rows held back while a page is awaited. Beyond it they are let go and the page is asked for again.
pub const BUFFERED_MAX: usize = 8192;

/// The transcript of a session whose history this client has asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// Oldest first; the last one may still be running.
    pub turns: Vec<Turn>,
    /// Everything up to this sequence is in `turns`, as far as pages were read.
    pub through: Option<u64>,
    pub older: Older,
    pub phase: Phase,
    /// Why the last page could not be had.
    pub error: Option<String>,
    /// The older page that is awaited: its `request_id` and its cursor.
    pub(super) older_asked: Option<(String, u64)>,
    pub(super) buffered: VecDeque<Buffered>,
}

/// How current a transcript is. Live rows are applied only while it is `Live`; else they are held back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Phase {
    /// The newest page has to be asked for.
    #[default]
    Stale,
    /// The newest page was asked for under this `request_id`.
    Asked(String),
    /// Page and live rows meet.
    Live,
}

/// What lies before the oldest turn of `turns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Older {
    #[default]
    Unknown,
    /// More, to be asked for with this cursor.
    Before(u64),
    /// Nothing.
    End,
}

/// What waits for the newest page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Buffered {
    Row(Row),
    Reverted { before_turn: String, through_seq: u64 },
}

/// A page as it came.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) rows: Vec<Row>,
    pub(super) next_before: Option<u64>,
    pub(super) snapshot_through: Option<u64>,
}

impl Transcript {
    /// A live row.
    pub(super) fn row(&mut self, row: Row) {
        match self.phase {
            Phase::Live => self.apply(row),
            _ => self.hold(Buffered::Row(row)),
        }
    }

    /// This turn and all after it are no longer part of the history.
    pub(super) fn reverted(&mut self, before_turn: String, through_seq: u64) {
        match self.phase {
            Phase::Live => self.take_back(&before_turn, through_seq),
            _ => self.hold(Buffered::Reverted { before_turn, through_seq }),
        }
    }

    /// Frames were missed: what is shown stays, but nothing is added to it before the newest page was read again.
    pub(super) fn missed(&mut self) {
        self.phase = Phase::Stale;
        self.older_asked = None;
        self.error = None;
    }

    /// The newest page came.
    pub(super) fn newest(&mut self, page: Page) {
        self.error = None;
        let Page { rows, next_before, snapshot_through } = page;
        // A reader that saw less than what is here already has nothing to add.
        if snapshot_through >= self.through || self.turns.is_empty() {
            self.replace_end(turns(rows), next_before);
            self.through = snapshot_through;
        }
        self.phase = Phase::Live;
        for held in std::mem::take(&mut self.buffered) {
            match held {
                Buffered::Row(row) => self.row(row),
                Buffered::Reverted { through_seq, .. } if Some(through_seq) <= self.through => {}
                Buffered::Reverted { before_turn, through_seq } => self.reverted(before_turn, through_seq),
            }
        }
    }

    /// An older page came; pages are whole turns, so they go before the others as they are.
    pub(super) fn prepend(&mut self, before: u64, page: Page) {
        if self.older != Older::Before(before) {
            return;
        }
        let mut older = turns(page.rows);
        older.append(&mut self.turns);
        self.turns = older;
        self.older = page.next_before.map_or(Older::End, Older::Before);
        self.error = None;
    }

    /// Sequences of prompts whose words only a page can tell.
    #[must_use]
    pub fn unknown_prompts(&self) -> BTreeSet<u64> {
        let mut unknown = BTreeSet::new();
        for turn in &self.turns {
            turn.unknown_prompts(&mut unknown);
        }
        unknown
    }

    fn apply(&mut self, row: Row) {
        match row.seq {
            Some(seq) if Some(seq) <= self.through => return,
            Some(seq) => self.through = Some(row.through_seq.unwrap_or(seq)),
            // A server without sequences; its order of arrival is all there is.
            None => {}
        }
        fold(&mut self.turns, row);
    }

    fn hold(&mut self, held: Buffered) {
        if self.buffered.len() >= BUFFERED_MAX {
            // What is let go is missed, and a page read from now on has it.
            self.buffered.clear();
            self.missed();
        }
        self.buffered.push_back(held);
    }

    /// Puts a page in the place of the turns it covers. Older turns stay if no turn can be missing between them and it.
    fn replace_end(&mut self, mut page: Vec<Turn>, next_before: Option<u64>) {
        let first = page.first().and_then(|turn| turn.seq);
        for turn in &mut page {
            if let Some(seen) = self.turns.iter().find(|seen| seen.seq.is_some() && seen.seq == turn.seq) {
                turn.remember(seen);
            }
        }
        let joins = first.is_some() && next_before.is_some() && first <= self.through;
        let kept = if joins { self.turns.partition_point(|turn| turn.seq < first) } else { 0 };
        self.turns.truncate(kept);
        if kept == 0 {
            self.older = next_before.map_or(Older::End, Older::Before);
        }
        self.turns.append(&mut page);
    }

    fn take_back(&mut self, before_turn: &str, through_seq: u64) {
        if Some(through_seq) <= self.through {
            return;
        }
        match self.turns.iter().position(|turn| turn.id.as_deref() == Some(before_turn)) {
            Some(first) => {
                self.turns.truncate(first);
                self.through = Some(through_seq);
                // The cursor of the older pages was a row that is no longer part of the history.
                if first == 0 && self.older != Older::End {
                    self.missed();
                }
            }
            // A turn that was read from a page has no id, so only another page can tell what is left.
            None => self.missed(),
        }
    }
}
