//! Clients that did not read for a while and do so again: they are told what they have missed, from the store and from
//! what the threads have in view, without deltas.

use std::sync::Arc;

use signalbox_facts::{Activity, ActivityState, Seq, SessionId, SessionRow};
use signalbox_protocol::app::{
    ServerNotification, ThreadClosedNotification, ThreadDeletedNotification, ThreadStatus,
    ThreadStatusChangedNotification, method,
};
use signalbox_store::{Reader, TurnQuery};

use crate::connection::flow::{Flow, Known};
use crate::connection::{Missed, Subscriber};
use crate::errors::Error;
use crate::hub::{Subscription, resolved_since, tell_own};
use crate::hubs::Hubs;
use crate::view::{Effects, Outgoing, ThreadView, said, state_told};

/// Turns that are looked up at once.
const BATCH: u32 = 16;

/// Waits until the client reads again and tells it everything that it has missed.
pub(crate) async fn catch_up(hubs: Hubs, subscriber: Subscriber) {
    loop {
        if !reads_again(&hubs, &subscriber).await {
            return;
        }
        let Some(missed) = subscriber.connection.missed() else {
            subscriber.connection.caught_up();
            // What was missed before that line was seen by nobody.
            if subscriber.connection.missed().is_none() || !subscriber.connection.must_catch_up() {
                return;
            }
            continue;
        };
        let lag = Lag { hubs: &hubs, subscriber: &subscriber };
        let (session, told) = match missed {
            Missed::Thread(flow, known) => (flow.session, lag.thread(&flow, known).await),
            Missed::State(flow) => (flow.session, lag.state(&flow).await),
        };
        if let Err(error) = told {
            tracing::error!(%session, %error, "what a client has missed could not be told");
            subscriber.peer.close("what this client has missed could not be read");
            return;
        }
        subscriber.connection.tidy(session);
    }
}

/// Waits until the client has read what was queued. False if it will not: it has gone, or the server leaves before.
async fn reads_again(hubs: &Hubs, subscriber: &Subscriber) -> bool {
    tokio::select! {
        biased;
        () = subscriber.peer.drained() => !subscriber.peer.is_closed(),
        () = hubs.leaving() => false,
    }
}

struct Lag<'a> {
    hubs: &'a Hubs,
    subscriber: &'a Subscriber,
}

impl Lag<'_> {
    /// A thread that the client follows: whole turns from the store, then the newest one from where it is in view, at one
    /// point of the stream.
    async fn thread(&self, flow: &Arc<Flow>, mut known: Arc<Known>) -> Result<(), Error> {
        let session = flow.session;
        loop {
            let reader = self.hubs.reader_of(session);
            let hub = self.hubs.get(session);
            let now = match &hub {
                Some(hub) => hub.read_if_there(false).await?,
                None => None,
            };
            let hub = hub.filter(|_| now.is_some());
            let (row, newest) = match now {
                Some(now) => (Some(now.row), now.turn_first_seq),
                None => (
                    reader.session(session).await?,
                    reader.newest_turn(session).await?.map(|turn| turn.first_seq),
                ),
            };
            let Some(row) = row else {
                self.tell(
                    flow,
                    &known,
                    vec![ThreadDeletedNotification { thread_id: session.to_string() }.into()],
                    (known.row.last_seq, known.row.updated_at_ms),
                );
                flow.close_gap();
                return Ok(());
            };
            if row.last_seq > known.said {
                let facts = reader.facts_between_turns(session, known.said + 1, row.last_seq).await?;
                if !self.tell_effects(flow, &known, said(&row, &facts)) {
                    return Ok(());
                }
                let now = Known { row: known.row.clone(), turn_first: known.turn_first, said: row.last_seq };
                let now = Arc::new(now);
                if !flow.narrow_gap(&known, now.clone()) {
                    return Ok(());
                }
                known = now;
            }
            if newest != known.turn_first {
                let before = newest.unwrap_or(row.last_seq + 1);
                let Some(now) = self.older(&reader, flow, &known, &row, before).await? else { return Ok(()) };
                known = now;
            }
            let Some(hub) = hub else { return self.unloaded(&reader, flow, &known).await };
            let subscription = Subscription { subscriber: self.subscriber.clone(), flow: flow.clone() };
            if hub.rejoin(subscription, known.clone()).await? {
                return Ok(());
            }
        }
    }

    /// The turns that began before this seq and that the client has not seen the end of. Gives what it knows then; `None`
    /// if it does not want to be told any more.
    async fn older(
        &self,
        reader: &Reader,
        flow: &Arc<Flow>,
        known: &Arc<Known>,
        row: &SessionRow,
        before: Seq,
    ) -> Result<Option<Arc<Known>>, Error> {
        let resolved = resolved_since(self.hubs, &known.row, row);
        if !self.tell(flow, known, resolved, (known.row.last_seq, row.updated_at_ms)) {
            return Ok(None);
        }
        let mut after = known.turn_first.map_or(known.row.last_seq, |first| first - 1);
        loop {
            let query = TurnQuery { after: Some(after), before: Some(before), limit: BATCH, ascending: true };
            let turns = reader.turns(flow.session, query).await?;
            for turn in &turns {
                after = turn.first_seq;
                let facts = reader.facts_of_turn(flow.session, turn.id).await?;
                let view = ThreadView::load(row.clone(), &facts);
                if !self.tell_effects(flow, known, view.turn_gap(known.row.last_seq)) {
                    return Ok(None);
                }
                if !reads_again(self.hubs, self.subscriber).await {
                    return Ok(None);
                }
            }
            if turns.len() < BATCH as usize {
                break;
            }
        }
        // What waited then has been told of, and belongs to no turn that is still to come.
        let activity = Activity { revision: known.row.activity.revision, state: ActivityState::Idle };
        let through = known.row.last_seq.max(before.saturating_sub(1).min(row.last_seq));
        let told = SessionRow { activity, last_seq: through, ..known.row.clone() };
        let turn_first = (before <= row.last_seq).then_some(before);
        let now = Arc::new(Known { row: told, turn_first, said: known.said });
        Ok(flow.narrow_gap(known, now.clone()).then_some(now))
    }

    /// The thread has left memory meanwhile.
    async fn unloaded(&self, reader: &Reader, flow: &Arc<Flow>, known: &Arc<Known>) -> Result<(), Error> {
        let thread_id = flow.session.to_string();
        if let Some(stored) = reader.session_at(flow.session).await? {
            let view = ThreadView::load(stored.row, &stored.facts);
            let resolved = resolved_since(self.hubs, &known.row, view.session());
            let at = (view.seq(), view.session().updated_at_ms);
            let closed = vec![
                ThreadStatusChangedNotification {
                    thread_id: thread_id.clone(),
                    status: ThreadStatus::NotLoaded,
                }
                .into(),
                ThreadClosedNotification { thread_id }.into(),
            ];
            let _told = self.tell(flow, known, resolved, at)
                && self.tell_effects(flow, known, view.gap(&known.row).told)
                && self.tell(flow, known, closed, at);
        }
        if flow.is_behind(known) {
            flow.close_gap();
        }
        Ok(())
    }

    /// How a thread stands that the client does not follow.
    async fn state(&self, flow: &Arc<Flow>) -> Result<(), Error> {
        let session = flow.session;
        if let Some(hub) = self.hubs.get(session) {
            let subscription = Subscription { subscriber: self.subscriber.clone(), flow: flow.clone() };
            return hub.tell(subscription).await;
        }
        let row = self.hubs.reader_of(session).session(session).await?;
        let missed = flow.take_missed();
        let told = match &row {
            None => vec![ThreadDeletedNotification { thread_id: session.to_string() }.into()],
            Some(row) => {
                let mut told = state_told(row, ThreadStatus::NotLoaded, &missed);
                if missed.contains(&method::THREAD_CLOSED) {
                    told.push(ThreadClosedNotification { thread_id: session.to_string() }.into());
                }
                told
            }
        };
        let at = row.map_or((0, 0), |row| (row.last_seq, row.updated_at_ms));
        self.in_order(session, |ring| {
            for body in told {
                tell_own(self.hubs, self.subscriber, flow, body, at, ring);
            }
        });
        Ok(())
    }

    fn tell_effects(&self, flow: &Arc<Flow>, known: &Arc<Known>, effects: Effects<'static>) -> bool {
        self.in_order(flow.session, |ring| {
            for effect in effects {
                if !flow.is_behind(known) {
                    return false;
                }
                if let Outgoing::Notification(told) = effect {
                    let at = (told.seq, told.at_ms);
                    tell_own(self.hubs, self.subscriber, flow, *told.body, at, ring);
                }
            }
            true
        })
    }

    /// False if the client does not want to be told any more.
    fn tell(
        &self,
        flow: &Arc<Flow>,
        known: &Arc<Known>,
        told: Vec<ServerNotification>,
        at: (Seq, i64),
    ) -> bool {
        self.in_order(flow.session, |ring| {
            let wanted = flow.is_behind(known);
            for body in told.into_iter().filter(|_| wanted) {
                tell_own(self.hubs, self.subscriber, flow, body, at, ring);
            }
            wanted
        })
    }

    fn in_order<T>(&self, session: SessionId, run: impl FnOnce(&mut crate::hub::ring::Ring) -> T) -> T {
        self.hubs.in_order(session, run)
    }
}
