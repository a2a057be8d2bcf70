//! Items out of the store: those that fit, of whatever turns, without rebuilding the turns.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use signalbox_facts::{Seq, TurnId};
use signalbox_protocol::app::ThreadItem;
use signalbox_store::{FactQuery, ItemQuery, ItemStart, Moment, StoreError};

use super::turns::HELD_BYTES;
use crate::view::cut::ITEM_BYTES;
use crate::view::{Rebuild, Rebuilt};

/// Items that are read at once at first; then as many as those before say that fit.
const AT_FIRST: u32 = 32;
/// Most items that are read at once.
const AT_ONCE: u32 = 256;
/// What an entry of a page takes beside its item.
const BESIDE: usize = 128;

/// Items in the order that was asked for.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) entries: Vec<Entry>,
    /// There are more.
    pub(super) more: bool,
}

/// An item with its place.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seq: Seq,
    pub(super) turn: TurnId,
    pub(super) item: ThreadItem,
}

/// The first items of a query that take at most `bytes` as JSON, but at least one, each at most 128 KiB of them.
/// `shorten` makes of each what is to be shown.
pub(super) async fn read(
    moment: &mut Moment,
    mut query: ItemQuery,
    bytes: usize,
    shorten: impl Fn(ThreadItem) -> ThreadItem,
) -> Result<Items, StoreError> {
    let mut found = Items::default();
    let (mut left, mut wanted, mut step) = (bytes, query.limit, AT_FIRST);
    loop {
        let count = step.min(wanted);
        let mut starts = moment.item_starts(ItemQuery { limit: count + 1, ..query }).await?;
        let more = starts.len() > count as usize;
        starts.truncate(count as usize);
        let Some(last) = starts.last().copied() else { return Ok(found) };
        let before = found.entries.len();
        for (start, item, _) in rebuilt(moment, &starts).await? {
            let item = shorten(item);
            let size = crate::view::cut::json_size(&item) + BESIDE;
            if size > left && !found.entries.is_empty() {
                found.more = true;
                return Ok(found);
            }
            left = left.saturating_sub(size);
            found.entries.push(Entry { seq: start.seq, turn: start.turn, item });
        }
        wanted -= count;
        if !more || wanted == 0 {
            found.more = more;
            return Ok(found);
        }
        if query.ascending {
            query.after = last.seq;
        } else {
            query.before = last.seq;
        }
        let each = (bytes - left) / (found.entries.len() - before).max(1);
        step = u32::try_from(left / each.max(1)).unwrap_or(AT_ONCE).clamp(1, AT_ONCE);
    }
}

/// The items that begin there, in that order. One whose first fact cannot be read is no item.
async fn rebuilt(
    moment: &mut Moment,
    starts: &[ItemStart],
) -> Result<Vec<(ItemStart, ThreadItem, usize)>, StoreError> {
    let by_seq = |start: &&ItemStart| start.seq;
    let ends = starts.iter().min_by_key(by_seq).zip(starts.iter().max_by_key(by_seq));
    let Some((first, last)) = ends else { return Ok(Vec::new()) };
    let (Some(first_turn), Some(last_turn)) = (moment.turn(first.turn).await?, moment.turn(last.turn).await?)
    else {
        return Ok(Vec::new());
    };
    let turns: HashSet<TurnId> = starts.iter().map(|start| start.turn).collect();
    let wanted: HashSet<Seq> = starts.iter().map(|start| start.seq).collect();
    let mut items: HashMap<Seq, (ThreadItem, usize)> = HashMap::new();
    let mut put = |turn: Option<Rebuilt>| {
        for turn in turn.iter() {
            let of_page = turn.items(ITEM_BYTES).filter(|(seq, ..)| wanted.contains(seq));
            items.extend(of_page.map(|(seq, item, size)| (seq, (item, size))));
        }
    };
    let settled = first_turn.row.end_seq.is_some_and(|end| end < first.seq);
    let mut rebuild = Rebuild::within(moment.session(), HELD_BYTES, &first_turn.row, settled);
    let query = FactQuery::Items { first: first.seq, last: last.seq, before: last_turn.next_seq };
    let visited = moment.visit(query, |fact| {
        if fact.turn.is_some_and(|turn| turns.contains(&turn)) {
            put(rebuild.take(&fact));
        }
        ControlFlow::Continue(())
    });
    visited.await?;
    put(rebuild.finish());
    let entry = |start: &ItemStart| items.remove(&start.seq).map(|(item, size)| (*start, item, size));
    Ok(starts.iter().filter_map(entry).collect())
}
