//! Approval and sandbox as existing clients say them. The core's own pair is `ops::Policy`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;

/// When a client wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskForApproval {
    Untrusted,
    /// `on-failure` of older clients is read as this.
    #[serde(alias = "on-failure")]
    OnRequest,
    /// "Never ask me": what is not allowed is rejected.
    Never,
    Granular(GranularApproval),
}

/// Which kinds of request reach the client. All of them are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct GranularApproval {
    #[serde(default, deserialize_with = "null_as_default")]
    pub mcp_elicitations: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub request_permissions: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub rules: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub sandbox_approval: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub skill_approval: bool,
}

/// Who reviews approvals. Accepted in any form, always answered `user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsReviewer {
    #[default]
    User,
    AutoReview,
    GuardianSubagent,
}

/// The sandbox of a thread by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

/// The sandbox of a thread in detail. Network and finer root limits are told back but not enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SandboxPolicy {
    DangerFullAccess,
    ReadOnly {
        #[serde(default, deserialize_with = "null_as_default")]
        network_access: bool,
    },
    ExternalSandbox {
        #[serde(default, deserialize_with = "null_as_default")]
        network_access: NetworkAccess,
    },
    WorkspaceWrite {
        #[serde(default, deserialize_with = "null_as_default")]
        writable_roots: Vec<String>,
        #[serde(default, deserialize_with = "null_as_default")]
        network_access: bool,
        #[serde(default, deserialize_with = "null_as_default")]
        exclude_tmpdir_env_var: bool,
        #[serde(default, deserialize_with = "null_as_default")]
        exclude_slash_tmp: bool,
    },
}

/// What an external sandbox lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkAccess {
    #[default]
    Restricted,
    Enabled,
}
