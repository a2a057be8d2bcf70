//! The server dies or is asked to leave in the middle of things; what was shown is still there, and it goes on.
#![allow(clippy::disallowed_methods)]

use serde_json::json;
use signalbox_testkit::{App, is_alive};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");

#[test]
fn killed_while_2000_chunks_stream() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "stream 2000 20 1\nhang polite");
    client.until_where("item/agentMessage/delta", |delta| {
        delta["delta"].as_str().is_some_and(|text| text.contains("00000700"))
    });
    app.kill();
    client.is_disconnected();
    let shown = client.model().thread(&thread).newest().said();
    assert!(shown.contains("00000700"));

    app.restart();
    let mut client = app.client();
    let stored = client.reads(&thread);
    assert_eq!(stored["activity"]["state"]["kind"], "failed");
    let stored = &stored["turns"][0];
    assert_eq!((&stored["id"], &stored["status"]), (&json!(turn), &json!("interrupted")));
    let message = &stored["items"][1];
    let kept = message["text"].as_str().unwrap();
    assert!(kept.starts_with(&shown), "shown: {shown:?}\nkept: {kept:?}");
    assert!(!message["completedAtMs"].is_null(), "no item stays open");

    // The thread takes a new prompt, and the old turn stays as it was.
    client.joins(&thread);
    let ended = client.runs(&thread, "say Here again.");
    assert_eq!(ended["status"], "completed");
    assert_eq!(client.model().thread(&thread).newest().said(), "Here again.");
    assert_eq!(client.model().thread(&thread).turns.len(), 2);
    client.knows_what_is_stored(&thread);
}

#[test]
fn killed_with_an_approval_open() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    client.prompts(&thread, "say Shall I?\nrun touch ran");
    let asked = client.is_asked();
    app.kill();

    app.restart();
    let mut client = app.client();
    let joined = client.joins(&thread);
    let turn = &joined["thread"]["turns"][0];
    assert_eq!(turn["status"], "interrupted");
    let item = turn["items"].as_array().unwrap().iter().find(|item| item["id"] == asked.item()).unwrap();
    assert_eq!((&item["type"], &item["status"]), (&json!("commandExecution"), &json!("failed")));
    assert_eq!(client.call("approval/list", json!({}))["data"], json!([]));
    let late = client.is_refused("approval/respond", json!({ "approvalId": asked.id, "decision": "accept" }));
    assert_eq!(late.short(), (-32023, "approval_resolved"));
    assert_eq!(late.data["by"]["kind"], "restart");
    assert_eq!(app.file("ran"), None, "nobody approved it");

    let turn = client.prompts(&thread, "run touch ran");
    let asked = client.is_asked();
    client.approves(&asked);
    assert_eq!(client.finishes(&turn)["status"], "completed");
    assert_eq!(app.file("ran").as_deref(), Some(""));
    client.knows_what_is_stored(&thread);
}

#[test]
fn killed_again_and_again() {
    let mut app = App::new(BINARY).over_unix();
    let thread = app.client().starts_thread(&app);
    let mut shown = Vec::new();
    for round in 1..=4 {
        let mut client = app.client();
        client.joins(&thread);
        client.prompts(&thread, "say A beginning.\nstream 2000 20 1");
        client.until_where("item/agentMessage/delta", |delta| {
            delta["delta"].as_str().is_some_and(|text| text.contains(&format!("{:08}", round * 20)))
        });
        app.kill();
        client.is_disconnected();
        shown.push(client.model().thread(&thread).newest().said());
        app.restart();
    }
    let mut client = app.client();
    let stored = client.reads(&thread);
    let turns = stored["turns"].as_array().unwrap();
    assert_eq!(turns.len(), shown.len());
    for (turn, shown) in turns.iter().zip(&shown) {
        let items = turn["items"].as_array().unwrap().iter();
        let text: String = items.filter_map(|item| item["text"].as_str()).collect();
        assert_eq!(turn["status"], "interrupted");
        assert!(text.starts_with(shown.as_str()), "shown: {shown:?}\nkept: {text:?}");
    }
}

#[test]
fn asked_to_leave_in_the_middle_of_a_turn() {
    for over_stdio in [true, false] {
        let app = App::new(BINARY);
        let mut app = if over_stdio { app.over_stdio() } else { app.over_unix() };
        let mut client = app.client();
        let thread = client.starts_thread(&app);
        let turn = client.prompts(&thread, "run echo $$ > pid; sleep 600\nsay Never.");
        let asked = client.is_asked();
        client.approves(&asked);
        let shell: i32 = app.line_of("pid").parse().unwrap();

        app.process().terminate();
        let ended = client.finishes(&turn);
        assert_eq!(ended["status"], "interrupted");
        client.is_disconnected();
        assert_eq!(app.ends().code(), Some(0));
        assert!(!is_alive(shell), "the command ends with the server");

        app.restart();
        let mut client = app.client();
        let stored = client.reads(&thread);
        assert_eq!(stored["turns"][0]["status"], "interrupted");
        assert_eq!(client.call("approval/list", json!({}))["data"], json!([]));
    }
}

#[test]
fn the_client_on_stdio_leaves_in_the_middle_of_a_turn() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    client.prompts(&thread, "stream 100000 20 1");
    client.until("item/agentMessage/delta");
    // Some clients end the input and send a signal besides.
    client.stops_sending();
    app.process().terminate();
    assert_eq!(app.ends().code(), Some(0), "a standalone server leaves with its only client");
    app.restart();
    let stored = app.client().reads(&thread);
    assert_eq!(stored["turns"][0]["status"], "interrupted");
}

#[test]
fn a_home_has_one_server() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let second = app.runs(&["app-server", "--standalone", "--listen", "stdio://"]);
    assert!(!second.status.success());
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains(&app.process().id().to_string()), "it names who holds the home: {told}");
    assert!(second.stdout.is_empty(), "nothing but frames is written to stdout");
    client.call("server/health", json!({}));
}
