//! The server itself (Ext): whether it lives, and raw ops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::RequestId;
use crate::ops::Op;

/// Params of `server/health`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServerHealthParams {}

/// Result of `server/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerHealthResult {
    pub status: HealthStatus,
    pub version: String,
    pub uptime_ms: u64,
}

/// Whether the server takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HealthStatus {
    Ok,
    /// It finishes what runs and then leaves.
    Draining,
    /// It runs, but something it needs does not; logs and `server/diagnostics` say what.
    Degraded,
}

/// Params of `op/submit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpSubmitParams {
    pub op: Op,
}

/// Result of `op/submit`. What comes of the op is told by events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpSubmitResult {
    pub submission_id: String,
}

/// Params of `$/cancelRequest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequestParams {
    pub id: RequestId,
}
