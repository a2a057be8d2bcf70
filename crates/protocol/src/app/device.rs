//! `pairing/*` and `device/*` (Ext): letting remote clients in, and out again. For owners only.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConnectionRole;

/// Params of `pairing/create`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingCreateParams {
    /// What the device may do; an operator unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ConnectionRole>,
    /// The device's name, whatever the device calls itself. Cut after 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// Where the device reaches this server (`https://box.example:4517`), if that is not the address of an open listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}

/// Result of `pairing/create`. The code is a secret: whoever has it first becomes the device.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingCreateResult {
    /// What the device opens, `BASE/pair#token=CODE`: the code is in the fragment, which browsers send nowhere. `null` if
    /// no listener is open and no `baseUrl` was given.
    pub url: Option<String>,
    /// What `POST /api/pair` takes as `token`, once.
    pub code: String,
    /// What the device will be allowed.
    pub role: ConnectionRole,
    /// Unix seconds after which the code is worth nothing.
    pub expires_at: i64,
    /// The same, as seconds from now.
    pub expires_in: u64,
}

/// Without the code, which belongs into no log.
impl fmt::Debug for PairingCreateResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairingCreateResult")
            .field("role", &self.role)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Params of `device/list`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceListParams {}

/// Result of `device/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceListResult {
    /// Every device that was paired and not revoked, oldest first.
    pub data: Vec<Device>,
}

/// A paired device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub id: String,
    pub name: String,
    /// What it may do.
    pub role: ConnectionRole,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds after which it must be paired again. Moves on as the device is used.
    pub expires_at: i64,
    /// Whether that has passed.
    pub expired: bool,
    /// Unix seconds of its last use, to the hour; `null` if it has never been used.
    pub last_seen_at: Option<i64>,
    /// Connections it has now.
    pub connections: u32,
}

/// Params of `device/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRevokeParams {
    /// One of `device/list`.
    pub device_id: String,
}

/// Result of `device/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRevokeResult {
    /// How many connections of the device end with it.
    pub closed_connections: u32,
}
