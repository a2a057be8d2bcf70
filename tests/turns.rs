//! Turns as several clients see them: what they share, what an interrupt leaves behind, what is the same after a reload.
#![allow(clippy::disallowed_methods)]

use serde_json::{Value, json};
use signalbox_testkit::{App, Client, is_alive};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");

/// Says yes to whatever is asked until the turn ends.
fn says_yes_until_the_end(client: &mut Client, turn: &str) -> Value {
    loop {
        let frame = client.next_frame().value();
        let params = &frame["params"];
        match (frame["method"].as_str(), frame.get("id")) {
            (Some("turn/completed"), None) if params["turn"]["id"] == turn => return params["turn"].clone(),
            (Some(method), Some(id)) => {
                let result = match method {
                    "mcpServer/elicitation/request" => {
                        json!({ "action": "accept", "content": { "answer": "blue" } })
                    }
                    "item/tool/requestUserInput" => {
                        let question = &params["questions"][0];
                        let label = &question["options"][0]["label"];
                        let id = question["id"].as_str().unwrap_or_default();
                        json!({ "answers": { id: { "answers": [label] } } })
                    }
                    _ => json!({ "decision": "accept" }),
                };
                client.sends(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            }
            _ => {}
        }
    }
}

const EVERYTHING: &str = "\
title A tour
think How do I begin?\\nSlowly.
plan doing: look | todo: write | todo: end
say I begin.
read README.md
run echo out; echo err >&2
parallel echo one || echo two
write notes/new.md <<END
# New
END
write README.md <<END
# A larger project
END
delete notes/new.md
mcp files list
unkinded echo unkinded
permit-first echo permitted
unannounced echo unannounced
same-id
ask Which one? | red | blue
garble
plan done: look | done: write | doing: end
usage 1200 100000
stream 200 20 0
no-close For ever
say I end.
late Afterthought.";

#[test]
fn everything_an_agent_does_is_the_same_live_and_after_a_reload() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, EVERYTHING);
    let ended = says_yes_until_the_end(&mut first, &turn);
    assert_eq!(ended["status"], "completed");
    assert_eq!(app.file("README.md").as_deref(), Some("# A larger project\n"));
    let late = |params: &Value| params["item"]["type"] == "agentMessage" && params["item"]["late"] == true;
    first.until_where("item/completed", late);

    // One more turn, so that nothing of the first one is still on its way.
    let turn = first.prompts(&thread, "say Once more.\nsame-id");
    first.finishes(&turn);
    second.finishes(&turn);
    for client in [&mut first, &mut second] {
        client.knows_what_is_stored(&thread);
    }
    let known = first.model().thread(&thread).content();
    assert_eq!(first.model().thread(&thread).name.as_deref(), Some("A tour"));
    let of_type = |kind: &str| {
        let items = known[0]["items"].as_array().unwrap().iter();
        items.filter(|item| item["type"] == kind).count()
    };
    assert_eq!((of_type("userMessage"), of_type("plan"), of_type("mcpToolCall")), (1, 1, 1));
    assert!(of_type("commandExecution") >= 5 && of_type("fileChange") >= 3 && of_type("agentMessage") >= 4);

    // The same from the store alone, in another life of the server.
    app.kill();
    app.restart();
    let mut third = app.client();
    third.joins(&thread);
    assert_eq!(third.model().thread(&thread).content(), known);
    let ended = third.runs(&thread, "say Still here.");
    assert_eq!(ended["status"], "completed");
    third.knows_what_is_stored(&thread);
}

#[test]
fn an_interrupted_command_is_gone_with_all_its_children() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first
        .prompts(&thread, "run sleep 600 & echo $! > child; echo $$ > shell; echo begun; wait\nsay Never.");
    let asked = first.is_asked();
    first.approves(&asked);
    first.until("item/commandExecution/outputDelta");
    let [shell, child] = ["shell", "child"].map(|file| app.line_of(file).parse::<i32>().unwrap());
    assert!(is_alive(shell) && is_alive(child));

    second.interrupts(&thread, &turn);
    for client in [&mut first, &mut second] {
        assert_eq!(client.finishes(&turn)["status"], "interrupted");
        let known = client.model().thread(&thread).newest();
        let command = known.only("commandExecution");
        assert_eq!(command["status"], "failed");
        assert!(
            command["aggregatedOutput"].as_str().unwrap().starts_with("begun\n"),
            "what was shown is kept"
        );
        assert_eq!(known.said(), "", "nothing is said after an interrupt");
        client.knows_what_is_stored(&thread);
    }
    assert!(!is_alive(shell) && !is_alive(child), "the whole group is killed before the turn ends");
    assert_eq!(first.runs(&thread, "say Next.")["status"], "completed");
}

#[test]
fn an_agent_that_ignores_an_interrupt_is_killed() {
    let app = App::new(BINARY).over_stdio();
    let mut app = app.argument("--config").argument("limits.cancel_seconds=1");
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "say Before.\nhang");
    client.until("item/agentMessage/delta");
    client.interrupts(&thread, &turn);
    assert_eq!(client.finishes(&turn)["status"], "interrupted");
    assert_eq!(client.runs(&thread, "say After.")["status"], "completed");
    assert_eq!(client.model().thread(&thread).newest().said(), "After.");
    client.knows_what_is_stored(&thread);
}

#[test]
fn a_start_right_behind_an_interrupt_is_a_turn_of_its_own() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    for round in 0..20 {
        let turn = client.prompts(&thread, "say Before.\nhang polite");
        client.until("item/agentMessage/delta");
        // Neither waits for the other's answer.
        let interrupt = client.requests("turn/interrupt", json!({"threadId": thread, "turnId": turn}));
        let input = json!([{"type": "text", "text": "say After."}]);
        let start = client.requests("turn/start", json!({"threadId": thread, "input": input}));
        client.answer(interrupt).unwrap();
        let next = client.answer(start).unwrap()["turn"]["id"].as_str().unwrap().to_owned();
        assert_ne!(next, turn, "round {round}");
        assert_eq!(client.finishes(&turn)["status"], "interrupted", "round {round}");
        assert_eq!(client.finishes(&next)["status"], "completed", "round {round}");
    }
    client.knows_what_is_stored(&thread);
}

#[test]
fn clients_join_at_any_point_of_a_text() {
    let mut app = App::new(BINARY).over_unix();
    let mut first = app.client();
    let thread = first.starts_thread(&app);
    let turn = first.prompts(&thread, "think Let me count.\nstream 1500 20 1\nsay Counted.\nhang polite");
    let mut joiners = Vec::new();
    for number in 1..=8 {
        first.learns("more text", |model| {
            let thread = model.thread(&thread);
            thread.turns.first().is_some_and(|turn| turn.said().len() >= number * 150 * 20)
        });
        let mut joiner = app.client();
        let joined = joiner.joins(&thread);
        assert_eq!(joined["thread"]["turns"][0]["status"], "inProgress");
        joiners.push(joiner);
    }
    first.learns("the end of the text", |model| model.thread(&thread).newest().said().ends_with("Counted."));
    first.interrupts(&thread, &turn);
    first.finishes(&turn);
    first.knows_what_is_stored(&thread);
    let known = first.model().thread(&thread).content();
    for mut joiner in joiners {
        joiner.finishes(&turn);
        // The model has checked that snapshot and deltas add up to the whole text.
        assert_eq!(joiner.model().thread(&thread).content(), known);
    }
}

#[test]
fn a_joiner_sees_the_turn_as_it_stands() {
    let mut app = App::new(BINARY).over_unix();
    let mut first = app.client();
    let thread = first.starts_thread(&app);
    let script =
        "plan done: one | doing: two\nusage 10 1000\nwrite new.txt <<\nnew\n<<\nsay So far.\nrun echo hello";
    let turn = first.prompts(&thread, script);
    let change = first.is_asked();
    first.approves(&change);
    let command = first.is_asked();
    first.learns("the diff", |model| model.thread(&thread).newest().diff.is_string());

    let mut second = app.client();
    second.joins(&thread);
    let asked = second.is_asked();
    assert_eq!(asked, command, "the pending request comes again, the same");
    let (known, joined) = (first.model().thread(&thread), second.model().thread(&thread));
    assert_eq!(joined.content(), known.content());
    assert_eq!(joined.newest().plan[1]["status"], "inProgress");
    assert!(joined.newest().diff.as_str().unwrap().contains("+new"));
    assert_eq!(joined.newest().usage["modelContextWindow"], 1000);
    second.declines(&asked);
    for client in [&mut first, &mut second] {
        client.finishes(&turn);
        assert_eq!(client.model().thread(&thread).newest().only("commandExecution")["status"], "declined");
        client.knows_what_is_stored(&thread);
    }
}

#[test]
fn a_second_client_steers() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "say First.\nhang polite");
    second.until("item/agentMessage/delta");
    // A prompt while a turn runs goes into it.
    assert_eq!(second.prompts(&thread, "say Second."), turn);
    for client in [&mut first, &mut second] {
        assert_eq!(client.finishes(&turn)["status"], "completed");
        let known = client.model().thread(&thread).newest();
        assert_eq!(known.said(), "First.Second.");
        assert_eq!(known.items.iter().filter(|item| item["type"] == "userMessage").count(), 2);
        client.knows_what_is_stored(&thread);
    }
    let input = json!([{ "type": "text", "text": "say No." }]);
    let refusal = second
        .is_refused("turn/steer", json!({ "threadId": thread, "expectedTurnId": turn, "input": input }));
    assert_eq!(refusal.short(), (-32600, "no_active_turn"));
}

#[test]
fn a_message_with_an_id_of_its_client_is_taken_once() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let start = |text: &str| {
        let input = json!([{ "type": "text", "text": text }]);
        json!({ "threadId": thread, "input": input, "clientUserMessageId": "message-1" })
    };
    let turn = client.call("turn/start", start("say Once."))["turn"]["id"].clone();
    client.finishes(turn.as_str().unwrap());
    assert_eq!(client.call("turn/start", start("say Once."))["turn"]["id"], turn);
    let refusal = client.is_refused("turn/start", start("say Twice."));
    assert_eq!(refusal.short(), (-32602, "invalid_params"));

    app.kill();
    app.restart();
    let mut client = app.client();
    client.joins(&thread);
    assert_eq!(client.call("turn/start", start("say Once."))["turn"]["id"], turn, "also after a restart");
    assert_eq!(client.model().thread(&thread).turns.len(), 1);
}

#[test]
fn a_client_that_leaves_a_thread_or_the_server_ends_nobody_elses_turn() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second, third] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "say Begun.\nrun echo hello\nsay Done.");
    let asked = second.is_asked();
    let status = first.call("thread/unsubscribe", json!({ "threadId": thread }))["status"].clone();
    assert_eq!(status, "unsubscribed");
    let place = first.received().len();
    third.leaves();
    second.approves(&asked);
    assert_eq!(second.finishes(&turn)["status"], "completed");
    second.knows_what_is_stored(&thread);

    first.call("thread/loaded/list", json!({}));
    let told = first.methods_since(place);
    assert!(
        !told.iter().any(|method| method.starts_with("item/") || method.starts_with("turn/")),
        "{told:?}"
    );
    first.leaves();
    assert_eq!(second.runs(&thread, "say Alone.")["status"], "completed");
}

#[test]
fn a_client_gets_no_notification_it_does_not_want() {
    let mut app = App::new(BINARY).over_unix();
    let mut first = app.client();
    let mut second = app.stranger();
    let unwanted = json!(["item/agentMessage/delta", "thread/activity/changed"]);
    second.initializes_with("picky", json!({ "optOutNotificationMethods": unwanted }));
    second.may_fall_behind();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "say Hello.");
    first.finishes(&turn);
    second.finishes(&turn);
    let told = second.methods_since(0);
    assert!(!told.iter().any(|method| unwanted.as_array().unwrap().contains(&json!(method))), "{told:?}");
    assert_eq!(second.model().thread(&thread).newest().said(), "Hello.");
}

#[test]
fn a_policy_decides_without_asking_and_says_so() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let policy = |mode: &str, sandbox: &str| json!({ "cwd": app.work(), "policy": { "mode": mode, "sandbox": sandbox } });
    for (mode, sandbox, runs, writes) in [
        ("yolo", "workspace_write", true, true),
        ("yolo", "read_only", false, false),
        ("accept_edits", "workspace_write", false, true),
    ] {
        let thread = client.starts_thread_with(policy(mode, sandbox));
        let place = client.received().len();
        let turn = client.prompts(&thread, "write new.txt <<\nnew\n<<\nrun touch ran");
        if mode == "accept_edits" {
            let asked = client.is_asked();
            client.declines(&asked);
        }
        assert_eq!(client.finishes(&turn)["status"], "completed");
        let asked = client.received()[place..]
            .iter()
            .filter(|frame| matches!(frame, signalbox_testkit::Frame::Request(_)));
        assert_eq!(asked.count(), usize::from(mode == "accept_edits"), "{mode} {sandbox}");
        assert_eq!(app.file("ran").is_some(), runs, "{mode} {sandbox}");
        assert_eq!(app.file("new.txt").is_some(), writes, "{mode} {sandbox}");
        client.knows_what_is_stored(&thread);
        for file in ["ran", "new.txt"] {
            // Not there where it was not allowed.
            let _ = std::fs::remove_file(app.work().join(file));
        }
    }
}

#[test]
fn a_steer_of_an_agent_that_does_not_stop_goes_to_a_fresh_process_in_the_same_turn() {
    let app = App::new(BINARY).over_stdio();
    let mut app = app.argument("--config").argument("limits.cancel_seconds=1");
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "say First.\nhang");
    client.until("item/agentMessage/delta");
    assert_eq!(client.prompts(&thread, "say Second."), turn);
    let ended = client.finishes(&turn);
    assert_eq!(ended["status"], "completed", "{}", ended["error"]);
    assert_eq!(client.model().thread(&thread).newest().said(), "First.Second.");
    client.knows_what_is_stored(&thread);
}
