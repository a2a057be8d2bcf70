//! Turns out of the store, as many as fit: pages of them, and what goes before the newest turn of a snapshot.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use signalbox_facts::{Fact, FactBody, Seq, SessionId, SessionRow, TurnId};
use signalbox_protocol::app::{Turn, TurnItemsView};
use signalbox_store::{FactQuery, ItemQuery, Moment, Reader, StoreError, TurnQuery, TurnSpan};

use super::items;
use super::pages::Place;
use crate::hub::Snapshot;
use crate::view::cut::{self, ITEM_BYTES, json_size};
use crate::view::{Rebuild, Rebuilt, TurnPart};

/// Most bytes of a page.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;
/// Most bytes of one message that are held while a page is made.
pub(super) const HELD_BYTES: usize = 1024 * 1024;
/// Stored bytes of turns that are rebuilt at once. A turn that is larger is read item by item.
const AT_ONCE: u64 = 1024 * 1024;
/// Turns that are looked up at once.
const BATCH: usize = 64;

/// Which page of turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Only turns that begin after this seq.
    pub(super) after: Seq,
    /// Only turns that begin before this seq.
    pub(super) before: Seq,
    /// Oldest first.
    pub(super) ascending: bool,
    /// Most turns.
    pub(super) limit: usize,
    /// Most bytes. One turn is there all the same, if `least_one`.
    pub(super) bytes: usize,
    pub(super) least_one: bool,
    pub(super) view: TurnItemsView,
}

/// A page, in the order that was asked for.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) turns: Vec<Turn>,
    /// First seq of the first and last of them.
    pub(super) ends: Option<(Seq, Seq)>,
    /// There are more.
    pub(super) more: bool,
}

/// A page of turns, all of one moment.
pub(super) async fn page(moment: &mut Moment, wanted: Wanted) -> Result<Page, StoreError> {
    let mut page = Page::default();
    let (mut after, mut before, mut left) = (wanted.after, wanted.before, wanted.bytes);
    loop {
        let count = BATCH.min(wanted.limit - page.turns.len());
        let limit = u32::try_from(count + 1).unwrap_or(u32::MAX);
        let ascending = wanted.ascending;
        let query = TurnQuery { before: Some(before), after: Some(after), limit, ascending };
        let mut spans = moment.turns(query).await?;
        let more = spans.len() > count;
        spans.truncate(count);
        let mut rest = spans.as_slice();
        while !rest.is_empty() {
            let (group, others) = rest.split_at(together(rest));
            for (first_seq, part) in parts(moment, group, wanted.view).await? {
                if part.bytes > left && !(page.turns.is_empty() && wanted.least_one) {
                    page.more = true;
                    return Ok(page);
                }
                left = left.saturating_sub(part.bytes + 1);
                page.turns.push(with_cursor(moment.session().id, part));
                page.ends = Some((page.ends.map_or(first_seq, |(first, _)| first), first_seq));
            }
            rest = others;
        }
        let Some((last, _)) = spans.last() else { return Ok(page) };
        if !more || page.turns.len() >= wanted.limit {
            page.more = more;
            return Ok(page);
        }
        if ascending {
            after = last.row.first_seq;
        } else {
            before = last.row.first_seq;
        }
    }
}

/// How many of these turns are rebuilt in one go.
fn together(spans: &[(TurnSpan, u64)]) -> usize {
    let mut sum = 0;
    let fits = spans.iter().take_while(|(_, bytes)| {
        sum += bytes;
        sum <= AT_ONCE
    });
    fits.count().max(1)
}

/// The turns, in the order in which they are given.
async fn parts(
    moment: &mut Moment,
    group: &[(TurnSpan, u64)],
    view: TurnItemsView,
) -> Result<Vec<(Seq, TurnPart)>, StoreError> {
    if let [(span, bytes)] = group
        && *bytes > AT_ONCE
    {
        return Ok(vec![(span.row.first_seq, large(moment, span, view).await?)]);
    }
    let places: HashMap<TurnId, usize> =
        group.iter().enumerate().map(|(place, (span, _))| (span.row.id, place)).collect();
    let mut found: Vec<Option<TurnPart>> = vec![None; group.len()];
    let mut put = |turn: Option<Rebuilt>| {
        let Some(turn) = turn else { return };
        if let Some(place) = places.get(&turn.id()) {
            found[*place] = Some(part(&turn, view));
        }
    };
    let from = group.iter().map(|(span, _)| span.row.first_seq).min().unwrap_or(0);
    let before = group.iter().map(|(span, _)| span.next_seq).max().unwrap_or(0);
    let mut rebuild = Rebuild::new(moment.session(), HELD_BYTES);
    let visited = moment.visit(FactQuery::Turns { from, before }, |fact| {
        // Reverted turns may lie between.
        if fact.turn.is_some_and(|turn| places.contains_key(&turn)) {
            put(rebuild.take(&fact));
        }
        ControlFlow::Continue(())
    });
    visited.await?;
    put(rebuild.finish());
    // A turn whose facts make none is damaged; it is left out, as it is from the whole history.
    let whole = group.iter().zip(found).filter_map(|((span, _), part)| Some((span.row.first_seq, part?)));
    Ok(whole.collect())
}

fn part(turn: &Rebuilt, view: TurnItemsView) -> TurnPart {
    match view {
        TurnItemsView::Full => turn.newest(PAGE_BYTES, ITEM_BYTES),
        TurnItemsView::Summary => turn.brief(ITEM_BYTES),
        TurnItemsView::NotLoaded => bare(cut::outline(turn.outline())),
    }
}

fn bare(turn: Turn) -> TurnPart {
    TurnPart { bytes: json_size(&turn), turn, items_before: None }
}

/// A turn that is too large to be rebuilt: without its items, and then those of them that fit.
async fn large(moment: &mut Moment, span: &TurnSpan, view: TurnItemsView) -> Result<TurnPart, StoreError> {
    let (from, before) = (span.row.first_seq, span.next_seq);
    let mut rebuild = Rebuild::within(moment.session(), HELD_BYTES, &span.row, false);
    let visited = moment.visit(FactQuery::Outline { from, before }, |fact| {
        if fact.turn == Some(span.row.id) {
            drop(rebuild.take(&fact));
        }
        ControlFlow::Continue(())
    });
    visited.await?;
    let outline = rebuild.finish().map(|turn| cut::outline(turn.outline())).unwrap_or_else(|| {
        crate::view::convert::turn_out(
            span.row.id,
            span.row.status,
            Some(span.row.started_at_ms),
            span.row.ended_at_ms,
        )
    });
    let mut part = bare(outline);
    let all = ItemQuery { after: from - 1, before, messages: false, ascending: false, limit: 10_000 };
    match view {
        TurnItemsView::NotLoaded => {}
        TurnItemsView::Summary => {
            let first = ItemQuery { ascending: true, limit: 1, ..all };
            let last = ItemQuery { messages: true, limit: 1, ..all };
            for query in [first, last] {
                let found = items::read(moment, query, usize::MAX, |item| item).await?;
                part.turn.items.extend(found.entries.into_iter().map(|entry| entry.item));
            }
            part.turn.items_view = TurnItemsView::Summary;
        }
        TurnItemsView::Full => {
            let found = items::read(moment, all, PAGE_BYTES.saturating_sub(part.bytes), |item| item).await?;
            part.items_before = found.entries.last().filter(|_| found.more).map(|entry| entry.seq);
            part.turn.items = found.entries.into_iter().rev().map(|entry| entry.item).collect();
            part.turn.items_view = match part.items_before {
                Some(_) => TurnItemsView::Summary,
                None => TurnItemsView::Full,
            };
        }
    }
    part.bytes = json_size(&part.turn);
    Ok(part)
}

/// The turn of a part; one that has not all its items says where the others are.
fn with_cursor(session: SessionId, part: TurnPart) -> Turn {
    let TurnPart { mut turn, items_before, .. } = part;
    turn.items_backwards_cursor = items_before.map(|seq| Place::before(session, seq).item());
    turn
}

/// What a client that joins gets of a thread's turns.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// Oldest first.
    pub(super) turns: Vec<Turn>,
    /// Where `thread/turns/list` goes on to older turns, if there are any.
    pub(super) turns_cursor: Option<String>,
    /// Where `thread/items/list` goes on to older items, if there are any.
    pub(super) items_cursor: Option<String>,
}

/// The newest turns of a snapshot, as many as fit into a page. The snapshot's turn is taken out of it.
pub(super) async fn newest(reader: &Reader, snapshot: &mut Snapshot) -> Result<Newest, StoreError> {
    let session = snapshot.row.id;
    let mut newest = Newest::default();
    let first = snapshot.turn_first_seq.unwrap_or(snapshot.seq + 1);
    let mut left = PAGE_BYTES;
    if let Some(part) = snapshot.turn.take() {
        left = left.saturating_sub(part.bytes);
        newest.items_cursor = part.items_before.map(|seq| Place::before(session, seq).item());
        newest.turns.push(with_cursor(session, part));
    }
    let is_whole = newest.items_cursor.is_none();
    if let Some(mut moment) = reader.moment(session).await? {
        let wanted = Wanted {
            after: 0,
            before: first,
            ascending: false,
            limit: if is_whole { usize::MAX >> 1 } else { 1 },
            bytes: if is_whole { left } else { 0 },
            least_one: newest.turns.is_empty(),
            view: TurnItemsView::Full,
        };
        let older = page(&mut moment, wanted).await?;
        moment.end().await?;
        if older.more {
            let oldest = older.ends.map_or(first, |(_, last)| last);
            newest.turns_cursor = Some(Place::before(session, oldest).turn());
        }
        newest.turns.extend(older.turns);
    }
    if let Some(oldest) = newest.turns.last() {
        newest.items_cursor =
            newest.items_cursor.or_else(|| oldest.items_backwards_cursor.clone()).or_else(|| {
                let seq = crate::view::convert::item_seq(&oldest.items.first()?.id)?;
                newest.turns_cursor.as_ref().map(|_| Place::before(session, seq).item())
            });
    }
    newest.turns.reverse();
    Ok(newest)
}

/// Whole turns that begin from one seq to before another, oldest first, each with its bytes; none if they take more than
/// `max` together. It stops reading where that shows.
pub(super) async fn whole(
    moment: &mut Moment,
    row: &SessionRow,
    from: Seq,
    before: Seq,
    max: usize,
) -> Result<Option<Vec<(Turn, usize)>>, StoreError> {
    let reverted: HashSet<TurnId> = moment.reverted(from, before).await?.into_iter().collect();
    let mut turns = Vec::new();
    let mut left = Some(max);
    let mut put = |turn: Option<Rebuilt>, left: &mut Option<usize>| {
        let Some(turn) = turn else { return };
        let turn = turn.whole();
        let bytes = json_size(&turn);
        *left = left.and_then(|left| left.checked_sub(bytes + 1));
        turns.push((turn, bytes));
    };
    // What the open turn holds so far, at least.
    let mut held = Held::default();
    let mut rebuild = Rebuild::new(row, crate::view::HELD_BYTES);
    let visited = moment.visit(FactQuery::Turns { from, before }, |fact| {
        if fact.turn.is_some_and(|turn| !reverted.contains(&turn)) {
            held.take(&fact);
            if let Some(turn) = rebuild.take(&fact) {
                held = Held::default();
                put(Some(turn), &mut left);
            }
        }
        match left {
            Some(left) if held.bytes <= left => ControlFlow::Continue(()),
            _ => {
                left = None;
                ControlFlow::Break(())
            }
        }
    });
    visited.await?;
    if left.is_some() {
        put(rebuild.finish(), &mut left);
    }
    Ok(left.map(|_| turns))
}

/// The least that the texts of a turn will take, while it is rebuilt.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    items: HashMap<Seq, usize>,
}

impl Held {
    fn take(&mut self, fact: &Fact) {
        let (Some(item), FactBody::AgentText(text) | FactBody::AgentThought(text)) =
            (fact.item_seq, &fact.body)
        else {
            return;
        };
        let of_item = self.items.entry(item).or_default();
        let before = *of_item;
        *of_item = (before + text.text.len()).min(crate::view::HELD_BYTES);
        self.bytes += *of_item - before;
    }
}
