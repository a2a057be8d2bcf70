//! What methods need of the server around the app-server: who else is let in. Implemented by `server`.

use std::fmt::Debug;
use std::path::PathBuf;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use signalbox_protocol::app::{
    ApprovalDecision, DeviceListResult, DeviceRevokeParams, DeviceRevokeResult, ListenerOpenParams,
    ListenerOpenResult, PairingCreateParams, PairingCreateResult, ServerStopResult,
};
use signalbox_rpc::{ConnectionId, Ctx, Peer, Role, RpcError};
use tokio_util::sync::CancellationToken;

use crate::app::AppServer;
use crate::connection::Subscriber;
use crate::errors;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorCaller {
    /// Its connection; over HTTP POST, its request.
    pub connection: ConnectionId,
    /// What it may do; the method table has checked that it is enough.
    pub role: Role,
    /// Where it comes from, for people and for the audit log: `unix`, or the name of its device or token; in parentheses, what
    /// the client says that it is.
    pub name: String,
}

/// What an address is opened with, beside its parameters.
#[derive(Debug, Clone)]
pub struct ListenerAsked {
    /// Where relative directories of those begin who come in there. Absolute.
    pub base_dir: PathBuf,
    /// Cancelled when the connection that asked has ended: then the address closes.
    pub ended: CancellationToken,
}

impl DoorCaller {
    pub(crate) fn of(ctx: &Ctx<AppServer>) -> Self {
        let said = ctx.peer_opt().map(|peer| Subscriber::new(peer).name());
        Self { connection: ctx.connection(), role: ctx.role(), name: named(ctx.label(), said) }
    }

    pub(crate) fn of_peer(peer: &Peer) -> Self {
        let said = Some(Subscriber::new(peer).name());
        Self { connection: peer.id(), role: peer.role(), name: named(peer.label(), said) }
    }
}

fn named(label: &str, said: Option<String>) -> String {
    match said {
        Some(said) if said != label => format!("{label} ({said})"),
        _ => label.to_owned(),
    }
}

/// What a client has decided, and the core has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalAnswered {
    /// The thread.
    pub thread: String,
    /// The approval.
    pub approval: String,
    /// What was decided, as `approval/respond` says it.
    pub decision: ApprovalDecision,
}

/// The doors of a server, handed over with [`AppServer::set_doors`](crate::AppServer::set_doors). Every error is one of
/// the wire.
pub trait Doors: Debug + Send + Sync + 'static {
    /// `pairing/create`: a code with which one device can be paired, once.
    fn pairing_create(
        &self,
        caller: DoorCaller,
        params: PairingCreateParams,
    ) -> BoxFuture<'static, Result<PairingCreateResult, RpcError>>;

    /// `device/list`: the devices that are paired.
    fn device_list(&self, caller: DoorCaller) -> BoxFuture<'static, Result<DeviceListResult, RpcError>>;

    /// A client has answered an approval. For the audit log; must not block.
    fn approval_answered(&self, caller: DoorCaller, answered: ApprovalAnswered);

    /// `device/revoke`: the device's credentials are worth nothing from now on, and its connections end.
    fn device_revoke(
        &self,
        caller: DoorCaller,
        params: DeviceRevokeParams,
    ) -> BoxFuture<'static, Result<DeviceRevokeResult, RpcError>>;

    /// `server/stop`: the server begins to leave. Doors of something that cannot leave say `no_doors`.
    fn server_stop(&self, _caller: DoorCaller) -> BoxFuture<'static, Result<ServerStopResult, RpcError>> {
        async { Err(errors::no_doors().into()) }.boxed()
    }

    /// `listener/open`: an address is open until `asked.ended`. Doors that open none say `no_doors`.
    fn listener_open(
        &self,
        _caller: DoorCaller,
        _params: ListenerOpenParams,
        _asked: ListenerAsked,
    ) -> BoxFuture<'static, Result<ListenerOpenResult, RpcError>> {
        async { Err(errors::no_doors().into()) }.boxed()
    }
}
