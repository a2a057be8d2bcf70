//! The walk through a checkout: stamps of all files that git would show.

use std::ffi::OsStr;
use std::fs;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode as OpenMode, OFlags};

use super::ignored::{BaseRules, Rules};
use super::scan::{Listing, RelPath, Row, ScanRequest, Seen, gitlink};
use super::stamp::Stamp;

/// Directories nested deeper than this are not walked.
const MAX_DEPTH: usize = 128;

/// A walk that fills a listing, which knows the tracked files already.
pub(crate) struct Walk<'a> {
    request: &'a ScanRequest<'a>,
    base: &'a BaseRules,
    listing: &'a mut Listing,
    /// Directories that need not be walked again.
    done: Vec<RelPath>,
}

/// What is in a directory, sorted by what is done with it.
#[derive(Default)]
struct Entries {
    files: Vec<Vec<u8>>,
    links: Vec<Vec<u8>>,
    dirs: Vec<Vec<u8>>,
    has_ignore_file: bool,
    has_git: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(request: &'a ScanRequest<'a>, base: &'a BaseRules, listing: &'a mut Listing) -> Self {
        Self { request, base, listing, done: Vec::new() }
    }

    /// Walks the important directories, then the others, as far as time and number allow.
    pub(crate) fn everywhere(&mut self) {
        for dir in self.request.first {
            self.below(dir);
            self.done.push(dir.clone());
        }
        if !self.done.iter().any(|done| done.is_empty()) {
            self.below(b"");
        }
    }

    /// Walks one directory with the rules of all above it; does nothing if one of them is ignored.
    fn below(&mut self, dir: &[u8]) {
        let parts: Vec<&[u8]> = dir.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
        let root = self.request.workdir.to_owned();
        self.descend(None, &root, Vec::new(), &parts);
    }

    fn descend(&mut self, above: Option<&Rules<'_>>, here: &Path, rel: Vec<u8>, parts: &[&[u8]]) {
        let Some((part, rest)) = parts.split_first() else {
            self.walk(above, here, rel, 0);
            return;
        };
        // A symbolic link is not followed: git reads no ignore rules through one.
        let has_own = fs::symlink_metadata(here.join(".gitignore")).is_ok_and(|metadata| metadata.is_file());
        let rules = Rules::new(self.base, above, here, has_own);
        let below = here.join(OsStr::from_bytes(part));
        if !rules.ignores(&below, true) {
            self.descend(Some(&rules), &below, joined(&rel, part), rest);
        }
    }

    fn walk(&mut self, above: Option<&Rules<'_>>, here: &Path, mut rel: Vec<u8>, depth: usize) {
        if self.is_over() || depth > MAX_DEPTH {
            self.listing.complete = false;
            return;
        }
        // Gone meanwhile, or not for us to see; git shows nothing of it either.
        let Ok((dir, entries)) = read(here) else { return };
        if entries.has_git && !rel.is_empty() {
            // Another repository's checkout.
            self.listing.nested.push(here.to_owned());
            return;
        }
        let rules = Rules::new(self.base, above, here, entries.has_ignore_file);
        if !rel.is_empty() {
            rel.push(b'/');
        }
        let length = rel.len();
        for name in &entries.links {
            rel.truncate(length);
            rel.extend_from_slice(name);
            self.forget_beyond(&rel);
        }
        for (count, name) in entries.files.iter().chain(&entries.links).enumerate() {
            if count % 64 == 63 && self.is_over() {
                self.listing.complete = false;
                return;
            }
            rel.truncate(length);
            rel.extend_from_slice(name);
            self.file(&rules, &dir, here, &rel, name);
        }
        for name in entries.dirs {
            rel.truncate(length);
            rel.extend_from_slice(&name);
            let path = here.join(OsStr::from_bytes(&name));
            if let Some(row) = self.listing.rows.get_mut(rel.as_slice()).filter(|row| row.is_gitlink()) {
                row.seen = gitlink(&path, &mut self.listing.nested);
            } else if !self.done.iter().any(|done| **done == *rel) && !rules.ignores(&path, true) {
                self.walk(Some(&rules), &path, rel.clone(), depth + 1);
            }
        }
    }

    /// Whether to stop: the time is up, or the listing full.
    fn is_over(&self) -> bool {
        self.request.is_late() || self.listing.rows.len() > self.request.max_files
    }

    fn file(&mut self, rules: &Rules<'_>, dir: &Dir, here: &Path, rel: &[u8], name: &[u8]) {
        let full = self.listing.rows.len() >= self.request.max_files;
        let row = self.listing.rows.get_mut(rel);
        if row.is_none() && rules.ignores(&here.join(OsStr::from_bytes(name)), false) {
            return;
        }
        let stat = dir.fd().and_then(|dir| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW));
        let seen = stat.ok().and_then(|stat| Stamp::of_stat(&stat)).map_or(Seen::Absent, Seen::Present);
        match row {
            Some(row) => row.seen = seen,
            None if seen == Seen::Absent => {}
            None if full => self.listing.complete = false,
            None => {
                self.listing.rows.insert(rel.into(), Row { seen, tracked: None });
            }
        }
    }

    /// What would be found through a symbolic link in place of a directory is not part of the checkout.
    fn forget_beyond(&mut self, link: &[u8]) {
        let below = joined(link, b"");
        let rows =
            self.listing.rows.range_mut::<[u8], _>((Bound::Included(below.as_slice()), Bound::Unbounded));
        for (_, row) in rows.take_while(|(path, _)| path.starts_with(&below)) {
            row.seen = Seen::Absent;
        }
    }
}

/// Opens and reads a directory, not through a link.
fn read(path: &Path) -> rustix::io::Result<(Dir, Entries)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = Dir::new(rustix::fs::open(path, flags, OpenMode::empty())?)?;
    let mut entries = Entries::default();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let kind = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => match fs::symlink_metadata(path.join(OsStr::from_bytes(name))) {
                Ok(metadata) => FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&metadata) as _),
                Err(_) => continue,
            },
            known => known,
        };
        match (name, kind) {
            (b"." | b"..", _) => {}
            (b".git", _) => entries.has_git = true,
            (_, FileType::Directory) => entries.dirs.push(name.to_vec()),
            (_, FileType::Symlink) => entries.links.push(name.to_vec()),
            (_, FileType::RegularFile) => {
                entries.has_ignore_file |= name == b".gitignore";
                entries.files.push(name.to_vec());
            }
            _ => {}
        }
    }
    Ok((dir, entries))
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
