//! The hubs of all loaded threads, the connections that are initialized, and what they share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_engine::{Attending, Engine, SessionStream};
use signalbox_facts::{Provider, SessionId};
use signalbox_protocol::app::{ConnectionFigures, Model, OpEvents, ServerNotification, WarningNotification};
use signalbox_rpc::{ConnectionId, Peer};
use signalbox_store::Reader;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{App, AppInfo};
use crate::approvals::{self, Approvals};
use crate::connection::{Connection, Subscriber};
use crate::doors::Doors;
use crate::hub::frames::{self, Placed};
use crate::hub::ring::Ring;
use crate::hub::{self, Hub};
use crate::methods::{OldTurns, connection_figures};

/// How long the tasks of threads may take to end.
const LEAVING: Duration = Duration::from_secs(10);

/// The threads in memory and who listens to them. Cheap to clone.
///
/// It is made before the engine, because the engine tells it of each session that it loads
/// ([`Hubs::on_load`]), and the [`AppServer`](crate::AppServer) is made of both.
#[derive(Clone)]
pub struct Hubs(Arc<Inner>);

struct Inner {
    info: AppInfo,
    reader: Reader,
    /// Weak, because the engine holds the hubs.
    app: OnceLock<Weak<App>>,
    epoch: String,
    next_place: AtomicU64,
    hubs: Mutex<HashMap<SessionId, Arc<Hub>>>,
    connections: Mutex<HashMap<ConnectionId, Subscriber>>,
    /// Those of them who see the requests of all threads and can answer them, so that the core knows that somebody is
    /// there.
    attending: Mutex<HashMap<ConnectionId, Attending>>,
    /// How many of them want raw core events.
    wanting_events: AtomicUsize,
    approvals: Approvals,
    models: Mutex<HashMap<Provider, Vec<Model>>>,
    old_turns: OldTurns,
    tasks: TaskTracker,
    /// The server leaves: nobody waits for clients any more.
    leaving: CancellationToken,
}

impl std::fmt::Debug for Hubs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hubs")
            .field("threads", &self.0.hubs.lock().len())
            .field("connections", &self.0.connections.lock().len())
            .finish_non_exhaustive()
    }
}

impl Hubs {
    /// No hubs yet. `reader` is that of the engine's store.
    #[must_use]
    pub fn new(reader: Reader, info: AppInfo) -> Self {
        let epoch = (info.now_ms)().to_string();
        Self(Arc::new(Inner {
            info,
            reader,
            app: OnceLock::new(),
            epoch,
            next_place: AtomicU64::new(1),
            hubs: Mutex::default(),
            connections: Mutex::default(),
            attending: Mutex::default(),
            wanting_events: AtomicUsize::new(0),
            approvals: Approvals::default(),
            models: Mutex::default(),
            old_turns: OldTurns::default(),
            tasks: TaskTracker::new(),
            leaving: CancellationToken::new(),
        }))
    }

    /// What the engine calls for each session that it loads (`EngineConfig::on_load`). To be called within a runtime.
    #[must_use]
    pub fn on_load(&self) -> Box<dyn Fn(SessionStream) + Send + Sync> {
        let hubs = self.clone();
        Box::new(move |stream| hubs.load(stream))
    }

    /// Starts the hub of a session that was loaded.
    pub(crate) fn load(&self, stream: SessionStream) {
        let session = stream.row.id;
        let (hub, task) = hub::new(self.clone(), stream);
        let before = self.0.hubs.lock().insert(session, hub.clone());
        let hubs = self.clone();
        self.spawn(async move {
            let _ended = hub.ends();
            if let Some(before) = before {
                // That the thread was closed is told before anything of its next life.
                before.ended().await;
            }
            task.run().await;
            hubs.unload(&hub);
        });
    }

    fn unload(&self, hub: &Arc<Hub>) {
        let session = hub.session();
        {
            let mut hubs = self.0.hubs.lock();
            // The session may have been loaded again meanwhile, with a hub of its own.
            if !hubs.get(&session).is_some_and(|current| Arc::ptr_eq(current, hub)) {
                return;
            }
            hubs.remove(&session);
        }
        let left = self.0.approvals.of_session(session);
        self.0.approvals.forget(session);
        for subscriber in hub.subscribers() {
            // Nobody waits for an answer any more.
            for open in &left {
                subscriber.peer.withdraw(&open.id);
            }
            subscriber.connection.unload(session);
        }
    }

    pub(crate) fn bind(&self, app: Weak<App>) {
        // Bound once, by the one constructor of `AppServer`.
        let _ = self.0.app.set(app);
    }

    pub(crate) fn engine(&self) -> Option<Engine> {
        self.0.app.get()?.upgrade().map(|app| app.engine.clone())
    }

    /// The doors of the server, if it has any.
    pub(crate) fn doors(&self) -> Option<Arc<dyn Doors>> {
        self.0.app.get()?.upgrade()?.doors.get().cloned()
    }

    /// The store on disk: for lists. Whoever reads about one thread asks for [`Hubs::reader_of`].
    pub(crate) fn reader(&self) -> &Reader {
        &self.0.reader
    }

    /// The store that a thread is in: an ephemeral one is not on disk.
    pub(crate) fn reader_of(&self, session: SessionId) -> Reader {
        // Before the engine is bound it loads what it found on disk.
        self.engine().map_or_else(|| self.0.reader.clone(), |engine| engine.reader_of(session))
    }

    pub(crate) fn info(&self) -> &AppInfo {
        &self.0.info
    }

    pub(crate) fn old_turns(&self) -> &OldTurns {
        &self.0.old_turns
    }

    pub(crate) fn approvals(&self) -> &Approvals {
        &self.0.approvals
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<Hub>> {
        self.0.hubs.lock().get(&session).cloned()
    }

    /// The next place in the order of all deliveries of this server life.
    pub(crate) fn next_place(&self) -> u64 {
        self.0.next_place.fetch_add(1, Ordering::Relaxed)
    }

    /// What tells this server life from others.
    pub(crate) fn epoch(&self) -> &str {
        &self.0.epoch
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(task);
    }

    /// Resolves when the server leaves.
    pub(crate) async fn leaving(&self) {
        self.0.leaving.cancelled().await;
    }

    /// Waits for everything that was spawned. The engine has ended before, so hubs end, and with them what waits for
    /// answers.
    pub(crate) async fn finished(&self) {
        self.0.leaving.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(LEAVING, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.0.tasks.len(), "some tasks of threads have not ended in time");
        }
    }

    // ---- connections ----

    /// The handshake is done: the connection gets what is for all.
    pub(crate) fn connected(&self, peer: &Peer) {
        let subscriber = Subscriber::new(peer);
        if subscriber.connection.op_events() != OpEvents::Off {
            self.0.wanting_events.fetch_add(1, Ordering::Relaxed);
        }
        if subscriber.connection.op_events() == OpEvents::All
            && subscriber.can_answer()
            && let Some(engine) = self.engine()
        {
            self.0.attending.lock().insert(peer.id(), engine.attend(None));
        }
        self.0.connections.lock().insert(peer.id(), subscriber);
        if peer.is_closed() {
            // Its hook may have run before it was in the list.
            self.forget(peer);
        }
    }

    fn forget(&self, peer: &Peer) {
        drop(self.0.attending.lock().remove(&peer.id()));
        let known = self.0.connections.lock().remove(&peer.id());
        if known.is_some_and(|known| known.connection.op_events() != OpEvents::Off) {
            self.0.wanting_events.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.connections.lock().len()
    }

    /// Figures of up to so many connections, the slowest readers first, and how many there are.
    pub(crate) fn connection_figures(&self, most: usize) -> (Vec<ConnectionFigures>, usize) {
        let all: Vec<Subscriber> = self.0.connections.lock().values().cloned().collect();
        let mut figures: Vec<_> =
            all.iter().map(|one| connection_figures(&one.peer, &one.connection)).collect();
        figures.sort_by_key(|one| (std::cmp::Reverse(one.backlog_bytes), one.id));
        figures.truncate(most);
        (figures, all.len())
    }

    /// Delivers to every connection that does not follow the thread.
    pub(crate) fn deliver_unfollowed(&self, session: SessionId, told: &Placed) {
        for subscriber in self.0.connections.lock().values() {
            subscriber.deliver_unfollowed(self, session, told);
        }
    }

    /// Tells every connection something about a thread that has no hub.
    pub(crate) fn tell_all(&self, session: SessionId, body: &ServerNotification) {
        match frames::notification(self, body, 0, (self.0.info.now_ms)()) {
            Ok(told) => self.deliver_unfollowed(session, &told),
            Err(error) => tracing::error!(%session, %error, "a notification could not be written"),
        }
    }

    /// Those that want the raw core events of a thread.
    pub(crate) fn wanting_events(&self, hub: &Hub) -> Vec<Subscriber> {
        if self.0.wanting_events.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let connections = self.0.connections.lock();
        let wants = |subscriber: &&Subscriber| match subscriber.connection.op_events() {
            OpEvents::Off => false,
            OpEvents::Subscribed => hub.has(subscriber.peer.id()),
            OpEvents::All => true,
        };
        connections.values().filter(wants).cloned().collect()
    }

    /// Runs something while nothing else is told of the thread.
    pub(crate) fn in_order<T>(&self, session: SessionId, run: impl FnOnce(&mut Ring) -> T) -> T {
        match self.get(session) {
            Some(hub) => run(&mut hub.telling.lock()),
            // A thread that is not loaded tells nothing.
            None => run(&mut Ring::default()),
        }
    }

    /// A connection has ended: it follows nothing any more.
    pub(crate) fn disconnected(&self, peer: &Peer) {
        self.forget(peer);
        let Some(connection) = peer.state::<Connection>() else { return };
        for session in connection.take_following() {
            if let Some(hub) = self.get(session) {
                hub.leave(peer);
                self.check_approvals(session);
            }
        }
    }

    /// Somebody has left: approvals that the remaining ones cannot answer are rejected.
    pub(crate) fn check_approvals(&self, session: SessionId) {
        let open = self.0.approvals.of_session(session);
        if open.is_empty() {
            return;
        }
        let hubs = self.clone();
        self.spawn(async move {
            for open in open {
                approvals::reject_if_stuck(&hubs, &open).await;
            }
        });
    }

    /// Tells one connection something about a thread.
    pub(crate) fn warn(&self, subscriber: &Subscriber, session: SessionId, message: String) {
        let known = self.get(session).map_or(0, |hub| hub.seq());
        let thread_id = Some(session.to_string());
        let warning = WarningNotification { thread_id, message, request_id: None, reason: None };
        let now_ms = (self.0.info.now_ms)();
        let flow = subscriber.flow(session);
        self.in_order(session, |ring| {
            // The hub may know more than it has told, and tell more before this is told.
            let at = (ring.latest().unwrap_or(known), now_ms);
            hub::tell_own(self, subscriber, &flow, warning.into(), at, ring);
        });
    }

    // ---- models ----

    /// An agent has told its models.
    pub(crate) fn learn_models(&self, provider: &Provider, models: Vec<Model>) {
        if !models.is_empty() {
            self.0.models.lock().insert(provider.clone(), models);
        }
    }

    /// The models that an agent of this provider told last.
    pub(crate) fn models(&self, provider: &Provider) -> Option<Vec<Model>> {
        self.0.models.lock().get(provider).cloned()
    }
}
