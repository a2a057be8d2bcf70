//! Whether a session's checkout is still the one that was made for it: asked before each prompt, in about a millisecond.

use std::fs;
use std::path::{Path, PathBuf};

use git2::Repository;
use signalbox_facts::Worktree;

use super::admin_name;
use super::identity::Identity;
use crate::repo;

/// What a session's checkout is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// As it was made, on its branch.
    Ok,
    /// Still the checkout, with another branch checked out: worth a warning, nothing more.
    BranchSwitched {
        /// The branch it is on; `None` with a detached HEAD.
        found: Option<String>,
    },
    /// Not the checkout any more: no prompt may run there.
    Moved {
        /// For people.
        reason: String,
    },
}

/// Looks at a session's checkout. That the directory it was made from still exists is not required.
#[must_use]
pub fn check(worktree: &Worktree) -> Check {
    match inspect(worktree) {
        Ok(place) => match place.branch {
            Some(branch) if branch == worktree.branch => Check::Ok,
            found => Check::BranchSwitched { found },
        },
        Err(reason) => Check::Moved { reason },
    }
}

/// A checkout that proved to be the one it should be.
pub(super) struct Place {
    pub(super) repo: Repository,
    pub(super) branch: Option<String>,
}

/// Opens the checkout if it is the one that was made, else says why not.
pub(super) fn inspect(worktree: &Worktree) -> Result<Place, String> {
    let path = &worktree.path;
    let identity = Identity::of(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        _ => format!("it cannot be looked at: {error}"),
    })?;
    let repo = repo::open_exactly(path).map_err(|_| "git does not see a checkout there".to_owned())?;
    if !repo.is_worktree() {
        return Err("it is a repository of its own".to_owned());
    }
    let admin = repo.path().to_owned();
    let name = admin.file_name().map(|name| name.to_string_lossy().into_owned());
    if admin_name(&worktree.branch) != name {
        return Err("it belongs to another worktree".to_owned());
    }
    if !points_to(&admin, path) {
        return Err("git has the worktree registered elsewhere".to_owned());
    }
    if Identity::noted(&admin).is_some_and(|noted| !noted.is(&identity)) {
        return Err("another directory was put in its place".to_owned());
    }
    let branch = checked_out(&repo);
    Ok(Place { repo, branch })
}

/// The branch that HEAD names, whether it has a commit or not.
pub(super) fn checked_out(repo: &Repository) -> Option<String> {
    let head = repo.find_reference("HEAD").ok()?;
    let target = String::from_utf8_lossy(head.symbolic_target_bytes()?).into_owned();
    target.strip_prefix("refs/heads/").map(str::to_owned)
}

/// Whether git's record of a worktree names this checkout.
pub(super) fn points_to(admin: &Path, checkout: &Path) -> bool {
    let Ok(text) = fs::read_to_string(admin.join("gitdir")) else { return false };
    // Relative since git 2.48, if asked for.
    let registered = admin.join(PathBuf::from(text.trim_end_matches(['\n', '\r'])));
    let Some(registered) = registered.parent() else { return false };
    match (registered.canonicalize(), checkout.canonicalize()) {
        (Ok(registered), Ok(checkout)) => registered == checkout,
        _ => registered == checkout,
    }
}
