//! What the view tells, as frames: each serialized once, whoever gets it.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};
use signalbox_facts::{Seq, SessionId};
use signalbox_protocol::app::{ItemBody, ServerNotification};
use signalbox_rpc::{DeltaKey, Frame};

use crate::hubs::Hubs;
use crate::view::{Delta, DeltaKind, convert, cut};

/// A notification that takes more than this part of an outbox has its longest texts cut. A turn that begins tells its
/// prompt twice at once, and a client that reads must have room for more than that.
const PART_OF_OUTBOX: usize = 4;

/// Where a delivery stands in this server life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'h> {
    epoch: &'h str,
    place: u64,
}

impl<'h> Cursor<'h> {
    /// This place.
    pub(crate) fn at(hubs: &'h Hubs, place: u64) -> Self {
        Self { epoch: hubs.epoch(), place }
    }

    /// The place that a client names, if it is of this server life.
    pub(crate) fn place(hubs: &Hubs, cursor: &str) -> Option<u64> {
        cursor.strip_prefix(hubs.epoch())?.strip_prefix('-')?.parse().ok()
    }
}

/// A notification about a thread at its place among the deliveries.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) frame: Frame,
    pub(crate) place: u64,
    /// The newest fact that it reflects.
    pub(crate) seq: Seq,
}

impl fmt::Display for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.place)
    }
}

impl Serialize for Cursor<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A notification about a thread, at the next place.
///
/// # Errors
/// If it cannot be serialized, which its types rule out.
pub(crate) fn notification(
    hubs: &Hubs,
    body: &ServerNotification,
    seq: u64,
    at_ms: i64,
) -> Result<Placed, serde_json::Error> {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(flatten)]
        body: &'a ServerNotification,
        seq: u64,
        cursor: Cursor<'a>,
    }
    let place = hubs.next_place();
    let params = Params { body, seq, cursor: Cursor::at(hubs, place) };
    let mut frame = Frame::notification_at(body.method(), emitted(at_ms), &params)?;
    let most = hubs.info().outbox_bytes / PART_OF_OUTBOX;
    if frame.bytes().len() > most {
        let mut params = serde_json::to_value(&params)?;
        shorten(&mut params, frame.bytes().len() - most);
        frame = Frame::notification_at(body.method(), emitted(at_ms), &params)?;
    }
    let frame = match ended_text(body) {
        Some(key) => frame.ending(key),
        None => frame,
    };
    Ok(Placed { frame, place, seq })
}

/// Cuts the longest texts of a notification; the item in it, if there is one, says so.
fn shorten(params: &mut Value, excess: usize) {
    if let Some(item) = params.get_mut("item") {
        let cut = cut::texts(item, excess);
        if !cut.is_empty() {
            item["outputTruncated"] = true.into();
            item["cutTexts"] =
                cut.iter().map(|text| json!({"field": text.field, "totalBytes": text.total_bytes})).collect();
        }
    } else {
        drop(cut::texts(params, excess));
    }
}

/// More text of an item, at the next place.
///
/// # Errors
/// If it cannot be serialized, which its types rule out.
pub(crate) fn delta(hubs: &Hubs, delta: &Delta<'_>) -> Result<Placed, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: SessionId,
        turn_id: signalbox_facts::TurnId,
        item_id: ItemId,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary_index: Option<u64>,
        seq: u64,
        cursor: Cursor<'a>,
    }
    let place = hubs.next_place();
    let params = Params {
        thread_id: delta.thread,
        turn_id: delta.turn,
        item_id: ItemId(delta.item),
        summary_index: (delta.kind == DeltaKind::Reasoning).then_some(0),
        seq: delta.seq,
        cursor: Cursor::at(hubs, place),
    };
    let key = key(delta.thread, delta.item, delta.kind);
    let frame = Frame::delta(delta.method(), Some(emitted(delta.at_ms)), key, &params, "delta", delta.text)?;
    Ok(Placed { frame, place, seq: delta.seq })
}

struct ItemId(u64);

impl Serialize for ItemId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("i{}", self.0))
    }
}

/// What the texts of a thread have in common ([`DeltaKey::scope`]).
pub(crate) fn scope(thread: SessionId) -> u128 {
    thread.0.as_u128()
}

/// The text that deltas of this kind add to.
pub(crate) fn key(thread: SessionId, item: u64, kind: DeltaKind) -> DeltaKey {
    let kind = match kind {
        DeltaKind::AgentMessage => 0,
        DeltaKind::Reasoning => 1,
        DeltaKind::Plan => 2,
        DeltaKind::CommandOutput => 3,
    };
    DeltaKey { scope: scope(thread), item, kind }
}

/// The text that is whole with this notification.
fn ended_text(body: &ServerNotification) -> Option<DeltaKey> {
    let ServerNotification::ItemCompleted(completed) = body else { return None };
    let kind = match completed.item.body {
        ItemBody::AgentMessage { .. } => DeltaKind::AgentMessage,
        ItemBody::Reasoning { .. } => DeltaKind::Reasoning,
        ItemBody::Plan { .. } => DeltaKind::Plan,
        ItemBody::CommandExecution { .. } => DeltaKind::CommandOutput,
        _ => return None,
    };
    let thread: SessionId = completed.thread_id.parse().ok()?;
    Some(key(thread, convert::item_seq(&completed.item.id)?, kind))
}

fn emitted(at_ms: i64) -> u64 {
    u64::try_from(at_ms).unwrap_or(0)
}
