//! Methods that existing clients call and that have little or no meaning here: answered truthfully and well-formed, so
//! that those clients start. The types are here because nothing else uses them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signalbox_protocol::app::{AskForApproval, SandboxPolicy, TurnEnvironment};
use signalbox_protocol::ops::PolicyPatch;
use signalbox_rpc::{Ctx, Lane, MethodSpec, NoParams, Registry, RpcError};

use super::settings::profiles;
use crate::app::AppServer;

pub(super) const THREAD_NAME_SET: &str = "thread/name/set";
pub(super) const THREAD_SETTINGS_UPDATE: &str = "thread/settings/update";

/// Params of `thread/name/set`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadSetNameParams {
    /// The thread.
    pub(super) thread_id: String,
    /// Its title from now on.
    pub(super) name: String,
}

/// Params of `thread/settings/update`. What is absent stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadSettingsUpdateParams {
    /// The thread.
    pub(super) thread_id: String,
    /// An existing directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
    /// Additional workspace roots, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) runtime_workspace_roots: Option<Vec<String>>,
    /// The agent's own model id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Reasoning effort in the agent's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<String>,
    /// When to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approval_policy: Option<AskForApproval>,
    /// The ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sandbox_policy: Option<SandboxPolicy>,
    /// An id of `permissionProfile/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<String>,
    /// Only `local` exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) environments: Option<Vec<TurnEnvironment>>,
    /// Ext: wins over `approvalPolicy` and `sandboxPolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<PolicyPatch>,
}

/// A list that is empty here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EmptyListResult {
    /// Always empty.
    pub(super) data: Vec<Value>,
    /// Always `null`.
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

/// Result of `plugin/installed`: there are no plugins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PluginInstalledResult {
    /// Always empty.
    pub(super) marketplaces: Vec<Value>,
    /// Always empty.
    pub(super) marketplace_load_errors: Vec<Value>,
}

/// Result of `permissionProfile/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionProfileListResult {
    /// All of them: each mode with each sandbox.
    pub(super) data: Vec<PermissionProfileSummary>,
    /// Always `null`.
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

/// A policy by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionProfileSummary {
    /// What `permissions` of `thread/start` takes.
    pub(super) id: String,
    /// Always true.
    pub(super) allowed: bool,
    /// For people.
    #[serde(default)]
    pub(super) description: Option<String>,
}

pub(super) fn register(registry: &mut Registry<AppServer>) {
    let empty: [(&str, &str); 5] = [
        ("hooks/list", "Hooks; there are none."),
        (
            "collaborationMode/list",
            "Collaboration modes; there is only the default one, which needs no name.",
        ),
        ("experimentalFeature/list", "Switches for unfinished features; there are none."),
        ("mcpServerStatus/list", "MCP servers of this server; agents have their own."),
        ("skills/list", "Skills known to this server; none yet."),
    ];
    for (name, doc) in empty {
        registry.method_sync(MethodSpec::new(name, Lane::Inline, doc), |_: Ctx<AppServer>, _: NoParams| {
            Ok::<_, RpcError>(EmptyListResult::default())
        });
    }
    registry
        .method_sync(
            MethodSpec::new("plugin/installed", Lane::Inline, "Installed plugins; there are none."),
            |_: Ctx<AppServer>, _: NoParams| Ok::<_, RpcError>(PluginInstalledResult::default()),
        )
        .method_sync(
            MethodSpec::new(
                "permissionProfile/list",
                Lane::Inline,
                "The policies by name: each permission mode with each sandbox.",
            ),
            |_: Ctx<AppServer>, _: NoParams| Ok::<_, RpcError>(permission_profiles()),
        );
}

fn permission_profiles() -> PermissionProfileListResult {
    let summary = |(id, _)| PermissionProfileSummary { id, allowed: true, description: None };
    PermissionProfileListResult { data: profiles().map(summary).collect(), next_cursor: None }
}
