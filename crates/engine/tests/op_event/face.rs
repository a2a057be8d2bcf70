//! The stage of these tests: one server with real agent processes, spoken to in the JSON of Ops and heard in that of Events.
//!
//! The server has a runtime of its own, so it can be killed. Every event that is heard is checked against the laws of
//! [`super::laws`] and against the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Attending, Catalog, Engine, EngineConfig, Limits, OpEvent, OpEvents, OpEventsError, Origin,
    ProviderEntry, Unattended, base_environment,
};
use signalbox_facts::{Fact, Provider, SessionId, SessionRow};
use signalbox_protocol::ops::decode_op;
use signalbox_store::{FailPoints, Store, StoreOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::laws::Laws;

/// Longest wait for anything; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Providers that are the rehearsal agent with a bad start, named after it.
const STARTS: [&str; 7] = ["hang", "hang-new", "hang-load", "no-new", "no-load", "load-only", "exit:7"];

pub struct Face {
    pub engine: Engine,
    /// Trouble with the disk.
    pub fail: FailPoints,
    pub laws: Laws,
    /// All events so far, those before a restart included.
    pub log: Vec<Value>,
    store: Store,
    runtime: Option<Runtime>,
    folder: Option<TempDir>,
    events: OpEvents,
    /// Somebody is there who could answer.
    _attending: Attending,
    limits: Limits,
    rest: Duration,
    barriers: u32,
}

/// Small enough that a test which waits for one is quick, large enough that a busy machine does not reach the others.
pub fn limits() -> Limits {
    Limits { cancel: Duration::from_millis(500), stop_grace: Duration::from_millis(200), ..Limits::default() }
}

fn agent() -> String {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().unwrap().parent().unwrap();
    target.join("examples/scripted_agent").to_str().unwrap().to_owned()
}

fn catalog(folder: &TempDir) -> Catalog {
    let entry = |name: &str, start: &str| {
        let mut entry = ProviderEntry::custom(name, name, vec![agent()]);
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        entry.env = BTreeMap::from([
            ("SIGNALBOX_REHEARSAL_STATE".to_owned(), file("agent-memory")),
            ("SIGNALBOX_REHEARSAL_HEARD".to_owned(), file("heard")),
            ("SIGNALBOX_REHEARSAL_START".to_owned(), start.to_owned()),
        ]);
        entry
    };
    let mut all: Vec<_> = STARTS.iter().map(|start| entry(start, start)).collect();
    all.push(entry("rehearsal", ""));
    all.push(ProviderEntry::custom("missing", "Missing", vec!["no-such-program-anywhere".to_owned()]));
    let path = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    Catalog::new(all, Provider::new("rehearsal"), base_environment(), path)
}

impl Face {
    pub async fn new() -> Self {
        Self::with_limits(limits()).await
    }

    pub async fn with_limits(limits: Limits) -> Self {
        Self::start(tempfile::tempdir().unwrap(), limits, Laws::default(), Duration::from_secs(1800)).await
    }

    /// One whose sessions leave memory whenever they have nothing to do.
    pub async fn restless() -> Self {
        Self::start(tempfile::tempdir().unwrap(), limits(), Laws::default(), Duration::ZERO).await
    }

    async fn start(folder: TempDir, limits: Limits, laws: Laws, rest: Duration) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fail = FailPoints::default();
        let options = StoreOptions { fail_points: fail.clone(), ..StoreOptions::default() };
        let file = folder.path().join("facts.db");
        let config = EngineConfig {
            catalog: catalog(&folder),
            limits: limits.clone(),
            agents: signalbox_engine::Supervisor::default(),
            blobs: Some(folder.path().join("blobs")),
            worktrees: folder.path().join("worktrees"),
            idle_agent: Duration::from_secs(600),
            idle_session: rest,
            ephemeral_bytes: signalbox_engine::EPHEMERAL_BYTES,
            sources: Sources::default(),
            known: None,
            unattended: Unattended::Wait,
            // Nobody on this face reads the streams of single sessions.
            on_load: Box::new(drop),
            now_ms: signalbox_engine::wall_clock_ms,
        };
        let started = runtime.spawn(async move {
            let store = Store::open_with(&file, options).await.unwrap();
            (Engine::start(store.clone(), config).await.unwrap(), store)
        });
        let (engine, store) = started.await.unwrap();
        let (events, attending) = (engine.op_events(), engine.attend(None));
        Self {
            engine,
            fail,
            laws,
            log: Vec::new(),
            store,
            runtime: Some(runtime),
            folder: Some(folder),
            events,
            _attending: attending,
            limits,
            rest,
            barriers: 0,
        }
    }

    /// Runs something in the server.
    pub async fn inside<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.as_ref().unwrap().spawn(work).await.unwrap()
    }

    /// Ends the server as a signal would, and starts another one on the same store.
    pub async fn restarts(mut self) -> Self {
        let (engine, store) = (self.engine.clone(), self.store.clone());
        self.inside(async move { engine.shutdown().await }).await;
        self.until_closed().await;
        self.inside(async move { store.close().await }).await;
        self.begins_again(false).await
    }

    /// Ends the server as SIGKILL would, and starts another one on the same store.
    pub async fn dies(mut self) -> Self {
        // What was told before the end was told.
        self.told().await;
        self.begins_again(true).await
    }

    async fn begins_again(mut self, killed: bool) -> Self {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
        let folder = self.folder.take().unwrap();
        let laws = std::mem::take(&mut self.laws);
        let (limits, rest, log) = (self.limits.clone(), self.rest, std::mem::take(&mut self.log));
        drop(self);
        // A killed process writes no more. Here the threads of its database finish what they are at, and only then is it dead.
        while is_open(folder.path()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut face = Self::start(folder, limits, laws, rest).await;
        face.log = log;
        for session in face.laws.sessions() {
            let row = face.row(&session).await;
            face.laws.found_again(&session, &row, killed);
        }
        face
    }

    // ---- in ----

    /// Sends an Op as a client does: as text.
    pub async fn sends(&self, op: Value) {
        let op = decode_op(&op.to_string()).unwrap();
        let origin = Origin { client: Some("tester".to_owned()), ..Origin::default() };
        let engine = self.engine.clone();
        self.inside(async move { engine.dispatch_op(op, origin).await }).await;
    }

    pub async fn prompts(&self, session: &str, script: &str, request_id: &str) {
        self.sends(json!({
            "op": "prompt", "session": session, "request_id": request_id,
            "doc": [{"type": "text", "text": script}],
        }))
        .await;
    }

    pub async fn answers(&self, session: &str, request: &Value, option: Option<&str>) {
        let id = request.get("input_id").unwrap_or(&request["request_id"]);
        self.sends(json!({
            "op": "answer_permission", "session": session, "request_id": id, "option_id": option,
        }))
        .await;
    }

    pub async fn sets_policy(&mut self, session: &str, mode: &str, sandbox: &str) {
        self.sends(
            json!({"op": "set_execution_policy", "session": session, "mode": mode, "sandbox": sandbox}),
        )
        .await;
        self.next("execution_policy_changed").await;
    }

    pub async fn new_session(&mut self) -> String {
        self.new_session_of("rehearsal").await
    }

    pub async fn new_session_of(&mut self, provider: &str) -> String {
        let work = self.work();
        self.creates(json!({"provider": {"custom": provider}, "cwd": work, "use_worktree": false})).await
    }

    /// Creates a session with these fields and waits for it.
    pub async fn creates(&mut self, mut fields: Value) -> String {
        fields["op"] = json!("new_session");
        self.sends(fields).await;
        let created = self.next("session_created").await;
        created["session"].as_str().unwrap().to_owned()
    }

    // ---- out ----

    async fn next_or_end(&mut self) -> Option<Value> {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("nothing was told");
        let event = match event {
            Ok(event) => event,
            Err(OpEventsError::Closed) => return None,
            Err(error) => panic!("{error}"),
        };
        Some(self.check(&event).await)
    }

    /// Checks one event, whoever waited for it.
    async fn check(&mut self, event: &OpEvent) -> Value {
        let value: Value = serde_json::from_str(event.json()).unwrap();
        if let (Some(seq), Some(session)) = (event.seq, event.event.session()) {
            // Committed, then visible.
            if let Some(row) = self.row_if_any(session).await {
                assert!(row.last_seq >= seq, "{value} was told before it was stored");
            }
        }
        self.laws.obey(&value);
        self.log.push(value.clone());
        value
    }

    /// The next event, whatever it is.
    pub async fn hears(&mut self) -> Value {
        self.next_or_end().await.expect("the server ended")
    }

    /// Everything up to and with the first that fits.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let event = self.hears().await;
            let found = fits(&event);
            heard.push(event);
            if found {
                return heard;
            }
        }
    }

    /// The next event of this session.
    pub async fn next_of(&mut self, session: &str) -> Value {
        self.until(|event| event["session"] == session).await.pop().unwrap()
    }

    /// Hears what the session tells next, unless it is silent for a while: agents may hang.
    pub async fn listens_a_little(&mut self, session: &str) {
        // Dropping a wait loses nothing: an event is taken and checked without one in between.
        let heard = tokio::time::timeout(Duration::from_millis(150), self.events.recv()).await;
        if let Ok(Ok(event)) = heard {
            let value = self.check(&event).await;
            if value["session"] != session {
                self.told().await;
            }
        }
    }

    /// The next event of this name; those before it are skipped.
    pub async fn next(&mut self, name: &str) -> Value {
        self.until(|event| event["event"] == name).await.pop().unwrap()
    }

    /// The next activity of this kind.
    pub async fn next_activity(&mut self, kind: &str) -> Value {
        let is = |event: &Value| event["activity"]["state"]["kind"] == kind;
        self.until(is).await.pop().unwrap()["activity"].take()
    }

    /// Everything up to the end of the session's turn.
    pub async fn until_end(&mut self, session: &str) -> Vec<Value> {
        self.until(|event| event["session"] == session && is_end(event)).await
    }

    /// One turn from its prompt to its end.
    pub async fn turn(&mut self, session: &str, script: &str) -> Vec<Value> {
        self.prompts(session, script, "turn").await;
        self.until_end(session).await
    }

    /// What the session tells of everything that was sent so far, and no more: it has answered a question behind it in both
    /// of its queues.
    pub async fn quiet(&mut self, session: &str) -> Vec<Value> {
        self.barriers += 1;
        let id = format!("barrier-{}", self.barriers);
        self.sends(json!({"op": "thread_settings", "session": session, "request_id": id})).await;
        let mut heard = self.until(|event| event["request_id"] == id.as_str()).await;
        heard.pop();
        let row = self.row(session).await;
        let policy = serde_json::to_value(signalbox_engine::convert::policy_out(row.policy)).unwrap();
        self.barriers += 1;
        let id = format!("barrier-{}", self.barriers);
        self.sends(json!({
            "op": "set_execution_policy", "session": session, "request_id": id,
            "mode": policy["mode"], "sandbox": policy["sandbox"],
        }))
        .await;
        heard.extend(self.until(|event| event["request_id"] == id.as_str()).await);
        heard.pop();
        heard
    }

    /// What is told already.
    pub async fn told(&mut self) -> Vec<Value> {
        let mut heard = Vec::new();
        while let Some(event) = self.events.try_recv() {
            heard.push(self.check(&event.unwrap()).await);
        }
        heard
    }

    /// Everything that is still told until the server has ended.
    pub async fn until_closed(&mut self) -> Vec<Value> {
        let mut heard = Vec::new();
        while let Some(event) = self.next_or_end().await {
            heard.push(event);
        }
        heard
    }

    // ---- around ----

    pub fn folder(&self) -> PathBuf {
        self.folder.as_ref().unwrap().path().canonicalize().unwrap()
    }

    /// The directory of the sessions.
    pub fn work(&self) -> PathBuf {
        let work = self.folder().join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    async fn row_if_any(&self, session: &str) -> Option<SessionRow> {
        let id: SessionId = session.parse().ok()?;
        let engine = self.engine.clone();
        self.inside(async move { engine.reader().session(id).await }).await.unwrap()
    }

    /// The session as stored.
    pub async fn row(&self, session: &str) -> SessionRow {
        self.row_if_any(session).await.expect("the session is stored")
    }

    /// The session as listed.
    pub async fn snapshot(&self, session: &str) -> Value {
        serde_json::to_value(signalbox_engine::convert::snapshot_out(&self.row(session).await)).unwrap()
    }

    /// All facts of a session.
    pub async fn facts(&self, session: &str) -> Vec<Fact> {
        let id: SessionId = session.parse().unwrap();
        let engine = self.engine.clone();
        self.inside(async move { engine.reader().facts(id, 0, u64::MAX >> 1).await }).await.unwrap()
    }

    /// The newest page of a session's transcript.
    pub async fn page(&self, session: &str) -> signalbox_engine::transcript::TranscriptPage {
        let (engine, session) = (self.engine.clone(), session.to_owned());
        let page = self.inside(async move {
            signalbox_engine::transcript::page(engine.reader(), &session, None, None).await
        });
        page.await.unwrap()
    }

    /// Kills every agent process of this stage, as the system would.
    pub fn kills_agents(&self) {
        let mark = format!("SIGNALBOX_REHEARSAL_HEARD={}", self.folder().join("heard").display());
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            let ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
            if let (true, Some(pid)) = (ours, process.file_name().to_str()) {
                // It may have gone by itself meanwhile.
                drop(Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status());
            }
        }
    }

    /// The messages that agents have got so far, in order.
    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder().join("heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The params of this method's requests among them.
    pub fn heard_of(&self, method: &str) -> Vec<Value> {
        let heard = self.heard().into_iter().filter(|message| message["method"] == method);
        heard.map(|mut message| message["params"].take()).collect()
    }

    /// The answers that agents got to their own requests, in the order in which they had asked.
    pub fn answers_heard(&self) -> Vec<Value> {
        let mut answers: Vec<_> =
            self.heard().into_iter().filter(|message| message["method"].is_null()).collect();
        answers.sort_by_key(|message| message["id"].as_u64());
        answers.into_iter().map(|mut message| message["result"].take()).collect()
    }

    /// Another listener, from now on.
    pub fn listens_too(&self) -> OpEvents {
        self.engine.op_events()
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether this process has a file of the folder's database open.
fn is_open(folder: &Path) -> bool {
    let file = folder.join("facts.db").display().to_string();
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| target.starts_with(&file)))
}

/// Whether a client may clear the running state.
pub fn is_end(event: &Value) -> bool {
    event["event"] == "turn_ended" || event["event"] == "error" && event["terminal"] == true
}

/// The names of events, in order.
pub fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// Those of this name.
pub fn only<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// Their one of this name.
pub fn the<'a>(events: &'a [Value], name: &str) -> &'a Value {
    let all = only(events, name);
    assert_eq!(all.len(), 1, "{name} in {:?}", names(events));
    all[0]
}

/// Revision and state of each activity.
pub fn trace(events: &[Value]) -> Vec<String> {
    let activities = only(events, "session_activity_changed").into_iter().map(|event| &event["activity"]);
    activities
        .map(|activity| {
            let state = &activity["state"];
            let pending = state["pending"].as_array().map(|pending| format!(" {}", pending.len()));
            format!(
                "{} {}{}",
                activity["revision"],
                state["kind"].as_str().unwrap(),
                pending.unwrap_or_default()
            )
        })
        .collect()
}

/// All that the agent said.
pub fn said(events: &[Value]) -> String {
    only(events, "agent_text").into_iter().map(|event| event["text"].as_str().unwrap()).collect()
}

/// The event without its message, which is for people.
pub fn wordless(event: &Value) -> Value {
    let mut event = event.clone();
    let message = event.as_object_mut().unwrap().remove("message");
    assert!(message.is_some_and(|message| !message.as_str().unwrap().is_empty()));
    event
}

/// A script that asks for permission in these words: tool kind (none if null), title, locations and options as given.
pub fn permit(calls: &[Value]) -> String {
    permit_as("send-request", calls)
}

/// The same with another directive.
pub fn permit_as(directive: &str, calls: &[Value]) -> String {
    let requests: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(n, call)| {
            let mut tool = json!({"toolCallId": format!("asked-{n}"), "title": "Asked", "status": "pending"});
            let options = json!([
                {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
            ]);
            let mut call = call.as_object().unwrap().clone();
            let options = call.remove("options").unwrap_or(options);
            let meta = call.remove("_meta");
            tool.as_object_mut().unwrap().extend(call);
            let mut request = json!({"toolCall": tool, "options": options});
            if let Some(meta) = meta {
                request["_meta"] = meta;
            }
            request
        })
        .collect();
    format!("{directive} session/request_permission {}", Value::Array(requests))
}
