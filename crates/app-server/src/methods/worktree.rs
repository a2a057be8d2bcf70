//! Worktrees of threads: what one can be made from, and its end. It is made by `thread/start`.

use signalbox_engine::Baseline;
use signalbox_protocol::app::{
    BaselineChoice, EmptyResult, ThreadWorktreeDiscardParams, WorktreeBaselinesParams,
    WorktreeBaselinesResult, method,
};
use signalbox_protocol::ops::Op;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::settings::directory;
use crate::app::{AppServer, base_dir, hold, origin, session_id};
use crate::errors::Error;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::WORKTREE_BASELINES,
                Lane::Concurrent,
                "The commits that a thread's worktree could be made from, as known locally right now.",
            )
            .role(Role::Operator),
            baselines,
        )
        .method(
            MethodSpec::new(
                method::THREAD_WORKTREE_DISCARD,
                Lane::Ordered,
                "Removes a thread's worktree and its branch; the history stays, but no more turns run. Refused while a \
                 turn runs and, without `force`, while work would be lost. A second time it does nothing.",
            )
            .role(Role::Operator),
            discard,
        );
}

async fn baselines(
    ctx: Ctx<AppServer>,
    params: WorktreeBaselinesParams,
) -> Result<WorktreeBaselinesResult, Error> {
    let app = ctx.app();
    let cwd = directory(&ctx, params.cwd.as_deref());
    let cwd = cwd.unwrap_or_else(|| base_dir(&ctx).display().to_string());
    let line = |Baseline { kind, resolved }| match resolved {
        Ok(baseline) => BaselineChoice::Available(baseline),
        Err(unavailable) => BaselineChoice::Unavailable { kind, unavailable },
    };
    Ok(WorktreeBaselinesResult { data: app.engine().baselines(&cwd).await?.into_iter().map(line).collect() })
}

async fn discard(ctx: Ctx<AppServer>, params: ThreadWorktreeDiscardParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::DiscardWorktree { session: params.thread_id, force: params.force, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    Ok(EmptyResult {})
}
