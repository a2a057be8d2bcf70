//! The durable queue of follow-ups that a thread runs one after the other.

use signalbox_engine::{Accepted, OpError};
use signalbox_facts::QueuedPrompt;
use signalbox_protocol::app::{
    EmptyResult, QueuedSubmission, ThreadQueueAddParams, ThreadQueueAddResult, ThreadQueueDeleteParams,
    ThreadQueueDeleteResult, ThreadQueueListParams, ThreadQueueListResult, ThreadQueueReorderParams,
    ThreadQueueUpdateParams, ThreadQueueUpdateResult, method,
};
use signalbox_protocol::ops::Op;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role, RpcError};

use super::turn::document;
use crate::app::{AppServer, hold, origin, session_id};
use crate::errors::{self, Error};
use crate::view::convert;

/// What begins a cursor of a queue: the last follow-up of the page before.
const CURSOR: &str = "q.";

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_QUEUE_ADD,
                Lane::Ordered,
                "Puts a follow-up at the end of a thread's queue. It runs when the turns before it have completed, at once if \
                 nothing runs. The same `clientUserMessageId` with the same input is the same follow-up.",
            )
            .role(Role::Operator),
            add,
        )
        .method(
            MethodSpec::new(
                method::THREAD_QUEUE_LIST,
                Lane::Concurrent,
                "The follow-ups that wait, in the order of running.",
            ),
            list,
        )
        .method(
            MethodSpec::new(
                method::THREAD_QUEUE_UPDATE,
                Lane::Ordered,
                "Replaces the input of a follow-up that waits.",
            )
            .role(Role::Operator),
            update,
        )
        .method(
            MethodSpec::new(
                method::THREAD_QUEUE_DELETE,
                Lane::Ordered,
                "Takes a follow-up out of the queue, unless it has begun to run.",
            )
            .role(Role::Operator),
            delete,
        )
        .method(
            MethodSpec::new(
                method::THREAD_QUEUE_REORDER,
                Lane::Ordered,
                "Gives the queue another order. All follow-ups that wait must be named, each once.",
            )
            .role(Role::Operator),
            reorder,
        );
}

async fn add(ctx: Ctx<AppServer>, params: ThreadQueueAddParams) -> Result<ThreadQueueAddResult, Error> {
    let session = session_id(&params.thread_id)?;
    if params.client_user_message_id.is_empty() {
        let message = "the id is empty; give each input an id of its own";
        return Err(errors::invalid("clientUserMessageId", message));
    }
    let doc = document(params.input.clone())?;
    hold(&ctx, session);
    let op = Op::QueueAdd {
        session: params.thread_id,
        doc,
        client_message_id: Some(params.client_user_message_id.clone()),
        client_metadata: params.responsesapi_client_metadata.clone().unwrap_or_default(),
        request_id: None,
    };
    match ctx.app().engine().submit(op, origin(&ctx)).await? {
        Accepted::Queued { turn } | Accepted::Repeated { turn } => Ok(ThreadQueueAddResult {
            queued_submission: QueuedSubmission {
                id: turn.to_string(),
                client_user_message_id: params.client_user_message_id,
                input: params.input,
                responsesapi_client_metadata: params.responsesapi_client_metadata,
            },
        }),
        other => Err(RpcError::internal(format!("the core answered a follow-up with {other:?}")).into()),
    }
}

async fn list(ctx: Ctx<AppServer>, params: ThreadQueueListParams) -> Result<ThreadQueueListResult, Error> {
    let row = ctx.app().row(session_id(&params.thread_id)?).await?;
    let queue = row.queue.unwrap_or_default();
    let from = match &params.cursor {
        None => 0,
        Some(cursor) => {
            let last = cursor.strip_prefix(CURSOR).ok_or_else(errors::stale_cursor)?;
            let place = queue.entries.iter().position(|entry| entry.turn.to_string() == last);
            place.ok_or_else(errors::stale_cursor)? + 1
        }
    };
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let more = queue.entries.len() > from.saturating_add(limit);
    let data: Vec<QueuedSubmission> =
        queue.entries.into_iter().skip(from).take(limit).map(submission).collect();
    let next_cursor = data.last().filter(|_| more).map(|last| format!("{CURSOR}{}", last.id));
    Ok(ThreadQueueListResult { data, next_cursor, paused: queue.paused })
}

async fn update(
    ctx: Ctx<AppServer>,
    params: ThreadQueueUpdateParams,
) -> Result<ThreadQueueUpdateResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    let doc = document(params.input.clone())?;
    hold(&ctx, session);
    let queue = app.row(session).await?.queue.unwrap_or_default();
    let before =
        queue.entries.into_iter().find(|entry| entry.turn.to_string() == params.queued_submission_id);
    let op = Op::QueueEdit {
        session: params.thread_id,
        queued: params.queued_submission_id.clone(),
        doc,
        client_metadata: params.responsesapi_client_metadata.clone(),
        request_id: None,
    };
    app.engine().submit(op, origin(&ctx)).await?;
    let before = before.map(submission);
    let (client_user_message_id, metadata) = match before {
        Some(before) => (before.client_user_message_id, before.responsesapi_client_metadata),
        None => (String::new(), None),
    };
    Ok(ThreadQueueUpdateResult {
        queued_submission: QueuedSubmission {
            id: params.queued_submission_id,
            client_user_message_id,
            input: params.input,
            responsesapi_client_metadata: params.responsesapi_client_metadata.or(metadata),
        },
    })
}

async fn delete(
    ctx: Ctx<AppServer>,
    params: ThreadQueueDeleteParams,
) -> Result<ThreadQueueDeleteResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op =
        Op::QueueRemove { session: params.thread_id, queued: params.queued_submission_id, request_id: None };
    match ctx.app().engine().submit(op, origin(&ctx)).await {
        Ok(_) => Ok(ThreadQueueDeleteResult { deleted: true }),
        Err(OpError::InvalidParams { path: "queued", .. }) => Ok(ThreadQueueDeleteResult { deleted: false }),
        Err(error) => Err(error.into()),
    }
}

async fn reorder(ctx: Ctx<AppServer>, params: ThreadQueueReorderParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op =
        Op::QueueMove { session: params.thread_id, order: params.queued_submission_ids, request_id: None };
    match ctx.app().engine().submit(op, origin(&ctx)).await {
        Ok(_) => Ok(EmptyResult {}),
        Err(OpError::InvalidParams { path: "queued", message }) => {
            Err(errors::invalid("queuedSubmissionIds", format!("{message}, or it is named twice")))
        }
        Err(error) => Err(error.into()),
    }
}

fn submission(queued: QueuedPrompt) -> QueuedSubmission {
    QueuedSubmission {
        id: queued.turn.to_string(),
        client_user_message_id: queued.client_message_id.unwrap_or_default(),
        input: convert::input_out(&queued.blocks),
        responsesapi_client_metadata: Some(queued.client_metadata).filter(|metadata| !metadata.is_empty()),
    }
}
