//! A client for the tests: it talks to the agent over in-memory pipes, judges every frame by the protocol's own
//! types, and tells what happened as a story of `→` and `←` lines.
#![allow(dead_code, reason = "each test program uses its part")]

use std::{collections::VecDeque, fmt::Write as _, path::Path, time::Duration};

use agent_client_protocol_schema::v1;
use serde_json::{Value, json};
use signalbox_rehearsal::{Exit, Options, serve};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

/// No test waits longer for a frame; nothing here depends on how long it is.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    pub(crate) to_agent: Option<DuplexStream>,
    from_agent: BufReader<DuplexStream>,
    agent: JoinHandle<Exit>,
    last_id: u64,
    pub(crate) session: String,
    cwd: String,
    pub(crate) story: Vec<String>,
    early: VecDeque<Value>,
}

/// What one prompt led to.
pub(crate) struct Played {
    pub(crate) updates: Vec<Value>,
    pub(crate) requests: Vec<Value>,
    pub(crate) answer: Value,
    pub(crate) story: String,
}

impl Client {
    /// Starts an agent and says nothing to it yet.
    pub(crate) fn connect(options: Options) -> Self {
        let (to_agent, input) = tokio::io::duplex(64 * 1024);
        let (output, from_agent) = tokio::io::duplex(64 * 1024);
        let agent = TaskTracker::new().spawn(serve(input, output, options));
        Self {
            to_agent: Some(to_agent),
            from_agent: BufReader::new(from_agent),
            agent,
            last_id: 0,
            session: String::new(),
            cwd: String::new(),
            story: Vec::new(),
            early: VecDeque::new(),
        }
    }

    /// An agent with one session in `cwd`, ready for a prompt.
    pub(crate) async fn in_folder(cwd: &Path) -> Self {
        Self::with_options(cwd, Options::default()).await
    }

    pub(crate) async fn with_options(cwd: &Path, options: Options) -> Self {
        let mut client = Self::connect(options);
        client.initialize(json!({})).await;
        client.open(cwd).await;
        client
    }

    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let result = self.call("initialize", params).await["result"].clone();
        serde_json::from_value::<v1::InitializeResponse>(result.clone()).expect("an initialize result");
        result
    }

    pub(crate) async fn open(&mut self, cwd: &Path) -> Value {
        self.cwd = cwd.display().to_string();
        let answer = self.call("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        let result = answer["result"].clone();
        serde_json::from_value::<v1::NewSessionResponse>(result.clone()).expect("a session/new result");
        self.session = result["sessionId"].as_str().unwrap().to_owned();
        result
    }

    pub(crate) async fn raw(&mut self, line: &[u8]) {
        let to_agent = self.to_agent.as_mut().expect("the input is open");
        to_agent.write_all(line).await.unwrap();
        to_agent.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.raw(message.to_string().as_bytes()).await;
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// A request and its answer; what comes between is kept for the next reader.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let mut between = VecDeque::new();
        loop {
            let frame = self.frame().await;
            if frame["id"] == id && frame.get("method").is_none() {
                between.append(&mut self.early);
                self.early = between;
                return frame;
            }
            between.push_back(frame);
        }
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub(crate) async fn cancel(&mut self) {
        self.story.push("→ cancel".to_owned());
        self.notify("session/cancel", json!({"sessionId": self.session})).await;
    }

    pub(crate) async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// The next line, whatever it is; `None` at the end of the agent's output.
    pub(crate) async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let read = self.from_agent.read_until(b'\n', &mut line);
        tokio::time::timeout(PATIENCE, read).await.expect("the agent is silent").unwrap();
        let ended = line.pop();
        ended.map(|_| line)
    }

    /// The next frame, judged.
    pub(crate) async fn frame(&mut self) -> Value {
        if let Some(frame) = self.early.pop_front() {
            return frame;
        }
        let line = self.line().await.expect("the agent's output has ended");
        let frame: Value = serde_json::from_slice(&line).expect("a JSON line");
        judge(&frame);
        let told = self.tell(&frame);
        self.story.push(told);
        frame
    }

    /// Reads until a frame is as wished, and gives that one.
    pub(crate) async fn until(&mut self, wished: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().await;
            if wished(&frame) {
                return frame;
            }
        }
    }

    /// Sends a prompt without waiting for anything.
    pub(crate) async fn prompt(&mut self, text: &str) -> Value {
        self.story.clear();
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.request("session/prompt", params).await
    }

    /// Sends a prompt and reads to its answer; every request is answered by `decide`.
    pub(crate) async fn play(&mut self, text: &str, decide: impl Fn(&Value) -> Value) -> Played {
        let id = self.prompt(text).await;
        self.finish(&id, decide).await
    }

    /// Reads on to a prompt's answer.
    pub(crate) async fn finish(&mut self, id: &Value, decide: impl Fn(&Value) -> Value) -> Played {
        let (mut updates, mut requests) = (Vec::new(), Vec::new());
        loop {
            let frame = self.frame().await;
            if frame["method"] == "session/update" {
                updates.push(frame["params"]["update"].clone());
            } else if frame.get("method").is_some() {
                let result = decide(&frame);
                self.story.push(format!("→ {}", tell_answer(&result)));
                self.reply(&frame, result).await;
                requests.push(frame);
            } else if frame["id"] == *id {
                let story = self.take_story();
                return Played { updates, requests, answer: frame, story };
            } else {
                panic!("an answer to nothing: {frame}");
            }
        }
    }

    /// What happened since the last prompt began.
    pub(crate) fn take_story(&mut self) -> String {
        let mut story = std::mem::take(&mut self.story).join("\n");
        story.push('\n');
        story
    }

    /// Closes the agent's input and waits for its end.
    pub(crate) async fn leave(mut self) -> Exit {
        self.to_agent = None;
        self.ended().await
    }

    /// Reads what is left and waits for the agent's end.
    pub(crate) async fn ended(mut self) -> Exit {
        while self.line().await.is_some() {}
        tokio::time::timeout(PATIENCE, self.agent).await.expect("the agent does not end").unwrap()
    }

    fn tell(&self, frame: &Value) -> String {
        tell(frame).replace(&self.cwd, "CWD")
    }
}

impl Played {
    /// All that the agent said, joined.
    pub(crate) fn said(&self) -> String {
        self.chunks("agent_message_chunk").concat()
    }

    pub(crate) fn chunks(&self, kind: &str) -> Vec<String> {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        chunks.map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The last update of a kind.
    pub(crate) fn last(&self, kind: &str) -> &Value {
        self.updates.iter().rfind(|update| update["sessionUpdate"] == kind).expect("such an update")
    }

    /// The output deltas of all commands, joined.
    pub(crate) fn output(&self) -> String {
        let deltas = self.updates.iter().map(|update| &update["_meta"]["terminal_output_delta"]["data"]);
        deltas.filter_map(Value::as_str).collect()
    }

    pub(crate) fn stop_reason(&self) -> &str {
        self.answer["result"]["stopReason"].as_str().expect("a stop reason")
    }
}

fn option(id: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": id}})
}

/// Allows what is asked, once.
pub(crate) fn allow(_: &Value) -> Value {
    option("allow")
}

pub(crate) fn always(_: &Value) -> Value {
    option("always")
}

pub(crate) fn reject(_: &Value) -> Value {
    option("reject")
}

pub(crate) fn dismiss(_: &Value) -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

/// For prompts that must ask nothing.
pub(crate) fn never(request: &Value) -> Value {
    panic!("nothing should be asked here: {request}")
}

/// A FIFO named `life` that commands keep open: it ends when the last process that holds it is gone.
pub(crate) struct Life {
    ended: tokio::sync::oneshot::Receiver<()>,
}

impl Life {
    /// Makes the FIFO; a command takes hold of it with `exec 3>life`.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let path = folder.join("life");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (end, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // Opening waits for the first holder, reading for the end of the last.
            let text = std::fs::read(path).unwrap();
            assert!(text.is_empty());
            let _ = end.send(());
        });
        Self { ended }
    }

    /// Waits until no process holds it any more.
    pub(crate) async fn ends(self) {
        tokio::time::timeout(PATIENCE, self.ended).await.expect("a process goes on").unwrap();
    }

    pub(crate) fn goes_on(&mut self) -> bool {
        self.ended.try_recv().is_err()
    }
}

/// Parses the frame with the protocol's own types, and looks that nothing was dropped on the way.
fn judge(frame: &Value) {
    assert_eq!(frame["jsonrpc"], "2.0");
    let params = frame["params"].clone();
    match frame["method"].as_str() {
        Some("session/update") => {
            let parsed: v1::SessionNotification =
                serde_json::from_value(params.clone()).unwrap_or_else(|error| panic!("{error}: {frame}"));
            assert_same(&serde_json::to_value(parsed).unwrap(), &params);
        }
        Some("session/request_permission") => {
            let parsed: v1::RequestPermissionRequest =
                serde_json::from_value(params.clone()).unwrap_or_else(|error| panic!("{error}: {frame}"));
            assert_same(&serde_json::to_value(parsed).unwrap(), &params);
        }
        Some("elicitation/create") => {
            let parsed: v1::CreateElicitationRequest =
                serde_json::from_value(params.clone()).unwrap_or_else(|error| panic!("{error}: {frame}"));
            assert_same(&serde_json::to_value(parsed).unwrap(), &params);
        }
        Some(other) => panic!("a method that no client knows: {other}"),
        None => assert!(frame["result"].is_null() != frame["error"].is_null(), "{frame}"),
    }
}

/// What we sent must survive a round trip through the protocol's types; defaults may be left out.
fn assert_same(parsed: &Value, sent: &Value) {
    match (parsed, sent) {
        (Value::Object(parsed), Value::Object(sent)) => {
            for (key, value) in sent {
                match parsed.get(key) {
                    Some(other) => assert_same(other, value),
                    None => assert!(
                        matches!(
                            (key.as_str(), value.as_str()),
                            ("status", Some("pending")) | ("kind", Some("other"))
                        ) || value.is_null()
                            || *value == json!([]),
                        "the protocol does not know `{key}`: {value}"
                    ),
                }
            }
        }
        (Value::Array(parsed), Value::Array(sent)) => {
            assert_eq!(parsed.len(), sent.len(), "{parsed:?} and {sent:?}");
            parsed.iter().zip(sent).for_each(|(parsed, sent)| assert_same(parsed, sent));
        }
        _ => assert_eq!(parsed, sent),
    }
}

/// One frame as a line of a story.
fn tell(frame: &Value) -> String {
    let mut line = String::from("←");
    let mut put = |text: String| write!(line, " {text}").unwrap();
    match frame["method"].as_str() {
        Some("session/update") => {
            let update = &frame["params"]["update"];
            let kind = update["sessionUpdate"].as_str().unwrap();
            put(kind.to_owned());
            for key in ["messageId", "toolCallId", "kind", "status", "title"] {
                if let Some(text) = update[key].as_str() {
                    put(if key == "title" { format!("{text:?}") } else { text.to_owned() });
                }
            }
            for key in ["name", "rawOutput", "entries", "used", "size", "currentModeId"] {
                if !update[key].is_null() {
                    put(format!("{key}={}", update[key]));
                }
            }
            tell_content(&update["content"], &mut put);
            let meta = update["_meta"].as_object();
            for (key, value) in meta.into_iter().flatten() {
                match value["data"].as_str() {
                    Some(data) => put(format!("+{data:?}")),
                    None if key == "terminal_exit" => {
                        put(format!("exit={} signal={}", value["exit_code"], value["signal"]));
                    }
                    None => put(key.clone()),
                }
            }
        }
        Some("session/request_permission") => {
            let params = &frame["params"];
            let options: Vec<&str> = params["options"]
                .as_array()
                .unwrap()
                .iter()
                .map(|o| o["optionId"].as_str().unwrap())
                .collect();
            let call = &params["toolCall"];
            put(format!("permission? {} {}", call["toolCallId"].as_str().unwrap(), options.join("|")));
            put(format!("{} {}", call["kind"], call["title"]));
        }
        Some(method) => put(format!("{method} {}", frame["params"]["message"])),
        None if frame["error"].is_null() => put(format!("answer {}", tell_result(&frame["result"]))),
        None => put(format!("error {} {}", frame["error"]["code"], frame["error"]["message"])),
    }
    line
}

fn tell_result(result: &Value) -> String {
    result["stopReason"].as_str().unwrap_or("…").to_owned()
}

fn tell_content(content: &Value, put: &mut impl FnMut(String)) {
    if let Some(text) = content["text"].as_str() {
        put(format!("{text:?}"));
    }
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str().unwrap() {
            "content" => put(format!("[{:?}]", block["content"]["text"].as_str().unwrap())),
            "diff" => put(format!("diff({} {} → {})", block["path"], block["oldText"], block["newText"])),
            other => put(other.to_owned()),
        }
    }
}

fn tell_answer(result: &Value) -> String {
    let outcome = &result["outcome"];
    let word = outcome["optionId"].as_str().or(outcome["outcome"].as_str()).or(result["action"].as_str());
    word.unwrap_or("…").to_owned()
}
