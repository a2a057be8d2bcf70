//! Turns rebuilt from stored facts.

use signalbox_facts::{Fact, FactBody, Seq, SessionRow};
use signalbox_protocol::app::Turn;

use super::ThreadView;
use super::effects::Out;

/// The turns that these facts make, oldest first, through the same function as the live view. The facts may be of one or
/// more turns, compacted or not; turns that a revert among them covers are left out, and so is what belongs to a turn whose
/// beginning is not among them.
#[must_use]
pub fn history<'f>(session: &SessionRow, facts: impl IntoIterator<Item = &'f Fact>) -> Vec<Turn> {
    let mut view = ThreadView::new(session.clone());
    let mut turns: Vec<(Seq, Turn)> = Vec::new();
    for fact in facts {
        match &fact.body {
            FactBody::Prompt(prompt) if prompt.opens.is_some() => turns.extend(view.take_turn()),
            FactBody::Reverted(reverted) => turns.retain(|(first, _)| *first < reverted.from_seq),
            _ => {}
        }
        view.take(fact, &mut Out::deaf());
    }
    turns.extend(view.take_turn());
    turns.into_iter().map(|(_, turn)| turn).collect()
}

impl ThreadView {
    fn take_turn(&mut self) -> Option<(Seq, Turn)> {
        self.turn.take().map(|turn| (turn.first_seq, turn.snapshot()))
    }
}
