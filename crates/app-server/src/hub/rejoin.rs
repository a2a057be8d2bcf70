//! Subscribers that are too slow: what is left out for them, and how they are made whole again.

use std::sync::Arc;

use signalbox_facts::{Seq, SessionRow};
use signalbox_protocol::app::{ServerNotification, ThreadResyncRequiredNotification};

use super::Subscription;
use super::frames;
use super::ring::{Cut, Ring};
use super::task::{Task, written};
use crate::connection::Subscriber;
use crate::connection::flow::{Delivery, Flow, Full, Gap, Known};
use crate::hubs::Hubs;
use crate::view::{Outgoing, ThreadView, state_told};

/// Why a client must resume a thread.
const SLOW: &str = "slow";

impl Task {
    /// Who has met its bound during this commit is told nothing of what follows, until it is made whole again.
    pub(super) fn leave_out_full(&self) {
        let full = self.take_full();
        if full.is_empty() {
            return;
        }
        let Some(view) = self.view() else { return };
        let known = Arc::new(Known {
            row: view.session().clone(),
            turn_first: view.turn_first_seq(),
            said: view.seq(),
        });
        for (subscription, why) in full {
            let Subscription { subscriber, flow } = &subscription;
            if subscriber.peer.is_closed() {
                continue;
            }
            if why == Full::Outbox && subscriber.connection.can_resync() {
                if flow.open_gap(Gap::Lost) {
                    self.require_resync(subscriber, flow, view);
                }
            } else if flow.open_gap(Gap::Behind(known.clone())) {
                tracing::debug!(
                    connection = %subscriber.peer.id(), session = %self.hub.session(),
                    "a client falls behind"
                );
                subscriber.catch_up(&self.hubs);
            }
        }
    }

    fn require_resync(&self, subscriber: &Subscriber, flow: &Arc<Flow>, view: &ThreadView) {
        let required = ThreadResyncRequiredNotification {
            thread_id: self.hub.session().to_string(),
            reason: SLOW.to_owned(),
        };
        let at = (view.seq(), (self.hubs.info().now_ms)());
        tell_own(&self.hubs, subscriber, flow, required.into(), at, &mut self.hub.telling.lock());
    }

    /// Tells what this client missed, and from then on everything. False if the turn in view is another than it thinks.
    pub(super) fn rejoin(&self, view: &ThreadView, subscription: &Subscription, known: &Arc<Known>) -> bool {
        let Subscription { subscriber, flow } = subscription;
        let is_another = view.turn_first_seq().is_some() && view.turn_first_seq() != known.turn_first;
        if is_another || self.said > known.said {
            return false;
        }
        let mut ring = self.hub.telling.lock();
        if !flow.is_behind(known) {
            // It has resumed the thread meanwhile, or left it.
            return true;
        }
        for body in resolved_since(&self.hubs, &known.row, view.session()) {
            let at = (view.seq(), view.session().updated_at_ms);
            tell_own(&self.hubs, subscriber, flow, body, at, &mut ring);
        }
        let gap = view.gap(&known.row);
        for effect in gap.told {
            if let Outgoing::Notification(told) = effect {
                tell_own(&self.hubs, subscriber, flow, *told.body, (told.seq, told.at_ms), &mut ring);
            }
        }
        let from = self.hubs.next_place();
        for (item, kind) in gap.cut {
            let text = frames::key(self.hub.session(), item, kind);
            subscriber.peer.cut(text);
            ring.cut(Cut::open(text, from));
        }
        flow.close_gap();
        self.ask_again(view, subscription, &mut ring);
        true
    }

    /// Sends the requests that are still open and that this client is not asked already.
    pub(super) fn ask_again(&self, view: &ThreadView, subscription: &Subscription, ring: &mut Ring) {
        let subscriber = &subscription.subscriber;
        if !subscriber.can_answer() {
            return;
        }
        for request in view.server_requests() {
            let open = self.open(request.approval_id()).filter(|open| !subscriber.peer.waits_for(&open.id));
            if let Some(ask) = open.and_then(|open| open.ask()) {
                self.deliver(subscription, Delivery::Ask(ask), ring);
            }
        }
    }

    /// Tells a client that does not follow the thread how it stands.
    pub(super) fn tell_state(&self, view: &ThreadView, subscription: &Subscription) {
        let mut ring = self.hub.telling.lock();
        let missed = subscription.flow.take_missed();
        let row = view.session();
        for body in state_told(row, view.status(), &missed) {
            let at = (row.last_seq, row.updated_at_ms);
            tell_own(&self.hubs, &subscription.subscriber, &subscription.flow, body, at, &mut ring);
        }
    }
}

/// Tells one client something about a thread, in the thread's order.
pub(crate) fn tell_own(
    hubs: &Hubs,
    subscriber: &Subscriber,
    flow: &Arc<Flow>,
    body: ServerNotification,
    (seq, at_ms): (Seq, i64),
    ring: &mut Ring,
) {
    if let Some(told) = written(frames::notification(hubs, &body, seq, at_ms)) {
        let cuts = subscriber.deliver_own(hubs, flow, told);
        cuts.into_iter().for_each(|cut| ring.cut(cut));
    }
}

/// What became of the approvals that waited then and do not any more.
pub(crate) fn resolved_since(hubs: &Hubs, then: &SessionRow, now: &SessionRow) -> Vec<ServerNotification> {
    let waits = |id| now.activity.pending().iter().any(|input| input.id == id);
    let gone = then.activity.pending().iter().filter(|input| !waits(input.id));
    gone.map(|input| hubs.approvals().told(then.id, input).into()).collect()
}
