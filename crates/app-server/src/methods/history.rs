//! What is done to a thread's history as a whole: taken back, put away, removed, compacted by the agent.

use signalbox_protocol::app::{
    EmptyResult, ThreadArchiveParams, ThreadCompactStartParams, ThreadDeleteParams,
    ThreadDeletedNotification, ThreadRevertParams, ThreadRevertResult, ThreadUnarchiveParams,
    ThreadUnarchiveResult, method,
};
use signalbox_protocol::ops::Op;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};
use signalbox_store::StoreError;

use super::turns;
use crate::app::{AppServer, hold, origin, session_id};
use crate::errors::Error;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_REVERT,
                Lane::Ordered,
                "Takes back a turn and all later ones. Files stay as they are. The agent begins a new conversation with the \
                 next turn and is told the newest part of what is left, which a `warning` says then.",
            )
            .role(Role::Operator),
            revert,
        )
        .method(
            MethodSpec::new(
                method::THREAD_ARCHIVE,
                Lane::Ordered,
                "Takes a thread out of the list; it takes no input until it is back. Refused while a turn runs.",
            )
            .role(Role::Operator),
            archive,
        )
        .method(
            MethodSpec::new(
                method::THREAD_UNARCHIVE,
                Lane::Ordered,
                "Puts an archived thread back into the list.",
            )
            .role(Role::Operator),
            unarchive,
        )
        .method(
            MethodSpec::new(
                method::THREAD_DELETE,
                Lane::Ordered,
                "Removes a thread with its history; a running turn is interrupted. Refused while the thread has a worktree. What the \
                 agent keeps of its own of the conversation stays, unless `deleteAgentSession` says otherwise; if the agent \
                 then cannot delete it, the thread is gone all the same, and the error is `agent_session_kept`.",
            )
            .role(Role::Operator),
            delete,
        )
        .method(
            MethodSpec::new(
                method::THREAD_COMPACT_START,
                Lane::Ordered,
                "Has the agent compact its context, in a turn of its own that takes no input. Refused if the agent offers no \
                 command for it, or has not run yet.",
            )
            .role(Role::Operator),
            compact,
        );
}

async fn revert(ctx: Ctx<AppServer>, params: ThreadRevertParams) -> Result<ThreadRevertResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::Revert { session: params.thread_id, before_turn: params.before_turn_id, request_id: None };
    app.engine().submit(op, origin(&ctx)).await?;
    let mut snapshot = app.hub(session).await?.read_page().await?;
    let newest = turns::newest(&app.hubs().reader_of(session), &mut snapshot).await?;
    let mut thread = snapshot.thread;
    thread.turns = newest.turns;
    Ok(ThreadRevertResult {
        thread,
        turns_backwards_cursor: newest.turns_cursor,
        items_backwards_cursor: newest.items_cursor,
        snapshot_seq: snapshot.seq,
    })
}

async fn archive(ctx: Ctx<AppServer>, params: ThreadArchiveParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::Archive { session: params.thread_id, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    Ok(EmptyResult {})
}

async fn unarchive(
    ctx: Ctx<AppServer>,
    params: ThreadUnarchiveParams,
) -> Result<ThreadUnarchiveResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::Unarchive { session: params.thread_id, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    let snapshot = ctx.app().hub(session).await?.read(false).await?;
    Ok(ThreadUnarchiveResult { thread: snapshot.thread })
}

async fn delete(ctx: Ctx<AppServer>, params: ThreadDeleteParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let hubs = ctx.app().hubs();
    // What cannot be read is never loaded, so no hub tells that it is gone.
    let stored = hubs.reader_of(session).session(session).await;
    let agent_session = params.delete_agent_session;
    let op = Op::Delete { session: params.thread_id.clone(), agent_session, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    if let Err(StoreError::Unreadable { .. }) = stored {
        hubs.tell_all(session, &ThreadDeletedNotification { thread_id: params.thread_id }.into());
    }
    Ok(EmptyResult {})
}

async fn compact(ctx: Ctx<AppServer>, params: ThreadCompactStartParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::Compact { session: params.thread_id, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    Ok(EmptyResult {})
}
