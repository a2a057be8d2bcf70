//! A paired device, as it is stored: who it is, what it may do, until when. Never its secret.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DeviceId;

/// What a device may do; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceRole {
    /// Reads.
    Observer,
    /// Also prompts and answers.
    Operator,
    /// Also pairs, revokes and configures.
    Owner,
}

impl DeviceRole {
    /// The word it is stored as.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Observer => "observer",
            Self::Operator => "operator",
            Self::Owner => "owner",
        }
    }

    /// What a stored word means.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Observer, Self::Operator, Self::Owner].into_iter().find(|role| role.name() == name)
    }
}

/// One row of the devices.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Its id.
    pub id: DeviceId,
    /// Its name, for people.
    pub name: String,
    /// What it may do.
    pub role: DeviceRole,
    /// SHA-256 of its bearer token, which itself is nowhere.
    pub hash: [u8; 32],
    /// When it was paired, unix milliseconds.
    pub created_at_ms: i64,
    /// When its bearer is worth nothing any more, unix milliseconds.
    pub expires_at_ms: i64,
    /// When it was last used, unix milliseconds; not written at every use.
    pub last_seen_ms: Option<i64>,
}

/// Without the hash, which belongs into no log.
impl fmt::Debug for DeviceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRow")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .field("expires_at_ms", &self.expires_at_ms)
            .finish_non_exhaustive()
    }
}
