//! Recordings written by hand, for agents that do what none should.

use serde_json::{Value, json};

use super::{Line, Process, written};

/// The session's id in scripts.
const SESSION: &str = "script-session";

/// A script under construction: each call adds lines to the process that was begun last.
#[derive(Clone, Debug, Default)]
pub struct Script {
    processes: Vec<Process>,
    /// Requests of the client so far.
    last_id: u64,
}

impl Script {
    /// A first process, which has said nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { processes: vec![Vec::new()], last_id: 0 }
    }

    /// One that has answered `initialize` and opened a session.
    #[must_use]
    pub fn open() -> Self {
        Self::new().initialized(json!({})).opened(json!({}))
    }

    /// The next start of the agent plays from here.
    #[must_use]
    pub fn starts_again(mut self) -> Self {
        self.processes.push(Vec::new());
        self
    }

    /// Answers `initialize` with these capabilities.
    #[must_use]
    pub fn initialized(self, capabilities: Value) -> Self {
        self.asked("initialize").answers(json!({"protocolVersion": 1, "agentCapabilities": capabilities}))
    }

    /// Answers `session/new` with this besides the id.
    #[must_use]
    pub fn opened(self, mut result: Value) -> Self {
        result["sessionId"] = json!(SESSION);
        self.asked("session/new").answers(result)
    }

    /// Waits for a prompt.
    #[must_use]
    pub fn prompted(self) -> Self {
        self.asked("session/prompt")
    }

    /// Waits for a request.
    #[must_use]
    pub fn asked(mut self, method: &str) -> Self {
        self.last_id += 1;
        let id = self.last_id;
        self.line(Line::Client(json!({"id": id, "method": method})))
    }

    /// Waits for a notification.
    #[must_use]
    pub fn told(self, method: &str) -> Self {
        self.line(Line::Client(json!({"method": method})))
    }

    /// Waits for the answer to a request of the agent.
    #[must_use]
    pub fn answered(self, id: Value) -> Self {
        self.line(Line::Client(json!({"id": id, "result": {}})))
    }

    /// Answers the request that was waited for last.
    #[must_use]
    pub fn answers(self, result: Value) -> Self {
        let id = self.last_id;
        self.says(json!({"id": id, "result": result}))
    }

    /// Answers it with an error.
    #[must_use]
    pub fn refuses(self, code: i64, message: &str) -> Self {
        let id = self.last_id;
        self.says(json!({"id": id, "error": {"code": code, "message": message}}))
    }

    /// Answers a prompt.
    #[must_use]
    pub fn ends(self, stop_reason: &str) -> Self {
        self.answers(json!({"stopReason": stop_reason}))
    }

    /// A whole turn: waits for a prompt, says this, and ends it.
    #[must_use]
    pub fn turn(self, text: &str) -> Self {
        self.prompted().text(text).ends("end_turn")
    }

    /// A chunk of a message, without id.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    }

    /// A new tool call.
    #[must_use]
    pub fn call(self, id: &str, kind: &str, status: &str) -> Self {
        let title = format!("call {id}");
        self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": status,
            "rawInput": {"command": title}}))
    }

    /// What has become of one.
    #[must_use]
    pub fn call_is(self, id: &str, status: &str) -> Self {
        self.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}))
    }

    /// Any update of the session.
    #[must_use]
    pub fn update(self, update: Value) -> Self {
        self.update_of(SESSION, update)
    }

    /// An update of another session.
    #[must_use]
    pub fn update_of(self, session: &str, update: Value) -> Self {
        self.says(json!({"method": "session/update", "params": {"sessionId": session, "update": update}}))
    }

    /// Asks for a permission about this call, with one option to allow and one to reject. Does not wait.
    #[must_use]
    pub fn asks(self, id: Value, call: Value) -> Self {
        let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]);
        self.asks_with(id, call, options)
    }

    /// The same with other options.
    #[must_use]
    pub fn asks_with(self, id: Value, call: Value, options: Value) -> Self {
        self.says(json!({"id": id, "method": "session/request_permission",
            "params": {"sessionId": SESSION, "toolCall": call, "options": options}}))
    }

    /// Any message.
    #[must_use]
    pub fn says(self, mut message: Value) -> Self {
        message["jsonrpc"] = json!("2.0");
        self.line(Line::Agent(message))
    }

    /// A line that need not be a message.
    #[must_use]
    pub fn raw(self, text: impl Into<String>) -> Self {
        self.line(Line::Raw(text.into()))
    }

    /// A line on stderr.
    #[must_use]
    pub fn stderr(self, text: impl Into<String>) -> Self {
        self.line(Line::Stderr(text.into()))
    }

    /// Leaves.
    #[must_use]
    pub fn exits(self, code: i32) -> Self {
        self.line(Line::Exit(code))
    }

    /// Does nothing more, whatever comes.
    #[must_use]
    pub fn stays(self) -> Self {
        self.line(Line::Stay)
    }

    /// A line as it is.
    #[must_use]
    pub fn line(mut self, line: Line) -> Self {
        self.processes.last_mut().expect("there is a process").push(line);
        self
    }

    /// The recording.
    #[must_use]
    pub fn written(&self) -> String {
        written(&self.processes)
    }
}
