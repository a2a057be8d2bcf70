//! Opening a repository: the one place where libgit2's refusals become reasons that people can read.

use std::path::{Path, PathBuf};

use git2::{ErrorClass, ErrorCode, Repository, RepositoryOpenFlags};

/// Why a directory's repository cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No repository in the directory or above it.
    #[error("{} is not inside a Git repository", path.display())]
    NotARepository {
        /// The directory that was asked about.
        path: PathBuf,
    },
    /// There is one, with a format that is not understood here.
    #[error("the Git repository of {} cannot be used: {reason}", path.display())]
    Unsupported {
        /// The directory that was asked about.
        path: PathBuf,
        /// For people.
        reason: String,
    },
    /// There is one, and it cannot be read.
    #[error("the Git repository of {} cannot be opened", path.display())]
    Unreadable {
        /// The directory that was asked about.
        path: PathBuf,
        /// What libgit2 said.
        source: git2::Error,
    },
}

/// The repository that `dir` lies in, looked for upwards as git does, within one file system.
pub(crate) fn discover(dir: &Path) -> Result<Repository, OpenError> {
    open(dir, RepositoryOpenFlags::empty())
}

/// The repository whose working directory, or bare folder, is exactly `dir`.
pub(crate) fn open_exactly(dir: &Path) -> Result<Repository, OpenError> {
    open(dir, RepositoryOpenFlags::NO_SEARCH)
}

fn open(dir: &Path, flags: RepositoryOpenFlags) -> Result<Repository, OpenError> {
    let no_ceiling: [&Path; 0] = [];
    Repository::open_ext(dir, flags, no_ceiling).map_err(|error| refusal(dir, error))
}

fn refusal(dir: &Path, error: git2::Error) -> OpenError {
    let path = dir.to_owned();
    if error.code() == ErrorCode::NotFound {
        return OpenError::NotARepository { path };
    }
    let message = error.message();
    let reason = if let Some(name) = message.strip_prefix("unsupported extension name extensions.") {
        Some(format!("it uses the Git extension `{name}`"))
    } else if message.contains("object format") || message.contains("oid type") {
        Some("its objects are not named by SHA-1 (probably SHA-256)".to_owned())
    } else if message.starts_with("unsupported repository version") {
        Some("its format is newer than what is understood here".to_owned())
    } else if error.code() == ErrorCode::Owner {
        Some("it belongs to another user".to_owned())
    } else {
        None
    };
    match reason {
        Some(reason) => OpenError::Unsupported { path, reason },
        None => OpenError::Unreadable { path, source: error },
    }
}

/// Whether the index is in a form that libgit2 refuses, and which.
pub(crate) fn index_refusal(error: &git2::Error) -> Option<&'static str> {
    if error.class() != ErrorClass::Index {
        return None;
    }
    match error.message() {
        message if message.contains("'sdir'") => Some("it has a sparse index"),
        message if message.contains("'link'") => Some("it has a split index"),
        message if message.contains("mandatory extension") => {
            Some("its index has an extension not understood here")
        }
        _ => None,
    }
}
