//! What the app-server's methods ask of the server around it: who is let in, where else it listens, its end.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use signalbox_app_server::{ApprovalAnswered, DoorCaller, Doors, ListenerAsked};
use signalbox_home::Home;
use signalbox_protocol::app::{
    DeviceListResult, DeviceRevokeParams, DeviceRevokeResult, ListenerOpenParams, ListenerOpenResult,
    PairingCreateParams, PairingCreateResult, ServerStopResult,
};
use signalbox_rpc::RpcError;
use tokio_util::sync::CancellationToken;

use super::presence::Presence;
use super::socket::Hall;
use crate::access::AccessDoors;
use crate::doors::{Listen, bind};
use crate::http::{HttpDoor, HttpDoorError, ListenOptions, TlsFiles};
use crate::standalone::Serving;

/// The address cannot be opened.
const STATE: i32 = -32022;

/// The doors of a whole server.
#[derive(Debug)]
pub(crate) struct HouseDoors {
    access: AccessDoors,
    home: Home,
    pub(crate) presence: Presence,
    /// What is served with; none before the server is whole and when it has left.
    serving: Arc<Mutex<Option<Serving>>>,
    /// Cancelled: somebody wants the server to leave.
    pub(crate) asked: CancellationToken,
}

impl HouseDoors {
    pub(crate) fn new(access: AccessDoors, home: Home) -> Self {
        Self {
            access,
            home,
            presence: Presence::default(),
            serving: Arc::default(),
            asked: CancellationToken::new(),
        }
    }

    /// The server is whole.
    pub(crate) fn open(&self, serving: Serving) {
        *self.serving.lock() = Some(serving);
    }

    /// The server has left; what served it is not kept.
    pub(crate) fn close(&self) {
        self.serving.lock().take();
    }
}

impl Doors for HouseDoors {
    fn pairing_create(
        &self,
        caller: DoorCaller,
        params: PairingCreateParams,
    ) -> BoxFuture<'static, Result<PairingCreateResult, RpcError>> {
        self.access.pairing_create(caller, params)
    }

    fn approval_answered(&self, caller: DoorCaller, answered: ApprovalAnswered) {
        self.access.approval_answered(caller, answered);
    }

    fn device_list(&self, caller: DoorCaller) -> BoxFuture<'static, Result<DeviceListResult, RpcError>> {
        self.access.device_list(caller)
    }

    fn device_revoke(
        &self,
        caller: DoorCaller,
        params: DeviceRevokeParams,
    ) -> BoxFuture<'static, Result<DeviceRevokeResult, RpcError>> {
        self.access.device_revoke(caller, params)
    }

    fn server_stop(&self, caller: DoorCaller) -> BoxFuture<'static, Result<ServerStopResult, RpcError>> {
        let (serving, presence, asked) =
            (self.serving.lock().clone(), self.presence.clone(), self.asked.clone());
        async move {
            let serving = serving.ok_or_else(RpcError::shutting_down)?;
            tracing::info!(caller = %caller.name, "asked to leave");
            let open_turns = serving.app.engine().open_turns().await.unwrap_or_default();
            asked.cancel();
            Ok(ServerStopResult {
                pid: std::process::id(),
                open_turns: open_turns as u64,
                other_connections: presence.guests().saturating_sub(1) as u64,
            })
        }
        .boxed()
    }

    fn listener_open(
        &self,
        caller: DoorCaller,
        params: ListenerOpenParams,
        asked: ListenerAsked,
    ) -> BoxFuture<'static, Result<ListenerOpenResult, RpcError>> {
        let (serving, home, presence) =
            (self.serving.lock().clone(), self.home.clone(), self.presence.clone());
        async move {
            let serving = serving.ok_or_else(RpcError::shutting_down)?;
            let opened = open(&serving, &home, presence, params, asked)?;
            tracing::info!(caller = %caller.name, listen = opened.listen, open = opened.open, "an address is open");
            Ok(opened)
        }
        .boxed()
    }
}

fn open(
    serving: &Serving,
    home: &Home,
    presence: Presence,
    params: ListenerOpenParams,
    asked: ListenerAsked,
) -> Result<ListenerOpenResult, RpcError> {
    let ListenerOpenParams { listen, allow_origins, allow_hosts, auth, insecure, tls } = params;
    let listen: Listen = listen.parse().map_err(|error| RpcError::invalid_params(error, "listen", None))?;
    let ListenerAsked { base_dir, ended } = asked;
    match listen {
        Listen::Stdio => {
            Err(RpcError::invalid_params("a server has no client on stdin and stdout", "listen", None))
        }
        // Open anyway, as long as the server lives.
        Listen::Unix(None) => Ok(unix(home.socket().to_owned())),
        Listen::Unix(Some(path)) => {
            let path = base_dir.join(path);
            let door = bind(home, Some(&path)).map_err(refused)?;
            let hall = Hall::new(serving.clone(), presence).at(base_dir);
            serving.connections.spawn(async move {
                let _ = ended.run_until_cancelled(hall.run(door)).await;
            });
            Ok(unix(path))
        }
        Listen::Tcp { address, tls: wants_tls } => {
            let tls = tls.map(|tls| TlsFiles { cert: tls.cert.into(), key: tls.key.into() });
            if wants_tls && tls.is_none() {
                return Err(refused(HttpDoorError::NoCertificate(address)));
            }
            let base_dir = Some(base_dir);
            let options = ListenOptions { allow_origins, allow_hosts, auth, insecure, tls, base_dir };
            let door = HttpDoor::bind(address, options).map_err(refused)?;
            let token_file = match door.is_open() {
                true => None,
                false => {
                    serving.access.home_token().map_err(refused)?;
                    Some(serving.access.home_token_file().display().to_string())
                }
            };
            let opened = ListenerOpenResult {
                listen: door.websocket_url(),
                http_url: Some(door.http_url()),
                open: door.is_open(),
                token_file,
            };
            serving.connections.spawn(door.run(serving.site.clone(), ended));
            Ok(opened)
        }
    }
}

fn unix(path: PathBuf) -> ListenerOpenResult {
    ListenerOpenResult {
        listen: format!("unix://{}", path.display()),
        http_url: None,
        open: true,
        token_file: None,
    }
}

/// An address that cannot be opened, with all that is known of why.
fn refused(error: impl std::error::Error) -> RpcError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    RpcError::new(STATE, "listener_refused", text)
}
