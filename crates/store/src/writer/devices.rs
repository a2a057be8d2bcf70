//! Paired devices: rows of their own, beside the facts. Each change is answered when the disk has it.

use signalbox_facts::{DeviceId, DeviceRow};
use tokio::sync::oneshot;

use super::Writer;
use super::pipeline::Job;
use crate::StoreError;
use crate::sql::Statement;

impl Writer {
    /// Stores a new device.
    ///
    /// # Errors
    /// If the database cannot do it now; then nothing is stored.
    pub async fn add_device(&self, device: &DeviceRow) -> Result<(), StoreError> {
        let insert = "insert into devices (id, name, role, hash, created_at_ms, expires_at_ms, last_seen_ms) \
                      values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let statement = Statement::new(insert)
            .id(device.id.0)
            .bind(device.name.as_str())
            .bind(device.role.name())
            .bind(device.hash.to_vec())
            .bind(device.created_at_ms)
            .bind(device.expires_at_ms)
            .bind(device.last_seen_ms);
        self.change_device("pairing a device", statement).await.map(drop)
    }

    /// Notes that a device was used, and until when it may be used further. False if there is no such device any more.
    ///
    /// # Errors
    /// If the database cannot do it now.
    pub async fn renew_device(
        &self,
        device: DeviceId,
        last_seen_ms: i64,
        expires_at_ms: i64,
    ) -> Result<bool, StoreError> {
        let update = "update devices set last_seen_ms = ?2, expires_at_ms = ?3 where id = ?1";
        let statement = Statement::new(update).id(device.0).bind(last_seen_ms).bind(expires_at_ms);
        self.change_device("renewing a device", statement).await
    }

    /// Removes a device. False if there is none.
    ///
    /// # Errors
    /// If the database cannot do it now; then the device is still there.
    pub async fn remove_device(&self, device: DeviceId) -> Result<bool, StoreError> {
        let statement = Statement::new("delete from devices where id = ?1").id(device.0);
        self.change_device("revoking a device", statement).await
    }

    async fn change_device(&self, what: &'static str, statement: Statement) -> Result<bool, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Row { statement, reply };
        self.shared.queue.send(job).await.map_err(|_| StoreError::Closed)?;
        let changed = answer.await.map_err(|_| StoreError::Closed)?.map_err(StoreError::database(what))?;
        self.flush().await.map_err(|error| StoreError::database(what)(error.into()))?;
        Ok(changed)
    }
}
