//! The server's own life, and where else it listens: asked of the doors, which are not this crate's.

use signalbox_protocol::app::{
    ListenerOpenParams, ListenerOpenResult, ServerStopParams, ServerStopResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::{AppServer, base_dir};
use crate::doors::{DoorCaller, ListenerAsked};
use crate::errors::Error;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::SERVER_STOP,
                Lane::Concurrent,
                "Ext: the server leaves. Open turns end as interrupted, everybody is told, connections end.",
            )
            .role(Role::Owner),
            stop,
        )
        .method(
            MethodSpec::new(
                method::LISTENER_OPEN,
                Lane::Concurrent,
                "Ext: opens an address as long as the caller's connection lasts. Relative directories of those who come in \
                 there begin at the caller's base directory. Needs a connection of its own, so not over HTTP.",
            )
            .role(Role::Owner),
            open,
        );
}

async fn stop(ctx: Ctx<AppServer>, _: ServerStopParams) -> Result<ServerStopResult, Error> {
    let stopping = ctx.app().doors()?.server_stop(DoorCaller::of(&ctx));
    Ok(stopping.await?)
}

async fn open(ctx: Ctx<AppServer>, params: ListenerOpenParams) -> Result<ListenerOpenResult, Error> {
    let asked = ListenerAsked { base_dir: base_dir(&ctx), ended: ctx.peer().map_err(Error::Rpc)?.closed() };
    let opening = ctx.app().doors()?.listener_open(DoorCaller::of(&ctx), params, asked);
    Ok(opening.await?)
}
