//! The durable queue of follow-ups.

use serde_json::{Value, json};

use crate::stage::{Client, Stage, input};

/// A thread whose turn goes on until it is interrupted or steered.
async fn busy(client: &mut Client) -> (String, String) {
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, "say working\nhang polite").await;
    client.until("item/agentMessage/delta").await;
    (thread, turn)
}

fn follow_up(thread: &str, id: &str, text: &str) -> Value {
    json!({"threadId": thread, "clientUserMessageId": id, "input": input("", text)["input"]})
}

async fn queued(client: &mut Client, thread: &str, id: &str, text: &str) -> String {
    let added = client.ok("thread/queue/add", follow_up(thread, id, text)).await;
    added["queuedSubmission"]["id"].as_str().unwrap().to_owned()
}

async fn listed(client: &mut Client, thread: &str) -> Vec<Value> {
    let list = client.ok("thread/queue/list", json!({"threadId": thread})).await;
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_follow_up_runs_when_the_turn_ends_with_the_id_it_was_given() {
    let stage = Stage::new().await;
    let mut client = stage.client("queuer").await;
    let (thread, turn) = busy(&mut client).await;
    let mut params = follow_up(&thread, "m-1", "say queued");
    params["responsesapiClientMetadata"] = json!({"k": "v"});
    let before = client.log.len();
    let added = client.ok("thread/queue/add", params.clone()).await;
    client.until("thread/queue/changed").await;
    assert_eq!(client.methods()[before..], ["answer", "thread/queue/changed"]);
    let submission = &added["queuedSubmission"];
    assert_eq!(submission["clientUserMessageId"], "m-1");
    assert_eq!(submission["responsesapiClientMetadata"], json!({"k": "v"}));
    // Exactly once: again it is the same, and another input under its id is none.
    assert_eq!(client.ok("thread/queue/add", params.clone()).await, added);
    let error = client.refusal("thread/queue/add", follow_up(&thread, "m-1", "say other")).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("clientUserMessageId")));
    let list = listed(&mut client, &thread).await;
    assert_eq!(list.len(), 1);
    assert_eq!((&list[0]["id"], &list[0]["clientUserMessageId"]), (&submission["id"], &json!("m-1")));
    assert_eq!(list[0]["input"][0]["text"], "say queued");

    let steer =
        json!({"threadId": thread, "expectedTurnId": turn, "input": input("", "say enough")["input"]});
    client.ok("turn/steer", steer).await;
    let done = client.until_that("turn/completed", |told| told["turn"]["id"] == submission["id"]).await;
    assert_eq!(done["params"]["turn"]["status"], "completed");
    assert_eq!(listed(&mut client, &thread).await, [] as [Value; 0]);
    // Also when it has run.
    assert_eq!(client.ok("thread/queue/add", params).await, added);
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[1]["id"]), (2, &submission["id"]));
    assert_eq!(turns[1]["items"][0]["clientId"], "m-1");
}

#[tokio::test]
async fn follow_ups_are_replaced_moved_and_taken_out() {
    let stage = Stage::new().await;
    let [mut client, mut other] = stage.clients().await;
    let (thread, _) = busy(&mut client).await;
    let one = queued(&mut client, &thread, "m-1", "say one").await;
    let two = queued(&mut client, &thread, "m-2", "say two").await;
    // Whoever may write to the thread may change its queue.
    let three = queued(&mut other, &thread, "m-3", "say three").await;
    let edit = json!({"threadId": thread, "queuedSubmissionId": one, "input": input("", "say ONE")["input"]});
    let edited = client.ok("thread/queue/update", edit).await;
    assert_eq!(edited["queuedSubmission"]["clientUserMessageId"], "m-1");
    assert_eq!(edited["queuedSubmission"]["input"][0]["text"], "say ONE");
    let order = json!({"threadId": thread, "queuedSubmissionIds": [three, one, two]});
    assert_eq!(client.ok("thread/queue/reorder", order).await, json!({}));
    let delete = json!({"threadId": thread, "queuedSubmissionId": two});
    assert_eq!(client.ok("thread/queue/delete", delete.clone()).await, json!({"deleted": true}));
    assert_eq!(client.ok("thread/queue/delete", delete).await, json!({"deleted": false}));
    let list = listed(&mut client, &thread).await;
    assert_eq!(list.len(), 2);
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&json!(three), &json!(one)));
    assert_eq!(list[1]["input"][0]["text"], "say ONE");
    client.settle().await;
    assert_eq!(client.count("thread/queue/changed"), 6);
}

#[tokio::test]
async fn an_order_that_is_not_that_of_all_who_wait_is_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("mover").await;
    let (thread, _) = busy(&mut client).await;
    let one = queued(&mut client, &thread, "m-1", "say one").await;
    let two = queued(&mut client, &thread, "m-2", "say two").await;
    let unknown = "0198c0de-0000-7000-8000-000000000000".to_owned();
    for order in [vec![&one], vec![&one, &one], vec![&one, &two, &unknown], vec![&one, &two, &two], vec![]] {
        let params = json!({"threadId": thread, "queuedSubmissionIds": order});
        let error = client.refusal("thread/queue/reorder", params.clone()).await;
        assert_eq!(error["code"], -32602, "{params}");
        assert_eq!(error["data"]["path"], "queuedSubmissionIds", "{error}");
    }
    let edit =
        json!({"threadId": thread, "queuedSubmissionId": unknown, "input": input("", "say x")["input"]});
    let error = client.refusal("thread/queue/update", edit).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("queuedSubmissionId")));
    let empty = json!({"threadId": thread, "queuedSubmissionId": one, "input": []});
    let error = client.refusal("thread/queue/update", empty).await;
    assert_eq!(error["data"]["path"], "input");
    let error = client.refusal("thread/queue/add", follow_up(&thread, "", "say x")).await;
    assert_eq!(error["data"]["path"], "clientUserMessageId");
    let ids: Vec<Value> = listed(&mut client, &thread).await.iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [json!(one), json!(two)]);
}

#[tokio::test]
async fn a_queue_is_listed_in_pages_and_without_loading() {
    let stage = Stage::new().await;
    let mut client = stage.client("lister").await;
    let (thread, _) = busy(&mut client).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(json!(queued(&mut client, &thread, &format!("m-{number}"), "say x").await));
    }
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("reader").await;
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({"threadId": thread, "limit": 2, "cursor": cursor});
        let page = client.ok("thread/queue/list", params).await;
        assert_eq!(page["paused"], true, "the turn before it did not complete");
        seen.extend(page["data"].as_array().unwrap().iter().map(|one| one["id"].clone()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ids);
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
    for cursor in ["nonsense", "q.0198c0de-0000-7000-8000-000000000000"] {
        let refused =
            client.refused("thread/queue/list", json!({"threadId": thread, "cursor": cursor})).await;
        assert_eq!(refused, (-32602, "stale_cursor".to_owned()));
    }
}

#[tokio::test]
async fn an_interrupt_holds_the_queue_up_until_the_next_prompt() {
    let stage = Stage::new().await;
    let mut client = stage.client("stopper").await;
    let (thread, turn) = busy(&mut client).await;
    let next = queued(&mut client, &thread, "m-1", "say queued").await;
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
    let list = client.ok("thread/queue/list", json!({"threadId": thread})).await;
    assert_eq!((&list["paused"], &list["data"][0]["id"]), (&json!(true), &json!(next)));
    client.turn(&thread, "say mine").await;
    client.until_that("turn/completed", |told| told["turn"]["id"] == next).await;
}

#[tokio::test]
async fn a_full_queue_takes_no_more_for_now() {
    let stage = Stage::new().await;
    let mut client = stage.client("waits").await;
    let (thread, turn) = busy(&mut client).await;
    let error = client.refusal("thread/queue/add", follow_up(&thread, "huge", &"x".repeat(1 << 20))).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("input")));
    let first = queued(&mut client, &thread, "large", &format!("say {}", "x".repeat(600_000))).await;
    let second = follow_up(&thread, "second", &format!("say {}", "y".repeat(600_000)));
    let full = |error: &Value| {
        let data = &error["data"];
        assert_eq!(
            (&error["code"], &data["reason"]),
            (&json!(-32001), &json!("server_overloaded")),
            "{error}"
        );
        assert_eq!(data["retryable"], true, "{error}");
        assert!(error["message"].as_str().unwrap().contains("the queue is full"), "{error}");
    };
    full(&client.refusal("thread/queue/add", second.clone()).await);
    client.ok("thread/queue/delete", json!({"threadId": thread, "queuedSubmissionId": first})).await;
    for number in 0..64 {
        queued(&mut client, &thread, &format!("m{number}"), "say x").await;
    }
    full(&client.refusal("thread/queue/add", follow_up(&thread, "more", "say x")).await);
    let mut waits = input(&thread, "say x");
    waits["mode"] = json!("queue");
    full(&client.refusal("turn/start", waits).await);
    assert_eq!(listed(&mut client, &thread).await.len(), 64);
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
}
