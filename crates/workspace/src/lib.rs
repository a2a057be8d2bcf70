//! Git without git: what a directory's repository is, worktrees and their baselines, and the diff of a turn.
//!
//! Everything here blocks and nothing here is async: callers run it on a blocking thread. Nothing touches the
//! network, runs a program, or takes part in the environment's idea of a repository (`GIT_DIR` and its kin are
//! ignored). The user's object store and index are read, never written; the only things ever changed in a
//! user's repository are the branch and the linked worktree that a session asked for.

mod info;
mod repo;
mod snapshot;
mod worktree;

pub use info::{GitInfo, git_info, without_credentials};
pub use repo::OpenError;
pub use snapshot::{BlobStore, Limits, Snapshot, SnapshotError, StatCache};
pub use worktree::{
    BaselineChoice, BaselineError, BaselineKind, Check, CreateRequest, Created, Discarded, Leftover, Making,
    Step, Unsaved, WorktreeError, WorktreeWarning, baselines, check, create, create_announced, discard,
    take_back_orphan,
};
