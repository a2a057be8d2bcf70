//! Account and configuration, as far as existing clients look at them.

use signalbox_facts::Policy;
use signalbox_protocol::app::{
    AccountReadParams, AccountReadResult, ApprovalsReviewer, Config, ConfigReadParams, ConfigReadResult,
    ConfigRequirementsReadParams, ConfigRequirementsReadResult, SandboxMode, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, RpcError};

use crate::app::AppServer;
use crate::view::convert;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method_sync(
            MethodSpec::new(
                method::ACCOUNT_READ,
                Lane::Inline,
                "There is no account here: agents log in by themselves.",
            ),
            |_: Ctx<AppServer>, _: AccountReadParams| Ok::<_, RpcError>(AccountReadResult::default()),
        )
        .method_sync(
            MethodSpec::new(
                method::CONFIG_READ,
                Lane::Inline,
                "What a thread that says nothing begins with.",
            ),
            read,
        )
        .method_sync(
            MethodSpec::new(
                method::CONFIG_REQUIREMENTS_READ,
                Lane::Inline,
                "What an administrator imposes: nothing.",
            ),
            |_: Ctx<AppServer>, _: ConfigRequirementsReadParams| {
                Ok::<_, RpcError>(ConfigRequirementsReadResult::default())
            },
        );
}

fn read(ctx: Ctx<AppServer>, params: ConfigReadParams) -> Result<ConfigReadResult, RpcError> {
    let policy = Policy::default();
    let config = Config {
        model_provider: Some(ctx.app().engine().catalog().default_provider().to_string()),
        approval_policy: Some(convert::approval_policy_out(policy)),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        sandbox_mode: Some(SandboxMode::WorkspaceWrite),
        ..Config::default()
    };
    let layers = params.include_layers.then(Vec::new);
    Ok(ConfigReadResult { config, layers, ..ConfigReadResult::default() })
}
