//! Threads that begin with another one's history.

use serde_json::{Value, json};

use crate::stage::{Client, Stage, input};

/// A thread with these prompts behind it; gives it and its turns.
async fn told(client: &mut Client, texts: &[&str]) -> (String, Vec<String>) {
    let thread = client.thread(json!({})).await;
    let mut turns = Vec::new();
    for text in texts {
        turns.push(client.turn(&thread, text).await);
        client.until("turn/completed").await;
    }
    (thread, turns)
}

fn place(cursor: &Value) -> u64 {
    cursor.as_str().unwrap().split_once('-').unwrap().1.parse().unwrap()
}

fn texts(thread: &Value) -> Vec<&str> {
    let turns = thread["turns"].as_array().unwrap().iter();
    turns.map(|turn| turn["items"][1]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_fork_begins_with_the_history_and_is_told_behind_its_answer() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let (thread, _) = told(&mut first, &["say one", "say two"]).await;
    first.settle().await;
    let before = first.log.len();
    let forked = first.ok("thread/fork", json!({"threadId": thread, "requestId": "f-1"})).await;
    let started = first.until_that("thread/started", |told| told["requestId"] == "f-1").await;
    assert_eq!(first.methods()[before..], ["answer", "thread/started"]);
    let fork = &forked["thread"];
    assert_ne!(fork["id"], thread);
    assert_eq!((&fork["forkedFromId"], &fork["status"]), (&json!(thread), &json!({"type": "idle"})));
    assert_eq!(texts(fork), ["one", "two"]);
    assert_eq!(forked["approvalPolicy"], "untrusted");
    assert_eq!(forked["cwd"], fork["cwd"]);
    // What follows the answer is no older than it.
    assert_eq!(started["params"]["seq"], forked["snapshotSeq"]);
    assert!(place(&started["params"]["cursor"]) > place(&forked["cursor"]), "{forked}");
    let told = second.until_that("thread/started", |told| told["thread"]["id"] == fork["id"]).await;
    assert_eq!(told["params"]["thread"]["turns"], json!([]));

    let fork = fork["id"].as_str().unwrap().to_owned();
    first.turn(&fork, "say three").await;
    first.until_that("turn/completed", |told| told["threadId"] == fork).await;
    let read = first.ok("thread/read", json!({"threadId": fork, "includeTurns": true})).await;
    assert_eq!(texts(&read["thread"]), ["one", "two", "three"]);
    let read = first.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(texts(&read["thread"]), ["one", "two"], "the source stays as it was");
    second.settle().await;
    assert_eq!(second.count("turn/started"), 0, "only who forked follows the fork");
}

#[tokio::test]
async fn the_agent_goes_on_with_its_own_copy_or_is_told_what_was_said() {
    let stage = Stage::new().await;
    let mut client = stage.client("forker").await;
    let (thread, turns) = told(&mut client, &["say one", "say two"]).await;
    let warned = |client: &Client, thread: &Value| {
        let of_thread = client.log.iter().filter(|frame| frame["params"]["threadId"] == *thread);
        let warnings = of_thread.filter(|frame| frame["method"] == "warning");
        warnings.map(|frame| frame["params"]["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let newest = client.ok("thread/fork", json!({"threadId": thread})).await;
    assert_eq!(newest["context"], "agent");
    let id = newest["thread"]["id"].clone();
    client.turn(id.as_str().unwrap(), "echo-prompt").await;
    client.until_that("turn/completed", |told| told["threadId"] == id).await;
    assert_eq!(warned(&client, &id), [""; 0]);

    let cases = [
        ("an older turn", json!({"threadId": thread, "lastTurnId": turns[0]})),
        ("other instructions", json!({"threadId": thread, "baseInstructions": "Be brief."})),
    ];
    for (what, params) in cases {
        let forked = client.ok("thread/fork", params).await;
        assert_eq!(forked["context"], "history", "{what}");
        let id = forked["thread"]["id"].clone();
        client.turn(id.as_str().unwrap(), "echo-prompt").await;
        client.until_that("turn/completed", |told| told["threadId"] == id).await;
        let warned = warned(&client, &id);
        assert!(warned.len() == 1 && warned[0].contains("new conversation"), "{what}: {warned:?}");
    }
}

#[tokio::test]
async fn a_fork_ends_at_the_turn_that_was_named_and_has_the_settings_that_were_given() {
    let stage = Stage::new().await;
    let mut client = stage.client("forker").await;
    let (thread, turns) = told(&mut client, &["say one", "say two"]).await;
    let project = stage.folder.path().join("project");
    std::fs::create_dir(project.join("inner")).unwrap();
    let params = json!({
        "threadId": thread, "lastTurnId": turns[0], "cwd": "inner", "model": "m1", "approvalPolicy": "on-request",
        "sandbox": "read-only", "serviceTier": "fast", "threadSource": "cli",
    });
    let forked = client.ok("thread/fork", params).await;
    assert_eq!(texts(&forked["thread"]), ["one"]);
    assert_eq!(forked["cwd"], project.canonicalize().unwrap().join("inner").display().to_string());
    assert_eq!((&forked["model"], &forked["approvalPolicy"]), (&json!("m1"), &json!("on-request")));
    assert_eq!(forked["sandbox"]["type"], "readOnly");
    assert_eq!(forked["thread"]["source"], "cli");
    let warning = client.until_that("warning", |told| told["threadId"] == forked["thread"]["id"]).await;
    assert_eq!(warning["params"]["message"], "Not used by this server: serviceTier.");
    let bare = client.ok("thread/fork", json!({"threadId": thread, "excludeTurns": true})).await;
    assert_eq!(bare["thread"]["turns"], json!([]));
    assert_eq!(bare["approvalPolicy"], "untrusted");
}

#[tokio::test]
async fn a_running_turn_is_no_part_of_a_fork() {
    let stage = Stage::new().await;
    let mut client = stage.client("forker").await;
    let (thread, _) = told(&mut client, &["say one"]).await;
    let open = client.turn(&thread, "say two\nhang polite").await;
    client.until("item/agentMessage/delta").await;
    let error = client.refusal("thread/fork", json!({"threadId": thread, "lastTurnId": open})).await;
    assert_eq!((&error["code"], &error["data"]["activeTurnId"]), (&json!(-32022), &json!(open)));
    let forked = client.ok("thread/fork", json!({"threadId": thread})).await;
    assert_eq!(texts(&forked["thread"]), ["one"]);
    assert_eq!(forked["thread"]["status"], json!({"type": "idle"}));
    assert_eq!(forked["context"], "history", "an agent at work is not asked");
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": open})).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("forker").await;
    let (thread, _) = told(&mut client, &["say one"]).await;
    let unknown = "0198c0de-0000-7000-8000-000000000000";
    for (params, reason) in [
        (json!({"threadId": unknown}), "thread_not_found"),
        (json!({"threadId": thread, "lastTurnId": unknown}), "turn_not_found"),
        (json!({"threadId": thread, "lastTurnId": "no id"}), "turn_not_found"),
        (json!({"threadId": thread, "modelProvider": "nobody"}), "provider_not_found"),
        (json!({"threadId": thread, "permissions": "no:such"}), "invalid_params"),
    ] {
        assert_eq!(client.refused("thread/fork", params.clone()).await.1, reason, "{params}");
    }
    let error = client.refusal("thread/fork", json!({"threadId": thread, "cwd": "not there"})).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("cwd")));
    assert_eq!(client.count("thread/started"), 1);
}

#[tokio::test]
async fn two_forks_at_once_are_two_threads() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let (thread, _) = told(&mut first, &["say one"]).await;
    let one = first.ask("thread/fork", json!({"threadId": thread})).await;
    let other = second.ask("thread/fork", json!({"threadId": thread})).await;
    let (one, other) = (first.answer(one).await, second.answer(other).await);
    let (one, other) = (&one["result"], &other["result"]);
    assert_ne!(one["thread"]["id"], other["thread"]["id"]);
    for (client, forked) in [(&mut first, one), (&mut second, other)] {
        assert_eq!(texts(&forked["thread"]), ["one"]);
        let id = forked["thread"]["id"].as_str().unwrap();
        client.ok("turn/start", input(id, "say mine")).await;
        client.until_that("turn/completed", |told| told["threadId"] == id).await;
    }
}

#[tokio::test]
async fn a_fork_is_there_after_a_restart() {
    let stage = Stage::new().await;
    let mut client = stage.client("before").await;
    let (thread, _) = told(&mut client, &["say one"]).await;
    let forked = client.ok("thread/fork", json!({"threadId": thread})).await;
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("after").await;
    let resumed = client.ok("thread/resume", json!({"threadId": forked["thread"]["id"]})).await;
    assert_eq!(resumed["thread"]["turns"], forked["thread"]["turns"]);
    assert_eq!(resumed["thread"]["forkedFromId"], thread);
    assert_eq!(resumed["snapshotSeq"], forked["snapshotSeq"]);
    // Its source's agent does not run.
    let again = client.ok("thread/fork", json!({"threadId": thread})).await;
    assert_eq!(again["context"], "history");
}
