//! What is kept of one connection: who the client is, and the flows of the threads that concern it.
//!
//! Deliveries of a thread are held while a request of this connection about that thread is being answered, so that the
//! answer precedes what it caused. Holds are counted; when the last one of a thread is released, what waited goes out in
//! order. An answer that takes longer than two seconds waits for an agent, which may itself wait for this client: then what
//! is held goes out before it.

pub(crate) mod flow;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_facts::SessionId;
use signalbox_protocol::app::{ClientCapabilities, OpEvents};
use signalbox_rpc::{Frame, Peer, Role};
use tokio_util::sync::CancellationToken;

use crate::hub::frames::Placed;
use crate::hub::ring::Cut;
use crate::hubs::Hubs;
use crate::lag;

use self::flow::{Delivery, Flow, Holding, Known, Taken, To};

/// How long what happens in a thread waits for the answer to a call about it.
const HOLD: Duration = Duration::from_secs(2);

/// Threads of which a client that does not follow them may have missed something. One that misses more is not worth keeping.
const MISSED_THREADS: usize = 4096;

/// Who the client says it is, and what it wants.
#[derive(Debug)]
pub(crate) struct Client {
    /// For people: who answered an approval.
    pub(crate) name: String,
    pub(crate) capabilities: ClientCapabilities,
}

/// What a connection brings along from the program that made it.
#[derive(Clone, Default)]
pub struct ConnectionContext {
    /// Where its relative directories begin, and where its threads work that name none; absolute. Else the server's.
    pub base_dir: Option<PathBuf>,
    /// Variables that agents of its threads may be given. In memory only.
    pub env: Option<Arc<BTreeMap<String, String>>>,
    /// Provider of its threads that name none. Else the server's.
    pub default_provider: Option<String>,
}

// Variables carry secrets: only their names are shown.
impl std::fmt::Debug for ConnectionContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionContext")
            .field("base_dir", &self.base_dir)
            .field("env", &self.env.as_ref().map(|env| env.keys()))
            .field("default_provider", &self.default_provider)
            .finish()
    }
}

/// The state of one connection; kept in its [`Peer`], so it must not hold one.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// What it came with.
    pub(crate) context: ConnectionContext,
    client: OnceLock<Client>,
    /// The threads it follows, is held for, or has missed something of.
    flows: Mutex<HashMap<SessionId, Arc<Flow>>>,
    /// A task waits to send the text that is being merged.
    merging: AtomicBool,
    /// A task waits for the client to read again.
    catching_up: AtomicBool,
    /// Searches for files that run, by the client's own tokens.
    searches: Mutex<HashMap<String, CancellationToken>>,
}

/// What a connection that reads again must be told.
#[derive(Debug)]
pub(crate) enum Missed {
    /// What has happened in a thread that it follows.
    Thread(Arc<Flow>, Arc<Known>),
    /// How a thread that it does not follow stands.
    State(Arc<Flow>),
}

impl Connection {
    /// The state of a connection that begins.
    pub(crate) fn with(context: ConnectionContext) -> Self {
        Self { context, ..Self::default() }
    }

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

    fn capabilities(&self) -> Option<&ClientCapabilities> {
        self.client.get().map(|client| &client.capabilities)
    }

    /// Whether it wants raw core events of all threads, or of those that it follows.
    pub(crate) fn op_events(&self) -> OpEvents {
        self.capabilities().map(|capabilities| capabilities.op_events).unwrap_or_default()
    }

    /// Whether it resumes a thread when it is told to.
    pub(crate) fn can_resync(&self) -> bool {
        self.capabilities().is_some_and(|capabilities| capabilities.resync)
    }

    /// How long deltas wait for their successors.
    fn delta_interval(&self) -> Option<Duration> {
        let wanted = self.capabilities()?.delta_interval_ms.filter(|interval| *interval > 0);
        wanted.map(|interval| Duration::from_millis(interval.into()))
    }

    /// The flow of a thread that it follows from now on.
    pub(crate) fn follow(&self, session: SessionId) -> Arc<Flow> {
        let mut flows = self.flows.lock();
        let flow = flows.entry(session).or_insert_with(|| Flow::new(session)).clone();
        flow.follow(true);
        flow
    }

    pub(crate) fn unfollow(&self, session: SessionId) {
        let mut flows = self.flows.lock();
        if let Some(flow) = flows.get(&session) {
            flow.follow(false);
        }
        tidy(&mut flows, session);
    }

    /// How many threads it follows.
    pub(crate) fn following(&self) -> usize {
        self.flows.lock().values().filter(|flow| flow.is_following()).count()
    }

    /// A search for files begins; an earlier one with the same token ends. Those that have ended are forgotten.
    pub(crate) fn begin_search(&self, token: String, cancel: CancellationToken) {
        let mut searches = self.searches.lock();
        searches.retain(|_, search| !search.is_cancelled());
        if let Some(former) = searches.insert(token, cancel) {
            former.cancel();
        }
    }

    /// The thread has left memory.
    pub(crate) fn unload(&self, session: SessionId) {
        let mut flows = self.flows.lock();
        if let Some(flow) = flows.get(&session) {
            flow.unload();
        }
        tidy(&mut flows, session);
    }

    /// Everything it follows, and from now on nothing.
    pub(crate) fn take_following(&self) -> Vec<SessionId> {
        let flows = std::mem::take(&mut *self.flows.lock());
        flows.into_values().filter(|flow| flow.is_following()).map(|flow| flow.session).collect()
    }

    fn flow(&self, session: SessionId) -> Option<Arc<Flow>> {
        self.flows.lock().get(&session).cloned()
    }

    /// The client has left the thread: of what is held only what everybody is told is still told.
    pub(crate) fn unsubscribed(&self, session: SessionId) {
        let mut flows = self.flows.lock();
        if let Some(flow) = flows.get(&session) {
            flow.leave();
        }
        tidy(&mut flows, session);
    }

    fn hold(&self, session: SessionId, holding: Holding) -> Arc<Flow> {
        let mut flows = self.flows.lock();
        let flow = flows.entry(session).or_insert_with(|| Flow::new(session)).clone();
        flow.hold(holding);
        flow
    }

    /// What the client must be told next, now that it reads again.
    pub(crate) fn missed(&self) -> Option<Missed> {
        let flows = self.flows.lock();
        flows.values().find_map(|flow| match flow.to_catch_up() {
            Some(known) => Some(Missed::Thread(flow.clone(), known)),
            None => flow.missed_something().then(|| Missed::State(flow.clone())),
        })
    }

    /// Whether it is now to be waited for until the client reads again: true once, until [`Connection::caught_up`].
    pub(crate) fn must_catch_up(&self) -> bool {
        !self.catching_up.swap(true, Ordering::AcqRel)
    }

    /// Nobody waits any more for the client to read again.
    pub(crate) fn caught_up(&self) {
        self.catching_up.store(false, Ordering::Release);
    }

    /// A thread's flow may be needed no more.
    pub(crate) fn tidy(&self, session: SessionId) {
        tidy(&mut self.flows.lock(), session);
    }
}

fn tidy(flows: &mut HashMap<SessionId, Arc<Flow>>, session: SessionId) {
    if flows.get(&session).is_some_and(|flow| flow.is_idle()) {
        flows.remove(&session);
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

    fn to<'a>(&'a self, hubs: &'a Hubs) -> To<'a> {
        To { hubs, peer: &self.peer, merges: self.connection.delta_interval().is_some() }
    }

    /// Delivers by the flow of a thread that this connection follows.
    pub(crate) fn deliver(&self, hubs: &Hubs, flow: &Arc<Flow>, delivery: Delivery) -> Taken {
        let taken = flow.deliver(self.to(hubs), delivery);
        self.see_to(hubs, flow, &taken);
        taken
    }

    /// What waits does not wait forever.
    fn see_to(&self, hubs: &Hubs, flow: &Arc<Flow>, taken: &Taken) {
        if taken.waits {
            self.merge(hubs);
        }
        if let Some(round) = taken.held {
            self.let_go(hubs, flow, round);
        }
    }

    /// Delivers what is for this client alone, also while others' deliveries are left out for it. It is bounded by its
    /// causes, so it is never refused. Gives the cuts that belong into the thread's ring.
    pub(crate) fn deliver_own(&self, hubs: &Hubs, flow: &Arc<Flow>, told: Placed) -> Vec<Cut> {
        let told = Placed { frame: told.frame.essential(), ..told };
        let taken = flow.deliver_own(self.to(hubs), Delivery::Notify(told));
        self.see_to(hubs, flow, &taken);
        taken.cuts
    }

    /// What waits is in the snapshot that is about to be made. Gives the cuts that belong into the thread's ring.
    pub(crate) fn supersede(&self, hubs: &Hubs, flow: &Flow) -> Vec<Cut> {
        flow.superseded(self.to(hubs)).cuts
    }

    /// The flow of a thread, for one delivery.
    pub(crate) fn flow(&self, session: SessionId) -> Arc<Flow> {
        self.connection.flow(session).unwrap_or_else(|| Flow::new(session))
    }

    /// Delivers what is for all, unless the connection follows the thread and has got it by that.
    pub(crate) fn deliver_unfollowed(&self, hubs: &Hubs, session: SessionId, told: &Placed) {
        let mut flows = self.connection.flows.lock();
        let flow = match flows.get(&session) {
            Some(flow) if flow.is_following() => return,
            Some(flow) => flow.clone(),
            None => Flow::new(session),
        };
        let taken = flow.deliver_unfollowed(self.to(hubs), told.clone());
        self.see_to(hubs, &flow, &taken);
        if !taken.missed {
            return;
        }
        flows.insert(session, flow);
        let missed = flows.len();
        drop(flows);
        if missed > MISSED_THREADS {
            self.peer.close_lagging("the client reads too slowly and has missed too much");
            return;
        }
        self.catch_up(hubs);
    }

    /// A raw core event. There is nothing to make up for a lost one, so the connection ends with it.
    pub(crate) fn deliver_event(&self, hubs: &Hubs, session: SessionId, frame: Frame) -> Taken {
        let taken = self.deliver(hubs, &self.flow(session), Delivery::Event(frame));
        if taken.missed || (taken.full.is_some() && !self.connection.can_resync()) {
            self.peer.close_lagging("the client reads too slowly for raw core events");
        }
        taken
    }

    /// Tells the client what it has missed, as soon as it reads again.
    pub(crate) fn catch_up(&self, hubs: &Hubs) {
        if self.connection.must_catch_up() {
            hubs.spawn(lag::catch_up(hubs.clone(), self.clone()));
        }
    }

    /// Sends the text that waits to be merged, when its time has come.
    fn merge(&self, hubs: &Hubs) {
        let Some(interval) = self.connection.delta_interval() else { return };
        if self.connection.merging.swap(true, Ordering::AcqRel) {
            return;
        }
        let (hubs, subscriber) = (hubs.clone(), self.clone());
        hubs.clone().spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = hubs.leaving() => {}
                () = subscriber.peer.closed().cancelled_owned() => return,
            }
            // Before looking, so that what comes now is waited for anew.
            subscriber.connection.merging.store(false, Ordering::Release);
            let flows: Vec<_> = subscriber.connection.flows.lock().values().cloned().collect();
            for flow in flows {
                hubs.in_order(flow.session, |ring| {
                    for cut in flow.flush(subscriber.to(&hubs)) {
                        ring.cut(cut);
                    }
                });
                subscriber.connection.tidy(flow.session);
            }
        });
    }

    /// Sends what is held, if the answer that it is held for takes too long.
    fn let_go(&self, hubs: &Hubs, flow: &Arc<Flow>, round: u64) {
        let (subscriber, hubs, flow) = (self.clone(), hubs.clone(), flow.clone());
        hubs.clone().spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(HOLD) => {}
                () = hubs.leaving() => {}
                () = subscriber.peer.closed().cancelled_owned() => return,
            }
            hubs.in_order(flow.session, |ring| {
                let taken = flow.let_go(subscriber.to(&hubs), round);
                taken.cuts.iter().for_each(|cut| ring.cut(*cut));
                subscriber.see_to(&hubs, &flow, &taken);
            });
            subscriber.make_good(&hubs, &flow);
        });
    }

    /// Holds the deliveries of a thread until the guard is dropped.
    pub(crate) fn hold(&self, hubs: &Hubs, session: SessionId, holding: Holding) -> Hold {
        let flow = self.connection.hold(session, holding);
        Hold { subscriber: self.clone(), hubs: hubs.clone(), flow, holding }
    }

    /// If the client has met its bound, the thread's next commit finds that too. But what a hold itself was too long for is
    /// to be made good now.
    fn make_good(&self, hubs: &Hubs, flow: &Flow) {
        if flow.is_following() && !flow.is_whole() {
            self.catch_up(hubs);
        }
    }
}

/// Keeps a connection's deliveries of one thread waiting while it lives.
#[derive(Debug)]
pub(crate) struct Hold {
    subscriber: Subscriber,
    hubs: Hubs,
    flow: Arc<Flow>,
    holding: Holding,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Self { subscriber, hubs, flow, holding } = self;
        let taken = flow.release(subscriber.to(hubs), *holding);
        subscriber.see_to(hubs, flow, &taken);
        if !taken.cuts.is_empty() {
            hubs.in_order(flow.session, |ring| taken.cuts.iter().for_each(|cut| ring.cut(*cut)));
        }
        subscriber.make_good(hubs, flow);
        subscriber.connection.tidy(flow.session);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use signalbox_protocol::app::method;
    use signalbox_rpc::{ConnOptions, Connection as Served, DeltaKey, MemoryClient, Registry, memory};
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

    fn note(number: u64, text: &str) -> Placed {
        let frame = Frame::notification("note", &json!({"n": number, "text": text})).unwrap();
        Placed { frame, place: number, seq: 0 }
    }

    async fn number(client: &mut MemoryClient) -> u64 {
        let frame: Value = serde_json::from_slice(&client.recv().await.unwrap()).unwrap();
        frame["params"]["n"].as_u64().unwrap()
    }

    #[tokio::test]
    async fn what_is_held_goes_out_in_order_when_the_last_hold_ends() {
        let (hubs, subscriber, mut client) = stage().await;
        let (held, other) = (SessionId::generate(), SessionId::generate());
        let (first, second) =
            (subscriber.hold(&hubs, held, Holding::Answer), subscriber.hold(&hubs, held, Holding::Answer));
        for number in 1..=3 {
            subscriber.deliver_unfollowed(&hubs, held, &note(number, ""));
        }
        drop(first);
        // Another thread is not held, so its delivery comes first.
        subscriber.deliver_unfollowed(&hubs, other, &note(0, ""));
        assert_eq!(number(&mut client).await, 0);
        drop(second);
        subscriber.deliver_unfollowed(&hubs, held, &note(4, ""));
        for expected in 1..=4 {
            assert_eq!(number(&mut client).await, expected);
        }
        assert!(subscriber.connection.flows.lock().is_empty());
    }

    #[tokio::test]
    async fn what_cannot_be_held_flows_in_order_instead_of_being_lost() {
        let (hubs, subscriber, mut client) = stage().await;
        let held = SessionId::generate();
        let hold = subscriber.hold(&hubs, held, Holding::Answer);
        let megabyte = "x".repeat(1024 * 1024);
        for number in 1..=6 {
            subscriber.deliver_unfollowed(&hubs, held, &note(number, &megabyte));
        }
        for expected in 1..=4 {
            assert_eq!(number(&mut client).await, expected, "the first that did not fit sent all before it");
        }
        drop(hold);
        for expected in 5..=6 {
            assert_eq!(number(&mut client).await, expected);
        }
    }

    fn told(method: &'static str, number: u64) -> Placed {
        let frame = Frame::notification(method, &json!({"n": number})).unwrap();
        Placed { frame, place: number, seq: 0 }
    }

    #[tokio::test]
    async fn of_a_thread_that_was_left_only_what_all_are_told_comes_behind_the_hold() {
        let (hubs, subscriber, mut client) = stage().await;
        let left = SessionId::generate();
        let hold = subscriber.hold(&hubs, left, Holding::Answer);
        let flow = subscriber.connection.follow(left);
        for told in [note(1, ""), told(method::THREAD_ARCHIVED, 2), note(3, "")] {
            drop(subscriber.deliver(&hubs, &flow, Delivery::Notify(told)));
        }
        subscriber.connection.unsubscribed(left);
        drop(hold);
        subscriber.deliver_unfollowed(&hubs, left, &note(4, ""));
        for expected in [2, 4] {
            assert_eq!(number(&mut client).await, expected);
        }
        assert!(subscriber.connection.flows.lock().is_empty());
    }

    #[tokio::test]
    async fn a_warning_from_before_a_snapshot_goes_out_before_it() {
        let (hubs, subscriber, mut client) = stage().await;
        let joined = SessionId::generate();
        let _hold = subscriber.hold(&hubs, joined, Holding::Answer);
        let flow = subscriber.connection.follow(joined);
        for told in [note(1, ""), told(method::WARNING, 2)] {
            drop(subscriber.deliver(&hubs, &flow, Delivery::Notify(told)));
        }
        assert!(subscriber.supersede(&hubs, &flow).is_empty());
        assert_eq!(number(&mut client).await, 2, "although the thread is still held");
    }

    fn delta(item: u64, place: u64, text: &str) -> Placed {
        let key = DeltaKey { scope: 1, item, kind: 0 };
        let frame = Frame::delta("delta", None, key, &json!({"n": place}), "delta", text).unwrap();
        Placed { frame, place, seq: 0 }
    }

    async fn received(client: &mut MemoryClient) -> Value {
        serde_json::from_slice(&client.recv().await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn deltas_are_merged_for_as_long_as_the_client_wants() {
        let (hubs, subscriber, mut client) = stage().await;
        let capabilities =
            ClientCapabilities { delta_interval_ms: Some(50), ..ClientCapabilities::default() };
        subscriber.connection.introduce(Client { name: "calm".to_owned(), capabilities });
        let flow = subscriber.connection.follow(SessionId::generate());
        let deliver = |told| subscriber.deliver(&hubs, &flow, Delivery::Notify(told));
        for (item, place, text) in
            [(1, 1, "one "), (2, 2, "a "), (1, 3, "two "), (2, 4, "b "), (1, 5, "three")]
        {
            assert!(deliver(delta(item, place, text)).cuts.is_empty());
        }
        // The task that waits for the interval cannot have run yet.
        assert_eq!(subscriber.peer.backlog().frames, 0);
        // One of each item, in the order of their newest pieces.
        assert_eq!(received(&mut client).await["params"], json!({"n": 4, "delta": "a b "}));
        assert_eq!(received(&mut client).await["params"], json!({"n": 5, "delta": "one two three"}));

        // What is no delta sends what it follows, and tells which cursors do not lead on.
        for (item, place) in [(1, 6), (2, 7), (1, 8)] {
            assert!(deliver(delta(item, place, "x")).cuts.is_empty());
        }
        let taken = deliver(note(9, ""));
        assert_eq!(taken.cuts, [Cut { text: None, from: 7, to: 8 }]);
        for expected in [7, 8, 9] {
            assert_eq!(received(&mut client).await["params"]["n"], expected);
        }
    }

    #[tokio::test]
    async fn text_that_waits_to_be_merged_is_bounded() {
        let (hubs, subscriber, mut client) = stage().await;
        let capabilities =
            ClientCapabilities { delta_interval_ms: Some(10_000), ..ClientCapabilities::default() };
        subscriber.connection.introduce(Client { name: "calm".to_owned(), capabilities });
        let flow = subscriber.connection.follow(SessionId::generate());
        let text = "x".repeat(64 * 1024);
        for place in 1..=5 {
            drop(subscriber.deliver(&hubs, &flow, Delivery::Notify(delta(1, place, &text))));
        }
        assert_eq!(subscriber.peer.backlog().frames, 1);
        let first = received(&mut client).await;
        assert_eq!(first["params"]["delta"].as_str().unwrap().len(), 5 * text.len());
    }
}
