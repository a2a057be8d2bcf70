//! A commit as the engine hands it over, and as the pipeline carries it.

use signalbox_facts::{Committed, Fact, Seq, SessionId};

use crate::CommitError;
use crate::derive::{self, Change};
use crate::indexing::Gives;
use crate::sql::FactRow;

/// What one session wants stored and shown together: facts, and signals between them.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The session.
    pub session: SessionId,
    /// Its high-water mark as the caller knows it; 0 for a session that this commit creates.
    pub expected_last_seq: Seq,
    /// Facts numbered from `expected_last_seq + 1` without gap, and signals, in the order in which they are shown.
    pub entries: Vec<Committed>,
}

impl Commit {
    /// A commit of facts alone.
    #[must_use]
    pub fn facts(session: SessionId, expected_last_seq: Seq, facts: impl IntoIterator<Item = Fact>) -> Self {
        let entries = facts.into_iter().map(|fact| Committed::Fact(fact.into())).collect();
        Self { session, expected_last_seq, entries }
    }
}

/// A checked commit with its rows encoded.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub session: SessionId,
    pub expected: Seq,
    pub last: Seq,
    pub rows: Vec<FactRow>,
    pub boundary: bool,
    /// Whether anything derived follows from its facts.
    derives: bool,
    /// What it gives the search index.
    pub gives: Option<Gives>,
    pub bytes: usize,
    pub entries: Vec<Committed>,
}

impl Prepared {
    pub(crate) fn new(commit: Commit) -> Result<Self, CommitError> {
        let Commit { session, expected_last_seq: expected, entries } = commit;
        let invalid = |reason| CommitError::Invalid { session, reason };
        derive::check(session, expected, facts(&entries)).map_err(invalid)?;
        let rows = facts(&entries).map(FactRow::encode).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|error| invalid(error.to_string()))?;
        let boundary = facts(&entries).any(|fact| fact.body.is_boundary());
        Ok(Self {
            session,
            expected,
            last: expected + rows.len() as u64,
            boundary,
            gives: facts(&entries).filter_map(Gives::of).max(),
            derives: !derive::changes(facts(&entries)).is_empty(),
            bytes: rows.iter().map(FactRow::bytes).sum(),
            rows,
            entries,
        })
    }

    /// Whether it changes nothing but the log and the high-water mark.
    pub(crate) fn is_plain(&self) -> bool {
        !self.derives
    }

    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        derive::changes(facts(&self.entries))
    }
}

fn facts(entries: &[Committed]) -> impl Iterator<Item = &Fact> + Clone {
    entries.iter().filter_map(|entry| match entry {
        Committed::Fact(fact) => Some(&**fact),
        Committed::Signal(_) => None,
    })
}
