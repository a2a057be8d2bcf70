//! A client that closes its end of stdin is still told how everything ends, and one that closes stderr is served.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn a_turn_that_runs_when_stdin_ends_is_told_to_be_interrupted_before_the_server_leaves() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["app-server", "--listen", "stdio://"])
        .env("SIGNALBOX_HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut frames = BufReader::new(server.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut ask = |line: String| writeln!(input, "{line}").unwrap();
    ask(r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}"#.to_owned());
    ask(serde_json::json!({"id": 2, "method": "thread/start", "params": {"cwd": home.path()}}).to_string());
    let started = frames.find(|frame| frame["id"] == 2).unwrap();
    let thread = started["result"]["thread"]["id"].clone();
    let prompt = serde_json::json!([{"type": "text", "text": "say here\nhang polite"}]);
    ask(
        serde_json::json!({"id": 3, "method": "turn/start", "params": {"threadId": thread, "input": prompt}})
            .to_string(),
    );
    frames.find(|frame| frame["method"] == "item/agentMessage/delta").unwrap();
    drop(input);
    let rest: Vec<Value> = frames.collect();
    let methods: Vec<_> = rest.iter().filter_map(|frame| frame["method"].as_str()).collect();
    let place = |method| methods.iter().position(|seen| *seen == method).unwrap();
    assert!(place("item/completed") < place("turn/completed"), "{methods:?}");
    let ended = rest.iter().find(|frame| frame["method"] == "turn/completed").unwrap();
    assert_eq!(ended["params"]["turn"]["status"], "interrupted");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_whose_logs_nobody_can_read_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (unread, logs) = std::io::pipe().unwrap();
    drop(unread);
    let mut server = Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["app-server", "--listen", "stdio://"])
        .env("SIGNALBOX_HOME", home.path())
        .env("RUST_LOG", "trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(logs)
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut frames = BufReader::new(server.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut ask = |line: String| writeln!(input, "{line}").unwrap();
    ask(r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}"#.to_owned());
    ask(serde_json::json!({"id": 2, "method": "thread/start", "params": {"cwd": home.path()}}).to_string());
    let started = frames.find(|frame| frame["id"] == 2).unwrap();
    let thread = &started["result"]["thread"]["id"];
    let prompt = serde_json::json!([{"type": "text", "text": "say here"}]);
    ask(
        serde_json::json!({"id": 3, "method": "turn/start", "params": {"threadId": thread, "input": prompt}})
            .to_string(),
    );
    let ended = frames.find(|frame| frame["method"] == "turn/completed").unwrap();
    assert_eq!(ended["params"]["turn"]["status"], "completed");
    drop(input);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
