//! Ranges of the texts of items: for what a page has only head and tail of.

use std::ops::ControlFlow;

use serde_json::Value;
use signalbox_facts::{Fact, FactBody};
use signalbox_protocol::app::{ItemOutputReadParams, ItemOutputReadResult, method};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry};
use signalbox_store::FactQuery;

use crate::app::{AppServer, session_id};
use crate::errors::{self, Error};
use crate::view::{Rebuild, convert};

/// Bytes of a range, unless the client says how many.
const RANGE_BYTES: u64 = 128 * 1024;
/// Least bytes of a range: one character.
const LEAST_BYTES: u64 = 4;
/// Most bytes of a range.
const MOST_BYTES: u64 = 1024 * 1024;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::ITEM_OUTPUT_READ,
            Lane::Concurrent,
            "Ext: reads a range of a text of an item: a message, an output, a diff, whatever is too long for a page.",
        ),
        read,
    );
}

/// A range of a text that comes in pieces.
#[derive(Debug)]
struct Range {
    offset: u64,
    max: u64,
    /// Bytes of the text so far.
    total: u64,
    /// Where `text` begins.
    begins: u64,
    text: String,
}

impl Range {
    fn take(&mut self, piece: &str) {
        let inside = |at: u64| {
            let at = usize::try_from(at.saturating_sub(self.total)).unwrap_or(usize::MAX);
            piece.floor_char_boundary(at.min(piece.len()))
        };
        let (from, to) = (inside(self.offset), inside(self.offset + self.max));
        if from < to {
            if self.text.is_empty() {
                self.begins = self.total + from as u64;
            }
            self.text.push_str(&piece[from..to]);
        }
        self.total += piece.len() as u64;
    }

    fn result(mut self, field: String) -> ItemOutputReadResult {
        if self.text.is_empty() {
            self.begins = self.offset.min(self.total);
        }
        let next_offset = self.begins + self.text.len() as u64;
        ItemOutputReadResult {
            text: self.text,
            field,
            offset: self.begins,
            next_offset,
            total_bytes: self.total,
            eof: next_offset >= self.total,
        }
    }
}

async fn read(ctx: Ctx<AppServer>, params: ItemOutputReadParams) -> Result<ItemOutputReadResult, Error> {
    let ItemOutputReadParams { thread_id, item_id, field, offset, max_bytes } = params;
    let session = session_id(&thread_id)?;
    let missing = || errors::item_not_found(&item_id);
    let seq = convert::item_seq(&item_id).filter(|seq| i64::try_from(*seq).is_ok()).ok_or_else(missing)?;
    let moment = ctx.app().hubs().reader_of(session).moment(session).await?;
    let mut moment = moment.ok_or_else(|| errors::thread_not_found(&thread_id))?;
    let span = moment.turn_of_item(seq).await?.filter(|turn| !turn.row.reverted).ok_or_else(missing)?;
    let mut range = Range {
        offset: offset.unwrap_or(0).min(u64::MAX >> 1),
        max: max_bytes.unwrap_or(RANGE_BYTES).clamp(LEAST_BYTES, MOST_BYTES),
        total: 0,
        begins: 0,
        text: String::new(),
    };
    // Messages and thoughts have no bound, so they are never held; of other items there is no more than the core allows.
    let mut text_field = None;
    let mut rebuild = Rebuild::within(moment.session(), usize::MAX, &span.row, false);
    let visited = moment.visit(FactQuery::Item { first: seq, before: span.next_seq }, |fact: Fact| {
        match &fact.body {
            FactBody::AgentText(text) => {
                text_field = Some("/text");
                range.take(&text.text);
            }
            FactBody::AgentThought(text) => {
                text_field = Some("/summary/0");
                range.take(&text.text);
            }
            _ => drop(rebuild.take(&fact)),
        }
        ControlFlow::Continue(())
    });
    visited.await?;
    moment.end().await?;
    if let Some(known) = text_field {
        return match field {
            Some(other) if other != known => Err(no_such_field(&other)),
            _ => Ok(range.result(known.to_owned())),
        };
    }
    let turn = rebuild.finish();
    let item = turn.as_ref().and_then(|turn| turn.items(usize::MAX).next()).ok_or_else(missing)?.1;
    let item = serde_json::to_value(item).map_err(signalbox_rpc::RpcError::internal)?;
    let text = match &field {
        Some(field) => item.pointer(field).and_then(Value::as_str).ok_or_else(|| no_such_field(field))?,
        None => item.pointer(main_field(&item)).and_then(Value::as_str).unwrap_or_default(),
    };
    range.take(text);
    let field = field.unwrap_or_else(|| main_field(&item).to_owned());
    Ok(range.result(field))
}

fn no_such_field(field: &str) -> Error {
    errors::invalid(
        "field",
        format!("the item has no text at {field:?}; cutTexts of the item names those that it has"),
    )
}

/// The text that items of this type are about.
fn main_field(item: &Value) -> &'static str {
    match item["type"].as_str() {
        Some("userMessage") => "/content/0/text",
        Some("commandExecution") => "/aggregatedOutput",
        Some("fileChange") => "/changes/0/diff",
        Some("mcpToolCall") => "/result/content/0/text",
        Some("dynamicToolCall") => "/contentItems/0/text",
        _ => "/text",
    }
}
