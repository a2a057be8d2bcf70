//! Methods that existing clients call and that have little or no meaning here: answered truthfully and well-formed, so
//! that those clients start.

use std::collections::BTreeMap;

use signalbox_engine::{McpEntry, McpReach};
use signalbox_protocol::app::{
    EmptyListResult, McpAuthStatus, McpServerStatus, McpServerStatusListParams, McpServerStatusListResult,
    PermissionProfileListResult, PermissionProfileSummary, PluginInstalledResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, NoParams, Registry, RpcError};

use super::settings::profiles;
use crate::app::{AppServer, env};

pub(super) fn register(registry: &mut Registry<AppServer>) {
    let empty: [(&str, &str); 3] = [
        (method::HOOKS_LIST, "Hooks; there are none."),
        (
            method::COLLABORATION_MODE_LIST,
            "Collaboration modes; there is only the default one, which needs no name.",
        ),
        (method::EXPERIMENTAL_FEATURE_LIST, "Switches for unfinished features; there are none."),
    ];
    for (name, doc) in empty {
        registry.method_sync(MethodSpec::new(name, Lane::Inline, doc), |_: Ctx<AppServer>, _: NoParams| {
            Ok::<_, RpcError>(EmptyListResult::default())
        });
    }
    registry
        .method(
            MethodSpec::new(
                method::MCP_SERVER_STATUS_LIST,
                Lane::Concurrent,
                "The MCP servers of the configuration, which agents are told of. Agents connect to them, and may have \
                 others of their own.",
            ),
            mcp_servers,
        )
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

async fn mcp_servers(
    ctx: Ctx<AppServer>,
    params: McpServerStatusListParams,
) -> Result<McpServerStatusListResult, RpcError> {
    let engine = ctx.app().engine().clone();
    let offered = engine.catalog().offered(env(&ctx).as_ref()).await;
    let look = move || {
        let catalog = engine.catalog();
        let trouble: BTreeMap<_, _> = catalog.mcp_trouble(&offered).into_iter().collect();
        let status = |entry: &McpEntry| McpServerStatus {
            name: entry.name.clone(),
            auth_status: match &entry.reach {
                McpReach::Stdio { .. } => McpAuthStatus::Unsupported,
                McpReach::Url { bearer: Some(_), .. } => McpAuthStatus::BearerToken,
                McpReach::Url { .. } => McpAuthStatus::Unknown,
            },
            providers: entry.providers.iter().map(ToString::to_string).collect(),
            transport: Some(entry.reach.transport().to_owned()),
            problem: trouble.get(&entry.name).cloned(),
            ..McpServerStatus::default()
        };
        let wanted = |entry: &&McpEntry| params.server_name.as_ref().is_none_or(|name| *name == entry.name);
        catalog.for_all().mcp_servers.iter().filter(wanted).map(status).collect()
    };
    let data = tokio::task::spawn_blocking(look).await.map_err(RpcError::internal)?;
    Ok(McpServerStatusListResult { data, next_cursor: None })
}
