//! The commit that a worktree starts from, resolved from local refs only: nothing is fetched, guessed or replaced.

use std::fmt;
use std::path::Path;

use git2::{ErrorCode, ReferenceType, Repository};
use signalbox_facts::WorktreeBaseline;

use crate::info::unborn_branch;
use crate::repo::{self, OpenError};

const ORIGIN_HEAD: &str = "refs/remotes/origin/HEAD";
const ORIGIN: &str = "refs/remotes/origin/";

/// Which commit a worktree starts from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BaselineKind {
    /// HEAD of the selected checkout; uncommitted changes are not part of it.
    Current,
    /// What `refs/remotes/origin/HEAD` points to, as last fetched by whoever fetches.
    OriginDefault,
}

impl BaselineKind {
    /// All, in the order in which pickers show them.
    pub const ALL: [Self; 2] = [Self::Current, Self::OriginDefault];

    /// The name on the wire and in facts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::OriginDefault => "origin_default",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for BaselineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a baseline cannot be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// There is no repository that could be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// HEAD's branch has no commit yet.
    #[error("the branch {branch} has no commits yet")]
    Unborn {
        /// Its short name.
        branch: String,
    },
    /// `refs/remotes/origin/HEAD` is not there.
    #[error("{ORIGIN_HEAD} does not exist; `git remote set-head origin --auto` creates it")]
    NoOriginHead,
    /// `refs/remotes/origin/HEAD` is a commit instead of a pointer to a branch.
    #[error("{ORIGIN_HEAD} does not name a branch")]
    NotSymbolic,
    /// `refs/remotes/origin/HEAD` points elsewhere.
    #[error("{ORIGIN_HEAD} points to {target}, which is not a branch of origin")]
    NotOfOrigin {
        /// Where to.
        target: String,
    },
    /// `refs/remotes/origin/HEAD` points to a branch that is not there.
    #[error("{ORIGIN_HEAD} points to {target}, which does not exist")]
    Dangling {
        /// Where to.
        target: String,
    },
    /// The ref is there, and its commit cannot be read.
    #[error("the commit of {reference} cannot be read")]
    Unreadable {
        /// The ref.
        reference: String,
        /// What libgit2 said.
        source: git2::Error,
    },
}

/// A line of a baseline picker.
#[derive(Debug)]
pub struct BaselineChoice {
    /// Which.
    pub kind: BaselineKind,
    /// What it is right now, or why it is unavailable.
    pub resolved: Result<WorktreeBaseline, BaselineError>,
}

/// Both baselines of the repository that `cwd` lies in, as resolved locally right now.
#[must_use]
pub fn baselines(cwd: &Path) -> [BaselineChoice; 2] {
    BaselineKind::ALL.map(|kind| {
        let resolved = repo::discover(cwd).map_err(BaselineError::from).and_then(|repo| resolve(&repo, kind));
        BaselineChoice { kind, resolved }
    })
}

/// Resolves a baseline right now.
pub(super) fn resolve(repo: &Repository, kind: BaselineKind) -> Result<WorktreeBaseline, BaselineError> {
    match kind {
        BaselineKind::Current => current(repo),
        BaselineKind::OriginDefault => origin_default(repo),
    }
}

fn current(repo: &Repository) -> Result<WorktreeBaseline, BaselineError> {
    let head = repo.head().map_err(|source| match (source.code(), unborn_branch(repo)) {
        (ErrorCode::UnbornBranch, Some(branch)) => BaselineError::Unborn { branch },
        _ => BaselineError::Unreadable { reference: "HEAD".to_owned(), source },
    })?;
    let reference = if head.is_branch() {
        String::from_utf8_lossy(head.shorthand_bytes()).into_owned()
    } else {
        "HEAD".to_owned()
    };
    match head.peel_to_commit() {
        Ok(commit) => Ok(baseline(BaselineKind::Current, &reference, &reference, commit.id())),
        Err(source) => Err(BaselineError::Unreadable { reference, source }),
    }
}

fn origin_default(repo: &Repository) -> Result<WorktreeBaseline, BaselineError> {
    let unreadable = |reference: &str| {
        let reference = reference.to_owned();
        move |source| BaselineError::Unreadable { reference, source }
    };
    let head = repo.find_reference(ORIGIN_HEAD).map_err(|source| match source.code() {
        ErrorCode::NotFound => BaselineError::NoOriginHead,
        _ => unreadable(ORIGIN_HEAD)(source),
    })?;
    if head.kind() != Some(ReferenceType::Symbolic) {
        return Err(BaselineError::NotSymbolic);
    }
    let target = head.symbolic_target().map_err(unreadable(ORIGIN_HEAD))?.unwrap_or_default().to_owned();
    match target.strip_prefix(ORIGIN) {
        None | Some("" | "HEAD") => return Err(BaselineError::NotOfOrigin { target }),
        Some(_) => {}
    }
    let branch = match repo.find_reference(&target) {
        Ok(branch) => branch,
        Err(source) if source.code() == ErrorCode::NotFound => {
            return Err(BaselineError::Dangling { target });
        }
        Err(source) => return Err(unreadable(&target)(source)),
    };
    let commit = branch.peel_to_commit().map_err(unreadable(&target))?;
    let short = target.strip_prefix("refs/remotes/").unwrap_or(&target);
    Ok(baseline(BaselineKind::OriginDefault, &target, short, commit.id()))
}

fn baseline(kind: BaselineKind, reference: &str, short: &str, commit: git2::Oid) -> WorktreeBaseline {
    let sha = commit.to_string();
    let display = format!("{short} @ {}", sha.chars().take(8).collect::<String>());
    WorktreeBaseline { kind: kind.as_str().to_owned(), reference: reference.to_owned(), sha, display }
}
