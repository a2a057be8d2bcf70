//! Turns: how they begin, fill with items, and end.

use std::mem::discriminant;

use signalbox_protocol::app::{Thread, ThreadItem, Turn, TurnItemsView, TurnStatus};

use super::broken::Problem;
use super::item::{Grows, grow, is_complete};

/// The turn of this id. None is none to worry about only if not all turns are known.
pub(super) fn find<'t>(
    thread: &'t mut Thread,
    id: &str,
    all_known: bool,
) -> Result<Option<&'t mut Turn>, Problem> {
    // Most of what is told is about the newest.
    match thread.turns.iter_mut().rev().find(|turn| turn.id == id) {
        None if all_known => Err(Problem::UnknownTurn(id.to_owned())),
        turn => Ok(turn),
    }
}

/// A turn begins.
pub(super) fn start(thread: &mut Thread, turn: &Turn) -> Result<(), Problem> {
    if thread.turns.iter().any(|known| known.id == turn.id) {
        return Err(Problem::TurnStartedTwice(turn.id.clone()));
    }
    if let Some(running) = thread.turns.iter().find(|known| known.status == TurnStatus::InProgress) {
        return Err(Problem::TurnStillRuns(running.id.clone()));
    }
    // Its items follow, all of them.
    thread.turns.push(Turn { items_view: TurnItemsView::Full, ..turn.clone() });
    Ok(())
}

/// A turn has ended: what is told of it now is final, but of the items only the last message is.
pub(super) fn end(turn: &mut Turn, told: &Turn) -> Result<(), Problem> {
    if turn.status != TurnStatus::InProgress {
        return Err(Problem::TurnEnded(turn.id.clone()));
    }
    all_complete(turn)?;
    let items = std::mem::take(&mut turn.items);
    *turn = Turn { items, items_view: turn.items_view, ..told.clone() };
    Ok(())
}

/// Every item of the turn is complete.
pub(super) fn all_complete(turn: &Turn) -> Result<(), Problem> {
    match turn.items.iter().find(|item| !is_complete(item)) {
        Some(open) => Err(Problem::ItemOpen(open.id.clone())),
        None => Ok(()),
    }
}

/// An item begins. `active` is whether the thread is told to be.
pub(super) fn item_starts(turn: &mut Turn, item: &ThreadItem, active: bool) -> Result<(), Problem> {
    if turn.items.iter().any(|known| known.id == item.id) {
        return Err(Problem::ItemStartedTwice(item.id.clone()));
    }
    let running = turn.status == TurnStatus::InProgress && active;
    if item.late == running {
        return Err(Problem::Late(item.id.clone()));
    }
    turn.items.push(item.clone());
    Ok(())
}

/// An open item has more. False if it is not known, and need not be.
pub(super) fn item_grows(turn: &mut Turn, id: &str, by: Grows<'_>) -> Result<bool, Problem> {
    match item(turn, id)? {
        Some(item) => grow(item, by).map(|()| true),
        None => Ok(false),
    }
}

/// An item is complete, or is told once more because it has changed since.
pub(super) fn item_completes(turn: &mut Turn, told: &ThreadItem) -> Result<(), Problem> {
    if !is_complete(told) {
        return Err(Problem::ItemIncomplete(told.id.clone()));
    }
    match item(turn, &told.id)? {
        Some(known) if discriminant(&known.body) != discriminant(&told.body) => {
            Err(Problem::OtherKind(told.id.clone()))
        }
        Some(known) => {
            known.clone_from(told);
            Ok(())
        }
        // One that the snapshot left out: it belongs before those that are here, where its page will bring it.
        None => Ok(()),
    }
}

/// The item of this id. Of a turn that is not here whole it may be among those that were left out.
pub(super) fn item<'t>(turn: &'t mut Turn, id: &str) -> Result<Option<&'t mut ThreadItem>, Problem> {
    let whole = turn.items_view == TurnItemsView::Full;
    match turn.items.iter_mut().rev().find(|item| item.id == id) {
        None if whole => Err(Problem::UnknownItem(id.to_owned())),
        item => Ok(item),
    }
}
