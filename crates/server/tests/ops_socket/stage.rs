//! What the tests share: an engine on a temporary store, and clients that keep what they know in the reducer.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_client::ops::{Phase, State, Want};
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Catalog, Engine, EngineConfig, Limits, Origin, ProviderEntry, Unattended, base_environment, wall_clock_ms,
};
use signalbox_facts::Provider;
use signalbox_protocol::ops::{ClientRequest, DocBlock, Event, Op, ServerFrame};
use signalbox_rpc::Role;
use signalbox_server::access::Audit;
use signalbox_server::ops_socket::{
    Inbound, OpsClient, OpsLimits, OpsSocket, OutFrame, QueueReceiver, QueueSender, ops_connection, serve_ops,
};
use signalbox_store::Store;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it should have happened by now")
}

/// An engine with its folder; both go when the test ends.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) store: Store,
    pub(crate) folder: TempDir,
}

/// Cargo builds examples before tests, beside them.
fn agent() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/server_agent");
    assert!(path.exists(), "run `cargo build -p signalbox-server --examples` first");
    path
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(Unattended::Wait).await
    }

    pub(crate) async fn with(unattended: Unattended) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let store = Store::open(&folder.path().join("test.db")).await.unwrap();
        let command = vec![agent().display().to_string()];
        // It answers nothing, not even the first message.
        let mut stuck = ProviderEntry::custom("stuck", "Stuck", command.clone());
        stuck.env = BTreeMap::from([("SIGNALBOX_REHEARSAL_START".to_owned(), "hang".to_owned())]);
        let entries = vec![ProviderEntry::custom("rehearsal", "Rehearsal", command), stuck];
        let path = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let config = EngineConfig {
            catalog: Catalog::new(entries, Provider::new("rehearsal"), base_environment(), path),
            limits: Limits::default(),
            agents: signalbox_engine::Supervisor::default(),
            blobs: None,
            worktrees: folder.path().join("worktrees"),
            idle_agent: Duration::from_secs(600),
            idle_session: Duration::from_secs(1800),
            ephemeral_bytes: signalbox_engine::EPHEMERAL_BYTES,
            sources: Sources::default(),
            known: None,
            unattended,
            on_load: Box::new(|mut stream| {
                tokio::spawn(async move { while stream.deliveries.recv().await.is_some() {} });
            }),
            now_ms: wall_clock_ms,
        };
        let engine = Engine::start(store.clone(), config).await.unwrap();
        Self { engine, store, folder }
    }

    pub(crate) fn connect(&self) -> Client {
        self.connect_as(Role::Operator, OpsLimits::default())
    }

    pub(crate) fn connect_as(&self, role: Role, limits: OpsLimits) -> Client {
        let (connection, OpsSocket { inbox, outbox }) = ops_connection(limits);
        let origin = Origin { client: Some("tester".to_owned()), ..Origin::default() };
        let served = tokio::spawn(serve_ops(
            self.engine.clone(),
            connection,
            OpsClient { role, origin, audit: Audit::without_file() },
        ));
        Client { state: State::default(), inbox: Some(inbox), outbox, served, requests: 0 }
    }

    /// A client that has read its welcome, and a new session of this provider.
    pub(crate) async fn session(&self, provider: &str) -> (Client, String) {
        let mut client = self.connect();
        client.next().await;
        let session = client.creates(provider, &self.folder).await;
        (client, session)
    }
}

/// A client of the socket. It applies every frame it reads to its state.
pub(crate) struct Client {
    pub(crate) state: State,
    inbox: Option<QueueSender<Inbound>>,
    outbox: QueueReceiver<OutFrame>,
    served: JoinHandle<()>,
    requests: u64,
}

impl Client {
    pub(crate) fn inbox(&self) -> QueueSender<Inbound> {
        self.inbox.clone().unwrap()
    }

    pub(crate) async fn sends_inbound(&self, inbound: Inbound) {
        within(self.inbox().send(inbound)).await.unwrap();
    }

    pub(crate) async fn sends(&self, json: Value) {
        self.sends_inbound(Inbound::Text(json.to_string())).await;
    }

    pub(crate) async fn submits(&mut self, op: Op) {
        let op = self.state.submit(op);
        self.sends(serde_json::to_value(op).unwrap()).await;
    }

    pub(crate) async fn asks(&self, request: ClientRequest) {
        self.sends(serde_json::to_value(request).unwrap()).await;
    }

    pub(crate) fn id(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    /// The next frame, not applied; none at the end of the connection.
    pub(crate) async fn reads(&mut self) -> Option<ServerFrame> {
        let held = within(self.outbox.recv()).await?;
        Some(serde_json::from_str(&held.text()).unwrap())
    }

    pub(crate) async fn next(&mut self) -> ServerFrame {
        let frame = self.reads().await.expect("the connection is open");
        self.state.apply(frame.clone());
        frame
    }

    /// Everything up to and with the first frame that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&ServerFrame) -> bool) -> Vec<ServerFrame> {
        let mut seen = Vec::new();
        loop {
            let frame = self.next().await;
            let found = fits(&frame);
            seen.push(frame);
            if found {
                return seen;
            }
        }
    }

    /// Everything up to the first event of this name.
    pub(crate) async fn until_event(&mut self, name: &str) -> Vec<ServerFrame> {
        self.until(|frame| matches!(frame, ServerFrame::Event { event } if event.name() == name)).await
    }

    /// Sends a prompt and returns its `request_id`.
    pub(crate) async fn prompts(&mut self, session: &str, script: &str) -> String {
        let request_id = self.id();
        let doc = vec![DocBlock::Text { text: script.to_owned(), elements: Vec::new() }];
        let op = self.state.prompt(session, doc, request_id.clone());
        self.sends(serde_json::to_value(op).unwrap()).await;
        request_id
    }

    pub(crate) async fn creates(&mut self, provider: &str, folder: &TempDir) -> String {
        let cwd = folder.path().join("work");
        let id = self.id();
        let op = json!({"op": "new_session", "provider": {"custom": provider}, "cwd": cwd, "use_worktree": false, "request_id": id});
        self.submits(serde_json::from_value(op).unwrap()).await;
        loop {
            if let ServerFrame::Event { event: Event::SessionCreated { session, request_id, .. } } =
                self.next().await
                && request_id.as_ref() == Some(&id)
            {
                return session;
            }
        }
    }

    /// Asks for all that the state wants, and reads until it wants nothing more.
    pub(crate) async fn makes_good(&mut self) {
        loop {
            for want in self.state.wants() {
                let id = self.id();
                let request = match want {
                    Want::Sessions => self.state.ask_sessions(),
                    Want::Transcript(session) => self.state.ask_transcript(&session, None, id),
                };
                self.asks(request).await;
            }
            let mut transcripts =
                self.state.sessions.values().filter_map(|session| session.transcript.as_ref());
            if !self.state.list.stale && transcripts.all(|transcript| transcript.phase == Phase::Live) {
                return;
            }
            self.next().await;
        }
    }

    pub(crate) async fn opens(&mut self, session: &str) {
        let id = self.id();
        let request = self.state.ask_transcript(session, None, id);
        self.asks(request).await;
        self.makes_good().await;
    }

    pub(crate) async fn waits_while_it_runs(&mut self, session: &str) {
        while self.state.sessions[session].running {
            self.next().await;
        }
    }

    /// The input ends; frames are still read.
    pub(crate) fn ends_its_input(&mut self) {
        self.inbox = None;
    }

    /// Returns when the server is done with it, although the socket is there.
    pub(crate) async fn is_served_no_more(&mut self) {
        within(&mut self.served).await.unwrap();
    }

    /// The socket is gone. Returns when the server is done with it.
    pub(crate) async fn leaves(self) {
        let Self { inbox, outbox, served, .. } = self;
        drop((inbox, outbox));
        within(served).await.unwrap();
    }
}

/// Names of the events among these frames, and the kinds of all others.
pub(crate) fn names(frames: &[ServerFrame]) -> Vec<String> {
    let name = |frame: &ServerFrame| match frame {
        ServerFrame::Event { event } => event.name().to_owned(),
        other => serde_json::to_value(other).unwrap()["kind"].as_str().unwrap().to_owned(),
    };
    frames.iter().map(name).collect()
}
