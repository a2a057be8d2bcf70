//! The methods about pairing and devices, as the app-server's table asks for them.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use signalbox_app_server::{ApprovalAnswered, DoorCaller, Doors};
use signalbox_facts::{DeviceId, DeviceRole};
use signalbox_protocol::app::{
    Device, DeviceListResult, DeviceRevokeParams, DeviceRevokeResult, PairingCreateParams,
    PairingCreateResult,
};
use signalbox_rpc::{RpcError, SERVER_OVERLOADED};

use super::keys::role_out;
use super::pairing::CodeError;
use super::{Access, AuditEvent, role_of};

/// Something that was named is not there.
const NOT_THERE: i32 = -32023;
/// The store.
const STORAGE: i32 = -32024;

/// The doors of a server that has nothing but access to offer.
#[derive(Debug, Clone)]
pub struct AccessDoors(pub Access);

impl Doors for AccessDoors {
    fn pairing_create(
        &self,
        caller: DoorCaller,
        params: PairingCreateParams,
    ) -> BoxFuture<'static, Result<PairingCreateResult, RpcError>> {
        let access = self.0.clone();
        async move { access.pairing_create(&caller, params) }.boxed()
    }

    fn device_list(&self, _: DoorCaller) -> BoxFuture<'static, Result<DeviceListResult, RpcError>> {
        let access = self.0.clone();
        async move { Ok(access.device_list()) }.boxed()
    }

    fn approval_answered(&self, caller: DoorCaller, answered: ApprovalAnswered) {
        let ApprovalAnswered { thread, approval, decision } = answered;
        // The word of the wire; a plain enum is nothing but a text.
        let decision = serde_json::to_value(decision).unwrap_or_default();
        self.0.shared.audit.note(&AuditEvent {
            event: "approval_answered",
            who: Some(&caller.name),
            role: Some(caller.role.name()),
            thread: Some(&thread),
            approval: Some(&approval),
            detail: decision.as_str(),
            ..AuditEvent::default()
        });
    }

    fn device_revoke(
        &self,
        caller: DoorCaller,
        params: DeviceRevokeParams,
    ) -> BoxFuture<'static, Result<DeviceRevokeResult, RpcError>> {
        let access = self.0.clone();
        async move { access.device_revoke(&caller, params).await }.boxed()
    }
}

impl Access {
    /// `pairing/create`.
    ///
    /// # Errors
    /// If the parameters make no sense, or too many codes wait.
    pub fn pairing_create(
        &self,
        caller: &DoorCaller,
        params: PairingCreateParams,
    ) -> Result<PairingCreateResult, RpcError> {
        let made = self.offer(params).map_err(|error| match error {
            CodeError::TooMany => {
                RpcError::new(SERVER_OVERLOADED, "server_overloaded", error.to_string()).retryable()
            }
            CodeError::BaseUrl => RpcError::invalid_params(error, "baseUrl", None),
            CodeError::Access(error) => RpcError::internal(error),
        })?;
        self.shared.audit.note(&AuditEvent {
            event: "pairing_created",
            who: Some(&caller.name),
            role: Some(role_name(&made)),
            ..AuditEvent::default()
        });
        Ok(made)
    }

    /// `device/list`.
    #[must_use]
    pub fn device_list(&self) -> DeviceListResult {
        let now = self.shared.clock.wall_ms();
        let device = |(row, connections): (signalbox_facts::DeviceRow, u32)| Device {
            id: row.id.to_string(),
            name: row.name,
            role: role_out(role_of(row.role)),
            created_at: row.created_at_ms / 1000,
            expires_at: row.expires_at_ms / 1000,
            expired: row.expires_at_ms <= now,
            last_seen_at: row.last_seen_ms.map(|at| at / 1000),
            connections,
        };
        DeviceListResult { data: self.shared.devices.list().into_iter().map(device).collect() }
    }

    /// `device/revoke`.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be stored: then the device is as good as before.
    pub async fn device_revoke(
        &self,
        caller: &DoorCaller,
        params: DeviceRevokeParams,
    ) -> Result<DeviceRevokeResult, RpcError> {
        let not_there = || {
            let message = format!(
                "device not found: {}; `signalbox devices` (device/list) has those there are",
                params.device_id
            );
            RpcError::new(NOT_THERE, "device_not_found", message)
        };
        let id: DeviceId = params.device_id.parse().map_err(|_not_ours| not_there())?;
        let revoked = self.shared.devices.revoke(id).await.map_err(|error| {
            tracing::error!(device = %id, %error, "a device could not be revoked");
            let message = "the device could not be removed and may still be used; try again";
            RpcError::new(STORAGE, "storage_failed", message).retryable()
        })?;
        let Some((row, connections)) = revoked else { return Err(not_there()) };
        self.shared.tickets.lock().withdraw(id);
        if row.role == DeviceRole::Owner {
            // It may have made codes, by which it would be back in a minute.
            self.shared.codes.lock().withdraw();
        }
        self.shared.audit.note(&AuditEvent {
            event: "revoked",
            who: Some(&caller.name),
            device: Some(id),
            role: Some(row.role.name()),
            detail: Some(&row.name),
            ..AuditEvent::default()
        });
        Ok(DeviceRevokeResult { closed_connections: connections })
    }
}

fn role_name(made: &PairingCreateResult) -> &'static str {
    super::keys::role_in(made.role).name()
}
