//! The handshake.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lenient::null_as_default;

/// Params of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    #[serde(default, deserialize_with = "null_as_default")]
    pub capabilities: ClientCapabilities,
}

/// Who the client is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientInfo {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub version: String,
}

/// What the client can do and wants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCapabilities {
    /// Accepted, not needed: nothing here is behind it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub experimental_api: bool,
    /// Notifications this connection does not want, by exact name.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub opt_out_notification_methods: Vec<String>,
    /// Ext: raw core events.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "OpEvents::is_off")]
    pub op_events: OpEvents,
    /// Ext: the client can take `thread/resyncRequired` instead of being disconnected when it is too slow.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub resync: bool,
    /// Ext: merge deltas to at most one an item in this time; 0 or absent: as they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_interval_ms: Option<u32>,
}

/// Which raw core events a connection gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OpEvents {
    /// `false`
    #[default]
    Off,
    /// `true`: those of its subscribed threads.
    Subscribed,
    /// `"all"`
    All,
}

impl OpEvents {
    /// Whether there are none.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

impl Serialize for OpEvents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Subscribed => serializer.serialize_bool(true),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for OpEvents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl Visitor<'_> for Choice {
            type Value = OpEvents;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or \"all\"")
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<OpEvents, E> {
                Ok(if on { OpEvents::Subscribed } else { OpEvents::Off })
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<OpEvents, E> {
                match word {
                    "all" => Ok(OpEvents::All),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

impl JsonSchema for OpEvents {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpEvents".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`true`: raw core events of subscribed threads. `\"all\"`: of all threads.",
            "x-untagged": true,
            "oneOf": [
                { "title": "OpEventsSubscribed", "type": "boolean" },
                { "title": "OpEventsAll", "type": "string", "const": "all" },
            ],
        })
    }
}

/// Result of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The client's name, a slash, this server's version, and the platform in parentheses.
    pub user_agent: String,
    /// Equal to `home`.
    pub codex_home: String,
    /// `unix` or `windows`.
    pub platform_family: String,
    /// `linux`, `macos`, …
    pub platform_os: String,
    /// Ext.
    pub server_info: ServerInfo,
    /// Ext: the version of this API.
    pub protocol_version: u32,
    /// Ext: the absolute path of the server's home.
    pub home: String,
    /// Ext: what this connection may do.
    pub role: ConnectionRole,
    /// Ext.
    pub capabilities: ServerCapabilities,
}

/// Ext: who the server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    /// The version of the bridge that carries this connection, if it is another than the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge_version: Option<String>,
}

/// Ext: what a connection may do; each includes what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConnectionRole {
    /// Reads.
    Observer,
    /// Also prompts and answers.
    Operator,
    /// Also pairs, revokes and configures.
    Owner,
}

/// Ext: what this server can do beyond the API it shares with others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// `op/submit` and the `opEvents` capability.
    #[serde(default, deserialize_with = "null_as_default")]
    pub op_events: bool,
    /// `thread/resyncRequired`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub resync: bool,
    /// `deltaIntervalMs`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub delta_interval: bool,
    /// `turn/start` with `mode: "steer"` and `turn/steer`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub steer: bool,
    /// `approval/list` and `approval/respond`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub approvals: bool,
    /// Threads in worktrees of their own.
    #[serde(default, deserialize_with = "null_as_default")]
    pub worktrees: bool,
    /// Batches of requests.
    #[serde(default, deserialize_with = "null_as_default")]
    pub batches: bool,
}
