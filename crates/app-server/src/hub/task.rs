//! The hub's task: reads what its session commits, keeps the view, delivers. It never waits for a client.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use signalbox_engine::{Delivery as Commit, SessionStream, Watching, project};
use signalbox_facts::{
    Committed, Fact, FactBody, InputId, ResolverKind, Seq, SessionRow, Signal, SignalBody,
};
use signalbox_protocol::app::{CoreEventNotification, ServerNotification, ServerRequest, method};
use signalbox_rpc::Frame;
use signalbox_store::{FactQuery, StoreError};
use tokio::sync::mpsc;

use super::frames::{self, Cursor, Placed};
use super::pace::Pace;
use super::ring::Ring;
use super::{Command, Hub, Joined, Snapshot, Subscription, TurnBounds, Wants};
use crate::approvals::Open;
use crate::connection::Subscriber;
use crate::connection::flow::{Delivery, Full, Holding, Taken};
use crate::errors::Error;
use crate::hubs::Hubs;
use crate::view::{Loading, Notification, Outgoing, Scope, ThreadView, convert, is_said};

/// After this many bytes of frames the task lets others run: the connections must write them, and hear from the kernel
/// that they can write more, before they count as slow.
const BREATH_BYTES: usize = 128 * 1024;
/// A thread that has told nothing for so long keeps little of what it has told.
const QUIET: Duration = Duration::from_secs(30);

/// Whether a commit tells of pieces of texts and nothing else.
fn is_growing_text(commit: &Commit) -> bool {
    commit.iter().all(|committed| matches!(committed, Committed::Fact(fact) if fact.body.is_chunk()))
}

/// One loaded thread.
#[derive(Debug)]
pub(crate) struct Task {
    pub(super) hubs: Hubs,
    pub(super) hub: Arc<Hub>,
    commands: mpsc::Receiver<Command>,
    commits: mpsc::Receiver<Commit>,
    state: State,
    /// Bytes of frames since others could run.
    written: Cell<usize>,
    /// Subscribers that must be told no more, from the end of this commit on.
    full: RefCell<Vec<(Subscription, Full)>>,
    /// The newest fact that tells what nothing else does.
    pub(super) said: Seq,
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
            full: RefCell::default(),
            said: 0,
        }
    }

    /// Runs until the session ends.
    pub(crate) async fn run(mut self) {
        match self.load().await {
            Ok(()) => {}
            // It was deleted while it was loaded: the session ends, and with it this.
            Err(error @ Error::Store(StoreError::UnknownSession { .. })) => {
                tracing::debug!(session = %self.hub.session, error = %error, "a thread is gone before it was loaded");
            }
            // Tried again when somebody asks; what is committed meanwhile is in the store.
            Err(error) => {
                tracing::error!(session = %self.hub.session, error = %error, "a thread's view could not be loaded");
            }
        }
        let mut quiet = std::pin::pin!(tokio::time::sleep(QUIET));
        let (mut is_large, mut told) = (false, false);
        let mut pace = Pace::default();
        loop {
            let commits = &mut self.commits;
            let next = async {
                pace.ready().await;
                commits.recv().await
            };
            tokio::select! {
                commit = next => match commit {
                    Some(commit) => {
                        self.commit(&commit);
                        if self.commits.is_empty() && is_growing_text(&commit) {
                            pace.told_chunks(self.hub.subscribers.lock().len());
                        }
                        told = true;
                        if !is_large && self.hub.telling.lock().is_large() {
                            is_large = true;
                            quiet.as_mut().reset(tokio::time::Instant::now() + QUIET);
                        }
                        self.breathe().await;
                    }
                    None => break,
                },
                Some(command) = self.commands.recv() => self.command(command).await,
                () = &mut quiet, if is_large => {
                    if std::mem::take(&mut told) {
                        quiet.as_mut().reset(tokio::time::Instant::now() + QUIET);
                    } else {
                        self.hub.telling.lock().shrink();
                        is_large = false;
                    }
                }
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
        self.leave_out_full();
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
        if is_said(&fact.body) && fact.turn.is_none() {
            self.said = fact.through_seq;
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
        let wanting = self.hubs.wanting_events(&self.hub);
        if wanting.is_empty() {
            return;
        }
        let Some(event) = project::event(committed) else { return };
        let (seq, at_ms) = match committed {
            Committed::Fact(fact) => (fact.through_seq, fact.at_ms),
            Committed::Signal(signal) => (signal.seq, signal.at_ms),
        };
        let params = CoreEventNotification { submission_id: None, seq, event };
        let at_ms = u64::try_from(at_ms).unwrap_or(0);
        let Some(frame) = written(Frame::notification_at(method::EVENT, at_ms, &params)) else { return };
        for subscriber in wanting {
            let taken = subscriber.deliver_event(&self.hubs, self.hub.session, frame.clone());
            if taken.full.is_some() || !taken.cuts.is_empty() {
                let known = self.hub.subscribers.lock().iter().find(|known| known.is(&subscriber)).cloned();
                if let Some(subscription) = known {
                    self.note(&subscription, taken, &mut self.hub.telling.lock());
                }
            }
        }
    }

    // ---- deliveries ----

    fn emit(&self, effect: Outgoing<'_>) {
        let mut ring = self.hub.telling.lock();
        match effect {
            Outgoing::Notification(notification) => self.notify(&notification, &mut ring),
            Outgoing::Delta(delta) => {
                if (ring.is_keeping() || self.has_subscribers())
                    && let Some(told) = written(frames::delta(&self.hubs, &delta))
                {
                    self.tell(&told, &mut ring);
                }
            }
            Outgoing::ServerRequest(request) => self.ask(&request, &mut ring),
            Outgoing::Withdraw { approval } => self.withdraw(approval),
        }
    }

    fn notify(&self, notification: &Notification, ring: &mut Ring) {
        let Notification { scope, seq, at_ms, body } = notification;
        if let ServerNotification::ApprovalRequested(requested) = &**body
            && let Some(open) = self.open(&requested.approval.approval_id)
        {
            open.record(requested.approval.clone());
        }
        let somebody = ring.is_keeping()
            || match scope {
                Scope::All => self.hubs.connections() > 0,
                Scope::Subscribers => self.has_subscribers(),
            };
        if !somebody {
            return;
        }
        let Some(told) = written(frames::notification(&self.hubs, body, *seq, *at_ms)) else { return };
        self.tell(&told, ring);
        if *scope == Scope::All {
            self.hubs.deliver_unfollowed(self.hub.session, &told);
        }
    }

    /// Keeps it for those who come back, and delivers it to all who follow.
    fn tell(&self, told: &Placed, ring: &mut Ring) {
        self.written.set(self.written.get() + told.frame.bytes().len());
        ring.keep(told);
        for subscription in self.hub.subscribers.lock().iter() {
            self.deliver(subscription, Delivery::Notify(told.clone()), ring);
        }
    }

    pub(super) fn take_full(&self) -> Vec<(Subscription, Full)> {
        std::mem::take(&mut *self.full.borrow_mut())
    }

    pub(super) fn view(&self) -> Option<&ThreadView> {
        match &self.state {
            State::Ready(view, _) => Some(view),
            State::Waiting(_) => None,
        }
    }

    pub(super) fn deliver(&self, subscription: &Subscription, delivery: Delivery, ring: &mut Ring) {
        let Subscription { subscriber, flow } = subscription;
        let taken = subscriber.deliver(&self.hubs, flow, delivery);
        if taken.full.is_some() || !taken.cuts.is_empty() {
            self.note(subscription, taken, ring);
        }
    }

    fn note(&self, subscription: &Subscription, taken: Taken, ring: &mut Ring) {
        taken.cuts.into_iter().for_each(|cut| ring.cut(cut));
        let Some(why) = taken.full else { return };
        let mut full = self.full.borrow_mut();
        if !full.iter().any(|(known, _)| known.is(&subscription.subscriber)) {
            full.push((subscription.clone(), why));
        }
    }

    fn ask(&self, request: &ServerRequest, ring: &mut Ring) {
        let Some(open) = self.open(request.approval_id()) else { return };
        let Some(ask) = written(open.asked(request)) else { return };
        for subscription in self.hub.subscribers.lock().iter().filter(|known| known.subscriber.can_answer()) {
            self.deliver(subscription, Delivery::Ask(ask.clone()), ring);
        }
    }

    fn withdraw(&self, approval: InputId) {
        self.hubs.approvals().close(approval);
        let id = approval.to_string();
        for Subscription { subscriber, flow } in self.hub.subscribers.lock().iter() {
            // A request that still waits behind a hold is never sent.
            if !flow.forget_held(&id) {
                subscriber.peer.withdraw(&id);
            }
        }
    }

    pub(super) fn open(&self, approval: &str) -> Option<Arc<Open>> {
        let open = approval.parse().ok().and_then(|input| self.hubs.approvals().get(input));
        if open.is_none() {
            tracing::error!(session = %self.hub.session, approval, "an approval that is not open");
        }
        open
    }

    fn has_subscribers(&self) -> bool {
        !self.hub.subscribers.lock().is_empty()
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
                // Whoever asked is told by the end of the channel.
                Command::Rejoin { .. } | Command::Tell { .. } => {}
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
                let place = {
                    let mut ring = self.hub.telling.lock();
                    let place = self.hubs.next_place();
                    if ring.is_keeping() {
                        ring.mark(place, view.seq());
                    }
                    place
                };
                drop(reply.send(Ok(self.snapshot(view, turn, (place, view.seq())))));
            }
            Command::Rejoin { subscription, known, reply } => {
                // Whoever asked may have gone meanwhile.
                let _ = reply.send(self.rejoin(view, &subscription, &known));
            }
            Command::Tell { subscription, reply } => {
                self.tell_state(view, &subscription);
                let _ = reply.send(());
            }
            Command::Join { subscriber, watching, wants, after, reply } => {
                let joined = self.join(view, &subscriber, watching, (wants, after));
                self.leave_out_full();
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

    fn join(
        &self,
        view: &ThreadView,
        subscriber: &Subscriber,
        watching: Watching,
        (wants, after): (Wants, Option<u64>),
    ) -> Joined {
        let hold = subscriber.hold(&self.hubs, self.hub.session, Holding::Snapshot);
        let flow = subscriber.connection.follow(self.hub.session);
        let subscription = Subscription { subscriber: subscriber.clone(), flow };
        // Who gets everything anyway would get twice what is still on its way.
        let after = after.filter(|_| !self.is_whole(&subscription));
        let joined = {
            let mut ring = self.hub.telling.lock();
            self.join_in_order(view, &subscription, (wants, after), &mut ring)
        };
        let engine = self.hubs.engine().filter(|_| subscriber.can_answer());
        let attending = engine.map(|engine| engine.attend(Some(self.hub.session)));
        self.hub.comes(subscriber.peer.id(), watching, attending);
        if subscriber.peer.is_closed() {
            // Its hook may have run before it was in the list.
            self.hub.leave(&subscriber.peer);
        }
        let (snapshot, continued) = joined;
        Joined { snapshot, hold, continued }
    }

    fn is_whole(&self, subscription: &Subscription) -> bool {
        let listed = self.hub.subscribers.lock().iter().any(|known| known.is(&subscription.subscriber));
        listed && subscription.flow.is_whole()
    }

    fn join_in_order(
        &self,
        view: &ThreadView,
        subscription: &Subscription,
        (wants, after): (Wants, Option<u64>),
        ring: &mut Ring,
    ) -> (Snapshot, bool) {
        let Subscription { subscriber, flow } = subscription;
        let missed = after.and_then(|place| {
            let (seq, told) = ring.after(place)?;
            Some((place, seq, told.cloned().collect::<Vec<_>>()))
        });
        // What waits is in the snapshot or among what was missed.
        if !wants.is_new() {
            subscriber.supersede(&self.hubs, flow).into_iter().for_each(|cut| ring.cut(cut));
        }
        subscriber.peer.mend(frames::scope(self.hub.session));
        let (place, seq) = match &missed {
            Some((place, seq, _)) => (*place, *seq),
            None if wants.is_new() => (self.hub.born, view.seq()),
            None => (self.hubs.next_place(), view.seq()),
        };
        if missed.is_none() && !wants.is_new() {
            ring.mark(place, seq);
        } else if !ring.is_keeping() {
            // A fork: its history came before anybody could listen.
            ring.mark(self.hubs.next_place(), seq);
        }
        ring.joined();
        {
            let mut subscribers = self.hub.subscribers.lock();
            subscribers.retain(|known| !known.is(subscriber));
            subscribers.push(subscription.clone());
        }
        let turn = (wants.with_turn() && missed.is_none()).then_some(TurnBounds::PAGE);
        let snapshot = self.snapshot(view, turn, (place, seq));
        let continued = missed.is_some();
        match missed {
            Some((_, _, missed)) => {
                for told in missed {
                    self.deliver(subscription, Delivery::Notify(told), ring);
                }
                self.ask_again(view, subscription, ring);
            }
            None if wants.is_new() => {}
            None => self.tell_joiner(view, subscription, ring),
        }
        (snapshot, continued)
    }

    /// The latest values that are in no snapshot.
    fn tell_joiner(&self, view: &ThreadView, subscription: &Subscription, ring: &mut Ring) {
        let asks = subscription.subscriber.can_answer();
        for effect in view.joining() {
            let delivery = match &effect {
                Outgoing::ServerRequest(request) if asks => {
                    self.open(request.approval_id()).and_then(|open| open.ask()).map(Delivery::Ask)
                }
                Outgoing::Notification(notification) => {
                    let Notification { seq, at_ms, body, .. } = notification;
                    let told = written(frames::notification(&self.hubs, body, *seq, *at_ms));
                    if let Some(told) = &told {
                        // All of this is in the snapshot too, so whoever leaves behind it has missed nothing.
                        ring.mark(told.place, told.seq);
                    }
                    told.map(Delivery::Notify)
                }
                _ => None,
            };
            if let Some(delivery) = delivery {
                self.deliver(subscription, delivery, ring);
            }
        }
    }

    /// The thread as it stands, as it is shown at this place.
    fn snapshot(&self, view: &ThreadView, turn: Option<TurnBounds>, (place, seq): (u64, Seq)) -> Snapshot {
        Snapshot {
            row: view.session().clone(),
            thread: view.thread(),
            settings: view.settings(),
            turn: turn.and_then(|bounds| view.turn_part(bounds.bytes, bounds.of_item)),
            usage: view.turn_usage(),
            turn_first_seq: view.turn_first_seq(),
            seq,
            cursor: Cursor::at(&self.hubs, place).to_string(),
            options: view.config_options().unwrap_or_default().to_vec(),
            commands: view.commands().unwrap_or_default().to_vec(),
        }
    }
}

impl Subscription {
    /// Whether it is this connection's.
    fn is(&self, subscriber: &Subscriber) -> bool {
        self.subscriber.peer.id() == subscriber.peer.id()
    }
}

fn learn_models(hubs: &Hubs, row: &SessionRow, models: &[signalbox_facts::Model], current: &str) {
    let models = models.iter().map(|model| convert::model_out(model, current, &row.provider));
    hubs.learn_models(&row.provider, models.collect());
}

/// What was serialized. That it cannot be is ruled out by its types; if it happens all the same it is our fault, and
/// costs this one message.
pub(super) fn written<T>(frame: Result<T, serde_json::Error>) -> Option<T> {
    frame.inspect_err(|error| tracing::error!(%error, "a message could not be written")).ok()
}
