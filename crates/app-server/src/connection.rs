//! What is kept of one connection: who the client is, what it follows, and deliveries that are held for a while.
//!
//! Deliveries of a thread are held while a request of this connection about that thread is being answered, so that the
//! answer precedes what it caused. Holds are counted; when the last one of a thread is released, what waited goes out in
//! order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use signalbox_facts::SessionId;
use signalbox_protocol::app::{ClientCapabilities, OpEvents, method};
use signalbox_rpc::{Frame, Peer, Pushed, Role};
use tokio_util::sync::CancellationToken;

use crate::approvals::Ask;
use crate::hubs::Hubs;

/// Most bytes that are held for one thread. If an answer takes so long that more comes, the rest flows before it: an
/// early notification is better than a lost one.
const HELD_BYTES: usize = 4 * 1024 * 1024;

/// What a connection is told of a thread that it does not follow: what everybody is told, and warnings about its own calls.
const TOLD_TO_ALL: [&str; 12] = [
    method::THREAD_STARTED,
    method::THREAD_STATUS_CHANGED,
    method::THREAD_ACTIVITY_CHANGED,
    method::THREAD_NAME_UPDATED,
    method::THREAD_ARCHIVED,
    method::THREAD_UNARCHIVED,
    method::THREAD_DELETED,
    method::THREAD_CLOSED,
    method::THREAD_WORKTREE_DISCARDED,
    method::THREAD_RESYNC_REQUIRED,
    method::WARNING,
    method::EVENT,
];

/// Who the client says it is, and what it wants.
#[derive(Debug)]
pub(crate) struct Client {
    /// For people: who answered an approval.
    pub(crate) name: String,
    pub(crate) capabilities: ClientCapabilities,
}

/// The state of one connection; kept in its [`Peer`], so it must not hold one.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    client: OnceLock<Client>,
    held: Mutex<HashMap<SessionId, Held>>,
    following: Mutex<HashSet<SessionId>>,
    /// Searches for files that run, by the client's own tokens.
    searches: Mutex<HashMap<String, CancellationToken>>,
}

/// What waits for the release of a thread.
#[derive(Debug, Default)]
struct Held {
    holds: usize,
    waiting: VecDeque<Delivery>,
    bytes: usize,
}

/// Something for one connection.
#[derive(Debug, Clone)]
pub(crate) enum Delivery {
    /// A notification.
    Notify(Frame),
    /// A request about an approval.
    Ask(Ask),
}

impl Delivery {
    fn bytes(&self) -> usize {
        match self {
            Self::Notify(frame) => frame.bytes().len(),
            Self::Ask(ask) => ask.frame.bytes().len(),
        }
    }
}

impl Connection {
    /// The state of this peer's connection, made when first asked for.
    pub(crate) fn of(peer: &Peer) -> Arc<Self> {
        loop {
            if let Some(state) = peer.state::<Self>() {
                return state;
            }
            // Of two that race here one wins, and both find it.
            peer.set_state(Arc::new(Self::default()));
        }
    }

    /// Notes who the client is; counts once.
    pub(crate) fn introduce(&self, client: Client) -> bool {
        self.client.set(client).is_ok()
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.get()
    }

    /// Whether it wants raw core events of all threads, or of those that it follows.
    pub(crate) fn op_events(&self) -> OpEvents {
        self.client.get().map(|client| client.capabilities.op_events).unwrap_or_default()
    }

    pub(crate) fn follow(&self, session: SessionId) {
        self.following.lock().insert(session);
    }

    pub(crate) fn unfollow(&self, session: SessionId) {
        self.following.lock().remove(&session);
    }

    /// How many threads it follows.
    pub(crate) fn following(&self) -> usize {
        self.following.lock().len()
    }

    /// A search for files begins; an earlier one with the same token ends. Those that have ended are forgotten.
    pub(crate) fn begin_search(&self, token: String, cancel: CancellationToken) {
        let mut searches = self.searches.lock();
        searches.retain(|_, search| !search.is_cancelled());
        if let Some(former) = searches.insert(token, cancel) {
            former.cancel();
        }
    }

    /// Everything it follows, and from now on nothing.
    pub(crate) fn take_following(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *self.following.lock())
    }

    /// Delivers, or lets it wait if the thread is held.
    fn deliver(&self, hubs: &Hubs, peer: &Peer, session: SessionId, delivery: Delivery) -> Pushed {
        // The lock is kept while pushing, so that nothing overtakes what is being released.
        let mut held = self.held.lock();
        if let Some(thread) = held.get_mut(&session) {
            let bytes = delivery.bytes();
            if thread.bytes + bytes <= HELD_BYTES {
                thread.bytes += bytes;
                thread.waiting.push_back(delivery);
                return Pushed::Queued;
            }
            thread.bytes = 0;
            for waiting in std::mem::take(&mut thread.waiting) {
                // What becomes of each is what becomes of the last: they go into the same outbox.
                let _ = send(hubs, peer, waiting);
            }
        }
        send(hubs, peer, delivery)
    }

    /// What waits for a thread's release is in the snapshot that is about to be made, so it is not told again. Warnings are in
    /// no snapshot; they go out now, because their place is before it.
    pub(crate) fn superseded(&self, hubs: &Hubs, peer: &Peer, session: SessionId) {
        let mut held = self.held.lock();
        let Some(thread) = held.get_mut(&session) else { return };
        thread.bytes = 0;
        for delivery in std::mem::take(&mut thread.waiting) {
            if matches!(&delivery, Delivery::Notify(frame) if frame.method() == method::WARNING) {
                // A connection that has ended takes nothing; its end is noticed elsewhere.
                let _ = send(hubs, peer, delivery);
            }
        }
    }

    /// The subscription has ended: of what waits for the thread's release only what everybody is told is still told.
    pub(crate) fn unsubscribed(&self, session: SessionId) {
        self.unfollow(session);
        let mut held = self.held.lock();
        let Some(thread) = held.get_mut(&session) else { return };
        thread.waiting.retain(
            |delivery| matches!(delivery, Delivery::Notify(frame) if TOLD_TO_ALL.contains(&frame.method())),
        );
        thread.bytes = thread.waiting.iter().map(Delivery::bytes).sum();
    }

    /// A request about this approval that still waits here is forgotten; false if there was none.
    pub(crate) fn forget_held(&self, session: SessionId, approval: &str) -> bool {
        let mut held = self.held.lock();
        let Some(thread) = held.get_mut(&session) else { return false };
        let before = thread.waiting.len();
        thread.waiting.retain(|delivery| !matches!(delivery, Delivery::Ask(ask) if ask.id() == approval));
        before != thread.waiting.len()
    }
}

fn send(hubs: &Hubs, peer: &Peer, delivery: Delivery) -> Pushed {
    match delivery {
        Delivery::Notify(frame) => peer.notify(frame),
        Delivery::Ask(ask) => {
            ask.send(hubs, peer);
            if peer.is_closed() { Pushed::Closed } else { Pushed::Queued }
        }
    }
}

/// A connection with its state: what threads deliver to.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    pub(crate) peer: Peer,
    pub(crate) connection: Arc<Connection>,
}

impl Subscriber {
    pub(crate) fn new(peer: &Peer) -> Self {
        Self { peer: peer.clone(), connection: Connection::of(peer) }
    }

    /// Whether it may answer approvals.
    pub(crate) fn can_answer(&self) -> bool {
        self.peer.role() >= Role::Operator
    }

    /// The name under which its answers are shown.
    pub(crate) fn name(&self) -> String {
        let client = self.connection.client().map(|client| client.name.clone());
        client.unwrap_or_else(|| self.peer.label().to_string())
    }

    pub(crate) fn deliver(&self, hubs: &Hubs, session: SessionId, delivery: Delivery) -> Pushed {
        self.connection.deliver(hubs, &self.peer, session, delivery)
    }

    /// Holds the deliveries of a thread until the guard is dropped.
    pub(crate) fn hold(&self, hubs: &Hubs, session: SessionId) -> Hold {
        self.connection.held.lock().entry(session).or_default().holds += 1;
        Hold { subscriber: self.clone(), hubs: hubs.clone(), session }
    }
}

/// Keeps a connection's deliveries of one thread waiting while it lives.
#[derive(Debug)]
pub(crate) struct Hold {
    subscriber: Subscriber,
    hubs: Hubs,
    session: SessionId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.subscriber.connection.held.lock();
        let Some(thread) = held.get_mut(&self.session) else { return };
        thread.holds -= 1;
        if thread.holds > 0 {
            return;
        }
        let Some(thread) = held.remove(&self.session) else { return };
        for delivery in thread.waiting {
            // A connection that has ended meanwhile takes nothing; its end is noticed elsewhere.
            let _ = send(&self.hubs, &self.subscriber.peer, delivery);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use signalbox_rpc::{ConnOptions, Connection as Served, MemoryClient, Registry, memory};
    use signalbox_store::Store;

    use super::*;
    use crate::AppInfo;

    async fn stage() -> (Hubs, Subscriber, MemoryClient) {
        let store = Store::in_memory().await.unwrap();
        let hubs = Hubs::new(store.reader, AppInfo::new("/home".into(), "/".into()));
        let (server, client) = memory();
        let service = Registry::<()>::new().build(()).unwrap();
        let served = Served::new(service, ConnOptions::default());
        let subscriber = Subscriber::new(served.peer());
        hubs.spawn(async move { drop(served.serve(server).await) });
        (hubs, subscriber, client)
    }

    fn note(number: u64, text: &str) -> Delivery {
        Delivery::Notify(Frame::notification("note", &json!({"n": number, "text": text})).unwrap())
    }

    async fn number(client: &mut MemoryClient) -> u64 {
        let frame: Value = serde_json::from_slice(&client.recv().await.unwrap()).unwrap();
        frame["params"]["n"].as_u64().unwrap()
    }

    #[tokio::test]
    async fn what_is_held_goes_out_in_order_when_the_last_hold_ends() {
        let (hubs, subscriber, mut client) = stage().await;
        let (held, other) = (SessionId::generate(), SessionId::generate());
        let (first, second) = (subscriber.hold(&hubs, held), subscriber.hold(&hubs, held));
        for number in 1..=3 {
            assert_eq!(subscriber.deliver(&hubs, held, note(number, "")), Pushed::Queued);
        }
        drop(first);
        // Another thread is not held, so its delivery comes first.
        assert_eq!(subscriber.deliver(&hubs, other, note(0, "")), Pushed::Queued);
        assert_eq!(number(&mut client).await, 0);
        drop(second);
        assert_eq!(subscriber.deliver(&hubs, held, note(4, "")), Pushed::Queued);
        for expected in 1..=4 {
            assert_eq!(number(&mut client).await, expected);
        }
        assert!(subscriber.connection.held.lock().is_empty());
    }

    #[tokio::test]
    async fn what_cannot_be_held_flows_in_order_instead_of_being_lost() {
        let (hubs, subscriber, mut client) = stage().await;
        let held = SessionId::generate();
        let hold = subscriber.hold(&hubs, held);
        let megabyte = "x".repeat(1024 * 1024);
        for number in 1..=6 {
            assert_eq!(subscriber.deliver(&hubs, held, note(number, &megabyte)), Pushed::Queued);
        }
        for expected in 1..=4 {
            assert_eq!(number(&mut client).await, expected, "the first that did not fit sent all before it");
        }
        drop(hold);
        for expected in 5..=6 {
            assert_eq!(number(&mut client).await, expected);
        }
    }

    #[tokio::test]
    async fn of_a_thread_that_was_left_only_what_all_are_told_comes_behind_the_hold() {
        let (hubs, subscriber, mut client) = stage().await;
        let left = SessionId::generate();
        let hold = subscriber.hold(&hubs, left);
        let told_to_all = Frame::notification(method::THREAD_ARCHIVED, &json!({"n": 2})).unwrap();
        for delivery in [note(1, ""), Delivery::Notify(told_to_all), note(3, "")] {
            assert_eq!(subscriber.deliver(&hubs, left, delivery), Pushed::Queued);
        }
        subscriber.connection.unsubscribed(left);
        drop(hold);
        assert_eq!(subscriber.deliver(&hubs, left, note(4, "")), Pushed::Queued);
        for expected in [2, 4] {
            assert_eq!(number(&mut client).await, expected);
        }
    }

    #[tokio::test]
    async fn a_warning_from_before_a_snapshot_goes_out_before_it() {
        let (hubs, subscriber, mut client) = stage().await;
        let joined = SessionId::generate();
        let _hold = subscriber.hold(&hubs, joined);
        let warning = Frame::notification(method::WARNING, &json!({"n": 2})).unwrap();
        for delivery in [note(1, ""), Delivery::Notify(warning)] {
            assert_eq!(subscriber.deliver(&hubs, joined, delivery), Pushed::Queued);
        }
        subscriber.connection.superseded(&hubs, &subscriber.peer, joined);
        assert_eq!(number(&mut client).await, 2, "although the thread is still held");
    }
}
