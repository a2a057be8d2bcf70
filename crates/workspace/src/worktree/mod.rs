//! Checkouts made for sessions: linked worktrees on a branch of their own, from a commit that is known locally.

mod baseline;
mod check;
mod create;
mod discard;
mod error;
mod identity;
mod orphan;
mod rollback;

pub use baseline::{BaselineChoice, BaselineError, BaselineKind, baselines};
pub use check::{Check, check};
pub use create::{CreateRequest, Created, WorktreeWarning, create, create_announced};
pub use discard::{Discarded, Unsaved, discard};
pub use error::{Leftover, Step, WorktreeError};
pub use orphan::{Making, take_back_orphan};

use signalbox_facts::SessionId;

/// Folder beside a repository that holds the checkouts made from it.
const CONTAINER: &str = ".signalbox-worktrees";
/// Namespace of our branches; nothing outside it is ever deleted.
const BRANCH_PREFIX: &str = "signalbox/";
/// Start of the names of our worktrees inside a repository.
const ADMIN_PREFIX: &str = "signalbox-";

/// The part of a session's id that its checkout and branch have in their names.
fn short(session: SessionId) -> String {
    let id = session.0.simple().to_string();
    id.get(id.len().saturating_sub(12)..).unwrap_or(&id).to_owned()
}

/// The branch of the session with this short id.
fn branch_of(id: &str) -> String {
    format!("{BRANCH_PREFIX}{id}")
}

/// What git calls the worktree whose branch is `branch`; `None` if the branch is none of ours.
fn admin_name(branch: &str) -> Option<String> {
    let id = branch.strip_prefix(BRANCH_PREFIX)?;
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain.then(|| format!("{ADMIN_PREFIX}{id}"))
}
