//! A client of the home's server, or of a server in this very process.

use signalbox_client::{Client, Events, frames};
use signalbox_rpc::memory;
use signalbox_server::life::{Connected, Launch, connect_home, for_server, greeting};
use signalbox_server::{Setup, Standalone};
use tokio_util::task::TaskTracker;

use crate::setup::{SetupError, complain};

/// Connects to the server of the home, as `client`, and starts it if none runs. `sets` are the `KEY=VALUE` of the command
/// line. What people should know of the server is said on stderr.
pub(crate) async fn to_server(setup: &Setup, client: &str, sets: &[String]) -> Result<Connected, SetupError> {
    let launch = Launch::this_program(for_server(sets)).map_err(SetupError::Binary)?;
    let greeting = greeting(client, &setup.base_dir, &setup.env, &setup.config, sets.to_vec());
    let connected = connect_home(&setup.home, greeting, &launch).await?;
    for notice in connected.notices() {
        complain(&notice);
    }
    Ok(connected)
}

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
