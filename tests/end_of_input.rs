//! A client that closes its end of stdin is still told how everything ends, and one that closes stderr is served.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;

use serde_json::{Value, json};
use signalbox_testkit::Schemas;

/// A server on stdio and what its only client sees of it.
struct Served {
    server: Child,
    input: ChildStdin,
    frames: Box<dyn Iterator<Item = Value>>,
}

/// Starts the server in this home and a turn with this script in it.
fn begins(home: &Path, set_up: impl FnOnce(&mut Command), script: &str) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
    command.args(["app-server", "--standalone", "--listen", "stdio://"]).env("SIGNALBOX_HOME", home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    set_up(&mut command);
    let mut server = command.spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let asked: Rc<RefCell<Vec<Value>>> = Rc::default();
    let known = asked.clone();
    let mut frames = BufReader::new(server.stdout.take().unwrap()).lines().map(move |line| {
        let frame: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let request = |id: &Value| known.borrow().iter().find(|asked| asked["id"] == *id).cloned();
        Schemas::get().frame(&frame, request).unwrap();
        frame
    });
    let mut ask = |frame: Value| {
        writeln!(input, "{frame}").unwrap();
        asked.borrow_mut().push(frame);
    };
    ask(json!({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}));
    ask(json!({"id": 2, "method": "thread/start", "params": {"cwd": home}}));
    let started = frames.find(|frame| frame["id"] == 2).unwrap();
    let thread = &started["result"]["thread"]["id"];
    let prompt = json!([{"type": "text", "text": script}]);
    ask(json!({"id": 3, "method": "turn/start", "params": {"threadId": thread, "input": prompt}}));
    Served { server, input, frames: Box::new(frames) }
}

#[test]
fn a_turn_that_runs_when_stdin_ends_is_told_to_be_interrupted_before_the_server_leaves() {
    let home = tempfile::tempdir().unwrap();
    let Served { mut server, input, mut frames } = begins(home.path(), |_| {}, "say here\nhang polite");
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
    let logging = |command: &mut Command| {
        command.env("RUST_LOG", "trace").stderr(logs);
    };
    let Served { mut server, input, mut frames } = begins(home.path(), logging, "say here");
    let ended = frames.find(|frame| frame["method"] == "turn/completed").unwrap();
    assert_eq!(ended["params"]["turn"]["status"], "completed");
    drop(input);
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
