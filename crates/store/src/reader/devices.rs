//! Paired devices.

use signalbox_facts::{DeviceId, DeviceRole, DeviceRow};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Reader;
use crate::StoreError;
use crate::sql::Statement;

impl Reader {
    /// All devices, oldest first. A row that cannot be read is left out, and nobody gets in by it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn devices(&self) -> Result<Vec<DeviceRow>, StoreError> {
        let sql = "select id, name, role, hash, created_at_ms, expires_at_ms, last_seen_ms from devices order by id";
        let mut lease = self.lease().await?;
        let rows = lease.rows(Statement::new(sql)).await.map_err(StoreError::database("reading devices"))?;
        lease.done();
        Ok(rows.iter().filter_map(device).collect())
    }
}

fn device(row: &SqliteRow) -> Option<DeviceRow> {
    let read = || {
        Some(DeviceRow {
            id: DeviceId(uuid::Uuid::from_slice(row.try_get("id").ok()?).ok()?),
            name: row.try_get("name").ok()?,
            role: DeviceRole::of(row.try_get("role").ok()?)?,
            hash: row.try_get::<&[u8], _>("hash").ok()?.try_into().ok()?,
            created_at_ms: row.try_get("created_at_ms").ok()?,
            // No device is for ever; one that is stored so is not of this program's making.
            expires_at_ms: row.try_get::<Option<i64>, _>("expires_at_ms").ok()?.unwrap_or(0),
            last_seen_ms: row.try_get("last_seen_ms").ok()?,
        })
    };
    let device = read();
    if device.is_none() {
        tracing::error!("a stored device cannot be read and is left out");
    }
    device
}
