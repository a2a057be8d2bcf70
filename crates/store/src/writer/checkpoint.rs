//! Moves the write-ahead log into the database file, on a connection of its own, so that commits do not wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Executor, Row};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::connect::{Place, Role, StoreOptions};

/// So many times the wished size of the log the writer takes part: only when nothing is written can it start over.
const PATIENCE: u64 = 16;
const PAGE_BYTES: u64 = 4096;
/// A log at rest for this long is moved too, so that the next start finds nothing to recover.
const IDLE: Duration = Duration::from_secs(2);

/// What the pipeline tells the checkpoint task, and the other way round.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Log bytes after which a checkpoint runs.
    enough: u64,
    /// About how many bytes were written to the log since the last checkpoint.
    bytes: AtomicU64,
    /// Whether the checkpoint task knows that there is something to do.
    dirty: AtomicBool,
    written: Notify,
    full: Notify,
    /// The log has grown too long; the writer moves the rest of it between two commits.
    pub(super) writer_wanted: Notify,
}

impl Checkpoints {
    pub(super) fn new(enough: u64) -> Self {
        Self {
            enough,
            bytes: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            written: Notify::new(),
            full: Notify::new(),
            writer_wanted: Notify::new(),
        }
    }

    /// After each transaction.
    pub(super) fn wrote(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.dirty.swap(true, Ordering::Relaxed) {
            self.written.notify_one();
        }
        if before < self.enough && before + bytes >= self.enough {
            self.full.notify_one();
        }
    }
}

/// Runs until the writer closes, which moves the rest itself.
pub(super) async fn run(
    place: Place,
    options: StoreOptions,
    checkpoints: std::sync::Arc<Checkpoints>,
    stop: CancellationToken,
) {
    let work = async {
        let mut connection = None;
        loop {
            checkpoints.written.notified().await;
            until_idle(&place, &options, &checkpoints, &mut connection).await;
            // An idle server keeps neither the connection nor its thread.
            if let Some(connection) = connection.take() {
                SqliteConnection::close(connection).await.ok();
            }
        }
    };
    // Stopping in the middle of a checkpoint is harmless: it goes on from there the next time.
    stop.run_until_cancelled(work).await;
}

async fn until_idle(
    place: &Place,
    options: &StoreOptions,
    checkpoints: &Checkpoints,
    connection: &mut Option<SqliteConnection>,
) {
    loop {
        let before = checkpoints.bytes.load(Ordering::Relaxed);
        let idle = tokio::select! {
            () = checkpoints.full.notified() => false,
            () = tokio::time::sleep(IDLE) => true,
        };
        if idle && checkpoints.bytes.load(Ordering::Relaxed) != before {
            continue;
        }
        checkpoints.bytes.store(0, Ordering::Relaxed);
        if idle {
            checkpoints.dirty.store(false, Ordering::Relaxed);
        }
        match checkpoint(place, options, connection).await {
            Ok(pages) if pages * PAGE_BYTES > PATIENCE * checkpoints.enough => {
                checkpoints.writer_wanted.notify_one()
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(path = %place.path().display(), %error, "checkpoint failed");
                *connection = None;
            }
        }
        if idle {
            return;
        }
    }
}

/// Answers the pages in the log.
async fn checkpoint(
    place: &Place,
    options: &StoreOptions,
    slot: &mut Option<SqliteConnection>,
) -> Result<u64, sqlx::Error> {
    let connection = match slot {
        Some(connection) => connection,
        None => slot.insert(place.connect(Role::Checkpoint, options).await?),
    };
    passive(connection).await
}

/// Moves what can be moved without waiting for anybody. Answers the pages in the log.
pub(super) async fn passive(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let row = connection.fetch_one("pragma wal_checkpoint(passive)").await?;
    row.try_get::<i64, _>(1).map(|pages| pages.max(0).unsigned_abs())
}
