//! What is in a checkout right now: the index, an `lstat` of every tracked file, and a walk for the untracked ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use git2::{Oid, Repository};

use super::ignored::BaseRules;
use super::stamp::{FileTime, Mode, Stamp};
use super::walk::Walk;

/// A path inside a checkout, `/` between its parts, as the index has it.
pub(crate) type RelPath = Box<[u8]>;

/// What was found out about a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The time was up before it was looked at.
    NotLooked,
    /// Nothing there that git would track.
    Absent,
    Present(Stamp),
}

/// What the index knows about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) oid: Oid,
    pub(crate) mode: Mode,
    mtime: (i32, u32),
    ctime: (i32, u32),
    size: u32,
    ino: u32,
    /// An unmerged path has no single content.
    merged: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) seen: Seen,
    pub(crate) tracked: Option<Tracked>,
}

impl Row {
    /// Whether the index has a repository inside the repository there.
    pub(crate) fn is_gitlink(&self) -> bool {
        self.tracked.is_some_and(|tracked| tracked.mode == Mode::Gitlink)
    }
}

/// A checkout as it is.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) rows: BTreeMap<RelPath, Row>,
    /// Checkouts inside this one: submodules and stray clones.
    pub(crate) nested: Vec<PathBuf>,
    /// Whether everything was looked at.
    pub(crate) complete: bool,
    index_mtime: FileTime,
    trust_ctime: bool,
}

/// What to look at, and how long.
#[derive(Debug)]
pub(crate) struct ScanRequest<'a> {
    /// Absolute root of the checkout.
    pub(crate) workdir: &'a Path,
    /// Directories to look at first, relative to it; the rest follows while time lasts.
    pub(crate) first: &'a [RelPath],
    /// Paths to look at besides those found, sorted.
    pub(crate) known: Vec<&'a RelPath>,
    pub(crate) max_files: usize,
    pub(crate) deadline: Instant,
}

impl ScanRequest<'_> {
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    pub(crate) fn absolute(&self, path: &[u8]) -> PathBuf {
        self.workdir.join(OsStr::from_bytes(path))
    }
}

/// Looks at a whole checkout. Fails only if its index cannot be read.
pub(crate) fn scan(repo: &Repository, request: &ScanRequest<'_>) -> Result<Listing, git2::Error> {
    let config = repo.config().ok();
    let flag = |name: &str| config.as_ref().and_then(|config| config.get_bool(name).ok()).unwrap_or(true);
    let mut listing = read_index(repo, request.max_files, flag("core.trustctime"))?;
    for path in &request.known {
        if listing.rows.len() >= request.max_files {
            listing.complete = false;
            break;
        }
        listing.rows.entry((*path).clone()).or_insert(Row { seen: Seen::NotLooked, tracked: None });
    }
    let base = BaseRules::of(repo, request.workdir);
    Walk::new(request, &base, &mut listing).everywhere();
    look_at_the_rest(&mut listing, request);
    if !flag("core.filemode") {
        forget_exec_bits(&mut listing);
    }
    Ok(listing)
}

fn read_index(repo: &Repository, max_files: usize, trust_ctime: bool) -> Result<Listing, git2::Error> {
    let index = repo.index()?;
    let index_mtime = index
        .path()
        .and_then(|path| fs::metadata(path).ok())
        .map_or(FileTime { secs: 0, nanos: 0 }, |metadata| FileTime::mtime(&metadata));
    let mut rows = Vec::with_capacity(index.len());
    let mut complete = true;
    for entry in index.iter() {
        if rows.len() >= max_files {
            complete = false;
            break;
        }
        // The directories of a sparse index have no mode that is known here; libgit2 refuses such an index anyway.
        let Some(mode) = Mode::from_git(entry.mode) else { continue };
        let tracked = Tracked {
            oid: entry.id,
            mode,
            mtime: (entry.mtime.seconds(), entry.mtime.nanoseconds()),
            ctime: (entry.ctime.seconds(), entry.ctime.nanoseconds()),
            size: entry.file_size,
            ino: entry.ino,
            merged: (entry.flags >> 12) & 0b11 == 0,
        };
        rows.push((entry.path.into_boxed_slice(), Row { seen: Seen::NotLooked, tracked: Some(tracked) }));
    }
    // Built at once from what is sorted already.
    let rows = BTreeMap::from_iter(rows);
    Ok(Listing { rows, nested: Vec::new(), complete, index_mtime, trust_ctime })
}

/// `lstat`s what the walk did not come across: tracked files that are gone, or lie in ignored directories.
fn look_at_the_rest(listing: &mut Listing, request: &ScanRequest<'_>) {
    let Listing { rows, nested, complete, .. } = listing;
    let rest = rows.iter_mut().filter(|(_, row)| row.seen == Seen::NotLooked);
    for (count, (path, row)) in rest.enumerate() {
        if count % 64 == 0 && request.is_late() {
            *complete = false;
            return;
        }
        let path = request.absolute(path);
        row.seen = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() && row.is_gitlink() => gitlink(&path, nested),
            Ok(metadata) => Stamp::of(&metadata).map_or(Seen::Absent, Seen::Present),
            Err(_) => Seen::Absent,
        };
    }
}

/// A submodule that is there; one that is not checked out counts as absent.
pub(crate) fn gitlink(path: &Path, nested: &mut Vec<PathBuf>) -> Seen {
    if fs::symlink_metadata(path.join(".git")).is_err() {
        return Seen::Absent;
    }
    nested.push(path.to_owned());
    // The times of a directory say nothing about the commit checked out in it: that is always looked up.
    let unknown = FileTime { secs: 0, nanos: 0 };
    Seen::Present(Stamp { mode: Mode::Gitlink, size: 0, mtime: unknown, ctime: unknown, ino: 0 })
}

/// Where the file system keeps no executable bit, the index decides.
fn forget_exec_bits(listing: &mut Listing) {
    for row in listing.rows.values_mut() {
        if let Seen::Present(stamp) = &mut row.seen
            && matches!(stamp.mode, Mode::Regular | Mode::Executable)
        {
            stamp.mode = match row.tracked {
                Some(Tracked { mode: Mode::Executable, .. }) => Mode::Executable,
                _ => Mode::Regular,
            };
        }
    }
}

impl Listing {
    /// Whether the index vouches for the file: same stamp, and not written so late that the stamp proves nothing.
    pub(crate) fn is_clean(&self, stamp: &Stamp, tracked: &Tracked) -> bool {
        let same_time = |ours: FileTime, theirs: (i32, u32)| {
            // The index keeps the low 32 bits of the seconds, and no nanoseconds if its writer had none.
            ours.secs & 0xffff_ffff == i64::from(theirs.0) & 0xffff_ffff
                && (theirs.1 == 0 || ours.nanos == i64::from(theirs.1))
        };
        let written_before_index = if tracked.mtime.1 == 0 || self.index_mtime.nanos == 0 {
            stamp.mtime.secs < self.index_mtime.secs
        } else {
            stamp.mtime < self.index_mtime
        };
        // Git writes size 0 for files it knows to be racy.
        let size_counts = tracked.size != 0 || tracked.oid.to_string() == EMPTY_BLOB;
        tracked.merged
            && tracked.mode == stamp.mode
            && u64::from(tracked.size) == stamp.size & 0xffff_ffff
            && size_counts
            && same_time(stamp.mtime, tracked.mtime)
            && (!self.trust_ctime || tracked.ctime.0 == 0 || same_time(stamp.ctime, tracked.ctime))
            && (tracked.ino == 0 || u64::from(tracked.ino) == stamp.ino & 0xffff_ffff)
            && written_before_index
    }
}

const EMPTY_BLOB: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
