//! Pages of a thread's turns and items, and ranges of texts that are too long for a page.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::item::ThreadItem;
use super::listing::SortDirection;
use super::turn::{Turn, TurnItemsView};

/// Params of `thread/turns/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListParams {
    pub thread_id: String,
    /// `nextCursor` or `backwardsCursor` of another page of this thread, or `turnsBackwardsCursor` of a resume. Absent:
    /// from the end that `sortDirection` begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most turns, 1 to 200; 25 if absent. What lies outside is brought inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Newest first (`desc`) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// How much of each turn's items: `notLoaded` none, `summary` the first message of the user and the last of the agent,
    /// `full` all of them. `summary` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_view: Option<TurnItemsView>,
}

/// Result of `thread/turns/list`: at most 512 KiB, but at least one turn. Of a turn that alone is longer it has the newest
/// items, `itemsView` says `summary`, and the turn's `itemsBackwardsCursor` leads to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsListResult {
    pub data: Vec<Turn>,
    /// `cursor` of the next page in the same direction; `null` if there is no more.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// `cursor` for going the other way from the first turn of this page. That turn comes again, as it is then.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
}

/// Params of `thread/items/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListParams {
    pub thread_id: String,
    /// Only items of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// `nextCursor` or `backwardsCursor` of another page of this thread, `itemsBackwardsCursor` of a resume or of a turn, or
    /// an item to begin with. Absent: from the end that `sortDirection` begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<ThreadItemsListCursor>,
    /// Most items, 1 to 200; 100 if absent. What lies outside is brought inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Newest first (`desc`) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_direction: Option<SortDirection>,
    /// If present, what commands wrote and tools returned is left out: `item/output/read` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_output: Option<ThreadItemOutputDeferral>,
}

/// Where a page of items begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a cursor as string, or {\"type\": \"item\", \"itemId\": …}")]
pub enum ThreadItemsListCursor {
    /// As another page gave it.
    Place(String),
    /// With this item.
    Anchor(ThreadItemsListAnchor),
}

impl JsonSchema for ThreadItemsListCursor {
    fn schema_name() -> Cow<'static, str> {
        "ThreadItemsListCursor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where a page of items begins: a cursor of another page, or an item.",
            "x-untagged": true,
            "oneOf": [
                { "title": "ThreadItemsListPlace", "type": "string" },
                {
                    "title": "ThreadItemsListAnchor",
                    "description": "An item that a page begins with.",
                    "type": "object",
                    "required": ["type", "itemId"],
                    "properties": {
                        "type": { "type": "string", "const": "item" },
                        "itemId": { "type": "string" },
                    },
                },
            ],
        })
    }
}

/// An item that a page begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListAnchor {
    /// Always `item`.
    #[serde(rename = "type")]
    pub kind: ThreadItemsListAnchorKind,
    pub item_id: String,
}

/// What an anchor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadItemsListAnchorKind {
    Item,
}

/// Asks for items without their outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct ThreadItemOutputDeferral {}

/// Result of `thread/items/list`: at most 512 KiB, one item at most 128 KiB of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemsListResult {
    pub data: Vec<ThreadItemEntry>,
    /// `cursor` of the next page in the same direction; `null` if there is no more.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// `cursor` for going the other way from the first item of this page. That item comes again, as it is then.
    #[serde(default)]
    pub backwards_cursor: Option<String>,
}

/// An item and the turn it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadItemEntry {
    pub turn_id: String,
    pub item: ThreadItem,
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    #[serde(default)]
    pub completed_at_ms: Option<i64>,
}

/// Params of `item/output/read` (Ext).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemOutputReadParams {
    pub thread_id: String,
    pub item_id: String,
    /// Which text of the item, as a JSON pointer into it (`/aggregatedOutput`, `/changes/0/diff`), as `cutTexts` names it.
    /// Absent: the text that items of this type are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Where to begin, in bytes of the text as UTF-8; 0 if absent. Inside a character it is brought back to its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Most bytes, 4 to 1,048,576; 131,072 if absent. What lies outside is brought inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Result of `item/output/read` (Ext).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemOutputReadResult {
    pub text: String,
    /// The text that was read, as a JSON pointer into the item.
    pub field: String,
    /// Where `text` begins, in bytes.
    pub offset: u64,
    /// Where the next range begins; at the end equal to `totalBytes`. Whoever reads all of it stops at `eof`.
    pub next_offset: u64,
    /// Bytes of the whole text by now.
    pub total_bytes: u64,
    /// Nothing follows `text` by now. Of an open item more may come.
    pub eof: bool,
}
