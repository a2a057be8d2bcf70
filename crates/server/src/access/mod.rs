//! Who may come in, and what they may do: credentials, pairing, tickets, devices, and the log of it all. No sockets.
//!
//! - [`Access`] is all of it for one home; [`Access::with`] is the same for one listener and what opens it.
//! - [`Access::authenticate`] makes a [`Caller`] of a bearer token, [`Access::redeem`] of a ticket, [`Caller::owner`] is for
//!   stdio and the unix socket. Everybody else is [`Refused`].
//! - Secrets are made here, shown once, and kept as hashes; how long each lives is in `codes.rs` and `devices.rs`.
//! - Guessing is bounded by address and in total (`limits.rs`). What is random and of our own making (the home's token,
//!   bearers of devices, tickets, signed tokens) is let in also from an address that is locked out, so that a neighbour
//!   cannot shut somebody out; what people may have thought up has to wait.

mod audit;
mod caller;
mod clock;
mod codes;
mod devices;
mod doors;
mod keys;
mod limits;
mod pairing;
mod refused;
mod secret;
mod signed;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_facts::DeviceRole;
use signalbox_home::{Home, HomeError};
use signalbox_rpc::Role;
use signalbox_store::{Store, StoreError};
use tokio_util::task::TaskTracker;

pub use audit::{Audit, AuditEvent};
pub use caller::Caller;
pub use clock::Clock;
pub use doors::AccessDoors;
pub(crate) use keys::text_of;
pub use keys::{Keys, KeysError};
pub use refused::{Answer, Refused};

use codes::{Codes, Holder, Tickets};
use devices::{Devices, Unknown};
use limits::{Failed, Limits};
use secret::{Hashed, Kind};

/// What a bearer may be at most.
const CREDENTIAL_BYTES: usize = 8 << 10;
/// How long a device's bearer is good for, from its last use.
const DEVICE_LIFE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How access is set up.
#[derive(Debug, Clone)]
pub struct AccessOptions {
    /// How long a device's bearer is good for, from its last use. Default: 90 days.
    pub device_life: Duration,
    /// The clocks.
    pub clock: Clock,
    /// Where what happens is noted.
    pub audit: Audit,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self { device_life: DEVICE_LIFE, clock: Clock::default(), audit: Audit::without_file() }
    }
}

/// Access could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The devices cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The home's token cannot be used.
    #[error(transparent)]
    Token(#[from] KeysError),
    /// The home's token cannot be written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The operating system has no randomness.
    #[error("the operating system gives no random bytes")]
    Random(#[from] getrandom::Error),
}

/// Who may come in, at one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Access {
    shared: Arc<Shared>,
    keys: Arc<Keys>,
}

#[derive(Debug)]
struct Shared {
    home: Home,
    clock: Clock,
    audit: Audit,
    devices: Devices,
    limits: Limits,
    codes: Mutex<Codes>,
    tickets: Mutex<Tickets>,
    /// Of the home's token, once there is one.
    home_token: Mutex<Option<Hashed>>,
    /// Where open listeners are reached.
    bases: Mutex<Vec<String>>,
    tasks: TaskTracker,
}

impl Access {
    /// Reads what is stored. Nothing is open beside the home's token, if there is one, and the bearers of devices.
    ///
    /// # Errors
    /// If the devices cannot be read.
    pub async fn start(home: Home, store: Store, options: AccessOptions) -> Result<Self, AccessError> {
        let AccessOptions { device_life, clock, audit } = options;
        let tasks = TaskTracker::new();
        let devices = Devices::load(store, clock.clone(), device_life, tasks.clone()).await?;
        let shared = Shared {
            limits: Limits::new(clock.clone()),
            codes: Mutex::default(),
            tickets: Mutex::default(),
            home_token: Mutex::new(None),
            bases: Mutex::default(),
            home,
            clock,
            audit,
            devices,
            tasks,
        };
        let access = Self { shared: Arc::new(shared), keys: Arc::default() };
        if access.shared.home.token_file().exists()
            && let Err(error) = access.home_token()
        {
            tracing::warn!(%error, "the home's token is not used");
        }
        Ok(access)
    }

    /// The same for a listener that these keys open too.
    #[must_use]
    pub fn with(&self, keys: Keys) -> Self {
        Self { shared: Arc::clone(&self.shared), keys: Arc::new(keys) }
    }

    /// Waits for what is being written. To be called before the store is closed.
    pub async fn finish(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Where what happens is noted.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        &self.shared.audit
    }

    /// Says that a listener is open, and how devices reach it (`http://192.0.2.1:4517`): pairing codes then come as URLs. The
    /// newest counts, as long as what is returned is kept.
    #[must_use]
    pub fn listening(&self, base_url: &str) -> Listening {
        let base = base_url.trim_end_matches('/').to_owned();
        self.shared.audit.note(&AuditEvent {
            event: "listener_opened",
            detail: Some(&base),
            ..AuditEvent::default()
        });
        self.shared.bases.lock().push(base.clone());
        Listening { access: self.clone(), base }
    }

    /// The addresses that are open now.
    #[must_use]
    pub fn listeners(&self) -> Vec<String> {
        self.shared.bases.lock().clone()
    }

    /// Where the home's own token lies, once there is one.
    #[must_use]
    pub fn home_token_file(&self) -> std::path::PathBuf {
        self.shared.home.token_file()
    }

    /// The home's own token, which makes an owner. Written to the home's `token` (0600) if there is none.
    ///
    /// # Errors
    /// If it cannot be read or written, others may read it, or it is too short.
    pub fn home_token(&self) -> Result<String, AccessError> {
        let path = self.shared.home.token_file();
        let token = match keys::text_of(&path) {
            Ok(text) => keys::long_enough(&path, text.trim())?.to_owned(),
            Err(KeysError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                let token = secret::new(Kind::Home)?;
                self.shared.home.write_private("token", format!("{token}\n").as_bytes())?;
                token
            }
            Err(error) => return Err(error.into()),
        };
        *self.shared.home_token.lock() = Some(Hashed::of(&token));
        Ok(token)
    }

    /// Lets somebody in by a bearer token (`Authorization: Bearer …`, or the WebSocket subprotocol `bearer.…`), without its
    /// scheme, or without one, if the listener is open to this machine.
    ///
    /// # Errors
    /// 401 if the token is missing or worth nothing, 429 if this address has guessed too often.
    pub async fn authenticate(&self, credential: Option<&str>, from: IpAddr) -> Result<Caller, Refused> {
        let Some(credential) = credential.map(str::trim).filter(|text| !text.is_empty()) else {
            if let Some(role) = self.keys.open.filter(|_| from.to_canonical().is_loopback()) {
                return Ok(Caller::open(role, "local"));
            }
            let message = "a bearer token is needed: `Authorization: Bearer …`, or the WebSocket subprotocol `bearer.…`";
            return Err(Refused::unauthorized("bearer", message));
        };
        if credential.len() > CREDENTIAL_BYTES {
            return Err(self.refused(from, "bearer", "the token is longer than any that could be right"));
        }
        match Kind::of(credential) {
            Some(Kind::Device) => self.device(credential, from),
            Some(Kind::Home) if self.is_home_token(credential) => Ok(Caller::open(Role::Owner, "home token")),
            Some(Kind::Pairing) => Err(self.refused(
                from,
                "bearer",
                "this is a pairing code; POST /api/pair makes a bearer of it",
            )),
            Some(Kind::Ticket) => {
                Err(self.refused(from, "bearer", "this is a ticket, which opens /ws?ticket= alone"))
            }
            _ => self.other(credential, from),
        }
    }

    /// The bearer of a device.
    fn device(&self, bearer: &str, from: IpAddr) -> Result<Caller, Refused> {
        match self.shared.devices.enter(bearer) {
            Ok((row, presence)) => Ok(Caller::device(row.id, role_of(row.role), &row.name, presence)),
            Err(Unknown::Expired) => {
                let message = "the device's pairing has expired; pair it again";
                Err(self.refused(from, "bearer", message))
            }
            Err(Unknown::Nobody) => {
                let message = "no device has this bearer token; it may have been revoked";
                Err(self.refused(from, "bearer", message))
            }
        }
    }

    /// A token that is none of ours by its looks.
    fn other(&self, token: &str, from: IpAddr) -> Result<Caller, Refused> {
        let mut wrong = "no such token".to_owned();
        if let Some(signed) = self.keys.signed.as_ref().filter(|_| signed::Signed::is_meant(token)) {
            match signed.check(token, self.shared.clock.wall_ms()) {
                Ok(claimed) => {
                    let clock = self.shared.clock.clone();
                    return Ok(Caller::until(claimed.role, &claimed.name, claimed.until_ms, clock));
                }
                Err(why) => wrong = why,
            }
        }
        if let Some(left) = self.shared.limits.locked(from) {
            return Err(Refused::too_many("bearer", left));
        }
        let hash = Hashed::of(token);
        // All of them, whichever it is: the time tells nothing.
        let found = self.keys.tokens.iter().filter(|one| one.hash == hash).fold(None, |_, one| Some(one));
        if let Some(found) = found {
            return Ok(Caller::open(found.role, &found.name));
        }
        // Somebody may have put a token of their own into the home.
        if self.is_home_token(token) {
            return Ok(Caller::open(Role::Owner, "home token"));
        }
        Err(self.refused(from, "bearer", &wrong))
    }

    fn is_home_token(&self, token: &str) -> bool {
        let hash = Hashed::of(token);
        self.shared.home_token.lock().is_some_and(|ours| ours == hash)
    }

    /// Lets somebody in by a ticket of `POST /api/ws-ticket`, which is used up by it.
    ///
    /// # Errors
    /// 401 if there is no such ticket (any more), 429 if this address has guessed too often.
    pub async fn redeem(&self, ticket: Option<&str>, from: IpAddr) -> Result<Caller, Refused> {
        let Some(ticket) = ticket.filter(|text| !text.is_empty()) else {
            let message = "a ticket is needed: POST /api/ws-ticket gives one, then /ws?ticket=…";
            return Err(Refused::unauthorized("ticket", message));
        };
        let held = (ticket.len() <= CREDENTIAL_BYTES && Kind::of(ticket) == Some(Kind::Ticket))
            .then(|| self.shared.tickets.lock().take(Hashed::of(ticket), &self.shared.clock))
            .flatten();
        let caller = match held {
            Some(Holder::Device(id)) => self
                .shared
                .devices
                .enter_as(id)
                .map(|(row, presence)| Caller::device(row.id, role_of(row.role), &row.name, presence)),
            Some(Holder::Other(caller)) => (!caller.is_over()).then_some(caller),
            None => None,
        };
        caller.ok_or_else(|| {
            let message =
                "the ticket is wrong, was used before, or is older than five minutes; ask for a new one";
            self.refused(from, "ticket", message)
        })
    }

    /// Counts a failure, and says what is answered.
    fn refused(&self, from: IpAddr, needs: &'static str, message: &str) -> Refused {
        // What is refused unseen is neither counted nor noted again: the log must not be flooded.
        if let Some(left) = self.shared.limits.locked(from) {
            return Refused::too_many(needs, left);
        }
        let address = Some(from.to_canonical());
        let detail = Some(message);
        self.shared.audit.note(&AuditEvent { event: "refused", address, detail, ..AuditEvent::default() });
        if let Failed::LockedOut(time) = self.shared.limits.failed(from) {
            let detail = format!("too many attempts: {} s", time.as_secs());
            let detail = Some(detail.as_str());
            self.shared.audit.note(&AuditEvent {
                event: "locked_out",
                address,
                detail,
                ..AuditEvent::default()
            });
            return Refused::too_many(needs, time);
        }
        Refused::unauthorized(needs, message)
    }
}

/// A listener is open, as long as this is kept.
#[derive(Debug)]
pub struct Listening {
    access: Access,
    base: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let shared = &self.access.shared;
        let mut bases = shared.bases.lock();
        if let Some(place) = bases.iter().rposition(|base| *base == self.base) {
            bases.remove(place);
        }
        drop(bases);
        let detail = Some(self.base.as_str());
        shared.audit.note(&AuditEvent { event: "listener_closed", detail, ..AuditEvent::default() });
    }
}

/// The role of a device.
fn role_of(role: DeviceRole) -> Role {
    match role {
        DeviceRole::Observer => Role::Observer,
        DeviceRole::Operator => Role::Operator,
        DeviceRole::Owner => Role::Owner,
    }
}

/// How a role is stored.
fn stored(role: Role) -> DeviceRole {
    match role {
        Role::Observer => DeviceRole::Observer,
        Role::Operator => DeviceRole::Operator,
        Role::Owner => DeviceRole::Owner,
    }
}
