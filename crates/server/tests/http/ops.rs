//! The Op/Event protocol on `/ws?ticket=…`.

use serde_json::{Value, json};
use signalbox_server::ops_socket::OpsLimits;

use crate::stage::{JSON, Set, Stage};
use crate::websocket::{BINARY, HANDSHAKE, Socket, TEXT, frame};

async fn ticket(stage: &Stage) -> String {
    let answer = stage.asks("POST", "/api/ws-ticket", JSON, "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()["ticket"].as_str().unwrap().to_owned()
}

async fn open(stage: &Stage) -> Socket {
    let ticket = ticket(stage).await;
    let mut socket = Socket::open(stage, &format!("/ws?ticket={ticket}"), "").await;
    assert_eq!(socket.json().await["kind"], "sessions");
    socket
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
async fn ops_go_in_and_events_come_out() {
    let stage = Stage::open().await;
    let mut socket = open(&stage).await;
    let cwd = stage.folder.path().join("work");
    let provider = json!({"custom": "rehearsal"});
    let op = json!({"op": "new_session", "provider": provider, "cwd": cwd, "use_worktree": false, "request_id": "r1"});
    socket.sends(op).await;
    let until = async |socket: &mut Socket, name: &str| -> Value {
        loop {
            let frame = socket.json().await;
            if frame["event"]["event"] == name {
                return frame["event"].clone();
            }
        }
    };
    let session = until(&mut socket, "session_created").await["session"].clone();
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
