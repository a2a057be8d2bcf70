//! Providers: the ways to start an agent, and whether they can be used from here.

use signalbox_engine::ProviderStatus;
use signalbox_protocol::app::{
    ModelProviderListParams, ModelProviderListResult, ModelProviderSummary, ProviderInfo, ProviderListParams,
    ProviderListResult, ProviderSettings, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, RpcError};

use crate::app::AppServer;

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
    let default = ctx.app().engine().catalog().default_provider().clone();
    let info = |status: ProviderStatus| ProviderInfo {
        is_default: status.provider == default,
        id: status.provider.to_string(),
        name: status.title,
        available: status.available,
        reason: status.reason,
        command: status.command,
        version: None,
        auth_methods: Vec::new(),
        mediated: status.mediated,
    };
    Ok(ProviderListResult { data: statuses(ctx.app()).await?.into_iter().map(info).collect() })
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
        data: statuses(ctx.app()).await?.into_iter().map(summary).collect(),
        default_provider_id: ctx.app().engine().catalog().default_provider().to_string(),
        can_change_default: false,
    })
}

/// Looks for the commands on disk, beside everything else.
async fn statuses(app: &AppServer) -> Result<Vec<ProviderStatus>, RpcError> {
    let engine = app.engine().clone();
    tokio::task::spawn_blocking(move || engine.catalog().list()).await.map_err(RpcError::internal)
}
