//! One walk through a directory, on a blocking thread, shared by all who wait for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ignore::WalkBuilder;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Entries of one directory tree that are looked at.
const MAX_ENTRIES: usize = 200_000;
/// Bytes of their names.
const MAX_BYTES: usize = 24 << 20;
/// How long a walk goes on for those who come later, after the one that began it has its answer.
const LONGEST: Duration = Duration::from_secs(30);
/// Directories below one another.
const MAX_DEPTH: usize = 128;

/// Paths relative to a root, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    names: String,
    /// End of each name, and whether it is a directory.
    ends: Vec<(u32, bool)>,
    /// Nothing was left out.
    pub(super) complete: bool,
}

impl Listing {
    fn push(&mut self, name: &str, directory: bool) -> bool {
        if self.ends.len() >= MAX_ENTRIES || self.names.len() + name.len() > MAX_BYTES {
            return false;
        }
        self.names.push_str(name);
        self.ends.push((u32::try_from(self.names.len()).unwrap_or(u32::MAX), directory));
        true
    }

    /// All paths, each with whether it is a directory.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut start = 0;
        self.ends.iter().map(move |(end, directory)| {
            let end = *end as usize;
            let name = &self.names[start..end];
            start = end;
            (name, *directory)
        })
    }
}

/// A walk that runs or has ended.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) begun: Instant,
    found: Mutex<Arc<Listing>>,
    ended: watch::Sender<Option<Instant>>,
    /// Who waits.
    waiting: AtomicUsize,
    stop: AtomicBool,
    /// Somebody has gone on with a part of it: it ends by itself, so that the next one finds all.
    keep: AtomicBool,
}

impl Walk {
    /// Ends it before its time.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// It ended longer ago than it did.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        self.ended.send_modify(|ended| *ended = ended.and_then(|at| at.checked_sub(by)));
    }

    /// Whether its listing may be used: it runs, or has ended a moment ago.
    pub(super) fn is_fresh(&self, fresh: Duration) -> bool {
        !self.stop.load(Ordering::Acquire) && self.ended.borrow().is_none_or(|ended| ended.elapsed() < fresh)
    }
}

/// Somebody waits for a walk. When the last one is gone before its end, it stops.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Walk>);

impl Waiting {
    /// Waits for it too; none if it is stopping.
    pub(super) fn join(walk: &Arc<Walk>) -> Option<Self> {
        walk.waiting.fetch_add(1, Ordering::AcqRel);
        let waiting = Self(Arc::clone(walk));
        (!walk.stop.load(Ordering::Acquire)).then_some(waiting)
    }

    /// What was found, all of it if it is there in time.
    pub(super) async fn listing(&self, deadline: Instant) -> Arc<Listing> {
        let mut ended = self.0.ended.subscribe();
        if tokio::time::timeout_at(deadline, ended.wait_for(Option::is_some)).await.is_err() {
            self.0.keep.store(true, Ordering::Release);
        }
        Arc::clone(&self.0.found.lock())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && self.0.ended.borrow().is_none() && !self.0.keep.load(Ordering::Acquire) {
            self.0.stop.store(true, Ordering::Release);
        }
    }
}

/// Begins a walk. It waits for a free worker first.
pub(super) fn begin(root: PathBuf, workers: Arc<Semaphore>, tasks: &TaskTracker) -> (Arc<Walk>, Waiting) {
    let walk = Arc::new(Walk {
        begun: Instant::now(),
        found: Mutex::default(),
        ended: watch::Sender::new(None),
        waiting: AtomicUsize::new(1),
        stop: AtomicBool::new(false),
        keep: AtomicBool::new(false),
    });
    let (shared, blocking) = (Arc::clone(&walk), tasks.clone());
    tasks.spawn(async move {
        let worker = workers.acquire_owned().await;
        let job = Arc::clone(&shared);
        let walked = blocking.spawn_blocking(move || {
            let _worker = worker;
            run(&root, &job);
        });
        if let Err(error) = walked.await {
            tracing::error!(%error, "a walk through files ended badly");
        }
        shared.ended.send_replace(Some(Instant::now()));
    });
    (Arc::clone(&walk), Waiting(walk))
}

fn run(root: &Path, walk: &Walk) {
    let begun = Instant::now();
    let mut listing = Listing { complete: true, ..Listing::default() };
    let entries = WalkBuilder::new(root)
        .hidden(false)
        .follow_links(false)
        .max_depth(Some(MAX_DEPTH))
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let mut published = Instant::now();
    for entry in entries {
        if walk.stop.load(Ordering::Acquire) || begun.elapsed() > LONGEST {
            listing.complete = false;
            break;
        }
        // What cannot be read is not there for us.
        let Ok(entry) = entry else { continue };
        let Some(name) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else { continue };
        if name.is_empty() {
            continue;
        }
        let directory = match entry.file_type() {
            Some(kind) if kind.is_symlink() => entry.path().is_dir(),
            Some(kind) => kind.is_dir(),
            None => false,
        };
        if !listing.push(name, directory) {
            listing.complete = false;
            break;
        }
        // Who runs out of time gets what there is.
        if published.elapsed() > Duration::from_millis(250) {
            *walk.found.lock() = Arc::new(Listing { complete: false, ..listing.clone() });
            published = Instant::now();
        }
    }
    *walk.found.lock() = Arc::new(listing);
}
