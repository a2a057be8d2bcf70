//! The workspace as it was before a turn, and what became of it since: the turn's diff.
//!
//! A snapshot holds a stamp of every file that git would show, and what was inside: for a file that the index vouches
//! for, the name of the object in the repository; for a changed or untracked one, a copy in a [`BlobStore`].
//! A diff lists the files again and looks into those whose stamp differs, and into no others.

mod blobs;
mod change;
mod content;
mod ignored;
mod renames;
mod render;
mod scan;
mod stamp;
mod walk;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use git2::{Oid, Repository};
use signalbox_facts::TurnDiff;

pub use blobs::BlobStore;
use content::{Budget, Content, Job};
use scan::{Listing, RelPath, Row, ScanRequest, Seen};
pub use stamp::StatCache;
use stamp::{Mode, Stamp};

use crate::repo;

/// What a snapshot and its diffs may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Files listed in one checkout; more make the snapshot partial.
    pub max_files: usize,
    /// A larger file is noticed when it changes, but shown like a binary one.
    pub max_file_bytes: u64,
    /// Bytes copied into the store by one snapshot.
    pub max_total_bytes: u64,
    /// Length of the diff; what does not fit is left out and makes it truncated.
    pub max_diff_bytes: usize,
    /// Submodules and other checkouts inside the checkout that are looked into.
    pub max_nested: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_files: 200_000,
            max_file_bytes: 4 << 20,
            max_total_bytes: 256 << 20,
            max_diff_bytes: 1 << 20,
            max_nested: 32,
        }
    }
}

/// Why a workspace could not be recorded or compared at all. Lesser trouble makes the result partial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The folder for contents cannot be used.
    #[error("cannot use the folder {} for file contents", path.display())]
    Store {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A workspace as it was at one moment.
#[derive(Debug)]
pub struct Snapshot {
    checkouts: Vec<Checkout>,
    outside: Vec<PathBuf>,
    store: BlobStore,
    limits: Limits,
    taken_at: SystemTime,
}

/// One checkout of the workspace.
#[derive(Debug)]
struct Checkout {
    workdir: PathBuf,
    /// What its paths are shown under: nothing for the first root's, `sub/` for one inside it, else its absolute path.
    prefix: Vec<u8>,
    head: Option<Oid>,
    /// The roots inside, relative: looked at first.
    first: Vec<RelPath>,
    entries: BTreeMap<RelPath, Entry>,
    /// Whether all of it was listed.
    complete: bool,
}

/// One file as it was.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` if the time was up.
    stamp: Option<Stamp>,
    /// Whether the file could have been changed right after under the same stamp.
    racy: bool,
    content: Content,
}

impl Snapshot {
    /// Records the checkouts that the roots lie in, whole ones, the roots' own files first while time lasts.
    /// The first root is the session's cwd: paths in the diff are relative to the root of its checkout.
    ///
    /// `None` if no root lies in a checkout (nor in one that can be read): the diff must then come from what tools
    /// report. What `deadline` or the limits leave out makes the snapshot partial; it is late by one index or one file.
    /// `cache` is the caller's memory of files hashed before and makes the next call cheap.
    pub fn take(
        roots: &[PathBuf],
        store: &Path,
        limits: Limits,
        deadline: Instant,
        cache: &mut StatCache,
    ) -> Result<Option<Self>, SnapshotError> {
        let store = BlobStore::open(store)
            .map_err(|source| SnapshotError::Store { path: store.to_owned(), source })?;
        let mut snapshot =
            Self { checkouts: Vec::new(), outside: Vec::new(), store, limits, taken_at: SystemTime::now() };
        let mut places: Vec<Place> = Vec::new();
        for root in roots {
            match locate(root) {
                Some((workdir, rel)) => match places.iter_mut().find(|place| place.0 == workdir) {
                    Some(place) => place.2.push(rel),
                    None => {
                        let prefix = if places.is_empty() { Vec::new() } else { absolute_prefix(&workdir) };
                        places.push((workdir, prefix, vec![rel]));
                    }
                },
                None => snapshot.outside.push(root.clone()),
            }
        }
        cache.begin();
        let mut nested_left = limits.max_nested;
        let mut next = 0;
        while next < places.len() {
            let Some((workdir, prefix, first)) = places.get(next).cloned() else { break };
            if next > 0 && Instant::now() >= deadline {
                snapshot.leave_out(roots, places.get(next..).unwrap_or_default());
                break;
            }
            next += 1;
            match snapshot.record(&workdir, prefix.clone(), first, deadline, cache) {
                Ok(nested) => {
                    for inside in nested {
                        if nested_left == 0 {
                            snapshot.mark_incomplete(&workdir);
                            break;
                        }
                        if let Some(place) = nested_place(&workdir, &prefix, &inside, &places) {
                            nested_left -= 1;
                            places.push(place);
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        workdir = %workdir.display(),
                        "a checkout cannot be recorded"
                    );
                    snapshot.outside.extend(roots.iter().filter(|root| root.starts_with(&workdir)).cloned());
                }
            }
        }
        cache.sweep();
        Ok((!snapshot.checkouts.is_empty()).then_some(snapshot))
    }

    /// Whether something could not be recorded in time or within the limits. A diff is partial only if it matters.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.checkouts.iter().any(|checkout| {
            !checkout.complete
                || checkout
                    .entries
                    .values()
                    .any(|entry| matches!(entry.content, Content::Unknown | Content::Guess(_)))
        })
    }

    /// The roots of which nothing is recorded, because they are not in a checkout that can be read.
    #[must_use]
    pub fn outside(&self) -> &[PathBuf] {
        &self.outside
    }

    /// HEAD's commit of the checkout that holds the first root.
    #[must_use]
    pub fn head(&self) -> Option<String> {
        Some(self.checkouts.first()?.head?.to_string())
    }

    /// What changed since, as a unified diff in git's style, files in the order of their paths: untracked, deleted,
    /// renamed, changed modes, binary files. Cheap where nothing did. What `deadline` leaves out makes it partial.
    pub fn diff(&self, deadline: Instant, cache: &mut StatCache) -> TurnDiff {
        let mut output = render::Output::new(self.limits.max_diff_bytes);
        let mut partial = false;
        for checkout in &self.checkouts {
            let repo = match repo::open_exactly(&checkout.workdir) {
                Ok(repo) => repo,
                Err(error) => {
                    // Gone, for instance: a submodule removed in the turn, or `rm -rf .git`.
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "a checkout cannot be compared"
                    );
                    partial = true;
                    continue;
                }
            };
            partial |= self.diff_checkout(checkout, &repo, deadline, cache, &mut output);
        }
        let (diff, truncated) = output.finish();
        TurnDiff { diff, truncated, partial }
    }

    /// Gives up on checkouts for which no time is left.
    fn leave_out(&mut self, roots: &[PathBuf], places: &[Place]) {
        for (workdir, _, first) in places {
            if first.is_empty() {
                // Inside another one, whose diff then lacks what happens there.
                self.checkouts
                    .iter_mut()
                    .for_each(|checkout| checkout.complete &= !workdir.starts_with(&checkout.workdir));
            } else {
                self.outside.extend(roots.iter().filter(|root| root.starts_with(workdir)).cloned());
            }
        }
    }

    fn mark_incomplete(&mut self, workdir: &Path) {
        if let Some(checkout) = self.checkouts.iter_mut().find(|checkout| checkout.workdir == workdir) {
            checkout.complete = false;
        }
    }

    /// Records one checkout; returns those inside it.
    fn record(
        &mut self,
        workdir: &Path,
        prefix: Vec<u8>,
        first: Vec<RelPath>,
        deadline: Instant,
        cache: &mut StatCache,
    ) -> Result<Vec<PathBuf>, RecordError> {
        let repo = repo::open_exactly(workdir)?;
        let request = ScanRequest {
            workdir,
            first: &first,
            known: Vec::new(),
            max_files: self.limits.max_files,
            deadline,
        };
        let looked_at = SystemTime::now();
        let mut listing = scan::scan(&repo, &request)?;
        let mut entries = Vec::with_capacity(listing.rows.len());
        let mut pending: Vec<(RelPath, Option<Oid>)> = Vec::new();
        let mut jobs = Vec::new();
        for (path, row) in std::mem::take(&mut listing.rows) {
            let absolute = || request.absolute(&path);
            let (entry, job) = self.entry(&listing, &row, absolute, looked_at, cache);
            if let Some(entry) = entry {
                entries.push((path, entry));
            } else if let Some(job) = job {
                pending.push((path, job.indexed));
                jobs.push(job);
            }
        }
        let budget = Budget {
            max_file_bytes: self.limits.max_file_bytes,
            max_total_bytes: self.limits.max_total_bytes,
            deadline,
        };
        let outcomes = content::keep_all(&self.store, &jobs, budget);
        for (((path, indexed), job), outcome) in pending.into_iter().zip(jobs).zip(outcomes) {
            let entry = match outcome {
                Some(outcome) => {
                    if let Content::Index(oid) | Content::Kept(oid) = outcome.content {
                        cache.put(job.path, outcome.stamp, oid, outcome.read_at);
                    }
                    let racy = outcome.stamp.is_racy(outcome.read_at);
                    Entry { stamp: Some(outcome.stamp), racy, content: outcome.content }
                }
                None => Entry {
                    stamp: Some(job.stamp),
                    racy: job.stamp.is_racy(looked_at),
                    content: indexed.map_or(Content::Unknown, Content::Guess),
                },
            };
            entries.push((path, entry));
        }
        let entries = BTreeMap::from_iter(entries);
        let head = repo.head().ok().and_then(|head| head.target());
        let Listing { nested, complete, .. } = listing;
        self.checkouts.push(Checkout { workdir: workdir.to_owned(), prefix, head, first, entries, complete });
        Ok(nested)
    }

    /// What a row says at once, or the job of reading its file.
    fn entry(
        &self,
        listing: &Listing,
        row: &Row,
        absolute: impl Fn() -> PathBuf,
        looked_at: SystemTime,
        cache: &mut StatCache,
    ) -> (Option<Entry>, Option<Job>) {
        let stamp = match row.seen {
            Seen::Absent => return (None, None),
            Seen::NotLooked => {
                let content = row.tracked.map_or(Content::Unknown, |tracked| Content::Guess(tracked.oid));
                return (Some(Entry { stamp: None, racy: true, content }), None);
            }
            Seen::Present(stamp) => stamp,
        };
        let known =
            |content| (Some(Entry { stamp: Some(stamp), racy: stamp.is_racy(looked_at), content }), None);
        if stamp.mode == Mode::Gitlink {
            return known(content::commit_of(&absolute()).map_or(Content::Unknown, Content::Commit));
        }
        if let Some(tracked) = &row.tracked
            && listing.is_clean(&stamp, tracked)
        {
            return known(Content::Index(tracked.oid));
        }
        let indexed = row.tracked.map(|tracked| tracked.oid);
        let path = absolute();
        match cache.get(&path, &stamp) {
            Some(oid) if indexed == Some(oid) => known(Content::Index(oid)),
            Some(oid) if self.store.holds(oid, stamp.size) => known(Content::Kept(oid)),
            _ => (None, Some(Job { path, stamp, indexed })),
        }
    }
}

/// A checkout to record: its root, the prefix of its paths, the roots inside it (none for one inside another).
type Place = (PathBuf, Vec<u8>, Vec<RelPath>);

/// Why a checkout is not recorded.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    Open(#[from] repo::OpenError),
    #[error("its index cannot be read")]
    Index(#[from] git2::Error),
}

/// The checkout that a root lies in, and where in it. `None` also if the checkout ignores the root and tracks nothing in
/// it: a project inside a home directory that is itself under version control is not part of that repository.
fn locate(root: &Path) -> Option<(PathBuf, RelPath)> {
    let root = root.canonicalize().ok()?;
    let repo = match repo::discover(&root) {
        Ok(repo) => repo,
        Err(repo::OpenError::NotARepository { .. }) => return None,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "a root's repository cannot be used");
            return None;
        }
    };
    let workdir = repo.workdir()?.canonicalize().ok()?;
    let rel = root.strip_prefix(&workdir).ok()?;
    if !rel.as_os_str().is_empty() && is_foreign(&repo, rel) {
        return None;
    }
    let rel = rel.as_os_str().as_bytes().into();
    Some((workdir, rel))
}

fn is_foreign(repo: &Repository, rel: &Path) -> bool {
    let mut below = rel.as_os_str().as_bytes().to_vec();
    below.push(b'/');
    repo.is_path_ignored(rel).unwrap_or(false)
        && repo.index().is_ok_and(|index| index.find_prefix(below.as_slice()).is_err())
}

/// `home/me/lib/` for `/home/me/lib`: such a diff applies in `/`.
fn absolute_prefix(workdir: &Path) -> Vec<u8> {
    let mut prefix = workdir.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    let slashes = prefix.iter().take_while(|&&byte| byte == b'/').count();
    prefix.split_off(slashes)
}

/// Where a checkout inside a checkout is recorded, unless it is already, or is no checkout at all.
fn nested_place(outer: &Path, prefix: &[u8], inside: &Path, places: &[Place]) -> Option<Place> {
    let workdir = inside.canonicalize().ok()?;
    if places.iter().any(|place| place.0 == workdir) || repo::open_exactly(&workdir).ok()?.workdir().is_none()
    {
        return None;
    }
    let mut shown = prefix.to_vec();
    shown.extend_from_slice(inside.strip_prefix(outer).ok()?.as_os_str().as_bytes());
    shown.push(b'/');
    Some((workdir, shown, Vec::new()))
}
