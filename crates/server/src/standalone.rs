//! A whole server in this process: lock, store, engine, app-server and connections, started and ended in order.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signalbox_app_server::{AppInfo, AppServer, Hubs};
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Engine, EngineConfig, Guard, Limits, Supervisor, Unattended, base_environment, wall_clock_ms,
};
use signalbox_home::{Config, Home, Lock, LockError};
use signalbox_rpc::{
    CloseReason, ConnOptions, OutboxLimits, RegistryError, Service, Transport, UnixDoor, serve,
};
use signalbox_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{Access, AccessDoors, AccessError, AccessOptions, Audit};
use crate::http::{HttpLimits, Site, SiteParts};
use crate::life::{Hall, HouseDoors};
use crate::ops_socket::OpsLimits;
use crate::providers::{self, ProvidersError};
use crate::signals::Signals;

/// Connections to a unix socket at a time; more wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// The file of a home that keeps what is known of its agents.
pub const KNOWN: &str = "agents.json";
/// How long the hubs may take to hand out what the end of the turns has told.
const TELLING: Duration = Duration::from_secs(5);
/// How long everything may take after a signal; then the process leaves with what is left undone.
pub(crate) const LEAVING: Duration = Duration::from_secs(30);

/// What a server is made of.
#[derive(Debug)]
pub struct Setup {
    /// Its home.
    pub home: Home,
    /// Its configuration.
    pub config: Config,
    /// What the process is, for whoever finds the home locked: `app-server`, `run`.
    pub role: &'static str,
    /// Where relative directories of clients begin. Absolute.
    pub base_dir: PathBuf,
    /// The command line of the built-in agent.
    pub rehearsal: Vec<String>,
    /// The command line of the guard, which cleans up behind a server that was killed.
    pub guard: Vec<String>,
    /// What agents may be given of the environment.
    pub env: BTreeMap<String, String>,
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process serves the home.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database cannot be used.
    #[error("cannot open {}", path.display())]
    Store {
        /// The database.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// The providers cannot be put together.
    #[error(transparent)]
    Providers(#[from] ProvidersError),
    /// Who may come in cannot be told.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The method table is inconsistent, which its tests rule out.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// How a server ended after it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Everything has ended in order.
    Whole,
    /// A second signal came, or it took too long.
    Forced,
}

/// A running server.
#[derive(Debug)]
pub struct Standalone {
    store: Store,
    serving: Serving,
    doors: Arc<HouseDoors>,
    lock: Lock,
}

/// What a door needs to serve its connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    pub(crate) config: Arc<Config>,
    pub(crate) app: AppServer,
    pub(crate) service: Service,
    pub(crate) access: Access,
    pub(crate) site: Site,
    /// The connections; the server waits for them when it leaves.
    pub(crate) connections: TaskTracker,
    /// Cancelled: doors accept nobody any more.
    pub(crate) leaving: CancellationToken,
    /// Cancelled: connections drain and end.
    pub(crate) closing: CancellationToken,
}

impl Standalone {
    /// Takes the home's lock and starts everything; turns that an earlier process left open are ended.
    ///
    /// # Errors
    /// If the home is in use, its database cannot be opened, or the configuration makes no sense.
    pub async fn start(setup: Setup) -> Result<Self, StartError> {
        let lock = Lock::take(&setup.home, setup.role, env!("CARGO_PKG_VERSION"))?;
        Self::start_with(lock, setup).await
    }

    /// The same for whoever holds the lock already.
    pub(crate) async fn start_with(lock: Lock, setup: Setup) -> Result<Self, StartError> {
        let Setup { home, config, role: _, base_dir, rehearsal, guard, env } = setup;
        let catalog = providers::catalog(&home, &config, rehearsal, env)?;
        let path = home.database();
        let failed = |source| StartError::Store { path: path.clone(), source };
        let store = Store::open(&path).await.map_err(failed)?;
        let outbox_bytes = config.limits.outbox_bytes;
        let info = AppInfo { outbox_bytes, ..AppInfo::new(home.folder().to_path_buf(), base_dir) };
        let hubs = Hubs::new(store.reader.clone(), info);
        let engine = EngineConfig {
            catalog,
            limits: Limits {
                initialize: config.limits.initialize,
                download: config.limits.download,
                session: config.limits.session,
                cancel: config.limits.cancel,
                stall: config.limits.stall,
                stop_grace: config.limits.stop,
                line_bytes: config.limits.agent_line_bytes,
                ..Limits::default()
            },
            agents: Supervisor::new(Guard::new(guard)),
            blobs: Some(home.folder().join("blobs")),
            worktrees: home.folder().join("worktrees"),
            idle_agent: config.limits.idle_agent,
            idle_session: config.limits.idle_thread,
            ephemeral_bytes: signalbox_engine::EPHEMERAL_BYTES,
            sources: Sources {
                user_home: base_environment().remove("HOME").map(PathBuf::from),
                home: Some(home.folder().to_path_buf()),
                skill_roots: config.skills.roots.clone(),
                rule_files: config.rules.files.clone(),
            },
            known: Some(home.folder().join(KNOWN)),
            unattended: match config.server.unattended {
                signalbox_home::Unattended::Wait => Unattended::Wait,
                signalbox_home::Unattended::Reject => Unattended::Reject,
                signalbox_home::Unattended::WaitFor(time) => Unattended::WaitFor(time),
            },
            on_load: hubs.on_load(),
            now_ms: wall_clock_ms,
        };
        let engine = Engine::start(store.clone(), engine).await.map_err(failed)?;
        let app = AppServer::new(engine, hubs);
        let service = app.service()?;
        let audit =
            home.logs().map(|logs| Audit::to_file(logs.join("audit.log"))).map_err(AccessError::from)?;
        let options = AccessOptions { audit, ..AccessOptions::default() };
        let access = Access::start(home.clone(), store.clone(), options).await?;
        let doors = Arc::new(HouseDoors::new(AccessDoors(access.clone()), home.clone()));
        app.set_doors(doors.clone());
        let (leaving, closing) = (CancellationToken::new(), CancellationToken::new());
        let connections = TaskTracker::new();
        let options = conn_options(&config, &app, &closing, &connections, ConnOptions::default());
        let site = Site::new(SiteParts {
            app: app.clone(),
            service: service.clone(),
            access: access.clone(),
            ops: OpsLimits { outbox_bytes: config.limits.outbox_bytes, ..OpsLimits::default() },
            limits: HttpLimits { body_bytes: config.limits.frame_bytes, ..HttpLimits::default() },
            options,
            leaving: leaving.clone(),
        });
        let config = Arc::new(config);
        let serving = Serving { config, app, service, access, site, connections, leaving, closing };
        doors.open(serving.clone());
        Ok(Self { store, serving, doors, lock })
    }

    /// Resolves when somebody has asked the server to leave (`server/stop`).
    pub async fn asked_to_leave(&self) {
        self.doors.asked.cancelled().await;
    }

    /// Where connections of a unix socket are received.
    pub(crate) fn hall(&self) -> Hall {
        Hall::new(self.serving.clone(), self.doors.presence.clone())
    }

    /// Serves one connection that is not cut for being slow, on a task of its own. The future says how it ended, or that
    /// its input has: then it goes on being told things until the server is drained.
    pub fn serve<T: Transport>(
        &self,
        transport: T,
        label: &str,
    ) -> impl Future<Output = CloseReason> + use<T> {
        let input_ended = CancellationToken::new();
        let options = ConnOptions {
            label: label.into(),
            input_ended: Some(input_ended.clone()),
            ..self.serving.options(ConnOptions::stdio())
        };
        let service = self.serving.service.clone();
        let ended = self.serving.connections.spawn(async move { serve(transport, service, options).await });
        async move {
            tokio::select! {
                ended = ended => ended.unwrap_or(CloseReason::Dropped),
                () = input_ended.cancelled() => CloseReason::Eof,
            }
        }
    }

    /// Accepts clients of a unix socket until the server leaves.
    pub fn listen(&self, door: UnixDoor) -> impl Future<Output = ()> + Send + use<> {
        let hall = self.hall();
        async move { hall.run(door).await }
    }

    /// What its HTTP listeners share.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.serving.site
    }

    /// Who may come in through its HTTP listeners.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.serving.access
    }

    /// Ends the server in order: nobody new comes in, open turns end as interrupted, every client is told, connections
    /// end, the store is closed. A second signal, or half a minute, cuts it short. Clients that go often end the server's
    /// input and send one signal besides; that is one wish, not two.
    pub async fn drain(mut self, signals: &mut Signals) -> Drained {
        self.lock.leaves();
        self.serving.leaving.cancel();
        let mut left = std::pin::pin!(self.leave());
        let mut too_long = std::pin::pin!(tokio::time::sleep(LEAVING));
        loop {
            tokio::select! {
                () = &mut left => return Drained::Whole,
                signal = signals.next() => {
                    if signals.count() > 1 {
                        tracing::warn!(signal, "leaving at once, as asked again");
                        return Drained::Forced;
                    }
                }
                () = &mut too_long => {
                    tracing::error!("leaving with something undone: it took too long");
                    return Drained::Forced;
                }
            }
        }
    }

    async fn leave(&self) {
        let Serving { app, access, closing, connections, .. } = &self.serving;
        app.engine().shutdown().await;
        // The hubs hand out the last they have heard before the connections end.
        if tokio::time::timeout(TELLING, app.shutdown()).await.is_err() {
            tracing::warn!("some clients may not have been told the end of their turns");
        }
        closing.cancel();
        connections.close();
        connections.wait().await;
        app.shutdown().await;
        access.finish().await;
        self.doors.close();
        self.store.close().await;
    }
}

impl Serving {
    /// How a connection of this kind is served.
    pub(crate) fn options(&self, kind: ConnOptions) -> ConnOptions {
        conn_options(&self.config, &self.app, &self.closing, &self.connections, kind)
    }
}

/// How a connection of this kind is served.
fn conn_options(
    config: &Config,
    app: &AppServer,
    closing: &CancellationToken,
    connections: &TaskTracker,
    kind: ConnOptions,
) -> ConnOptions {
    let limits = &config.limits;
    let defaults = OutboxLimits::default();
    ConnOptions {
        max_frame_bytes: limits.frame_bytes,
        outbox: OutboxLimits {
            soft_bytes: defaults.soft_bytes.min(limits.outbox_bytes),
            hard_bytes: limits.outbox_bytes,
            answer_bytes: limits.outbox_bytes / 2,
        },
        shutdown: closing.clone(),
        tasks: connections.clone(),
        hooks: app.hooks(),
        ..kind
    }
}
