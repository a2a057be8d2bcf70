//! Tests of the reducer: every notification in a story, and what it makes of promises that are not kept.

mod broken;
mod joining;
mod stories;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use signalbox_protocol::app::{Place, ServerNotification, ServerRequest, ThreadResumeResult};

use super::{Broken, Change, ThreadState};

/// A state, and the stream that feeds it.
pub(super) struct Watched {
    pub(super) state: ThreadState,
    pub(super) place: u64,
    pub(super) seq: u64,
    /// Methods that were told.
    pub(super) told: BTreeSet<String>,
}

pub(super) fn result(turns: Value) -> Value {
    json!({
        "thread": {
            "id": "t", "sessionId": "t", "preview": "", "status": {"type": "idle"}, "createdAt": 1, "updatedAt": 1,
            "cwd": "/work", "modelProvider": "rehearsal", "source": "vscode", "cliVersion": "1.0.0", "ephemeral": false,
            "turns": turns,
        },
        "model": "default", "modelProvider": "rehearsal", "cwd": "/work", "approvalPolicy": "untrusted",
        "approvalsReviewer": "user", "sandbox": {"type": "readOnly"}, "snapshotSeq": 1, "cursor": "9-10",
    })
}

pub(super) fn resumed(result: Value) -> ThreadResumeResult {
    serde_json::from_value(result).unwrap()
}

pub(super) fn item(id: &str, body: Value) -> Value {
    let mut item = body;
    item["id"] = json!(id);
    item
}

impl Watched {
    pub(super) fn new() -> Self {
        Self::of(result(json!([])))
    }

    pub(super) fn of(result: Value) -> Self {
        let state = ThreadState::resumed(resumed(result));
        Self { state, place: 10, seq: 1, told: BTreeSet::new() }
    }

    /// The next notification of the thread.
    pub(super) fn hears(&mut self, method: &str, params: Value) -> Result<Vec<Change>, Broken> {
        self.place += 1;
        self.seq += 1;
        self.hears_at(method, params, &format!("9-{}", self.place), self.seq)
    }

    pub(super) fn hears_at(
        &mut self,
        method: &str,
        mut params: Value,
        cursor: &str,
        seq: u64,
    ) -> Result<Vec<Change>, Broken> {
        if params["thread"].is_null() && params["threadId"].is_null() {
            params["threadId"] = json!("t");
        }
        let told = ServerNotification::decode(method, params).unwrap().unwrap();
        self.told.insert(method.to_owned());
        self.state.notified(&told, Some(&Place { seq, cursor: cursor.to_owned() }))
    }

    pub(super) fn is_asked(&mut self, approval: &str, item: &str) -> Result<Vec<Change>, Broken> {
        let params = json!({
            "threadId": "t", "turnId": "u1", "itemId": item, "startedAtMs": 1, "approvalId": approval, "title": "make",
            "options": [], "availableDecisions": ["accept", "decline", "cancel"],
        });
        let request = ServerRequest::decode("item/commandExecution/requestApproval", params);
        self.state.asked(&request.unwrap().unwrap())
    }

    pub(super) fn status(&mut self, status: Value) -> Vec<Change> {
        self.hears("thread/status/changed", json!({"status": status})).unwrap()
    }

    /// A turn begins.
    pub(super) fn turn(&mut self, id: &str) {
        self.status(json!({"type": "active", "activeFlags": []}));
        let turn = json!({"id": id, "status": "inProgress", "items": [], "itemsView": "notLoaded"});
        let changes = self.hears("turn/started", json!({"turn": turn})).unwrap();
        assert_eq!(changes, [Change::TurnStarted { turn: id.to_owned() }]);
    }

    pub(super) fn ends(&mut self, id: &str) -> Result<Vec<Change>, Broken> {
        self.status(json!({"type": "idle"}));
        let turn =
            json!({"id": id, "status": "completed", "items": [], "itemsView": "summary", "durationMs": 7});
        self.hears("turn/completed", json!({"turn": turn}))
    }

    pub(super) fn starts(&mut self, turn: &str, item: &Value) -> Result<Vec<Change>, Broken> {
        self.hears("item/started", json!({"turnId": turn, "item": item, "startedAtMs": 1}))
    }

    pub(super) fn completes(&mut self, turn: &str, item: &Value) -> Result<Vec<Change>, Broken> {
        let mut item = item.clone();
        item["completedAtMs"] = json!(5);
        self.hears("item/completed", json!({"turnId": turn, "item": item, "completedAtMs": 5}))
    }

    /// More of an item.
    pub(super) fn grows(&mut self, method: &str, item: &str, more: Value) -> Result<Vec<Change>, Broken> {
        let mut params = more;
        params["turnId"] = json!("u1");
        params["itemId"] = json!(item);
        self.hears(method, params)
    }

    /// The item as JSON.
    pub(super) fn item(&self, id: &str) -> Value {
        let items = self.state.thread.turns.iter().flat_map(|turn| &turn.items);
        serde_json::to_value(items.into_iter().find(|item| item.id == id).unwrap()).unwrap()
    }
}

pub(super) fn message(id: &str, text: &str) -> Value {
    item(id, json!({"type": "agentMessage", "text": text}))
}

pub(super) fn command(id: &str, status: &str) -> Value {
    let body = json!({"type": "commandExecution", "command": "make", "cwd": "/work", "status": status, "commandActions": []});
    item(id, body)
}
