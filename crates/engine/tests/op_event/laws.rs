//! What holds for all events of a session, whatever happens: a reader that trusts nobody and checks each one.

use std::collections::BTreeMap;

use serde_json::Value;
use signalbox_facts::SessionRow;

/// What was heard of each session so far.
#[derive(Debug, Default)]
pub struct Laws {
    sessions: BTreeMap<String, Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    /// The latest activity; none before the session was seen.
    activity: Option<Value>,
    /// `turn_started` was heard and no end of the turn.
    open: bool,
    /// The `turn_id` of each turn that was started.
    started: Vec<String>,
    last_seq: u64,
    policy: Option<Value>,
}

/// Keys whose null is written, by event.
const NULLS: [(&str, &str); 6] = [
    ("error", "session"),
    ("permission_resolved", "option_id"),
    ("models", "description"),
    ("config_options", "description"),
    ("config_options", "category"),
    ("session_activity_changed", "description"),
];

impl Laws {
    pub fn sessions(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    /// Checks one event.
    pub fn obey(&mut self, event: &Value) {
        let name = event["event"].as_str().unwrap();
        no_nulls(name, event, event);
        let Some(session) = event["session"].as_str() else {
            assert_eq!((name, &event["terminal"]), ("error", &Value::Bool(true)), "{event}");
            return;
        };
        if session.parse::<signalbox_facts::SessionId>().is_err() {
            // A client's invention; nothing is known of it and nothing may be.
            assert_eq!(name, "error", "{event}");
            return;
        }
        let heard = self.sessions.entry(session.to_owned()).or_default();
        if let Some(seq) = event["transcript_seq"].as_u64() {
            assert!(seq > heard.last_seq, "{event} is not after {}", heard.last_seq);
            heard.last_seq = seq;
        }
        match name {
            "session_created" => {
                assert!(heard.activity.is_none(), "{event} once");
                heard.activity = Some(serde_json::json!({"revision": 0, "state": {"kind": "idle"}}));
            }
            "session_activity_changed" => heard.transition(&event["activity"]),
            "turn_started" => heard.started(event),
            "turn_ended" => heard.ended(event),
            "error" if event["terminal"] == true && heard.open => heard.ended(event),
            "agent_text" => assert_ne!(event["message_id"], "", "{event}"),
            "permission_request" | "elicitation_request" => {
                let waits = heard.pending().iter().any(|input| input["input_id"] == event["request_id"]);
                assert!(waits, "{event} is not among what waits: {:?}", heard.activity);
            }
            "permission_resolved" => {
                let waits = heard.pending().iter().any(|input| input["input_id"] == event["request_id"]);
                assert!(!waits, "{event} still waits");
            }
            "execution_policy_changed" => heard.policy = Some(event["policy"].clone()),
            _ => {}
        }
    }

    /// A session after a restart of the server: nothing runs in it, and nothing that was told has been taken back.
    /// A server that was killed may have stored more than it told.
    pub fn found_again(&mut self, session: &str, row: &SessionRow, killed: bool) {
        let Some(heard) = self.sessions.get_mut(session) else { return };
        let activity = serde_json::to_value(signalbox_engine::convert::activity_out(&row.activity)).unwrap();
        let kind = &activity["state"]["kind"];
        assert!(kind == "idle" || kind == "failed", "after a restart: {activity}");
        if let Some(before) = &heard.activity {
            let revisions = (before["revision"].as_u64().unwrap(), activity["revision"].as_u64().unwrap());
            assert!(revisions.1 >= revisions.0, "{before} was told, {activity} is stored");
            if revisions.0 == revisions.1 {
                assert_eq!(*before, activity, "one revision, two states");
            }
        }
        assert!(row.last_seq >= heard.last_seq);
        if let Some(policy) = heard.policy.take().filter(|_| !killed) {
            let stored = serde_json::to_value(signalbox_engine::convert::policy_out(row.policy)).unwrap();
            assert_eq!(stored, policy, "the policy that was told is the one that is stored");
        }
        heard.activity = Some(activity);
        heard.open = false;
    }
}

impl Heard {
    fn kind(&self) -> &str {
        self.activity.as_ref().and_then(|activity| activity["state"]["kind"].as_str()).unwrap_or("idle")
    }

    fn pending(&self) -> &[Value] {
        let pending = self.activity.as_ref().and_then(|activity| activity["state"]["pending"].as_array());
        pending.map_or(&[], Vec::as_slice)
    }

    fn transition(&mut self, next: &Value) {
        let state = &next["state"];
        if let Some(before) = &self.activity {
            let revision = before["revision"].as_u64().unwrap();
            assert_eq!(next["revision"].as_u64(), Some(revision + 1), "after {before} came {next}");
        }
        let runs = |kind: &str| kind == "running" || kind == "awaiting_input";
        let kind = state["kind"].as_str().unwrap();
        match (runs(self.kind()), runs(kind)) {
            (true, true) => {
                let before = self.activity.as_ref().map(|activity| &activity["state"]["turn_id"]);
                assert_eq!(before, Some(&state["turn_id"]), "at most one turn");
            }
            (false, true) => {
                assert_eq!(kind, "running", "a turn begins running");
                assert!(!self.open, "a turn begins after the one before has ended");
            }
            (false, false) => panic!("{next} is no transition from {:?}", self.activity),
            (true, false) => {}
        }
        let pending = state["pending"].as_array().map_or(0, Vec::len);
        assert_eq!(pending > 0, kind == "awaiting_input", "{next}");
        if let Some(pending) = state["pending"].as_array() {
            let order: Vec<_> = pending.iter().map(|input| input["sequence"].as_u64().unwrap()).collect();
            assert!(order.is_sorted_by(|a, b| a < b), "{next}");
        }
        self.activity = Some(next.clone());
    }

    fn started(&mut self, event: &Value) {
        assert_eq!(self.kind(), "running", "{event}: activity comes first");
        let state = &self.activity.as_ref().unwrap()["state"];
        assert_eq!(state.get("prompt_request_id"), event.get("request_id"), "{event}");
        let turn = state["turn_id"].as_str().unwrap().to_owned();
        assert!(!self.open && !self.started.contains(&turn), "{event}: once a turn");
        self.started.push(turn);
        self.open = true;
    }

    fn ended(&mut self, event: &Value) {
        assert!(self.open, "{event}: nothing was open");
        let kind = self.kind();
        assert!(kind == "idle" || kind == "failed", "{event}: activity comes first, and is {kind}");
        assert_eq!(kind == "failed", event["event"] == "error", "{event}");
        self.open = false;
    }
}

/// Absent is absent: a null is only where the document has one.
fn no_nulls(name: &str, event: &Value, value: &Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if value.is_null() {
                    assert!(NULLS.contains(&(name, key)), "{key} is null in {event}");
                }
                no_nulls(name, event, value);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| no_nulls(name, event, value)),
        _ => {}
    }
}
