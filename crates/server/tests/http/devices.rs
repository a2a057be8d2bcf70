//! Paired devices over the wire: what they have open ends when they are revoked, and what they answer is in the audit log.

use serde_json::{Value, json};
use signalbox_protocol::app::ConnectionRole;
use signalbox_server::http::ListenOptions;

use crate::events::Stream;
use crate::ops::{creates, open_with, until};
use crate::stage::{JSON, Paired, Set, Stage, local, owner};
use crate::websocket::Socket;

async fn revokes(stage: &Stage, device: &Paired) -> u32 {
    let revoke = serde_json::from_value(json!({"deviceId": device.id})).unwrap();
    stage.access.device_revoke(&owner(), revoke).await.unwrap().closed_connections
}

#[tokio::test]
async fn all_that_a_device_has_open_ends_at_once_when_it_is_revoked_and_nothing_of_another() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    let phone = stage.pairs_as("phone", ConnectionRole::Operator).await;
    let tablet = stage.pairs_as("tablet", ConnectionRole::Observer).await;
    let mut socket = Socket::open(&stage, "/", &phone.header).await;
    socket.initializes().await;
    let started = socket.calls(1, "thread/start", json!({})).await;
    let target = format!("/threads/{}/events", started["result"]["thread"]["id"].as_str().unwrap());
    let mut stream = Stream::open(&stage, &target, &phone.header).await;
    stream.until("thread/snapshot").await;
    let mut ops = open_with(&stage, &phone.header).await;
    let ticket = stage.asks("POST", "/api/ws-ticket", &format!("{JSON}{}", phone.header), "").await;
    let mut others = (
        Socket::open(&stage, "/", &tablet.header).await,
        Stream::open(&stage, &target, &tablet.header).await,
        open_with(&stage, &tablet.header).await,
    );
    others.0.initializes().await;
    others.1.until("thread/snapshot").await;

    assert_eq!(revokes(&stage, &phone).await, 3);
    for (what, closed) in [("JSON-RPC", socket.close_code().await), ("Op/Event", ops.close_code().await)] {
        assert_eq!(closed.0, 1008, "{what}");
        assert!(closed.1.contains("revoked"), "{what}: {}", closed.1);
    }
    let end = stream.until("end").await.pop().unwrap();
    assert_eq!(end.data["reason"], "unauthorized");
    assert!(end.data["message"].as_str().unwrap().contains("revoked"), "{end:?}");
    assert!(stream.next().await.is_none());
    // What it had not used yet is worth nothing either.
    let ticket = format!("/ws?ticket={}", ticket.json()["ticket"].as_str().unwrap());
    assert_eq!(stage.asks("GET", &ticket, crate::websocket::HANDSHAKE, "").await.status, 401);
    assert_eq!(
        stage.asks("GET", &target, &format!("host: localhost\r\n{}", phone.header), "").await.status,
        401
    );

    assert_eq!(others.0.calls(2, "server/health", json!({})).await["result"]["status"], "ok");
    others.2.sends(json!({"req": "sessions"})).await;
    assert_eq!(others.2.json().await["kind"], "sessions");
    assert_eq!(revokes(&stage, &tablet).await, 3);
    while others.1.next().await.is_some() {}
}

/// The one line about an approval's answer, without its time.
fn answer(stage: &Stage, event: &str) -> Value {
    let mut lines = stage.audited(event);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// The id of the approval for which a thread waits.
async fn waits(stage: &Stage, thread: &str) -> String {
    let mut stream = Stream::open(stage, &format!("/threads/{thread}/events"), "").await;
    let asked = stream.until("approval/requested").await;
    asked.last().unwrap().data["params"]["approval"]["approvalId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_approval_answered_by_a_device_is_in_the_audit_log_with_its_name_whichever_way_it_answers() {
    for way in ["request", "post", "op"] {
        let stage = Stage::with(Set { options: local(), ..Set::default() }).await;
        let phone = stage.pairs_as("phone", ConnectionRole::Operator).await;
        let thread = stage.thread().await;
        let (approval, event) = match way {
            "request" => {
                let mut socket = Socket::open(&stage, "/", &phone.header).await;
                socket.initializes().await;
                socket.calls(1, "thread/resume", json!({"threadId": thread})).await;
                stage.prompts(&thread, "run echo hello").await;
                let asked = loop {
                    let message = socket.json().await;
                    if message["method"] == "item/commandExecution/requestApproval" {
                        break message["id"].clone();
                    }
                };
                socket.sends(json!({"id": asked, "result": {"decision": "accept"}})).await;
                while socket.json().await["method"] != "turn/completed" {}
                (asked.as_str().unwrap().to_owned(), "approval_answered")
            }
            "post" => {
                stage.prompts(&thread, "run echo hello").await;
                let approval = waits(&stage, &thread).await;
                let params = json!({"approvalId": approval, "decision": "accept"});
                let body = json!({"id": 1, "method": "approval/respond", "params": params}).to_string();
                let headers = format!("{JSON}{}", phone.header);
                let answered = stage.asks("POST", "/rpc", &headers, &body).await;
                assert!(answered.json().get("result").is_some(), "{answered:?}");
                (approval, "approval_answered")
            }
            _ => {
                let mut ops = open_with(&stage, &phone.header).await;
                let session = creates(&mut ops, &stage).await;
                let doc = json!([{"type": "text", "text": "run echo hello"}]);
                ops.sends(json!({"op": "prompt", "session": session, "doc": doc, "request_id": "r2"})).await;
                let asked = until(&mut ops, "permission_request").await;
                ops.sends(json!({
                    "op": "answer_permission", "session": session,
                    "request_id": asked["request_id"], "option_id": "allow",
                }))
                .await;
                assert_eq!(until(&mut ops, "permission_resolved").await["option_id"], "allow");
                (asked["request_id"].as_str().unwrap().to_owned(), "approval_answer_sent")
            }
        };
        let line = answer(&stage, event);
        assert_eq!(
            (&line["approval"], &line["role"]),
            (&json!(approval), &json!("operator")),
            "{way}: {line}"
        );
        assert!(line["who"].as_str().unwrap().starts_with("phone"), "{way}: {line}");
        assert!(line["at"].is_string() && line["thread"].is_string(), "{way}: {line}");
    }
}
