//! The rules that "for this session" answers have left.

use signalbox_engine::convert as core;
use signalbox_protocol::app::{
    EmptyResult, PermissionRuleListParams, PermissionRuleListResult, PermissionRuleRemoveParams, method,
};
use signalbox_protocol::ops::Op;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::{AppServer, hold, origin, session_id};
use crate::errors::Error;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::PERMISSION_RULE_LIST,
                Lane::Concurrent,
                "Ext: the rules of a thread that \"for this session\" answers have left.",
            ),
            list,
        )
        .method(
            MethodSpec::new(
                method::PERMISSION_RULE_REMOVE,
                Lane::Ordered,
                "Ext: takes a rule back; what it allowed is asked again.",
            )
            .role(Role::Operator),
            remove,
        );
}

async fn list(
    ctx: Ctx<AppServer>,
    params: PermissionRuleListParams,
) -> Result<PermissionRuleListResult, Error> {
    let row = ctx.app().row(session_id(&params.thread_id)?).await?;
    Ok(PermissionRuleListResult { data: row.rules.iter().map(core::rule_out).collect() })
}

async fn remove(ctx: Ctx<AppServer>, params: PermissionRuleRemoveParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::RemoveRule { session: params.thread_id, rule: params.rule, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    Ok(EmptyResult {})
}
