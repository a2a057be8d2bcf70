//! Identifiers: one newtype an id, all from one macro.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A session's fact number: strictly increasing within the session from 1, never reused.
/// The Op/Event protocol calls it `transcript_seq`.
pub type Seq = u64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new time-ordered id (UUIDv7).
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id! {
    /// One conversation with one agent in one directory; the *thread id* of the app-server API.
    SessionId
}
id! {
    /// From an accepted prompt to its end.
    TurnId
}
id! {
    /// A parked permission request or question; the *approval id*, and the JSON-RPC id of its server request.
    InputId
}
id! {
    /// One Op on its way into the core.
    SubmissionId
}
id! {
    /// A paired remote client.
    DeviceId
}

/// A named way to start an agent, in the documented spelling (`claude_code`, `opencode`, `rehearsal`, or a custom name).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Provider(pub String);

impl Provider {
    /// The nine providers of the Op/Event contract; every other one is custom there.
    pub const NAMED: [&str; 9] =
        ["claude_code", "codex", "grok", "cursor", "opencode", "opencode2", "pi", "kimi", "zcode"];

    /// Folds the accepted spellings (`open_code`, `z_code`) into the documented one.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(match name {
            "open_code" => "opencode".to_owned(),
            "z_code" => "zcode".to_owned(),
            other => other.to_owned(),
        })
    }

    /// The documented spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
