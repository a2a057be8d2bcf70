//! The Op/Event protocol on `/ws?ticket=…`.

use serde_json::{Value, json};
use signalbox_engine::Origin;
use signalbox_protocol::ops::Op;
use signalbox_server::ops_socket::OpsLimits;

use crate::stage::{JSON, Set, Stage};
use crate::websocket::{BINARY, HANDSHAKE, Socket, TEXT, frame};

async fn ticket(stage: &Stage) -> String {
    ticket_with(stage, "").await
}

async fn ticket_with(stage: &Stage, header: &str) -> String {
    let answer = stage.asks("POST", "/api/ws-ticket", &format!("{JSON}{header}"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()["ticket"].as_str().unwrap().to_owned()
}

async fn open(stage: &Stage) -> Socket {
    open_with(stage, "").await
}

/// The socket of whoever sends this header.
pub(crate) async fn open_with(stage: &Stage, header: &str) -> Socket {
    let ticket = ticket_with(stage, header).await;
    let mut socket = Socket::open(stage, &format!("/ws?ticket={ticket}"), "").await;
    assert_eq!(socket.json().await["kind"], "sessions");
    socket
}

/// The next event of this name.
pub(crate) async fn until(socket: &mut Socket, name: &str) -> Value {
    loop {
        let frame = socket.json().await;
        if frame["event"]["event"] == name {
            return frame["event"].clone();
        }
    }
}

/// A session that this socket makes.
pub(crate) async fn creates(socket: &mut Socket, stage: &Stage) -> String {
    let cwd = stage.folder.path().join("work");
    let provider = json!({"custom": "rehearsal"});
    let op = json!({"op": "new_session", "provider": provider, "cwd": cwd, "use_worktree": false, "request_id": "r1"});
    socket.sends(op).await;
    until(socket, "session_created").await["session"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ticket_opens_it_once() {
    let stage = Stage::open().await;
    let ticket = ticket(&stage).await;
    let target = format!("/ws?ticket={ticket}");
    let mut socket = Socket::open(&stage, &target, "").await;
    assert_eq!(socket.json().await, json!({"kind": "sessions", "sessions": []}));
    for target in [target.as_str(), "/ws", "/ws?ticket=", "/ws?ticket=wrong"] {
        let answer = stage.asks("GET", target, HANDSHAKE, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (401, "unauthorized"), "{target}");
    }
}

#[tokio::test]
async fn a_request_that_is_no_handshake_uses_up_no_ticket() {
    let stage = Stage::open().await;
    let target = format!("/ws?ticket={}", ticket(&stage).await);
    let no_key = HANDSHAKE.replace("dGhlIHNhbXBsZSBub25jZQ==", "short");
    for headers in ["host: localhost\r\n", no_key.as_str()] {
        let answer = stage.asks("GET", &target, headers, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (400, "bad_handshake"), "{headers}");
    }
    assert_eq!(Socket::open(&stage, &target, "").await.json().await["kind"], "sessions");
}

#[tokio::test]
async fn ops_go_in_and_events_come_out() {
    let stage = Stage::open().await;
    let mut socket = open(&stage).await;
    let session = creates(&mut socket, &stage).await;
    let doc = json!([{"type": "text", "text": "say hello"}]);
    socket.sends(json!({"op": "prompt", "session": session, "doc": doc, "request_id": "r2"})).await;
    assert_eq!(until(&mut socket, "agent_text").await["text"], "hello");
    until(&mut socket, "turn_ended").await;

    socket.client.writes(frame(BINARY, true, true, b"{}")).await;
    assert_eq!(socket.json().await["kind"], "error");
    socket.client.writes(frame(TEXT, true, true, br#"{"req":"sessions"}"#)).await;
    let list = socket.json().await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test]
async fn it_ends_with_the_server_and_at_a_message_that_is_too_large() {
    let ops = OpsLimits { text_bytes: 1024, ..OpsLimits::default() };
    let stage = Stage::with(Set { ops, ..Set::default() }).await;
    let mut socket = open(&stage).await;
    socket.client.writes(frame(TEXT, true, true, &[b' '; 2000])).await;
    assert_eq!(socket.close_code().await.0, 1009);
    let mut socket = open(&stage).await;
    let (_, (code, _)) = tokio::join!(stage.leaves(), socket.close_code());
    assert_eq!(code, 1001);
}

#[tokio::test]
async fn the_list_comes_first_and_no_session_falls_between_it_and_the_events() {
    let stage = Stage::open().await;
    let mut maker = open(&stage).await;
    for _ in 0..8 {
        let target = format!("/ws?ticket={}", ticket(&stage).await);
        let made = creates(&mut maker, &stage);
        let joins = Socket::open(&stage, &target, "");
        // Both are on their way at once: whichever is first, the newcomer learns of it.
        let (made, mut joined) = tokio::join!(made, joins);
        let list = joined.json().await;
        assert_eq!(list["kind"], "sessions", "{list}");
        let listed =
            list["sessions"].as_array().unwrap().iter().any(|session| session["id"] == made.as_str());
        if !listed {
            assert_eq!(until(&mut joined, "session_created").await["session"], made.as_str());
        }
    }
}

#[tokio::test]
async fn a_client_that_did_not_read_is_told_how_much_it_missed_and_stays_usable() {
    let ops = OpsLimits { outbox_items: 4, ..OpsLimits::default() };
    let stage = Stage::with(Set { ops, ..Set::default() }).await;
    let ticket = ticket(&stage).await;
    let mut slow = Socket::over(stage.connect_narrowly().await, &format!("/ws?ticket={ticket}"), "").await;
    let mut quick = open(&stage).await;
    // More than the sockets take, and then more events than are kept for anybody, each about nothing that exists.
    for number in 0..10_000 {
        let session = format!("nowhere-{number}-{}", "x".repeat(1_000));
        let op = Op::SetModel { session, model: "m".to_owned() };
        stage.app.engine().dispatch_op(op, Origin::default()).await;
    }
    quick.sends(json!({"op": "set_model", "session": "the end", "model": "m"})).await;
    while until(&mut quick, "error").await["session"] != "the end" {}
    assert!(stage.figure("signalbox_event_outboxes_bytes").await > 0, "it is not read");
    assert_eq!(slow.json().await["kind"], "sessions");
    let missed = loop {
        let frame = slow.json().await;
        if frame["kind"] == "lagged" {
            break frame["missed"].as_u64().unwrap();
        }
    };
    assert!(missed > 0);
    slow.sends(json!({"req": "sessions"})).await;
    while slow.json().await["kind"] != "sessions" {}
    let session = creates(&mut slow, &stage).await;
    let doc = json!([{"type": "text", "text": "say hello"}]);
    slow.sends(json!({"op": "prompt", "session": session, "doc": doc, "request_id": "r2"})).await;
    until(&mut slow, "turn_ended").await;
}
