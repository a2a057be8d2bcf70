//! What a directory's repository is, in a few milliseconds whatever its size: commit, branch, origin, root.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};

use crate::repo;

/// A directory's repository at a glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GitInfo {
    /// Full sha of HEAD; `None` on a branch without commits.
    pub sha: Option<String>,
    /// Short name of the branch; `None` with a detached HEAD.
    pub branch: Option<String>,
    /// URL of the remote `origin` as configured, without credentials.
    pub origin_url: Option<String>,
    /// Root of the checkout, or the folder of a bare repository.
    pub root: PathBuf,
}

/// What repository `cwd` lies in; `None` if in none, or in one that cannot be read. Reads neither index nor files.
#[must_use]
pub fn git_info(cwd: &Path) -> Option<GitInfo> {
    let repo = match repo::discover(cwd) {
        Ok(repo) => repo,
        Err(repo::OpenError::NotARepository { .. }) => return None,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "no information about the repository");
            return None;
        }
    };
    let (sha, branch) = head(&repo);
    // The remote is not looked up as such: `url.<base>.insteadOf` may put secrets into its URL.
    let origin_url = repo.config().ok().and_then(|config| config.get_string("remote.origin.url").ok());
    let root = repo.workdir().unwrap_or_else(|| repo.path());
    // Collecting the components drops the slash that libgit2 puts at the end.
    Some(GitInfo {
        sha,
        branch,
        origin_url: origin_url.map(|url| without_credentials(&url)),
        root: root.components().collect(),
    })
}

/// HEAD's commit and branch, as far as there are any.
fn head(repo: &Repository) -> (Option<String>, Option<String>) {
    match repo.head() {
        Ok(head) => {
            let sha = head.peel_to_commit().ok().map(|commit| commit.id().to_string());
            let branch =
                head.is_branch().then(|| String::from_utf8_lossy(head.shorthand_bytes()).into_owned());
            (sha, branch)
        }
        Err(error) if error.code() == ErrorCode::UnbornBranch => (None, unborn_branch(repo)),
        Err(_) => (None, None),
    }
}

/// The branch that HEAD names although it has no commit yet.
pub(crate) fn unborn_branch(repo: &Repository) -> Option<String> {
    let head = repo.find_reference("HEAD").ok()?;
    let target = String::from_utf8_lossy(head.symbolic_target_bytes()?).into_owned();
    target.strip_prefix("refs/heads/").map(str::to_owned)
}

/// A remote's URL without what could be a secret: user and password of web URLs, the password of others, query and fragment.
///
/// `https://me:token@host/a.git` → `https://host/a.git`; `ssh://git@host/a` and `git@host:a` stay as they are.
#[must_use]
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    if scheme.eq_ignore_ascii_case("file") {
        return url.to_owned();
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let authority = match authority.rsplit_once('@') {
        None => authority.to_owned(),
        Some((user, host)) if scheme.to_ascii_lowercase().contains("ssh") => {
            format!("{}@{host}", user.split(':').next().unwrap_or_default())
        }
        Some((_, host)) => host.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}
