//! Removes a session's checkout and branch, after a look for work that would be lost.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::{BranchType, ErrorCode, Oid, Repository, Status, StatusOptions, WorktreeLockStatus};
use signalbox_facts::Worktree;

use super::check::{self, Place};
use super::error::{Step, WorktreeError};
use super::identity::Identity;
use super::{CONTAINER, admin_name};
use crate::repo::{self, OpenError};

/// What a discard removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discarded {
    /// Whether there was a checkout to remove.
    pub removed_checkout: bool,
    /// The branch that was deleted; `None` if it was gone, or is checked out somewhere else.
    pub deleted_branch: Option<String>,
}

/// Work that exists nowhere but in a worktree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsaved {
    /// Files changed, staged or untracked (ignored ones do not count).
    pub files: usize,
    /// Commits that no other branch, remote-tracking branch or tag has.
    pub commits: usize,
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        match (self.files, self.commits) {
            (files, 0) => write!(f, "{files} changed file{}", plural(files)),
            (0, commits) => write!(f, "{commits} commit{}", plural(commits)),
            (files, commits) => {
                write!(f, "{files} changed file{} and {commits} commit{}", plural(files), plural(commits))
            }
        }
    }
}

/// Removes the checkout, git's record of it and its branch. Whoever works in there must have stopped.
///
/// Without `force` it refuses if work would be lost, if somebody locked the worktree, and if something else is in the
/// checkout's place. What is not the checkout is never removed, `force` or not. A checkout that is already gone is no
/// error, and a second discard does nothing. `source` is the directory the session was started from: the repository
/// is found through it when the checkout is gone.
pub fn discard(worktree: &Worktree, source: &Path, force: bool) -> Result<Discarded, WorktreeError> {
    let name = admin_name(&worktree.branch)
        .ok_or_else(|| WorktreeError::ForeignBranch { branch: worktree.branch.clone() })?;
    let (repo, intact) = match check::inspect(worktree) {
        Ok(place) => {
            if !force {
                refuse_unsaved(worktree, &place.repo, Some(&place))?;
            }
            (open_common(&place.repo)?, true)
        }
        Err(reason) => {
            let replaced = fs::symlink_metadata(&worktree.path).is_ok();
            if replaced && !force {
                return Err(WorktreeError::Moved { path: worktree.path.clone(), reason });
            }
            let Some(repo) = find_repository(source)? else {
                // The repository went with its checkouts.
                return Ok(Discarded { removed_checkout: false, deleted_branch: None });
            };
            if !force {
                refuse_unsaved(worktree, &repo, None)?;
            }
            // What an earlier discard could not wholly remove lacks its `.git` file, and is the same directory.
            let ours = is_noted(&repo.commondir().join("worktrees").join(&name), &worktree.path);
            (repo, ours)
        }
    };
    let admin = repo.commondir().join("worktrees").join(&name);
    refuse_locked(worktree, &repo, &name, force)?;
    if intact {
        remove_checkout(&worktree.path)?;
    }
    // A record that names another place is another worktree's, moved or made by hand.
    if intact || record_is_stale(&admin, worktree) {
        match fs::remove_dir_all(&admin) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorktreeError::io(Step::RemoveRecord, &admin)(error));
            }
            _ => {}
        }
    }
    // Git removes both when empty, and so do we; that they are not is no trouble.
    let _ = fs::remove_dir(repo.commondir().join("worktrees"));
    if let Some(container) =
        worktree.path.parent().filter(|dir| dir.file_name().is_some_and(|name| name == CONTAINER))
    {
        let _ = fs::remove_dir(container);
    }
    let deleted_branch = delete_branch(&repo, worktree)?;
    Ok(Discarded { removed_checkout: intact, deleted_branch })
}

/// The repository that a worktree belongs to, opened not through the worktree, which will be gone.
fn open_common(repo: &Repository) -> Result<Repository, WorktreeError> {
    Ok(repo::open_exactly(repo.commondir())?)
}

/// The repository of a directory that may itself be gone.
fn find_repository(source: &Path) -> Result<Option<Repository>, WorktreeError> {
    let Some(existing) = source.ancestors().find(|dir| dir.is_dir()) else { return Ok(None) };
    match repo::discover(existing) {
        Ok(repo) => open_common(&repo).map(Some),
        Err(OpenError::NotARepository { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the directory is the one whose identity git's record of the worktree has.
fn is_noted(admin: &Path, checkout: &Path) -> bool {
    match (Identity::noted(admin), Identity::of(checkout)) {
        (Some(noted), Ok(found)) => noted.is(&found),
        _ => false,
    }
}

fn record_is_stale(admin: &Path, worktree: &Worktree) -> bool {
    let Ok(text) = fs::read_to_string(admin.join("gitdir")) else { return true };
    let registered = admin.join(PathBuf::from(text.trim_end()));
    registered.parent() == Some(&worktree.path) || !registered.exists()
}

fn refuse_locked(
    worktree: &Worktree,
    repo: &Repository,
    name: &str,
    force: bool,
) -> Result<(), WorktreeError> {
    if force {
        return Ok(());
    }
    match repo.find_worktree(name).and_then(|found| found.is_locked()) {
        Ok(WorktreeLockStatus::Locked(reason)) => Err(WorktreeError::Locked {
            path: worktree.path.clone(),
            reason: reason
                .map(|reason| reason.trim().to_owned())
                .filter(|reason| !reason.is_empty())
                .unwrap_or_else(|| "no reason given".to_owned()),
        }),
        // A record that is gone or broken locks nothing.
        Ok(WorktreeLockStatus::Unlocked) | Err(_) => Ok(()),
    }
}

/// Refuses if the checkout has changes or the branch has commits of its own.
fn refuse_unsaved(
    worktree: &Worktree,
    repo: &Repository,
    place: Option<&Place>,
) -> Result<(), WorktreeError> {
    let failed = || WorktreeError::git(Step::Inspect, &worktree.path);
    let files = match place {
        Some(place) => changed_files(&place.repo).map_err(failed())?,
        None => 0,
    };
    let commits = own_commits(repo, worktree, place.is_some()).map_err(failed())?;
    if files == 0 && commits == 0 {
        return Ok(());
    }
    Err(WorktreeError::Unsaved { path: worktree.path.clone(), unsaved: Unsaved { files, commits } })
}

fn changed_files(repo: &Repository) -> Result<usize, git2::Error> {
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).exclude_submodules(false);
    let statuses = repo.statuses(Some(&mut options))?;
    Ok(statuses
        .iter()
        .filter(|entry| !entry.status().is_empty() && entry.status() != Status::IGNORED)
        .count())
}

/// Commits that only the session's branch, or a detached HEAD of its checkout, can reach.
fn own_commits(repo: &Repository, worktree: &Worktree, checkout: bool) -> Result<usize, git2::Error> {
    let ours = format!("refs/heads/{}", worktree.branch);
    let mut tips: Vec<Oid> = Vec::new();
    match repo.find_reference(&ours) {
        Ok(branch) => tips.extend(branch.target()),
        Err(error) if error.code() == ErrorCode::NotFound => {}
        Err(error) => return Err(error),
    }
    if checkout && repo.head_detached()? {
        tips.extend(repo.head()?.target());
    }
    if tips.is_empty() {
        return Ok(0);
    }
    let mut walk = repo.revwalk()?;
    for tip in tips {
        walk.push(tip)?;
    }
    // The commit it started from was somebody's before; if it is no more, that is not this session's loss.
    if let Ok(baseline) = Oid::from_str(&worktree.baseline.sha)
        && repo.find_commit(baseline).is_ok()
    {
        walk.hide(baseline)?;
    }
    for reference in repo.references()? {
        let reference = reference?;
        let name = reference.name_bytes();
        let counts = [&b"refs/heads/"[..], b"refs/remotes/", b"refs/tags/"]
            .iter()
            .any(|start| name.starts_with(start));
        if counts
            && name != ours.as_bytes()
            && let Ok(commit) = reference.peel_to_commit()
        {
            walk.hide(commit.id())?;
        }
    }
    let mut count = 0;
    for commit in walk {
        commit?;
        count += 1;
    }
    Ok(count)
}

/// Removes a directory, also where folders in it are write-protected, as module caches make them.
pub(super) fn remove_checkout(path: &Path) -> Result<(), WorktreeError> {
    let failed = || WorktreeError::io(Step::RemoveCheckout, path);
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_removable(path).map_err(failed())?;
            fs::remove_dir_all(path).map_err(failed())
        }
        Err(error) => Err(failed()(error)),
    }
}

fn make_removable(dir: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(dir)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(dir, Permissions::from_mode(mode | 0o700))?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Deletes the branch, unless it is gone or checked out somewhere.
fn delete_branch(repo: &Repository, worktree: &Worktree) -> Result<Option<String>, WorktreeError> {
    let failed = || WorktreeError::git(Step::DeleteBranch, &worktree.path);
    let mut branch = match repo.find_branch(&worktree.branch, BranchType::Local) {
        Ok(branch) => branch,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(error) => return Err(failed()(error)),
    };
    if is_checked_out(repo, &worktree.branch, None) {
        return Ok(None);
    }
    branch.delete().map_err(failed())?;
    Ok(Some(worktree.branch.clone()))
}

/// Whether the repository's own checkout or a linked one is on the branch, except the one with this record.
pub(super) fn is_checked_out(repo: &Repository, branch: &str, except: Option<&Path>) -> bool {
    if !repo.is_bare() && check::checked_out(repo).as_deref() == Some(branch) {
        return true;
    }
    let head = format!("ref: refs/heads/{branch}");
    let Ok(records) = fs::read_dir(repo.commondir().join("worktrees")) else { return false };
    records.flatten().filter(|record| except != Some(record.path().as_path())).any(|record| {
        fs::read_to_string(record.path().join("HEAD")).is_ok_and(|text| text.trim_end() == head)
    })
}
