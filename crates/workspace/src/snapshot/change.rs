//! Which files changed between a snapshot and now, and what both sides of each are.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use git2::{Oid, Repository};

use super::content::{self, Content, Unread};
use super::render::{self, Output};
use super::scan::{self, Listing, RelPath, Row, ScanRequest, Seen};
use super::stamp::{Mode, Stamp, StatCache};
use super::{Checkout, Entry, Snapshot, renames};

/// One side of a changed file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) mode: Mode,
    /// `Kept` means on the new side: as it is on disk.
    pub(super) content: Content,
    pub(super) size: u64,
}

impl Side {
    /// Git's name of the content, as far as known.
    pub(super) fn oid(&self) -> Option<Oid> {
        match self.content {
            Content::Index(oid) | Content::Kept(oid) | Content::Commit(oid) | Content::Guess(oid) => {
                Some(oid)
            }
            Content::Unknown => None,
        }
    }
}

/// A changed file. The old path differs from the new one for a rename.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) old: Option<(RelPath, Side)>,
    pub(super) new: Option<(RelPath, Side)>,
}

impl Change {
    /// What the diff is sorted by.
    fn path(&self) -> Option<&RelPath> {
        self.new.as_ref().or(self.old.as_ref()).map(|(path, _)| path)
    }
}

impl Snapshot {
    /// Adds one checkout's changes to the output; whether they may not be all, or not exact.
    pub(super) fn diff_checkout(
        &self,
        checkout: &Checkout,
        repo: &Repository,
        deadline: Instant,
        cache: &mut StatCache,
        output: &mut Output,
    ) -> bool {
        let request = ScanRequest {
            workdir: &checkout.workdir,
            first: &checkout.first,
            known: checkout.entries.keys().collect(),
            max_files: self.limits.max_files,
            deadline,
        };
        let listing = match scan::scan(repo, &request) {
            Ok(listing) => listing,
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "a checkout's index cannot be read"
                );
                return true;
            }
        };
        let mut found =
            Found { snapshot: self, checkout, request: &request, listing: &listing, cache, partial: false };
        let changes = found.changes();
        let mut partial = found.partial || !checkout.complete || !listing.complete;
        let source = render::Source {
            repo,
            store: &self.store,
            workdir: &checkout.workdir,
            prefix: &checkout.prefix,
            max_file_bytes: self.limits.max_file_bytes,
        };
        let mut changes = renames::pair(changes, &source, deadline);
        changes.sort_by(|a, b| a.path().cmp(&b.path()));
        for change in &changes {
            if Instant::now() >= deadline {
                return true;
            }
            if output.is_full() {
                return partial;
            }
            partial |= !source.render(change, output);
        }
        partial
    }
}

/// The search for changes in one checkout.
struct Found<'a> {
    snapshot: &'a Snapshot,
    checkout: &'a Checkout,
    request: &'a ScanRequest<'a>,
    listing: &'a Listing,
    cache: &'a mut StatCache,
    partial: bool,
}

impl Found<'_> {
    fn changes(&mut self) -> Vec<Change> {
        let mut changes = BTreeMap::new();
        let mut unlisted = Vec::new();
        let mut vanished = HashSet::new();
        let mut rules_changed = false;
        for (path, row) in &self.listing.rows {
            let entry = self.checkout.entries.get(path);
            let change = match (entry, row.seen) {
                (None, Seen::Absent) | (_, Seen::NotLooked) => None,
                (None, Seen::Present(stamp)) => {
                    unlisted.push((path, row, stamp));
                    rules_changed |= is_ignore_file(path);
                    None
                }
                (Some(entry), Seen::Absent) => {
                    vanished.extend(entry.stamp.map(|stamp| stamp.ino));
                    Some(Change { old: Some((path.clone(), before(entry, row))), new: None })
                }
                (Some(entry), Seen::Present(stamp)) => self.compare(path, row, entry, stamp),
            };
            if let Some(change) = change {
                rules_changed |= is_ignore_file(path);
                changes.insert(path.clone(), change);
            }
        }
        for (path, row, stamp) in unlisted {
            // Not every file that was not listed is new: the listing may have been cut short, or the file was ignored
            // until now. Then one older than the snapshot was there already, unless it came with a renamed directory.
            let may_be_old = !self.checkout.complete || rules_changed || row.tracked.is_some();
            if may_be_old && stamp.is_older_than(self.snapshot.taken_at) && !vanished.contains(&stamp.ino) {
                continue;
            }
            let Some(side) = self.now(path, row, stamp) else { continue };
            changes.insert(path.clone(), Change { old: None, new: Some((path.clone(), side)) });
        }
        changes.into_values().collect()
    }

    fn compare(&mut self, path: &RelPath, row: &Row, entry: &Entry, stamp: Stamp) -> Option<Change> {
        let same_stamp = entry.stamp == Some(stamp);
        let settled = match entry.stamp {
            Some(_) => same_stamp && !entry.racy && stamp.mode != Mode::Gitlink,
            None => stamp.is_older_than(self.snapshot.taken_at),
        };
        // Without its content, all that is known of a file is its stamp.
        if settled || (same_stamp && entry.content == Content::Unknown) {
            return None;
        }
        let old = before(entry, row);
        let new = self.now(path, row, stamp)?;
        if old.mode == new.mode && old.oid().is_some() && old.oid() == new.oid() {
            return None;
        }
        Some(Change { old: Some((path.clone(), old)), new: Some((path.clone(), new)) })
    }

    /// What is in the file now; `None` if it went away while being looked at, or the time is up.
    fn now(&mut self, path: &RelPath, row: &Row, stamp: Stamp) -> Option<Side> {
        let absolute = self.request.absolute(path);
        let side = |content| Some(Side { mode: stamp.mode, content, size: stamp.size });
        if stamp.mode == Mode::Gitlink {
            return side(content::commit_of(&absolute).map_or(Content::Unknown, Content::Commit));
        }
        if let Some(tracked) = &row.tracked
            && self.listing.is_clean(&stamp, tracked)
        {
            return side(Content::Index(tracked.oid));
        }
        if let Some(oid) = self.cache.get(&absolute, &stamp) {
            return side(Content::Kept(oid));
        }
        if Instant::now() >= self.request.deadline {
            self.partial = true;
            return None;
        }
        self.read(absolute, stamp)
    }

    fn read(&mut self, absolute: PathBuf, stamp: Stamp) -> Option<Side> {
        let read_at = SystemTime::now();
        match content::read(&absolute, &stamp, self.snapshot.limits.max_file_bytes) {
            Ok((bytes, stamp)) => {
                let oid = content::hash(&bytes).ok()?;
                self.cache.put(absolute, stamp, oid, read_at);
                Some(Side { mode: stamp.mode, content: Content::Kept(oid), size: bytes.len() as u64 })
            }
            Err(Unread::TooLarge) => {
                Some(Side { mode: stamp.mode, content: Content::Unknown, size: stamp.size })
            }
            Err(Unread::Failed(error)) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a changed file cannot be read");
                self.partial = true;
                (error.kind() != std::io::ErrorKind::NotFound).then_some(Side {
                    mode: stamp.mode,
                    content: Content::Unknown,
                    size: stamp.size,
                })
            }
        }
    }
}

/// The side that a snapshot recorded.
fn before(entry: &Entry, row: &Row) -> Side {
    // A file that nobody had time to look at most likely had the mode that the index has.
    let mode = entry.stamp.map(|stamp| stamp.mode).or_else(|| row.tracked.map(|tracked| tracked.mode));
    let size = entry.stamp.map_or(0, |stamp| stamp.size);
    Side { mode: mode.unwrap_or(Mode::Regular), content: entry.content, size }
}

fn is_ignore_file(path: &[u8]) -> bool {
    path.rsplit(|&byte| byte == b'/').next() == Some(b".gitignore".as_slice())
}
