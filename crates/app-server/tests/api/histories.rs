//! Turns taken back, threads put away, removed, compacted.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stage::{Client, Stage, input};

async fn turns(client: &mut Client, thread: &str, texts: &[&str]) -> Vec<String> {
    let mut turns = Vec::new();
    for text in texts {
        turns.push(client.turn(thread, text).await);
        client.until("turn/completed").await;
    }
    turns
}

#[tokio::test]
async fn turns_are_taken_back_for_everybody() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    let turns = turns(&mut first, &thread, &["say one", "say two", "say three"]).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    let before = first.log.len();
    let revert = json!({"threadId": thread, "beforeTurnId": turns[1]});
    let reverted = first.ok("thread/revert", revert.clone()).await;
    let left = reverted["thread"]["turns"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["id"]), (1, &json!(turns[0])));
    assert_eq!(reverted["turnsBackwardsCursor"], json!(null));
    first.until("thread/reverted").await;
    assert_eq!(first.methods()[before..], ["answer", "thread/reverted"]);
    let told = second.until("thread/reverted").await;
    assert_eq!(told["params"]["beforeTurnId"], turns[1]);
    let read = second.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"], reverted["thread"]["turns"]);
    let again = second.refused("thread/revert", revert).await;
    assert_eq!(again, (-32600, "turn_not_found".to_owned()));

    // The agent's own memory cannot be turned back: it begins anew, and that is said.
    first.turn(&thread, "echo-prompt").await;
    let warning = first.until("warning").await;
    assert!(warning["params"]["message"].as_str().unwrap().contains("new conversation"), "{warning}");
    let is_echo = |told: &Value| told["item"]["text"].as_str().is_some_and(|text| text.contains("[text]"));
    let echo = first.until_that("item/completed", is_echo).await;
    let echo = echo["params"]["item"]["text"].as_str().unwrap();
    assert!(echo.contains("say one") && !echo.contains("say two"), "{echo}");
    first.until("turn/completed").await;

    let all = json!({"threadId": thread, "beforeTurnId": turns[0]});
    let empty = first.ok("thread/revert", all).await;
    assert_eq!(empty["thread"]["turns"], json!([]));
}

#[tokio::test]
async fn while_a_turn_runs_nothing_is_taken_back_or_put_away() {
    let stage = Stage::new().await;
    let mut client = stage.client("hasty").await;
    let thread = client.thread(json!({})).await;
    let done = turns(&mut client, &thread, &["say one"]).await;
    let open = client.turn(&thread, "say two\nhang polite").await;
    client.until("item/agentMessage/delta").await;
    for (method, params) in [
        ("thread/revert", json!({"threadId": thread, "beforeTurnId": done[0]})),
        ("thread/archive", json!({"threadId": thread})),
        ("thread/compact/start", json!({"threadId": thread})),
    ] {
        let error = client.refusal(method, params).await;
        assert_eq!(
            (&error["code"], &error["data"]["activeTurnId"]),
            (&json!(-32022), &json!(open)),
            "{method}"
        );
    }
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": open})).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn an_archived_thread_is_out_of_the_list_and_takes_no_input() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    assert_eq!(first.ok("thread/archive", json!({"threadId": thread})).await, json!({}));
    for client in [&mut first, &mut second] {
        assert_eq!(client.until("thread/archived").await["params"]["threadId"], thread);
    }
    assert_eq!(second.ok("thread/list", json!({})).await["data"], json!([]));
    let listed = second.ok("thread/list", json!({"archived": true})).await;
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["archived"]), (&json!(thread), &json!(true)));
    let add = json!({"threadId": thread, "clientUserMessageId": "m", "input": input("", "say x")["input"]});
    for (method, params) in [("turn/start", input(&thread, "say x")), ("thread/queue/add", add)] {
        assert_eq!(first.refused(method, params).await, (-32022, "thread_archived".to_owned()), "{method}");
    }
    let back = second.ok("thread/unarchive", json!({"threadId": thread})).await;
    assert_eq!((&back["thread"]["id"], &back["thread"]["archived"]), (&json!(thread), &json!(false)));
    first.until("thread/unarchived").await;
    assert_eq!(first.ok("thread/list", json!({})).await["data"][0]["id"], thread);
    first.turn(&thread, "say x").await;
    first.until("turn/completed").await;
}

#[tokio::test]
async fn a_deleted_thread_is_gone_for_everybody_with_what_it_asked() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.turn(&thread, "run echo never").await;
    second.until("item/commandExecution/requestApproval").await;
    // Two at once: one of them deletes it, the other finds nothing.
    let (one, other) = (json!({"threadId": thread}), json!({"threadId": thread}));
    let (one, other) = (first.ask("thread/delete", one).await, second.ask("thread/delete", other).await);
    let mut answers = [first.answer(one).await, second.answer(other).await];
    answers.sort_by_key(|answer| answer.get("error").is_some());
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["error"]["data"]["reason"], "thread_not_found", "{answers:?}");
    for client in [&mut first, &mut second] {
        client.until("turn/completed").await;
        assert_eq!(client.until("thread/deleted").await["params"]["threadId"], thread);
    }
    for (method, params) in [
        ("thread/read", json!({"threadId": thread})),
        ("thread/resume", json!({"threadId": thread})),
        ("thread/queue/list", json!({"threadId": thread})),
    ] {
        assert_eq!(first.refused(method, params).await.1, "thread_not_found", "{method}");
    }
    assert_eq!(first.ok("approval/list", json!({})).await["data"], json!([]));
    assert_eq!(first.ok("thread/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn a_thread_with_a_worktree_is_not_deleted_before_that_is_gone() {
    let stage = Stage::new().await;
    let project = stage.folder.path().join("project");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&project).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent");
        assert!(command.stdin(Stdio::null()).output().unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let mut client = stage.client("remover").await;
    let thread = client.thread(json!({"worktree": {"base": "current"}})).await;
    let refused = client.refused("thread/delete", json!({"threadId": thread})).await;
    assert_eq!(refused, (-32022, "worktree_present".to_owned()));
    client.ok("thread/worktree/discard", json!({"threadId": thread})).await;
    client.ok("thread/delete", json!({"threadId": thread})).await;
    client.until("thread/deleted").await;
}

#[tokio::test]
async fn an_agent_compacts_if_it_can_and_takes_no_input_meanwhile() {
    let stage = Stage::new().await;
    let mut client = stage.client("compacter").await;
    let thread = client.thread(json!({})).await;
    let compact = json!({"threadId": thread});
    let refused = client.refused("thread/compact/start", compact.clone()).await;
    assert_eq!(refused, (-32021, "unsupported_by_agent".to_owned()));
    let offer = json!({"sessionUpdate": "available_commands_update", "availableCommands": [
        {"name": "compact", "description": "Compacts the context"}]});
    client.turn(&thread, &format!("send-update {offer}")).await;
    client.until("turn/completed").await;
    assert_eq!(client.ok("thread/compact/start", compact).await, json!({}));
    let started = client.until("turn/started").await;
    let turn = started["params"]["turn"]["id"].as_str().unwrap().to_owned();
    let steer = json!({"threadId": thread, "expectedTurnId": turn, "input": input("", "say x")["input"]});
    for (method, params) in [("turn/steer", steer), ("turn/start", input(&thread, "say x"))] {
        let error = client.refusal(method, params).await;
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32022), &json!("not_steerable")),
            "{method}"
        );
        let kind = &error["data"]["codexErrorInfo"]["activeTurnNotSteerable"]["turnKind"];
        assert_eq!(kind, "compact", "{error}");
        assert_eq!(error["data"]["message"], error["message"]);
    }
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
}
