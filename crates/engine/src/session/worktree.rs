//! The checkout of a loaded session: looked at before each prompt, removed when somebody discards it.

use std::path::Path;
use std::time::Duration;

use signalbox_facts::{FactBody, WorktreeDiscarded};
use signalbox_workspace::{Check, Discarded, WorktreeError};
use tokio::task::{JoinError, JoinHandle};

use super::actor::Actor;
use super::turns::not_stored;
use crate::batch::Item;
use crate::submission::{Accepted, OpError, Reply};
use crate::worktrees::{declined, unavailable};

/// A file system that does not answer for so long is not there.
const LOOKING: Duration = Duration::from_secs(10);

/// What a session remembers of its checkout.
#[derive(Debug, Default)]
pub(super) struct Checkout {
    /// Where it was when the last prompt was accepted, unless on its own branch; people were told then.
    strayed: Option<Strayed>,
    discarding: Option<Discarding>,
}

/// A discard that was accepted: first the agent ends, then the files go.
#[derive(Debug)]
struct Discarding {
    force: bool,
    removing: Option<JoinHandle<Removed>>,
    reply: Reply,
}

/// What a checkout is on instead of its own branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Strayed {
    /// Another branch; `None` with a detached HEAD.
    branch: Option<String>,
}

pub(super) type Removed = Result<Discarded, WorktreeError>;

impl Checkout {
    /// Whether no discard is under way; work waits for one.
    pub(super) fn is_free(&self) -> bool {
        self.discarding.is_none()
    }

    /// Waits for the removal that runs; for ever if none does. Dropping the future loses nothing.
    pub(super) async fn removed(&mut self) -> Result<Removed, JoinError> {
        match self.discarding.as_mut().and_then(|discarding| discarding.removing.as_mut()) {
            Some(removing) => removing.await,
            None => std::future::pending().await,
        }
    }
}

impl Actor {
    /// Looks whether the session's checkout is still the one that was made for it, and whether it has left its branch.
    pub(super) async fn look_at_checkout(&self) -> Result<Option<Strayed>, OpError> {
        let Some(worktree) = self.row.worktree.clone() else { return Ok(None) };
        let path = worktree.path.display().to_string();
        let looking = tokio::task::spawn_blocking(move || signalbox_workspace::check(&worktree));
        let lost = |why: String| unavailable("worktree_failed", format!("the checkout {path}: {why}"));
        let found = tokio::time::timeout(LOOKING, looking).await;
        let found = found
            .map_err(|_| lost("the file system does not answer".to_owned()))?
            .map_err(|error| lost(error.to_string()))?;
        match found {
            Check::Ok => Ok(None),
            Check::BranchSwitched { found } => Ok(Some(Strayed { branch: found })),
            Check::Moved { reason } => {
                let message = format!("{path} is no longer the thread's checkout: {reason}");
                Err(unavailable("worktree_replaced", message))
            }
        }
    }

    /// A prompt was accepted with the checkout found so: tells if that is news. The turn goes on in it.
    pub(super) async fn checkout_strayed(&mut self, found: Option<Strayed>) {
        let before = std::mem::replace(&mut self.checkout.strayed, found.clone());
        let (Some(strayed), Some(worktree)) =
            (found.filter(|found| before.as_ref() != Some(found)), &self.row.worktree)
        else {
            return;
        };
        let place = strayed
            .branch
            .map_or_else(|| "a detached HEAD".to_owned(), |branch| format!("the branch {branch}"));
        let (path, ours) = (worktree.path.display(), &worktree.branch);
        let message = format!("The checkout {path} is on {place} instead of {ours}.");
        let request_id = self.turn.as_ref().and_then(|turn| turn.request_id.clone());
        self.warn("worktree_branch_switched", message, request_id);
        self.commit().await;
    }

    /// A session with a checkout works inside it.
    pub(super) fn inside_checkout(&self, cwd: &Path) -> Result<(), OpError> {
        match &self.row.worktree {
            Some(worktree) if !cwd.starts_with(&worktree.path) => {
                let (cwd, path) = (cwd.display(), worktree.path.display());
                let message = format!("{cwd}: lies outside of the thread's worktree {path}");
                Err(OpError::InvalidParams { path: "cwd", message })
            }
            _ => Ok(()),
        }
    }

    /// Begins to discard the checkout. The answer comes when it is gone, or when it turns out that it may not go.
    pub(super) fn discard_worktree(&mut self, force: bool, sender: Reply) {
        let decision = match (&self.turn, &self.row.worktree) {
            (_, None) => Err(unavailable("no_worktree", "the thread has no worktree")),
            _ if self.row.worktree_discarded => Ok(Accepted::Applied),
            (Some(turn), _) => Err(OpError::TurnActive(turn.id)),
            (None, Some(_)) => {
                if let Some(live) = &mut self.agent {
                    live.stop();
                }
                self.checkout.discarding = Some(Discarding { force, removing: None, reply: sender });
                return;
            }
        };
        sender.send(decision);
    }

    /// Removes the files of a checkout that is to be discarded, once no agent works in it.
    pub(super) fn drive_discard(&mut self) {
        let (None, Some(discarding)) = (&self.agent, &mut self.checkout.discarding) else { return };
        let (None, Some(worktree)) = (&discarding.removing, self.row.worktree.clone()) else { return };
        let (source, force) = (self.row.project_path.clone(), discarding.force);
        discarding.removing = Some(
            self.core.tracker.spawn_blocking(move || signalbox_workspace::discard(&worktree, &source, force)),
        );
    }

    /// The removal has ended, well or not.
    pub(super) async fn checkout_removed(&mut self, removed: Result<Removed, JoinError>) {
        let Some(Discarding { reply: sender, .. }) = self.checkout.discarding.take() else { return };
        let decision = match removed {
            Ok(Ok(discarded)) => self.store_discard(discarded).await,
            Ok(Err(error)) => Err(declined(error)),
            Err(lost) => Err(unavailable("worktree_failed", lost.to_string())),
        };
        sender.send(decision);
    }

    async fn store_discard(&mut self, discarded: Discarded) -> Result<Accepted, OpError> {
        let Some(worktree) = &self.row.worktree else { return Ok(Accepted::Applied) };
        let Discarded { removed_checkout, deleted_branch } = discarded;
        let gone = WorktreeDiscarded { path: worktree.path.clone(), removed_checkout, deleted_branch };
        self.batch().push(None, Item::None, FactBody::WorktreeDiscarded(gone));
        // If this fails, the files are gone and the row does not know; a second discard finds nothing to remove.
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        Ok(Accepted::Applied)
    }

    /// The server stops: a removal that has begun is finished, one that has not does not begin.
    pub(super) async fn finish_discard(&mut self) {
        let removing = self.checkout.discarding.as_mut().and_then(|discarding| discarding.removing.take());
        match removing {
            Some(removing) => {
                let removed = removing.await;
                self.checkout_removed(removed).await;
            }
            None => {
                if let Some(discarding) = self.checkout.discarding.take() {
                    discarding.reply.send(Err(OpError::ShuttingDown));
                }
            }
        }
    }
}
