//! Why a thread moves or does not.

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

async fn state(client: &mut Client, thread: &str) -> Value {
    client.ok("thread/explain", json!({"threadId": thread})).await
}

/// Asks until it is so; the test's own time limit ends that.
async fn becomes(client: &mut Client, thread: &str, wanted: &str) -> Value {
    loop {
        let explained = state(client, thread).await;
        if explained["state"]["type"] == wanted {
            return explained;
        }
    }
}

#[tokio::test]
async fn a_turn_is_explained_from_its_beginning_to_its_end() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let idle = state(&mut client, &thread).await;
    assert_eq!(idle["state"], json!({"type": "idle"}));
    assert_eq!(idle["explanation"], "The thread is idle: it waits for a prompt.");
    assert_eq!(idle.get("agent"), None);

    let turn = client.turn(&thread, "say Thinking.\nsleep 2000\nrun sleep 60").await;
    let waits = becomes(&mut client, &thread, "waitingForAgent").await;
    assert_eq!(waits["turnId"], turn);
    assert_eq!(waits["agent"]["ready"], true);
    assert!(waits["agent"]["pid"].as_u64().unwrap() > 1);

    let approval = client.until("item/commandExecution/requestApproval").await;
    let asked = state(&mut client, &thread).await;
    assert_eq!(asked["state"]["type"], "waitingForApproval");
    assert_eq!(asked["state"]["approvals"][0]["approvalId"], approval["id"]);
    assert_eq!(asked["state"]["approvals"][0]["kind"], "execute");
    assert!(asked["explanation"].as_str().unwrap().ends_with("waiting for an answer: sleep 60."), "{asked}");

    client.respond(&approval, json!({"decision": "accept"})).await;
    let runs = becomes(&mut client, &thread, "runningTool").await;
    assert_eq!((&runs["state"]["title"], &runs["state"]["kind"]), (&json!("sleep 60"), &json!("execute")));
    assert_eq!(runs["state"]["itemId"], approval["params"]["itemId"]);

    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
    becomes(&mut client, &thread, "idle").await;
}

#[tokio::test]
async fn threads_that_are_not_in_memory_are_explained_without_loading_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let other = client.thread(json!({})).await;
    client.ok("op/submit", json!({"op": {"op": "archive", "session": other}})).await;
    client.until("thread/archived").await;
    assert_eq!(state(&mut client, &other).await["state"], json!({"type": "archived"}));
    let folder = stage.close().await;

    let stage = Stage::open(folder).await;
    let mut client = stage.client("asker").await;
    assert_eq!(state(&mut client, &thread).await["state"], json!({"type": "notLoaded"}));
    assert_eq!(state(&mut client, &other).await["state"], json!({"type": "archived"}));
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
    let unknown = json!({"threadId": "0198c0de-0000-7000-8000-000000000000"});
    assert_eq!(client.refused("thread/explain", unknown).await.1, "thread_not_found");
}

#[tokio::test]
async fn a_paused_queue_is_named() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, "sleep 60000").await;
    becomes(&mut client, &thread, "waitingForAgent").await;
    let doc = json!([{"type": "text", "text": "say next"}]);
    client.ok("op/submit", json!({"op": {"op": "queue_add", "session": thread, "doc": doc}})).await;
    client.until("thread/queue/changed").await;
    let busy = state(&mut client, &thread).await;
    assert_eq!((&busy["queued"], &busy["queuePaused"]), (&json!(1), &json!(false)));
    assert!(busy["explanation"].as_str().unwrap().ends_with("One prompt waits in its queue."), "{busy}");
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
    let paused = becomes(&mut client, &thread, "queuePaused").await;
    assert_eq!(paused["queuePaused"], true);
    assert_eq!(paused["state"]["reason"], "interrupted");
    assert!(paused["explanation"].as_str().unwrap().contains("the last turn was interrupted"), "{paused}");
}

async fn queues(client: &mut Client, thread: &str) {
    let doc = json!([{"type": "text", "text": "say next"}]);
    client.ok("op/submit", json!({"op": {"op": "queue_add", "session": thread, "doc": doc}})).await;
}

#[tokio::test]
async fn a_queue_behind_a_failed_turn_says_that() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "run true\nfail Out of coal.").await;
    let approval = client.until("item/commandExecution/requestApproval").await;
    queues(&mut client, &thread).await;
    client.respond(&approval, json!({"decision": "accept"})).await;
    client.until("turn/completed").await;
    let paused = becomes(&mut client, &thread, "queuePaused").await;
    assert_eq!(paused["state"], json!({"type": "queuePaused", "reason": "failed"}));
}

#[tokio::test]
async fn a_queue_behind_a_restart_says_that() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "run true").await;
    client.until("item/commandExecution/requestApproval").await;
    queues(&mut client, &thread).await;
    let folder = stage.close().await;
    let stage = Stage::open(folder).await;
    let mut client = stage.client("asker").await;
    let paused = state(&mut client, &thread).await;
    assert_eq!(paused["state"], json!({"type": "queuePaused", "reason": "restarted"}));
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn an_agent_that_does_not_stop_is_waited_for_by_name() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, "say There.\nhang").await;
    client.until("item/agentMessage/delta").await;
    let input = json!([{"type": "text", "text": "say more"}]);
    let steer = json!({"threadId": thread, "expectedTurnId": turn, "input": input});
    client.ok("turn/steer", steer).await;
    becomes(&mut client, &thread, "steering").await;
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    becomes(&mut client, &thread, "interrupting").await;
}
