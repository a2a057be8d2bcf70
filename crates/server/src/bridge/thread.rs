//! What a client knows of one thread that it follows: as much as is needed to tell it later what it has missed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use signalbox_protocol::app::method;

/// An open item up to this size is kept as it was told, so that its end can be told without the server.
const KEPT_ITEM_BYTES: usize = 16 * 1024;
/// Open items of a thread that are kept so.
const KEPT_ITEMS: usize = 32;

/// A thread that the client follows.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Where a resume on the same server would go on.
    pub(super) cursor: String,
    /// The cursor that the client was told last, if that was one of the bridge's own.
    pub(super) own_cursor: Option<String>,
    /// The highest fact that it was told of.
    pub(super) seq: u64,
    /// The highest number of an item that it was told of: of all items that begin later it knows nothing.
    pub(super) items_through: u64,
    /// The newest turn that it knows.
    pub(super) last_turn: Option<Box<str>>,
    /// The turn that runs, as far as it knows.
    pub(super) open_turn: Option<Box<str>>,
    /// Items that it was told the beginning of and not the end, by their numbers.
    pub(super) open: BTreeMap<u64, OpenItem>,
    /// Items whose text has a hole: no more pieces of it are told, until its end tells all of it.
    pub(super) cut: BTreeSet<u64>,
    /// Approvals that it was asked about and has not answered, as request ids.
    pub(super) pending: Vec<Box<str>>,
    /// `thread.status`, as told last.
    pub(super) status: Value,
    /// The revision of the activity told last.
    pub(super) revision: Option<u64>,
    /// The name, as told last.
    pub(super) name: Value,
    /// Digests of the plan, diff and usage told last.
    latest: [u64; 3],
    /// The bridge has resumed the thread: values that the client was told already need not be told again.
    pub(super) echo: bool,
}

/// An item on its way.
#[derive(Debug, PartialEq)]
pub(super) struct OpenItem {
    pub(super) turn: Box<str>,
    /// As it was when it began, unless it was too large to keep.
    pub(super) begun: Option<Value>,
}

/// Values of which only the latest matters.
pub(super) const LATEST: [(&str, &str); 3] = [
    (method::TURN_PLAN_UPDATED, "plan"),
    (method::TURN_DIFF_UPDATED, "diff"),
    (method::THREAD_TOKEN_USAGE_UPDATED, "tokenUsage"),
];

/// What the params of a thread's notifications may hold that matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Told<'a> {
    pub(super) thread_id: Option<&'a str>,
    turn_id: Option<&'a str>,
    turn: Option<TurnOutline<'a>>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    item_id: Option<&'a str>,
    request_id: Option<Value>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    activity: Option<ActivityOutline>,
    #[serde(borrow)]
    plan: Option<&'a RawValue>,
    #[serde(borrow)]
    diff: Option<&'a RawValue>,
    #[serde(borrow)]
    token_usage: Option<&'a RawValue>,
    thread_name: Option<Value>,
    seq: Option<u64>,
    cursor: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
struct TurnOutline<'a> {
    id: &'a str,
}

#[derive(Debug, Deserialize)]
struct ItemOutline<'a> {
    id: &'a str,
}

#[derive(Debug, Deserialize)]
struct ActivityOutline {
    revision: u64,
}

impl Followed {
    /// A thread as the result of a start, a resume or a fork shows it.
    pub(super) fn joined(result: &Value) -> Self {
        let mut followed = Self::default();
        followed.is_now(result);
        followed
    }

    /// The client knows now what this result shows.
    pub(super) fn is_now(&mut self, result: &Value) {
        let thread = &result["thread"];
        if let Some(cursor) = result["cursor"].as_str() {
            cursor.clone_into(&mut self.cursor);
        }
        let seq = result["snapshotSeq"].as_u64().unwrap_or(0);
        self.seq = self.seq.max(seq);
        self.items_through = self.items_through.max(seq);
        self.status = thread["status"].clone();
        self.name = thread["name"].clone();
        self.revision = thread["activity"]["revision"].as_u64();
        self.open.clear();
        let turns = thread["turns"].as_array().map(Vec::as_slice).unwrap_or_default();
        let running = turns.iter().find(|turn| turn["status"] == "inProgress");
        for item in running.iter().flat_map(|turn| turn["items"].as_array()).flatten() {
            let Some(number) = number(item["id"].as_str().unwrap_or_default()) else { continue };
            self.items_through = self.items_through.max(number);
            if item["completedAtMs"].is_null() {
                let turn = running.and_then(|turn| turn["id"].as_str()).unwrap_or_default();
                self.begins(number, turn, &item.to_string());
            }
        }
        let state = &thread["activity"]["state"];
        let is_open = state["kind"] == "running" || state["kind"] == "awaiting_input";
        let open = state["turn_id"].as_str().filter(|_| is_open);
        let open = open.or_else(|| running.and_then(|turn| turn["id"].as_str()));
        self.open_turn = open.map(Box::from);
        let last = turns.last().and_then(|turn| turn["id"].as_str());
        if let Some(last) = last.or(open) {
            self.last_turn = Some(last.into());
        }
        self.cut.retain(|item| self.open.contains_key(item));
        if let Some(turn) = turns.last() {
            for (at, (_, member)) in LATEST.iter().enumerate() {
                if !turn[member].is_null() {
                    self.latest[at] = digest(turn["id"].as_str(), &turn[member]);
                }
            }
        }
    }

    /// A delta went by.
    pub(super) fn passed(&mut self, cursor: Option<&str>) {
        if let Some(cursor) = cursor {
            cursor.clone_into(&mut self.cursor);
            self.own_cursor = None;
        }
    }

    /// A notification went by. False if it must not: the client was told the same before, or has lost a piece of the text.
    pub(super) fn told(&mut self, method: &str, told: &Told<'_>) -> bool {
        if !self.is_news(method, told) {
            return false;
        }
        self.passed(told.cursor);
        self.seq = self.seq.max(told.seq.unwrap_or(0));
        match method {
            method::TURN_STARTED => {
                if let Some(turn) = &told.turn {
                    self.open_turn = Some(turn.id.into());
                    self.last_turn = Some(turn.id.into());
                }
            }
            method::TURN_COMPLETED => {
                if let Some(turn) = &told.turn {
                    self.ended(turn.id);
                }
            }
            method::ITEM_STARTED | method::ITEM_COMPLETED => self.item(method, told),
            method::SERVER_REQUEST_RESOLVED => {
                if let Some(id) = told.request_id.as_ref().and_then(Value::as_str) {
                    self.answered(id);
                }
            }
            method::THREAD_STATUS_CHANGED => {
                if let Some(status) = told.status {
                    self.status = serde_json::from_str(status.get()).unwrap_or_default();
                }
            }
            method::THREAD_ACTIVITY_CHANGED => {
                if let Some(activity) = &told.activity {
                    self.revision = Some(activity.revision);
                    // Nothing that a resume repeats comes behind it.
                    self.echo = false;
                }
            }
            method::THREAD_NAME_UPDATED => self.name = told.thread_name.clone().unwrap_or_default(),
            _ => {}
        }
        true
    }

    /// The client was asked. False if it has been before and the question still waits.
    pub(super) fn asked(&mut self, id: &str) -> bool {
        if self.pending.iter().any(|known| &**known == id) {
            return false;
        }
        self.pending.push(id.into());
        true
    }

    /// A question waits no more. False if none did.
    pub(super) fn answered(&mut self, id: &str) -> bool {
        let before = self.pending.len();
        self.pending.retain(|known| &**known != id);
        self.pending.len() < before
    }

    /// This turn is over.
    pub(super) fn ended(&mut self, turn: &str) {
        if self.open_turn.as_deref() == Some(turn) {
            self.open_turn = None;
        }
        self.last_turn = Some(turn.into());
    }

    /// Whether the plan, diff or usage of a turn is not what the client was told last; it counts as told then.
    pub(super) fn is_other(&mut self, at: usize, turn: Option<&str>, value: &Value) -> bool {
        let now = digest(turn, value);
        std::mem::replace(&mut self.latest[at], now) != now
    }

    /// The place of a notification that the bridge makes: behind all that the client was told, in the life of the server
    /// that it was told by, so that nobody takes it for a place in the life of another.
    pub(super) fn next_cursor(&mut self) -> String {
        let last = self.own_cursor.as_deref().unwrap_or(&self.cursor);
        let (life, place) = last.rsplit_once('-').unwrap_or((last, "0"));
        let next = format!("{life}-{}", place.parse::<u64>().unwrap_or(0).saturating_add(1));
        self.own_cursor = Some(next.clone());
        next
    }

    fn is_news(&mut self, method: &str, told: &Told<'_>) -> bool {
        if let Some(item) = told.item_id.and_then(number)
            && self.cut.contains(&item)
            && method != method::ITEM_FILE_CHANGE_PATCH_UPDATED
        {
            return false;
        }
        if method == method::THREAD_ACTIVITY_CHANGED && self.echo {
            let same = told.activity.as_ref().map(|activity| activity.revision) == self.revision;
            self.echo &= !same;
            return !same;
        }
        for (at, (latest, _)) in LATEST.iter().enumerate() {
            if method == *latest {
                let value = [told.plan, told.diff, told.token_usage][at];
                let value = value.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
                let is_other = self.is_other(at, told.turn_id, &value);
                return is_other || !self.echo;
            }
        }
        true
    }

    fn item(&mut self, method: &str, told: &Told<'_>) {
        let Some(raw) = told.item else { return };
        let Ok(outline) = serde_json::from_str::<ItemOutline<'_>>(raw.get()) else { return };
        let Some(number) = number(outline.id) else { return };
        self.items_through = self.items_through.max(number);
        if method == method::ITEM_COMPLETED {
            self.open.remove(&number);
            self.cut.remove(&number);
        } else {
            let turn = told.turn_id.unwrap_or_default();
            if self.open_turn.is_none() && self.last_turn.as_deref() != Some(turn) {
                // The client does not want to be told of the beginning of turns.
                self.open_turn = Some(turn.into());
                self.last_turn = Some(turn.into());
            }
            self.begins(number, turn, raw.get());
        }
    }

    fn begins(&mut self, number: u64, turn: &str, item: &str) {
        let fits = item.len() <= KEPT_ITEM_BYTES && self.open.len() < KEPT_ITEMS;
        let begun = fits.then(|| serde_json::from_str(item).ok()).flatten();
        self.open.insert(number, OpenItem { turn: turn.into(), begun });
    }
}

/// The number in an item's id, which is the fact that it began with.
pub(super) fn number(item: &str) -> Option<u64> {
    item.strip_prefix('i')?.parse().ok()
}

fn digest(turn: Option<&str>, value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (turn, value.to_string()).hash(&mut hasher);
    hasher.finish()
}
