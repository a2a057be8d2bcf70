//! What makes up for notifications that a client was not told, if it knows the thread up to one fact: items started and
//! completed, ends of turns, the latest values; without deltas.

use signalbox_engine::convert as core;
use signalbox_facts::{Fact, FactBody, Seq, SessionRow, TurnStatus};
use signalbox_facts::{Signal, SignalBody};
use signalbox_protocol::app::{
    ApprovalRequestedNotification, ErrorNotification, ItemBody, ItemCompletedNotification,
    ItemStartedNotification, ServerNotification, ThreadActivityChangedNotification,
    ThreadArchivedNotification, ThreadNameUpdatedNotification, ThreadQueueChangedNotification,
    ThreadSettingsUpdatedNotification, ThreadStartedNotification, ThreadStatus,
    ThreadStatusChangedNotification, ThreadUnarchivedNotification, TurnCompletedNotification,
    TurnStartedNotification, method,
};

use super::effects::{DeltaKind, Effects, Out};
use super::turn::TurnState;
use super::{ThreadView, convert, direct, items};

/// What a client is told that has missed something.
#[derive(Debug)]
pub struct Gap {
    /// In this order.
    pub told: Effects<'static>,
    /// Texts of which the client has a beginning and is not told the middle: what comes of them before they are complete must
    /// be kept from it.
    pub cut: Vec<(Seq, DeltaKind)>,
}

impl ThreadView {
    /// What has happened since `known`, which is the session as a client knows it. Turns between the one that it knows and
    /// the one in view are for [`ThreadView::turn_gap`]; approvals that were resolved are told before.
    #[must_use]
    pub fn gap(&self, known: &SessionRow) -> Gap {
        let mut out = Out::live(self.seq(), self.at_ms);
        let mut cut = Vec::new();
        self.session_gap(known, &mut out);
        let is_open = self.session.activity.is_open();
        if is_open {
            self.activity_gap(known, &mut out);
        }
        if let Some(turn) = &self.turn {
            turn.tell_since(known.last_seq, &mut out, &mut cut);
            // It may have changed without a fact.
            self.tell_usage(&mut out);
        }
        if !is_open {
            self.activity_gap(known, &mut out);
        }
        if let Some(turn) = &self.turn {
            turn.tell_end_since(known.last_seq, &mut out);
        }
        for input in self.session.activity.pending() {
            let is_new = !known.activity.pending().iter().any(|other| other.id == input.id);
            if let Some(asked) = self.surroundings(input).filter(|_| is_new) {
                out.subscribers(|| ApprovalRequestedNotification {
                    thread_id: self.session.id.to_string(),
                    approval: asked.approval(),
                });
            }
        }
        self.agent_gap(&mut out);
        Gap { told: out.into_effects(), cut }
    }

    /// A whole turn that has ended, as far as it is news to a client that knows everything through `since`.
    #[must_use]
    pub fn turn_gap(&self, since: Seq) -> Effects<'static> {
        let mut out = Out::live(self.seq(), self.at_ms);
        let Some(turn) = &self.turn else { return Vec::new() };
        out.at(turn.told_seq, self.at_ms);
        turn.tell_since(since, &mut out, &mut Vec::new());
        if turn.told_seq > since {
            self.tell_usage(&mut out);
        }
        if turn.told_seq > since && !turn.is_open() {
            let failed = turn.status() == TurnStatus::Failed;
            let status = if failed { ThreadStatus::SystemError } else { ThreadStatus::Idle };
            out.all(|| ThreadStatusChangedNotification { thread_id: self.session.id.to_string(), status });
        }
        turn.tell_end_since(since, &mut out);
        out.into_effects()
    }

    fn session_gap(&self, known: &SessionRow, out: &mut Out<'_>) {
        let row = &self.session;
        let thread_id = || row.id.to_string();
        if row.title != known.title {
            out.all(|| ThreadNameUpdatedNotification {
                thread_id: thread_id(),
                thread_name: convert::name_out(row),
            });
        }
        match (known.archived, row.archived) {
            (false, true) => out.all(|| ThreadArchivedNotification { thread_id: thread_id() }),
            (true, false) => out.all(|| ThreadUnarchivedNotification { thread_id: thread_id() }),
            _ => {}
        }
        let settings = convert::settings_out(row);
        if settings != convert::settings_out(known) {
            out.subscribers(|| ThreadSettingsUpdatedNotification {
                thread_id: thread_id(),
                thread_settings: settings,
            });
        }
        if row.queue != known.queue {
            out.subscribers(|| ThreadQueueChangedNotification { thread_id: thread_id() });
        }
    }

    fn activity_gap(&self, known: &SessionRow, out: &mut Out<'_>) {
        if known.activity == self.session.activity {
            return;
        }
        let thread_id = || self.session.id.to_string();
        out.all(|| ThreadStatusChangedNotification { thread_id: thread_id(), status: self.status() });
        out.all(|| ThreadActivityChangedNotification {
            thread_id: thread_id(),
            activity: core::activity_out(&self.session.activity),
        });
    }

    /// What leaves no row: whether it is news cannot be told, so it is told again.
    fn agent_gap(&self, out: &mut Out<'_>) {
        let (session, turn, seq) = (self.session.id, self.session.activity.turn(), self.seq());
        let signal = |body| Signal { session, turn, seq, at_ms: self.at_ms, body };
        if let Some((available, current)) = self.models.clone() {
            out.direct(|| {
                direct::of_signal(&signal(SignalBody::Models { available, current }), &self.session)
            });
        }
        if let Some(options) = self.options.clone() {
            out.direct(|| direct::of_signal(&signal(SignalBody::ConfigOptions(options)), &self.session));
        }
        if let Some(commands) = self.commands.clone() {
            out.direct(|| direct::of_signal(&signal(SignalBody::Commands(commands)), &self.session));
        }
    }
}

/// What facts of no turn say that nothing else makes up for: reverts, discarded worktrees, warnings.
#[must_use]
pub fn said<'f>(row: &SessionRow, facts: impl IntoIterator<Item = &'f Fact>) -> Effects<'static> {
    let mut out = Out::live(row.last_seq, row.updated_at_ms);
    for fact in facts.into_iter().filter(|fact| is_said(&fact.body)) {
        out.at(fact.through_seq, fact.at_ms);
        out.direct(|| direct::of_fact(&fact.body, row, true));
    }
    out.into_effects()
}

/// Whether only the fact itself tells it.
#[must_use]
pub fn is_said(body: &FactBody) -> bool {
    matches!(body, FactBody::Reverted(_) | FactBody::WorktreeDiscarded(_) | FactBody::Warning(_))
}

impl TurnState {
    /// Its begin, items and latest values, as far as they are news.
    fn tell_since(&self, since: Seq, out: &mut Out<'_>, cut: &mut Vec<(Seq, DeltaKind)>) {
        if self.first_seq > since {
            out.subscribers(|| TurnStartedNotification {
                thread_id: self.thread.to_string(),
                turn: super::turn::begun(self.outline()),
            });
        }
        for (place, step) in self.steps_since(since) {
            let item = self.whole(place);
            let (thread_id, turn_id) = (self.thread.to_string(), self.id.to_string());
            match step {
                Step::Start => out.subscribers(|| ItemStartedNotification {
                    thread_id,
                    turn_id,
                    started_at_ms: item.started_at_ms.unwrap_or_default(),
                    item: items::begun(item),
                }),
                Step::End => out.subscribers(|| ItemCompletedNotification {
                    thread_id,
                    turn_id,
                    completed_at_ms: item.completed_at_ms.unwrap_or_default(),
                    item,
                }),
            }
        }
        cut.extend(self.open_before(since).filter_map(|(seq, body)| Some((seq, text_of(body)?))));
        if self.told_seq > since {
            self.tell_plan(out);
            self.tell_diff(out);
        }
    }

    fn tell_end_since(&self, since: Seq, out: &mut Out<'_>) {
        if self.is_open() || self.ended_seq <= since {
            return;
        }
        let turn = self.summary();
        if let Some(error) = turn.error.clone().filter(|_| self.status() == TurnStatus::Failed) {
            out.subscribers(|| ErrorNotification {
                thread_id: self.thread.to_string(),
                turn_id: self.id.to_string(),
                error,
                will_retry: false,
                request_id: None,
            });
        }
        out.subscribers(|| TurnCompletedNotification { thread_id: self.thread.to_string(), turn });
    }
}

/// What is told of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Start,
    End,
}

/// The text of an item that grows by deltas.
fn text_of(body: &ItemBody) -> Option<DeltaKind> {
    match body {
        ItemBody::AgentMessage { .. } => Some(DeltaKind::AgentMessage),
        ItemBody::Reasoning { .. } => Some(DeltaKind::Reasoning),
        ItemBody::Plan { .. } => Some(DeltaKind::Plan),
        ItemBody::CommandExecution { .. } => Some(DeltaKind::CommandOutput),
        _ => None,
    }
}

/// How a session stands, for a client that missed notifications of these methods about it and does not follow it.
#[must_use]
pub fn state_told(row: &SessionRow, status: ThreadStatus, missed: &[&str]) -> Vec<ServerNotification> {
    let thread_id = || row.id.to_string();
    if missed.contains(&method::THREAD_STARTED) {
        let thread = convert::thread_out(row, status);
        return vec![ThreadStartedNotification { thread, request_id: None }.into()];
    }
    let mut told: Vec<ServerNotification> = Vec::new();
    for method in missed {
        match *method {
            method::THREAD_STATUS_CHANGED | method::THREAD_CLOSED => {
                told.push(
                    ThreadStatusChangedNotification { thread_id: thread_id(), status: status.clone() }.into(),
                );
            }
            method::THREAD_ACTIVITY_CHANGED => {
                let activity = core::activity_out(&row.activity);
                told.push(ThreadActivityChangedNotification { thread_id: thread_id(), activity }.into());
            }
            method::THREAD_NAME_UPDATED => {
                let thread_name = convert::name_out(row);
                told.push(ThreadNameUpdatedNotification { thread_id: thread_id(), thread_name }.into());
            }
            method::THREAD_ARCHIVED | method::THREAD_UNARCHIVED if row.archived => {
                told.push(ThreadArchivedNotification { thread_id: thread_id() }.into());
            }
            method::THREAD_ARCHIVED | method::THREAD_UNARCHIVED => {
                told.push(ThreadUnarchivedNotification { thread_id: thread_id() }.into());
            }
            _ => {}
        }
    }
    told.dedup();
    told
}
