//! Who was let in, and until when.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use signalbox_facts::DeviceId;
use signalbox_rpc::Role;

use super::clock::Clock;
use super::devices::Presence;

/// Longest sleep between two looks at the wall clock, which may jump.
const LOOK: Duration = Duration::from_secs(60);

/// Whoever was let in. Keep it as long as its connection: that is how the device is known to be there, and how the
/// connection learns that it must end. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    /// What it may do.
    pub role: Role,
    /// Its name, for people: of the device, of the token, `unix`.
    pub name: Arc<str>,
    /// The device, if it is one.
    pub device: Option<DeviceId>,
    until: Until,
}

/// How long a caller may stay.
#[derive(Clone)]
enum Until {
    /// As long as it likes.
    Open,
    /// As long as its device is neither revoked nor expired.
    Device(Arc<Presence>),
    /// Until a moment, unix milliseconds.
    Moment { at_ms: i64, clock: Clock },
}

impl Caller {
    /// An owner: whoever may use this user's files is one. For stdio and the unix socket.
    #[must_use]
    pub fn owner(name: &str) -> Self {
        Self::open(Role::Owner, name)
    }

    /// One that may stay as long as it likes.
    pub(super) fn open(role: Role, name: &str) -> Self {
        Self { role, name: name.into(), device: None, until: Until::Open }
    }

    pub(super) fn until(role: Role, name: &str, at_ms: i64, clock: Clock) -> Self {
        Self { role, name: name.into(), device: None, until: Until::Moment { at_ms, clock } }
    }

    pub(super) fn device(id: DeviceId, role: Role, name: &str, presence: Presence) -> Self {
        let until = Until::Device(Arc::new(presence));
        Self { role, name: name.into(), device: Some(id), until }
    }

    /// Whether it must go already: its device was revoked since.
    pub(super) fn is_over(&self) -> bool {
        match &self.until {
            Until::Open => false,
            Until::Device(presence) => presence.is_revoked(),
            Until::Moment { at_ms, clock } => *at_ms <= clock.wall_ms(),
        }
    }

    /// Waits until the caller must go, and says why, in words for a close frame. Never ends for those who may stay.
    /// Cancel-safe: to be raced against the connection.
    pub async fn ended(&self) -> &'static str {
        match &self.until {
            Until::Open => std::future::pending().await,
            Until::Device(presence) => presence.ended().await,
            Until::Moment { at_ms, clock } => loop {
                let left = u64::try_from(at_ms.saturating_sub(clock.wall_ms())).unwrap_or(0);
                if left == 0 {
                    return "the token has expired";
                }
                tokio::time::sleep(Duration::from_millis(left).min(LOOK)).await;
            },
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("role", &self.role)
            .field("name", &self.name)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
