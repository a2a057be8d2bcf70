//! What agents and clients said to each other, line by line: recordings of real agents, and scripts of agents that misbehave.

mod player;
mod script;
mod turns;

use serde_json::Value;

pub use player::{HEARD, RECORDING, STARTS, play_recording};
pub use script::Script;
pub use turns::{Answer, Step, Turn, steps};

/// The session's directory in recordings; a player puts the real one in its place.
pub const RECORDED_CWD: &str = "/work/project";
/// The folder around it.
const RECORDED_HOME: &str = "/work";

/// One line. In files: `{"c2a": MESSAGE}`, `{"a2c": MESSAGE}` and so on, `{"start": true}` where a process begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Client to agent.
    Client(Value),
    /// Agent to client.
    Agent(Value),
    /// The agent writes this, which need not be a message, as a line.
    Raw(String),
    /// The agent writes a line to stderr.
    Stderr(String),
    /// The agent does nothing more, and does not leave at the end of its input either.
    Stay,
    /// The agent leaves with this code.
    Exit(i32),
}

/// The lines of one process.
pub type Process = Vec<Line>;

/// Reads a recording.
///
/// # Panics
/// If a line is none of those that [`Line`] names.
#[must_use]
pub fn read(text: &str) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    for text in text.lines().filter(|line| !line.is_empty()) {
        let Ok(Value::Object(line)) = serde_json::from_str(text) else {
            panic!("no line of a recording: {text}")
        };
        let Some((key, value)) = line.into_iter().next() else { panic!("an empty line: {text}") };
        let line = match (key.as_str(), value) {
            ("start", _) => {
                processes.push(Vec::new());
                continue;
            }
            ("c2a", message) => Line::Client(message),
            ("a2c", message) => Line::Agent(message),
            ("raw", Value::String(text)) => Line::Raw(text),
            ("stderr", Value::String(text)) => Line::Stderr(text),
            ("stay", _) => Line::Stay,
            ("exit", code) => {
                Line::Exit(code.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(0))
            }
            (other, _) => panic!("no line of a recording: {other}"),
        };
        processes.last_mut().expect("the first line is a start").push(line);
    }
    processes
}

/// The text of a recording, as [`read`] takes it.
#[must_use]
pub fn written(processes: &[Process]) -> String {
    let mut text = String::new();
    for process in processes {
        text.push_str("{\"start\":true}\n");
        for line in process {
            let line = match line {
                Line::Client(message) => serde_json::json!({"c2a": message}),
                Line::Agent(message) => serde_json::json!({"a2c": message}),
                Line::Raw(text) => serde_json::json!({"raw": text}),
                Line::Stderr(text) => serde_json::json!({"stderr": text}),
                Line::Stay => serde_json::json!({"stay": true}),
                Line::Exit(code) => serde_json::json!({"exit": code}),
            };
            text.push_str(&line.to_string());
            text.push('\n');
        }
    }
    text
}

/// The method of a message, if it is a request or a notification.
fn method(message: &Value) -> Option<&str> {
    message.get("method").and_then(Value::as_str)
}
