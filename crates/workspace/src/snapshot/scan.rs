//! What is in a checkout right now: the index, an `lstat` of every tracked file, and a walk for the untracked ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use git2::{Oid, Repository};

use super::ignored::{BaseRules, Rules};
use super::stamp::{FileTime, Mode, Stamp};

/// A path inside a checkout, `/` between its parts, as the index has it.
pub(crate) type RelPath = Box<[u8]>;

/// Directories nested deeper than this are not walked.
const MAX_DEPTH: usize = 128;

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
    fn is_late(&self) -> bool {
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
    look(&mut listing, request);
    let base = BaseRules::of(repo, request.workdir);
    let mut walk = Walk { request, base: &base, listing: &mut listing, done: Vec::new() };
    for dir in request.first {
        walk.below(dir);
        walk.done.push(dir.clone());
    }
    walk.below(b"");
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
    let mut rows = BTreeMap::new();
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
        rows.insert(entry.path.into_boxed_slice(), Row { seen: Seen::NotLooked, tracked: Some(tracked) });
    }
    Ok(Listing { rows, nested: Vec::new(), complete, index_mtime, trust_ctime })
}

/// `lstat`s all paths known so far, the important ones first.
fn look(listing: &mut Listing, request: &ScanRequest<'_>) {
    let important = |path: &[u8]| request.first.iter().any(|dir| is_below(path, dir));
    let everything = request.first.iter().any(|dir| dir.is_empty()) || request.first.is_empty();
    let passes: &[bool] = if everything { &[false] } else { &[true, false] };
    let mut looked = 0_usize;
    let mut path_buf = PathBuf::new();
    for &only_important in passes {
        for (path, row) in &mut listing.rows {
            if row.seen != Seen::NotLooked || (only_important && !important(path)) {
                continue;
            }
            looked += 1;
            if looked.is_multiple_of(64) && request.is_late() {
                listing.complete = false;
                return;
            }
            path_buf.clear();
            path_buf.push(request.workdir);
            path_buf.push(OsStr::from_bytes(path));
            row.seen = match fs::symlink_metadata(&path_buf) {
                Ok(metadata) if metadata.is_dir() => match row.tracked {
                    Some(Tracked { mode: Mode::Gitlink, .. }) => gitlink(&path_buf, &mut listing.nested),
                    _ => Seen::Absent,
                },
                Ok(metadata) => Stamp::of(&metadata).map_or(Seen::Absent, Seen::Present),
                Err(_) => Seen::Absent,
            };
        }
    }
}

/// A submodule that is there; one that is not checked out counts as absent.
fn gitlink(path: &Path, nested: &mut Vec<PathBuf>) -> Seen {
    if fs::symlink_metadata(path.join(".git")).is_err() {
        return Seen::Absent;
    }
    nested.push(path.to_owned());
    // The times of a directory say nothing about the commit checked out in it: that is always looked up.
    let unknown = FileTime { secs: 0, nanos: 0 };
    Seen::Present(Stamp { mode: Mode::Gitlink, size: 0, mtime: unknown, ctime: unknown, ino: 0 })
}

/// Whether `path` is `dir` or lies below it.
pub(crate) fn is_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || (path.starts_with(dir) && path.get(dir.len()).is_none_or(|&next| next == b'/'))
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

/// The search for untracked files.
struct Walk<'a> {
    request: &'a ScanRequest<'a>,
    base: &'a BaseRules,
    listing: &'a mut Listing,
    /// Directories that need not be walked again.
    done: Vec<RelPath>,
}

impl Walk<'_> {
    /// Walks `dir` with the rules of all directories above it; does nothing if it is ignored itself.
    fn below(&mut self, dir: &[u8]) {
        let parts: Vec<&[u8]> = dir.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
        let root = self.request.workdir.to_owned();
        let root_rules = Rules::new(self.base, None, &root, has_ignore_file(&root));
        self.descend(&root_rules, root.clone(), Vec::new(), &parts);
    }

    fn descend(&mut self, rules: &Rules<'_>, here: PathBuf, rel: Vec<u8>, parts: &[&[u8]]) {
        let Some((part, rest)) = parts.split_first() else {
            self.walk(rules, &here, &rel, 0);
            return;
        };
        let below = here.join(OsStr::from_bytes(part));
        if rules.ignores(&below, true) {
            return;
        }
        let own = Rules::new(rules.base(), Some(rules), &below, has_ignore_file(&below));
        self.descend(&own, below.clone(), joined(&rel, part), rest);
    }

    fn walk(&mut self, rules: &Rules<'_>, here: &Path, rel: &[u8], depth: usize) {
        if self.request.is_late() || depth > MAX_DEPTH || self.listing.rows.len() >= self.request.max_files {
            self.listing.complete = false;
            return;
        }
        let Ok(entries) = fs::read_dir(here) else {
            // Gone meanwhile, or not for us to see; git shows nothing of it either.
            return;
        };
        let (mut dirs, mut files, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if name.as_bytes() == b".git" {
                if !rel.is_empty() {
                    // Another repository's checkout.
                    self.listing.nested.push(here.to_owned());
                    return;
                }
            } else if kind.is_dir() {
                dirs.push(name);
            } else if kind.is_symlink() {
                links.push(name);
            } else if kind.is_file() {
                files.push(name);
            }
        }
        for name in &links {
            self.forget_beyond(&joined(rel, name.as_bytes()));
        }
        for name in files.into_iter().chain(links) {
            let path = joined(rel, name.as_bytes());
            if self.listing.rows.contains_key(path.as_slice()) {
                continue;
            }
            let absolute = here.join(&name);
            if rules.ignores(&absolute, false) {
                continue;
            }
            if self.listing.rows.len() >= self.request.max_files {
                self.listing.complete = false;
                return;
            }
            let Some(stamp) = fs::symlink_metadata(&absolute).ok().and_then(|metadata| Stamp::of(&metadata))
            else {
                continue;
            };
            if let Entry::Vacant(vacant) = self.listing.rows.entry(path.into_boxed_slice()) {
                vacant.insert(Row { seen: Seen::Present(stamp), tracked: None });
            }
        }
        for name in dirs {
            let path = joined(rel, name.as_bytes());
            if self.done.iter().any(|done| **done == *path) {
                continue;
            }
            let absolute = here.join(&name);
            let submodule = matches!(
                self.listing.rows.get(path.as_slice()),
                Some(Row { tracked: Some(Tracked { mode: Mode::Gitlink, .. }), .. })
            );
            if submodule || rules.ignores(&absolute, true) {
                continue;
            }
            let own = Rules::new(rules.base(), Some(rules), &absolute, has_ignore_file(&absolute));
            self.walk(&own, &absolute, &path, depth + 1);
        }
    }
}

impl Walk<'_> {
    /// What `lstat` found through a symbolic link in place of a directory is not part of the checkout.
    fn forget_beyond(&mut self, link: &[u8]) {
        let below = joined(link, b"");
        let rows =
            self.listing.rows.range_mut::<[u8], _>((Bound::Included(below.as_slice()), Bound::Unbounded));
        for (_, row) in rows.take_while(|(path, _)| path.starts_with(&below)) {
            row.seen = Seen::Absent;
        }
    }
}

/// A symbolic link is not followed: git reads no ignore rules through one.
fn has_ignore_file(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(".gitignore")).is_ok_and(|metadata| metadata.is_file())
}

fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
