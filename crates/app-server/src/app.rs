//! `AppServer`: the state behind every method, and the table closed around it.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use signalbox_engine::{Engine, wall_clock_ms};
use signalbox_facts::{SessionId, SessionRow};
use signalbox_protocol::app::OpenRpcDocument;
use signalbox_rpc::{CloseReason, Ctx, Hooks, OutboxLimits, Peer, RegistryError, Service, StrayResponse};

use crate::approvals;
use crate::connection::flow::Holding;
use crate::connection::{Connection, ConnectionContext, Subscriber};
use crate::doors::Doors;
use crate::errors::{self, Error};
use crate::hub::Visit;
use crate::hubs::Hubs;
use crate::methods;

/// What the server says about itself.
#[derive(Clone, Debug)]
pub struct AppInfo {
    /// The home, absolute.
    pub home: PathBuf,
    /// Where relative directories of clients begin, and where threads without one work. Absolute.
    pub base_dir: PathBuf,
    /// The version that clients are told.
    pub version: &'static str,
    /// What may wait for one client (`OutboxLimits::hard_bytes` of the connections): a notification takes a part of it.
    pub outbox_bytes: usize,
    /// Unix milliseconds; tests put their own clock here.
    pub now_ms: fn() -> i64,
}

impl AppInfo {
    /// This build, on the wall clock, for connections with the usual outboxes.
    #[must_use]
    pub fn new(home: PathBuf, base_dir: PathBuf) -> Self {
        let outbox_bytes = OutboxLimits::default().hard_bytes;
        Self { home, base_dir, version: env!("CARGO_PKG_VERSION"), outbox_bytes, now_ms: wall_clock_ms }
    }
}

/// The app-server: an engine and those who watch it. Cheap to clone.
///
/// ```no_run
/// # use signalbox_app_server::{AppInfo, AppServer, Hubs};
/// # use signalbox_engine::{Engine, EngineConfig};
/// # use signalbox_rpc::{ConnOptions, Transport, serve};
/// # use signalbox_store::Store;
/// # async fn run(store: Store, config: EngineConfig, transport: impl Transport) -> Result<(), Box<dyn std::error::Error>> {
/// let hubs = Hubs::new(store.reader.clone(), AppInfo::new("/home/me/.signalbox".into(), "/project".into()));
/// let config = EngineConfig { on_load: hubs.on_load(), ..config };
/// let app = AppServer::new(Engine::start(store, config).await?, hubs);
/// let options = ConnOptions { hooks: app.hooks(), ..ConnOptions::default() };
/// serve(transport, app.service()?, options).await;
/// app.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct AppServer(Arc<App>);

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) hubs: Hubs,
    started_at_ms: i64,
    /// What lets others in, once the server around this one has handed it over.
    pub(crate) doors: OnceLock<Arc<dyn Doors>>,
    /// The description of the table, once somebody has asked for it.
    open_rpc: OnceLock<OpenRpcDocument>,
}

impl AppServer {
    /// The app-server of an engine that was started with these hubs' [`Hubs::on_load`].
    #[must_use]
    pub fn new(engine: Engine, hubs: Hubs) -> Self {
        let started_at_ms = (hubs.info().now_ms)();
        let app =
            Arc::new(App { engine, hubs, started_at_ms, doors: OnceLock::new(), open_rpc: OnceLock::new() });
        app.hubs.bind(Arc::downgrade(&app));
        Self(app)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// What the server says about itself.
    #[must_use]
    pub fn info(&self) -> &AppInfo {
        self.0.hubs.info()
    }

    /// Hands over what the methods about pairing, devices and listeners need. To be done before anybody is served; only
    /// the first time counts. Without it those methods answer `no_doors`.
    pub fn set_doors(&self, doors: Arc<dyn Doors>) {
        if self.0.doors.set(doors).is_err() {
            tracing::error!("a second set of doors was handed over and is not used");
        }
    }

    /// The doors of this server.
    pub(crate) fn doors(&self) -> Result<&Arc<dyn Doors>, Error> {
        self.0.doors.get().ok_or_else(errors::no_doors)
    }

    /// The method table, closed around this server.
    ///
    /// # Errors
    /// If the table is inconsistent, which a test rules out.
    pub fn service(&self) -> Result<Service, RegistryError> {
        methods::registry().build(self.clone())
    }

    /// What every connection must be served with (`ConnOptions::hooks`): its end ends its subscriptions.
    #[must_use]
    pub fn hooks(&self) -> Arc<dyn Hooks> {
        self.hooks_for(ConnectionContext::default())
    }

    /// [`AppServer::hooks`] for a connection that brings something along.
    #[must_use]
    pub fn hooks_for(&self, context: ConnectionContext) -> Arc<dyn Hooks> {
        Arc::new(AppHooks { hubs: self.0.hubs.clone(), context })
    }

    /// The state of a call that comes without a connection (`PostOptions::state`) and brings something along.
    #[must_use]
    pub fn post_state(context: ConnectionContext) -> Arc<dyn Any + Send + Sync> {
        Arc::new(Connection::with(context))
    }

    /// Ends open turns, stops the agents, and waits for everything that was started for them. Connections are not ended
    /// by this; whoever serves them does that first.
    pub async fn shutdown(&self) {
        self.0.engine.shutdown().await;
        self.0.hubs.finished().await;
    }

    /// The description of the table, made by `make` when it is first asked for.
    pub(crate) fn open_rpc<E>(
        &self,
        make: impl FnOnce() -> Result<OpenRpcDocument, E>,
    ) -> Result<OpenRpcDocument, E> {
        if let Some(made) = self.0.open_rpc.get() {
            return Ok(made.clone());
        }
        let made = make()?;
        Ok(self.0.open_rpc.get_or_init(|| made).clone())
    }

    pub(crate) fn hubs(&self) -> &Hubs {
        &self.0.hubs
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.now_ms() - self.0.started_at_ms).unwrap_or(0)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.info().now_ms)()
    }

    /// The hub of a thread, which is loaded if it is not in memory, and stays there as long as the visit.
    pub(crate) async fn hub(&self, session: SessionId) -> Result<Visit, Error> {
        // First of all, so that the hub is that of a session which does not leave any more.
        let watching = self.engine().watch(session).await?;
        let hub = self.hubs().get(session).ok_or(signalbox_engine::OpError::ShuttingDown)?;
        Ok(Visit::new(hub, watching))
    }

    /// The row of a thread, which need not be in memory for it.
    pub(crate) async fn row(&self, session: SessionId) -> Result<SessionRow, Error> {
        if let Some(hub) = self.hubs().get(session)
            && let Some(snapshot) = hub.read_if_there(false).await?
        {
            return Ok(snapshot.row);
        }
        let row = self.hubs().reader_of(session).session(session).await?;
        row.ok_or_else(|| errors::thread_not_found(&session.to_string()))
    }
}

/// The id of a thread, from the wire.
pub(crate) fn session_id(id: &str) -> Result<SessionId, Error> {
    id.parse().map_err(|_not_ours| errors::thread_not_found(id))
}

/// Keeps the caller's deliveries of a thread waiting until its call is answered.
pub(crate) fn hold(ctx: &Ctx<AppServer>, session: SessionId) {
    if let Some(peer) = ctx.peer_opt() {
        let hold = Subscriber::new(peer).hold(ctx.app().hubs(), session, Holding::Answer);
        ctx.keep_until_sent(Box::new(hold));
    }
}

/// The name under which the caller's deeds are shown.
pub(crate) fn caller_name(ctx: &Ctx<AppServer>) -> String {
    ctx.peer_opt().map_or_else(|| ctx.label().to_string(), |peer| Subscriber::new(peer).name())
}

/// Who submits the caller's Ops.
pub(crate) fn origin(ctx: &Ctx<AppServer>) -> signalbox_engine::Origin {
    signalbox_engine::Origin {
        client: Some(caller_name(ctx)),
        resolver: None,
        env: env(ctx),
        base_dir: Some(base_dir(ctx)),
        traceparent: ctx.trace().map(|trace| trace.traceparent.clone()),
        tracestate: ctx.trace().and_then(|trace| trace.tracestate.clone()),
    }
}

/// What the caller's connection brought along.
pub(crate) fn context(ctx: &Ctx<AppServer>) -> Option<Arc<Connection>> {
    ctx.state::<Connection>()
}

/// Where the caller's relative directories begin.
pub(crate) fn base_dir(ctx: &Ctx<AppServer>) -> PathBuf {
    let own = context(ctx).and_then(|connection| connection.context.base_dir.clone());
    own.unwrap_or_else(|| ctx.app().info().base_dir.clone())
}

/// The variables that the caller's agents may be given.
pub(crate) fn env(ctx: &Ctx<AppServer>) -> Option<Arc<BTreeMap<String, String>>> {
    context(ctx).and_then(|connection| connection.context.env.clone())
}

/// The provider of the caller's threads that name none.
pub(crate) fn default_provider(ctx: &Ctx<AppServer>) -> String {
    let own = context(ctx).and_then(|connection| connection.context.default_provider.clone());
    own.unwrap_or_else(|| ctx.app().engine().catalog().default_provider().to_string())
}

#[derive(Debug)]
struct AppHooks {
    hubs: Hubs,
    context: ConnectionContext,
}

impl Hooks for AppHooks {
    fn opened(&self, peer: &Peer) {
        // The first to set it: nothing has been read yet.
        peer.set_state(Arc::new(Connection::with(self.context.clone())));
    }

    fn stray_response(&self, peer: &Peer, response: StrayResponse<'_>) {
        approvals::stray(&self.hubs, peer, response);
    }

    fn overflowed(&self, peer: &Peer) {
        // What is refused is made good when the client reads again, or it is told to resume what it follows.
        tracing::info!(connection = %peer.id(), "a client reads too slowly");
    }

    fn closed(&self, peer: &Peer, _reason: &CloseReason) {
        self.hubs.disconnected(peer);
    }
}
