//! The method table tells about itself.

use signalbox_protocol::app::{OpenRpcDocument, method};
use signalbox_rpc::{Ctx, Lane, MethodSpec, NoParams, Registry, RpcError};

use crate::app::AppServer;
use crate::document;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::RPC_DISCOVER,
            Lane::Concurrent,
            "Describes this server as an OpenRPC document: every method and message with its schema.",
        )
        .before_initialize(),
        discover,
    );
}

async fn discover(ctx: Ctx<AppServer>, _: NoParams) -> Result<OpenRpcDocument, RpcError> {
    let app = ctx.app().clone();
    // Made once a server; it takes a while.
    let made = tokio::task::spawn_blocking(move || app.open_rpc(document::open_rpc));
    match made.await {
        Ok(Ok(document)) => Ok(document),
        Ok(Err(error)) => Err(RpcError::internal(format!("the document cannot be made: {error}"))),
        Err(error) => Err(RpcError::internal(format!("the document cannot be made: {error}"))),
    }
}
