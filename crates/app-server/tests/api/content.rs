//! What an agent sends besides text, as clients get it: live, and the same from the store.

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// A line of a script that sends an update word for word.
fn update(update: Value) -> String {
    format!("send-update {update}\n")
}

fn update_as(session: &str, update: Value) -> String {
    format!("send-update-as {session} {update}\n")
}

/// Plays a script, and gives the items of its turn but the prompt, each as it was told last. They are the same in the store.
async fn played(client: &mut Client, thread: &str, script: &str) -> Vec<Value> {
    let before = client.log.len();
    client.turn(thread, script).await;
    client.until("turn/completed").await;
    let told: Vec<Value> = client.log[before..]
        .iter()
        .filter(|frame| frame["method"] == "item/completed")
        .map(|frame| frame["params"]["item"].clone())
        .collect();
    let list = json!({"threadId": thread, "limit": 100, "sortDirection": "asc"});
    let stored = client.ok("thread/items/list", list).await["data"].clone();
    let mut items: Vec<Value> = Vec::new();
    for item in told {
        items.retain(|known| known["id"] != item["id"]);
        items.push(item);
    }
    for item in &items {
        let same = stored.as_array().unwrap().iter().map(|entry| entry.get("item").unwrap_or(entry));
        let same = same.filter(|known| known["id"] == item["id"]).collect::<Vec<_>>();
        assert_eq!(same, [item], "live and from the store");
    }
    items.retain(|item| item["type"] != "userMessage");
    items
}

#[tokio::test]
async fn images_sounds_and_resources_of_an_answer_are_shown() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let chunk = |content: Value| update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    let script = [
        chunk(json!({"type": "text", "text": "Look: "})),
        chunk(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"})),
        chunk(json!({"type": "audio", "mimeType": "audio/wav", "data": "BBBB"})),
        chunk(json!({"type": "resource_link", "uri": "https://x.test/", "name": "x"})),
        chunk(json!({"type": "resource", "resource": {"uri": "file:///a", "text": " and a text"}})),
    ];
    let items = played(&mut client, &thread, &script.concat()).await;
    let kinds: Vec<_> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["agentMessage", "dynamicToolCall", "dynamicToolCall", "agentMessage"]);
    assert_eq!(
        items[1]["contentItems"],
        json!([{"type": "inputImage", "imageUrl": "data:image/png;base64,AAAA"}])
    );
    assert_eq!(items[1]["status"], "completed");
    assert_eq!(
        items[2]["contentItems"],
        json!([{"type": "inputAudio", "audioUrl": "data:audio/wav;base64,BBBB"}])
    );
    assert_eq!(items[3]["text"], "[x](https://x.test/) and a text");
}

#[tokio::test]
async fn what_a_call_returns_is_shown_and_why_it_failed() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let call = |id: &str, more: Value| {
        let mut call = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "kind": "fetch"});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update(call)
    };
    let text = json!([{"type": "content", "content": {"type": "text", "text": "No such line."}}]);
    let script = [
        call("raw", json!({"status": "completed", "rawOutput": {"count": 3}})),
        call("edit", json!({"status": "failed", "kind": "edit", "content": text})),
        call("child", json!({"status": "completed", "content": [{"type": "session", "sessionId": "s9"}]})),
    ];
    let items = played(&mut client, &thread, &script.concat()).await;
    assert_eq!(items[0]["contentItems"], json!([{"type": "inputText", "text": "{\"count\":3}"}]));
    assert_eq!(items[1]["toolCall"]["error"], "No such line.");
    assert_eq!(items[2]["contentItems"], json!([{"type": "inputText", "text": "[session s9]"}]));
}

#[tokio::test]
async fn a_subagent_is_one_item_and_its_calls_are_their_own() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let child = |state: &str| {
        update(json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "title": "look around",
            "description": "Look at all files", "state": {"state": state, "stopReason": "end_turn"}}))
    };
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Nothing here."}});
    let call = json!({"toolCallId": "t", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}});
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let asks = json!({"sessionId": "kid", "toolCall": call, "options": options});
    let closed = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
    let script = [
        child("running"),
        format!("send-request session/request_permission {asks}\n"),
        update_as("kid", closed),
        update_as("kid", chunk),
        child("idle"),
    ];
    client.turn(&thread, &script.concat()).await;
    let asked = client.until("item/commandExecution/requestApproval").await;
    assert_eq!(asked["params"]["command"], "ls");
    client.respond(&asked, json!({"decision": "accept"})).await;
    let completed = |kind: &'static str| move |told: &Value| told["item"]["type"] == kind;
    let ran = client.until_that("item/completed", completed("commandExecution")).await;
    assert_eq!(ran["params"]["item"]["toolCall"]["title"], "look around: ls");
    assert_eq!(ran["params"]["item"]["status"], "completed");
    let item = client.until_that("item/completed", completed("dynamicToolCall")).await;
    let item = &item["params"]["item"];
    assert_eq!((&item["tool"], &item["status"]), (&json!("look around"), &json!("completed")));
    assert_eq!(item["arguments"]["description"], "Look at all files");
    assert_eq!(item["contentItems"], json!([{"type": "inputText", "text": "Nothing here."}]));
    client.until("turn/completed").await;
}

#[tokio::test]
async fn a_subagent_that_goes_on_when_its_turn_ends_is_closed_and_told_late() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let running =
        json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "state": {"state": "running"}});
    let items = played(&mut client, &thread, &update(running)).await;
    assert_eq!((&items[0]["tool"], &items[0]["status"]), (&json!("Subagent"), &json!("failed")));
    // In the next turn it says that it is through: that is told of the turn it belongs to no more.
    let idle = json!({"sessionUpdate": "subagent_update", "sessionId": "kid", "state": {"state": "idle"}});
    let items = played(&mut client, &thread, &update(idle)).await;
    assert_eq!(items.last().unwrap()["status"], "completed");
}

#[tokio::test]
async fn commands_and_grouped_options_are_told_and_listed() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let of_thread = json!({"threadId": thread});
    assert_eq!(client.ok("thread/command/list", of_thread.clone()).await, json!({"data": []}));
    let commands = json!([{"name": "web", "description": "Searches", "input": {"hint": "what"}, "_meta": {"manual": "long"}},
        {"name": "plan", "description": "Plans"}]);
    let options = json!([{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "b",
            "options": [{"group": "g", "name": "Large", "options": [{"value": "b", "name": "B"}]}]},
        {"id": "speed", "name": "Speed", "type": "range", "currentValue": 3, "description": "How fast"}]);
    let script = [
        update(json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})),
        update(json!({"sessionUpdate": "config_option_update", "configOptions": options})),
    ];
    client.turn(&thread, &script.concat()).await;
    let told =
        client.until_that("thread/commands/updated", |told| told["commands"][0]["name"] == "web").await;
    let expected = json!([{"name": "web", "description": "Searches", "hint": "what"},
        {"name": "plan", "description": "Plans"}]);
    assert_eq!(told["params"]["commands"], expected);
    client.until("turn/completed").await;
    assert_eq!(client.ok("thread/command/list", of_thread.clone()).await["data"], expected);
    let options = client.ok("thread/configOption/list", of_thread).await["options"].clone();
    let option = |id: &str| options.as_array().unwrap().iter().find(|option| option["id"] == id).unwrap();
    assert_eq!(option("model")["choices"][0]["group"], "Large");
    let speed = option("speed");
    assert_eq!(
        (&speed["current"], &speed["fixed"], &speed["description"]),
        (&json!("3"), &json!(true), &json!("How fast"))
    );
    let set = json!({"threadId": thread, "configId": "speed", "value": "4"});
    let refused = client.refusal("thread/configOption/set", set).await;
    assert!(refused["message"].as_str().unwrap().contains("cannot set"), "{refused}");
}

#[tokio::test]
async fn notices_and_what_nobody_knows_are_warnings_with_a_word_for_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let unknown = update(json!({"sessionUpdate": "horoscope", "sign": "ox"}));
    let script = [
        update(
            json!({"sessionUpdate": "notice", "severity": "error", "title": "Disk", "description": "full"}),
        ),
        unknown.clone(),
        unknown,
        "say done".to_owned(),
    ];
    client.turn(&thread, &script.concat()).await;
    client.until("turn/completed").await;
    let told = client.log.iter().filter(|frame| frame["method"] == "warning").map(|frame| {
        (frame["params"]["reason"].as_str().unwrap(), frame["params"]["message"].as_str().unwrap())
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 2, "an unknown kind is named once: {told:?}");
    assert_eq!(told[0], ("agent_error", "Disk: full"));
    assert!(told[1].0 == "agent_update_unknown" && told[1].1.contains("`horoscope`"), "{told:?}");
}

#[tokio::test]
async fn several_plans_are_items_of_their_own_and_the_turns_plan_is_all_of_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let plan = |id: &str, steps: &[&str]| {
        let entries: Vec<_> =
            steps.iter().map(|step| json!({"content": step, "status": "pending"})).collect();
        update(
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": entries}}),
        )
    };
    let removed = update(json!({"sessionUpdate": "plan_removed", "planId": "a"}));
    let script = [plan("a", &["one"]), plan("b", &["two", "three"]), removed];
    let items = played(&mut client, &thread, &script.concat()).await;
    let texts: Vec<_> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["", "- [ ] two\n- [ ] three\n"]);
    let told = client.log.iter().filter(|frame| frame["method"] == "turn/plan/updated");
    let steps: Vec<_> = told.map(|frame| frame["params"]["plan"].as_array().unwrap().len()).collect();
    assert_eq!(steps, [1, 3, 2]);
}

#[tokio::test]
async fn a_compaction_shows_what_was_kept_and_a_title_can_be_taken_back() {
    let stage = Stage::new().await;
    let mut client = stage.client("viewer").await;
    let thread = client.thread(json!({})).await;
    let compaction = |status: &str| {
        update(json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": status}))
    };
    let script = [
        "title Another name\n".to_owned(),
        update(json!({"sessionUpdate": "session_info_update", "_meta": {"x": 1}})),
        compaction("in_progress"),
        update(json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k",
            "content": {"type": "text", "text": "We spoke of trees."}})),
        compaction("completed"),
        update(json!({"sessionUpdate": "session_info_update", "title": null})),
    ];
    let items = played(&mut client, &thread, &script.concat()).await;
    assert_eq!(items[0]["type"], "contextCompaction");
    assert_eq!(items[0]["summary"], "We spoke of trees.");
    let told = client.log.iter().filter(|frame| frame["method"] == "thread/name/updated");
    let names: Vec<_> =
        told.map(|frame| frame["params"]["threadName"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 3, "the first words, the agent's name, the first words again: {names:?}");
    assert_eq!((&names[0], names[1].as_str()), (&names[2], "Another name"));
}
