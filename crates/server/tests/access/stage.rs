//! What the tests share: access on a temporary home, with clocks that stand until they are moved.

use std::future::Future;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_app_server::DoorCaller;
use signalbox_home::Home;
use signalbox_protocol::app::{
    ConnectionRole, Device, DeviceRevokeParams, DeviceRevokeResult, PairingCreateParams, PairingCreateResult,
};
use signalbox_rpc::{ConnectionId, Role, RpcError};
use signalbox_server::access::{Access, AccessOptions, Answer, Audit, Clock, Keys};
use signalbox_store::{FailPoints, Store, StoreOptions};
use tempfile::TempDir;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it should have happened by now")
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The address that tests come from unless they say otherwise.
pub(crate) fn here() -> IpAddr {
    ip("192.0.2.1")
}

/// Two clocks that stand until they are moved.
#[derive(Clone)]
pub(crate) struct Hands {
    wall_ms: Arc<AtomicI64>,
    steady_ms: Arc<AtomicU64>,
}

impl Hands {
    fn new() -> Self {
        let wall_ms = Arc::new(AtomicI64::new(1_800_000_000_000));
        Self { wall_ms, steady_ms: Arc::new(AtomicU64::new(1_000)) }
    }

    fn clock(&self) -> Clock {
        let (wall, steady) = (self.wall_ms.clone(), self.steady_ms.clone());
        Clock::new(
            move || wall.load(Ordering::SeqCst),
            move || Duration::from_millis(steady.load(Ordering::SeqCst)),
        )
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    /// Time passes.
    pub(crate) fn pass(&self, time: Duration) {
        self.set_forward(time);
        self.steady_ms.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_forward(&self, time: Duration) {
        self.wall_ms.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn set_back(&self, time: Duration) {
        self.wall_ms.fetch_sub(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

/// Access to a home of its own, which goes when the test ends.
pub(crate) struct Stage {
    pub(crate) access: Access,
    pub(crate) store: Store,
    pub(crate) hands: Hands,
    pub(crate) fail: FailPoints,
    pub(crate) folder: TempDir,
}

/// A device that was paired.
#[derive(Debug, Clone)]
pub(crate) struct Paired {
    pub(crate) id: String,
    pub(crate) bearer: String,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap(), Hands::new()).await
    }

    async fn open(folder: TempDir, hands: Hands) -> Self {
        let home = Home::locate(Some(folder.path().join("home")), &|_| None).unwrap();
        let fail = FailPoints::default();
        let options = StoreOptions { fail_points: fail.clone(), ..StoreOptions::default() };
        let store = Store::open_with(&home.database(), options).await.unwrap();
        let audit = Audit::to_file(folder.path().join("audit.log"));
        let options = AccessOptions { clock: hands.clock(), audit, ..AccessOptions::default() };
        let access = Access::start(home, store.clone(), options).await.unwrap();
        Self { access, store, hands, fail, folder }
    }

    /// The server ends and another one begins.
    pub(crate) async fn restarted(self) -> Self {
        within(self.access.finish()).await;
        within(self.store.close()).await;
        Self::open(self.folder, self.hands).await
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The lines of the audit log so far.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn audited(&self, event: &str) -> Vec<Value> {
        self.audit().into_iter().filter(|line| line["event"] == event).collect()
    }

    /// The same with these keys.
    pub(crate) fn with(&self, keys: Keys) -> Access {
        self.access.with(keys)
    }

    /// A file for its owner alone.
    pub(crate) fn private_file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        chmod(&path, 0o600);
        path
    }

    pub(crate) fn offers(&self, params: PairingCreateParams) -> Result<PairingCreateResult, RpcError> {
        self.access.pairing_create(&owner(), params)
    }

    /// A code for a device with this role.
    pub(crate) fn code(&self, role: Role) -> String {
        let role = Some(match role {
            Role::Observer => ConnectionRole::Observer,
            Role::Operator => ConnectionRole::Operator,
            Role::Owner => ConnectionRole::Owner,
        });
        self.offers(PairingCreateParams { role, ..PairingCreateParams::default() }).unwrap().code
    }

    pub(crate) async fn tries(&self, code: &str, from: IpAddr) -> Answer {
        let body = json!({ "token": code, "device_name": "Phone" }).to_string();
        within(self.access.pair(body.as_bytes(), from)).await
    }

    /// A device with this role.
    pub(crate) async fn paired(&self, role: Role) -> Paired {
        let code = self.code(role);
        let answer = self.tries(&code, here()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = |member: &str| answer.body[member].as_str().unwrap().to_owned();
        Paired { id: text("device_id"), bearer: text("bearer") }
    }

    pub(crate) async fn revokes(&self, device: &str) -> Result<DeviceRevokeResult, RpcError> {
        let params = DeviceRevokeParams { device_id: device.to_owned() };
        within(self.access.device_revoke(&owner(), params)).await
    }

    pub(crate) fn devices(&self) -> Vec<Device> {
        self.access.device_list().data
    }
}

/// Whoever has the machine.
pub(crate) fn owner() -> DoorCaller {
    DoorCaller { connection: ConnectionId(1), role: Role::Owner, name: "unix".to_owned() }
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn reason(answer: &Answer) -> &str {
    answer.body["error"]["reason"].as_str().unwrap_or_default()
}
