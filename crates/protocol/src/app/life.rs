//! `server/stop` and `listener/open` (Ext): the server's own life, and where else it listens. For owners only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ListenerAuth;

/// Params of `server/stop`: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServerStopParams {}

/// Result of `server/stop`: what ends. The server has begun to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStopResult {
    /// The server's process.
    pub pid: u32,
    /// Turns that run or wait for an answer; each ends as interrupted.
    pub open_turns: u64,
    /// Connections on the home's socket beside the caller's.
    pub other_connections: u64,
}

/// Params of `listener/open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerOpenParams {
    /// `ws://IP:PORT`, `wss://IP:PORT` or `unix://PATH`; port 0 is one that is free. Without a path, `unix://` is the home's
    /// socket, which is open anyway.
    pub listen: String,
    /// Origins of web pages that may use it, beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<String>,
    /// Names under which it may be reached, beside localhost and the address itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Who comes in beside the home's token and paired devices.
    #[serde(default)]
    pub auth: ListenerAuth,
    /// Other machines may connect although what is said can be read on the way.
    #[serde(default)]
    pub insecure: bool,
    /// Serves TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
}

/// Where a listener's certificate and key lie: absolute paths, PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// The certificate, and the chain behind it.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

/// Result of `listener/open`. The address is open until the caller's connection ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerOpenResult {
    /// Where it listens, with the port that was chosen.
    pub listen: String,
    /// The URL of everything but WebSocket; `null` for a unix socket.
    pub http_url: Option<String>,
    /// Whether somebody gets in without a credential.
    pub open: bool,
    /// The file with the home's token, which makes an owner; `null` where none is needed.
    pub token_file: Option<String>,
}
