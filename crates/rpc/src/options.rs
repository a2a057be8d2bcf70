//! How a connection behaves, and the defaults.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::entry::Role;
use crate::hooks::Hooks;
use crate::lanes::WorkLimits;
use crate::outbox::{OutboxLimits, Overflow};

/// How a connection behaves. [`Default`] is an owner over a socket.
#[derive(Clone)]
pub struct ConnOptions {
    /// What the connection may do.
    pub role: Role,
    /// Where it comes from, for people.
    pub label: Arc<str>,
    /// Whether it begins with the handshake done.
    pub initialized: bool,
    /// Largest frame that is read, in bytes; larger ones are skipped and answered `frame_too_large`. Default 16 MiB.
    pub max_frame_bytes: usize,
    /// Bounds of calls that wait and run.
    pub work: WorkLimits,
    /// Bounds of what waits for the client to read it.
    pub outbox: OutboxLimits,
    /// What happens at the outbox's hard bound.
    pub overflow: Overflow,
    /// A client that takes nothing for this long, while something is to be written, is cut; `None`: never.
    /// Default 30 s.
    pub stall_grace: Option<Duration>,
    /// How long reading is paused at most while no call ends. Default 500 ms.
    pub patience: Duration,
    /// Requests of ours that may wait for the client. Default 1,024.
    pub max_server_requests: usize,
    /// How long calls may take to end after the last frame was read, and then again how long the client may take to
    /// read what is left. Default 5 s.
    pub drain: Duration,
    /// Cancelled when the server leaves: the connection then drains.
    pub shutdown: CancellationToken,
    /// Cancelled when the client is not let in any more: the connection then ends at once, as [`CloseReason::Revoked`]
    /// with `revoked_because`.
    ///
    /// [`CloseReason::Revoked`]: crate::CloseReason::Revoked
    pub revoked: CancellationToken,
    /// What a revoked client is told, in one short sentence. Default: that its access was revoked.
    pub revoked_because: &'static str,
    /// If set, the end of the client's input does not end the connection: this is cancelled, and the client goes on
    /// being told things until `shutdown`. Default none.
    pub input_ended: Option<CancellationToken>,
    /// Where concurrent calls run.
    pub tasks: TaskTracker,
    /// What the application wants to hear.
    pub hooks: Arc<dyn Hooks>,
}

impl Default for ConnOptions {
    fn default() -> Self {
        Self {
            role: Role::Owner,
            label: Arc::from("connection"),
            initialized: false,
            max_frame_bytes: 16 * 1024 * 1024,
            work: WorkLimits::default(),
            outbox: OutboxLimits::default(),
            overflow: Overflow::Close,
            stall_grace: Some(Duration::from_secs(30)),
            patience: Duration::from_millis(500),
            max_server_requests: 1024,
            drain: Duration::from_secs(5),
            shutdown: CancellationToken::new(),
            revoked: CancellationToken::new(),
            revoked_because: "access was revoked",
            input_ended: None,
            tasks: TaskTracker::new(),
            hooks: Arc::new(()),
        }
    }
}

impl std::fmt::Debug for ConnOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnOptions")
            .field("role", &self.role)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

impl ConnOptions {
    /// The options for stdio, whose client is never cut: at the hard bound lifecycle frames are refused, and whoever
    /// pushes them must make up for it later (see [`Overflow::Refuse`]).
    pub fn stdio() -> Self {
        Self { label: Arc::from("stdio"), overflow: Overflow::Refuse, stall_grace: None, ..Self::default() }
    }
}
