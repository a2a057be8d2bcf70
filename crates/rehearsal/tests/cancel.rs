//! A cancel in every state a turn can be in.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts real processes"
)]

mod support;

use std::fs;

use expect_test::{Expect, expect};
use serde_json::Value;
use support::{Client, Life, allow, never};

fn asks(frame: &Value) -> bool {
    frame["method"] == "session/request_permission"
}

fn shows_output(frame: &Value) -> bool {
    frame["params"]["update"]["_meta"]["terminal_output_delta"].is_object()
}

fn speaks(frame: &Value) -> bool {
    frame["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
}

/// Plays until a frame is as wished, cancels, and compares the whole story.
async fn check(prompt: &str, state: fn(&Value) -> bool, story: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt(prompt).await;
    loop {
        let frame = client.until(|frame| asks(frame) || state(frame)).await;
        if state(&frame) {
            break;
        }
        client.reply(&frame, allow(&frame)).await;
    }
    client.cancel().await;
    let played = client.finish(&id, never).await;
    assert_eq!(played.stop_reason(), "cancelled");
    story.assert_eq(&played.story);
    let next = client.play("say and on", never).await;
    assert_eq!(next.said(), "and on", "a cancelled session takes the next prompt");
}

#[tokio::test]
async fn while_a_permission_is_open() {
    check(
        "run touch made\nsay never",
        asks,
        expect![[r#"
        ← tool_call call-1-1 execute pending "touch made"
        ← permission? call-1-1 allow|always|reject "execute" "touch made"
        → cancel
        ← tool_call_update call-1-1 failed rawOutput={"cancelled":true} ["Cancelled."]
        ← answer cancelled
    "#]],
    )
    .await;
}

#[tokio::test]
async fn while_two_permissions_are_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("parallel touch a || touch b").await;
    let first = client.until(asks).await;
    let second = client.until(asks).await;
    client.cancel().await;
    let played = client.finish(&id, never).await;
    let closed = played.updates.iter().filter(|update| update["status"] == "failed").count();
    assert_eq!((played.stop_reason(), closed), ("cancelled", 2));
    // ACP wants the client to answer both all the same; it changes nothing.
    client.reply(&first, support::dismiss(&first)).await;
    client.reply(&second, allow(&second)).await;
    client.play("say and on", never).await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn while_a_command_runs() {
    check("run echo begun; sleep 1000\nsay never", shows_output, expect![[r#"
        ← tool_call call-1-1 execute pending "echo begun; sleep 1000"
        ← permission? call-1-1 allow|always|reject "execute" "echo begun; sleep 1000"
        ← tool_call_update call-1-1 in_progress terminal terminal_info
        ← tool_call_update call-1-1 +"begun\n"
        → cancel
        ← tool_call_update call-1-1 failed rawOutput={"cancelled":true} ["begun\n\n[cancelled]"] exit=null signal="SIGKILL"
        ← answer cancelled
    "#]]).await;
}

#[tokio::test]
async fn a_cancel_kills_the_whole_group_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let mut life = Life::in_folder(folder.path());
    // A grandchild that ignores SIGTERM, and a shell that waits for it.
    let id = client.prompt("run exec 3>life; sh -c 'trap \"\" TERM; echo up; sleep 1000' & wait").await;
    let request = client.until(asks).await;
    client.reply(&request, allow(&request)).await;
    client.until(shows_output).await;
    assert!(life.goes_on());
    client.cancel().await;
    assert_eq!(client.finish(&id, never).await.stop_reason(), "cancelled");
    life.ends().await;
}

#[tokio::test]
async fn while_a_form_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::connect(Default::default());
    client.initialize(serde_json::json!({"elicitation": {"form": {}}})).await;
    client.open(folder.path()).await;
    let id = client.prompt("ask Which? | a | b").await;
    client.until(|frame| frame["method"] == "elicitation/create").await;
    client.cancel().await;
    assert_eq!(client.finish(&id, never).await.stop_reason(), "cancelled");
}

#[tokio::test]
async fn while_it_sleeps() {
    check(
        "say good night\nsleep 3600000",
        speaks,
        expect![[r#"
        ← agent_message_chunk msg-1-1 "good night"
        → cancel
        ← answer cancelled
    "#]],
    )
    .await;
}

#[tokio::test]
async fn while_it_hangs_politely() {
    check(
        "say hm\nhang polite",
        speaks,
        expect![[r#"
        ← agent_message_chunk msg-1-1 "hm"
        → cancel
        ← answer cancelled
    "#]],
    )
    .await;
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("stream 100000000 8 0").await;
    client.until(speaks).await;
    client.cancel().await;
    let played = client.finish(&id, never).await;
    assert_eq!(played.stop_reason(), "cancelled");
    assert!(!played.chunks("agent_message_chunk").is_empty());
}

#[tokio::test]
async fn a_hang_hears_no_cancel_until_the_client_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("say hm\nhang").await;
    client.until(speaks).await;
    client.cancel().await;
    // An answered request after the cancel shows that the cancel was read, and the prompt is not answered.
    let listed = client.call("session/list", serde_json::json!({})).await;
    assert!(listed["result"]["sessions"].is_array());
    client.to_agent = None;
    assert_eq!(client.finish(&id, never).await.stop_reason(), "cancelled");
}

#[tokio::test]
async fn a_cancel_request_of_the_prompt_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("say hm\nhang polite").await;
    client.until(speaks).await;
    client.notify("$/cancel_request", serde_json::json!({"requestId": id})).await;
    assert_eq!(client.finish(&id, never).await.stop_reason(), "cancelled");
}

#[tokio::test]
async fn while_it_looks_around() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..3000 {
        fs::write(folder.path().join(format!("{n}.txt")), "x").unwrap();
    }
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("Please look around.").await;
    client.until(|frame| frame["params"]["update"]["kind"] == "search").await;
    client.cancel().await;
    // Should the look be over before the cancel is read, then the note's permission is what is cancelled.
    let played = client.finish(&id, support::dismiss).await;
    assert_eq!(played.stop_reason(), "cancelled");
}
