//! The agents' own earlier sessions: listed, and adopted as threads.

use signalbox_engine::{AgentSession, AgentSessionQuery};
use signalbox_facts::{Provider, SessionId};
use signalbox_protocol::app::{
    ProviderSession, ProviderSessionsListParams, ProviderSessionsListResult, ThreadImportParams,
    ThreadImportResult, method,
};
use signalbox_protocol::ops::{self, Import, Op};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::settings::directory;
use super::thread::{join_or_read, opened, said_before, source, warn};
use super::turns;
use crate::app::{AppServer, hold, origin};
use crate::errors::Error;
use crate::hub::Wants;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::PROVIDER_SESSIONS_LIST,
                Lane::Concurrent,
                "The sessions that a provider's agent keeps of its own, also those that it had with other programs. The agent is \
                 started for this and stopped again. Refused with `unsupported_by_agent` if it does not list, with \
                 `agent_auth_required` if it wants a login first.",
            )
            .role(Role::Operator),
            list,
        )
        .method(
            MethodSpec::new(
                method::THREAD_IMPORT,
                Lane::Concurrent,
                "Adopts one of an agent's own sessions as a thread, with what the agent tells of it, and subscribes to it. The \
                 next turn goes on with the agent's conversation. Waits until the agent has told all of it. Refused with \
                 `already_imported` if a thread goes on with that session already.",
            )
            .role(Role::Operator),
            import,
        );
}

async fn list(
    ctx: Ctx<AppServer>,
    params: ProviderSessionsListParams,
) -> Result<ProviderSessionsListResult, Error> {
    let query = AgentSessionQuery {
        provider: Provider::new(ops::Provider::from_name(&params.provider).name()),
        cwd: directory(&ctx, params.cwd.as_deref()).map(Into::into),
        cursor: params.cursor,
    };
    let found = ctx.app().engine().agent_sessions(query, &origin(&ctx)).await?;
    Ok(ProviderSessionsListResult {
        data: found.sessions.into_iter().map(session_out).collect(),
        next_cursor: found.next,
    })
}

fn session_out(session: AgentSession) -> ProviderSession {
    let AgentSession { listed, adopted } = session;
    ProviderSession {
        session_id: listed.id,
        cwd: listed.cwd.map(|cwd| cwd.display().to_string()),
        title: listed.title.filter(|title| !title.is_empty()),
        updated_at: listed.updated_at_ms.map(|at| at.div_euclid(1000)),
        thread_id: adopted.map(|thread| thread.to_string()),
    }
}

async fn import(ctx: Ctx<AppServer>, params: ThreadImportParams) -> Result<ThreadImportResult, Error> {
    let app = ctx.app();
    let session = SessionId::generate();
    // From here on, so that the answer precedes even `thread/started`.
    hold(&ctx, session);
    let op = Op::Import(Import {
        provider: ops::Provider::from_name(&params.provider),
        agent_session: params.session_id,
        cwd: directory(&ctx, params.cwd.as_deref()),
        initial_policy: params.policy,
        request_id: params.request_id,
        source: source(&ctx, None),
    });
    app.engine().submit_as(op, origin(&ctx), Some(session)).await?;
    let hub = app.hub(session).await?;
    let (mut snapshot, _) = join_or_read(&ctx, &hub, Wants::Forked, None).await?;
    let warnings = said_before(app, session, snapshot.seq).await?;
    let newest = turns::newest(&app.hubs().reader_of(session), &mut snapshot).await?;
    warn(&ctx, session, warnings.clone());
    Ok(ThreadImportResult {
        turns_backwards_cursor: newest.turns_cursor,
        items_backwards_cursor: newest.items_cursor,
        opened: opened(app, snapshot, newest.turns),
        warnings,
    })
}
