//! The home's socket: accepts, hears the greeting, answers it, and serves the connection.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signalbox_app_server::ConnectionContext;
use signalbox_protocol::greeting::{GREETING_PROTOCOL, Greeting, Welcome};
use signalbox_rpc::{ConnOptions, UnixDoor};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::introduce::{Arrival, send};
use super::overrides::of_connection;
use super::presence::{Guest, Presence};
use super::version::{VERSION, is_newer};
use crate::standalone::{MAX_CONNECTIONS, Serving};
use crate::unix_door;

/// How long a connection may say nothing when there is little room.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// The server as its socket sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hall {
    pub(crate) serving: Serving,
    pub(crate) presence: Presence,
    /// Cancelled: a newer program wants to start its own server.
    replaced: CancellationToken,
    may_leave: bool,
    /// Where relative directories begin of those who do not say it.
    base_dir: Option<PathBuf>,
}

impl Hall {
    /// The hall of a server that stays as long as whoever runs it wants.
    pub(crate) fn new(serving: Serving, presence: Presence) -> Self {
        Self { serving, presence, replaced: CancellationToken::new(), may_leave: false, base_dir: None }
    }

    /// The same for another socket than the home's.
    pub(crate) fn at(self, base_dir: PathBuf) -> Self {
        Self { base_dir: Some(base_dir), ..self }
    }

    /// The same for a server that may leave when nobody is there.
    pub(crate) fn that_empties(self) -> Self {
        Self { may_leave: true, ..self }
    }
}

impl Hall {
    /// Accepts connections until the server leaves, or is to leave for a newer one.
    pub(crate) async fn run(&self, door: UnixDoor) {
        let Serving { leaving, connections, .. } = self.serving.clone();
        let handle = |stream| {
            // Here, so that there is no moment in which nobody counts it.
            let guest = self.presence.enter();
            let hall = self.clone();
            async move {
                // Whoever comes too late finds the next server.
                let Some(guest) = guest else { return };
                hall.receive(stream, guest).await;
            }
        };
        let accepting = door.run(MAX_CONNECTIONS, leaving, &connections, handle);
        let _ = self.replaced.run_until_cancelled(accepting).await;
    }

    async fn receive(&self, stream: UnixStream, guest: Guest) {
        let arrival = self.serving.closing.run_until_cancelled(async {
            tokio::select! {
                biased;
                arrival = Arrival::of(stream) => arrival,
                () = keeps_others_out(&self.presence, FIRST_BYTES) => Err(io::ErrorKind::TimedOut.into()),
            }
        });
        match arrival.await {
            Some(Ok(arrival)) => self.serve(arrival, guest).await,
            Some(Err(error)) => tracing::debug!(%error, "a connection has ended before it began"),
            None => {}
        }
    }

    async fn serve(&self, arrival: Arrival, guest: Guest) {
        let Arrival { mut stream, ahead, greeting } = arrival;
        let serving = &self.serving;
        let options = match greeting {
            None => {
                let context =
                    ConnectionContext { base_dir: self.base_dir.clone(), ..ConnectionContext::default() };
                let hooks = serving.app.hooks_for(context);
                ConnOptions { label: "unix".into(), hooks, ..serving.options(ConnOptions::default()) }
            }
            Some(greeting) => {
                let Some((welcome, options)) = welcome(self, greeting).await else { return };
                if let Err(error) = send(&mut stream, &welcome).await {
                    tracing::debug!(%error, "a connection has ended before it was welcomed");
                    return;
                }
                if welcome.leaving {
                    self.replaced.cancel();
                    // The end of the connection tells that the server has gone.
                    return serving.closing.cancelled().await;
                }
                if welcome.error.is_some() {
                    return;
                }
                options
            }
        };
        unix_door::serve_stream(
            ahead,
            stream,
            serving.service.clone(),
            options,
            serving.site.clone(),
            Some(guest),
        )
        .await;
    }
}

/// Resolves when a connection that has said nothing yet has done so for long enough, and more than half of the places are
/// taken: then it must not take one from somebody who has something to say.
async fn keeps_others_out(presence: &Presence, patience: Duration) {
    tokio::time::sleep(patience).await;
    let crowded = presence.watch().wait_for(|state| state.guests > MAX_CONNECTIONS / 2).await.is_ok();
    if !crowded {
        std::future::pending().await
    }
}

/// What a greeting is answered, and how its connection is served. None if the server has just decided to leave: a
/// connection that ends without a welcome is one that never was.
async fn welcome(hall: &Hall, greeting: Greeting) -> Option<(Welcome, ConnOptions)> {
    let serving = &hall.serving;
    let arrivals = hall.presence.watch().borrow().arrivals;
    let idle = hall.presence.guests() == 1 && !serving.app.engine().is_busy().await;
    let replaced = greeting.upgrade && is_newer(&greeting.version, VERSION);
    let leaving = replaced && idle && hall.may_leave && hall.presence.leave(1, arrivals);
    if hall.presence.is_leaving() && !leaving {
        return None;
    }
    let Greeting { version, client, base_dir, env, config, .. } = greeting;
    tracing::debug!(client, version, "somebody has come");
    let base_dir = base_dir.map(PathBuf::from);
    let error = base_dir
        .as_deref()
        .filter(|path| !path.is_absolute())
        .map(|path| format!("the base directory {} is not absolute", path.display()));
    let overrides = of_connection(&serving.config, &config);
    let welcome = Welcome {
        protocol: GREETING_PROTOCOL,
        version: VERSION.to_owned(),
        pid: std::process::id(),
        idle,
        leaving,
        listeners: serving.access.listeners(),
        ignored: overrides.ignored,
        error,
    };
    let context =
        ConnectionContext { base_dir, env: env.map(Arc::new), default_provider: overrides.default_provider };
    // A program of this machine may stop reading for a while, as a terminal does: it is never cut.
    let options = serving.options(ConnOptions::stdio());
    let hooks = serving.app.hooks_for(context);
    Some((welcome, ConnOptions { label: client.into(), hooks, ..options }))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_says_nothing_makes_room_when_there_is_little() {
        let presence = Presence::default();
        let mut silent = Box::pin(keeps_others_out(&presence, Duration::ZERO));
        let _half: Vec<_> = (0..MAX_CONNECTIONS / 2).map(|_| presence.enter().unwrap()).collect();
        // Past its time; what it waits for then is that there is little room.
        tokio::time::sleep(Duration::ZERO).await;
        assert!(silent.as_mut().now_or_never().is_none(), "there is room");
        let _one_more = presence.enter().unwrap();
        silent.await;
        assert!(keeps_others_out(&presence, FIRST_BYTES).now_or_never().is_none(), "this one has just come");
    }
}
