//! What the view tells the world: notifications, server requests, withdrawals; and the sink they are gathered in.

use signalbox_facts::{InputId, Seq, SessionId, TurnId};
use signalbox_protocol::app::{
    AgentMessageDeltaNotification, CommandExecutionOutputDeltaNotification, PlanDeltaNotification,
    ReasoningSummaryTextDeltaNotification, ServerNotification, ServerRequest, method,
};

use super::convert::item_id;

/// All that follows from one fact or signal, in the order in which clients must get it.
pub type Effects<'f> = Vec<Outgoing<'f>>;

/// One thing to deliver. Texts of deltas are borrowed from the fact they came with, so that a chunk is copied only
/// into its frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Outgoing<'f> {
    /// A notification.
    Notification(Notification),
    /// More text of an item; to subscribers. Deltas with one [`Delta::key`] may be merged by joining their texts.
    Delta(Delta<'f>),
    /// A request to the subscribed operators and owners. Its JSON-RPC id is the approval's id.
    ServerRequest(Box<ServerRequest>),
    /// The server requests of this approval need no answer any more; `serverRequest/resolved` follows.
    Withdraw {
        /// The approval.
        approval: InputId,
    },
}

/// A notification that is no delta.
#[derive(Clone, PartialEq, Debug)]
pub struct Notification {
    /// Who gets it.
    pub scope: Scope,
    /// The highest fact it reflects.
    pub seq: Seq,
    /// When what it tells happened, Unix milliseconds: `emittedAtMs`.
    pub at_ms: i64,
    /// Method and params.
    pub body: Box<ServerNotification>,
}

/// Who gets a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every connection.
    All,
    /// The connections that are subscribed to the thread.
    Subscribers,
}

/// More text of an open item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta<'f> {
    /// The thread.
    pub thread: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The item's first seq; its wire id is `i<item>`.
    pub item: Seq,
    /// Which notification it is.
    pub kind: DeltaKind,
    /// The highest fact it reflects.
    pub seq: Seq,
    /// When the text came, Unix milliseconds: `emittedAtMs`.
    pub at_ms: i64,
    /// The text.
    pub text: &'f str,
}

/// The four notifications that carry text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeltaKind {
    /// `item/agentMessage/delta`
    AgentMessage,
    /// `item/reasoning/summaryTextDelta`, of the one summary part that items here have.
    Reasoning,
    /// `item/plan/delta`
    Plan,
    /// `item/commandExecution/outputDelta`
    CommandOutput,
}

impl<'f> Delta<'f> {
    /// The notification's method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self.kind {
            DeltaKind::AgentMessage => method::ITEM_AGENT_MESSAGE_DELTA,
            DeltaKind::Reasoning => method::ITEM_REASONING_SUMMARY_TEXT_DELTA,
            DeltaKind::Plan => method::ITEM_PLAN_DELTA,
            DeltaKind::CommandOutput => method::ITEM_COMMAND_EXECUTION_OUTPUT_DELTA,
        }
    }

    /// Deltas with equal keys continue each other within a thread.
    #[must_use]
    pub fn key(&self) -> (Seq, DeltaKind) {
        (self.item, self.kind)
    }

    /// The whole notification, for those who do not write frames of deltas themselves.
    #[must_use]
    pub fn to_notification(&self) -> ServerNotification {
        let thread_id = self.thread.to_string();
        let turn_id = self.turn.to_string();
        let item_id = item_id(self.item);
        let delta = self.text.to_owned();
        match self.kind {
            DeltaKind::AgentMessage => {
                AgentMessageDeltaNotification { thread_id, turn_id, item_id, delta }.into()
            }
            DeltaKind::Reasoning => {
                ReasoningSummaryTextDeltaNotification { thread_id, turn_id, item_id, summary_index: 0, delta }
                    .into()
            }
            DeltaKind::Plan => PlanDeltaNotification { thread_id, turn_id, item_id, delta }.into(),
            DeltaKind::CommandOutput => {
                CommandExecutionOutputDeltaNotification { thread_id, turn_id, item_id, delta }.into()
            }
        }
    }
}

/// Gathers effects. When the view is rebuilt from the store it is deaf, and nothing is built only to be dropped.
#[derive(Debug)]
pub(super) struct Out<'f> {
    live: bool,
    seq: Seq,
    at_ms: i64,
    effects: Effects<'f>,
}

impl<'f> Out<'f> {
    pub(super) fn live(seq: Seq, at_ms: i64) -> Self {
        Self { live: true, seq, at_ms, effects: Vec::new() }
    }

    pub(super) fn deaf() -> Self {
        Self { live: false, seq: 0, at_ms: 0, effects: Vec::new() }
    }

    /// What follows reflects this fact and happened then.
    pub(super) fn at(&mut self, seq: Seq, at_ms: i64) {
        (self.seq, self.at_ms) = (seq, at_ms);
    }

    pub(super) fn into_effects(self) -> Effects<'f> {
        self.effects
    }

    pub(super) fn all<N: Into<ServerNotification>>(&mut self, build: impl FnOnce() -> N) {
        self.push(Scope::All, build);
    }

    pub(super) fn subscribers<N: Into<ServerNotification>>(&mut self, build: impl FnOnce() -> N) {
        self.push(Scope::Subscribers, build);
    }

    /// What a direct mapping says, if it says something.
    pub(super) fn direct(&mut self, map: impl FnOnce() -> Option<(Scope, ServerNotification)>) {
        if self.live
            && let Some((scope, body)) = map()
        {
            self.push(scope, || body);
        }
    }

    fn push<N: Into<ServerNotification>>(&mut self, scope: Scope, build: impl FnOnce() -> N) {
        if self.live {
            let body = Box::new(build().into());
            self.effects.push(Outgoing::Notification(Notification {
                scope,
                seq: self.seq,
                at_ms: self.at_ms,
                body,
            }));
        }
    }

    /// A delta. Seq and time are those of what is being applied.
    pub(super) fn delta(
        &mut self,
        thread: SessionId,
        turn: TurnId,
        item: Seq,
        kind: DeltaKind,
        text: &'f str,
    ) {
        if self.live && !text.is_empty() {
            let (seq, at_ms) = (self.seq, self.at_ms);
            self.effects.push(Outgoing::Delta(Delta { thread, turn, item, kind, seq, at_ms, text }));
        }
    }

    pub(super) fn request(&mut self, build: impl FnOnce() -> ServerRequest) {
        if self.live {
            self.effects.push(Outgoing::ServerRequest(Box::new(build())));
        }
    }

    pub(super) fn withdraw(&mut self, approval: InputId) {
        if self.live {
            self.effects.push(Outgoing::Withdraw { approval });
        }
    }
}
