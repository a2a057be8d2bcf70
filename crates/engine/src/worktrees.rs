//! Checkouts for new sessions: made before the session is stored, taken back if it cannot be. Git itself is in the crate
//! `workspace`, what a kill leaves behind in `making.rs`; what becomes of a checkout later is in `session/worktree.rs`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use signalbox_facts::{FactBody, SessionId, Warning, Worktree};
use signalbox_protocol::ops::{self, NewSession};
use signalbox_workspace::{
    BaselineKind, CreateRequest, Created, WorktreeError, WorktreeWarning, create_announced,
};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::batch::{Batch, Item};
use crate::convert;
use crate::core::Core;
use crate::engine::Engine;
use crate::making::{self, Notes};
use crate::session::existing_directory;
use crate::submission::OpError;

/// Checkouts that are made at a time: the disk is what limits them.
const AT_A_TIME: usize = 2;
/// Creations that may be under way, waiting ones included. More are refused.
const UNDER_WAY: usize = 64;

/// The making of checkouts, bounded.
#[derive(Debug)]
pub(crate) struct Worktrees {
    fallback: PathBuf,
    /// What is being made.
    pub(crate) notes: Arc<Notes>,
    /// The look at what an earlier process was making.
    pub(crate) settling: TaskTracker,
    under_way: Semaphore,
    slots: Arc<Semaphore>,
}

/// Where a new session works.
#[derive(Debug)]
pub(crate) struct Place {
    /// The agent's directory.
    pub(crate) cwd: PathBuf,
    /// The directory that the user selected.
    pub(crate) project_path: PathBuf,
    session: SessionId,
    checkout: Option<Created>,
}

/// A line of a baseline picker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Baseline {
    /// Which.
    pub kind: ops::BaselineKind,
    /// The commit as known locally right now, or why there is none, for people.
    pub resolved: Result<ops::WorktreeBaseline, String>,
}

impl Worktrees {
    /// Checkouts that cannot lie beside their repository go into `fallback`.
    pub(crate) fn new(fallback: PathBuf) -> Self {
        Self {
            notes: Arc::new(Notes::new(&fallback)),
            settling: TaskTracker::new(),
            fallback,
            under_way: Semaphore::new(UNDER_WAY),
            slots: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Waits until the disk has room for one more to work on it.
    pub(crate) async fn slot(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.slots).acquire_owned().await
    }
}

impl Place {
    /// The selected directory itself, or a checkout of its repository if the session shall have one.
    pub(crate) async fn prepare(
        core: &Core,
        session: SessionId,
        new: &NewSession,
        selected: PathBuf,
    ) -> Result<Self, OpError> {
        if !new.use_worktree {
            return Ok(Self { cwd: selected.clone(), project_path: selected, session, checkout: None });
        }
        let Ok(_under_way) = core.worktrees.under_way.try_acquire() else { return Err(OpError::Overloaded) };
        let slot = tokio::select! {
            slot = core.worktrees.slot() => slot,
            () = core.shutdown.cancelled() => return Err(OpError::ShuttingDown),
        };
        let base = baseline_in(new.worktree_base.unwrap_or_default());
        let pin = new.worktree_base_sha.clone();
        let fallback = core.worktrees.fallback.clone();
        let notes = Arc::clone(&core.worktrees.notes);
        let making = core.tracker.spawn_blocking(move || {
            // Held here, because the work goes on even if nobody waits for it any more.
            let _slot = slot;
            let request = CreateRequest {
                selected: &selected,
                session,
                base,
                pin: pin.as_deref(),
                fallback: &fallback,
            };
            let mut noted = false;
            let made = create_announced(&request, |making| {
                notes.write(making)?;
                noted = true;
                Ok(())
            });
            // What could not be taken back is tried again at the next start.
            if noted && matches!(&made, Err(error) if !matches!(error, WorktreeError::LeftBehind { .. })) {
                notes.remove(session);
            }
            made
        });
        let made = making.await.map_err(|lost| unavailable("worktree_failed", lost.to_string()))?;
        let made = made.map_err(declined)?;
        Ok(Self {
            cwd: made.cwd.clone(),
            project_path: made.project_path.clone(),
            session,
            checkout: Some(made),
        })
    }

    /// The checkout, as the session's first fact has it.
    pub(crate) fn worktree(&self) -> Option<Worktree> {
        self.checkout.as_ref().map(|made| made.worktree.clone())
    }

    /// Tells what the checkout lacks.
    pub(crate) fn warn(&self, batch: &mut Batch) {
        for warning in self.checkout.iter().flat_map(|made| &made.warnings) {
            let warning = Warning {
                message: sentence(*warning),
                reason: warning.reason().to_owned(),
                terminal: false,
                request_id: None,
            };
            batch.push(None, Item::None, FactBody::Warning(warning));
        }
    }

    /// The session is stored and owns its checkout from now on.
    pub(crate) async fn stored(&self, core: &Core) {
        if self.checkout.is_none() {
            return;
        }
        let (notes, session) = (Arc::clone(&core.worktrees.notes), self.session);
        if let Err(lost) = core.tracker.spawn_blocking(move || notes.remove(session)).await {
            tracing::error!(%session, %lost, "the note of a checkout was not removed");
        }
    }

    /// The session could not be stored, so nobody will ever know the checkout. Gives the error to tell.
    pub(crate) async fn take_back(self, core: &Core, error: OpError) -> OpError {
        // Any other error leaves the session stored, and then its checkout stays with it; so does the note, because the
        // disk has not confirmed the session.
        let (Some(made), OpError::StorageFailed(why)) = (self.checkout, &error) else { return error };
        let path = made.worktree.path.clone();
        let (notes, session) = (Arc::clone(&core.worktrees.notes), self.session);
        let take_back = move || {
            let left = made.take_back();
            if left.is_empty() {
                notes.remove(session);
            }
            left
        };
        let left = match core.tracker.spawn_blocking(take_back).await {
            Ok(left) if left.is_empty() => return error,
            Ok(left) => making::list(&left),
            Err(lost) => format!("{} ({lost})", path.display()),
        };
        tracing::error!(path = %path.display(), left, "the checkout of a session that was not stored remains");
        OpError::StorageFailed(format!("{why}; left behind: {left}"))
    }
}

impl Engine {
    /// Waits until checkouts that a killed server left without a session have been looked at, which goes on in the
    /// background after the start. Nothing needs to wait for it.
    pub async fn orphans_settled(&self) {
        self.core().worktrees.settling.wait().await;
    }

    /// What a worktree of this directory's repository could be made from, as known locally right now.
    ///
    /// # Errors
    /// The directory does not exist.
    pub async fn baselines(&self, cwd: &str) -> Result<Vec<Baseline>, OpError> {
        let cwd = existing_directory(std::path::Path::new("/"), cwd, "cwd")?;
        let looked = tokio::task::spawn_blocking(move || signalbox_workspace::baselines(&cwd)).await;
        let choices = looked.map_err(|lost| unavailable("worktree_failed", lost.to_string()))?;
        let line = |choice: signalbox_workspace::BaselineChoice| Baseline {
            kind: baseline_out(choice.kind),
            resolved: choice.resolved.as_ref().map(convert::baseline_out).map_err(|error| chain(error)),
        };
        Ok(choices.into_iter().map(line).collect())
    }
}

/// What the core says of a worktree that could not be made or removed.
pub(crate) fn declined(error: WorktreeError) -> OpError {
    match error {
        WorktreeError::Stale { kind, expected, found } => {
            OpError::WorktreeMoved { base: kind.to_string(), expected, found }
        }
        WorktreeError::Unsaved { unsaved, .. } => OpError::WorktreeDirty {
            message: format!("{error}; discard with force to lose it"),
            files: unsaved.files,
            commits: unsaved.commits,
        },
        other => unavailable(other.reason(), chain(&other)),
    }
}

pub(crate) fn unavailable(cause: &'static str, message: impl Into<String>) -> OpError {
    OpError::WorktreeUnavailable { cause, message: message.into() }
}

/// An error and what caused it, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A warning as a sentence.
fn sentence(warning: WorktreeWarning) -> String {
    let text = warning.to_string();
    let mut scalars = text.chars();
    let first = scalars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", scalars.as_str())
}

fn baseline_in(kind: ops::BaselineKind) -> BaselineKind {
    match kind {
        ops::BaselineKind::Current => BaselineKind::Current,
        ops::BaselineKind::OriginDefault => BaselineKind::OriginDefault,
    }
}

fn baseline_out(kind: BaselineKind) -> ops::BaselineKind {
    match kind {
        BaselineKind::Current => ops::BaselineKind::Current,
        BaselineKind::OriginDefault => ops::BaselineKind::OriginDefault,
    }
}
