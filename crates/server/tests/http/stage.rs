//! What the tests share: an app-server on a temporary store with one HTTP listener, and what is done with it over and over.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_app_server::{AppInfo, AppServer, DoorCaller, Hubs};
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Catalog, Engine, EngineConfig, Limits, ProviderEntry, Unattended, base_environment, wall_clock_ms,
};
use signalbox_facts::Provider;
use signalbox_home::Home;
use signalbox_protocol::app::{ConnectionRole, ListenerAuth, PairingCreateParams};
use signalbox_rpc::{ConnOptions, ConnectionId, Role};
use signalbox_server::access::{Access, AccessDoors, AccessOptions, Audit};
use signalbox_server::http::{HttpDoor, HttpLimits, ListenOptions, Site, SiteParts};
use signalbox_server::ops_socket::OpsLimits;
use signalbox_store::Store;
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Answer, Client};

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it should have happened by now")
}

/// The header lines of an ordinary POST.
pub(crate) const JSON: &str = "host: localhost\r\ncontent-type: application/json\r\n";

/// A listener that is open to this machine.
pub(crate) fn local() -> ListenOptions {
    let auth = ListenerAuth { allow_local: Some(ConnectionRole::Operator), ..ListenerAuth::default() };
    ListenOptions { auth, ..ListenOptions::default() }
}

/// Who pairs devices in tests.
pub(crate) fn owner() -> DoorCaller {
    DoorCaller { connection: ConnectionId::next(), role: Role::Owner, name: "owner".to_owned() }
}

/// How a stage differs from an ordinary one.
pub(crate) struct Set {
    pub(crate) options: ListenOptions,
    pub(crate) limits: HttpLimits,
    pub(crate) ops: OpsLimits,
    pub(crate) unattended: Unattended,
    /// Bytes that may wait for a client.
    pub(crate) outbox: Option<usize>,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            options: local(),
            limits: HttpLimits::default(),
            ops: OpsLimits::default(),
            unattended: Unattended::Wait,
            outbox: None,
        }
    }
}

/// A server with its folder; both go when the test ends.
pub(crate) struct Stage {
    pub(crate) app: AppServer,
    pub(crate) site: Site,
    pub(crate) access: Access,
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
    pub(crate) tasks: TaskTracker,
    pub(crate) leaving: CancellationToken,
    pub(crate) closing: CancellationToken,
    pub(crate) door_closed: CancellationToken,
}

/// A device.
pub(crate) struct Paired {
    pub(crate) id: String,
    pub(crate) bearer: String,
    /// The line of a head that carries its bearer.
    pub(crate) header: String,
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
    /// Open to this machine, as most tests want it.
    pub(crate) async fn open() -> Self {
        Self::with(Set::default()).await
    }

    pub(crate) async fn with(set: Set) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let store = Store::open(&folder.path().join("test.db")).await.unwrap();
        let entry = ProviderEntry::custom("rehearsal", "Rehearsal", vec![agent().display().to_string()]);
        let path = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let hubs = Hubs::new(store.reader.clone(), AppInfo::new(folder.path().to_owned(), work));
        let config = EngineConfig {
            catalog: Catalog::new(vec![entry], Provider::new("rehearsal"), base_environment(), path),
            limits: Limits::default(),
            agents: signalbox_engine::Supervisor::default(),
            blobs: None,
            worktrees: folder.path().join("worktrees"),
            idle_agent: Duration::from_secs(600),
            idle_session: Duration::from_secs(1800),
            ephemeral_bytes: signalbox_engine::EPHEMERAL_BYTES,
            sources: Sources::default(),
            known: None,
            unattended: set.unattended,
            on_load: hubs.on_load(),
            now_ms: wall_clock_ms,
        };
        let devices = store.clone();
        let app = AppServer::new(Engine::start(store, config).await.unwrap(), hubs);
        let (leaving, closing, tasks) =
            (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let mut options = ConnOptions {
            shutdown: closing.clone(),
            tasks: tasks.clone(),
            hooks: app.hooks(),
            ..ConnOptions::default()
        };
        if let Some(bytes) = set.outbox {
            options.outbox.hard_bytes = bytes;
            options.outbox.soft_bytes = bytes / 4;
            options.outbox.answer_bytes = bytes / 2;
        }
        let home = Home::locate(Some(folder.path().join("home")), &|_| None).unwrap();
        let audit = Audit::to_file(folder.path().join("audit.log"));
        let options_of_access = AccessOptions { audit, ..AccessOptions::default() };
        let access = Access::start(home, devices, options_of_access).await.unwrap();
        app.set_doors(Arc::new(AccessDoors(access.clone())));
        let site = Site::new(SiteParts {
            service: app.service().unwrap(),
            app: app.clone(),
            access: access.clone(),
            options,
            ops: set.ops,
            limits: set.limits,
            leaving: leaving.clone(),
        });
        let door = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), set.options).unwrap();
        let address = door.address();
        let door_closed = CancellationToken::new();
        tasks.spawn(door.run(site.clone(), door_closed.clone()));
        Self { app, site, access, address, folder, tasks, leaving, closing, door_closed }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::new(within(TcpStream::connect(self.address)).await.unwrap())
    }

    /// A connection on which little is on its way to a client that does not read.
    pub(crate) async fn connect_narrowly(&self) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8192).unwrap();
        Client::new(within(socket.connect(self.address)).await.unwrap())
    }

    /// One request on a connection of its own.
    pub(crate) async fn asks(&self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        self.connect().await.asks(method, target, headers, body).await
    }

    /// The result of a method, by POST.
    pub(crate) async fn calls(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer = self.asks("POST", "/rpc", JSON, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let mut answer = answer.json();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    }

    /// A new thread.
    pub(crate) async fn thread(&self) -> String {
        self.calls("thread/start", json!({})).await["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// Starts a turn that plays this script.
    pub(crate) async fn prompts(&self, thread: &str, script: &str) -> String {
        let input = json!([{"type": "text", "text": script}]);
        let started = self.calls("turn/start", json!({"threadId": thread, "input": input})).await;
        started["turn"]["id"].as_str().unwrap().to_owned()
    }

    /// A figure of `/metrics`, by its name and labels as they are written.
    pub(crate) async fn figure(&self, name: &str) -> i64 {
        let answer = self.asks("GET", "/metrics", "host: localhost\r\n", "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = String::from_utf8(answer.body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    /// Waits until a figure is at most this.
    pub(crate) async fn falls_to(&self, name: &str, most: i64) {
        within(async { while self.figure(name).await > most {} }).await;
    }

    /// The bearer of a new device.
    pub(crate) async fn pairs(&self, name: &str) -> String {
        self.pairs_as(name, ConnectionRole::Operator).await.bearer
    }

    pub(crate) async fn pairs_as(&self, name: &str, role: ConnectionRole) -> Paired {
        let params = PairingCreateParams { role: Some(role), ..PairingCreateParams::default() };
        let code = self.access.pairing_create(&owner(), params).unwrap().code;
        let body = json!({"token": code, "device_name": name}).to_string();
        let paired = self.asks("POST", "/api/pair", JSON, &body).await;
        assert_eq!(paired.status, 200, "{paired:?}");
        let field = |name: &str| paired.json()[name].as_str().unwrap().to_owned();
        let bearer = field("bearer");
        Paired { id: field("device_id"), header: format!("authorization: Bearer {bearer}\r\n"), bearer }
    }

    /// Lines of the audit log about this.
    pub(crate) fn audited(&self, event: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// Ends everything in the order of a server that leaves.
    pub(crate) async fn leaves(&self) {
        self.leaving.cancel();
        within(self.app.shutdown()).await;
        self.closing.cancel();
        self.tasks.close();
        within(self.tasks.wait()).await;
    }
}
