//! One task a loaded session: the only writer of its facts, the only holder of its agent.

mod actor;
mod approvals;
mod diffs;
mod explain;
mod fork;
mod gate;
mod history;
mod ops;
mod prompting;
mod queue;
mod rest;
mod restart;
mod settings;
mod turns;
mod unattended;
mod updates;
mod worktree;

use std::collections::BTreeMap;
use std::sync::Arc;

use signalbox_facts::{Command, Committed, ConfigOption, ContextWindow, Model, RateLimit, Seq, SessionRow};
use tokio::sync::{mpsc, oneshot};

use crate::core::Core;
use crate::explain::Explanation;
use crate::submission::{OpError, Submission};

use actor::Actor;
pub(crate) use gate::Gate;
use gate::Presence;
pub use gate::Watching;
pub(crate) use ops::is_control;
pub(crate) use settings::{existing_directories, existing_directory, is_choice};

/// Submissions that may wait in each of a session's two queues.
const QUEUE: usize = 256;
/// Commits that a subscriber may be behind; subscribers never wait for clients, so this is not reached for long.
const STREAM: usize = 64;

/// What one commit released, in order.
pub type Delivery = Arc<[Committed]>;

/// Everything that a session commits, from one point on.
#[derive(Debug)]
pub struct SessionStream {
    /// The session as it was at that point; `row.last_seq` is the last fact before the stream.
    pub row: SessionRow,
    /// What the agent has told that leaves no row.
    pub live: Live,
    /// What follows. It must be read without waiting for any client.
    pub deliveries: mpsc::Receiver<Delivery>,
}

/// The latest signals.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Models on offer and the current one.
    pub models: Option<(Vec<Model>, String)>,
    /// The agent's options.
    pub config_options: Option<Vec<ConfigOption>>,
    /// The agent's slash commands.
    pub commands: Option<Vec<Command>>,
    /// How full the context is.
    pub context_window: Option<ContextWindow>,
    /// The limits of the agent's account.
    pub rate_limits: Vec<RateLimit>,
}

/// Variables that an agent may be given. `Debug` shows none of them, because they are often secrets.
pub(crate) struct Offered(pub(crate) Arc<BTreeMap<String, String>>);

impl std::fmt::Debug for Offered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Offered")
    }
}

/// The queues of a loaded session.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    control: mpsc::Sender<Control>,
    work: mpsc::Sender<Box<Submission>>,
    gate: Arc<Gate>,
}

/// What is taken before any work and never waits for an agent.
#[derive(Debug)]
pub(crate) enum Control {
    /// A cancel, an answer or a policy.
    Op(Box<Submission>),
    /// Somebody wants the stream from here on.
    Subscribe(oneshot::Sender<SessionStream>),
    /// Somebody wants to know why it moves or not.
    Explain(oneshot::Sender<Explanation>),
    /// A connection that uses the session offers its agent these variables.
    Offer(Offered),
}

impl Handle {
    /// Starts a session's actor. `shown` is the last fact that is no news; `released` is what nobody was shown yet: the facts
    /// after it, or of a fork the one that made it, which lies before its history.
    pub(crate) fn spawn(core: &Arc<Core>, row: SessionRow, shown: Seq, released: Vec<Committed>) -> Self {
        let (control, control_queue) = mpsc::channel(QUEUE);
        let (work, work_queue) = mpsc::channel(QUEUE);
        let (sender, deliveries) = mpsc::channel(STREAM);
        let stream_row = SessionRow { last_seq: shown, ..row.clone() };
        (core.on_load)(SessionStream { row: stream_row, live: Live::default(), deliveries });
        let inbox = actor::Inbox { control: control_queue, work: work_queue };
        let gate = Gate::new();
        let presence = Presence::new(Arc::clone(core), row.id, Arc::clone(&gate));
        let actor = Actor::new(Arc::clone(core), row, inbox, Arc::clone(&gate), sender);
        core.tracker.spawn(async move {
            actor.run(released).await;
            drop(presence);
        });
        Self { control, work, gate }
    }

    pub(crate) fn is_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Hands a submission over; its reply channel gets the decision, also that it cannot be taken. Gives it back if the
    /// session is leaving memory: it is for the one that is loaded after it.
    pub(crate) fn submit(&self, submission: Box<Submission>, control: bool) -> Result<(), Box<Submission>> {
        let Some(_passing) = self.gate.pass() else { return Err(submission) };
        let full = if control {
            match self.control.try_reserve() {
                Ok(place) => {
                    place.send(Control::Op(submission));
                    return Ok(());
                }
                Err(mpsc::error::TrySendError::Full(())) => true,
                Err(mpsc::error::TrySendError::Closed(())) => false,
            }
        } else {
            match self.work.try_reserve() {
                Ok(place) => {
                    place.send(submission);
                    return Ok(());
                }
                Err(mpsc::error::TrySendError::Full(())) => true,
                Err(mpsc::error::TrySendError::Closed(())) => false,
            }
        };
        submission.reply.send(Err(if full { OpError::Overloaded } else { OpError::ShuttingDown }));
        Ok(())
    }

    /// Why the session moves or not; none if it is no longer there.
    pub(crate) async fn explain(&self) -> Option<Explanation> {
        let (reply, explanation) = oneshot::channel();
        self.control.send(Control::Explain(reply)).await.ok()?;
        explanation.await.ok()
    }

    /// Offers variables to the session's next agent, if somebody offers any. Where there is no room, the agent keeps what it
    /// was offered before.
    pub(crate) fn offer(&self, env: Option<&Arc<BTreeMap<String, String>>>) {
        if let Some(env) = env
            && self.control.try_send(Control::Offer(Offered(Arc::clone(env)))).is_err()
        {
            tracing::debug!("a session has no room for what its agent is offered");
        }
    }

    /// What waits in the two queues.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let full = |max: usize, free: usize| max.saturating_sub(free);
        let control = full(self.control.max_capacity(), self.control.capacity());
        (control, full(self.work.max_capacity(), self.work.capacity()))
    }

    /// The stream of the session from now on; `None` if it is leaving memory.
    pub(crate) async fn subscribe(&self) -> Option<SessionStream> {
        let (reply, stream) = oneshot::channel();
        let place = self.control.reserve().await.ok()?;
        {
            let _passing = self.gate.pass()?;
            place.send(Control::Subscribe(reply));
        }
        stream.await.ok()
    }
}
