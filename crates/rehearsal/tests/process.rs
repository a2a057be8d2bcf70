//! The agent as a real process on real pipes: its start, its exit codes, its signals, its children.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts real processes"
)]

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::Life;

/// Cargo builds examples before tests, beside them.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/rehearsal");
    assert!(path.exists(), "run `cargo build -p signalbox-rehearsal --example rehearsal` first");
    path
}

/// A process that was told to initialize and to open a session, and then got a prompt.
struct Agent {
    child: Child,
    lines: BufReader<Box<dyn Read>>,
    session: Value,
}

fn command() -> Command {
    let mut command = Command::new(program());
    command.env_remove("SIGNALBOX_REHEARSAL_STATE").env_remove("SIGNALBOX_REHEARSAL_START");
    command
}

fn line(stream: &mut impl Write, message: &Value) {
    writeln!(stream, "{message}").unwrap();
}

impl Agent {
    fn prompt(folder: &Path, text: &str) -> Self {
        let mut child =
            command().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(Box::new(child.stdout.take().unwrap()) as Box<dyn Read>);
        let mut agent = Self { child, lines, session: Value::Null };
        agent.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}),
        );
        agent.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": folder, "mcpServers": []}}));
        agent.frame();
        agent.session = agent.frame()["result"]["sessionId"].clone();
        agent.send(&json!({
            "jsonrpc": "2.0", "id": 3, "method": "session/prompt",
            "params": {"sessionId": agent.session, "prompt": [{"type": "text", "text": text}]},
        }));
        agent
    }

    fn send(&mut self, message: &Value) {
        line(self.child.stdin.as_mut().unwrap(), message);
    }

    fn frame(&mut self) -> Value {
        let mut text = String::new();
        self.lines.read_line(&mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    fn until(&mut self, wished: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame();
            if wished(&frame) {
                return frame;
            }
        }
    }

    /// Allows what is asked next and gives the first output of the command.
    fn output(&mut self) -> String {
        let request = self.until(|frame| frame["method"] == "session/request_permission");
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow"}});
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome}));
        let delta =
            |frame: &Value| frame["params"]["update"]["_meta"]["terminal_output_delta"]["data"].clone();
        let frame = self.until(|frame| !delta(frame).is_null());
        delta(&frame).as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_end_of_stdin_is_a_good_end_and_kills_the_children() {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::in_folder(folder.path());
    let mut agent = Agent::prompt(folder.path(), "run exec 3>life; echo up; sleep 1000");
    assert_eq!(agent.output(), "up\n");
    assert!(life.goes_on());
    agent.child.stdin = None;
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
    life.ends().await;
}

#[tokio::test]
async fn a_signal_kills_the_children_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::in_folder(folder.path());
    let mut agent = Agent::prompt(folder.path(), "run exec 3>life; echo up; sleep 1000");
    assert_eq!(agent.output(), "up\n");
    assert!(life.goes_on());
    // `wait` would close it, and its end would be as good a reason to leave as the signal.
    let _stdin = agent.child.stdin.take();
    let pid = rustix::process::Pid::from_child(&agent.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(agent.child.wait().unwrap().code(), Some(128 + 15));
    life.ends().await;
}

#[test]
fn a_client_that_closes_its_end_of_stdout_ends_it() {
    let mut agent = Agent::prompt(&std::env::temp_dir(), "stream 100000000 8 0");
    agent.lines = BufReader::new(Box::new(std::io::empty()));
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_crash_has_the_code_it_was_given() {
    let mut agent = Agent::prompt(&std::env::temp_dir(), "stderr going down\nsay last words\ncrash 7");
    assert_eq!(agent.frame()["params"]["update"]["content"]["text"], "last words");
    assert_eq!(agent.child.wait().unwrap().code(), Some(7));
    let mut stderr = String::new();
    agent.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "going down\n");
}

#[test]
fn garbage_is_garbage_on_a_real_pipe_too() {
    let mut agent = Agent::prompt(&std::env::temp_dir(), "garble\nsay and on");
    let mut broken = 0;
    loop {
        let mut line = Vec::new();
        agent.lines.read_until(b'\n', &mut line).unwrap();
        match serde_json::from_slice::<Value>(&line) {
            Ok(frame) if frame["id"] == 3 => break,
            Ok(_) => {}
            Err(_) => broken += 1,
        }
    }
    assert_eq!(broken, 4);
}

#[test]
fn it_works_on_a_socket_and_on_files_as_well() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = OwnedFd::from(theirs);
    let mut child = command().stdin(theirs.try_clone().unwrap()).stdout(theirs).spawn().unwrap();
    line(
        &mut &ours,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}),
    );
    let mut text = String::new();
    BufReader::new(&ours).read_line(&mut text).unwrap();
    assert!(text.contains("signalbox-rehearsal"), "{text}");
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(
        &input,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n",
    )
    .unwrap();
    let status = command()
        .stdin(std::fs::File::open(&input).unwrap())
        .stdout(std::fs::File::create(&output).unwrap())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(std::fs::read_to_string(&output).unwrap().contains("signalbox-rehearsal"));
}

#[test]
fn the_environment_makes_it_start_badly() {
    let output = command().env("SIGNALBOX_REHEARSAL_START", "exit:5").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    let output = command().env("SIGNALBOX_REHEARSAL_START", "sulk").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`sulk`"));
}
