//! Raw Ops over the API: what they make is told like everything else, and who follows all events attends to all threads.

use serde_json::json;
use signalbox_rpc::Role;

use crate::stage::Stage;

#[tokio::test]
async fn a_fork_is_told_to_everybody_with_its_history_behind_it() {
    let stage = Stage::new().await;
    let mut first = stage.client("first").await;
    let mut raw = stage.client_with("raw", Role::Owner, json!({"opEvents": "all"})).await;
    let thread = first.thread(json!({})).await;
    first.turn(&thread, "say Hello.").await;
    first.until("turn/completed").await;
    let op = json!({"op": "fork", "session": thread, "request_id": "f-1"});
    raw.ok("op/submit", json!({"op": op})).await;
    let is_fork = |event: &serde_json::Value| {
        let event = &event["event"];
        event["event"] == "session_created" && event["request_id"] == "f-1"
    };
    let told = raw.until_that("event", is_fork).await;
    let fork = told["params"]["event"]["session"].clone();
    assert_eq!(told["params"]["event"]["forked_from"], thread);
    let started = first.until_that("thread/started", |told| told["thread"]["id"] == fork).await;
    assert_eq!(started["params"]["requestId"], "f-1");
    let read = first.ok("thread/read", json!({"threadId": fork, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 1);
    assert_eq!(first.count("item/started"), 2, "nothing of the history is news");
}

#[tokio::test]
async fn an_operator_who_follows_all_events_attends_to_all_threads() {
    let stage = Stage::new().await;
    let mut observer = stage.client_with("observer", Role::Observer, json!({"opEvents": "all"})).await;
    let mut raw = stage.client_with("raw", Role::Operator, json!({"opEvents": "all"})).await;
    let cwd = stage.folder.path().join("project");
    let new =
        json!({"op": "new_session", "provider": {"custom": "rehearsal"}, "cwd": cwd, "use_worktree": false});
    raw.ok("op/submit", json!({"op": new})).await;
    let event = |name: &'static str| move |told: &serde_json::Value| told["event"]["event"] == name;
    let created = raw.until_that("event", event("session_created")).await;
    let session = created["params"]["event"]["session"].clone();
    let doc = json!([{"type": "text", "text": "run echo hi\nsay Done."}]);
    let prompt = json!({"op": "prompt", "session": session, "doc": doc});
    raw.ok("op/submit", json!({"op": prompt})).await;
    let asked = raw.until_that("event", event("permission_request")).await;
    let answer = json!({
        "op": "answer_permission",
        "session": session,
        "request_id": asked["params"]["event"]["request_id"],
        "option_id": "allow",
    });
    raw.ok("op/submit", json!({"op": answer})).await;
    observer.until_that("event", event("turn_ended")).await;
    let alone = observer.log.iter().filter(|told| told["params"]["event"]["reason"] == "unattended");
    assert_eq!(alone.count(), 0);
}
