//! What clients do in stories.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::app::App;
use crate::client::Client;
use crate::model::stored_content;

/// A request of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The JSON-RPC id, which is the approval's.
    pub id: Value,
    /// What kind of request it is.
    pub method: String,
    /// What is asked.
    pub params: Value,
}

impl Asked {
    pub(crate) fn of(frame: &Value) -> Self {
        Self {
            id: frame["id"].clone(),
            method: frame["method"].as_str().unwrap_or_default().to_owned(),
            params: frame["params"].clone(),
        }
    }

    /// The approval's id.
    #[must_use]
    pub fn approval(&self) -> &str {
        self.id.as_str().unwrap_or_default()
    }

    /// The item it is about.
    #[must_use]
    pub fn item(&self) -> &str {
        self.params["itemId"].as_str().unwrap_or_default()
    }
}

impl Client {
    /// The handshake, with capabilities of the client's own.
    pub fn initializes_with(&mut self, name: &str, capabilities: Value) -> Value {
        let info = json!({ "name": name, "title": name, "version": "1.0.0" });
        let result = self.call("initialize", json!({ "clientInfo": info, "capabilities": capabilities }));
        self.sends(&json!({ "jsonrpc": "2.0", "method": "initialized" }));
        result
    }

    /// Starts a thread in the app's working folder and gives its id.
    pub fn starts_thread(&mut self, app: &App) -> String {
        self.starts_thread_with(json!({ "cwd": app.work() }))
    }

    /// Starts a thread with these params and gives its id.
    pub fn starts_thread_with(&mut self, params: Value) -> String {
        let started = self.call("thread/start", params);
        started["thread"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Joins a thread and gives the result.
    pub fn joins(&mut self, thread: &str) -> Value {
        self.call("thread/resume", json!({ "threadId": thread }))
    }

    /// Starts a turn with a script for the rehearsal agent and gives its id.
    pub fn prompts(&mut self, thread: &str, script: &str) -> String {
        let input = json!([{ "type": "text", "text": script }]);
        let started = self.call("turn/start", json!({ "threadId": thread, "input": input }));
        started["turn"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script that asks nothing, to its end, and gives the ended turn.
    pub fn runs(&mut self, thread: &str, script: &str) -> Value {
        let turn = self.prompts(thread, script);
        self.finishes(&turn)
    }

    /// Waits until the turn has ended and gives it.
    pub fn finishes(&mut self, turn: &str) -> Value {
        self.until_where("turn/completed", |params| params["turn"]["id"] == turn)["turn"].clone()
    }

    /// Waits until the client knows that the turn has ended, in whatever order turns of several threads do.
    pub fn knows_the_end_of(&mut self, thread: &str, turn: &str) {
        self.learns(&format!("the end of turn {turn}"), |model| {
            let turns = &model.thread(thread).turns;
            turns.iter().any(|known| known.id == turn && known.status != "inProgress")
        });
    }

    /// Asks for an interrupt of the turn.
    pub fn interrupts(&mut self, thread: &str, turn: &str) {
        self.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn }));
    }

    /// Answers a request of the server.
    pub fn answers(&mut self, asked: &Asked, result: &Value) {
        self.sends(&json!({ "jsonrpc": "2.0", "id": asked.id, "result": result }));
    }

    /// Says yes, once.
    pub fn approves(&mut self, asked: &Asked) {
        self.answers(asked, &json!({ "decision": "accept" }));
    }

    /// Says yes, also to the same later in this session.
    pub fn approves_for_session(&mut self, asked: &Asked) {
        self.answers(asked, &json!({ "decision": "acceptForSession" }));
    }

    /// Says no.
    pub fn declines(&mut self, asked: &Asked) {
        self.answers(asked, &json!({ "decision": "decline" }));
    }

    /// Says no and interrupts the turn.
    pub fn cancels(&mut self, asked: &Asked) {
        self.answers(asked, &json!({ "decision": "cancel" }));
    }

    /// Waits until the approval is settled and gives who settled it and how.
    pub fn sees_settled(&mut self, asked: &Asked) -> Value {
        self.until_where("serverRequest/resolved", |params| params["requestId"] == asked.id)
    }

    /// The stored thread with all its turns.
    pub fn reads(&mut self, thread: &str) -> Value {
        self.call("thread/read", json!({ "threadId": thread, "includeTurns": true }))["thread"].clone()
    }

    /// What the client has put together itself is what the server has stored.
    ///
    /// # Panics
    /// If it is not.
    pub fn knows_what_is_stored(&mut self, thread: &str) {
        let stored = stored_content(&self.reads(thread));
        let known = self.model().thread(thread).content();
        if known != stored {
            let mut differences = Vec::new();
            differ(&known, &stored, "", &mut differences);
            let differences = differences.join("\n  ");
            self.fail(&format!("the client knows another thread than is stored:\n  {differences}"));
        }
    }
}

/// Where two values differ.
fn differ(known: &Value, stored: &Value, path: &str, found: &mut Vec<String>) {
    match (known, stored) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                differ(&known[name], &stored[name], &format!("{path}/{name}"), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differ(one, other, &format!("{path}/{at}"), found);
            }
        }
        _ if known == stored => {}
        _ => found.push(format!("{path}: known is {known}, stored is {stored}")),
    }
}
