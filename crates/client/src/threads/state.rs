//! `ThreadState`: all that a client knows of a thread, and how results of its own calls change it.

use std::collections::BTreeMap;

use signalbox_protocol::app::{
    AgentCommand, Approval, ApprovalListResult, AskForApproval, Model, OpenedThread, QueuedSubmission,
    SandboxPolicy, ServerRequest, Thread, ThreadForkResult, ThreadResumeParams, ThreadResumeResult,
    ThreadSettings, ThreadStartResult, Turn,
};
use signalbox_protocol::ops::{ConfigOption, Policy};

use super::broken::Broken;
use super::place::Cursor;

/// All that a client knows of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadState {
    /// The thread with the turns that are known, oldest first. What no notification tells (`updatedAt`, `gitInfo`, …) is as
    /// the last result said.
    pub thread: Thread,
    /// The settings of turns to come.
    pub settings: Settings,
    /// Where `thread/turns/list` goes on to turns before those that are here; none if there are no others, or none were
    /// asked for.
    pub older_turns: Option<String>,
    /// Where `thread/items/list` goes on to items before those of the first turn that is here.
    pub older_items: Option<String>,
    /// What waits for an answer by this client, by approval id, which is also what to answer under.
    pub requests: BTreeMap<String, ServerRequest>,
    /// Approvals that wait, as far as this client was told of them while it followed the thread, or has read their list.
    pub approvals: BTreeMap<String, Approval>,
    /// The models that the agent offers, and the id of the current one, once it has told them.
    pub models: Option<(Vec<Model>, String)>,
    /// The options that the agent offers, once it has told them.
    pub config_options: Option<Vec<ConfigOption>>,
    /// The slash commands that the agent offers, once it has told them.
    pub commands: Option<Vec<AgentCommand>>,
    /// The follow-ups that wait, as they were read last; none if they never were.
    pub queue: Option<Queue>,
    /// Whether the queue of follow-ups has changed since it was asked for last.
    pub queue_changed: bool,
    /// Whether the state follows the thread.
    pub phase: Phase,
    /// The newest fact that the state reflects.
    pub seq: u64,
    /// Place of the newest frame.
    pub(super) cursor: Option<Cursor>,
    /// The newest frame that left nothing out.
    pub(super) whole: Option<Whole>,
    /// What is not behind this place was told before the snapshot.
    pub(super) snapshot: Option<Cursor>,
    /// Every turn that any notification can be about is here.
    pub(super) all_known: bool,
}

/// The point up to which everything is known. Who goes on from there hears again what everybody was told meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Whole {
    pub(super) cursor: Cursor,
    pub(super) seq: u64,
    /// Of the activity.
    pub(super) revision: u64,
}

/// The settings of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where the agent works.
    pub cwd: String,
    /// The agent's own model id, or `default`.
    pub model: String,
    /// The provider's name.
    pub model_provider: String,
    /// How hard the model thinks, where the agent has such a setting.
    pub effort: Option<String>,
    /// When the agent has to ask.
    pub approval_policy: AskForApproval,
    /// What the agent may do without asking.
    pub sandbox_policy: SandboxPolicy,
    /// Ext: the pair behind these two.
    pub policy: Policy,
}

/// The follow-ups of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// In the order in which they will run.
    pub entries: Vec<QueuedSubmission>,
    /// Whether they wait for the next accepted prompt.
    pub paused: bool,
}

/// Whether a state follows its thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Whatever happens to the thread is told.
    Live,
    /// Something was missed, or will be: what is told to everybody (status, name, …) is still taken in, the rest is as it
    /// was until the thread is resumed.
    Behind(Behind),
    /// The thread was deleted.
    Deleted,
}

/// Why a state does not follow its thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Behind {
    /// By this client's own wish.
    Unsubscribed,
    /// The connection has ended.
    Disconnected,
    /// The server has unloaded the thread.
    Closed,
    /// The connection was too slow for the server to keep what it missed.
    Resync {
        /// For people.
        reason: String,
    },
    /// The server has told what cannot be.
    Broken(Broken),
}

/// Something that has to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// By `thread/resume` with [`ThreadState::resume_params`]; its result goes to [`ThreadState::rejoined`].
    Resume,
    /// By `thread/queue/list`: [`ThreadState::queue_asked`], and then [`ThreadState::queue_read`].
    Queue,
}

impl ThreadState {
    /// The state after `thread/start`.
    #[must_use]
    pub fn started(result: ThreadStartResult) -> Self {
        Self::opened(result.opened, true)
    }

    /// The state of the new thread after `thread/fork`.
    #[must_use]
    pub fn forked(result: ThreadForkResult) -> Self {
        let all = result.turns_backwards_cursor.is_none();
        Self { older_turns: result.turns_backwards_cursor, ..Self::opened(result.opened, all) }
    }

    /// The state after `thread/resume`. Give the result of a call with `excludeTurns` to [`ThreadState::outline`].
    #[must_use]
    pub fn resumed(result: ThreadResumeResult) -> Self {
        let ThreadResumeResult { opened, turns_backwards_cursor, items_backwards_cursor, .. } = result;
        let all = turns_backwards_cursor.is_none();
        let older = (turns_backwards_cursor, items_backwards_cursor);
        let state = Self::opened(opened, all);
        Self { older_turns: older.0, older_items: older.1, ..state }
    }

    /// The state after `thread/resume` with `excludeTurns`: turns are known from the next one on.
    #[must_use]
    pub fn outline(result: ThreadResumeResult) -> Self {
        Self { all_known: false, ..Self::resumed(result) }
    }

    fn opened(opened: OpenedThread, all_known: bool) -> Self {
        let settings = Settings {
            cwd: opened.cwd,
            model: opened.model,
            model_provider: opened.model_provider,
            effort: opened.reasoning_effort,
            approval_policy: opened.approval_policy,
            sandbox_policy: opened.sandbox,
            policy: opened.thread.policy,
        };
        let cursor: Option<Cursor> = opened.cursor.and_then(|cursor| cursor.parse().ok());
        let (seq, revision) = (opened.snapshot_seq, opened.thread.activity.revision);
        Self {
            thread: opened.thread,
            settings,
            older_turns: None,
            older_items: None,
            requests: BTreeMap::new(),
            approvals: BTreeMap::new(),
            models: None,
            config_options: None,
            commands: None,
            queue: None,
            queue_changed: true,
            phase: Phase::Live,
            seq,
            cursor: None,
            whole: cursor.clone().map(|cursor| Whole { cursor, seq, revision }),
            snapshot: cursor,
            all_known,
        }
    }

    /// The thread was resumed once more, with turns. A result that is `continued` leaves the state as it is, because
    /// what was missed follows; any other one replaces it. Older turns that were read have to be read again.
    pub fn rejoined(&mut self, result: ThreadResumeResult) {
        // Those that still wait are asked again behind the result.
        self.requests.clear();
        if result.continued {
            self.phase = Phase::Live;
            if let Some(Whole { cursor, seq, revision }) = self.whole.clone() {
                self.seq = seq;
                self.thread.activity.revision = revision;
                self.snapshot = Some(cursor.clone());
                self.cursor = Some(cursor);
            }
            return;
        }
        let (models, config_options, commands, queue) =
            (self.models.take(), self.config_options.take(), self.commands.take(), self.queue.take());
        *self = Self { models, config_options, commands, queue, ..Self::resumed(result) };
    }

    /// The call that makes the state follow its thread again. It asks for what was missed only, if this server life may
    /// still have that.
    #[must_use]
    pub fn resume_params(&self) -> ThreadResumeParams {
        let whole = match &self.phase {
            Phase::Behind(Behind::Unsubscribed | Behind::Disconnected | Behind::Closed) => {
                self.whole.as_ref()
            }
            // Live: the events of the present subscription would come twice.
            Phase::Live | Phase::Behind(Behind::Resync { .. } | Behind::Broken(_)) | Phase::Deleted => None,
        };
        ThreadResumeParams {
            thread_id: self.thread.id.clone(),
            after_cursor: whole.map(|whole| whole.cursor.to_string()),
            ..ThreadResumeParams::default()
        }
    }

    /// `thread/unsubscribe` was answered.
    pub fn unsubscribed(&mut self) {
        self.falls_behind(Behind::Unsubscribed);
        self.requests.clear();
    }

    /// The connection has ended; what comes next comes over another one.
    pub fn disconnected(&mut self) {
        self.falls_behind(Behind::Disconnected);
        self.requests.clear();
        self.cursor = None;
    }

    pub(super) fn falls_behind(&mut self, why: Behind) {
        match self.phase {
            Phase::Deleted => {}
            // Why it fell behind first decides what is whole.
            Phase::Behind(Behind::Resync { .. } | Behind::Broken(_)) => {}
            Phase::Live | Phase::Behind(_) => self.phase = Phase::Behind(why),
        }
    }

    /// What has to be asked for before the state is whole again. What this client itself has ended is not wanted.
    #[must_use]
    pub fn wants(&self) -> Vec<Want> {
        match &self.phase {
            Phase::Live => self.queue_changed.then_some(Want::Queue).into_iter().collect(),
            Phase::Behind(Behind::Unsubscribed | Behind::Closed) | Phase::Deleted => Vec::new(),
            Phase::Behind(Behind::Disconnected | Behind::Resync { .. } | Behind::Broken(_)) => {
                vec![Want::Resume]
            }
        }
    }

    /// The queue of follow-ups was asked for: it is wanted again when it changes, also if that is before the answer.
    pub fn queue_asked(&mut self) {
        self.queue_changed = false;
    }

    /// The queue of follow-ups was read, with all pages.
    pub fn queue_read(&mut self, entries: Vec<QueuedSubmission>, paused: bool) {
        self.queue = Some(Queue { entries, paused });
    }

    /// A page of turns that come right before those that are here (oldest first), and where the next page begins.
    pub fn older_turns_read(&mut self, turns: Vec<Turn>, next: Option<String>) {
        let known = std::mem::take(&mut self.thread.turns);
        self.all_known = next.is_none();
        self.older_turns = next;
        let new = turns.into_iter().filter(|turn| known.iter().all(|known| known.id != turn.id));
        self.thread.turns = new.collect();
        self.thread.turns.extend(known);
    }

    /// The list of all pending approvals, or of this thread's, was read.
    pub fn approvals_read(&mut self, result: ApprovalListResult) {
        let of_this = result.data.into_iter().filter(|approval| approval.thread_id == self.thread.id);
        self.approvals = of_this.map(|approval| (approval.approval_id.clone(), approval)).collect();
    }

    /// The turn of this id.
    #[must_use]
    pub fn turn(&self, id: &str) -> Option<&Turn> {
        self.thread.turns.iter().rev().find(|turn| turn.id == id)
    }

    /// The cursor behind which `thread/resume` with `afterCursor` would go on.
    #[must_use]
    pub fn cursor(&self) -> Option<&Cursor> {
        self.whole.as_ref().map(|whole| &whole.cursor)
    }
}

impl From<&ThreadSettings> for Settings {
    fn from(told: &ThreadSettings) -> Self {
        Self {
            cwd: told.cwd.clone(),
            model: told.model.clone(),
            model_provider: told.model_provider.clone(),
            effort: told.effort.clone(),
            approval_policy: told.approval_policy,
            sandbox_policy: told.sandbox_policy.clone(),
            policy: told.policy,
        }
    }
}
