//! Raw Ops.

use std::sync::Arc;

use signalbox_engine::{Accepted, OpError, Reply, Submission};
use signalbox_facts::{SessionId, SubmissionId};
use signalbox_protocol::app::{ApprovalDecision, OpSubmitParams, OpSubmitResult, method};
use signalbox_protocol::ops::Op;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::launch::only_owner;
use super::settings::directory;
use crate::app::{AppServer, hold, origin, session_id};
use crate::approvals;
use crate::doors::DoorCaller;
use crate::errors::{self, Error};

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::OP_SUBMIT,
            Lane::Ordered,
            "Submits a raw Op. The answer says that the core has taken it; what comes of it is told by events.",
        )
        .role(Role::Operator),
        submit,
    );
}

async fn submit(ctx: Ctx<AppServer>, params: OpSubmitParams) -> Result<OpSubmitResult, Error> {
    let mut op = params.op;
    if op.says_what_is_started() {
        only_owner(&ctx, "launch")?;
    }
    if let Op::NewSession(new) = &mut op
        && let Some(cwd) = directory(&ctx, Some(&new.cwd))
    {
        new.cwd = cwd;
    }
    let (held, new) = match (&op, op.session()) {
        (Op::NewSession(_) | Op::Import(_) | Op::Fork { .. }, _) => {
            let session = SessionId::generate();
            (Some(session), Some(session))
        }
        (_, Some(session)) => (Some(session_id(session)?), None),
        (_, None) => (None, None),
    };
    if let Some(session) = held {
        hold(&ctx, session);
    }
    let answered = answered(&ctx, &op);
    let id = SubmissionId::generate();
    let (reply, decision) = Reply::to_caller();
    let submission = Submission { id, op, origin: origin(&ctx), session: new, interrupt: false, reply };
    ctx.app().engine().dispatch(submission).await;
    let decided = decision.await.unwrap_or(Err(OpError::ShuttingDown));
    let repeated_turn_id = match decided.map_err(|error| errors::of_raw_op(&error))? {
        Accepted::Repeated { turn } => Some(turn.to_string()),
        _ => None,
    };
    if let Some((open, decision)) = answered {
        approvals::note(ctx.app().hubs(), DoorCaller::of(&ctx), &open, decision);
    }
    Ok(OpSubmitResult { submission_id: id.to_string(), repeated_turn_id })
}

/// The approval that an Op answers, and how.
fn answered(ctx: &Ctx<AppServer>, op: &Op) -> Option<(Arc<approvals::Open>, ApprovalDecision)> {
    let (Op::AnswerPermission { request_id, .. } | Op::AnswerElicitation { request_id, .. }) = op else {
        return None;
    };
    let open = ctx.app().hubs().approvals().get(request_id.parse().ok()?)?;
    let decision = super::outcome_of(op, &open.input).decision;
    Some((open, decision))
}
