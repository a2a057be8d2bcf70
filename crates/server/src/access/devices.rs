//! The devices: what the store has of them, in memory, and who of them is here.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_facts::{DeviceId, DeviceRow};
use signalbox_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clock::Clock;
use super::secret::Hashed;

/// Devices at a time; each costs a row.
pub(super) const DEVICES: usize = 1000;
/// A use is written at most so often.
const WRITTEN_EVERY_MS: i64 = 60 * 60 * 1000;
/// After a write that failed, the next one waits so long.
const AGAIN: Duration = Duration::from_secs(60);
/// Longest sleep between two looks at the wall clock, which may jump.
const LOOK: Duration = Duration::from_secs(60);

/// All devices of a home. Cheap to clone.
#[derive(Clone)]
pub(super) struct Devices(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    /// How long a bearer is good for, from its last use that was written.
    life: Duration,
    tasks: TaskTracker,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    devices: BTreeMap<DeviceId, Entry>,
    by_hash: HashMap<Hashed, DeviceId>,
    /// Places that are taken by devices which are being stored.
    adding: usize,
}

struct Entry {
    row: DeviceRow,
    state: Arc<State>,
    /// A use is being written.
    renewing: bool,
    /// No write before this, on the steady clock.
    not_before: Duration,
}

/// What the connections of a device share.
struct State {
    revoked: CancellationToken,
    expires_at_ms: AtomicI64,
    connections: AtomicU32,
}

/// A device was not found by its bearer, or is out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No device has this bearer.
    Nobody,
    /// One has, but it must be paired again.
    Expired,
}

/// A device could not be added.
#[derive(Debug, thiserror::Error)]
pub(super) enum AddError {
    /// There are [`DEVICES`] already.
    #[error("there are {DEVICES} devices already; revoke some")]
    Full,
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Devices {
    pub(super) async fn load(
        store: Store,
        clock: Clock,
        life: Duration,
        tasks: TaskTracker,
    ) -> Result<Self, StoreError> {
        let mut table = Table::default();
        for row in store.reader.devices().await? {
            table.insert(row);
        }
        Ok(Self(Arc::new(Inner { store, clock, life, tasks, table: Mutex::new(table) })))
    }

    /// When a device that is used now expires, unix milliseconds.
    pub(super) fn expiry(&self) -> i64 {
        let life = i64::try_from(self.0.life.as_millis()).unwrap_or(i64::MAX);
        self.0.clock.wall_ms().saturating_add(life)
    }

    /// Stores a new device. Nothing of it is left if it cannot be.
    pub(super) async fn add(&self, row: DeviceRow) -> Result<(), AddError> {
        let _place = {
            let mut table = self.0.table.lock();
            if table.devices.len() + table.adding >= DEVICES {
                return Err(AddError::Full);
            }
            table.adding += 1;
            Adding(self)
        };
        let id = row.id;
        if let Err(error) = self.0.store.writer.add_device(&row).await {
            // It may be there all the same, if only the sync has failed; its bearer is known to nobody.
            if let Err(error) = self.0.store.writer.remove_device(id).await {
                tracing::debug!(device = %id, %error, "a device that may be half stored cannot be removed now");
            }
            return Err(error.into());
        }
        self.0.table.lock().insert(row);
        Ok(())
    }

    /// The device with this bearer, as it is stored, and its place among those that are here. Counts as a use.
    pub(super) fn enter(&self, bearer: &str) -> Result<(DeviceRow, Presence), Unknown> {
        let hash = Hashed::of(bearer);
        let (row, state) = {
            let table = self.0.table.lock();
            let id = table.by_hash.get(&hash).ok_or(Unknown::Nobody)?;
            let entry = table.devices.get(id).ok_or(Unknown::Nobody)?;
            (entry.row.clone(), Arc::clone(&entry.state))
        };
        if row.expires_at_ms <= self.0.clock.wall_ms() {
            return Err(Unknown::Expired);
        }
        self.used(row.id);
        Ok((row.clone(), Presence::new(self.clone(), row.id, state)))
    }

    /// The same for a device that is known already, by a ticket.
    pub(super) fn enter_as(&self, id: DeviceId) -> Option<(DeviceRow, Presence)> {
        let (row, state) = {
            let table = self.0.table.lock();
            let entry = table.devices.get(&id)?;
            (entry.row.clone(), Arc::clone(&entry.state))
        };
        (row.expires_at_ms > self.0.clock.wall_ms()).then(|| {
            self.used(id);
            (row, Presence::new(self.clone(), id, state))
        })
    }

    /// Writes a use in the background, if the last one that was written is long ago.
    fn used(&self, id: DeviceId) {
        let (now, steady) = (self.0.clock.wall_ms(), self.0.clock.steady());
        {
            let mut table = self.0.table.lock();
            let Some(entry) = table.devices.get_mut(&id) else { return };
            // Also if the clock was set back: then what is written is from the future.
            let recent = |seen: i64| now.abs_diff(seen) < WRITTEN_EVERY_MS.unsigned_abs();
            if entry.renewing || steady < entry.not_before || entry.row.last_seen_ms.is_some_and(recent) {
                return;
            }
            entry.renewing = true;
        }
        let (devices, expires_at_ms) = (self.clone(), self.expiry());
        self.0.tasks.spawn(async move {
            let written = devices.0.store.writer.renew_device(id, now, expires_at_ms).await;
            if let Err(error) = &written {
                tracing::warn!(device = %id, %error, "the use of a device could not be written; tried again later");
            }
            let mut table = devices.0.table.lock();
            let Some(entry) = table.devices.get_mut(&id) else { return };
            entry.renewing = false;
            if written.is_ok() {
                entry.row.last_seen_ms = Some(now);
                entry.row.expires_at_ms = expires_at_ms;
                entry.state.expires_at_ms.store(expires_at_ms, Ordering::Relaxed);
            } else {
                entry.not_before = devices.0.clock.steady().saturating_add(AGAIN);
            }
        });
    }

    /// Removes a device and ends its connections; how many those are. `None` if there is none. If it cannot be stored,
    /// everything stays as it is.
    pub(super) async fn revoke(&self, id: DeviceId) -> Result<Option<(DeviceRow, u32)>, StoreError> {
        let known = self.0.table.lock().devices.contains_key(&id);
        // Also one that is not known here: its row could not be read.
        let removed = self.0.store.writer.remove_device(id).await?;
        let Some(entry) = self.0.table.lock().remove(id) else {
            tracing::debug!(device = %id, known, removed, "a device to revoke is not there");
            return Ok(None);
        };
        entry.state.revoked.cancel();
        Ok(Some((entry.row, entry.state.connections.load(Ordering::Relaxed))))
    }

    /// All of them, oldest first, with the number of their connections.
    pub(super) fn list(&self) -> Vec<(DeviceRow, u32)> {
        let table = self.0.table.lock();
        let connections = |entry: &Entry| entry.state.connections.load(Ordering::Relaxed);
        table.devices.values().map(|entry| (entry.row.clone(), connections(entry))).collect()
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Devices").field(&self.0.table.lock().devices.len()).finish()
    }
}

impl Table {
    fn insert(&mut self, row: DeviceRow) {
        let state = State {
            revoked: CancellationToken::new(),
            expires_at_ms: AtomicI64::new(row.expires_at_ms),
            connections: AtomicU32::new(0),
        };
        self.by_hash.insert(Hashed(row.hash), row.id);
        let entry = Entry { state: Arc::new(state), renewing: false, not_before: Duration::ZERO, row };
        self.devices.insert(entry.row.id, entry);
    }

    fn remove(&mut self, id: DeviceId) -> Option<Entry> {
        let entry = self.devices.remove(&id)?;
        self.by_hash.remove(&Hashed(entry.row.hash));
        Some(entry)
    }
}

/// A place in the table that is held while a device is stored.
struct Adding<'a>(&'a Devices);

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.0.0.table.lock().adding -= 1;
    }
}

/// A device is here, as long as this is kept.
pub(super) struct Presence {
    devices: Devices,
    id: DeviceId,
    state: Arc<State>,
}

impl Presence {
    fn new(devices: Devices, id: DeviceId, state: Arc<State>) -> Self {
        state.connections.fetch_add(1, Ordering::Relaxed);
        Self { devices, id, state }
    }

    /// Whether the device has been revoked since.
    pub(super) fn is_revoked(&self) -> bool {
        self.state.revoked.is_cancelled()
    }

    /// Waits until the device is revoked or has expired, and says which. Being here counts as use.
    pub(super) async fn ended(&self) -> &'static str {
        let clock = &self.devices.0.clock;
        loop {
            let left = self.state.expires_at_ms.load(Ordering::Relaxed).saturating_sub(clock.wall_ms());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else {
                return "the device's pairing has expired";
            };
            self.devices.used(self.id);
            tokio::select! {
                biased;
                () = self.state.revoked.cancelled() => return "the device was revoked",
                () = tokio::time::sleep(Duration::from_millis(left).min(LOOK)) => {}
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.state.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
