//! An agent's own earlier sessions, as it lists them.

use std::path::PathBuf;

/// A session that an agent keeps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedSession {
    /// The agent's own id, for [`crate::OpenSession::resume`].
    pub id: String,
    /// Where it works; agents should say, and not all do.
    pub cwd: Option<PathBuf>,
    /// Its title, at most 200 scalars.
    pub title: Option<String>,
    /// When something last happened in it, Unix milliseconds.
    pub updated_at_ms: Option<i64>,
}

/// Some of an agent's sessions, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<ListedSession>,
    /// The agent's own cursor of the next page, if there is one.
    pub next: Option<String>,
}
