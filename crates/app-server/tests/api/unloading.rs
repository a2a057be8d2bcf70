//! Threads that leave memory and come back, and ephemeral ones, which do not.

use std::time::Duration;

use serde_json::json;

use crate::stage::{Stage, input};

/// A rest that a test can wait for.
const SHORT: Duration = Duration::from_millis(60);

#[tokio::test]
async fn a_thread_that_nobody_follows_is_closed_and_the_next_turn_brings_it_back() {
    let stage = Stage::resting(SHORT).await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    first.turn(&thread, "say before").await;
    first.until("turn/completed").await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    // As long as anybody follows it, it stays: another thread comes and goes meanwhile.
    let other = first.thread(json!({})).await;
    first.ok("thread/unsubscribe", json!({"threadId": other})).await;
    first.until_that("thread/closed", |told| told["threadId"] == other.as_str()).await;
    assert_eq!(first.ok("thread/loaded/list", json!({})).await["data"], json!([thread]));
    drop(second);
    first.until_that("thread/closed", |told| told["threadId"] == thread.as_str()).await;
    let status = first.log.iter().rev().find(|frame| frame["method"] == "thread/status/changed").unwrap();
    assert_eq!(status["params"]["status"]["type"], "notLoaded");
    assert_eq!(first.ok("thread/loaded/list", json!({})).await["data"], json!([]));
    let read = first.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(
        (&read["thread"]["status"]["type"], read["thread"]["turns"].as_array().unwrap().len()),
        (&json!("notLoaded"), 1)
    );

    let started = first.ok("turn/start", input(&thread, "say after")).await;
    assert_eq!(started["turn"]["status"], "inProgress");
    let status = |kind: &'static str| move |told: &serde_json::Value| told["status"]["type"] == kind;
    first.until_that("thread/status/changed", status("active")).await;
    first.until_that("thread/status/changed", status("idle")).await;
    let resumed = first.ok("thread/resume", json!({"threadId": thread})).await;
    let turns = resumed["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2);
    let seqs: Vec<u64> = first.log.iter().filter_map(|frame| frame["params"]["seq"].as_u64()).collect();
    assert!(seqs.last() >= seqs.first(), "{seqs:?}");
}

#[tokio::test]
async fn who_resumes_while_a_thread_leaves_is_served() {
    let stage = Stage::resting(Duration::ZERO).await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    for round in 0..25 {
        first.ok("thread/unsubscribe", json!({"threadId": thread})).await;
        // Both at once, at whatever moment of its leaving.
        let asked = second.ask("thread/resume", json!({"threadId": thread})).await;
        first.ok("thread/resume", json!({"threadId": thread})).await;
        assert!(second.answer(asked).await["result"]["thread"]["id"].is_string());
        first.ok("thread/name/set", json!({"threadId": thread, "name": format!("round {round}")})).await;
        let name = move |told: &serde_json::Value| told["threadName"] == format!("round {round}");
        first.until_that("thread/name/updated", name).await;
        second.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    }
    first.turn(&thread, "say done").await;
    first.until("turn/completed").await;
}

#[tokio::test]
async fn an_ephemeral_thread_is_joined_by_its_id_and_is_gone_when_it_is_closed() {
    let stage = Stage::resting(SHORT).await;
    let [mut first, mut second] = stage.clients().await;
    let started = first.ok("thread/start", json!({"ephemeral": true})).await;
    assert_eq!((&started["thread"]["ephemeral"], &started["thread"]["path"]), (&json!(true), &json!(null)));
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    first.turn(&thread, "run echo hello\nsay done").await;
    let asked = first.until("item/commandExecution/requestApproval").await;
    let resumed = second.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["turns"].as_array().unwrap().len(), 1);
    second.until("item/commandExecution/requestApproval").await;
    second.respond(&asked, json!({"decision": "accept"})).await;
    first.until("turn/completed").await;
    first.turn(&thread, "say two").await;
    first.until("turn/completed").await;
    let read = first.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 2);
    assert!(
        !first.ok("thread/transcript/read", json!({"threadId": thread})).await["entries"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(first.ok("thread/list", json!({})).await["data"], json!([]));
    assert_eq!(first.ok("thread/loaded/list", json!({})).await["data"], json!([thread]));
    let refused =
        first.refused("thread/start", json!({"ephemeral": true, "worktree": {"base": "current"}})).await;
    assert_eq!(refused, (-32602, "invalid_params".to_owned()));

    first.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    drop(second);
    first.until_that("thread/closed", |told| told["threadId"] == thread.as_str()).await;
    for method in ["thread/resume", "thread/read"] {
        let gone = first.refused(method, json!({"threadId": thread})).await;
        assert_eq!(gone, (-32600, "thread_not_found".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn everything_that_reads_a_thread_reads_an_ephemeral_one() {
    let stage = Stage::new().await;
    let [mut client, mut other] = stage.clients().await;
    let started = client.ok("thread/start", json!({"ephemeral": true})).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let turn = client.turn(&thread, "say one").await;
    client.until("turn/completed").await;
    client.turn(&thread, "say two\nrun echo hello\nsay three").await;
    let asked = client.until("item/commandExecution/requestApproval").await;
    let of_thread = json!({"threadId": thread});

    let listed = other.ok("approval/list", of_thread.clone()).await;
    assert_eq!(listed["data"][0]["approvalId"], asked["id"]);
    let explained = other.ok("thread/explain", of_thread.clone()).await;
    assert_eq!(explained["state"]["type"], "waitingForApproval");
    other.ok("approval/respond", json!({"approvalId": asked["id"], "decision": "accept"})).await;
    client.until("turn/completed").await;

    let read = other.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    let read = read["thread"]["turns"].as_array().unwrap().clone();
    assert_eq!((read.len(), &read[0]["id"]), (2, &json!(turn)));
    let pages = json!({"threadId": thread, "itemsView": "full", "sortDirection": "asc"});
    assert_eq!(other.ok("thread/turns/list", pages).await["data"], json!(read));
    let items = other.ok("thread/items/list", json!({"threadId": thread, "sortDirection": "asc"})).await;
    let of_turns: Vec<_> = read.iter().flat_map(|turn| turn["items"].as_array().unwrap()).collect();
    let items: Vec<_> = items["data"].as_array().unwrap().iter().map(|entry| &entry["item"]).collect();
    assert_eq!(items, of_turns);
    let range =
        json!({"threadId": thread, "itemId": asked["params"]["itemId"], "field": "/aggregatedOutput"});
    assert_eq!(other.ok("item/output/read", range).await["text"], "hello\n");
    let entries = other.ok("thread/transcript/read", of_thread.clone()).await["entries"].to_string();
    assert!(["one", "two", "three"].iter().all(|said| entries.contains(said)), "{entries}");
    let preview = other.ok("prompt/preview", input(&thread, "Go on.")).await;
    assert!(preview["blocks"].to_string().contains("Go on."), "{preview}");
    let idle = other.ok("thread/explain", of_thread.clone()).await;
    assert_eq!(idle["state"]["type"], "idle");
    assert_eq!(other.ok("thread/list", json!({})).await["data"], json!([]));
    let stored = other.thread(json!({})).await;
    let chat = json!({"threadId": stored, "input": [{"type": "chat", "threadId": thread}]});
    let chat = other.ok("prompt/preview", chat).await;
    assert_eq!(chat["unresolved"], json!([]));
    assert!(chat["blocks"].to_string().contains("three"), "{chat}");

    other.ok("thread/delete", of_thread.clone()).await;
    for method in ["thread/turns/list", "thread/items/list", "thread/transcript/read", "thread/explain"] {
        assert_eq!(other.refused(method, of_thread.clone()).await.1, "thread_not_found", "{method}");
    }
    assert_eq!(other.ok("approval/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn a_start_while_a_turn_is_open_is_told_which_one() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, "sleep 60000").await;
    let mut start = input(&thread, "say no");
    start["mode"] = json!("start");
    let error = client.refusal("turn/start", start).await;
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32022), &json!("turn_active")));
    assert_eq!((&error["data"]["activeTurnId"], &error["data"]["retryable"]), (&json!(turn), &json!(false)));
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
    // Whether the agent had the first prompt or only learns of it as history: it does not begin with it again.
    let next = client.turn(&thread, "say yes").await;
    let ended = client.until("turn/completed").await["params"]["turn"].clone();
    assert_eq!((&ended["id"], &ended["status"]), (&json!(next), &json!("completed")));
}

#[tokio::test]
async fn a_message_that_was_taken_before_is_said_to_be_so_to_who_submits_ops() {
    let stage = Stage::new().await;
    let mut client = stage.client("ops").await;
    let thread = client.thread(json!({})).await;
    let op = json!({"op": "turn_input", "session": thread, "client_message_id": "m1",
        "doc": [{"type": "text", "text": "say one"}]});
    let first = client.ok("op/submit", json!({"op": op})).await;
    assert_eq!(first.get("repeatedTurnId"), None);
    let turn = client.until("turn/completed").await["params"]["turn"]["id"].clone();
    let again = client.ok("op/submit", json!({"op": op})).await;
    assert_eq!(again["repeatedTurnId"], turn);
}

#[tokio::test]
async fn never_ask_holds_after_the_thread_has_left_memory() {
    let stage = Stage::resting(SHORT).await;
    let mut client = stage.client("never").await;
    let thread = client.thread(json!({"approvalPolicy": "never"})).await;
    client.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    client.until("thread/closed").await;
    let resumed = client.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["approvalPolicy"], "never");
    assert_eq!(
        resumed["thread"]["policy"],
        json!({"mode": "accept_edits", "sandbox": "workspace_write", "never_ask": true})
    );
    client.turn(&thread, "run echo no\nask Which? | red | blue\nsay done").await;
    client.until("turn/completed").await;
    let asked = client.log.iter().filter(|frame| frame["id"].is_string()).count();
    assert_eq!(asked, 0, "{:?}", client.methods());
}
