//! Turns rebuilt from stored facts.

use signalbox_facts::{Fact, FactBody, Seq, SessionRow, TurnId, TurnRow};
use signalbox_protocol::app::{ThreadItem, Turn};

use super::effects::Out;
use super::turn::{TurnPart, TurnState};
use super::{HELD_BYTES, ThreadView};

/// The turns that these facts make, oldest first, through the same function as the live view. The facts may be of one or
/// more turns, compacted or not; turns that a revert among them covers are left out, and so is what belongs to a turn whose
/// beginning is not among them.
#[must_use]
pub fn history<'f>(session: &SessionRow, facts: impl IntoIterator<Item = &'f Fact>) -> Vec<Turn> {
    let mut rebuild = Rebuild::new(session, HELD_BYTES);
    let mut turns: Vec<Rebuilt> = Vec::new();
    for fact in facts {
        turns.extend(rebuild.take(fact));
        if let FactBody::Reverted(reverted) = &fact.body {
            turns.retain(|turn| turn.first_seq() < reverted.from_seq);
        }
    }
    turns.extend(rebuild.finish());
    turns.iter().map(Rebuilt::whole).collect()
}

/// Turns while they are rebuilt, one after the other, from facts in order: no more is held than one turn.
#[derive(Debug)]
pub struct Rebuild {
    view: ThreadView,
}

/// A turn as its facts have made it.
#[derive(Debug)]
pub struct Rebuilt(TurnState);

impl Rebuild {
    /// From the beginning of a turn. At most `limit` bytes are held of one message or thought.
    #[must_use]
    pub fn new(session: &SessionRow, limit: usize) -> Self {
        let mut view = ThreadView::new(session.clone());
        view.limit = limit;
        Self { view }
    }

    /// From the middle of a turn: some of its items. `settled` says that they came after its end.
    #[must_use]
    pub fn within(session: &SessionRow, limit: usize, turn: &TurnRow, settled: bool) -> Self {
        let mut rebuild = Self::new(session, limit);
        rebuild.view.turn = Some(TurnState::within(turn, settled, limit));
        rebuild
    }

    /// Takes in the next fact. Gives the turn before, if this one begins another.
    pub fn take(&mut self, fact: &Fact) -> Option<Rebuilt> {
        let begins = matches!(&fact.body, FactBody::Prompt(prompt) if prompt.opens.is_some());
        // The first fact of a turn whose items are read from their beginning opens what is open already.
        let known = self.view.turn.as_ref().is_some_and(|turn| fact.turn == Some(turn.id));
        let before = if begins && !known { self.view.turn.take() } else { None };
        self.view.take(fact, &mut Out::deaf());
        before.map(Rebuilt)
    }

    /// The last turn.
    #[must_use]
    pub fn finish(self) -> Option<Rebuilt> {
        self.view.turn.map(Rebuilt)
    }
}

impl Rebuilt {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> TurnId {
        self.0.id
    }

    /// Where it begins, as far as its facts say.
    #[must_use]
    pub fn first_seq(&self) -> Seq {
        self.0.first_seq
    }

    /// With all items.
    #[must_use]
    pub fn whole(&self) -> Turn {
        self.0.snapshot()
    }

    /// Without items.
    #[must_use]
    pub fn outline(&self) -> Turn {
        self.0.outline()
    }

    /// The newest items that fit into `max` bytes of JSON, but at least one, each in at most `item_max`.
    #[must_use]
    pub fn newest(&self, max: usize, item_max: usize) -> TurnPart {
        self.0.newest(max, item_max)
    }

    /// Of the items only what the user wrote first and what the agent said last.
    #[must_use]
    pub fn brief(&self, item_max: usize) -> TurnPart {
        self.0.brief(item_max)
    }

    /// The items with their seqs, each in at most `item_max` bytes of JSON, and how many it takes.
    pub fn items(&self, item_max: usize) -> impl Iterator<Item = (Seq, ThreadItem, usize)> + '_ {
        self.0.items(item_max)
    }
}
