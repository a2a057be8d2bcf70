//! A running turn as its steps see it: what it can tell the client, ask it, and leave open.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::{
    command::Captured,
    config::{Config, Mode},
    outbox::Gone,
    peer::Peer,
    session::{Busy, Session},
    text,
};

/// Why a turn ends before its last step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error("the client cancelled the turn")]
    Cancelled,
    #[error("{0}")]
    Failed(String),
    #[error("the turn ends with {0}")]
    Reason(String),
    #[error("the process leaves with code {0}")]
    Crash(u8),
    #[error(transparent)]
    Gone(#[from] Gone),
}

pub(crate) type Step<T = ()> = Result<T, Stop>;

/// What the client said to a permission request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// Not allowed; the text says how.
    Declined(&'static str),
}

/// A tool call as it is announced.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) title: String,
    /// The tool's own name, where it has one.
    pub(crate) name: Option<String>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) raw_input: Value,
    pub(crate) locations: Vec<PathBuf>,
    pub(crate) content: Vec<Value>,
}

/// What the client can do, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientAbilities {
    pub(crate) forms: bool,
}

/// One turn of one session.
pub(crate) struct Turn {
    pub(crate) peer: Peer,
    pub(crate) session: Session,
    pub(crate) busy: Busy,
    pub(crate) abilities: ClientAbilities,
    pub(crate) cwd: PathBuf,
    pub(crate) config: Config,
    pub(crate) number: u64,
    /// Its content blocks as they came.
    pub(crate) prompt: Vec<Value>,
    said_bytes: AtomicU64,
    last_id: AtomicU64,
    open: Mutex<Vec<Open>>,
    late: Mutex<Vec<Value>>,
    late_requests: Mutex<Vec<(String, Value)>>,
}

/// A tool call that must be closed when the turn is cancelled.
struct Open {
    id: String,
    /// The output so far, if it runs a command.
    output: Option<Arc<Mutex<Captured>>>,
}

/// Estimated tokens of so many bytes of text. There is no model here that would count them.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

impl Turn {
    /// A turn of a session that has been taken for it.
    pub(crate) fn new(
        peer: Peer,
        session: Session,
        busy: Busy,
        abilities: ClientAbilities,
        prompt: Vec<Value>,
    ) -> Self {
        let (cwd, config, number) = session.with(|kept| {
            kept.turns += 1;
            (kept.cwd.clone(), kept.config, kept.turns)
        });
        Self {
            peer,
            session,
            busy,
            abilities,
            cwd,
            config,
            number,
            prompt,
            said_bytes: AtomicU64::new(0),
            last_id: AtomicU64::new(0),
            open: Mutex::default(),
            late: Mutex::default(),
            late_requests: Mutex::default(),
        }
    }

    /// An id that is unique in the session, also after it was loaded again.
    pub(crate) fn id(&self, kind: &str) -> String {
        let n = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{kind}-{}-{n}", self.number)
    }

    pub(crate) fn said_bytes(&self) -> u64 {
        self.said_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn count_said(&self, bytes: usize) {
        self.said_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for `work` unless the turn is cancelled first; then `work` is dropped where it stands.
    pub(crate) async fn unless_cancelled<T>(&self, work: impl Future<Output = Step<T>>) -> Step<T> {
        tokio::select! {
            biased;
            () = self.busy.cancel.cancelled() => Err(Stop::Cancelled),
            result = work => result,
        }
    }

    /// Sends an update and remembers it for a replay.
    pub(crate) async fn update(&self, update: Value) -> Step {
        self.peer.update(&self.session.id, &update).await?;
        self.session.with(|kept| kept.history.record(self.number, &update));
        Ok(())
    }

    /// Says a text as a message of its own, in chunks.
    pub(crate) async fn say(&self, words: &str) -> Step {
        self.message("agent_message_chunk", "msg", words).await
    }

    /// Shows a thought, in chunks.
    pub(crate) async fn think(&self, words: &str) -> Step {
        self.message("agent_thought_chunk", "thought", words).await
    }

    async fn message(&self, update: &str, id: &str, words: &str) -> Step {
        let id = self.id(id);
        for piece in text::chunks(words) {
            self.count_said(piece.len());
            self.update(json!({
                "sessionUpdate": update,
                "messageId": id,
                "content": {"type": "text", "text": piece},
            }))
            .await?;
        }
        Ok(())
    }

    /// Says a text as a message of its own, in one chunk.
    pub(crate) async fn whole(&self, text: &str) -> Step {
        self.count_said(text.len());
        self.update(self.message_of(text)).await
    }

    /// The update that says a text as a message of its own.
    pub(crate) fn message_of(&self, text: &str) -> Value {
        json!({
            "sessionUpdate": "agent_message_chunk",
            "messageId": self.id("msg"),
            "content": {"type": "text", "text": text},
        })
    }

    /// Sends the whole plan.
    pub(crate) async fn plan<'a>(&self, entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Step {
        let entries: Vec<Value> = entries
            .into_iter()
            .map(|(status, content)| json!({"content": content, "priority": "medium", "status": status}))
            .collect();
        self.update(json!({"sessionUpdate": "plan", "entries": entries})).await
    }

    /// Names the session.
    pub(crate) async fn title(&self, title: &str) -> Step {
        self.session.with(|kept| kept.title = Some(title.to_owned()));
        self.update(json!({"sessionUpdate": "session_info_update", "title": title})).await
    }

    /// Announces a tool call as pending; it is closed when the turn is cancelled.
    pub(crate) async fn announce(&self, call: &Call) -> Step {
        self.announce_as(call, "pending").await
    }

    pub(crate) async fn announce_as(&self, call: &Call, status: &str) -> Step {
        self.opened(&call.id);
        let mut update = call.fields(status);
        update.insert("sessionUpdate".to_owned(), json!("tool_call"));
        self.update(Value::Object(update)).await
    }

    /// Notes a tool call as open without announcing it.
    pub(crate) fn opened(&self, id: &str) {
        self.open.lock().push(Open { id: id.to_owned(), output: None });
    }

    /// Gives the open call the output that a cancel shall leave in it.
    pub(crate) fn captures(&self, id: &str, output: &Arc<Mutex<Captured>>) {
        if let Some(open) = self.open.lock().iter_mut().find(|open| open.id == id) {
            open.output = Some(output.clone());
        }
    }

    /// Sends an update of a tool call; `fields` is an object.
    pub(crate) async fn progress(&self, id: &str, fields: Value) -> Step {
        let mut update = Map::new();
        update.insert("sessionUpdate".to_owned(), json!("tool_call_update"));
        update.insert("toolCallId".to_owned(), json!(id));
        if let Value::Object(fields) = fields {
            update.extend(fields);
        }
        self.update(Value::Object(update)).await
    }

    /// Sends a tool call's last update: `status`, and whatever else `fields` holds.
    pub(crate) async fn finish(&self, id: &str, status: &str, mut fields: Value) -> Step {
        self.open.lock().retain(|open| open.id != id);
        fields["status"] = json!(status);
        self.progress(id, fields).await
    }

    /// Closes a tool call that did not do what it should.
    pub(crate) async fn fail(&self, id: &str, reason: &str) -> Step {
        self.finish(id, "failed", json!({"content": [content(reason)]})).await
    }

    /// Closes a tool call that was not allowed.
    pub(crate) async fn declined(&self, id: &str, how: &str) -> Step {
        self.finish(id, "failed", json!({"content": [content(how)], "rawOutput": {"declined": true}})).await
    }

    /// Asks whether the call may be made. `rule` names what an "always" answer stands for: it is kept in the
    /// session and asked for no more.
    pub(crate) async fn permission(&self, call: &Call, rule: &str) -> Step<Decision> {
        if self.config.mode == Mode::Look {
            return Ok(Decision::Declined("Not done: the mode is `look`."));
        }
        if self.session.with(|kept| kept.always.contains(rule)) {
            return Ok(Decision::Allowed);
        }
        let options = json!([
            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": format!("Always allow this {}", call.noun()), "kind": "allow_always"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ]);
        Ok(match self.choose(call, &options).await?.as_deref() {
            Some("allow") => Decision::Allowed,
            Some("always") => {
                self.session.with(|kept| kept.always.insert(rule.to_owned()));
                Decision::Allowed
            }
            Some(_) => Decision::Declined("Declined by the client."),
            None => Decision::Declined("Not allowed: the client answered without choosing an option."),
        })
    }

    /// Sends a permission request; the id of the chosen option, or `None` for `cancelled`, an error, or an
    /// answer that makes no sense.
    pub(crate) async fn choose(&self, call: &Call, options: &Value) -> Step<Option<String>> {
        let params = json!({
            "sessionId": &*self.session.id,
            "toolCall": call.fields("pending"),
            "options": options,
        });
        let answer = self.peer.request("session/request_permission", &params).await?;
        let outcome = match &answer {
            Ok(result) => &result["outcome"],
            Err(_) => &Value::Null,
        };
        Ok((outcome["outcome"] == "selected")
            .then(|| outcome["optionId"].as_str().map(str::to_owned))
            .flatten())
    }

    /// Keeps an update until the prompt has been answered.
    pub(crate) fn later(&self, update: Value) {
        self.late.lock().push(update);
    }

    /// Keeps a request until the prompt has been answered.
    pub(crate) fn request_later(&self, method: String, params: Value) {
        self.late_requests.lock().push((method, params));
    }

    pub(crate) fn take_late_requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.late_requests.lock())
    }

    /// Leaves a tool call open for good: the end of the turn does not close it.
    pub(crate) fn abandon(&self, id: &str) {
        self.open.lock().retain(|open| open.id != id);
    }

    pub(crate) fn take_late(&self) -> Vec<Value> {
        std::mem::take(&mut self.late.lock())
    }

    /// Closes what the turn left open: a cancelled turn leaves no call in progress.
    pub(crate) async fn close_open(&self) -> Step {
        let open = std::mem::take(&mut *self.open.lock());
        for call in open {
            let output = call.output.map(|output| output.lock().text());
            let words = match &output {
                Some(output) if !output.is_empty() => format!("{output}\n[cancelled]"),
                _ => "Cancelled.".to_owned(),
            };
            let mut fields = json!({
                "status": "failed", "content": [content(&words)], "rawOutput": {"cancelled": true},
            });
            if output.is_some() {
                fields["_meta"] = json!({
                    "terminal_exit": {"terminal_id": call.id, "exit_code": null, "signal": "SIGKILL"},
                });
            }
            self.progress(&call.id, fields).await?;
        }
        Ok(())
    }

    /// The path as an absolute one.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.cwd.join(Path::new(path))
    }
}

impl Call {
    /// A call without input, places or content.
    pub(crate) fn new(id: String, title: impl Into<String>, kind: Option<&'static str>) -> Self {
        Self {
            id,
            title: title.into(),
            name: None,
            kind,
            raw_input: Value::Null,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn noun(&self) -> &'static str {
        match self.kind {
            Some("edit") => "edit",
            Some("delete") => "deletion",
            _ => "command",
        }
    }

    fn fields(&self, status: &str) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("toolCallId".to_owned(), json!(self.id));
        fields.insert("title".to_owned(), json!(self.title));
        fields.insert("status".to_owned(), json!(status));
        if let Some(name) = &self.name {
            fields.insert("name".to_owned(), json!(name));
        }
        if let Some(kind) = self.kind {
            fields.insert("kind".to_owned(), json!(kind));
        }
        if !self.raw_input.is_null() {
            fields.insert("rawInput".to_owned(), self.raw_input.clone());
        }
        if !self.locations.is_empty() {
            let places: Vec<Value> = self.locations.iter().map(|path| json!({"path": path})).collect();
            fields.insert("locations".to_owned(), json!(places));
        }
        if !self.content.is_empty() {
            fields.insert("content".to_owned(), json!(self.content));
        }
        fields
    }
}

/// A text block as tool call content.
pub(crate) fn content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}
