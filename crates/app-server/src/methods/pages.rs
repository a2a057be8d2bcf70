//! Pages of a thread's turns and items, both ways. They are read from the store alone, all of one moment, whether the thread
//! is in memory or not: what has been shown is stored.
//!
//! A cursor is a place between the seqs at which turns or items begin. Those never change, so a page neither repeats nor
//! skips anything, whatever happened since the one before.

use std::fmt::Display;

use signalbox_facts::{Seq, SessionId, TurnId};
use signalbox_protocol::app::{
    SortDirection, ThreadItemEntry, ThreadItemsListCursor, ThreadItemsListParams, ThreadItemsListResult,
    ThreadTurnsListParams, ThreadTurnsListResult, TurnItemsView, TurnStatus, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry};
use signalbox_store::{ItemQuery, Moment};

use super::{items, turns};
use crate::app::{AppServer, session_id};
use crate::errors::{self, Error};
use crate::view::{convert, cut};

/// Most turns or items of a page.
const MOST: u32 = 200;
/// Turns of a page, unless the client says how many.
const TURNS: u32 = 25;
/// Items of a page, unless the client says how many.
const ITEMS: u32 = 100;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_TURNS_LIST,
                Lane::Concurrent,
                "A page of a thread's turns, newest first unless asked otherwise, without loading the thread.",
            ),
            list_turns,
        )
        .method(
            MethodSpec::new(
                method::THREAD_ITEMS_LIST,
                Lane::Concurrent,
                "A page of a thread's items, newest first unless asked otherwise, without loading the thread.",
            ),
            list_items,
        );
}

/// A place in a thread, before or behind the turn or item that begins at a seq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    session: SessionId,
    seq: Seq,
    /// What begins at `seq` is on the page too, whichever way it goes.
    included: bool,
}

impl Place {
    /// What comes before that which begins here, and, the other way, what comes after it.
    pub(super) fn before(session: SessionId, seq: Seq) -> Self {
        Self { session, seq, included: false }
    }

    fn at(session: SessionId, seq: Seq) -> Self {
        Self { session, seq, included: true }
    }

    /// As a cursor among turns.
    pub(super) fn turn(self) -> String {
        self.text('t')
    }

    /// As a cursor among items.
    pub(super) fn item(self) -> String {
        self.text('i')
    }

    fn text(self, kind: char) -> String {
        let dot = if self.included { "=" } else { "" };
        format!("{kind}.{}.{dot}{}", self.session.0.simple(), self.seq)
    }

    fn parse(text: &str, kind: char, session: SessionId) -> Result<Self, Error> {
        let parts = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
        let (thread, seq) = parts.and_then(|rest| rest.split_once('.')).ok_or_else(errors::stale_cursor)?;
        let thread: SessionId = thread.parse().map_err(|_not_ours| errors::stale_cursor())?;
        let (included, seq) = seq.strip_prefix('=').map_or((false, seq), |seq| (true, seq));
        let seq: Seq = seq.parse().map_err(|_not_ours| errors::stale_cursor())?;
        if seq == 0 || i64::try_from(seq).is_err() {
            return Err(errors::stale_cursor());
        }
        if thread != session {
            return Err(errors::foreign_cursor());
        }
        Ok(Self { session, seq, included })
    }

    /// Both ends of the range that a page from here may hold: after the one, before the other.
    fn range(place: Option<Self>, ascending: bool) -> (Seq, Seq) {
        match (place, ascending) {
            (None, _) => (0, Seq::MAX >> 1),
            (Some(Self { seq, included, .. }), true) => (seq - Seq::from(included), Seq::MAX >> 1),
            (Some(Self { seq, included, .. }), false) => (0, seq + Seq::from(included)),
        }
    }
}

fn count(limit: Option<u32>, default: u32) -> u32 {
    limit.unwrap_or(default).clamp(1, MOST)
}

async fn moment(app: &AppServer, session: SessionId, id: &impl Display) -> Result<Moment, Error> {
    let moment = app.hubs().reader_of(session).moment(session).await?;
    moment.ok_or_else(|| errors::thread_not_found(&id.to_string()))
}

async fn list_turns(
    ctx: Ctx<AppServer>,
    params: ThreadTurnsListParams,
) -> Result<ThreadTurnsListResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    let place = params.cursor.as_deref().map(|text| Place::parse(text, 't', session)).transpose()?;
    let ascending = params.sort_direction == Some(SortDirection::Asc);
    let (after, before) = Place::range(place, ascending);
    let mut moment = moment(app, session, &params.thread_id).await?;
    let wanted = turns::Wanted {
        after,
        before,
        ascending,
        limit: count(params.limit, TURNS) as usize,
        bytes: turns::PAGE_BYTES,
        least_one: true,
        view: params.items_view.unwrap_or(TurnItemsView::Summary),
    };
    let mut page = turns::page(&mut moment, wanted).await?;
    moment.end().await?;
    let running = page.turns.iter_mut().find(|turn| turn.status == TurnStatus::InProgress);
    if let (Some(turn), Some(hub)) = (running, app.hubs().get(session))
        && let Some((id, usage)) = hub.read_if_there(false).await?.and_then(|snapshot| snapshot.usage)
        && id.to_string() == turn.id
    {
        turn.token_usage = Some(usage);
    }
    Ok(ThreadTurnsListResult {
        data: page.turns,
        next_cursor: page.ends.filter(|_| page.more).map(|(_, last)| Place::before(session, last).turn()),
        backwards_cursor: page.ends.map(|(first, _)| Place::at(session, first).turn()),
    })
}

async fn list_items(
    ctx: Ctx<AppServer>,
    params: ThreadItemsListParams,
) -> Result<ThreadItemsListResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    let place = match &params.cursor {
        None => None,
        Some(ThreadItemsListCursor::Place(text)) => Some(Place::parse(text, 'i', session)?),
        Some(ThreadItemsListCursor::Anchor(anchor)) => {
            let seq = convert::item_seq(&anchor.item_id).filter(|seq| i64::try_from(*seq).is_ok());
            Some(Place::at(session, seq.ok_or_else(|| errors::item_not_found(&anchor.item_id))?))
        }
    };
    let ascending = params.sort_direction == Some(SortDirection::Asc);
    let (mut after, mut before) = Place::range(place, ascending);
    let mut moment = moment(app, session, &params.thread_id).await?;
    if let Some(ThreadItemsListCursor::Anchor(anchor)) = &params.cursor {
        let seq = place.map_or(0, |place| place.seq);
        let turn = moment.turn_of_item(seq).await?.filter(|turn| !turn.row.reverted);
        turn.ok_or_else(|| errors::item_not_found(&anchor.item_id))?;
    }
    if let Some(id) = &params.turn_id {
        let turn: TurnId = id.parse().map_err(|_not_ours| errors::turn_not_found(id))?;
        let turn = moment.turn(turn).await?.filter(|turn| !turn.row.reverted);
        let turn = turn.ok_or_else(|| errors::turn_not_found(id))?;
        after = after.max(turn.row.first_seq - 1);
        before = before.min(turn.next_seq);
    }
    let limit = count(params.limit, ITEMS);
    let query = ItemQuery { after, before, messages: false, ascending, limit };
    let deferred = params.defer_output.is_some();
    let shorten = |item| if deferred { cut::without_output(item) } else { item };
    let page = items::read(&mut moment, query, turns::PAGE_BYTES, shorten).await?;
    moment.end().await?;
    let first = page.entries.first().map(|entry| entry.seq);
    let last = page.entries.last().map(|entry| entry.seq);
    let entry = |entry: items::Entry| ThreadItemEntry {
        turn_id: entry.turn.to_string(),
        started_at_ms: entry.item.started_at_ms,
        completed_at_ms: entry.item.completed_at_ms,
        item: entry.item,
    };
    Ok(ThreadItemsListResult {
        data: page.entries.into_iter().map(entry).collect(),
        next_cursor: last.filter(|_| page.more).map(|seq| Place::before(session, seq).item()),
        backwards_cursor: first.map(|seq| Place::at(session, seq).item()),
    })
}
