//! What the tests share: a server on a temporary store, and clients that remember every frame.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_app_server::{AppInfo, AppServer, Hubs};
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Catalog, Engine, EngineConfig, ForAll, Limits, McpEntry, McpReach, ProviderEntry, SessionStream,
    base_environment, wall_clock_ms,
};
use signalbox_facts::Provider;
use signalbox_rpc::{ConnOptions, Connection, MemoryClient, Peer, Role, Service, memory};
use signalbox_store::Store;
use tempfile::TempDir;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it should have happened by now")
}

/// A server with its home; the folder goes when the test ends.
pub(crate) struct Stage {
    pub(crate) app: AppServer,
    /// Where the next session that is loaded gets its commits from, instead of from the engine.
    pub(crate) feed: Feeds,
    pub(crate) folder: TempDir,
    service: Service,
}

/// What takes the engine's place in one session: gets the session's own stream, and gives the one that is shown.
pub(crate) type Feed = Box<dyn FnOnce(SessionStream) -> SessionStream + Send>;
pub(crate) type Feeds = Arc<Mutex<Option<Feed>>>;

/// Cargo builds examples before tests, beside them.
fn agent() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/app-server-agent");
    assert!(path.exists(), "run `cargo build -p signalbox-app-server --examples` first");
    path
}

/// MCP servers that agents of `with_servers` cannot be told of.
fn mcp_servers() -> Vec<McpEntry> {
    let entry = |name: &str, reach| McpEntry {
        name: name.to_owned(),
        providers: vec![Provider::new("with_servers")],
        reach,
    };
    let broken = McpReach::Stdio {
        command: "/no/such/server".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        env_vars: Vec::new(),
    };
    let remote = McpReach::Url {
        url: "http://127.0.0.1:1/sse".to_owned(),
        sse: true,
        headers: BTreeMap::new(),
        env_headers: BTreeMap::new(),
        bearer: None,
    };
    vec![entry("broken", broken), entry("remote", remote)]
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    /// A server on the folder of an earlier one.
    pub(crate) async fn open(folder: TempDir) -> Self {
        Self::open_with(folder, Duration::from_secs(1800)).await
    }

    /// A server whose threads leave memory after this rest.
    pub(crate) async fn resting(rest: Duration) -> Self {
        Self::open_with(tempfile::tempdir().unwrap(), rest).await
    }

    async fn open_with(folder: TempDir, rest: Duration) -> Self {
        let project = folder.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        let store = Store::open(&folder.path().join("test.db")).await.unwrap();
        let hubs = Hubs::new(store.reader.clone(), AppInfo::new(folder.path().to_owned(), project));
        let feed = Feeds::default();
        let missing = vec!["/no/such/agent".to_owned()];
        let mut rehearsal =
            ProviderEntry::custom("rehearsal", "Rehearsal", vec![agent().display().to_string()]);
        let mut late = ProviderEntry::custom("late", "Late", vec![agent().display().to_string()]);
        late.env = BTreeMap::from([("SIGNALBOX_REHEARSAL_START".to_owned(), "late-choices".to_owned())]);
        late.log_traffic = Some(true);
        let logs = folder.path().join("logs");
        std::fs::create_dir_all(&logs).unwrap();
        let state = folder.path().join("agent-memory").display().to_string();
        rehearsal.env = BTreeMap::from([("SIGNALBOX_REHEARSAL_STATE".to_owned(), state)]);
        let with_servers =
            ProviderEntry::custom("with_servers", "With servers", vec![agent().display().to_string()]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/login-agent.sh");
        let mut gate = ProviderEntry::custom("gate", "Gate", vec![script.to_owned()]);
        let login_file = folder.path().join("logged-in").display().to_string();
        gate.env = BTreeMap::from([("LOGIN_FILE".to_owned(), login_file)]);
        let missing = ProviderEntry::custom("missing", "Missing", missing);
        let more = vec![rehearsal, late, with_servers, gate, missing];
        let path = std::env::var("PATH").unwrap();
        let fallback = BTreeMap::from([("PATH".to_owned(), path)]);
        let config = EngineConfig {
            catalog: Catalog::new(more, Provider::new("rehearsal"), base_environment(), fallback)
                .with(ForAll { mcp_servers: mcp_servers(), traffic_logs: Some(logs), ..ForAll::default() }),
            limits: Limits::default(),
            agents: signalbox_engine::Supervisor::default(),
            blobs: None,
            worktrees: folder.path().join("worktrees"),
            idle_agent: Duration::from_secs(600),
            idle_session: rest,
            ephemeral_bytes: signalbox_engine::EPHEMERAL_BYTES,
            sources: Sources::default(),
            known: None,
            unattended: signalbox_engine::Unattended::Wait,
            on_load: {
                let (load, feed) = (hubs.on_load(), feed.clone());
                Box::new(move |stream| {
                    let fed = feed.lock().unwrap().take();
                    load(match fed {
                        Some(fed) => fed(stream),
                        None => stream,
                    });
                })
            },
            now_ms: wall_clock_ms,
        };
        let engine = Engine::start(store, config).await.unwrap();
        let app = AppServer::new(engine, hubs);
        let service = app.service().unwrap();
        Self { app, feed, folder, service }
    }

    /// A connection before its handshake.
    pub(crate) fn connect(&self, role: Role) -> Client {
        self.connect_with(ConnOptions { role, ..ConnOptions::default() }).0
    }

    /// The same with other options than usual; with the server's handle on the connection.
    pub(crate) fn connect_with(&self, options: ConnOptions) -> (Client, Peer) {
        let (server, wire) = memory();
        let options = ConnOptions { hooks: self.app.hooks(), ..options };
        let connection = Connection::new(self.service.clone(), options);
        let peer = connection.peer().clone();
        tokio::spawn(connection.serve(server));
        (Client { wire, last_id: 0, log: Vec::new(), read: 0 }, peer)
    }

    /// A connection of a client with this name.
    pub(crate) async fn client(&self, name: &str) -> Client {
        self.client_with(name, Role::Owner, json!({})).await
    }

    pub(crate) async fn client_with(&self, name: &str, role: Role, capabilities: Value) -> Client {
        let mut client = self.connect(role);
        client.introduce(name, capabilities).await;
        client
    }

    pub(crate) async fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients = Vec::new();
        for name in ["first", "second", "third"].into_iter().take(N) {
            clients.push(self.client(name).await);
        }
        clients.try_into().ok().unwrap()
    }

    /// The server leaves, and its folder is handed on.
    pub(crate) async fn close(self) -> TempDir {
        within(self.app.shutdown()).await;
        self.folder
    }
}

/// A client that remembers every frame it got.
pub(crate) struct Client {
    wire: MemoryClient,
    last_id: u64,
    pub(crate) log: Vec<Value>,
    /// How far [`Client::until`] has looked.
    read: usize,
}

impl Client {
    pub(crate) async fn send(&self, frame: Value) {
        within(self.wire.send(frame.to_string())).await.unwrap();
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"id": id, "method": method, "params": params})).await;
        id
    }

    /// The handshake.
    pub(crate) async fn introduce(&mut self, name: &str, capabilities: Value) {
        let info = json!({"name": name, "version": "1"});
        self.ok("initialize", json!({"clientInfo": info, "capabilities": capabilities})).await;
    }

    /// Reads until the server has ended the connection.
    pub(crate) async fn until_closed(&mut self) {
        while self.receive().await.is_some() {}
    }

    async fn receive(&mut self) -> Option<&Value> {
        let frame = within(self.wire.recv()).await?;
        self.log.push(serde_json::from_slice(&frame).unwrap());
        self.log.last()
    }

    /// The answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        let is_answer = |frame: &&Value| frame["id"] == id && frame.get("method").is_none();
        if let Some(found) = self.log.iter().find(is_answer) {
            return found.clone();
        }
        loop {
            let frame = self.receive().await.expect("the connection has ended");
            if is_answer(&frame) {
                return frame.clone();
            }
        }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Code and reason of a refusal.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let error = self.refusal(method, params).await;
        (error["code"].as_i64().unwrap(), error["data"]["reason"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn refusal(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer["error"]["data"]["retryable"].is_boolean(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// The next notification or request of this method after the one that was found last.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        self.until_that(method, |_| true).await
    }

    pub(crate) async fn until_that(&mut self, method: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            while self.read < self.log.len() {
                let frame = &self.log[self.read];
                self.read += 1;
                if frame["method"] == method && fits(&frame["params"]) {
                    return frame.clone();
                }
            }
            if self.receive().await.is_none() {
                panic!("the connection ended before {method}; it got {:#?}", self.log);
            }
        }
    }

    /// Starts a thread and gives its id.
    pub(crate) async fn thread(&mut self, params: Value) -> String {
        let started = self.ok("thread/start", params).await;
        started["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// Starts a turn and gives its id.
    pub(crate) async fn turn(&mut self, thread: &str, text: &str) -> String {
        let started = self.ok("turn/start", input(thread, text)).await;
        started["turn"]["id"].as_str().unwrap().to_owned()
    }

    /// Answers a server request.
    pub(crate) async fn respond(&self, request: &Value, result: Value) {
        self.send(json!({"id": request["id"], "result": result})).await;
    }

    /// Methods of what was got, in order; answers as `answer`.
    pub(crate) fn methods(&self) -> Vec<&str> {
        self.log.iter().map(|frame| frame["method"].as_str().unwrap_or("answer")).collect()
    }

    /// The place of the first frame that fits.
    pub(crate) fn place(&self, fits: impl Fn(&Value) -> bool) -> usize {
        self.log.iter().position(fits).unwrap_or_else(|| panic!("not among {:#?}", self.log))
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.log.iter().filter(|frame| frame["method"] == method).count()
    }

    /// Everything that the server has queued by now has been received: asks something and waits for the answer.
    pub(crate) async fn settle(&mut self) {
        self.ok("server/health", json!({})).await;
    }
}

pub(crate) fn input(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "input": [{"type": "text", "text": text}]})
}
