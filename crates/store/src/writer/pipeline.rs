//! The writer task: takes what is queued, commits it as one transaction, answers in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use signalbox_facts::{Committed, SessionId, SessionRow};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Executor};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::commit::Prepared;
use crate::connect::{Place, Role, StoreOptions};
use crate::fail::{FailPoint, FailPoints};
use crate::indexing::{Gives, Indexing};
use crate::sql::{Statement, Texts};
use crate::writer::Counts;
use crate::writer::batch::{self, Lost};
use crate::writer::checkpoint::Checkpoints;
use crate::writer::flush::Waiting;
use crate::writer::fork::{self, Fork};
use crate::{CommitError, ForkError, StoreError};

/// Most commits, rows and bytes of one transaction.
const BATCH_COMMITS: usize = 256;
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// After so many batches in a row a waiting slice of maintenance gets its turn.
const BATCHES_BEFORE_SLICE: u32 = 64;

/// What the writer is asked to do.
pub(super) enum Job {
    /// Store.
    Commit(CommitJob),
    /// Sync what is committed.
    Flush(oneshot::Sender<io::Result<()>>),
    /// Remove a session's rows and note that its facts are to be removed.
    Delete { session: SessionId, reply: oneshot::Sender<Result<(), StoreError>> },
    /// Change one row that belongs to no session; answers whether there was one.
    Row { statement: Statement, reply: oneshot::Sender<Result<bool, sqlx::Error>> },
    /// Copy a session's history into a new one.
    /// `from` says where the source is, if it is not here.
    Fork { fork: Box<Fork>, from: Option<String>, reply: oneshot::Sender<Result<SessionRow, ForkError>> },
}

/// A commit on its way.
pub(super) struct CommitJob {
    pub prepared: Prepared,
    pub reply: oneshot::Sender<Result<Vec<Committed>, CommitError>>,
    /// Its place in the queue's room, given back when it is answered.
    pub _room: OwnedSemaphorePermit,
}

impl CommitJob {
    /// Answers that the entries may be shown. Nobody listening is fine: the facts are in the store.
    pub(super) fn stored(self) {
        self.reply.send(Ok(self.prepared.entries)).ok();
    }

    pub(super) fn failed(self, error: CommitError) {
        self.reply.send(Err(error)).ok();
    }
}

/// Statements of one maintenance transaction, each with the rows it must change, if that matters.
pub(super) struct Slice {
    pub statements: Vec<(Statement, Option<u64>)>,
    /// False if a count was another; then nothing was changed.
    pub reply: oneshot::Sender<Result<bool, sqlx::Error>>,
}

/// State of the writer task.
pub(super) struct Pipeline {
    place: Place,
    options: StoreOptions,
    fail: FailPoints,
    /// None after it was lost and could not be opened again.
    connection: Option<SqliteConnection>,
    texts: Texts,
    flush: Option<mpsc::Sender<Waiting>>,
    checkpoints: Option<Arc<Checkpoints>>,
    checkpoint_task: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
    indexing: Arc<Indexing>,
    closing: CancellationToken,
}

impl Pipeline {
    pub(super) fn new(
        place: Place,
        options: StoreOptions,
        connection: SqliteConnection,
        (counts, indexing): (Arc<Counts>, Arc<Indexing>),
        closing: CancellationToken,
    ) -> Self {
        let fail = super::fail_points(&options);
        Self {
            place,
            options,
            fail,
            connection: Some(connection),
            texts: Texts::default(),
            flush: None,
            checkpoints: None,
            checkpoint_task: None,
            counts,
            indexing,
            closing,
        }
    }

    /// The same with the tasks of a database in a file.
    pub(super) fn with(
        self,
        flush: Option<mpsc::Sender<Waiting>>,
        checkpoints: Option<(Arc<Checkpoints>, JoinHandle<()>)>,
    ) -> Self {
        let (checkpoints, checkpoint_task) = checkpoints.unzip();
        Self { flush, checkpoints, checkpoint_task, ..self }
    }

    /// Runs until it is closed and the queue is empty, or until all handles are gone.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>, mut slices: mpsc::Receiver<Slice>) {
        let closing = self.closing.clone();
        let mut jobs = Vec::new();
        let mut batches = 0;
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled(), if !queue.is_closed() => {
                    queue.close();
                    slices.close();
                }
                count = queue.recv_many(&mut jobs, BATCH_COMMITS) => {
                    if count == 0 {
                        break;
                    }
                    self.work(&mut jobs).await;
                    batches += 1;
                    if batches >= BATCHES_BEFORE_SLICE && let Ok(slice) = slices.try_recv() {
                        batches = 0;
                        self.slice(slice).await;
                    }
                }
                Some(slice) = slices.recv() => {
                    batches = 0;
                    self.slice(slice).await;
                }
            }
        }
        self.finish().await;
    }

    /// Splits what was queued into transactions.
    async fn work(&mut self, jobs: &mut Vec<Job>) {
        let mut group: Vec<CommitJob> = Vec::with_capacity(jobs.len());
        let (mut rows, mut bytes) = (0, 0);
        for job in jobs.drain(..) {
            match job {
                Job::Commit(job) => {
                    rows += job.prepared.rows.len();
                    bytes += job.prepared.bytes;
                    group.push(job);
                    if rows < BATCH_ROWS && bytes < BATCH_BYTES {
                        continue;
                    }
                    self.commit(std::mem::take(&mut group)).await;
                }
                Job::Flush(reply) => {
                    self.commit(std::mem::take(&mut group)).await;
                    self.flush(reply).await;
                }
                Job::Delete { session, reply } => {
                    self.commit(std::mem::take(&mut group)).await;
                    self.delete(session, reply).await;
                }
                Job::Row { statement, reply } => {
                    self.commit(std::mem::take(&mut group)).await;
                    let hit = self.fail.hit(FailPoint::BeforeBegin).await;
                    let changed = match hit {
                        Ok(()) => self.run_slice(vec![(statement, Some(1))]).await,
                        Err(error) => Err(error.into()),
                    };
                    // Nobody listening is fine: whoever reads the table finds it.
                    reply.send(changed).ok();
                }
                Job::Fork { fork, from, reply } => {
                    self.commit(std::mem::take(&mut group)).await;
                    let row = self.fork(&fork, from).await.unwrap_or_else(|error| Err(fork::failed(error)));
                    if row.is_ok() {
                        self.indexing.mark(fork.session, Gives::Prompt);
                    }
                    reply.send(row).ok();
                }
            }
            (rows, bytes) = (0, 0);
        }
        self.commit(group).await;
    }

    async fn commit(&mut self, group: Vec<CommitJob>) {
        let writes: Vec<&Prepared> =
            group.iter().map(|job| &job.prepared).filter(|prepared| !prepared.rows.is_empty()).collect();
        let mut results = if writes.is_empty() { Vec::new() } else { self.write(&writes).await }.into_iter();
        for job in group {
            // A commit of signals alone has no result of its own: it is shown in its place.
            let result = if job.prepared.rows.is_empty() { Ok(()) } else { results.next().unwrap_or(Ok(())) };
            if let (Ok(()), Some(gives)) = (&result, job.prepared.gives) {
                self.indexing.mark(job.prepared.session, gives);
            }
            match (result, &self.flush) {
                (Err(error), _) => job.failed(error),
                (Ok(()), Some(flush)) if job.prepared.boundary => {
                    if let Err(lost) = flush.send(Waiting::Commit(job)).await
                        && let Waiting::Commit(job) = lost.0
                    {
                        job.failed(CommitError::Closed);
                    }
                }
                (Ok(()), _) => job.stored(),
            }
        }
    }

    /// One transaction, or after it was lost one for each session.
    async fn write(&mut self, writes: &[&Prepared]) -> Vec<Result<(), CommitError>> {
        let results = match self.transact(writes).await {
            Ok(results) => results,
            // The lock's holder would make every session wait again.
            Err(Lost::Locked(error)) => fail_all(writes, Arc::new(error)),
            Err(Lost::Gone(error)) => {
                tracing::warn!(
                    path = %self.place.path().display(), %error, sessions = writes.len(),
                    "transaction lost, trying again session by session"
                );
                self.replay(writes).await
            }
        };
        let stored = results.iter().filter(|result| result.is_ok()).count();
        self.counts.commits.fetch_add(stored as u64, Ordering::Relaxed);
        self.counts.transactions.fetch_add(1, Ordering::Relaxed);
        // A session's commit touches its row's page and a page of the log at least.
        let bytes: usize = writes.iter().map(|write| write.bytes + 2 * 4096).sum();
        self.wrote(bytes as u64).await;
        results
    }

    async fn transact(&mut self, writes: &[&Prepared]) -> Result<Vec<Result<(), CommitError>>, Lost> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let opened = self.place.connect(Role::Write, &self.options).await;
                self.connection.insert(opened.map_err(Lost::of)?)
            }
        };
        let results = batch::transact(connection, &mut self.texts, &self.fail, writes).await?;
        self.fail.hit(FailPoint::AfterCommit).await.map_err(|error| Lost::Gone(error.into()))?;
        Ok(results)
    }

    async fn replay(&mut self, writes: &[&Prepared]) -> Vec<Result<(), CommitError>> {
        let mut results = Vec::with_capacity(writes.len());
        for (place, write) in writes.iter().enumerate() {
            self.connection = None;
            match self.place.connect(Role::Write, &self.options).await {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => {
                    results.extend(fail_all(&writes[place..], Arc::new(error)));
                    return results;
                }
            }
            let result = match self.transact(&[write]).await {
                Ok(one) => one.into_iter().next().unwrap_or(Ok(())),
                Err(Lost::Locked(error) | Lost::Gone(error)) => {
                    self.connection = None;
                    Err(CommitError::storage(write.session, Arc::new(error)))
                }
            };
            results.push(match result {
                Err(CommitError::Conflict { stored: Some(stored), .. }) if stored == write.last => {
                    self.was_ours(write).await
                }
                other => other,
            });
        }
        results
    }

    /// A COMMIT that reported an error may have happened all the same: then the stored facts are the very ones.
    async fn was_ours(&mut self, write: &Prepared) -> Result<(), CommitError> {
        let conflict = CommitError::Conflict {
            session: write.session,
            expected: write.expected,
            stored: Some(write.last),
        };
        let (Some(connection), Some(row)) = (&mut self.connection, write.rows.last()) else {
            return Err(conflict);
        };
        match batch::holds(connection, write.session, row).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(conflict),
            Err(error) => Err(CommitError::storage(write.session, Arc::new(error))),
        }
    }

    async fn flush(&mut self, reply: oneshot::Sender<io::Result<()>>) {
        let Some(flush) = &self.flush else {
            reply.send(Ok(())).ok();
            return;
        };
        // If the flush task is gone, dropping the reply tells.
        flush.send(Waiting::Flush(reply)).await.ok();
    }

    async fn delete(&mut self, session: SessionId, reply: oneshot::Sender<Result<(), StoreError>>) {
        let remove = "insert or ignore into deletions (session) select id from sessions where id = ?1; \
                      delete from sessions where id = ?1; delete from session_details where session = ?1; \
                      delete from turns where session = ?1; delete from pending_inputs where session = ?1; \
                      delete from receipts where session = ?1";
        let statements = vec![(Statement::new(remove).id(session.0), Some(1))];
        let result = match self.run_slice(statements).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::UnknownSession { session }),
            Err(error) => Err(StoreError::database("deleting a session")(error)),
        };
        reply.send(result).ok();
    }

    async fn fork(
        &mut self,
        fork: &Fork,
        from: Option<String>,
    ) -> Result<Result<SessionRow, ForkError>, sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.place.connect(Role::Write, &self.options).await?),
        };
        let row = fork::fork(connection, fork, from).await;
        if row.is_err() {
            self.connection = None;
        }
        // A page holds a handful of facts.
        self.wrote(fork.through_seq * 512).await;
        row
    }

    async fn slice(&mut self, slice: Slice) {
        let result = self.run_slice(slice.statements).await;
        slice.reply.send(result).ok();
    }

    async fn run_slice(&mut self, statements: Vec<(Statement, Option<u64>)>) -> Result<bool, sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.place.connect(Role::Write, &self.options).await?),
        };
        let result = batch::slice(connection, statements).await;
        if result.is_err() {
            // Whatever state it is in, the next transaction shall not inherit it.
            self.connection = None;
        }
        self.wrote(64 * 1024).await;
        result
    }

    /// Keeps the log short. Usually the checkpoint task does; but under constant load nobody finds a moment at which the
    /// whole log is moved, so that it can start over, except the writer between two commits.
    async fn wrote(&mut self, bytes: u64) {
        let (Some(checkpoints), Some(connection)) = (&self.checkpoints, &mut self.connection) else { return };
        if checkpoints.wrote(bytes)
            && let Err(error) = checkpoints.passive(connection).await
        {
            tracing::warn!(path = %self.place.path().display(), %error, "checkpoint failed");
        }
    }

    async fn finish(&mut self) {
        // The flush task answers whoever still waits, then ends.
        self.flush = None;
        // Its connection must be gone, so that the last one to close can move the whole log. Cancelled here as well: the
        // handles may have been dropped without closing.
        self.closing.cancel();
        if let Some(task) = self.checkpoint_task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the checkpoint task ended badly");
        }
        let Some(mut connection) = self.connection.take() else { return };
        if self.checkpoints.is_some()
            && let Err(error) = connection.execute("pragma wal_checkpoint(truncate)").await
        {
            tracing::warn!(path = %self.place.path().display(), %error, "last checkpoint failed");
        }
        if let Err(error) = connection.close().await {
            tracing::warn!(path = %self.place.path().display(), %error, "closing the database failed");
        }
    }
}

fn fail_all(writes: &[&Prepared], error: Arc<sqlx::Error>) -> Vec<Result<(), CommitError>> {
    writes.iter().map(|write| Err(CommitError::storage(write.session, error.clone()))).collect()
}
