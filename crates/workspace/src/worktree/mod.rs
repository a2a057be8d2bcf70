//! Checkouts made for sessions: linked worktrees on a branch of their own, from a commit that is known locally.

mod baseline;
mod check;
mod create;
mod discard;
mod error;
mod identity;
mod rollback;

pub use baseline::{BaselineChoice, BaselineError, BaselineKind, baselines};
pub use check::{Check, check};
pub use create::{CreateRequest, Created, WorktreeWarning, create};
pub use discard::{Discarded, Unsaved, discard};
pub use error::{Leftover, Step, WorktreeError};

/// Folder beside a repository that holds the checkouts made from it.
const CONTAINER: &str = ".signalbox-worktrees";
/// Namespace of our branches; nothing outside it is ever deleted.
const BRANCH_PREFIX: &str = "signalbox/";
/// Start of the names of our worktrees inside a repository.
const ADMIN_PREFIX: &str = "signalbox-";

/// What git calls the worktree whose branch is `branch`; `None` if the branch is none of ours.
fn admin_name(branch: &str) -> Option<String> {
    let id = branch.strip_prefix(BRANCH_PREFIX)?;
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain.then(|| format!("{ADMIN_PREFIX}{id}"))
}
