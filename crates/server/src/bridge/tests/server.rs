//! A played server: threads with turns, items and approvals, told as the real one tells them; it dies, and its successor
//! shows what is stored.

use bytes::Bytes;
use serde_json::{Value, json};

/// One thread, as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) id: String,
    pub(super) turns: Vec<Turn>,
    seq: u64,
    life: u32,
    place: u64,
    revision: u64,
    status: Value,
    /// What the connection was told, or would have been.
    pub(super) frames: Vec<Bytes>,
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) items: Vec<Item>,
    pub(super) approvals: Vec<Value>,
    pub(super) pending: Vec<String>,
    plan: Option<Value>,
}

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    kind: &'static str,
    text: String,
    complete: bool,
}

impl Item {
    fn json(&self) -> Value {
        let mut item = match self.kind {
            "userMessage" => json!({ "type": "userMessage", "content": [], "clientId": null }),
            "agentMessage" => json!({ "type": "agentMessage", "text": self.text, "phase": null }),
            _ => json!({
                "type": "commandExecution", "command": "ls", "cwd": "/", "aggregatedOutput": self.text,
                "status": if self.complete { "failed" } else { "inProgress" },
            }),
        };
        item["id"] = self.id.as_str().into();
        item["startedAtMs"] = 1.into();
        if self.complete {
            item["completedAtMs"] = 2.into();
        }
        item
    }
}

impl Thread {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            turns: Vec::new(),
            seq: 1,
            life: 1,
            place: 0,
            revision: 0,
            status: json!({ "type": "idle" }),
            frames: Vec::new(),
        }
    }

    pub(super) fn open(&mut self) -> Option<&mut Turn> {
        self.turns.last_mut().filter(|turn| turn.status == "inProgress")
    }

    fn tell(&mut self, method: &str, mut params: Value) {
        self.place += 1;
        params["threadId"] = self.id.as_str().into();
        params["seq"] = self.seq.into();
        params["cursor"] = format!("{}-{}", self.life, self.place).into();
        // Member by member as our server writes them: the thread first, the place before a delta's text.
        let head = format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","emittedAtMs":1,"params":{{"threadId":"{}""#,
            self.id
        );
        let place = format!(r#","seq":{},"cursor":{}"#, params["seq"], params["cursor"]);
        let (mut before, mut behind) = (String::new(), String::new());
        for (name, value) in params.as_object().unwrap() {
            match name.as_str() {
                "threadId" | "seq" | "cursor" => {}
                "delta" => behind += &format!(r#","{name}":{value}"#),
                _ => before += &format!(r#","{name}":{value}"#),
            }
        }
        let text = format!("{head}{before}{place}{behind}}}}}");
        self.frames.push(text.into());
    }

    fn stands(&mut self, status: Value) {
        self.revision += 1;
        self.status = status;
        self.tell("thread/status/changed", json!({ "status": self.status }));
        self.tell("thread/activity/changed", json!({ "activity": self.activity() }));
    }

    fn activity(&self) -> Value {
        let turn = self.turns.last().filter(|turn| turn.status == "inProgress");
        let pending = turn.map(|turn| turn.pending.clone()).unwrap_or_default();
        let inputs: Vec<Value> = pending.iter().map(|id| json!({ "input_id": id })).collect();
        let state = match turn {
            None => json!({ "kind": "idle" }),
            Some(turn) if inputs.is_empty() => json!({ "kind": "running", "turn_id": turn.id }),
            Some(turn) => json!({ "kind": "awaiting_input", "turn_id": turn.id, "pending": inputs }),
        };
        json!({ "revision": self.revision, "state": state })
    }

    pub(super) fn begins_turn(&mut self) {
        if self.open().is_some() {
            return;
        }
        let id = format!("turn-{}-{:04}", self.id, self.turns.len());
        self.turns.push(Turn {
            id,
            status: "inProgress",
            items: Vec::new(),
            approvals: Vec::new(),
            pending: Vec::new(),
            plan: None,
        });
        self.stands(json!({ "type": "active", "activeFlags": [] }));
        let turn = turn_json(self.turns.last().unwrap(), false);
        self.tell("turn/started", json!({ "turn": turn }));
        self.begins_item("userMessage");
        self.ends_items();
    }

    pub(super) fn begins_item(&mut self, kind: &'static str) {
        self.seq += 1;
        let item = Item { id: format!("i{}", self.seq), kind, text: String::new(), complete: false };
        let json = item.json();
        let Some(turn) = self.open() else { return };
        turn.items.push(item);
        let id = turn.id.clone();
        self.tell("item/started", json!({ "turnId": id, "item": json, "startedAtMs": 1 }));
    }

    pub(super) fn streams(&mut self) {
        self.seq += 1;
        let Some(turn) = self.open() else { return };
        let id = turn.id.clone();
        let open = turn.items.iter_mut().find(|item| !item.complete && item.kind == "agentMessage");
        let Some(item) = open else { return };
        item.text.push('x');
        let item = item.id.clone();
        self.tell("item/agentMessage/delta", json!({ "turnId": id, "itemId": item, "delta": "x" }));
    }

    pub(super) fn plans(&mut self) {
        self.seq += 1;
        let seq = self.seq;
        let Some(turn) = self.open() else { return };
        let plan = json!([{ "step": format!("step {seq}"), "status": "pending" }]);
        turn.plan = Some(plan.clone());
        let id = turn.id.clone();
        self.tell("turn/plan/updated", json!({ "turnId": id, "explanation": null, "plan": plan }));
    }

    pub(super) fn ends_items(&mut self) {
        self.seq += 1;
        let Some(turn) = self.open() else { return };
        let id = turn.id.clone();
        let mut ended = Vec::new();
        for item in turn.items.iter_mut().filter(|item| !item.complete) {
            item.complete = true;
            ended.push(item.json());
        }
        for item in ended {
            self.tell("item/completed", json!({ "turnId": id, "item": item, "completedAtMs": 2 }));
        }
    }

    pub(super) fn asks(&mut self) {
        if self.open().is_none() {
            return;
        }
        self.begins_item("commandExecution");
        let approval = format!("approval-{}-{}", self.id, self.seq);
        let thread = self.id.clone();
        let Some(turn) = self.open() else { return };
        turn.pending.push(approval.clone());
        let (turn_id, item) = (turn.id.clone(), turn.items.last().unwrap().id.clone());
        self.stands(json!({ "type": "active", "activeFlags": ["waitingOnApproval"] }));
        self.frames.push(ask(&thread, &turn_id, &item, &approval));
    }

    pub(super) fn resolves(&mut self, by: &str) {
        self.seq += 1;
        let Some(turn) = self.open() else { return };
        if turn.pending.is_empty() {
            return;
        }
        let gone = std::mem::take(&mut turn.pending);
        for id in &gone {
            turn.approvals
                .push(json!({ "approvalId": id, "title": "", "decision": "accept", "by": { "kind": by } }));
        }
        self.stands(json!({ "type": "active", "activeFlags": [] }));
        for id in gone {
            let params =
                json!({ "requestId": id, "approvalId": id, "decision": "accept", "by": { "kind": by } });
            self.tell("serverRequest/resolved", params);
        }
    }

    pub(super) fn ends_turn(&mut self, status: &'static str) {
        self.resolves("restart");
        self.ends_items();
        let Some(turn) = self.open() else { return };
        turn.status = status;
        self.stands(json!({ "type": if status == "completed" { "idle" } else { "systemError" } }));
        let turn = turn_json(self.turns.last().unwrap(), false);
        self.tell("turn/completed", json!({ "turn": turn }));
    }

    /// The server is killed; the next one ends what was open.
    pub(super) fn dies(&mut self) {
        self.ends_turn("interrupted");
        self.life += 1;
        self.place = 1;
        self.frames.clear();
    }

    /// The result of a resume, and what follows it.
    pub(super) fn joined(&mut self) -> (Value, Vec<Bytes>) {
        let result = self.result(usize::MAX);
        self.frames.clear();
        if let Some(turn) = self.turns.last().filter(|turn| turn.status == "inProgress").cloned() {
            for approval in &turn.pending {
                let item = turn.items.iter().rfind(|item| item.kind == "commandExecution").unwrap();
                self.frames.push(ask(&self.id, &turn.id, &item.id, approval));
            }
            if let Some(plan) = &turn.plan {
                let params = json!({ "turnId": turn.id, "explanation": null, "plan": plan });
                self.tell("turn/plan/updated", params);
            }
        }
        self.tell("thread/activity/changed", json!({ "activity": self.activity() }));
        (result, std::mem::take(&mut self.frames))
    }

    /// The result of a resume with at most so many turns.
    pub(super) fn result(&self, most: usize) -> Value {
        let from = self.turns.len().saturating_sub(most);
        let turns: Vec<Value> = self.turns[from..].iter().map(|turn| turn_json(turn, true)).collect();
        json!({
            "thread": {
                "id": self.id, "status": self.status, "activity": self.activity(), "turns": turns, "name": null,
            },
            "snapshotSeq": self.seq,
            "cursor": format!("{}-{}", self.life, self.place),
            "turnsBackwardsCursor": null,
        })
    }

    pub(super) fn item(&self, id: &str) -> Option<(String, Value)> {
        let items = self.turns.iter().flat_map(|turn| turn.items.iter().map(move |item| (turn, item)));
        items.into_iter().find(|(_, item)| item.id == id).map(|(turn, item)| (turn.id.clone(), item.json()))
    }
}

pub(super) fn turn_json(turn: &Turn, whole: bool) -> Value {
    let items: Vec<Value> = turn.items.iter().filter(|_| whole).map(Item::json).collect();
    let mut json =
        json!({ "id": turn.id, "status": turn.status, "items": items, "itemsView": "full", "error": null });
    if whole {
        json["approvals"] = turn.approvals.clone().into();
        if let Some(plan) = &turn.plan {
            json["plan"] = plan.clone();
        }
    }
    json
}

fn ask(thread: &str, turn: &str, item: &str, approval: &str) -> Bytes {
    let params = json!({ "threadId": thread, "turnId": turn, "itemId": item, "approvalId": approval });
    let method = "item/commandExecution/requestApproval";
    json!({ "jsonrpc": "2.0", "id": approval, "method": method, "params": params }).to_string().into()
}
