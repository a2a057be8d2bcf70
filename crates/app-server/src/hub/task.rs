//! The hub's task: reads what its session commits, keeps the view, delivers. It never waits for a client.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use signalbox_engine::{Delivery as Commit, SessionStream, Watching, project};
use signalbox_facts::{
    Committed, Fact, FactBody, InputId, ResolverKind, Seq, SessionRow, Signal, SignalBody,
};
use signalbox_protocol::app::{CoreEventNotification, ServerNotification, ServerRequest, method};
use signalbox_rpc::Frame;
use signalbox_store::{FactQuery, StoreError};
use tokio::sync::mpsc;

use super::frames::{self, Cursor};
use super::{Command, Hub, Joined, Snapshot, TurnBounds, Wants};
use crate::approvals::Open;
use crate::connection::{Delivery, Subscriber};
use crate::errors::Error;
use crate::hubs::Hubs;
use crate::view::{Loading, Notification, Outgoing, Scope, ThreadView, convert};

/// After this many bytes of frames the task lets others run: the connections must write them, and hear from the kernel
/// that they can write more, before they count as slow.
const BREATH_BYTES: usize = 128 * 1024;

/// One loaded thread.
#[derive(Debug)]
pub(crate) struct Task {
    hubs: Hubs,
    hub: Arc<Hub>,
    commands: mpsc::Receiver<Command>,
    commits: mpsc::Receiver<Commit>,
    state: State,
    /// Bytes of frames since others could run.
    written: Cell<usize>,
}

#[derive(Debug)]
enum State {
    /// The view could not be loaded yet; the row is kept up to date meanwhile.
    Waiting(Box<SessionRow>),
    /// The view, and what of the stream it was loaded with.
    Ready(Box<ThreadView>, Loaded),
}

/// The facts that a view was loaded with: all up to a point, and what rows compacted meanwhile hold beyond it.
#[derive(Debug)]
struct Loaded {
    through: Seq,
    items: Vec<(Seq, Seq)>,
}

impl Loaded {
    fn takes(&mut self, fact: &Fact) {
        if fact.through_seq > self.through {
            self.items.extend(fact.item_seq.map(|item| (item, fact.through_seq)));
        }
    }

    fn has(&self, fact: &Fact) -> bool {
        let in_row =
            |(item, through): &(Seq, Seq)| fact.item_seq == Some(*item) && fact.through_seq <= *through;
        fact.through_seq <= self.through || self.items.iter().any(in_row)
    }
}

impl Task {
    pub(super) fn new(
        hubs: Hubs,
        hub: Arc<Hub>,
        commands: mpsc::Receiver<Command>,
        stream: SessionStream,
    ) -> Self {
        let SessionStream { row, live, deliveries } = stream;
        if let Some((models, current)) = &live.models {
            learn_models(&hubs, &row, models, current);
        }
        Self {
            hubs,
            hub,
            commands,
            commits: deliveries,
            state: State::Waiting(Box::new(row)),
            written: Cell::new(0),
        }
    }

    /// Runs until the session ends.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.load().await {
            // Tried again when somebody asks; what is committed meanwhile is in the store.
            tracing::error!(session = %self.hub.session, error = %error, "a thread's view could not be loaded");
        }
        loop {
            tokio::select! {
                commit = self.commits.recv() => match commit {
                    Some(commit) => {
                        self.commit(&commit);
                        self.breathe().await;
                    }
                    None => break,
                },
                Some(command) = self.commands.recv() => self.command(command).await,
            }
        }
    }

    /// Lets others run, if much was written meanwhile.
    async fn breathe(&mut self) {
        if self.written.get() >= BREATH_BYTES {
            self.written.set(0);
            tokio::task::yield_now().await;
        }
    }

    /// Builds the view from the store, as it was at the row's point. What the store has beyond it is still to come.
    async fn load(&mut self) -> Result<(), Error> {
        let State::Waiting(row) = &self.state else { return Ok(()) };
        // A row that was compacted meanwhile may reach beyond the point; what it covers must not come twice.
        let mut loaded = Loaded { through: row.last_seq, items: Vec::new() };
        let mut loading = Loading::new((**row).clone());
        if row.last_seq > 0 {
            let moment = self.hubs.reader_of(row.id).moment(row.id).await?;
            let mut moment = moment.ok_or(StoreError::UnknownSession { session: row.id })?;
            let turn = moment.newest_turn().await?.map(|turn| (turn.first_seq, turn.id));
            let query = FactQuery::Since { turn, before: row.last_seq + 1 };
            let visited = moment.visit(query, |fact| {
                loaded.takes(&fact);
                if let FactBody::PermissionResolved(resolved) = &fact.body
                    && resolved.by.kind != ResolverKind::Policy
                {
                    self.hubs.approvals().remember(row.id, resolved, fact.at_ms);
                }
                loading.take(&fact);
                ControlFlow::Continue(())
            });
            visited.await?;
            moment.end().await?;
        }
        let view = loading.finish();
        for input in row.activity.pending() {
            self.hubs.approvals().open(Open::new(row.id, input.clone()));
        }
        for record in view.approvals() {
            if let Some(open) = self.open(&record.approval_id) {
                open.record(record);
            }
        }
        for request in view.server_requests() {
            if let Some(open) = self.open(request.approval_id()) {
                drop(written(open.asked(&request)));
            }
        }
        self.state = State::Ready(Box::new(view), loaded);
        Ok(())
    }

    // ---- commits ----

    fn commit(&mut self, commit: &Commit) {
        for committed in commit.iter() {
            match committed {
                Committed::Fact(fact) => self.fact(fact),
                Committed::Signal(signal) => self.signal(signal),
            }
            self.event(committed);
        }
        if let State::Ready(view, _) = &mut self.state {
            for effect in view.flush() {
                self.emit(effect);
            }
        }
    }

    fn fact(&mut self, fact: &Fact) {
        if let FactBody::Reverted(_) = fact.body {
            self.hubs.old_turns().forget(fact.session);
        }
        let view = match &mut self.state {
            State::Waiting(row) => return row.apply(fact),
            // That a fork exists is news, although its history came first.
            State::Ready(_, loaded)
                if loaded.has(fact) && !matches!(fact.body, FactBody::SessionCreated(_)) =>
            {
                return;
            }
            State::Ready(view, _) => view,
        };
        match &fact.body {
            FactBody::PermissionRequested(input) => {
                self.hubs.approvals().open(Open::new(fact.session, (**input).clone()));
            }
            FactBody::PermissionResolved(resolved) => {
                self.hubs.approvals().resolve(fact.session, resolved, fact.at_ms);
            }
            _ => {}
        }
        let effects = view.apply(fact);
        self.hub.seq.fetch_max(fact.through_seq, Ordering::Relaxed);
        for effect in effects {
            self.emit(effect);
        }
    }

    fn signal(&mut self, signal: &Signal) {
        let State::Ready(view, _) = &mut self.state else { return };
        if let SignalBody::Models { available, current } = &signal.body {
            learn_models(&self.hubs, view.session(), available, current);
        }
        for effect in view.apply_signal(signal) {
            self.emit(effect);
        }
    }

    /// The same as a raw core event, for the connections that want those.
    fn event(&self, committed: &Committed) {
        self.hubs.deliver_event(&self.hub, || {
            let event = project::event(committed)?;
            let (seq, at_ms) = match committed {
                Committed::Fact(fact) => (fact.through_seq, fact.at_ms),
                Committed::Signal(signal) => (signal.seq, signal.at_ms),
            };
            let params = CoreEventNotification { submission_id: None, seq, event };
            let at_ms = u64::try_from(at_ms).unwrap_or(0);
            written(Frame::notification_at(method::EVENT, at_ms, &params)).map(Delivery::Notify)
        });
    }

    // ---- deliveries ----

    fn emit(&self, effect: Outgoing<'_>) {
        let _order = self.hub.telling.lock();
        match effect {
            Outgoing::Notification(notification) => self.notify(&notification),
            Outgoing::Delta(delta) => {
                if self.has_subscribers()
                    && let Some(frame) = written(frames::delta(&self.hubs, &delta))
                {
                    self.count(&frame);
                    self.deliver(&Delivery::Notify(frame));
                }
            }
            Outgoing::ServerRequest(request) => self.ask(&request),
            Outgoing::Withdraw { approval } => self.withdraw(approval),
        }
    }

    fn notify(&self, notification: &Notification) {
        let Notification { scope, seq, at_ms, body } = notification;
        if let ServerNotification::ApprovalRequested(requested) = &**body
            && let Some(open) = self.open(&requested.approval.approval_id)
        {
            open.record(requested.approval.clone());
        }
        let somebody = match scope {
            Scope::All => self.hubs.connections() > 0,
            Scope::Subscribers => self.has_subscribers(),
        };
        if !somebody {
            return;
        }
        let Some(frame) = written(frames::notification(&self.hubs, body, *seq, *at_ms)) else { return };
        self.count(&frame);
        match scope {
            Scope::All => self.hubs.deliver_to_all(self.hub.session, &Delivery::Notify(frame)),
            Scope::Subscribers => self.deliver(&Delivery::Notify(frame)),
        }
    }

    fn ask(&self, request: &ServerRequest) {
        let Some(open) = self.open(request.approval_id()) else { return };
        let Some(ask) = written(open.asked(request)) else { return };
        for subscriber in self.hub.subscribers.lock().iter().filter(|subscriber| subscriber.can_answer()) {
            self.deliver_to(subscriber, Delivery::Ask(ask.clone()));
        }
    }

    fn withdraw(&self, approval: InputId) {
        self.hubs.approvals().close(approval);
        let id = approval.to_string();
        for subscriber in self.hub.subscribers.lock().iter() {
            // A request that still waits behind a hold is never sent.
            if !subscriber.connection.forget_held(self.hub.session, &id) {
                subscriber.peer.withdraw(&id);
            }
        }
    }

    fn open(&self, approval: &str) -> Option<Arc<Open>> {
        let open = approval.parse().ok().and_then(|input| self.hubs.approvals().get(input));
        if open.is_none() {
            tracing::error!(session = %self.hub.session, approval, "an approval that is not open");
        }
        open
    }

    fn count(&self, frame: &Frame) {
        self.written.set(self.written.get() + frame.bytes().len());
    }

    fn has_subscribers(&self) -> bool {
        !self.hub.subscribers.lock().is_empty()
    }

    fn deliver(&self, delivery: &Delivery) {
        for subscriber in self.hub.subscribers.lock().iter() {
            self.deliver_to(subscriber, delivery.clone());
        }
    }

    fn deliver_to(&self, subscriber: &Subscriber, delivery: Delivery) {
        // A connection that has ended is taken out by its hook; one that has met its bound, by its overflow policy.
        let _ = subscriber.deliver(&self.hubs, self.hub.session, delivery);
    }

    // ---- commands ----

    async fn command(&mut self, command: Command) {
        self.take_in_what_waits();
        if let State::Waiting(_) = &self.state
            && let Err(error) = self.load().await
        {
            match command {
                Command::Join { reply, .. } => drop(reply.send(Err(error))),
                Command::Read { reply, .. } => drop(reply.send(Err(error))),
            }
            return;
        }
        if let Command::Join { wants: Wants::Made, .. } = &command {
            self.catch_up().await;
        }
        let State::Ready(view, _) = &self.state else { return };
        match command {
            Command::Read { turn, reply } => {
                // Whoever asked may have gone meanwhile.
                drop(reply.send(Ok(self.snapshot(view, turn))));
            }
            Command::Join { subscriber, watching, wants, reply } => {
                let joined = self.join(view, &subscriber, watching, wants);
                if reply.send(Ok(joined)).is_err() {
                    self.hub.leave(&subscriber.peer);
                    subscriber.connection.unfollow(self.hub.session);
                }
            }
        }
    }

    /// Whoever asks behind an Op that was accepted finds what it did.
    fn take_in_what_waits(&mut self) {
        for _ in 0..self.commits.len() {
            match self.commits.try_recv() {
                Ok(commit) => self.commit(&commit),
                Err(_) => return,
            }
        }
    }

    /// Takes in the session's first commit, which its maker must find in the snapshot.
    async fn catch_up(&mut self) {
        while let State::Ready(view, _) = &self.state
            && view.seq() == 0
        {
            match self.commits.recv().await {
                Some(commit) => self.commit(&commit),
                None => return,
            }
        }
    }

    fn join(&self, view: &ThreadView, subscriber: &Subscriber, watching: Watching, wants: Wants) -> Joined {
        let hold = subscriber.hold(&self.hubs, self.hub.session);
        if !wants.is_new() {
            subscriber.connection.superseded(&self.hubs, &subscriber.peer, self.hub.session);
        }
        let mut snapshot = self.snapshot(view, wants.with_turn().then_some(TurnBounds::PAGE));
        if wants.is_new() {
            // Behind the answer comes all that was ever told of the thread, its `thread/started` first.
            snapshot.cursor = Cursor::at(&self.hubs, self.hub.born).to_string();
        }
        {
            let mut subscribers = self.hub.subscribers.lock();
            subscribers.retain(|known| known.peer.id() != subscriber.peer.id());
            subscribers.push(subscriber.clone());
        }
        let engine = self.hubs.engine().filter(|_| subscriber.can_answer());
        let attending = engine.map(|engine| engine.attend(Some(self.hub.session)));
        self.hub.comes(subscriber.peer.id(), watching, attending);
        subscriber.connection.follow(self.hub.session);
        if subscriber.peer.is_closed() {
            // Its hook may have run before it was in the list.
            self.hub.leave(&subscriber.peer);
        }
        let told = if wants.is_new() { Vec::new() } else { view.joining() };
        let _order = self.hub.telling.lock();
        for effect in told {
            let delivery = match &effect {
                Outgoing::ServerRequest(request) if subscriber.can_answer() => {
                    self.open(request.approval_id()).and_then(|open| open.ask()).map(Delivery::Ask)
                }
                Outgoing::Notification(notification) => {
                    let Notification { seq, at_ms, body, .. } = notification;
                    let frame = frames::notification(&self.hubs, body, *seq, *at_ms);
                    written(frame).map(Delivery::Notify)
                }
                _ => None,
            };
            if let Some(delivery) = delivery {
                self.deliver_to(subscriber, delivery);
            }
        }
        Joined { snapshot, hold }
    }

    fn snapshot(&self, view: &ThreadView, turn: Option<TurnBounds>) -> Snapshot {
        Snapshot {
            row: view.session().clone(),
            thread: view.thread(),
            settings: view.settings(),
            turn: turn.and_then(|bounds| view.turn_part(bounds.bytes, bounds.of_item)),
            usage: view.turn_usage(),
            turn_first_seq: view.turn_first_seq(),
            seq: view.seq(),
            cursor: Cursor::next(&self.hubs).to_string(),
            options: view.config_options().unwrap_or_default().to_vec(),
        }
    }
}

fn learn_models(hubs: &Hubs, row: &SessionRow, models: &[signalbox_facts::Model], current: &str) {
    let models = models.iter().map(|model| convert::model_out(model, current, &row.provider));
    hubs.learn_models(&row.provider, models.collect());
}

/// What was serialized. That it cannot be is ruled out by its types; if it happens all the same it is our fault, and
/// costs this one message.
fn written<T>(frame: Result<T, serde_json::Error>) -> Option<T> {
    frame.inspect_err(|error| tracing::error!(%error, "a message could not be written")).ok()
}
