//! Approvals as records, for clients that cannot be asked or want to see them all.

use signalbox_engine::OpError;
use signalbox_facts::{InputId, OptionKind, PendingInput};
use signalbox_protocol::app::{
    ApprovalDecision, ApprovalListParams, ApprovalListResult, ApprovalOutcome, ApprovalRespondParams,
    ApprovalRespondResult, method,
};
use signalbox_protocol::ops::{ElicitationAnswer, Op};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::{AppServer, caller_name, hold, session_id};
use crate::approvals;
use crate::doors::DoorCaller;
use crate::errors::{self, Error};
use crate::view::answer::{AnswerError, answer};

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::APPROVAL_LIST,
                Lane::Concurrent,
                "The approvals that wait for an answer.",
            ),
            list,
        )
        .method(
            MethodSpec::new(
                method::APPROVAL_RESPOND,
                Lane::Ordered,
                "Answers an approval. The first answer wins; a later one is told which that was.",
            )
            .role(Role::Operator),
            respond,
        );
}

async fn list(ctx: Ctx<AppServer>, params: ApprovalListParams) -> Result<ApprovalListResult, Error> {
    let session = params.thread_id.as_deref().map(session_id).transpose()?;
    if let Some(session) = session
        && ctx.app().hubs().get(session).is_none()
        && ctx.app().hubs().reader_of(session).session(session).await?.is_none()
    {
        return Err(errors::thread_not_found(&session.to_string()));
    }
    if ctx.role() >= Role::Operator {
        // It can answer them too; without a way to be asked it has to ask.
        ctx.app().engine().approvals_listed(session);
    }
    Ok(ApprovalListResult { data: ctx.app().hubs().approvals().records(session) })
}

async fn respond(ctx: Ctx<AppServer>, params: ApprovalRespondParams) -> Result<ApprovalRespondResult, Error> {
    let hubs = ctx.app().hubs();
    let id = params.approval_id.clone();
    let input: InputId = id.parse().map_err(|_not_ours| errors::approval_not_found(&id))?;
    let Some(open) = hubs.approvals().get(input) else {
        return Err(match hubs.approvals().resolved(input) {
            Some(resolved) => {
                OpError::ApprovalResolved { id, resolution: Box::new(resolved.resolution()) }.into()
            }
            None => errors::approval_not_found(&id),
        });
    };
    hold(&ctx, open.session);
    let answer = answer(open.session, &open.input, params.into()).map_err(|error| refused(&error))?;
    let mut outcome = outcome_of(&answer.op, &open.input);
    if answer.then_interrupt {
        outcome.decision = ApprovalDecision::Cancel;
    }
    approvals::submit(hubs, answer, caller_name(&ctx)).await?;
    approvals::note(hubs, DoorCaller::of(&ctx), &open, outcome.decision);
    Ok(ApprovalRespondResult { outcome })
}

fn refused(error: &AnswerError) -> Error {
    let path = match error {
        AnswerError::Empty | AnswerError::NothingAllowsOnce { .. } => "decision",
        AnswerError::UnknownOption { .. } => "optionId",
        AnswerError::Content => "content",
    };
    errors::invalid(path, error)
}

/// What an Op makes of the approval that it answers.
pub(crate) fn outcome_of(op: &Op, input: &PendingInput) -> ApprovalOutcome {
    let (decision, option_id) = match op {
        Op::AnswerElicitation { answer, .. } => {
            let decision = match answer {
                ElicitationAnswer::Accept { .. } => ApprovalDecision::Accept,
                ElicitationAnswer::Decline => ApprovalDecision::Decline,
                ElicitationAnswer::Cancel => ApprovalDecision::Cancel,
            };
            (decision, None)
        }
        Op::AnswerPermission { option_id, for_session, .. } => {
            let option = input.options.iter().find(|option| Some(&option.id) == option_id.as_ref());
            let decision = match option.map(|option| &option.kind) {
                Some(OptionKind::RejectOnce | OptionKind::RejectAlways) | None => ApprovalDecision::Decline,
                Some(_) if *for_session => ApprovalDecision::AcceptForSession,
                Some(_) => ApprovalDecision::Accept,
            };
            (decision, option_id.clone())
        }
        // No other Op answers an approval.
        _ => (ApprovalDecision::Cancel, None),
    };
    ApprovalOutcome { decision, option_id }
}
