//! Makes boundaries survive power loss: syncs the write-ahead log through a descriptor of its own, once for all that wait.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::CommitError;
use crate::fail::{FailPoint, FailPoints};
use crate::writer::Counts;
use crate::writer::pipeline::CommitJob;

/// Who waits for the disk.
pub(super) enum Waiting {
    /// A committed boundary.
    Commit(CommitJob),
    /// Anybody.
    Flush(oneshot::Sender<io::Result<()>>),
}

/// Runs until the pipeline has ended and everybody is answered.
pub(super) async fn run(
    wal: PathBuf,
    fail: FailPoints,
    mut waiting: mpsc::Receiver<Waiting>,
    tasks: TaskTracker,
    counts: Arc<Counts>,
) {
    let wal: Arc<Path> = wal.into();
    let mut batch = Vec::new();
    // Whoever comes while the disk works is in the next round.
    while waiting.recv_many(&mut batch, super::UNITS).await > 0 {
        let begun = Instant::now();
        let outcome = flush(&wal, &fail, &tasks).await.map_err(Arc::new);
        counts.flushed(begun.elapsed());
        if let Err(error) = &outcome {
            tracing::error!(path = %wal.display(), %error, commits = batch.len(), "flush failed");
        }
        for one in batch.drain(..) {
            match one {
                Waiting::Commit(job) => match &outcome {
                    Ok(()) => job.stored(),
                    Err(source) => {
                        let session = job.prepared.session;
                        job.failed(CommitError::Unflushed { session, source: source.clone() });
                    }
                },
                Waiting::Flush(reply) => {
                    let copy = |error: Arc<io::Error>| io::Error::new(error.kind(), error);
                    reply.send(outcome.clone().map_err(copy)).ok();
                }
            }
        }
    }
}

async fn flush(wal: &Arc<Path>, fail: &FailPoints, tasks: &TaskTracker) -> io::Result<()> {
    fail.hit(FailPoint::BeforeFlush).await?;
    let wal = wal.clone();
    tasks.spawn_blocking(move || sync(&wal)).await.map_err(io::Error::other)??;
    fail.hit(FailPoint::AfterFlush).await
}

/// Opened anew each time, so that it is the log of now even if the writer had to reconnect. SQLite keeps its locks on the
/// database and the `-shm` file, never on the log; only therefore may we open and close it beside SQLite (closing any
/// descriptor of a file drops all POSIX locks that the process has on it).
fn sync(wal: &Path) -> io::Result<()> {
    match File::open(wal) {
        Ok(file) => sync_data(&file),
        // SQLite removes the log after its content has been moved and synced.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(target_vendor = "apple")]
fn sync_data(file: &File) -> io::Result<()> {
    // Elsewhere on Apple systems `fsync` leaves the data in the drive's cache; some file systems know no better.
    match rustix::fs::fcntl_fullfsync(file) {
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::INVAL) => Ok(rustix::fs::fsync(file)?),
        other => Ok(other?),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn sync_data(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}
