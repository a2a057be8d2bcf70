//! What can go wrong with a worktree, and at which step.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::baseline::{BaselineError, BaselineKind};
use super::discard::Unsaved;
use crate::repo::OpenError;

/// A step of making or removing a worktree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Finding the selected directory and its place in the checkout.
    Locate,
    /// Telling the caller what will be made.
    Announce,
    /// Making the folder that holds the checkouts.
    Container,
    /// Making the branch.
    Branch,
    /// Making the linked worktree and checking the commit out.
    Checkout,
    /// Looking whether what was made is what was asked for.
    Verify,
    /// Noting the checkout's identity.
    Identity,
    /// Looking for work that would be lost.
    Inspect,
    /// Removing the checkout.
    RemoveCheckout,
    /// Removing git's record of the worktree.
    RemoveRecord,
    /// Deleting the branch.
    DeleteBranch,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locate => "finding the directory",
            Self::Announce => "noting what will be made",
            Self::Container => "making the folder for checkouts",
            Self::Branch => "making the branch",
            Self::Checkout => "checking out the commit",
            Self::Verify => "verifying the checkout",
            Self::Identity => "noting the checkout's identity",
            Self::Inspect => "looking for unsaved work",
            Self::RemoveCheckout => "removing the checkout",
            Self::RemoveRecord => "removing git's record of the worktree",
            Self::DeleteBranch => "deleting the branch",
        })
    }
}

/// Something that a failed creation made and could not take back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leftover {
    /// A path, or a branch's name.
    pub what: String,
    /// Why it is still there.
    pub why: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.why)
    }
}

/// Why a worktree was not made, or not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// There is no repository that could be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The repository is of a kind in which no worktrees are made.
    #[error("no worktree is made in the repository {}: {reason}", path.display())]
    Unsupported {
        /// The repository.
        path: PathBuf,
        /// For people.
        reason: String,
    },
    /// The chosen baseline does not exist here.
    #[error("the baseline `{kind}` is not available")]
    Baseline {
        /// Which.
        kind: BaselineKind,
        /// Why.
        source: BaselineError,
    },
    /// The baseline is no longer the commit that was shown when it was chosen.
    #[error("the baseline `{kind}` was to be {expected} and is now {found}")]
    Stale {
        /// Which.
        kind: BaselineKind,
        /// The pinned sha.
        expected: String,
        /// The sha as resolved now.
        found: String,
    },
    /// Something is where the checkout would go. It is left alone.
    #[error("{} exists already", path.display())]
    PathTaken {
        /// Where.
        path: PathBuf,
    },
    /// The branch exists already. It is left alone.
    #[error("the branch {branch} exists already")]
    BranchTaken {
        /// Its short name.
        branch: String,
    },
    /// The selected directory is not part of the baseline's commit.
    #[error("the directory {} is not in commit {sha}", directory.display())]
    NotInCommit {
        /// Relative to the checkout's root.
        directory: PathBuf,
        /// The commit.
        sha: String,
    },
    /// What was made is not what was asked for.
    #[error("the checkout {} is not as it should be: {reason}", path.display())]
    Verify {
        /// The checkout.
        path: PathBuf,
        /// For people.
        reason: String,
    },
    /// What is at the checkout's place is not the checkout.
    #[error("{} is no longer the session's checkout: {reason}", path.display())]
    Moved {
        /// The checkout's place.
        path: PathBuf,
        /// For people.
        reason: String,
    },
    /// Discarding would lose work.
    #[error("discarding {} would lose {unsaved}", path.display())]
    Unsaved {
        /// The checkout.
        path: PathBuf,
        /// What.
        unsaved: Unsaved,
    },
    /// Somebody locked the worktree.
    #[error("the worktree {} is locked: {reason}", path.display())]
    Locked {
        /// The checkout.
        path: PathBuf,
        /// What they gave as reason.
        reason: String,
    },
    /// The branch is none of ours.
    #[error("the branch {branch} was not made by signalbox")]
    ForeignBranch {
        /// Its short name.
        branch: String,
    },
    /// The file system refused.
    #[error("{step} failed at {}", path.display())]
    Io {
        /// When.
        step: Step,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git refused.
    #[error("{step} failed at {}", path.display())]
    Git {
        /// When.
        step: Step,
        /// Where.
        path: PathBuf,
        /// Why.
        source: git2::Error,
    },
    /// Creation failed, and not all that it had made could be taken back.
    #[error("making the worktree failed and left behind: {}", list(left))]
    LeftBehind {
        /// The failure itself.
        source: Box<WorktreeError>,
        /// What is to be cleaned up by hand.
        left: Vec<Leftover>,
    },
}

fn list(left: &[Leftover]) -> String {
    left.iter().map(Leftover::to_string).collect::<Vec<_>>().join(", ")
}

impl WorktreeError {
    /// A stable snake_case word for programs.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open(OpenError::NotARepository { .. }) => "not_a_repository",
            Self::Open(OpenError::Unsupported { .. }) | Self::Unsupported { .. } => "unsupported_repository",
            Self::Open(OpenError::Unreadable { .. }) => "unreadable_repository",
            Self::Baseline { .. } => "baseline_unavailable",
            Self::Stale { .. } => "baseline_moved",
            Self::PathTaken { .. } | Self::BranchTaken { .. } => "worktree_exists",
            Self::NotInCommit { .. } => "directory_not_in_commit",
            Self::Verify { .. } => "worktree_not_verified",
            Self::Moved { .. } => "worktree_replaced",
            Self::Unsaved { .. } => "worktree_dirty",
            Self::Locked { .. } => "worktree_locked",
            Self::ForeignBranch { .. } => "foreign_branch",
            Self::Io { .. } | Self::Git { .. } => "worktree_failed",
            Self::LeftBehind { source, .. } => source.reason(),
        }
    }

    pub(super) fn io(step: Step, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { step, path, source }
    }

    pub(super) fn git(step: Step, path: &Path) -> impl FnOnce(git2::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Git { step, path, source }
    }
}
