//! Threads that begin with another one's history.

use signalbox_engine::Accepted;
use signalbox_engine::convert::fork_context_out;
use signalbox_facts::SessionId;
use signalbox_protocol::app::{ThreadForkParams, ThreadForkResult, method};
use signalbox_protocol::ops::{Op, Provider, SettingsPatch};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role, RpcError};

use super::settings::{PolicyWishes, directory, not_used, sandbox_of};
use super::thread::{join_or_read, opened, source, warn};
use super::turns::{self, Newest};
use crate::app::{AppServer, hold, origin, session_id};
use crate::errors::Error;
use crate::hub::Wants;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::THREAD_FORK,
            Lane::Ordered,
            "Makes a thread that begins with another one's history, up to and with a turn, and subscribes to it. Its agent \
             goes on with a copy of the conversation if the other's agent can make one, or else is told what was said; the \
             result says which. Files are not copied.",
        )
        .role(Role::Operator),
        fork,
    );
}

async fn fork(ctx: Ctx<AppServer>, params: ThreadForkParams) -> Result<ThreadForkResult, Error> {
    let app = ctx.app();
    let from = session_id(&params.thread_id)?;
    let exclude_turns = params.exclude_turns;
    let session = SessionId::generate();
    // From here on, so that the answer precedes even `thread/started`.
    hold(&ctx, session);
    let forked = app.hub(from).await?;
    let wishes = PolicyWishes {
        approval: params.approval_policy,
        sandbox: sandbox_of(params.sandbox),
        profile: params.permissions.clone(),
        policy: params.policy.map(Into::into),
    };
    let change = wishes.change(&forked).await?;
    let warnings = unused(&params);
    let op = fork_op(&ctx, params, change);
    let context = match app.engine().submit_as(op, origin(&ctx), Some(session)).await? {
        Accepted::Forked { context, .. } => fork_context_out(context),
        other => return Err(RpcError::internal(format!("the core answered a fork with {other:?}")).into()),
    };
    let hub = app.hub(session).await?;
    let (mut snapshot, _) = join_or_read(&ctx, &hub, Wants::Forked, None).await?;
    let newest = match exclude_turns {
        true => Newest::default(),
        false => turns::newest(&app.hubs().reader_of(session), &mut snapshot).await?,
    };
    warn(&ctx, session, warnings);
    Ok(ThreadForkResult {
        turns_backwards_cursor: newest.turns_cursor,
        opened: opened(app, snapshot, newest.turns),
        context,
    })
}

fn fork_op(
    ctx: &Ctx<AppServer>,
    params: ThreadForkParams,
    policy: Option<signalbox_protocol::ops::PolicyPatch>,
) -> Op {
    let effort = params.config.as_ref().and_then(|config| config.get("model_reasoning_effort"));
    Op::Fork {
        session: params.thread_id,
        through_turn: params.last_turn_id,
        settings: SettingsPatch {
            cwd: directory(ctx, params.cwd.as_deref()),
            roots: params.runtime_workspace_roots,
            model: params.model,
            effort: effort.and_then(|effort| effort.as_str()).map(str::to_owned),
            policy,
            ..SettingsPatch::default()
        },
        provider: params
            .model_provider
            .filter(|name| !name.is_empty())
            .map(|name| Provider::from_name(&name)),
        ephemeral: params.ephemeral,
        base_instructions: params.base_instructions,
        developer_instructions: params.developer_instructions,
        source: source(ctx, params.thread_source.as_deref()),
        request_id: params.request_id,
    }
}

fn unused(params: &ThreadForkParams) -> Vec<String> {
    let unknown = |config: &serde_json::Map<_, _>| config.keys().any(|key| key != "model_reasoning_effort");
    let fields = [
        ("serviceTier", params.service_tier.is_some()),
        ("config", params.config.as_ref().is_some_and(unknown)),
    ];
    not_used(&fields).into_iter().collect()
}
