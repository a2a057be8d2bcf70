//! What a client is owed about a thread after its server is gone: the notifications between what it knows and how the
//! thread stands now, which a resume on the new server has shown. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use signalbox_protocol::app::method;

use super::thread::{Followed, LATEST, number};
use super::told::notification;

/// What is owed about one thread.
#[derive(Debug)]
pub(super) struct Owed<'a> {
    pub(super) thread: &'a str,
    pub(super) known: &'a mut Followed,
    /// Methods of which the client does not want to be told.
    pub(super) opted_out: &'a [String],
    pub(super) now_ms: i64,
    pub(super) told: Vec<Bytes>,
}

/// What is there of a thread: a resume's result, and items and turns that its page had no room for.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) result: Value,
    /// Items that were looked up by themselves, by their numbers.
    pub(super) items: BTreeMap<u64, Value>,
    /// The turn that was open, if it was looked up by itself.
    pub(super) turn: Option<Value>,
}

impl Found {
    fn turns(&self) -> &[Value] {
        self.result["thread"]["turns"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn turn(&self, id: &str) -> Option<&Value> {
        self.turns().iter().chain(&self.turn).find(|turn| turn["id"] == id)
    }

    fn item(&self, wanted: u64) -> Option<&Value> {
        let on_page = self.turns().iter().flat_map(items).find(|item| number_of(item) == Some(wanted));
        on_page.or_else(|| self.items.get(&wanted))
    }

    /// Open items that the client must be told the end of and that are not there yet.
    pub(super) fn missing_items(&self, known: &Followed) -> Vec<(u64, Box<str>)> {
        let missing = known.open.iter().filter(|(number, _)| self.item(**number).is_none());
        missing.map(|(number, open)| (*number, open.turn.clone())).collect()
    }

    /// Whether the turn that was open is not there yet.
    pub(super) fn misses_turn(&self, known: &Followed) -> bool {
        known.open_turn.as_deref().is_some_and(|open| self.turn(open).is_none())
    }

    /// What became of an approval, if a turn says so.
    fn resolution(&self, id: &str) -> Option<&Value> {
        let approvals = self.turns().iter().chain(&self.turn).flat_map(|turn| array(&turn["approvals"]));
        approvals.into_iter().find(|approval| approval["approvalId"] == id)
    }
}

impl Owed<'_> {
    /// Everything between what the client knows and what was found. Afterwards the client knows what was found.
    pub(super) fn tell(&mut self, found: &Found) {
        let thread = &found.result["thread"];
        self.known.seq = self.known.seq.max(found.result["snapshotSeq"].as_u64().unwrap_or(0));
        let waiting: Vec<&str> = array(&thread["activity"]["state"]["pending"])
            .iter()
            .filter_map(|input| input["input_id"].as_str())
            .collect();
        self.resolved(found, &waiting);
        if thread["name"] != self.known.name {
            self.push(method::THREAD_NAME_UPDATED, json!({ "threadName": thread["name"] }));
        }
        let closing = found.turns().iter().rposition(|turn| self.ends(turn));
        if closing.is_none() && thread["status"]["type"] == "active" {
            self.standing(thread);
        }
        self.older_turn(found);
        for (at, turn) in found.turns().iter().enumerate() {
            self.turn(turn, found);
            if closing == Some(at) {
                self.standing(thread);
            }
            if self.ends(turn) {
                self.ended(turn);
            }
        }
        self.items_gone(found, None);
        self.standing(thread);
    }

    /// Nothing more will be heard of the thread: what is open ends as well as it can be told.
    pub(super) fn tell_gone(&mut self) {
        let nothing = Found::default();
        self.resolved(&nothing, &[]);
        self.older_turn(&nothing);
        self.items_gone(&nothing, None);
        self.push(method::THREAD_STATUS_CHANGED, json!({ "status": { "type": "notLoaded" } }));
        self.push(method::THREAD_CLOSED, json!({}));
    }

    /// The client is to fetch the thread by itself.
    pub(super) fn tell_resync(&mut self, reason: &str) {
        self.resolved(&Found::default(), &[]);
        self.push(method::THREAD_RESYNC_REQUIRED, json!({ "reason": reason }));
    }

    fn resolved(&mut self, found: &Found, waiting: &[&str]) {
        let pending = std::mem::take(&mut self.known.pending);
        let (still, gone): (Vec<_>, Vec<_>) = pending.into_iter().partition(|id| waiting.contains(&&**id));
        self.known.pending = still;
        for id in gone {
            let mut params = json!({
                "requestId": &*id, "approvalId": &*id, "decision": "cancel", "by": { "kind": "restart" },
            });
            if let Some(resolution) = found.resolution(&id) {
                params["by"] = resolution["by"].clone();
                for member in ["decision", "optionId"] {
                    match &resolution[member] {
                        Value::Null => drop(params.as_object_mut().and_then(|params| params.remove(member))),
                        value => params[member] = value.clone(),
                    }
                }
            }
            self.push(method::SERVER_REQUEST_RESOLVED, params);
        }
    }

    /// The beginning of a turn, its items and latest values, as far as they are news.
    fn turn(&mut self, turn: &Value, found: &Found) {
        let id = turn["id"].as_str().unwrap_or_default();
        let is_open = turn["status"] == "inProgress";
        if self.is_new(turn) {
            self.push(method::TURN_STARTED, json!({ "turn": begun_turn(turn) }));
            self.known.last_turn = Some(id.into());
            self.known.open_turn = Some(id.into());
        }
        for item in items(turn) {
            let Some(number) = number_of(item) else { continue };
            let is_complete = !is_open || !item["completedAtMs"].is_null();
            if number > self.known.items_through {
                self.known.items_through = number;
                let begun = if is_complete { begun_item(item) } else { item.clone() };
                let started_at = item["startedAtMs"].as_i64().unwrap_or(self.now_ms);
                self.push(
                    method::ITEM_STARTED,
                    json!({ "turnId": id, "item": begun, "startedAtMs": started_at }),
                );
                if is_complete {
                    self.completed(id, item.clone());
                }
            } else if self.known.open.contains_key(&number) {
                if is_complete {
                    self.known.open.remove(&number);
                    self.completed(id, item.clone());
                } else {
                    // What was streamed meanwhile is in no notification any more.
                    self.known.cut.insert(number);
                }
            }
        }
        if !is_open {
            self.items_gone(found, Some(id));
        }
        if Some(id) == self.known.last_turn.as_deref() {
            self.latest(id, turn);
        }
    }

    fn latest(&mut self, id: &str, turn: &Value) {
        for (at, (method, member)) in LATEST.into_iter().enumerate() {
            let value = &turn[member];
            if value.is_null() || !self.known.is_other(at, Some(id), value) {
                continue;
            }
            let mut params = json!({ "turnId": id, member: value });
            if turn["diffTruncated"] == true && method == method::TURN_DIFF_UPDATED {
                params["truncated"] = true.into();
            }
            self.push(method, params);
        }
    }

    /// Whether the client is to be told that this turn has ended.
    fn ends(&self, turn: &Value) -> bool {
        let is_open = self.known.open_turn.as_deref() == turn["id"].as_str();
        turn["status"] != "inProgress" && (is_open || self.is_new(turn))
    }

    /// Whether the client knows nothing of this turn.
    fn is_new(&self, turn: &Value) -> bool {
        let id = turn["id"].as_str().unwrap_or_default();
        let known = [&self.known.open_turn, &self.known.last_turn];
        if known.into_iter().flatten().any(|known| &**known == id) {
            return false;
        }
        match items(turn).first().and_then(number_of) {
            Some(first) => first > self.known.items_through,
            // Ids of turns grow with time.
            None => self.known.last_turn.as_deref().is_none_or(|last| id > last),
        }
    }

    fn ended(&mut self, turn: &Value) {
        if turn["status"] == "failed" && !turn["error"].is_null() {
            let params = json!({ "turnId": turn["id"], "error": turn["error"], "willRetry": false });
            self.push(method::ERROR, params);
        }
        self.push(method::TURN_COMPLETED, json!({ "turn": summary(turn) }));
        self.known.ended(turn["id"].as_str().unwrap_or_default());
    }

    /// Ends open items, of one turn or of all that do not run, that are not on the page of their turn.
    fn items_gone(&mut self, found: &Found, of: Option<&str>) {
        let running = found.turns().iter().find(|turn| turn["status"] == "inProgress");
        let running = running.and_then(|turn| turn["id"].as_str());
        let open = std::mem::take(&mut self.known.open);
        for (number, item) in open {
            if running == Some(&*item.turn) || of.is_some_and(|of| *of != *item.turn) {
                self.known.open.insert(number, item);
                continue;
            }
            match found.item(number).cloned().or_else(|| item.begun.map(broken_off)) {
                Some(end) => self.completed(&item.turn, end),
                None => tracing::warn!(
                    thread = self.thread, turn = %item.turn, item = number,
                    "the end of an item is not known any more and was not told"
                ),
            }
        }
    }

    /// Ends an open turn for which the page had no room, before newer ones begin.
    fn older_turn(&mut self, found: &Found) {
        let Some(open) = self.known.open_turn.clone() else { return };
        if found.turns().iter().any(|turn| turn["id"] == *open) {
            return;
        }
        self.items_gone(found, Some(&open));
        match found.turn.as_ref().filter(|turn| turn["status"] != "inProgress") {
            Some(turn) => self.ended(turn),
            None => self.ended(&json!({
                "id": &*open, "status": "interrupted", "items": [], "itemsView": "notLoaded",
                "error": {
                    "message": "The server ended before the turn did.", "code": -32026,
                    "reason": "server_restarted", "retryable": true,
                },
            })),
        }
    }

    /// Status and activity, if they are not what the client was told last.
    fn standing(&mut self, thread: &Value) {
        if thread["status"] != self.known.status {
            self.known.status = thread["status"].clone();
            self.push(method::THREAD_STATUS_CHANGED, json!({ "status": thread["status"] }));
        }
        let revision = thread["activity"]["revision"].as_u64();
        if revision > self.known.revision {
            self.known.revision = revision;
            self.push(method::THREAD_ACTIVITY_CHANGED, json!({ "activity": thread["activity"] }));
        }
    }

    fn completed(&mut self, turn: &str, item: Value) {
        let completed_at = item["completedAtMs"].as_i64().unwrap_or(self.now_ms);
        let params = json!({ "turnId": turn, "item": item, "completedAtMs": completed_at });
        self.push(method::ITEM_COMPLETED, params);
    }

    fn push(&mut self, method: &str, params: Value) {
        if self.opted_out.iter().any(|name| name == method) {
            return;
        }
        let mut members = Map::new();
        members.insert("threadId".to_owned(), self.thread.into());
        if let Value::Object(more) = params {
            members.extend(more);
        }
        let place = (self.known.seq, self.known.next_cursor());
        self.told.push(notification(method, members, place, self.now_ms));
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn items(turn: &Value) -> &[Value] {
    array(&turn["items"])
}

fn number_of(item: &Value) -> Option<u64> {
    item["id"].as_str().and_then(number)
}

/// A turn as it was when it began.
fn begun_turn(turn: &Value) -> Value {
    let mut turn = turn.clone();
    if let Some(members) = turn.as_object_mut() {
        for member in ["approvals", "itemsBackwardsCursor", "plan", "diff", "diffTruncated", "tokenUsage"] {
            members.remove(member);
        }
        for member in ["error", "completedAt", "durationMs"] {
            members.insert(member.to_owned(), Value::Null);
        }
        members.insert("status".to_owned(), "inProgress".into());
        members.insert("items".to_owned(), json!([]));
        members.insert("itemsView".to_owned(), "notLoaded".into());
    }
    turn
}

/// A turn as its end is told: with the last message of the agent.
fn summary(turn: &Value) -> Value {
    let last = items(turn).iter().rfind(|item| item["type"] == "agentMessage").cloned();
    let mut turn = turn.clone();
    if let Some(members) = turn.as_object_mut() {
        members.remove("itemsBackwardsCursor");
        members.insert("items".to_owned(), last.into_iter().collect());
        members.insert("itemsView".to_owned(), "summary".into());
    }
    turn
}

/// An item as it was when it began.
fn begun_item(item: &Value) -> Value {
    let mut item = item.clone();
    let nulls: &[&str] = match item["type"].as_str().unwrap_or_default() {
        "agentMessage" => {
            item["text"] = "".into();
            &[]
        }
        "reasoning" => {
            let parts = array(&item["summary"]).len();
            item["summary"] = vec![""; parts].into();
            &[]
        }
        "commandExecution" => &["aggregatedOutput", "exitCode", "durationMs"],
        "mcpToolCall" => &["result", "error", "durationMs"],
        "dynamicToolCall" => &["contentItems", "success", "durationMs"],
        _ => &[],
    };
    if let Some(members) = item.as_object_mut() {
        for member in ["completedAtMs", "declined"] {
            members.remove(member);
        }
        for member in nulls {
            if let Some(value) = members.get_mut(*member) {
                *value = Value::Null;
            }
        }
        if let Some(status) = members.get_mut("status") {
            *status = "inProgress".into();
        }
    }
    item
}

/// An item of which nothing but its beginning is known, ended.
fn broken_off(mut item: Value) -> Value {
    if item["status"] == "inProgress" {
        item["status"] = "failed".into();
    }
    item
}
