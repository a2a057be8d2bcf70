//! Moves the write-ahead log into the database file, on a connection of its own, so that commits do not wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Executor, Row};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::connect::{Place, Role, StoreOptions};

/// So many times the wished size of the log the writer takes part: only when nothing is written can it start over.
const PATIENCE: u64 = 16;
const PAGE_BYTES: u64 = 4096;
/// A log at rest for this long is moved too, so that the next start finds nothing to recover.
const IDLE: Duration = Duration::from_secs(2);

/// What the pipeline and the checkpoint task tell each other.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Log bytes after which a checkpoint runs.
    enough: u64,
    /// About how many bytes were written to the log since the last checkpoint.
    bytes: AtomicU64,
    /// About how long the log is. Where a checkpoint has moved everything, the next write starts it over.
    length: AtomicU64,
    /// Whether the checkpoint task knows that there is something to do.
    dirty: AtomicBool,
    written: Notify,
    full: Notify,
    /// One checkpoint at a time: a second one would only be told that the first is busy.
    turn: Semaphore,
}

impl Checkpoints {
    pub(super) fn new(enough: u64) -> Self {
        Self {
            enough,
            bytes: AtomicU64::new(0),
            length: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            written: Notify::new(),
            full: Notify::new(),
            turn: Semaphore::new(1),
        }
    }

    /// After each transaction. True if the log is so long that the writer has to take part.
    pub(super) fn wrote(&self, bytes: u64) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.dirty.swap(true, Ordering::Relaxed) {
            self.written.notify_one();
        }
        if before < self.enough && before + bytes >= self.enough {
            self.full.notify_one();
        }
        let length = self.length.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Not after each write: while a reader needs the log as it is, trying again at once would change nothing.
        length > PATIENCE * self.enough && before + bytes >= self.enough
    }

    /// Moves what can be moved without waiting for readers.
    pub(super) async fn passive(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await.ok();
        self.bytes.store(0, Ordering::Relaxed);
        let before = self.length.load(Ordering::Relaxed);
        let row = connection.fetch_one("pragma wal_checkpoint(passive)").await?;
        let pages = |at| row.try_get::<i64, _>(at).map(|pages: i64| pages.max(0).unsigned_abs());
        let (logged, moved) = (pages(1)?, pages(2)?);
        // It starts over only if all of it was moved and nobody has written meanwhile.
        let meanwhile = self.length.load(Ordering::Relaxed).saturating_sub(before);
        let rest = if logged == moved && meanwhile == 0 { 0 } else { logged * PAGE_BYTES };
        self.length.store(rest + meanwhile, Ordering::Relaxed);
        Ok(())
    }
}

/// Runs until `stop`, which it looks at between two checkpoints; then the writer moves the rest itself.
pub(super) async fn run(
    place: Place,
    options: StoreOptions,
    checkpoints: std::sync::Arc<Checkpoints>,
    stop: CancellationToken,
) {
    let mut connection = None;
    while stop.run_until_cancelled(checkpoints.written.notified()).await.is_some() {
        until_idle(&place, &options, &checkpoints, &stop, &mut connection).await;
        // An idle server keeps neither the connection nor its thread.
        if let Some(connection) = connection.take()
            && let Err(error) = SqliteConnection::close(connection).await
        {
            tracing::warn!(path = %place.path().display(), %error, "closing a connection failed");
        }
    }
}

async fn until_idle(
    place: &Place,
    options: &StoreOptions,
    checkpoints: &Checkpoints,
    stop: &CancellationToken,
    connection: &mut Option<SqliteConnection>,
) {
    loop {
        let before = checkpoints.bytes.load(Ordering::Relaxed);
        let idle = tokio::select! {
            () = checkpoints.full.notified() => false,
            () = tokio::time::sleep(IDLE) => true,
            () = stop.cancelled() => return,
        };
        if idle && checkpoints.bytes.load(Ordering::Relaxed) != before {
            continue;
        }
        if idle {
            checkpoints.dirty.store(false, Ordering::Relaxed);
        }
        if let Err(error) = checkpoint(place, options, checkpoints, connection).await {
            tracing::warn!(path = %place.path().display(), %error, "checkpoint failed");
            // The next attempt is made when as much again has been written.
            checkpoints.bytes.store(0, Ordering::Relaxed);
            *connection = None;
        }
        if idle {
            return;
        }
    }
}

async fn checkpoint(
    place: &Place,
    options: &StoreOptions,
    checkpoints: &Checkpoints,
    slot: &mut Option<SqliteConnection>,
) -> Result<(), sqlx::Error> {
    let connection = match slot {
        Some(connection) => connection,
        None => slot.insert(place.connect(Role::Checkpoint, options).await?),
    };
    checkpoints.passive(connection).await
}
