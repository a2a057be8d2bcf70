//! The reference of the doors: jsonrpsee's own server, with methods that do as little as the ones they are compared with.

use std::process::ExitCode;

use jsonrpsee::server::{PendingSubscriptionSink, RpcModule, Server, ServerConfig, SubscriptionMessage};
use serde_json::json;

use crate::child::Result;

/// Serves on a port that the system chooses, and says on stderr which, until it is killed.
pub(crate) fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = ServerConfig::builder().max_connections(4096).build();
        let server = Server::builder().set_config(config).build("127.0.0.1:0").await?;
        eprintln!("listening on ws://{}", server.local_addr()?);
        server.start(methods()?).stopped().await;
        Ok(())
    })
}

fn methods() -> Result<RpcModule<()>> {
    let mut module = RpcModule::new(());
    module.register_method("initialize", |_, (), _| json!({}))?;
    module.register_method("thread/loaded/list", |_, (), _| json!({"data": [], "nextCursor": null}))?;
    module.register_subscription(
        "stream",
        "item/agentMessage/delta",
        "stream/end",
        |params, sink, _, _| {
            let asked = params.parse::<(usize, usize)>();
            async move {
                if let Ok((count, bytes)) = asked {
                    stream(sink, count, bytes).await;
                }
            }
        },
    )?;
    Ok(module)
}

/// So many notifications with a text of so many bytes, then the last one. Who leaves gets no more.
async fn stream(pending: PendingSubscriptionSink, count: usize, bytes: usize) {
    let Ok(sink) = pending.accept().await else { return };
    let ids = "019c0000-0000-7000-8000-000000000000";
    let delta = "x".repeat(bytes);
    for number in 0..=count {
        let params = if number < count {
            json!({"threadId": ids, "turnId": ids, "itemId": "i4", "delta": delta})
        } else {
            json!("turn/completed")
        };
        let Ok(message) = SubscriptionMessage::new(sink.method_name(), sink.subscription_id(), &params)
        else {
            return;
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
}
