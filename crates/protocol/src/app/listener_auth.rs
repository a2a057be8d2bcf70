//! Who may come in at one listener, beside the home's own token and paired devices (Ext).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConnectionRole;

/// What opens a listener beside the home's token and the bearers of devices, which always do. Paths are absolute; the server
/// reads the files when the listener is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerAuth {
    /// What whoever comes from this machine may do without a credential; nothing if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_local: Option<ConnectionRole>,
    /// A file of static tokens (TOML).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_file: Option<String>,
    /// The options of existing clients' servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ws_auth: Option<WsAuth>,
}

/// `--ws-auth`. Who comes in by it is an operator, unless a signed token says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum WsAuth {
    /// One token, compared by its hash. Exactly one of the two is given.
    CapabilityToken {
        /// The file that holds the token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_file: Option<String>,
        /// SHA-256 of the token, 64 hexadecimal digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_sha256: Option<String>,
    },
    /// Tokens (JWT, HS256) that whoever has the secret can make.
    SignedBearerToken {
        /// The file that holds the secret, of at least 32 bytes.
        shared_secret_file: String,
        /// What `iss` must be, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issuer: Option<String>,
        /// What `aud` must be or have, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
        /// How far clocks may differ, in seconds; 30 unless said otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_clock_skew_seconds: Option<u64>,
    },
}
