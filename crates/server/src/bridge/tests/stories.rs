//! What a bridge does in single situations.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::tracker::{Tracker, Way};
use super::client::Client;
use super::server::Thread;

fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

fn tracker() -> Tracker {
    Tracker::new(|| 7)
}

/// A client with these capabilities has made its handshake and follows this thread.
fn follows(capabilities: &Value, thread: &Thread) -> Tracker {
    let mut tracker = tracker();
    let params = json!({ "clientInfo": { "name": "x", "version": "1" }, "capabilities": capabilities });
    tracker.client(&bytes(&json!({ "id": 1, "method": "initialize", "params": params })));
    tracker.server(&Bytes::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    tracker
        .client(&bytes(&json!({ "id": 2, "method": "thread/resume", "params": { "threadId": thread.id } })));
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": 2, "result": thread.result(9) })));
    tracker
}

fn sent(tracker: &mut Tracker) -> Vec<Value> {
    tracker.to_server.drain(..).map(|frame| serde_json::from_slice(&frame).unwrap()).collect()
}

fn told(tracker: &mut Tracker) -> Vec<Value> {
    tracker.to_client.drain(..).map(|frame| serde_json::from_slice(&frame).unwrap()).collect()
}

fn methods(frames: &[Value]) -> Vec<&str> {
    frames.iter().filter_map(|frame| frame["method"].as_str()).collect()
}

/// The next server answers the greeting and the resume.
fn recovers(tracker: &mut Tracker, thread: &mut Thread) -> Vec<Value> {
    tracker.reconnected();
    let hello = sent(tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": {} })));
    if let Some(resume) = sent(tracker).into_iter().find(|frame| frame["method"] == "thread/resume") {
        let (result, behind) = thread.joined();
        tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": resume["id"], "result": result })));
        for frame in behind {
            assert_eq!(tracker.server(&frame), Way::Kept, "told before: {frame:?}");
        }
    }
    told(tracker)
}

#[test]
fn requests_on_their_way_are_answered_as_they_were_asked() {
    let mut tracker = tracker();
    for frame in [
        r#"{"id":"a\u0062","method":"thread/list"}"#,
        r#"[{"id":1,"method":"x"},{"method":"note"},{"id":2,"method":"y"},{"id":null,"method":"z"}]"#,
        r#"[{"method":"note"}]"#,
        r#"{"id":1.5,"method":"x"}"#,
        "nonsense",
    ] {
        assert_eq!(tracker.client(&Bytes::from(frame)), Way::On);
    }
    tracker.broken();
    let answers = told(&mut tracker);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["id"], "ab");
    assert_eq!(answers[0]["error"]["code"], -32026);
    assert_eq!(answers[0]["error"]["data"], json!({ "reason": "server_restarted", "retryable": true }));
    let ids: Vec<&Value> = answers[1].as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2)]);
    tracker.broken();
    assert!(told(&mut tracker).is_empty(), "once is enough");
}

#[test]
fn answers_of_the_server_end_the_wait() {
    let mut tracker = tracker();
    tracker.client(&Bytes::from(r#"[{"id":1,"method":"x"},{"id":2,"method":"y"}]"#));
    tracker.client(&Bytes::from(r#"{"id":1,"method":"x"}"#));
    assert!(tracker.is_asked());
    tracker.server(&Bytes::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    tracker.server(&Bytes::from(
        r#"[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"error":{}}]"#,
    ));
    assert!(!tracker.is_asked());
}

#[test]
fn a_handshake_on_its_way_is_made_with_the_next_server() {
    let mut tracker = tracker();
    let frame = json!({ "id": "first", "method": "initialize", "params": { "clientInfo": { "name": "x", "version": "1" } } });
    tracker.client(&bytes(&frame));
    tracker.client(&Bytes::from(r#"{"method":"initialized"}"#));
    tracker.client(&Bytes::from(r#"{"id":5,"method":"thread/list"}"#));
    tracker.broken();
    let answers = told(&mut tracker);
    assert_eq!(answers.len(), 1, "the handshake still waits");
    assert_eq!(answers[0]["id"], 5);
    tracker.reconnected();
    let sent = sent(&mut tracker);
    assert_eq!((&sent[0]["id"], &sent[0]["params"]), (&frame["id"], &frame["params"]));
    assert_eq!(sent[1]["method"], "initialized");
    assert!(tracker.is_live());
    let answer = Bytes::from(r#"{"jsonrpc":"2.0","id":"first","result":{}}"#);
    assert_eq!(tracker.server(&answer), Way::On, "the client waits for it");
    tracker.given_up();
    assert!(told(&mut tracker).is_empty());
}

#[test]
fn a_version_of_its_own_is_put_into_the_answer() {
    let mut tracker = tracker();
    tracker.set_skew(Some("0.9.0".into()));
    tracker.client(&Bytes::from(r#"{"id":1,"method":"initialize"}"#));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"signalbox","version":"1.0.0"}}}"#;
    assert_eq!(tracker.server(&Bytes::from(answer)), Way::Kept);
    let info = &told(&mut tracker)[0]["result"]["serverInfo"];
    assert_eq!((&info["version"], &info["bridgeVersion"]), (&json!("1.0.0"), &json!("0.9.0")));
}

#[test]
fn an_open_turn_ends_in_the_order_of_a_server_that_tells_it_itself() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    let mut client = Client::default();
    thread.begins_turn();
    thread.begins_item("agentMessage");
    thread.asks();
    for frame in std::mem::take(&mut thread.frames) {
        assert_eq!(tracker.server(&frame), Way::On);
        client.told(&frame);
    }
    thread.dies();
    tracker.broken();
    let told = recovers(&mut tracker, &mut thread);
    assert_eq!(
        methods(&told),
        [
            "serverRequest/resolved",
            "item/completed",
            "item/completed",
            "thread/status/changed",
            "thread/activity/changed",
            "turn/completed",
        ]
    );
    assert_eq!(told[0]["params"]["by"]["kind"], "restart");
    assert_eq!(told[5]["params"]["turn"]["status"], "interrupted");
    told.iter().for_each(|frame| client.told(frame.to_string().as_bytes()));
    // The answer to what was asked comes too late, and goes to nobody.
    let approval = told[0]["params"]["requestId"].as_str().unwrap();
    let answer = json!({ "id": approval, "result": { "decision": "accept" } });
    assert_eq!(tracker.client(&bytes(&answer)), Way::Kept);
    let said = self::told(&mut tracker);
    assert_eq!(methods(&said), ["warning"]);
    client.told(said[0].to_string().as_bytes());
}

#[test]
fn who_can_resync_is_told_to() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({ "resync": true }), &thread);
    thread.begins_turn();
    thread.asks();
    for frame in std::mem::take(&mut thread.frames) {
        tracker.server(&frame);
    }
    thread.dies();
    tracker.broken();
    let told = recovers(&mut tracker, &mut thread);
    assert_eq!(methods(&told), ["serverRequest/resolved", "thread/resyncRequired"]);
    assert_eq!(told[1]["params"]["reason"], "server_restarted");
    assert!(tracker.is_live());
}

#[test]
fn what_a_client_has_opted_out_of_is_not_told_by_the_bridge_either() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(
        &json!({ "optOutNotificationMethods": ["item/completed", "thread/status/changed"] }),
        &thread,
    );
    thread.begins_turn();
    thread.begins_item("agentMessage");
    for frame in std::mem::take(&mut thread.frames) {
        tracker.server(&frame);
    }
    thread.dies();
    tracker.broken();
    let told = recovers(&mut tracker, &mut thread);
    assert_eq!(methods(&told), ["thread/activity/changed", "turn/completed"]);
}

#[test]
fn a_thread_that_is_gone_is_closed_with_all_that_was_open() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    thread.begins_turn();
    thread.asks();
    for frame in std::mem::take(&mut thread.frames) {
        tracker.server(&frame);
    }
    tracker.broken();
    tracker.reconnected();
    let hello = sent(&mut tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": {} })));
    let resume = sent(&mut tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": resume["id"], "error": { "code": -32600 } })));
    let told = told(&mut tracker);
    assert_eq!(
        methods(&told),
        [
            "serverRequest/resolved",
            "item/completed",
            "turn/completed",
            "thread/status/changed",
            "thread/closed"
        ]
    );
    assert_eq!(told[1]["params"]["item"]["status"], "failed");
    assert!(tracker.is_live());
    tracker.broken();
    tracker.reconnected();
    let hello = sent(&mut tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": {} })));
    assert!(tracker.is_live(), "it is not followed any more");
}

#[test]
fn a_connection_that_breaks_off_while_the_server_lives_goes_on_where_it_was() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    thread.begins_turn();
    thread.begins_item("agentMessage");
    thread.streams();
    let frames = std::mem::take(&mut thread.frames);
    for frame in &frames {
        assert_eq!(tracker.server(frame), Way::On);
    }
    let last: Value = serde_json::from_slice(frames.last().unwrap()).unwrap();
    tracker.broken();
    tracker.reconnected();
    let hello = sent(&mut tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": {} })));
    let resume = sent(&mut tracker).remove(0);
    assert_eq!(resume["params"]["afterCursor"], last["params"]["cursor"]);
    let mut result = thread.result(0);
    result["continued"] = true.into();
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": resume["id"], "result": result })));
    assert!(tracker.is_live() && told(&mut tracker).is_empty());
    thread.streams();
    assert_eq!(tracker.server(&thread.frames[0]), Way::On);
}

#[test]
fn a_text_with_a_hole_is_not_continued() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    thread.begins_turn();
    thread.begins_item("agentMessage");
    for frame in std::mem::take(&mut thread.frames) {
        tracker.server(&frame);
    }
    tracker.broken();
    // Meanwhile it went on, on the same server.
    thread.streams();
    thread.frames.clear();
    assert!(recovers(&mut tracker, &mut thread).is_empty());
    thread.streams();
    assert_eq!(tracker.server(&thread.frames[0]), Way::Kept);
    thread.frames.clear();
    thread.ends_items();
    thread.begins_item("agentMessage");
    thread.streams();
    for frame in std::mem::take(&mut thread.frames) {
        assert_eq!(tracker.server(&frame), Way::On, "the end tells all of it");
    }
}

#[test]
fn frames_that_come_while_something_is_looked_up_wait_for_it() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    thread.begins_turn();
    thread.begins_item("agentMessage");
    for frame in std::mem::take(&mut thread.frames) {
        tracker.server(&frame);
    }
    thread.dies();
    thread.begins_turn();
    tracker.broken();
    tracker.reconnected();
    let hello = sent(&mut tracker).remove(0);
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": {} })));
    let resume = sent(&mut tracker).remove(0);
    let result = thread.result(1);
    let (_, behind) = thread.joined();
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": resume["id"], "result": result })));
    behind.iter().for_each(|frame| assert_eq!(tracker.server(frame), Way::Kept));
    thread.ends_turn("completed");
    thread.frames.iter().for_each(|frame| assert_eq!(tracker.server(frame), Way::Kept));
    assert!(!tracker.is_live() && told(&mut tracker).is_empty());
    let wanted = sent(&mut tracker).remove(0);
    assert_eq!(wanted["method"], "thread/items/list");
    let item = wanted["params"]["cursor"]["itemId"].as_str().unwrap();
    let (turn, item) = thread.item(item).unwrap();
    let page = json!({ "data": [{ "turnId": turn, "item": item }] });
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": wanted["id"], "result": page })));
    let wanted = sent(&mut tracker).remove(0);
    assert_eq!(wanted["method"], "thread/turns/list");
    let page = json!({ "data": thread.result(9)["thread"]["turns"] });
    tracker.server(&bytes(&json!({ "jsonrpc": "2.0", "id": wanted["id"], "result": page })));
    assert!(tracker.is_live());
    let told = told(&mut tracker);
    let turns: Vec<&str> = methods(&told).into_iter().filter(|method| method.starts_with("turn/")).collect();
    assert_eq!(turns, ["turn/completed", "turn/started", "turn/completed"]);
}

#[test]
fn a_client_without_a_server_that_it_needs_is_left_in_peace() {
    let mut thread = Thread::new("t");
    let mut tracker = follows(&json!({}), &thread);
    thread.begins_turn();
    tracker.broken();
    for frame in ["", r#"{"method":"initialized"}"#, r#"{"id":"x","result":{}}"#] {
        assert!(tracker.client_while_away(&Bytes::from(frame)), "{frame}");
    }
    for frame in [r#"{"id":9,"method":"thread/list"}"#, r#"[{"id":1,"method":"x"}]"#, "nonsense"] {
        assert!(!tracker.client_while_away(&Bytes::from(frame)), "{frame}");
    }
}

#[test]
fn a_client_that_floods_has_to_wait() {
    let mut tracker = tracker();
    let mut sent = 0;
    while !tracker.is_full() {
        tracker.client(&Bytes::from(format!(r#"{{"id":{sent},"method":"x"}}"#)));
        sent += 1;
        assert!(sent < 100_000);
    }
    for id in 0..sent {
        tracker.server(&Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
    }
    assert!(!tracker.is_full() && !tracker.is_asked());
    let id = "x".repeat(1 << 20);
    tracker.client(&Bytes::from(format!(r#"{{"id":"{id}","method":"x"}}"#)));
    assert!(tracker.is_full());
}
