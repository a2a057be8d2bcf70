//! The thread view: one session's facts as the turns and items that clients see, and what to tell them. Pure.
//!
//! [`ThreadView::apply`] is the one way from facts to turns: live it also returns what clients are told, on loading a
//! thread and for older turns ([`history`]) nobody listens. So the live stream and the rebuilt history cannot disagree.
//!
//! - `direct.rs` is the table of mappings that need no memory, `turn.rs` the lifecycle of turns and items, `items.rs` what
//!   the items are made of, `approvals.rs` what a parked request looks like.
//! - `convert.rs` holds the conversions between wire and core, `answer.rs` what client answers become.

pub mod answer;
mod approvals;
pub mod convert;
pub mod cut;
mod direct;
mod effects;
mod gap;
mod history;
mod items;
mod long;
mod snapshot;
mod turn;

use signalbox_engine::convert as core;
use signalbox_facts::{
    Activity, ActivityState, Command, ConfigOption, ContextWindow, Fact, FactBody, InputId, InputKind, Model,
    PendingInput, PermissionResolved, Prompt, ResolvedBy, ResolverKind, Seq, SessionRow, Signal, SignalBody,
    TokensAtEnd, TurnId,
};
use signalbox_protocol::app::{
    ApprovalDecision, ApprovalKind, ApprovalRequestedNotification, RequestId,
    ServerRequestResolvedNotification, ThreadActivityChangedNotification, ThreadStatus,
    ThreadStatusChangedNotification, ThreadTokenUsageUpdatedNotification,
};

use self::approvals::Asked;
use self::effects::Out;
use self::turn::TurnState;

pub use self::effects::{Delta, DeltaKind, Effects, Notification, Outgoing, Scope};
pub use self::gap::{Gap, is_said, said, state_told};
pub use self::history::{Rebuild, Rebuilt, history};
pub use self::turn::TurnPart;

/// Most bytes that are held, and therefore shown at once, of one message or thought; `item/output/read` has the rest.
pub const HELD_BYTES: usize = 4 * 1024 * 1024;

/// One session as its clients see it: its row, and its newest turn (open or ended) with all items.
///
/// It holds a turn from its prompt to the next turn's prompt, or until a revert takes it back; older ones come from the
/// store through [`history`].
#[derive(Clone, Debug)]
pub struct ThreadView {
    session: SessionRow,
    turn: Option<TurnState>,
    /// The turn that an activity fact has announced, and that fact's seq: the turn's facts begin there.
    announced: Option<(TurnId, Seq)>,
    /// The approvals that clients have been told of.
    asked: Vec<Told>,
    /// The one among them that was put as a question: clients match answers to questions first in, first out.
    question: Option<InputId>,
    window: Option<ContextWindow>,
    /// Usage or context window changed and is still to be told; where and when.
    usage_due: Option<(Seq, i64)>,
    models: Option<(Vec<Model>, String)>,
    options: Option<Vec<ConfigOption>>,
    commands: Option<Vec<Command>>,
    /// Time of the newest fact or signal, Unix milliseconds.
    at_ms: i64,
    /// Most bytes that are held of one message or thought.
    limit: usize,
}

/// A view while it is loaded, fact by fact: [`ThreadView::load`] for who does not hold them all.
#[derive(Debug)]
pub struct Loading {
    view: ThreadView,
    session: SessionRow,
}

impl Loading {
    /// Nothing is loaded yet. `session` is the row as it stands after all facts.
    #[must_use]
    pub fn new(session: SessionRow) -> Self {
        let view = ThreadView::new(SessionRow { activity: Activity::default(), ..session.clone() });
        Self { view, session }
    }

    /// Takes in the next stored fact.
    pub fn take(&mut self, fact: &Fact) {
        self.view.take(fact, &mut Out::deaf());
    }

    /// The view.
    #[must_use]
    pub fn finish(self) -> ThreadView {
        self.view.loaded(self.session)
    }
}

/// An approval that clients have been told of.
#[derive(Clone, Copy, Debug)]
struct Told {
    id: InputId,
    is_question: bool,
}

impl ThreadView {
    /// A session without turns in view: a new one, or one whose turns are all in the store.
    #[must_use]
    pub fn new(session: SessionRow) -> Self {
        Self {
            at_ms: session.updated_at_ms,
            session,
            turn: None,
            announced: None,
            asked: Vec::new(),
            question: None,
            window: None,
            usage_due: None,
            models: None,
            options: None,
            commands: None,
            limit: HELD_BYTES,
        }
    }

    /// A session as it is in the store. `facts` are those of its newest turn that no revert covers, from the turn's first
    /// on; `session` is the row as it stands after all facts, and wins over what they say of the session.
    #[must_use]
    pub fn load<'f>(session: SessionRow, facts: impl IntoIterator<Item = &'f Fact>) -> Self {
        let mut loading = Loading::new(session);
        for fact in facts {
            loading.take(fact);
        }
        loading.finish()
    }

    fn loaded(self, session: SessionRow) -> Self {
        let mut view = self;
        view.session = session;
        view.usage_due = None;
        view.asked = view
            .session
            .activity
            .pending()
            .iter()
            .map(|input| Told { id: input.id, is_question: input.kind == InputKind::Elicitation })
            .collect();
        view.question = view.next_question();
        view
    }

    /// Takes in the next committed fact. Gives what is to be told of it, in order.
    pub fn apply<'f>(&mut self, fact: &'f Fact) -> Effects<'f> {
        let mut out = self.usage_first(!matches!(fact.body, FactBody::Usage(_)));
        let seq = match &fact.body {
            // The first fact of a fork comes last: what is told of it reflects the history behind it.
            FactBody::SessionCreated(_) => fact.through_seq.max(self.session.last_seq),
            _ => fact.through_seq,
        };
        out.at(seq, fact.at_ms);
        self.take(fact, &mut out);
        out.into_effects()
    }

    /// Takes in the next signal. Gives what is to be told of it, in order.
    pub fn apply_signal<'f>(&mut self, signal: &'f Signal) -> Effects<'f> {
        let mut out = self.usage_first(!matches!(signal.body, SignalBody::ContextWindow(_)));
        out.at(signal.seq, signal.at_ms);
        self.take_signal(signal, &mut out);
        out.into_effects()
    }

    /// What is still to be told after a commit's last fact or signal: usage and context window of one moment wait for each
    /// other, so that they are one notification. Whoever forgets this call delays them until the next fact.
    pub fn flush(&mut self) -> Effects<'static> {
        self.usage_first(true).into_effects()
    }

    fn usage_first<'f>(&mut self, due: bool) -> Out<'f> {
        let mut out = Out::live(self.session.last_seq, self.at_ms);
        if due && let Some((seq, at_ms)) = self.usage_due.take() {
            // A repeated value moved the thread on without being told.
            out.at(seq.max(self.session.last_seq), at_ms);
            self.tell_usage(&mut out);
        }
        out
    }

    fn take<'f>(&mut self, fact: &'f Fact, out: &mut Out<'f>) {
        self.at_ms = fact.at_ms;
        let mut unheard = Out::deaf();
        let out = if direct::is_echo(&fact.body, &self.session) { &mut unheard } else { out };
        let status = matches!(fact.body, FactBody::Activity(_)).then(|| self.status());
        if let Some(turn) = &mut self.turn {
            turn.told_seq = fact.through_seq;
        }
        self.session.apply(fact);
        match &fact.body {
            FactBody::Activity(activity) => self.activity(fact, activity, status, out),
            FactBody::Prompt(prompt) if prompt.opens.is_some() => self.open_turn(fact, prompt, out),
            FactBody::TurnDiff(diff) => {
                if let Some(turn) = self.turn_of(fact) {
                    turn.set_diff(diff, out);
                }
            }
            FactBody::TurnEnded(ended) => {
                if let Some(tokens) = &ended.tokens {
                    self.tokens_at_end(fact, tokens, out);
                }
                if let Some(turn) = self.turn_of(fact) {
                    turn.end(fact.at_ms, ended, out);
                }
            }
            FactBody::Usage(_) => self.usage_changed(fact.through_seq, fact.at_ms),
            FactBody::PermissionRequested(input) => self.requested(input, out),
            FactBody::PermissionResolved(resolved) => self.resolved(fact, resolved, out),
            body if items::makes_item(body) => {
                if let Some(turn) = self.turn_of(fact) {
                    turn.take(fact, out);
                }
            }
            body => {
                if let FactBody::Reverted(reverted) = body
                    && self.turn.as_ref().is_some_and(|turn| turn.first_seq >= reverted.from_seq)
                {
                    self.turn = None;
                }
                let running = self.session.activity.is_open();
                out.direct(|| direct::of_fact(body, &self.session, running));
            }
        }
    }

    fn take_signal<'f>(&mut self, signal: &'f Signal, out: &mut Out<'f>) {
        self.at_ms = signal.at_ms;
        match &signal.body {
            SignalBody::ContextWindow(window) => {
                if self.window != Some(*window) {
                    self.window = Some(*window);
                    self.usage_changed(signal.seq, signal.at_ms);
                }
                return;
            }
            SignalBody::Models { available, current } => {
                let models = Some((available.clone(), current.clone()));
                if self.models == models {
                    return;
                }
                self.models = models;
            }
            SignalBody::ConfigOptions(options) => {
                if self.options.as_ref() == Some(options) {
                    return;
                }
                self.options = Some(options.clone());
            }
            SignalBody::Commands(commands) => {
                if self.commands.as_ref() == Some(commands) {
                    return;
                }
                self.commands = Some(commands.clone());
            }
            SignalBody::Unloaded => out.all(|| ThreadStatusChangedNotification {
                thread_id: self.session.id.to_string(),
                status: ThreadStatus::NotLoaded,
            }),
            SignalBody::Stalled { .. } | SignalBody::Deleted | SignalBody::RateLimits { .. } => {}
        }
        out.direct(|| direct::of_signal(signal, &self.session));
    }

    // ---- Turns ----

    fn activity(
        &mut self,
        fact: &Fact,
        activity: &Activity,
        before: Option<ThreadStatus>,
        out: &mut Out<'_>,
    ) {
        if let ActivityState::Running { turn_id, .. } = activity.state
            && self.turn.as_ref().is_none_or(|turn| turn.id != turn_id)
        {
            self.announced = Some((turn_id, fact.seq));
        }
        if !activity.is_open() {
            // The engine resolves whatever waits before it ends a turn; nothing may hang if it did not.
            for told in std::mem::take(&mut self.asked) {
                self.withdrawn(told, out);
            }
            self.question = None;
            if let Some(turn) = &mut self.turn {
                turn.settle(fact.at_ms, out);
            }
        }
        let status = self.status();
        if before.as_ref() != Some(&status) {
            out.all(|| ThreadStatusChangedNotification { thread_id: self.session.id.to_string(), status });
        }
        out.all(|| ThreadActivityChangedNotification {
            thread_id: self.session.id.to_string(),
            activity: core::activity_out(activity),
        });
    }

    fn open_turn<'f>(&mut self, fact: &'f Fact, prompt: &Prompt, out: &mut Out<'f>) {
        let Some(id) = fact.turn else { return };
        let first_seq = match self.announced.take() {
            Some((turn, seq)) if turn == id => seq,
            _ => fact.seq,
        };
        let turn = self.turn.insert(TurnState::open(fact, id, first_seq, prompt, self.limit));
        turn.tell_started(out);
        turn.take(fact, out);
    }

    /// The turn in view, if the fact belongs to it. What belongs to another is of no concern here: its turn was reverted,
    /// or is in the store only.
    fn turn_of(&mut self, fact: &Fact) -> Option<&mut TurnState> {
        self.turn.as_mut().filter(|turn| fact.turn == Some(turn.id))
    }

    // ---- Usage ----

    fn usage_changed(&mut self, seq: Seq, at_ms: i64) {
        let usage = convert::usage_out(self.session.usage, self.window);
        if let Some(turn) = &mut self.turn
            && turn.usage.as_ref() != Some(&usage)
        {
            turn.usage = Some(usage);
            self.usage_due = Some((seq, at_ms));
        }
    }

    /// What the turn learned of its tokens. Live it is known already.
    fn tokens_at_end(&mut self, fact: &Fact, tokens: &TokensAtEnd, out: &mut Out<'_>) {
        let usage = Some(convert::usage_out(tokens.usage, tokens.window));
        let Some(turn) = self.turn_of(fact) else { return };
        if turn.usage != usage {
            turn.usage = usage;
            self.usage_due = None;
            self.tell_usage(out);
        }
    }

    fn tell_usage(&self, out: &mut Out<'_>) {
        let Some(turn) = &self.turn else { return };
        let Some(usage) = &turn.usage else { return };
        out.subscribers(|| ThreadTokenUsageUpdatedNotification {
            thread_id: self.session.id.to_string(),
            turn_id: turn.id.to_string(),
            token_usage: usage.clone(),
        });
    }

    // ---- Approvals ----

    fn requested(&mut self, input: &PendingInput, out: &mut Out<'_>) {
        let Some(asked) = self.surroundings(input) else { return };
        let is_tool = asked.kind() == ApprovalKind::Tool;
        out.subscribers(|| ApprovalRequestedNotification {
            thread_id: asked.session.id.to_string(),
            approval: asked.approval(),
        });
        if !is_tool || self.question.is_none() {
            out.request(|| asked.server_request());
            if is_tool {
                self.question = Some(input.id);
            }
        }
        self.asked.push(Told { id: input.id, is_question: input.kind == InputKind::Elicitation });
    }

    fn resolved(&mut self, fact: &Fact, resolved: &PermissionResolved, out: &mut Out<'_>) {
        let told = self.asked.iter().position(|told| told.id == resolved.input);
        let told = told.map(|place| self.asked.remove(place));
        if told.is_some() {
            out.withdraw(resolved.input);
            if let Some(turn) = self.turn_of(fact) {
                turn.approval_resolved(convert::approval_out(fact, resolved));
            }
        }
        out.subscribers(|| {
            let is_question = told.is_some_and(|told| told.is_question);
            convert::resolved_out(self.session.id, resolved, is_question)
        });
        if self.question == Some(resolved.input) {
            self.question = self.next_question().filter(|next| *next != resolved.input);
            if let Some(asked) = self.question.and_then(|id| self.asked(id)) {
                out.request(|| asked.server_request());
            }
        }
    }

    fn withdrawn(&self, told: Told, out: &mut Out<'_>) {
        out.withdraw(told.id);
        out.subscribers(|| ServerRequestResolvedNotification {
            thread_id: self.session.id.to_string(),
            request_id: RequestId::String(told.id.to_string()),
            approval_id: told.id.to_string(),
            decision: Some(ApprovalDecision::Cancel),
            option_id: None,
            by: core::resolver_out(&ResolvedBy { kind: ResolverKind::Interrupt, name: None }),
        });
    }

    /// The first of those that wait to be put as questions.
    fn next_question(&self) -> Option<InputId> {
        let pending = self.session.activity.pending().iter();
        let questions = pending.filter(|input| {
            self.asked.iter().any(|told| told.id == input.id)
                && self.surroundings(input).is_some_and(|asked| asked.kind() == ApprovalKind::Tool)
        });
        questions.min_by_key(|input| input.sequence).map(|input| input.id)
    }

    fn asked(&self, id: InputId) -> Option<Asked<'_>> {
        self.surroundings(self.pending(id)?)
    }

    fn surroundings<'v>(&'v self, input: &'v PendingInput) -> Option<Asked<'v>> {
        let turn = self.turn.as_ref();
        Some(Asked {
            session: &self.session,
            turn: self.session.activity.turn().or(turn.map(|turn| turn.id))?,
            input,
            body: turn.zip(input.item_seq).and_then(|(turn, seq)| turn.body(seq)),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
