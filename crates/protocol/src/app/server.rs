//! The server itself (Ext): whether it lives, and raw ops.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// Result of `rpc.discover`: an OpenRPC document. Cheap to clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenRpcDocument(Arc<RawValue>);

impl OpenRpcDocument {
    /// Of JSON that is one.
    #[must_use]
    pub fn new(document: Box<RawValue>) -> Self {
        Self(document.into())
    }

    /// The document.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl JsonSchema for OpenRpcDocument {
    fn schema_name() -> Cow<'static, str> {
        "OpenRpcDocument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An OpenRPC document.",
            "type": "object",
            "properties": {
                "openrpc": { "type": "string" },
                "info": { "type": "object" },
                "methods": { "type": "array", "items": { "type": "object" } },
                "components": { "type": "object" },
            },
            "required": ["openrpc", "info", "methods"],
        })
    }
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
    /// Ext: the same client message was accepted before, into this turn; nothing comes of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_turn_id: Option<String>,
}

/// Params of `$/cancelRequest`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequestParams {
    pub id: RequestId,
}
