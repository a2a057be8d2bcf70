//! What is inside the files: known from the index, from an earlier look, or read, hashed and kept now.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use git2::{ObjectType, Oid, Repository};
use rustix::fs::{Mode as OpenMode, OFlags};

use super::blobs::BlobStore;
use super::stamp::{Mode, Stamp};

/// What is known about a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The index vouches for it: this object of the repository, in git's own form (line ends, LFS pointers).
    Index(Oid),
    /// Read by us, byte for byte, and kept in the blob store.
    Kept(Oid),
    /// The commit checked out in a repository inside the repository.
    Commit(Oid),
    /// Not looked at in time; what the index has is the best guess.
    Guess(Oid),
    /// Not known: too large, unreadable, or not looked at in time.
    Unknown,
}

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge,
    /// Gone, replaced or not for us to see.
    Failed(io::Error),
}

/// Reads a file that had this stamp a moment ago, together with the stamp of what was read.
/// Follows no link and never waits, whatever was put in the file's place.
pub(crate) fn read(path: &Path, stamp: &Stamp, max_bytes: u64) -> Result<(Vec<u8>, Stamp), Unread> {
    if stamp.mode == Mode::Symlink {
        let target = std::fs::read_link(path).map_err(Unread::Failed)?;
        return Ok((target.as_os_str().as_bytes().to_vec(), *stamp));
    }
    if stamp.size > max_bytes {
        return Err(Unread::TooLarge);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, OpenMode::empty()).map_err(|error| Unread::Failed(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(Unread::Failed)?;
    let Some(mut found) = Stamp::of(&metadata).filter(|_| metadata.is_file()) else {
        return Err(Unread::Failed(io::ErrorKind::InvalidData.into()));
    };
    // The caller may know better whether the executable bit means anything.
    found.mode = if found.mode.comparable(stamp.mode) { stamp.mode } else { found.mode };
    let mut content = Vec::with_capacity(usize::try_from(found.size).unwrap_or(0).saturating_add(1));
    // One byte more, to notice a file that grows.
    let count = file.take(max_bytes.saturating_add(1)).read_to_end(&mut content).map_err(Unread::Failed)?;
    if count as u64 > max_bytes {
        return Err(Unread::TooLarge);
    }
    Ok((content, found))
}

/// Git's name of a content.
pub(crate) fn hash(content: &[u8]) -> Result<Oid, git2::Error> {
    Oid::hash_object(ObjectType::Blob, content)
}

/// The commit checked out in a repository inside the repository.
pub(crate) fn commit_of(path: &Path) -> Option<Oid> {
    let repo = crate::repo::open_exactly(path).ok()?;
    repo.head().ok()?.target()
}

/// A file to be read and kept.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    /// The object that the index names, if any: equal content needs no copy.
    pub(crate) indexed: Option<Oid>,
}

/// What came of a job.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) content: Content,
    pub(crate) stamp: Stamp,
    pub(crate) read_at: SystemTime,
}

/// What reading may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) max_file_bytes: u64,
    pub(crate) max_total_bytes: u64,
    pub(crate) deadline: Instant,
}

/// Reads, hashes and keeps many files on a few threads; the most recently changed first, since those are the likeliest
/// to be changed again. `None` for those that the budget did not reach.
pub(crate) fn keep_all(store: &BlobStore, jobs: &[Job], budget: Budget) -> Vec<Option<Outcome>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(jobs.get(index).map(|job| job.stamp.mtime)));
    let next = AtomicUsize::new(0);
    let spent = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if Instant::now() >= budget.deadline {
                break;
            }
            let Some(job) = jobs.get(index) else { continue };
            if let Some(outcome) = keep(store, job, budget, &spent) {
                done.push((index, outcome));
            }
        }
        done
    };
    let threads =
        if jobs.len() < 32 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(4) };
    let mut outcomes: Vec<Option<Outcome>> = (0..jobs.len()).map(|_| None).collect();
    let finished = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut finished = work();
        for helper in helpers {
            match helper.join() {
                Ok(done) => finished.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        finished
    });
    for (index, outcome) in finished {
        if let Some(slot) = outcomes.get_mut(index) {
            *slot = Some(outcome);
        }
    }
    outcomes
}

fn keep(store: &BlobStore, job: &Job, budget: Budget, spent: &AtomicU64) -> Option<Outcome> {
    let read_at = SystemTime::now();
    let (content, stamp) = read(&job.path, &job.stamp, budget.max_file_bytes).ok()?;
    let oid = hash(&content).ok()?;
    if job.indexed == Some(oid) {
        return Some(Outcome { content: Content::Index(oid), stamp, read_at });
    }
    let size = content.len() as u64;
    if !store.holds(oid, size) {
        if spent.fetch_add(size, Ordering::Relaxed).saturating_add(size) > budget.max_total_bytes {
            return None;
        }
        if let Err(error) = store.put(oid, &content) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a file could not be kept for the turn's diff"
            );
            return None;
        }
    }
    Some(Outcome { content: Content::Kept(oid), stamp, read_at })
}

/// The bytes of a content recorded before; `None` if they are gone or too many.
pub(crate) fn recall(
    repo: &Repository,
    store: &BlobStore,
    content: Content,
    max_bytes: u64,
) -> Option<Vec<u8>> {
    match content {
        Content::Index(oid) | Content::Guess(oid) => {
            let (size, kind) = repo.odb().and_then(|odb| odb.read_header(oid)).ok()?;
            if kind != ObjectType::Blob || size as u64 > max_bytes {
                return None;
            }
            Some(repo.find_blob(oid).ok()?.content().to_vec())
        }
        Content::Kept(oid) => store.get(oid),
        Content::Commit(oid) => Some(format!("Subproject commit {oid}\n").into_bytes()),
        Content::Unknown => None,
    }
}
