//! A client of a server in this very process.

use signalbox_client::{Client, Events, frames};
use signalbox_rpc::memory;
use signalbox_server::Standalone;
use tokio_util::task::TaskTracker;

/// Connects a client to this server. `tasks` carry the frames and end with the connection.
pub(crate) fn in_memory(server: &Standalone, tasks: &TaskTracker) -> (Client, Events) {
    let (theirs, mut ours) = memory();
    let (to_client, incoming) = frames();
    let (outgoing, mut from_client) = frames();
    tasks.spawn(server.serve(theirs, "run"));
    tasks.spawn(async move {
        loop {
            tokio::select! {
                frame = ours.recv() => {
                    let Some(frame) = frame else { return };
                    if to_client.send(frame).await.is_err() {
                        return;
                    }
                }
                frame = from_client.recv() => {
                    let Some(frame) = frame else { return };
                    if ours.send(frame).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    Client::connect_with(incoming, outgoing, signalbox_client::CallOptions::default(), tasks)
}
