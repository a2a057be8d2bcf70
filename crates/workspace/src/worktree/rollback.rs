//! Takes back what a failed creation made, and nothing else; what only an announcement knows is in `orphan.rs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::{BranchType, Oid, Repository};

use super::error::Leftover;
use super::identity::Identity;

/// What a creation has made so far. Each is noted only when it is certain that it was not there before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Made {
    /// The folder for checkouts.
    pub(super) container: Option<PathBuf>,
    /// The branch and the commit it was made at.
    pub(super) branch: Option<(String, Oid)>,
    /// The folder `worktrees` in the repository.
    pub(super) admins: Option<PathBuf>,
    /// Git's record of the worktree.
    pub(super) admin: Option<PathBuf>,
    /// The checkout.
    pub(super) checkout: Option<PathBuf>,
    /// The checkout's identity, once it was complete.
    pub(super) identity: Option<Identity>,
}

impl Made {
    /// Removes all of it, in the opposite order; returns what could not be removed.
    pub(super) fn take_back(self, repo: &Repository) -> Vec<Leftover> {
        let mut left = Vec::new();
        // Judged while the checkout is still there to be compared with.
        let record = self
            .admin
            .as_ref()
            .filter(|admin| self.checkout.as_ref().is_some_and(|checkout| is_our_record(admin, checkout)));
        if let Some(checkout) = &self.checkout {
            self.remove_checkout(checkout, &mut left);
        }
        if let Some(admin) = record {
            note(&mut left, admin, absent_is_fine(fs::remove_dir_all(admin)));
        }
        if let Some((name, commit)) = &self.branch {
            delete_branch(repo, name, *commit, &mut left);
        }
        for folder in [&self.admins, &self.container].into_iter().flatten() {
            // Somebody else may have put something there meanwhile; then it stays, rightly.
            let _ = fs::remove_dir(folder);
        }
        left
    }

    fn remove_checkout(&self, checkout: &Path, left: &mut Vec<Leftover>) {
        let ours = match (&self.identity, Identity::of(checkout)) {
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return,
            (Some(made), Ok(found)) => made.is(&found),
            (None, Ok(_)) => self.admin.as_ref().is_some_and(|admin| is_half_made(checkout, admin)),
            (_, Err(_)) => false,
        };
        if ours {
            note(left, checkout, absent_is_fine(fs::remove_dir_all(checkout)));
        } else {
            left.push(Leftover {
                what: checkout.display().to_string(),
                why: "it is not what was made".to_owned(),
            });
        }
    }
}

/// A record that names our checkout, or broke off before it named any.
pub(super) fn is_our_record(admin: &Path, checkout: &Path) -> bool {
    match fs::read_to_string(admin.join("gitdir")) {
        Ok(text) => text.is_empty() || same(Path::new(text.trim_end()), &checkout.join(".git")),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A checkout that broke off: empty, or with a `.git` file that names our record, or that is alone and names nothing.
pub(super) fn is_half_made(checkout: &Path, admin: &Path) -> bool {
    let entries = || fs::read_dir(checkout).map_or(usize::MAX, |entries| entries.take(2).count());
    match fs::read_to_string(checkout.join(".git")) {
        Ok(text) if text.is_empty() => entries() == 1,
        Ok(text) => text.trim_end().strip_prefix("gitdir: ").is_some_and(|dir| same(Path::new(dir), admin)),
        Err(_) => entries() == 0,
    }
}

fn same(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components())
        || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

pub(super) fn delete_branch(repo: &Repository, name: &str, commit: Oid, left: &mut Vec<Leftover>) {
    let deleted = match repo.find_branch(name, BranchType::Local) {
        Ok(branch) if branch.get().target() != Some(commit) => Err("it has moved".to_owned()),
        Ok(mut branch) => branch.delete().map_err(|error| error.message().to_owned()),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(()),
        Err(error) => Err(error.message().to_owned()),
    };
    if let Err(why) = deleted {
        left.push(Leftover { what: format!("branch {name}"), why });
    }
}

pub(super) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(super) fn note(left: &mut Vec<Leftover>, path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        left.push(Leftover { what: path.display().to_string(), why: error.to_string() });
    }
}
