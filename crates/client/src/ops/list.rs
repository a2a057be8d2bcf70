//! The list of sessions: which replies it has seen and asked for, and how a reply is merged.

use std::collections::{BTreeSet, VecDeque};

use signalbox_protocol::ops::SessionSnapshot;

use super::change::Change;
use super::session::Session;
use super::state::State;

/// The list as last read, and whether it has to be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionList {
    /// Ids in the server's order; sessions created since come first.
    pub order: Vec<String>,
    /// Whether any list was read yet.
    pub known: bool,
    /// Whether it has to be asked for again.
    pub stale: bool,
    /// Why the last reading failed; the order is then still that of the last good one.
    pub error: Option<String>,
    /// For each reply that is awaited: the last frame before it was asked for.
    pub(super) asked: VecDeque<u64>,
    /// The last frame before the connection began.
    pub(super) connected: u64,
    /// The last frame before which something was missed.
    pub(super) missed: u64,
}

impl Default for SessionList {
    /// The welcome is awaited: a connection begins with a list nobody has to ask for.
    fn default() -> Self {
        Self {
            order: Vec::new(),
            known: false,
            stale: false,
            error: None,
            asked: VecDeque::from([0]),
            connected: 0,
            missed: 0,
        }
    }
}

impl SessionList {
    /// The place in time of the reply that has just come. One that nobody asked for counts as asked for at the beginning.
    fn answered(&mut self) -> u64 {
        self.asked.pop_front().unwrap_or(self.connected)
    }

    /// Whether the list has to be asked for and is not.
    pub(super) fn wanted(&self) -> bool {
        self.stale && !self.asked.iter().any(|mark| *mark >= self.missed)
    }
}

impl State {
    pub(super) fn list_read(&mut self, sessions: Vec<SessionSnapshot>) -> Vec<Change> {
        let mark = self.list.answered();
        let mut changes = Vec::new();
        let mut order = Vec::with_capacity(sessions.len());
        let mut present = BTreeSet::new();
        for listed in sessions {
            let id = listed.id.clone();
            if !present.insert(id.clone()) {
                continue;
            }
            order.push(id.clone());
            let known = self.sessions.contains_key(&id);
            let session = self.sessions.entry(id.clone()).or_insert_with(|| Session::new(&id));
            if !known {
                changes.push(Change::SessionAdded { session: id.clone() });
            }
            if session.list(listed, mark) {
                changes.push(Change::ActivityChanged { session: id.clone() });
            }
            self.uncertain_prompt_runs(&id, &mut changes);
        }
        // A receipt that came after the list was asked for may tell of a session the list could not have.
        let mut receipts: Vec<_> = self.sessions.values().filter(|s| s.told.created > mark).collect();
        receipts.sort_by_key(|session| std::cmp::Reverse(session.told.created));
        let receipts: Vec<_> =
            receipts.into_iter().map(|s| s.id.clone()).filter(|id| !present.contains(id)).collect();
        self.sessions.retain(|id, session| {
            if present.contains(id) || receipts.contains(id) {
                return true;
            }
            session.listed = false;
            // What is open on a screen is not taken off it: the archive and the far end of a bounded list are not listed.
            let kept = session.transcript.is_some();
            if !kept {
                changes.push(Change::SessionRemoved { session: id.clone() });
            }
            kept
        });
        self.list.order = receipts.into_iter().chain(order).collect();
        self.list.known = true;
        self.list.error = None;
        if mark >= self.list.missed {
            self.list.stale = false;
        }
        changes.push(Change::ListChanged);
        changes
    }

    /// A failed reading says nothing about the sessions.
    pub(super) fn list_failed(&mut self, message: String) -> Vec<Change> {
        self.list.answered();
        self.list.error = Some(message.clone());
        vec![Change::ListFailed { message }]
    }
}
