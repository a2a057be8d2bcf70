//! What a role may not do, over each way in: the same refusal, with what is needed.

use serde_json::{Value, json};
use signalbox_protocol::app::ConnectionRole;

use crate::events::Stream;
use crate::ops::open_with;
use crate::stage::{JSON, Stage};
use crate::websocket::Socket;

fn is_refused(answer: &Value, needs: &str, how: &str) {
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["data"]["reason"], &error["data"]["needs"]),
        (&json!(-32020), &json!("unauthorized"), &json!(needs)),
        "{how}: {answer}"
    );
}

#[tokio::test]
async fn who_may_not_is_told_who_may_over_a_websocket_and_over_post() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let prompt = json!({"threadId": thread, "input": [{"type": "text", "text": "say hello"}]});
    for (role, method, params, needs) in [
        (ConnectionRole::Observer, "turn/start", prompt.clone(), "operator"),
        (
            ConnectionRole::Observer,
            "approval/respond",
            json!({"approvalId": "x", "decision": "accept"}),
            "operator",
        ),
        (ConnectionRole::Observer, "device/list", json!({}), "owner"),
        (ConnectionRole::Operator, "device/list", json!({}), "owner"),
        (ConnectionRole::Operator, "pairing/create", json!({}), "owner"),
        (ConnectionRole::Operator, "server/stop", json!({}), "owner"),
    ] {
        let device = stage.pairs_as("x", role).await;
        let mut socket = Socket::open(&stage, "/", &device.header).await;
        socket.initializes().await;
        is_refused(
            &socket.calls(1, method, params.clone()).await,
            needs,
            &format!("{method} on a WebSocket"),
        );
        let body = json!({"id": 1, "method": method, "params": params}).to_string();
        let posted = stage.asks("POST", "/rpc", &format!("{JSON}{}", device.header), &body).await;
        assert_eq!(posted.status, 200);
        is_refused(&posted.json(), needs, &format!("{method} by POST"));
    }
    let read = stage.calls("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"], json!([]), "nothing of it was done");
}

#[tokio::test]
async fn an_observer_follows_and_reads_and_its_ops_are_refused_by_their_id() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let device = stage.pairs_as("screen", ConnectionRole::Observer).await;
    let mut stream = Stream::open(&stage, &format!("/threads/{thread}/events"), &device.header).await;
    stream.until("thread/snapshot").await;
    let mut ops = open_with(&stage, &device.header).await;
    let doc = json!([{"type": "text", "text": "say hello"}]);
    ops.sends(json!({"op": "prompt", "session": thread, "doc": doc, "request_id": "mine"})).await;
    let refused = ops.json().await;
    assert_eq!((&refused["kind"], &refused["request_id"]), (&json!("error"), &json!("mine")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("operator"), "{refused}");
    stage.prompts(&thread, "say hello").await;
    stream.until("turn/completed").await;
}
