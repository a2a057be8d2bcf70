//! The methods beside the prompt: handshake, sessions, choices, memory, and bad input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts real processes"
)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use signalbox_rehearsal::{Exit, Options, Start};
use support::{Client, allow, always, never};

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[tokio::test]
async fn the_handshake_says_what_the_agent_can_do() {
    let mut client = Client::connect(Options::default());
    let early = client.call("session/new", json!({"cwd": "/", "mcpServers": []})).await;
    assert_eq!(code(&early), -32600, "nothing is served before initialize");
    let result = client.initialize(json!({})).await;
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "signalbox-rehearsal");
    assert_eq!(result["agentCapabilities"]["loadSession"], true);
    assert_eq!(result["authMethods"], json!([]));
    let newer = client.call("initialize", json!({"protocolVersion": 99})).await;
    assert_eq!(newer["result"]["protocolVersion"], 1);
    assert_eq!(code(&client.call("initialize", json!({"protocolVersion": "1"})).await), -32602);
    assert_eq!(code(&client.call("authenticate", json!({"methodId": "x"})).await), -32602);
    assert_eq!(code(&client.call("session/fork", json!({})).await), -32601);
    assert_eq!(client.leave().await, Exit::ClientLeft);
}

#[tokio::test]
async fn bad_parameters_are_named_and_nothing_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let session = client.session.clone();
    let servers = json!([]);
    for (method, params, wanted) in [
        ("session/new", json!({"mcpServers": servers}), -32602),
        ("session/new", json!({"cwd": "relative", "mcpServers": servers}), -32602),
        ("session/new", json!({"cwd": "/no/such/folder", "mcpServers": servers}), -32602),
        ("session/new", json!({"cwd": "/"}), -32602),
        ("session/prompt", json!({"sessionId": session, "prompt": []}), -32602),
        ("session/prompt", json!({"sessionId": session}), -32602),
        ("session/prompt", json!({"sessionId": "nobody", "prompt": [{"type": "text", "text": "x"}]}), -32002),
        ("session/prompt", json!({}), -32602),
        ("session/load", json!({"sessionId": "nobody", "cwd": "/", "mcpServers": servers}), -32002),
        ("session/resume", json!({"sessionId": "nobody", "cwd": "/"}), -32002),
        ("session/close", json!({"sessionId": "nobody"}), -32002),
        ("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}), -32602),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "model", "value": "x"}),
            -32602,
        ),
        ("session/set_config_option", json!({"sessionId": session, "configId": "x", "value": "x"}), -32602),
        ("session/set_config_option", json!({"sessionId": session, "configId": "mode"}), -32602),
    ] {
        let answer = client.call(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], wanted, "{method} {params}: {answer}");
    }
    assert_eq!(client.play("say still here", never).await.said(), "still here");
}

#[tokio::test]
async fn bad_lines_get_their_error_and_nothing_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    for (line, wanted) in [
        (&b"not json"[..], -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"42", -32600),
        (b"{}", -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"session/list"}"#, -32600),
    ] {
        client.raw(line).await;
        let answer = client.frame().await;
        assert_eq!((&answer["id"], code(&answer)), (&Value::Null, wanted));
    }
    // Empty lines, answers to nobody and unknown notifications are passed over.
    client.raw(b"").await;
    client.send(json!({"jsonrpc": "2.0", "id": 99, "result": {}})).await;
    client.notify("no/such", json!({})).await;
    client.notify("session/cancel", json!({"sessionId": "nobody"})).await;
    assert_eq!(client.play("say still here", never).await.said(), "still here");
}

#[tokio::test]
async fn modes_and_models_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::connect(Options::default());
    client.initialize(json!({})).await;
    let result = client.open(folder.path()).await;
    assert_eq!(result["modes"]["currentModeId"], "ask");
    let ids: Vec<&str> =
        result["configOptions"].as_array().unwrap().iter().map(|o| o["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mode", "model"]);

    let session = client.session.clone();
    let params = json!({"sessionId": session, "configId": "model", "value": "rehearsal-terse"});
    let answer = client.call("session/set_config_option", params).await;
    assert_eq!(answer["result"]["configOptions"][1]["currentValue"], "rehearsal-terse");

    let answer = client.call("session/set_mode", json!({"sessionId": session, "modeId": "look"})).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(client.frame().await["params"]["update"]["currentModeId"], "look");
    let update = client.frame().await["params"]["update"].clone();
    assert_eq!(update["configOptions"][0]["currentValue"], "look");
    assert_eq!(update["configOptions"][1]["currentValue"], "rehearsal-terse");
}

#[tokio::test]
async fn a_session_takes_one_prompt_at_a_time_and_two_sessions_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let first = client.session.clone();
    let waiting = client.prompt("hang polite").await;
    let params = json!({"sessionId": first, "prompt": [{"type": "text", "text": "say no"}]});
    assert_eq!(code(&client.call("session/prompt", params).await), -32600);
    assert_eq!(
        code(&client.call("session/load", json!({"sessionId": first, "cwd": "/", "mcpServers": []})).await),
        -32600
    );

    client.open(folder.path()).await;
    assert_eq!(client.play("say meanwhile", never).await.said(), "meanwhile");

    client.notify("session/cancel", json!({"sessionId": first})).await;
    assert_eq!(client.finish(&waiting, never).await.stop_reason(), "cancelled");
}

#[tokio::test]
async fn the_whole_conversation_is_told_again_by_a_later_process() {
    let folder = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let options = || Options { state_dir: Some(state.path().join("kept")), ..Options::default() };
    let mut client = Client::with_options(folder.path(), options()).await;
    client.play("title Kept\nthink Hm.\nsay One and two and three.\nrun echo a", always).await;
    client.play("plan done: all\nno-close\nlate afterwards", never).await;
    client.until(|frame| frame["params"]["update"]["status"] == "completed").await;
    let session = client.session.clone();
    client.leave().await;

    let mut client = Client::connect(options());
    client.initialize(json!({})).await;
    let params = json!({"sessionId": session, "cwd": folder.path(), "mcpServers": []});
    let id = client.request("session/load", params.clone()).await;
    let loaded = client.finish(&id, never).await;
    let kinds: Vec<&str> =
        loaded.updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let wanted = [
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "user_message_chunk",
        "plan",
        "tool_call",
        "tool_call",
        "agent_message_chunk",
        "session_info_update",
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(loaded.updates[2]["content"]["text"], "One and two and three.");
    assert_eq!(loaded.updates[3]["status"], "completed");
    assert_eq!(loaded.updates[3]["content"][0]["content"]["text"], "a\n");
    assert_eq!(loaded.updates[6]["status"], "in_progress");
    assert_eq!(loaded.updates[7]["status"], "completed");
    assert_eq!(loaded.updates[8]["content"]["text"], "afterwards");
    assert_eq!(loaded.updates[9]["title"], "Kept");
    assert_eq!(loaded.answer["result"]["configOptions"][0]["currentValue"], "ask");

    // Ids go on where they were, and so does what was always allowed.
    client.session = session.clone();
    let played = client.play("run echo a", never).await;
    assert_eq!(played.updates[0]["toolCallId"], "call-3-1");

    let resumed = client.call("session/resume", params).await;
    assert!(resumed["result"]["configOptions"].is_array());
    assert_eq!(client.play("say resumed", never).await.updates.len(), 1, "a resume tells nothing again");
    client.leave().await;
}

#[tokio::test]
async fn a_copy_remembers_what_was_said_and_goes_its_own_way_in_a_later_process() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = tempfile::tempdir().unwrap();
    let options = |start| Options { state_dir: Some(state.path().to_owned()), start, ..Options::default() };
    let mut client = Client::connect(options(Start::Well));
    let hello = client.initialize(json!({})).await;
    assert_eq!(hello["agentCapabilities"]["sessionCapabilities"]["fork"], json!({}));
    client.open(folder.path()).await;
    client.play("say one", never).await;
    let source = client.session.clone();
    let params = json!({"sessionId": source, "cwd": other.path(), "mcpServers": []});
    let forked = client.call("session/fork", params.clone()).await["result"].clone();
    assert_ne!(forked["sessionId"], source);
    assert!(forked["configOptions"].is_array());
    assert_eq!(client.play("say two", never).await.updates[0]["messageId"], "msg-2-1");
    let unknown = json!({"sessionId": "nobody", "cwd": other.path()});
    assert_eq!(code(&client.call("session/fork", unknown).await), -32002);
    client.prompt("hang").await;
    let busy = client.call("session/fork", params.clone()).await;
    assert_eq!(code(&busy), -32600);
    client.leave().await;

    let mut client = Client::connect(options(Start::Well));
    client.initialize(json!({})).await;
    let copy = json!({"sessionId": forked["sessionId"], "cwd": other.path(), "mcpServers": []});
    let id = client.request("session/load", copy).await;
    let loaded = client.finish(&id, never).await;
    let told: Vec<_> = loaded.updates.iter().map(|update| &update["content"]["text"]).collect();
    assert_eq!(told, ["say one", "one"]);
    client.leave().await;

    for (start, wanted) in [(Start::NoFork, -32601), (Start::FailFork, -32603)] {
        let mut client = Client::connect(options(start));
        client.initialize(json!({})).await;
        assert_eq!(code(&client.call("session/fork", params.clone()).await), wanted);
    }
    let mut client = Client::connect(Options::default());
    let hello = client.initialize(json!({})).await;
    let none = hello["agentCapabilities"]["sessionCapabilities"].get("fork");
    assert_eq!(none, None, "nobody could find the copy");
}

#[tokio::test]
async fn sessions_are_listed_newest_first_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let options = || Options { state_dir: Some(state.path().to_owned()), ..Options::default() };
    let mut client = Client::with_options(folder.path(), options()).await;
    for _ in 0..60 {
        client.open(folder.path()).await;
    }
    client.open(other.path()).await;
    let newest = client.session.clone();
    client.play("title The newest", never).await;
    client.leave().await;

    let mut client = Client::connect(options());
    client.initialize(json!({})).await;
    let first = client.call("session/list", json!({})).await["result"].clone();
    assert_eq!(first["sessions"].as_array().unwrap().len(), 50);
    let wanted = json!({"sessionId": newest, "cwd": other.path(), "title": "The newest"});
    assert_eq!(first["sessions"][0], wanted);
    let next = client.call("session/list", json!({"cursor": first["nextCursor"]})).await["result"].clone();
    assert_eq!(next["sessions"].as_array().unwrap().len(), 12);
    assert!(next.get("nextCursor").is_none());
    let there = client.call("session/list", json!({"cwd": other.path()})).await["result"].clone();
    assert_eq!(there["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_closed_session_ends_even_a_deaf_turn_and_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let session = json!({"sessionId": client.session});
    let id = client.prompt("say so far\nhang").await;
    client.until(|frame| frame["method"] == "session/update").await;
    let close = client.request("session/close", session.clone()).await;
    let played = client.finish(&id, never).await;
    assert_eq!(played.stop_reason(), "cancelled");
    assert_eq!(client.finish(&close, never).await.answer["result"], json!({}));
    assert_eq!(code(&client.call("session/close", session).await), -32002);
}

#[tokio::test]
async fn a_bad_start_is_as_bad_as_asked_for() {
    let start = |start| Options { start, ..Options::default() };

    let mut hanging = Client::connect(start(Start::Hang));
    hanging.request("initialize", json!({"protocolVersion": 1})).await;
    assert_eq!(hanging.leave().await, Exit::ClientLeft);

    let mut garbled = Client::connect(start(Start::Garbage));
    garbled.request("initialize", json!({"protocolVersion": 1})).await;
    for _ in 0..2 {
        let line = garbled.line().await.unwrap();
        assert!(serde_json::from_slice::<Value>(&line).is_err());
    }
    garbled.leave().await;

    let mut slow = Client::connect(start(Start::Slow(Duration::from_millis(1))));
    slow.initialize(json!({})).await;

    for (how, wanted) in [(Start::NoNew, -32603), (Start::Auth, -32000)] {
        let mut refusing = Client::connect(start(how));
        refusing.initialize(json!({})).await;
        let answer = refusing.call("session/new", json!({"cwd": "/", "mcpServers": []})).await;
        assert_eq!(code(&answer), wanted);
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_turn_ends_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    client.prompt("run sleep 1000").await;
    let request = client.until(|frame| frame["method"] == "session/request_permission").await;
    client.reply(&request, allow(&request)).await;
    client.until(|frame| frame["params"]["update"]["status"] == "in_progress").await;
    assert_eq!(client.leave().await, Exit::ClientLeft);
}

#[tokio::test]
async fn a_crash_says_what_came_before_it_and_nothing_after() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    client.prompt("say last words\ncrash 9\nsay never").await;
    let update = client.frame().await;
    assert_eq!(update["params"]["update"]["content"]["text"], "last words");
    assert_eq!(client.line().await, None);
    assert_eq!(client.ended().await, Exit::Crash(9));
}
