//! A store: its writer and its reader, opened and closed together.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connect::{Place, StoreOptions};
use crate::indexing::Indexing;
use crate::{Reader, StoreError, Writer};

/// A database of sessions: the one that lists and survives restarts, or one in memory for ephemeral sessions.
#[derive(Clone, Debug)]
pub struct Store {
    /// The only way to change anything.
    pub writer: Writer,
    /// Reads; they never wait for the writer.
    pub reader: Reader,
}

/// Figures of a store, since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreFigures {
    /// Bytes of the database file.
    pub database_bytes: u64,
    /// Bytes of its write-ahead log.
    pub wal_bytes: u64,
    /// Commits of sessions that were stored.
    pub commits: u64,
    /// Transactions that it took.
    pub transactions: u64,
    /// Syncs of the log.
    pub flushes: u64,
    /// What the last one took, microseconds.
    pub last_flush_us: u64,
    /// The longest, microseconds.
    pub longest_flush_us: u64,
    /// Units of 16 KiB that are queued for the writer or not yet answered.
    pub queued_units: usize,
    /// The bound of `queued_units`.
    pub max_queued_units: usize,
    /// Pieces of background work that wait.
    pub chores: usize,
    /// Sessions that are known to have something that search does not find yet.
    pub index_backlog: usize,
    /// Whether all that there was before the start has been looked at for that.
    pub index_swept: bool,
}

impl Store {
    /// Figures, cheaply.
    #[must_use]
    pub fn figures(&self) -> StoreFigures {
        self.writer.figures(&self.reader)
    }

    /// Opens the database at `path`, creating or migrating it. The caller holds the home's lock: one process writes.
    ///
    /// # Errors
    /// If the file is not ours, was written by a newer program, or cannot be opened.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, StoreOptions::default()).await
    }

    /// [`Store::open`] with options.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_with(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Self::start(Place::File(path.to_path_buf()), options).await
    }

    /// A new, empty store in this process's memory. It is gone when it is closed and all its handles are dropped.
    ///
    /// # Errors
    /// If memory is short.
    pub async fn in_memory() -> Result<Self, StoreError> {
        Self::in_memory_with(StoreOptions::default()).await
    }

    /// The same, of at most so many pages of 4 KiB; beyond them commits fail as if a disk were full.
    ///
    /// # Errors
    /// As [`Store::in_memory`].
    pub async fn in_memory_of(pages: u32) -> Result<Self, StoreError> {
        Self::in_memory_with(StoreOptions { max_pages: Some(pages), ..StoreOptions::default() }).await
    }

    async fn in_memory_with(options: StoreOptions) -> Result<Self, StoreError> {
        static STORES: AtomicU64 = AtomicU64::new(1);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        // Names that begin with a slash are shared within the process.
        Self::start(Place::Memory(format!("/signalbox-{number}")), options).await
    }

    async fn start(place: Place, options: StoreOptions) -> Result<Self, StoreError> {
        let (connection, sequence) = place.open(&options).await?;
        let indexing = Arc::<Indexing>::default();
        let reader = Reader::new(place.clone(), options.clone(), Arc::clone(&indexing));
        let writer = Writer::start(place, options, connection, sequence, reader.clone(), indexing);
        Ok(Self { writer, reader })
    }

    /// Stores what is queued, moves the write-ahead log into the file, closes all connections. Commits and reads that
    /// come later fail with `Closed`.
    pub async fn close(&self) {
        // The reader first: the log can be moved as a whole only when nobody reads it.
        self.writer.stop_maintenance().await;
        self.reader.close().await;
        self.writer.close().await;
    }
}
