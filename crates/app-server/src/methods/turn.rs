//! Starting, steering and interrupting a turn.

use signalbox_engine::{Accepted, OpError};
use signalbox_facts::{SessionId, TurnId, TurnStatus};
use signalbox_protocol::app::{
    EmptyResult, QueuedSubmission, TurnInterruptParams, TurnStartMode, TurnStartParams, TurnStartResult,
    TurnSteerParams, TurnSteerResult, method,
};
use signalbox_protocol::ops::{DocBlock, Op, SettingsPatch, TurnInput, TurnMode};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::settings::{PolicyWishes, directory, is_finer_than_ours, not_used, only_local};
use crate::app::{AppServer, hold, origin, session_id};
use crate::connection::Subscriber;
use crate::errors::{self, Error};
use crate::hub::Hub;
use crate::view::convert;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::TURN_START,
                Lane::Ordered,
                "Gives a thread input. Unless `mode` asks for exactly one of them, it starts a turn when the thread \
                 is idle and steers the running one otherwise.",
            )
            .role(Role::Operator),
            start,
        )
        .method(
            MethodSpec::new(method::TURN_STEER, Lane::Ordered, "Adds input to the running turn.")
                .role(Role::Operator),
            steer,
        )
        .method(
            MethodSpec::new(
                method::TURN_INTERRUPT,
                Lane::Concurrent,
                "Interrupts the running turn. Its end is told by `turn/completed`.",
            )
            .role(Role::Operator),
            interrupt,
        );
}

async fn start(ctx: Ctx<AppServer>, params: TurnStartParams) -> Result<TurnStartResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    if params.tool_output.is_some() {
        return Err(errors::unsupported_field("toolOutput", "agents have no such input; send text"));
    }
    only_local(params.environments.as_deref())?;
    let queued_input = (params.mode == Some(TurnStartMode::Queue)).then(|| params.input.clone());
    let doc = document(params.input)?;
    hold(&ctx, session);
    let hub = app.hub(session).await?;
    let mut warnings: Vec<String> = not_used(&[
        ("outputSchema", params.output_schema.is_some()),
        ("personality", params.personality.is_some()),
        ("serviceTier", params.service_tier.is_some()),
    ])
    .into_iter()
    .collect();
    if params.sandbox_policy.as_ref().is_some_and(is_finer_than_ours) && hub.tell_limits() {
        warnings.push(
            "Limits of the network and of single roots are not enforced: this server decides about what agents \
             ask for, it does not contain their processes."
                .to_owned(),
        );
    }
    let wishes = PolicyWishes {
        approval: params.approval_policy,
        sandbox: params.sandbox_policy.as_ref().map(convert::sandbox_policy_in),
        profile: params.permissions,
        policy: params.policy,
    };
    let input = TurnInput {
        mode: match params.mode {
            None => TurnMode::Auto,
            Some(TurnStartMode::Start) => TurnMode::Start,
            Some(TurnStartMode::Steer) => TurnMode::Steer,
            Some(TurnStartMode::Queue) => TurnMode::Queue,
        },
        client_message_id: params.client_user_message_id,
        settings: SettingsPatch {
            cwd: directory(&ctx, params.cwd.as_deref()),
            roots: params.runtime_workspace_roots,
            model: params.model,
            effort: params.effort,
            policy: wishes.change(&hub).await?,
            ..SettingsPatch::default()
        },
        additional_context: params.additional_context,
        client_metadata: params.responsesapi_client_metadata.unwrap_or_default(),
        parent_turn: params.parent_turn_id,
        root_turn: params.root_turn_id,
        ..TurnInput::new(params.thread_id, doc)
    };
    let queued_metadata = input.client_metadata.clone();
    let queued_message = input.client_message_id.clone();
    let accepted = app.engine().submit(Op::TurnInput(input), origin(&ctx)).await;
    let mut queued = None;
    let turn = match accepted? {
        Accepted::Started { turn } | Accepted::Steered { turn } => {
            convert::turn_out(turn, TurnStatus::InProgress, Some(app.now_ms()), None)
        }
        Accepted::Queued { turn } => {
            queued = Some(QueuedSubmission {
                id: turn.to_string(),
                client_user_message_id: queued_message.unwrap_or_default(),
                input: queued_input.unwrap_or_default(),
                responsesapi_client_metadata: Some(queued_metadata).filter(|metadata| !metadata.is_empty()),
            });
            convert::turn_out(turn, TurnStatus::InProgress, None, None)
        }
        Accepted::Repeated { turn } => repeated(app, session, turn).await?,
        other => return Err(unexpected(&other)),
    };
    warn(&ctx, &hub, warnings);
    Ok(TurnStartResult { turn, queued_submission: queued })
}

/// The turn that a message went into when it was first accepted, as it stands now.
async fn repeated(
    app: &AppServer,
    session: SessionId,
    turn: TurnId,
) -> Result<signalbox_protocol::app::Turn, Error> {
    let stored = app.hubs().reader_of(session).turn(session, turn).await?;
    Ok(match stored {
        Some(stored) => {
            convert::turn_out(turn, stored.status, Some(stored.started_at_ms), stored.ended_at_ms)
        }
        // It waits in the queue.
        None => convert::turn_out(turn, TurnStatus::InProgress, None, None),
    })
}

async fn steer(ctx: Ctx<AppServer>, params: TurnSteerParams) -> Result<TurnSteerResult, Error> {
    let session = session_id(&params.thread_id)?;
    let doc = document(params.input)?;
    hold(&ctx, session);
    let input = TurnInput {
        mode: TurnMode::Steer,
        expected_turn: Some(params.expected_turn_id),
        client_message_id: params.client_user_message_id,
        additional_context: params.additional_context,
        client_metadata: params.responsesapi_client_metadata.unwrap_or_default(),
        ..TurnInput::new(params.thread_id, doc)
    };
    match ctx.app().engine().submit(Op::TurnInput(input), origin(&ctx)).await? {
        Accepted::Started { turn } | Accepted::Steered { turn } | Accepted::Repeated { turn } => {
            Ok(TurnSteerResult { turn_id: turn.to_string() })
        }
        other => Err(unexpected(&other)),
    }
}

async fn interrupt(ctx: Ctx<AppServer>, params: TurnInterruptParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    // Clients that have not learned the turn's id yet send none.
    let turn = Some(params.turn_id).filter(|turn| !turn.is_empty());
    let op = Op::Cancel { session: params.thread_id, turn };
    match ctx.app().engine().submit(op, origin(&ctx)).await? {
        Accepted::Interrupting { turn: None } => Err(OpError::NoActiveTurn { verb: "interrupt" }.into()),
        _ => Ok(EmptyResult {}),
    }
}

pub(super) fn document(input: Vec<signalbox_protocol::app::UserInput>) -> Result<Vec<DocBlock>, Error> {
    convert::input_in(input).map_err(|error| match &error {
        convert::InputError::Empty => errors::invalid("input", error),
        convert::InputError::Block { index, .. } => {
            errors::unsupported_field(&format!("input[{index}]"), error.to_string())
        }
    })
}

fn warn(ctx: &Ctx<AppServer>, hub: &Hub, warnings: Vec<String>) {
    let Some(peer) = ctx.peer_opt() else { return };
    let subscriber = Subscriber::new(peer);
    for message in warnings {
        ctx.app().hubs().warn(&subscriber, hub.session(), message);
    }
}

fn unexpected(accepted: &Accepted) -> Error {
    signalbox_rpc::RpcError::internal(format!("the core answered an input with {accepted:?}")).into()
}
