//! Takes back a checkout whose maker was killed before it could say what became of it: from an announcement alone, in
//! whatever state the making broke off, and only if nobody has worked there since.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{BranchType, Delta, DiffOptions, ErrorCode, FileMode, Index, Oid, Repository};
use signalbox_facts::SessionId;

use super::discard::{is_checked_out, remove_checkout};
use super::error::Leftover;
use super::identity::Identity;
use super::rollback::{absent_is_fine, delete_branch, is_half_made, is_our_record, note};
use super::{CONTAINER, admin_name, branch_of, short};
use crate::repo::{self, OpenError};

/// What a creation is about to make: told before the repository changes, and enough to take it back without the maker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Making {
    /// The session, which gives checkout and branch their names.
    pub session: SessionId,
    /// The repository's own folder (`.git`, or the bare repository), canonical.
    pub repository: PathBuf,
    /// Where the checkout will be.
    pub checkout: PathBuf,
    /// Short name of the branch.
    pub branch: String,
    /// Full sha of the commit that the branch will start at.
    pub commit: String,
}

/// Takes back what was made of an announced checkout; an empty list says that nothing of it is there any more.
///
/// Everything is judged first, and unless all of it is as a maker may have left it, nothing is touched: another directory
/// in the checkout's place, a file that the commit does not have, a branch that has moved or is checked out elsewhere, and
/// a locked worktree each keep the whole.
#[must_use]
pub fn take_back_orphan(making: &Making) -> Vec<Leftover> {
    let leftover = |what: String, why: String| vec![Leftover { what, why }];
    let checkout = making.checkout.display().to_string();
    let Some((admin_name, commit)) = making.names() else {
        return leftover(checkout, "its announcement names what is not ours".to_owned());
    };
    let repo = match repo::open_exactly(&making.repository) {
        Ok(repo) => repo,
        // The repository went, and its checkout with it.
        Err(OpenError::NotARepository { .. }) if is_absent(&making.checkout) => return Vec::new(),
        Err(error) => return leftover(checkout, error.to_string()),
    };
    let admin = making.repository.join("worktrees").join(admin_name);
    let orphan = Orphan { making, repo, admin, commit };
    match orphan.judge() {
        Ok(()) => orphan.remove(),
        Err(kept) => vec![kept],
    }
}

impl Making {
    /// The name of git's record and the commit, if all names are as they are given to this session.
    fn names(&self) -> Option<(String, Oid)> {
        let id = short(self.session);
        let folder = self.checkout.file_name()?.as_bytes();
        let ours = self.branch == branch_of(&id)
            && folder.ends_with(format!("-{id}").as_bytes())
            && self.checkout.is_absolute()
            && self.repository.is_absolute();
        Some((admin_name(&self.branch)?, Oid::from_str(&self.commit).ok()?)).filter(|_| ours)
    }
}

struct Orphan<'a> {
    making: &'a Making,
    repo: Repository,
    /// Git's record of the worktree.
    admin: PathBuf,
    commit: Oid,
}

impl Orphan<'_> {
    /// Whether all that is there may go, else what stands against it.
    fn judge(&self) -> Result<(), Leftover> {
        let at = |what: String| move |why: String| Leftover { what, why };
        self.judge_checkout().map_err(at(self.making.checkout.display().to_string()))?;
        self.judge_record().map_err(at(self.admin.display().to_string()))?;
        self.judge_branch().map_err(at(format!("branch {}", self.making.branch)))
    }

    fn judge_checkout(&self) -> Result<(), String> {
        let checkout = &self.making.checkout;
        let found = match Identity::of(checkout) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("it is not what was made: {error}")),
        };
        let ours = match Identity::noted(&self.admin) {
            Some(noted) => noted.is(&found),
            None => is_half_made(checkout, &self.admin),
        };
        if !ours {
            return Err("it is not what was made".to_owned());
        }
        match self.foreign_file() {
            Ok(None) => Ok(()),
            Ok(Some(file)) => Err(format!("somebody has worked in it: {}", file.display())),
            Err(error) => Err(format!("it cannot be compared with its commit: {}", error.message())),
        }
    }

    /// A file in the checkout whose content the commit does not have. Files may lack, or end too early.
    fn foreign_file(&self) -> Result<Option<PathBuf>, git2::Error> {
        let checkout = &self.making.checkout;
        // The repository itself with another working directory, for this look only: what broke off may lack its own.
        let repo = Repository::open(&self.making.repository)?;
        repo.set_workdir(checkout, false)?;
        let tree = repo.find_commit(self.commit)?.tree()?;
        let mut committed = Index::new()?;
        committed.read_tree(&tree)?;
        for entry in committed.iter().filter(|entry| entry.mode == u32::from(FileMode::Commit)) {
            // A submodule is an empty folder until somebody fills it.
            let path = checkout.join(std::ffi::OsStr::from_bytes(&entry.path));
            if !is_absent(&path) && !is_empty(&path) {
                return Ok(Some(path));
            }
        }
        let mut options = DiffOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true);
        options.include_ignored(true).recurse_ignored_dirs(true);
        options.include_typechange(true).include_unreadable(true);
        let diff = repo.diff_tree_to_workdir(Some(&tree), Some(&mut options))?;
        for delta in diff.deltas().filter(|delta| delta.old_file().mode() != FileMode::Commit) {
            let (old, new) = (delta.old_file(), delta.new_file());
            let path = checkout.join(new.path().or(old.path()).unwrap_or(Path::new("")));
            let harmless = match delta.status() {
                Delta::Unmodified | Delta::Deleted => true,
                Delta::Modified => is_start_of(&path, repo.find_blob(old.id())?.content()),
                _ => false,
            };
            if !harmless {
                return Ok(Some(path));
            }
        }
        self.staged(&committed)
    }

    /// A file that somebody has staged.
    fn staged(&self, committed: &Index) -> Result<Option<PathBuf>, git2::Error> {
        let file = self.admin.join("index");
        if is_absent(&file) {
            return Ok(None);
        }
        let index = Index::open(&file)?;
        let foreign = index.iter().find(|entry| {
            let path = Path::new(std::ffi::OsStr::from_bytes(&entry.path));
            committed.get_path(path, 0).is_none_or(|known| known.id != entry.id)
        });
        Ok(foreign.map(|entry| self.making.checkout.join(std::ffi::OsStr::from_bytes(&entry.path))))
    }

    fn judge_record(&self) -> Result<(), String> {
        match fs::symlink_metadata(&self.admin) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err("it is not what was made".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        if !is_our_record(&self.admin, &self.making.checkout) {
            return Err("it is another worktree's".to_owned());
        }
        if !is_absent(&self.admin.join("locked")) {
            return Err("somebody locked the worktree".to_owned());
        }
        let head = match fs::read_to_string(self.admin.join("HEAD")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let head = head.trim_end();
        let ours = head.is_empty()
            || head == self.commit.to_string()
            || head.strip_prefix("ref: refs/heads/") == Some(self.making.branch.as_str());
        if ours { Ok(()) } else { Err(format!("something else is checked out: {head}")) }
    }

    fn judge_branch(&self) -> Result<(), String> {
        let branch = match self.repo.find_branch(&self.making.branch, BranchType::Local) {
            Ok(branch) => branch,
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(()),
            Err(error) => return Err(error.message().to_owned()),
        };
        if branch.get().target() != Some(self.commit) {
            return Err("it has moved".to_owned());
        }
        // Its own record goes first.
        if is_checked_out(&self.repo, &self.making.branch, Some(&self.admin)) {
            return Err("it is checked out somewhere else".to_owned());
        }
        Ok(())
    }

    /// Removes what was judged, in an order that leaves enough behind to be judged again if it breaks off.
    fn remove(&self) -> Vec<Leftover> {
        let mut left = Vec::new();
        let checkout = &self.making.checkout;
        if let Ok(identity) = Identity::of(checkout) {
            // A checkout that is removed in part may lack its `.git`, and is known by its identity then.
            let noted = if self.admin.is_dir() { identity.note(&self.admin) } else { Ok(()) };
            note(&mut left, &self.admin, noted);
            if left.is_empty()
                && let Err(error) = remove_checkout(checkout)
            {
                let why =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                left.push(Leftover { what: checkout.display().to_string(), why });
            }
            if !left.is_empty() {
                return left;
            }
        }
        note(&mut left, &self.admin, absent_is_fine(fs::remove_dir_all(&self.admin)));
        self.remove_stale_lock(&mut left);
        delete_branch(&self.repo, &self.making.branch, self.commit, &mut left);
        self.remove_log(&mut left);
        // Git removes both when empty, and so do we; that they are not is no trouble.
        let container = checkout.parent().filter(|dir| dir.file_name().is_some_and(|name| name == CONTAINER));
        for folder in [self.admin.parent(), container].into_iter().flatten() {
            let _ = fs::remove_dir(folder);
        }
        left
    }

    /// A maker that is killed while it makes the branch leaves a lock. It is nobody else's if there is no branch yet, or if
    /// it is the very file that became the branch.
    fn remove_stale_lock(&self, left: &mut Vec<Leftover>) {
        let file = self.making.repository.join("refs/heads").join(&self.making.branch);
        let lock = file.with_added_extension("lock");
        let Ok(found) = fs::symlink_metadata(&lock) else { return };
        let became = fs::symlink_metadata(&file).is_ok_and(|file| file.ino() == found.ino());
        if became || self.has_no_branch() {
            note(left, &lock, absent_is_fine(fs::remove_file(&lock)));
        }
    }

    /// Git writes the log of a branch before the branch, and does not remove it without one.
    fn remove_log(&self, left: &mut Vec<Leftover>) {
        let log = self.making.repository.join("logs/refs/heads").join(&self.making.branch);
        // More than its beginning would be a trace of somebody's commits.
        let begun =
            || fs::read(&log).is_ok_and(|text| text.iter().filter(|&&byte| byte == b'\n').count() <= 1);
        if self.has_no_branch() && begun() {
            note(left, &log, absent_is_fine(fs::remove_file(&log)));
        }
    }

    fn has_no_branch(&self) -> bool {
        let found = self.repo.find_branch(&self.making.branch, BranchType::Local);
        found.is_err_and(|error| error.code() == ErrorCode::NotFound)
    }
}

/// Whether a file has nothing but the start of this content: one that was being written when its writer was killed.
fn is_start_of(path: &Path, content: &[u8]) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_file() && usize::try_from(found.len()).is_ok_and(|len| len <= content.len())
    }) && fs::read(path).is_ok_and(|found| content.starts_with(&found))
}

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn is_empty(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir())
        && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
