//! The writer's handle: commits, deletion, compaction, sequence numbers. The work is done by its tasks.

mod batch;
mod checkpoint;
mod devices;
mod flush;
mod fork;
mod index;
mod maintenance;
mod pipeline;

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use signalbox_facts::{Committed, SessionId, SessionRow, TurnId};
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use fork::Fork;
pub(crate) use index::{TEXT_BYTES, TextRow};
pub use maintenance::Compacted;

use crate::commit::Prepared;
use crate::connect::{Place, StoreOptions};
use crate::indexing::Indexing;
use crate::{Commit, CommitError, ForkError, Reader, StoreError, StoreFigures};
use maintenance::Chore;
use pipeline::{CommitJob, Job, Pipeline};

/// The queue's room is counted in units of this many bytes; a commit takes at least one.
const UNIT_BYTES: usize = 16 * 1024;
/// Units of commits that are queued or not yet answered: 32 MiB, and at most as many commits.
const UNITS: usize = 2048;
/// Compactions and removals that wait; one that finds no place is made up for after the next start.
const CHORES: usize = 256;

/// Handle of the task that owns the only write connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
    chores: mpsc::Sender<Chore>,
    /// Next sequence number of a pending input.
    sequence: AtomicU64,
    place: Place,
    counts: Arc<Counts>,
    /// Stops maintenance, which uses the reader, before the rest.
    stop_maintenance: CancellationToken,
    maintenance: TaskTracker,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// What the tasks have done so far.
#[derive(Debug, Default)]
struct Counts {
    commits: AtomicU64,
    transactions: AtomicU64,
    flushes: AtomicU64,
    last_flush_us: AtomicU64,
    longest_flush_us: AtomicU64,
}

impl Counts {
    fn flushed(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.last_flush_us.store(took, Ordering::Relaxed);
        self.longest_flush_us.fetch_max(took, Ordering::Relaxed);
    }
}

impl Writer {
    pub(crate) fn start(
        place: Place,
        options: StoreOptions,
        connection: SqliteConnection,
        last_sequence: u64,
        reader: Reader,
        indexing: Arc<Indexing>,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(UNITS);
        let (slices_in, slices) = mpsc::channel(1);
        let (chores, chores_out) = mpsc::channel(CHORES);
        let closing = CancellationToken::new();
        let stop_maintenance = CancellationToken::new();
        let counts = Arc::<Counts>::default();
        let (tasks, maintenance) = (TaskTracker::new(), TaskTracker::new());
        let flush = place.wal().map(|wal| {
            // As many places as there can be unanswered commits: the pipeline never waits here.
            let (flush, waiting) = mpsc::channel(UNITS);
            let counts = Arc::clone(&counts);
            tasks.spawn(flush::run(wal, fail_points(&options), waiting, tasks.clone(), counts));
            flush
        });
        let checkpoints = place.wal().map(|_| {
            let checkpoints = Arc::new(checkpoint::Checkpoints::new(options.wal_bytes));
            let stop = closing.clone();
            let task = checkpoint::run(place.clone(), options.clone(), checkpoints.clone(), stop);
            (checkpoints, tasks.spawn(task))
        });
        let fail = fail_points(&options);
        let worker = maintenance::Worker { slices: slices_in, reader, fail, indexing: Arc::clone(&indexing) };
        maintenance.spawn(maintenance::run(chores_out, worker, stop_maintenance.clone()));
        let pipeline = Pipeline::new(
            place.clone(),
            options,
            connection,
            (Arc::clone(&counts), indexing),
            closing.clone(),
        );
        let pipeline = pipeline.with(flush, checkpoints);
        tasks.spawn(pipeline.run(jobs, slices));
        let room = Arc::new(Semaphore::new(UNITS));
        let sequence = AtomicU64::new(last_sequence + 1);
        Self {
            shared: Arc::new(Shared {
                queue,
                room,
                chores,
                sequence,
                place,
                counts,
                stop_maintenance,
                maintenance,
                closing,
                tasks,
            }),
        }
    }

    /// Stores facts with everything derived from them, or nothing. Answers the entries once they may be shown: after
    /// COMMIT, and if one of the facts is a boundary, after the disk has them. Signals alone pass through in order.
    ///
    /// Waits while the queue is full. Once queued, a commit happens even if the future is dropped. A session has at
    /// most one commit in flight; the entries are shared, so a clone of them costs nothing if a retry is to be possible.
    pub fn commit(
        &self,
        commit: Commit,
    ) -> impl Future<Output = Result<Vec<Committed>, CommitError>> + Send + 'static {
        let shared = self.shared.clone();
        async move {
            // Checked and encoded here, in the caller's task: the writer's time is everybody's.
            let prepared = Prepared::new(commit)?;
            let units = prepared.bytes.div_ceil(UNIT_BYTES).clamp(1, UNITS);
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            let room = shared.room.clone().acquire_many_owned(units).await;
            let room = room.map_err(|_| CommitError::Closed)?;
            let (reply, answer) = oneshot::channel();
            let job = CommitJob { prepared, reply, _room: room };
            shared.queue.send(Job::Commit(job)).await.map_err(|_| CommitError::Closed)?;
            answer.await.map_err(|_| CommitError::Closed)?
        }
    }

    /// Waits until the disk has everything committed so far.
    ///
    /// # Errors
    /// If the disk refuses, or the store is closed.
    pub async fn flush(&self) -> std::io::Result<()> {
        let closed = || std::io::Error::other(StoreError::Closed);
        let (reply, answer) = oneshot::channel();
        self.shared.queue.send(Job::Flush(reply)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Removes a session: its rows at once, its facts in the background, also after a crash.
    ///
    /// # Errors
    /// If there is no such session, or the database cannot do it now.
    pub async fn delete_session(&self, session: SessionId) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Delete { session, reply };
        self.shared.queue.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)??;
        // What was deleted does not come back after a power loss.
        self.flush().await.map_err(|error| StoreError::database("deleting a session")(error.into()))?;
        if self.shared.chores.try_send(Chore::Purge { session }).is_err() {
            tracing::debug!(%session, "removal of facts waits for the next start");
        }
        Ok(())
    }

    /// Makes a session that begins with another one's history, and answers its row once the disk has it. Seqs, items and
    /// turn ids stay; settings are those of [`Fork::created`]; pending inputs, receipts, queue, rules, checkout and the
    /// agent's conversation stay with the source. The fork is idle, and its facts are to be shown by nobody: whoever
    /// wants it loads it.
    ///
    /// # Errors
    /// See [`ForkError`].
    pub async fn fork(&self, fork: Fork) -> Result<SessionRow, ForkError> {
        self.fork_of(fork, None).await
    }

    /// The same of a session in another store of this process.
    ///
    /// # Errors
    /// See [`ForkError`].
    pub async fn fork_from(&self, source: &Reader, fork: Fork) -> Result<SessionRow, ForkError> {
        self.fork_of(fork, Some(source.place().uri())).await
    }

    async fn fork_of(&self, fork: Fork, from: Option<String>) -> Result<SessionRow, ForkError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Fork { fork: fork.into(), from, reply };
        self.shared.queue.send(job).await.map_err(|_| StoreError::Closed)?;
        let row = answer.await.map_err(|_| StoreError::Closed)??;
        self.flush().await.map_err(|error| fork::failed(error.into()))?;
        Ok(row)
    }

    /// Joins the chunks of an ended turn as [`signalbox_facts::compact`] does, in slices between commits, and answers
    /// when it is done. Seqs and the high-water mark stay as they are.
    ///
    /// # Errors
    /// If the database fails, or the store is closed before it is done.
    pub async fn compact(&self, session: SessionId, turn: TurnId) -> Result<Compacted, StoreError> {
        let (reply, answer) = oneshot::channel();
        let chore = Chore::Compact { session, turn, reply: Some(reply) };
        self.shared.chores.send(chore).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// [`Writer::compact`] without waiting. Turns that are missed, because of a crash or because too many wait, are
    /// made up for after the next start.
    pub fn request_compaction(&self, session: SessionId, turn: TurnId) {
        if self.shared.chores.try_send(Chore::Compact { session, turn, reply: None }).is_err() {
            tracing::debug!(%session, %turn, "compaction waits for the next start");
        }
    }

    /// Puts everything that was committed so far into the search index, and answers when it is there. It happens by
    /// itself as well, a moment later.
    ///
    /// # Errors
    /// If the database fails, or the store is closed before it is done.
    pub async fn index(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.shared.chores.send(Chore::Index { reply }).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// The next sequence number of a pending input: over all sessions, greater than every one that was ever stored.
    ///
    /// Numbers are durable through the commits that use them: a number that was handed out and never stored was never
    /// shown either, and may come again after a restart.
    #[must_use]
    pub fn next_pending_sequence(&self) -> u64 {
        self.reserve_sequences(1).start
    }

    /// `count` numbers as [`Writer::next_pending_sequence`] gives them, in a row.
    #[must_use]
    pub fn reserve_sequences(&self, count: u64) -> Range<u64> {
        let start = self.shared.sequence.fetch_add(count, Ordering::Relaxed);
        start..start + count
    }

    pub(crate) fn figures(&self, reader: &Reader) -> StoreFigures {
        let shared = &self.shared;
        let bytes = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |data| data.len());
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (index_backlog, index_swept) = reader.index_backlog();
        // Without a log it is in memory, and has no files.
        let wal = shared.place.wal();
        StoreFigures {
            database_bytes: wal.as_ref().map_or(0, |_| bytes(shared.place.path())),
            wal_bytes: wal.as_deref().map_or(0, bytes),
            commits: count(&shared.counts.commits),
            transactions: count(&shared.counts.transactions),
            flushes: count(&shared.counts.flushes),
            last_flush_us: count(&shared.counts.last_flush_us),
            longest_flush_us: count(&shared.counts.longest_flush_us),
            queued_units: UNITS - shared.room.available_permits().min(UNITS),
            max_queued_units: UNITS,
            chores: CHORES - shared.chores.capacity(),
            index_backlog,
            index_swept,
        }
    }

    pub(crate) async fn stop_maintenance(&self) {
        self.shared.stop_maintenance.cancel();
        self.shared.maintenance.close();
        self.shared.maintenance.wait().await;
    }

    /// Stores what is queued, then moves the write-ahead log into the file and ends the tasks. Every caller waits for
    /// the same end.
    pub async fn close(&self) {
        self.stop_maintenance().await;
        self.shared.room.close();
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

#[cfg(feature = "fail-points")]
fn fail_points(options: &StoreOptions) -> crate::fail::FailPoints {
    options.fail_points.clone()
}

#[cfg(not(feature = "fail-points"))]
fn fail_points(_: &StoreOptions) -> crate::fail::FailPoints {
    crate::fail::FailPoints
}
