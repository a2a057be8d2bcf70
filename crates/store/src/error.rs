//! What can go wrong in the store, as types that the engine can act on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use signalbox_facts::{Seq, SessionId, TurnId};

/// Opening, reading or maintaining the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is something else than a SQLite database.
    #[error("{} is not a SQLite database; move it away, or choose another home", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The file is a SQLite database of some other program.
    #[error("{} is a database of another program; move it away, or choose another home", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer signalbox wrote the file.
    #[error(
        "{} was written by a newer signalbox (schema version {found}, this one knows up to {known}); \
         use that version, or choose another home, or put back the copy {}.schema-{known} if there is one",
        path.display(), path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Schema version in the file.
        found: i64,
        /// Highest schema version this program knows.
        known: i64,
    },
    /// The file could not be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
    /// A migration failed; the file is as it was.
    #[error("cannot bring {} from schema version {from} to {to}", path.display())]
    Migrate {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        from: i64,
        /// Version that the failed step leads to.
        to: i64,
        /// Why.
        source: sqlx::Error,
    },
    /// The copy that is made before a migration could not be; the file is as it was.
    #[error("cannot copy the database to {} before its schema is migrated; make room there, or move the home", path.display())]
    Backup {
        /// The copy.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
    /// A read or a maintenance step failed.
    #[error("{what} failed ({})", kind.as_str())]
    Database {
        /// What was tried.
        what: &'static str,
        /// What kind of trouble it is.
        kind: StorageKind,
        /// Why.
        source: sqlx::Error,
    },
    /// A row cannot be decoded. Lists show it as a stub instead.
    #[error("session {session} is unreadable: {reason}")]
    Unreadable {
        /// The session.
        session: SessionId,
        /// What is wrong with its row.
        reason: String,
    },
    /// There is no such session.
    #[error("there is no session {session}")]
    UnknownSession {
        /// The session.
        session: SessionId,
    },
    /// A maintenance step found rows other than those it had read, and left them alone.
    #[error("facts of session {session} changed while they were compacted")]
    Changed {
        /// The session.
        session: SessionId,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    pub(crate) fn database(what: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { what, kind: StorageKind::of(&source), source }
    }

    pub(crate) fn open(path: &Path, source: sqlx::Error) -> Self {
        let path = path.to_path_buf();
        match StorageKind::of(&source) {
            StorageKind::NotADatabase => Self::NotADatabase { path, source },
            _ => Self::Open { path, source },
        }
    }
}

/// A session was not forked; nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// There is no such session.
    #[error("there is no session {session} to fork")]
    UnknownSource {
        /// The session.
        session: SessionId,
    },
    /// The new session exists already.
    #[error("session {session} exists already")]
    Exists {
        /// The session.
        session: SessionId,
    },
    /// The source has no such fact.
    #[error("session {session} ends at seq {last} and cannot be forked at {through}")]
    NoSuchSeq {
        /// The session.
        session: SessionId,
        /// Where it was to be cut.
        through: Seq,
        /// Its last fact.
        last: Seq,
    },
    /// The cut would go through a turn; one that is open is never copied.
    #[error("session {session} cannot be forked at seq {through}, inside turn {turn}")]
    InsideTurn {
        /// The session.
        session: SessionId,
        /// Where it was to be cut.
        through: Seq,
        /// The turn.
        turn: TurnId,
    },
    /// The database could not do it, or the store is closed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A commit did not happen, or is not known to have reached the disk.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The commit contradicts itself; nothing was tried.
    #[error("invalid commit for session {session}: {reason}")]
    Invalid {
        /// The session.
        session: SessionId,
        /// What is wrong.
        reason: String,
    },
    /// The session's high-water mark is not the expected one. Nothing of this commit was stored.
    #[error("session {session} is not at seq {expected}: {}", Stored(*stored))]
    Conflict {
        /// The session.
        session: SessionId,
        /// What the caller took for the last seq.
        expected: Seq,
        /// What it is; none if there is no such session.
        stored: Option<Seq>,
    },
    /// The activity revision does not follow the stored one. Nothing of this commit was stored.
    #[error("activity revision {revision} of session {session} does not follow the stored one")]
    Revision {
        /// The session.
        session: SessionId,
        /// First revision in the commit.
        revision: u64,
    },
    /// The session exists already.
    #[error("session {session} exists already")]
    Exists {
        /// The session.
        session: SessionId,
    },
    /// The client's message id was accepted before. Nothing of this commit was stored.
    #[error("message {client_message_id:?} of session {session} was accepted before")]
    DuplicateMessage {
        /// The session.
        session: SessionId,
        /// The client's id.
        client_message_id: String,
        /// The turn it was accepted into.
        turn: Option<TurnId>,
    },
    /// The database could not take it. Nothing of this commit is stored.
    #[error("cannot store facts of session {session} ({})", kind.as_str())]
    Storage {
        /// The session.
        session: SessionId,
        /// What kind of trouble it is.
        kind: StorageKind,
        /// Whether the same commit may succeed later.
        retryable: bool,
        /// Why; shared, because one failure may concern many sessions.
        source: Arc<sqlx::Error>,
    },
    /// The facts are stored and survive the end of this process, but the disk did not confirm them. Do not commit them
    /// again: call [`crate::Writer::flush`] until it succeeds, then show them.
    #[error("facts of session {session} are stored but not flushed to the disk")]
    Unflushed {
        /// The session.
        session: SessionId,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl CommitError {
    pub(crate) fn storage(session: SessionId, source: Arc<sqlx::Error>) -> Self {
        let kind = StorageKind::of(&source);
        Self::Storage { session, kind, retryable: kind.is_retryable(), source }
    }

    /// Whether the same commit may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Storage { retryable: true, .. })
    }
}

struct Stored(Option<Seq>);

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(seq) => write!(f, "it is at {seq}"),
            None => f.write_str("it does not exist"),
        }
    }
}

/// Kinds of trouble with the database file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageKind {
    /// Another process holds a lock and did not give it up in time.
    Locked,
    /// The disk, or the quota, is full.
    Full,
    /// Reading or writing failed.
    Io,
    /// The file may not be written.
    ReadOnly,
    /// The file is damaged.
    Corrupt,
    /// The file is no SQLite database.
    NotADatabase,
    /// A constraint of the schema does not hold.
    Constraint,
    /// Anything else.
    Other,
}

impl StorageKind {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = error else {
            return match error {
                sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => Self::Io,
                _ => Self::Other,
            };
        };
        // Extended result codes keep the primary one in their low byte.
        let code = database.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or(0);
        match code & 0xff {
            5 | 6 => Self::Locked,
            8 => Self::ReadOnly,
            10 | 14 => Self::Io,
            11 => Self::Corrupt,
            13 => Self::Full,
            19 => Self::Constraint,
            26 => Self::NotADatabase,
            _ => Self::Other,
        }
    }

    /// Whether waiting may help.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Locked | Self::Full | Self::Io | Self::Other)
    }

    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked by another process",
            Self::Full => "no room left",
            Self::Io => "input/output error",
            Self::ReadOnly => "read-only",
            Self::Corrupt => "damaged file",
            Self::NotADatabase => "not a database",
            Self::Constraint => "constraint violated",
            Self::Other => "database error",
        }
    }
}
