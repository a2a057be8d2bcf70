//! Methods that existing clients call and that have little or no meaning here: answered truthfully and well-formed, so
//! that those clients start.

use signalbox_protocol::app::{
    EmptyListResult, PermissionProfileListResult, PermissionProfileSummary, PluginInstalledResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, NoParams, Registry, RpcError};

use super::settings::profiles;
use crate::app::AppServer;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    let empty: [(&str, &str); 4] = [
        (method::HOOKS_LIST, "Hooks; there are none."),
        (
            method::COLLABORATION_MODE_LIST,
            "Collaboration modes; there is only the default one, which needs no name.",
        ),
        (method::EXPERIMENTAL_FEATURE_LIST, "Switches for unfinished features; there are none."),
        (method::MCP_SERVER_STATUS_LIST, "MCP servers of this server; agents have their own."),
    ];
    for (name, doc) in empty {
        registry.method_sync(MethodSpec::new(name, Lane::Inline, doc), |_: Ctx<AppServer>, _: NoParams| {
            Ok::<_, RpcError>(EmptyListResult::default())
        });
    }
    registry
        .method_sync(
            MethodSpec::new(method::PLUGIN_INSTALLED, Lane::Inline, "Installed plugins; there are none."),
            |_: Ctx<AppServer>, _: NoParams| Ok::<_, RpcError>(PluginInstalledResult::default()),
        )
        .method_sync(
            MethodSpec::new(
                method::PERMISSION_PROFILE_LIST,
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
