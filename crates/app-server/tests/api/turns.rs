//! Turns of a real agent, as their clients see them.

use serde_json::{Value, json};

use crate::stage::{Client, Stage, input};

/// The text of a message out of its deltas.
fn streamed(client: &Client, item: &Value) -> String {
    let of_item = |frame: &&Value| {
        frame["method"] == "item/agentMessage/delta" && frame["params"]["itemId"] == item["id"]
    };
    client.log.iter().filter(of_item).map(|frame| frame["params"]["delta"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_turn_is_told_in_order_behind_its_answer() {
    let stage = Stage::new().await;
    let mut client = stage.client("prompter").await;
    let thread = client.thread(json!({})).await;
    let mut params = input(&thread, "say Hello there, how are you?");
    params["clientUserMessageId"] = json!("m1");
    let started = client.ok("turn/start", params).await;
    let turn = started["turn"]["id"].clone();
    assert_eq!(started["turn"]["status"], "inProgress");
    assert_eq!(started["turn"]["items"], json!([]));
    let completed = client.until_that("turn/completed", |told| told["turn"]["id"] == turn).await;
    assert_eq!(completed["params"]["turn"]["status"], "completed");

    let answered = client.place(|frame| frame["result"]["turn"]["id"] == turn);
    let order = [
        "thread/status/changed",
        "turn/started",
        "item/started",
        "item/completed",
        "item/agentMessage/delta",
        "turn/completed",
    ];
    let mut last = answered;
    for method in order {
        let place = client.place(|frame| frame["method"] == method && frame["params"]["threadId"] == thread);
        assert!(place > last, "{method} in {:?}", client.methods());
        last = place;
    }
    let message = client.log.iter().find(|frame| {
        frame["method"] == "item/completed" && frame["params"]["item"]["type"] == "agentMessage"
    });
    let message = message.unwrap()["params"]["item"].clone();
    assert_eq!(message["text"], "Hello there, how are you?");
    assert_eq!(streamed(&client, &message), "Hello there, how are you?");

    // Every notification about the thread carries its place; places only rise.
    let mut place = 0;
    for frame in client.log.iter().filter(|frame| frame.get("method").is_some()) {
        let cursor = frame["params"]["cursor"].as_str().unwrap();
        let at: u64 = cursor.split_once('-').unwrap().1.parse().unwrap();
        assert!(at > place, "{frame}");
        place = at;
        assert!(frame["params"]["seq"].is_u64() && frame["emittedAtMs"].is_u64(), "{frame}");
    }

    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    let items = &read["thread"]["turns"][0]["items"];
    assert_eq!(items[0]["clientId"], "m1");
    assert_eq!(items[1], message);
    assert_eq!(read["thread"]["preview"], "say Hello there, how are you?");
}

#[tokio::test]
async fn the_same_message_is_one_turn() {
    let stage = Stage::new().await;
    let mut client = stage.client("twice").await;
    let thread = client.thread(json!({})).await;
    let mut params = input(&thread, "say once");
    params["clientUserMessageId"] = json!("m1");
    let first = client.ok("turn/start", params.clone()).await;
    client.until("turn/completed").await;
    let again = client.ok("turn/start", params.clone()).await;
    assert_eq!(again["turn"]["id"], first["turn"]["id"]);
    assert_eq!(again["turn"]["status"], "completed");
    params["input"][0]["text"] = json!("say something else");
    let error = client.refusal("turn/start", params).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("clientUserMessageId")));
    assert_eq!(client.count("turn/started"), 1);
}

#[tokio::test]
async fn models_are_known_once_an_agent_has_told_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("prompter").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "say hi").await;
    let told = client.until("thread/models/updated").await;
    client.until("turn/completed").await;
    let models = client.ok("model/list", json!({})).await;
    assert_eq!(models["data"].as_array().unwrap().len(), told["params"]["data"].as_array().unwrap().len());
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["isDefault"] == true));
    let page = client.ok("model/list", json!({"limit": 1})).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_running_turn_is_steered_unless_a_start_is_asked_for() {
    let stage = Stage::new().await;
    let mut client = stage.client("driver").await;
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, "say working\nhang polite").await;
    client.until("item/agentMessage/delta").await;
    let mut only_start = input(&thread, "say no");
    only_start["mode"] = json!("start");
    let error = client.refusal("turn/start", only_start).await;
    assert_eq!((&error["code"], &error["data"]["activeTurnId"]), (&json!(-32022), &json!(turn)));
    let wrong = json!({"threadId": thread, "expectedTurnId": "other", "input": input("", "x")["input"]});
    let error = client.refusal("turn/steer", wrong).await;
    assert_eq!(error["message"], format!("expected active turn id `other` but found `{turn}`"));
    let steer =
        json!({"threadId": thread, "expectedTurnId": turn, "input": input("", "say steered")["input"]});
    assert_eq!(client.ok("turn/steer", steer).await["turnId"], turn);
    let completed = client.until("turn/completed").await;
    assert_eq!(completed["params"]["turn"]["id"], turn);
    assert_eq!(completed["params"]["turn"]["status"], "completed");
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_with_every_item_closed() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    let turn = first.turn(&thread, "say partial\nhang polite").await;
    first.until("item/agentMessage/delta").await;
    let error = second.refusal("turn/interrupt", json!({"threadId": thread, "turnId": "other"})).await;
    assert_eq!(error["message"], format!("expected active turn id other but found {turn}"));
    // Anybody may interrupt, also who does not follow the thread.
    assert_eq!(second.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await, json!({}));
    let completed = first.until("turn/completed").await;
    assert_eq!(completed["params"]["turn"]["status"], "interrupted");
    assert_eq!(first.count("item/started"), first.count("item/completed"));
    assert_eq!(second.count("turn/completed"), 0);
}

#[tokio::test]
async fn older_turns_come_with_a_resume_and_after_a_restart() {
    let stage = Stage::new().await;
    let mut client = stage.client("before").await;
    let thread = client.thread(json!({})).await;
    for text in ["say one", "say two", "say three"] {
        client.turn(&thread, text).await;
        client.until("turn/completed").await;
    }
    let live = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    let turns = live["thread"]["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 3);
    assert_eq!(turns[2]["items"][1]["text"], "three");
    let mut late = stage.client("late").await;
    let resumed = late.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["turns"], turns);
    let bare = late.ok("thread/resume", json!({"threadId": thread, "excludeTurns": true})).await;
    assert_eq!(bare["thread"]["turns"], json!([]));
    drop((client, late));

    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("after").await;
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"], turns);
    let resumed = client.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["turns"], turns);
    client.turn(&thread, "say four").await;
    client.until("turn/completed").await;
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn raw_ops_and_raw_events() {
    let stage = Stage::new().await;
    let mut client = stage.client_with("raw", signalbox_rpc::Role::Owner, json!({"opEvents": true})).await;
    let thread = client.thread(json!({})).await;
    let op = json!({"op": "prompt", "session": thread, "doc": [{"type": "text", "text": "say raw"}], "request_id": "r1"});
    let submitted = client.ok("op/submit", json!({"op": op})).await;
    assert!(submitted["submissionId"].is_string());
    let event = client.until_that("event", |told| told["event"]["event"] == "turn_started").await;
    assert_eq!(event["params"]["event"]["request_id"], "r1", "{event}");
    client.until("turn/completed").await;
    client.until_that("event", |told| told["event"]["event"] == "turn_ended").await;
    let mut other = stage.client("plain").await;
    let refused = other.refused("op/submit", json!({"op": {"op": "cancel", "session": "nobody"}})).await;
    assert_eq!(refused.0, -32600);
    assert_eq!(other.count("event"), 0);
}

#[tokio::test]
async fn everybody_is_told_of_a_fork() {
    let stage = Stage::new().await;
    let mut asker = stage.client("asker").await;
    let mut other = stage.client_with("other", signalbox_rpc::Role::Owner, json!({"opEvents": "all"})).await;
    let thread = asker.thread(json!({})).await;
    asker.turn(&thread, "say one").await;
    asker.until("turn/completed").await;
    let op = json!({"op": "fork", "session": thread, "request_id": "f1"});
    asker.ok("op/submit", json!({"op": op})).await;
    let started = other.until_that("thread/started", |told| told["requestId"] == "f1").await;
    let event = other.until_that("event", |told| told["event"]["request_id"] == "f1").await;
    let fork = &event["params"]["event"];
    assert_eq!((&fork["event"], &fork["forked_from"]), (&json!("session_created"), &json!(thread)));
    assert_eq!(fork["session"], started["params"]["thread"]["id"]);
    // Its history is what it was, and what follows is told once.
    let resumed = asker.ok("thread/resume", json!({"threadId": fork["session"]})).await;
    assert_eq!(resumed["thread"]["turns"].as_array().unwrap().len(), 1, "{resumed}");
    asker.turn(fork["session"].as_str().unwrap(), "say two").await;
    asker.until_that("turn/completed", |told| told["threadId"] == fork["session"]).await;
    other.settle().await;
    let created = |frame: &serde_json::Value| frame["params"]["event"]["event"] == "session_created";
    assert_eq!(other.log.iter().filter(|frame| created(frame)).count(), 2);
}

#[tokio::test]
async fn a_server_that_leaves_ends_turns_and_takes_back_what_it_asked() {
    let stage = Stage::new().await;
    let mut client = stage.client("last").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "run echo never").await;
    client.until("item/commandExecution/requestApproval").await;
    crate::stage::within(stage.app.shutdown()).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "cancel");
    let completed = client.until("turn/completed").await;
    assert_eq!(completed["params"]["turn"]["status"], "interrupted");
    assert_eq!(client.count("item/started"), client.count("item/completed"));
    let refused = client.refused("turn/start", input(&thread, "say more")).await;
    assert_eq!(refused, (-32026, "shutting_down".to_owned()));
}

/// The turn still ends when the prompt comes: it is neither refused nor added to the turn that ends.
#[tokio::test]
async fn a_prompt_right_behind_an_interrupt_is_a_turn_of_its_own() {
    let stage = Stage::new().await;
    let mut client = stage.client("prompter").await;
    let thread = client.thread(json!({})).await;
    for script in ["stream 100000 20 1", "run sleep 600"] {
        let mut first = input(&thread, script);
        first["policy"] = json!({"mode": "yolo"});
        let started = client.ok("turn/start", first).await["turn"]["id"].clone();
        client.until_that("item/started", |told| told["item"]["type"] != "userMessage").await;
        let stop = client.ask("turn/interrupt", json!({"threadId": thread, "turnId": started})).await;
        assert_eq!(client.answer(stop).await["result"], json!({}));
        let next = client.ask("turn/start", input(&thread, "say Next.")).await;
        let next = client.answer(next).await["result"]["turn"]["id"].clone();
        assert!(next.is_string() && next != started, "{script}");
        let ended = client.until_that("turn/completed", |told| told["turn"]["id"] == next).await;
        assert_eq!(ended["params"]["turn"]["status"], "completed", "{script}");
        let of_first =
            |frame: &&Value| frame["method"] == "turn/completed" && frame["params"]["turn"]["id"] == started;
        let statuses: Vec<&Value> =
            client.log.iter().filter(of_first).map(|frame| &frame["params"]["turn"]["status"]).collect();
        assert_eq!(statuses, ["interrupted"], "{script}");
    }
}
