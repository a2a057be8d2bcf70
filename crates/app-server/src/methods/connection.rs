//! The handshake, and whether the server lives.

use std::env::consts;

use signalbox_protocol::app::{
    ConnectionRole, HealthStatus, InitializeParams, InitializeResult, ServerCapabilities, ServerHealthParams,
    ServerHealthResult, ServerInfo, method,
};
use signalbox_rpc::{Ctx, Lane, MessageSpec, MethodSpec, NoParams, Registry, Role, RpcError};

use crate::app::AppServer;
use crate::connection::{Client, Connection};
use crate::errors;

/// The version of the API, for clients that look at it.
const PROTOCOL_VERSION: u32 = 1;

/// Longest time for which a client may have deltas merged.
const MAX_DELTA_INTERVAL_MS: u32 = 10_000;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method_sync(
            MethodSpec::new(
                method::INITIALIZE,
                Lane::Inline,
                "Begins a connection: says who the client is and learns who the server is. Everything but \
                 `server/health` and `rpc.discover` is refused before it.",
            )
            .before_initialize(),
            initialize,
        )
        .on_notification(
            MessageSpec::new(method::INITIALIZED, "The client is ready. Accepted, not waited for."),
            |_: Ctx<AppServer>, _: NoParams| async { Ok::<_, RpcError>(()) },
        )
        .method_sync(
            MethodSpec::new(method::SERVER_HEALTH, Lane::Inline, "Says whether the server takes new work.")
                .before_initialize(),
            health,
        );
}

fn initialize(ctx: Ctx<AppServer>, params: InitializeParams) -> Result<InitializeResult, RpcError> {
    let InitializeParams { client_info, capabilities } = params;
    let info = ctx.app().info();
    if capabilities.delta_interval_ms.is_some_and(|interval| interval > MAX_DELTA_INTERVAL_MS) {
        let message = format!("deltas are merged for at most {MAX_DELTA_INTERVAL_MS} ms; ask for less");
        return Err(errors::invalid("capabilities.deltaIntervalMs", message).into());
    }
    let user_agent =
        format!("{}/{} ({} {}; signalbox)", client_info.name, info.version, consts::OS, consts::ARCH);
    if let Some(peer) = ctx.peer_opt() {
        ctx.mark_initialized()?;
        peer.opt_out(capabilities.opt_out_notification_methods.iter().cloned());
        if capabilities.resync {
            peer.refuse_overflow();
        }
        Connection::of(peer).introduce(Client { name: client_info.name, capabilities });
        ctx.app().hubs().connected(peer);
    }
    let home = info.home.display().to_string();
    Ok(InitializeResult {
        user_agent,
        codex_home: home.clone(),
        platform_family: consts::FAMILY.to_owned(),
        platform_os: consts::OS.to_owned(),
        server_info: ServerInfo {
            name: "signalbox".to_owned(),
            version: info.version.to_owned(),
            bridge_version: None,
        },
        protocol_version: PROTOCOL_VERSION,
        home,
        role: match ctx.role() {
            Role::Observer => ConnectionRole::Observer,
            Role::Operator => ConnectionRole::Operator,
            Role::Owner => ConnectionRole::Owner,
        },
        capabilities: ServerCapabilities {
            op_events: true,
            resync: true,
            delta_interval: true,
            steer: true,
            approvals: true,
            worktrees: true,
            batches: true,
        },
    })
}

fn health(ctx: Ctx<AppServer>, _: ServerHealthParams) -> Result<ServerHealthResult, RpcError> {
    let app = ctx.app();
    Ok(ServerHealthResult {
        status: HealthStatus::Ok,
        version: app.info().version.to_owned(),
        uptime_ms: app.uptime_ms(),
    })
}
