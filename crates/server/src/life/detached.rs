//! The home's server as a process of its own: from its lock to its end.

use std::io;
use std::time::Duration;

use signalbox_engine::OpEventsError;
use signalbox_home::{Home, Lock, LockError};
use tokio::time::Instant;

use super::launch::Readiness;
use super::socket::Hall;
use super::version::VERSION;
use crate::doors::{DoorError, bind};
use crate::signals::Signals;
use crate::standalone::{Drained, LEAVING, Setup, Standalone, StartError};

/// What the detached server is called in the lock.
pub const ROLE: &str = "server";
/// How long a server that leaves may hold the lock before its successor gives up.
const SUCCESSION: Duration = LEAVING.saturating_add(Duration::from_secs(10));
/// How long anybody may seem to hold it: whoever only looks who does holds it for a moment.
const MOMENT: Duration = Duration::from_millis(250);
/// How long somebody may hold it who does not say who it is, or who looks longer.
const GLANCE: Duration = Duration::from_secs(2);
/// Pause between attempts to take the lock.
const AGAIN: Duration = Duration::from_millis(5);

/// The detached server could not begin.
#[derive(Debug, thiserror::Error)]
pub enum DetachedError {
    /// No server.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No socket.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// Signals cannot be taken over.
    #[error("signals cannot be taken over")]
    Signals(#[source] io::Error),
}

/// Serves the home until nobody needs it any more, somebody asks it to leave, or a signal comes. Says to `readiness` when it
/// listens; if it never does, the error is for the caller to tell.
///
/// # Errors
/// If it could not begin.
pub async fn detached(setup: Setup, readiness: &mut Option<Readiness>) -> Result<Drained, DetachedError> {
    let mut signals = Signals::listen().map_err(DetachedError::Signals)?;
    let home = setup.home.clone();
    let lock = take_lock(&home).await.map_err(StartError::from)?;
    let server = Standalone::start_with(lock, setup).await?;
    let door = bind(&home, None)?;
    tracing::info!(version = VERSION, socket = %door.path().display(), "the server of this home begins");
    if let Some(readiness) = readiness.take() {
        readiness.ready();
    }
    let hall = server.hall().that_empties();
    let why = tokio::select! {
        () = hall.run(door) => "asked to by a newer version",
        () = idle(&home, &hall) => "nobody needs it",
        () = server.asked_to_leave() => "somebody has asked it to",
        _ = signals.next() => "a signal",
    };
    tracing::info!(why, "the server leaves");
    hall.presence.close();
    Ok(server.drain(&mut signals).await)
}

/// Takes the home's lock; a server that is leaving is waited for.
async fn take_lock(home: &Home) -> Result<Lock, LockError> {
    let begun = Instant::now();
    loop {
        let held = match Lock::take(home, ROLE, VERSION) {
            Err(LockError::Held { home, holder }) => LockError::Held { home, holder },
            other => return other,
        };
        let LockError::Held { holder, .. } = &held else { return Err(held) };
        let patience = match holder {
            Some(holder) if holder.leaving => SUCCESSION,
            Some(holder) if holder.role == "doctor" => GLANCE,
            None => GLANCE,
            Some(_) => MOMENT,
        };
        if begun.elapsed() >= patience {
            return Err(held);
        }
        // Nobody tells when a lock is free; its holder is about to end.
        tokio::time::sleep(AGAIN).await;
    }
}

/// Resolves when the server has decided to leave, because it has had nothing to do for the configured time.
async fn idle(home: &Home, hall: &Hall) {
    let after = hall.serving.config.server.idle_exit;
    if after.is_zero() {
        return std::future::pending().await;
    }
    let engine = hall.serving.app.engine();
    let mut presence = hall.presence.watch();
    loop {
        let Ok(arrivals) = presence.wait_for(|state| state.guests == 0).await.map(|state| state.arrivals)
        else {
            return;
        };
        // A home that was removed needs no server, and nobody can find it any more.
        if !home.lock_file().exists() && hall.presence.leave(0, arrivals) {
            return;
        }
        let mut events = engine.op_events();
        let quiet = async {
            loop {
                match tokio::time::timeout(after, events.recv()).await {
                    Err(_) => return,
                    // Something has happened: the time begins anew.
                    Ok(Ok(_) | Err(OpEventsError::Lagged { .. })) => {}
                    Ok(Err(OpEventsError::Closed)) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = quiet => {}
            _ = presence.wait_for(|state| state.arrivals != arrivals) => continue,
        }
        if !engine.is_busy().await && hall.presence.leave(0, arrivals) {
            return;
        }
    }
}
