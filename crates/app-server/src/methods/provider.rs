//! Providers: the ways to start an agent, and whether they can be used from here.

use signalbox_engine::ProviderStatus;
use signalbox_protocol::app::{
    ModelProviderListParams, ModelProviderListResult, ModelProviderSummary, ProviderInfo, ProviderListParams,
    ProviderListResult, ProviderSettings, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, RpcError};

use crate::app::{AppServer, default_provider, env};

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::PROVIDER_LIST,
                Lane::Concurrent,
                "All providers, whether their commands are there, and what would help if not.",
            ),
            list,
        )
        .method(
            MethodSpec::new(
                method::MODEL_PROVIDER_LIST,
                Lane::Concurrent,
                "The same providers in the form existing clients know.",
            ),
            list_for_existing,
        );
}

async fn list(ctx: Ctx<AppServer>, _: ProviderListParams) -> Result<ProviderListResult, RpcError> {
    let default = default_provider(&ctx);
    let info = |status: ProviderStatus| ProviderInfo {
        is_default: status.provider.as_str() == default,
        id: status.provider.to_string(),
        name: status.title,
        available: status.available,
        reason: status.reason,
        command: status.command,
        version: None,
        auth_methods: Vec::new(),
        mediated: status.mediated,
    };
    Ok(ProviderListResult { data: statuses(&ctx).await?.into_iter().map(info).collect() })
}

async fn list_for_existing(
    ctx: Ctx<AppServer>,
    _: ModelProviderListParams,
) -> Result<ModelProviderListResult, RpcError> {
    let summary = |status: ProviderStatus| ModelProviderSummary {
        id: status.provider.to_string(),
        name: status.title,
        base_url: None,
        can_edit: false,
        settings: ProviderSettings::Openai,
    };
    Ok(ModelProviderListResult {
        data: statuses(&ctx).await?.into_iter().map(summary).collect(),
        default_provider_id: default_provider(&ctx),
        can_change_default: false,
    })
}

/// Looks for the commands on disk, where the caller's agents would be looked for, beside everything else.
async fn statuses(ctx: &Ctx<AppServer>) -> Result<Vec<ProviderStatus>, RpcError> {
    let engine = ctx.app().engine().clone();
    let offered = engine.catalog().offered(env(ctx).as_ref()).await;
    tokio::task::spawn_blocking(move || engine.catalog().list(&offered)).await.map_err(RpcError::internal)
}
