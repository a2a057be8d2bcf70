//! Finding files by a few letters of their path: bounded walks, kept for a moment so that typing stays fast.
//!
//! Ignore files are respected as git does, hidden files are found, `.git` is not looked into, links are not followed, and
//! what is no UTF-8 cannot be told to clients and is left out.

mod score;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use score::Hit;
use walk::{Listing, Walk};

/// Directories of one search.
pub const MAX_ROOTS: usize = 16;
/// What a search finds at most.
pub const MAX_HITS: usize = 50;
/// Longest query, in characters.
pub const MAX_QUERY: usize = 256;
/// How long a search may look; then it answers what it has found.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long a directory's listing is good for.
const FRESH: Duration = Duration::from_secs(5);
/// Listings that are kept.
const KEPT: usize = 4;
/// Walks, or scorings, at the same time.
const WORKERS: usize = 2;

/// What to find, and where.
#[derive(Clone, Debug)]
pub struct FileQuery {
    /// Letters of a path.
    pub query: String,
    /// Directories, absolute.
    pub roots: Vec<PathBuf>,
    /// Ends the search; it then has found nothing.
    pub cancelled: CancellationToken,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Files {
    /// The best first.
    pub hits: Vec<Hit>,
    /// False if not everything was looked at.
    pub complete: bool,
}

/// The walks of one engine.
#[derive(Debug)]
pub(crate) struct Finder {
    walks: Mutex<HashMap<PathBuf, Arc<Walk>>>,
    /// Somebody looks after old listings.
    pruning: AtomicBool,
    workers: Arc<Semaphore>,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            walks: Mutex::default(),
            pruning: AtomicBool::new(false),
            workers: Arc::new(Semaphore::new(WORKERS)),
        }
    }
}

impl Finder {
    /// Searches. Dropping the future stops the walks that nobody else waits for.
    pub(crate) async fn find(&self, query: FileQuery, tasks: &TaskTracker) -> Files {
        if query.query.trim().is_empty() {
            return Files { hits: Vec::new(), complete: true };
        }
        let deadline = Instant::now() + DEADLINE;
        let cancelled = query.cancelled.clone();
        let search = async {
            let mut listings: Vec<(usize, Arc<Listing>)> = Vec::new();
            // All begin at once; then each is waited for.
            let walks: Vec<_> = query.roots.iter().map(|root| self.walk(root, tasks)).collect();
            for (place, walk) in walks.iter().enumerate() {
                listings.push((place, walk.listing(deadline).await));
            }
            let complete = listings.iter().all(|(_, listing)| listing.complete);
            let worker = self.workers.clone().acquire_owned().await;
            let (text, stop) = (query.query, query.cancelled.clone());
            let scoring = tasks.spawn_blocking(move || {
                let _worker = worker;
                score::best(&text, &listings, MAX_HITS, &stop)
            });
            match scoring.await {
                Ok(hits) => Files { hits, complete },
                Err(error) => {
                    tracing::error!(%error, "scoring of file names ended badly");
                    Files::default()
                }
            }
        };
        cancelled.run_until_cancelled(search).await.unwrap_or_default()
    }

    /// The walk of a directory: one that runs, or has ended a moment ago, or a new one.
    fn walk(&self, root: &PathBuf, tasks: &TaskTracker) -> walk::Waiting {
        let mut walks = self.walks.lock();
        walks.retain(|_, walk| walk.is_fresh(FRESH));
        if let Some(waiting) = walks.get(root).and_then(walk::Waiting::join) {
            return waiting;
        }
        if walks.len() >= KEPT {
            let oldest = walks.iter().min_by_key(|(_, walk)| walk.begun).map(|(root, _)| root.clone());
            oldest.and_then(|root| walks.remove(&root));
        }
        let (walk, waiting) = walk::begin(root.clone(), self.workers.clone(), tasks);
        walks.insert(root.clone(), walk);
        waiting
    }

    /// Forgets listings that nobody asked for lately. False if there are none left.
    pub(crate) fn prune(&self) -> bool {
        let mut walks = self.walks.lock();
        walks.retain(|_, walk| walk.is_fresh(FRESH));
        if walks.is_empty() {
            self.pruning.store(false, Ordering::Release);
        }
        !walks.is_empty()
    }

    /// The server stops: so do all walks.
    pub(crate) fn stop(&self) {
        self.walks.lock().values().for_each(|walk| walk.stop());
    }

    /// True if there are listings and nobody looks after them yet: the caller is to do that.
    pub(crate) fn begin_pruning(&self) -> bool {
        !self.walks.lock().is_empty() && !self.pruning.swap(true, Ordering::AcqRel)
    }
}

/// How often listings are looked at for those that have become old.
pub(crate) const PRUNE_EVERY: Duration = FRESH;
