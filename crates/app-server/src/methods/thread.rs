//! Starting, joining, reading and leaving a thread.

use std::path::Path;
use std::sync::Arc;

use signalbox_facts::{Fact, FactBody, Policy, Seq, SessionId, SessionRow};
use signalbox_protocol::app::{
    ApprovalsReviewer, OpenedThread, ThreadReadParams, ThreadReadResult, ThreadResumeParams,
    ThreadResumeResult, ThreadStartParams, ThreadStartResult, ThreadStatus, ThreadUnsubscribeParams,
    ThreadUnsubscribeResult, ThreadUnsubscribeStatus, Turn, method,
};
use signalbox_protocol::ops::{NewSession, Op, Provider, SettingsPatch};
use signalbox_rpc::{Ctx, Lane, MAX_RESULT_BYTES, MethodSpec, Registry, Role};
use signalbox_store::Moment;

use super::launch;
use super::settings::{PolicyWishes, directory, not_used, only_local, sandbox_of};
use super::turns;
use crate::app::{AppServer, base_dir, default_provider, env, hold, origin, session_id};
use crate::connection::{Connection, Subscriber};
use crate::errors::{self, Error};
use crate::hub::frames::Cursor;
use crate::hub::{Hub, Snapshot, Visit, Wants};
use crate::view::{TurnPart, convert};

/// Who calls itself this when it initializes makes threads of the source `cli`: `signalbox run`.
const CLI_CLIENT: &str = "signalbox-run";

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_START,
                Lane::Ordered,
                "Starts a thread and subscribes to it. No agent is started before its first turn.",
            )
            .role(Role::Operator),
            start,
        )
        .method(
            MethodSpec::new(
                method::THREAD_RESUME,
                Lane::Ordered,
                "Subscribes to a thread, loading it if needed. The result is the thread up to one point of its \
                 stream; what follows that point follows the result.",
            ),
            resume,
        )
        .method(
            MethodSpec::new(
                method::THREAD_READ,
                Lane::Concurrent,
                "Reads a thread without loading it or subscribing to it.",
            ),
            read,
        )
        .method_sync(
            MethodSpec::new(method::THREAD_UNSUBSCRIBE, Lane::Ordered, "Ends a subscription. The thread goes on."),
            unsubscribe,
        );
}

async fn start(ctx: Ctx<AppServer>, params: ThreadStartParams) -> Result<ThreadStartResult, Error> {
    let app = ctx.app();
    only_local(params.environments.as_deref())?;
    let wishes = PolicyWishes {
        approval: params.approval_policy,
        sandbox: sandbox_of(params.sandbox),
        profile: params.permissions.clone(),
        policy: params.policy.map(Into::into),
    };
    let change = wishes.over(Policy::default())?;
    let mut warnings = unused_at_start(&params);
    let launch = launch::wish(&ctx, params.launch.clone(), params.config.as_ref(), &mut warnings)?;
    let session = SessionId::generate();
    // From here on, so that the answer precedes even `thread/started`.
    hold(&ctx, session);
    let policy = change.map(|patch| patch.over(Default::default()));
    let op = Op::NewSession(NewSession { launch, ..new_session(&ctx, params, policy) });
    app.engine().submit_as(op, origin(&ctx), Some(session)).await?;
    let hub = app.hub(session).await?;
    let snapshot = join_or_read(&ctx, &hub, Wants::Made, None).await?.0;
    if snapshot.row.worktree.is_some() {
        warnings.extend(said_before(app, session, snapshot.seq).await?);
    }
    warn(&ctx, session, warnings);
    Ok(ThreadStartResult { opened: opened(app, snapshot, Vec::new()) })
}

/// What was warned of while nobody could be subscribed yet, up to this seq.
pub(super) async fn said_before(
    app: &AppServer,
    session: SessionId,
    through: Seq,
) -> Result<Vec<String>, Error> {
    let facts = app.hubs().reader_of(session).facts(session, 1, through).await?;
    let warning = |fact: Fact| match fact.body {
        FactBody::Warning(warning) => Some(warning.message),
        _ => None,
    };
    Ok(facts.into_iter().filter_map(warning).collect())
}

fn new_session(
    ctx: &Ctx<AppServer>,
    params: ThreadStartParams,
    policy: Option<signalbox_protocol::ops::Policy>,
) -> NewSession {
    let provider = params.model_provider.filter(|name| !name.is_empty());
    let provider = provider.unwrap_or_else(|| default_provider(ctx));
    let cwd = directory(ctx, params.cwd.as_deref()).unwrap_or_else(|| base_dir(ctx).display().to_string());
    let effort = params.config.as_ref().and_then(|config| config.get("model_reasoning_effort"));
    let effort = effort.and_then(|effort| effort.as_str()).map(str::to_owned);
    let source = source(ctx, params.thread_source.as_deref());
    NewSession {
        use_worktree: params.worktree.is_some(),
        worktree_base: params.worktree.as_ref().map(|worktree| worktree.base),
        worktree_base_sha: params.worktree.and_then(|worktree| worktree.sha),
        initial_policy: policy,
        request_id: params.request_id,
        roots: params.runtime_workspace_roots.unwrap_or_default(),
        model: params.model,
        effort,
        base_instructions: params.base_instructions,
        developer_instructions: params.developer_instructions,
        ephemeral: params.ephemeral.unwrap_or(false),
        source,
        ..NewSession::new(Provider::from_name(&provider), cwd)
    }
}

/// What a thread of this caller is said to be made by, if that is not any client.
pub(super) fn source(ctx: &Ctx<AppServer>, named: Option<&str>) -> Option<String> {
    let of_cli = |peer| Connection::of(peer).client().is_some_and(|client| client.name == CLI_CLIENT);
    let is_cli = named == Some("cli") || ctx.peer_opt().is_some_and(of_cli);
    is_cli.then(|| "cli".to_owned())
}

fn unused_at_start(params: &ThreadStartParams) -> Vec<String> {
    let config = params.config.as_ref();
    let unknown_config = config.is_some_and(|config| {
        config.keys().any(|key| key != "model_reasoning_effort" && !launch::is_of_mcp(key))
    });
    let fields = [
        ("serviceTier", params.service_tier.is_some()),
        ("personality", params.personality.is_some()),
        ("config", unknown_config),
    ];
    not_used(&fields).into_iter().collect()
}

async fn resume(ctx: Ctx<AppServer>, params: ThreadResumeParams) -> Result<ThreadResumeResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    ctx.peer().map_err(Error::Rpc)?;
    hold(&ctx, session);
    let hub = app.hub(session).await?;
    app.engine().offer(session, env(&ctx).as_ref());
    let mut warnings = apply_overrides(&ctx, &hub, &params).await?;
    let wants = if params.exclude_turns { Wants::Outline } else { Wants::Turn };
    let after = params.after_cursor.as_deref().and_then(|cursor| Cursor::place(app.hubs(), cursor));
    let (mut snapshot, continued) = join_or_read(&ctx, &hub, wants, after).await?;
    if let Some(provider) = params.model_provider.filter(|name| *name != snapshot.row.provider.as_str()) {
        warnings.push(format!(
            "A thread keeps its provider: this one stays with {}, not {provider}.",
            snapshot.row.provider
        ));
    }
    let newest = if params.exclude_turns || continued {
        turns::Newest::default()
    } else {
        turns::newest(&app.hubs().reader_of(session), &mut snapshot).await?
    };
    warn(&ctx, session, warnings);
    Ok(ThreadResumeResult {
        opened: opened(app, snapshot, newest.turns),
        turns_backwards_cursor: newest.turns_cursor,
        items_backwards_cursor: newest.items_cursor,
        continued,
    })
}

/// Applies settings that came with a resume, if they are nobody else's business. Gives what to tell the caller.
async fn apply_overrides(
    ctx: &Ctx<AppServer>,
    hub: &Hub,
    params: &ThreadResumeParams,
) -> Result<Vec<String>, Error> {
    let mut warnings: Vec<String> = not_used(&[
        ("serviceTier", params.service_tier.is_some()),
        ("personality", params.personality.is_some()),
        (
            "config",
            params.config.as_ref().is_some_and(|config| !config.keys().all(|key| launch::is_of_mcp(key))),
        ),
        ("baseInstructions", params.base_instructions.is_some()),
        ("developerInstructions", params.developer_instructions.is_some()),
    ])
    .into_iter()
    .collect();
    let wishes = PolicyWishes {
        approval: params.approval_policy,
        sandbox: sandbox_of(params.sandbox),
        profile: params.permissions.clone(),
        policy: params.policy.map(Into::into),
    };
    let now = hub.read(false).await?;
    warnings.extend(launch::give_again(ctx, &now.row, params.launch.as_ref(), params.config.as_ref())?);
    let change = wishes.over(now.row.policy)?;
    let mut cwd = directory(ctx, params.cwd.as_deref());
    if let (Some(outside), Some(worktree)) = (&cwd, &now.row.worktree)
        && !Path::new(outside).starts_with(&worktree.path)
    {
        // Existing clients send the directory that they were started in, which is the source more often than not.
        warnings
            .push(format!("The thread works in its worktree {}, not in {outside}.", worktree.path.display()));
        cwd = None;
    }
    let settings = SettingsPatch {
        cwd,
        roots: params.runtime_workspace_roots.clone(),
        model: params.model.clone(),
        policy: change,
        ..SettingsPatch::default()
    };
    if settings.is_empty() {
        return Ok(warnings);
    }
    let why_not = if ctx.role() < Role::Operator {
        Some("this connection may only read")
    } else if now.row.activity.is_open() {
        Some("a turn is running")
    } else if hub.others(ctx.connection()) > 0 {
        Some("others follow the thread")
    } else {
        None
    };
    match why_not {
        None => {
            let session = hub.session().to_string();
            let op = Op::ThreadSettings { session, settings, request_id: None };
            ctx.app().engine().submit(op, origin(ctx)).await?;
        }
        Some(why) => warnings.push(format!("The settings of this resume were left out, because {why}.")),
    }
    Ok(warnings)
}

async fn read(ctx: Ctx<AppServer>, params: ThreadReadParams) -> Result<ThreadReadResult, Error> {
    let app = ctx.app();
    let session = session_id(&params.thread_id)?;
    // Before anything is read: what is forgotten meanwhile must not be kept.
    let word = app.hubs().old_turns().word();
    let live = match app.hubs().get(session) {
        Some(hub) => hub.read_if_there(params.include_turns).await?,
        None => None,
    };
    let moment = match &live {
        Some(_) if !params.include_turns => None,
        _ => app.hubs().reader_of(session).moment(session).await?,
    };
    let (row, mut thread, newest, first) = match (live, &moment) {
        (Some(Snapshot { row, thread, turn, turn_first_seq, .. }), _) => (row, thread, turn, turn_first_seq),
        (None, Some(moment)) => {
            let row = moment.session().clone();
            let thread = convert::thread_out(&row, ThreadStatus::NotLoaded);
            (row, thread, None, None)
        }
        (None, None) => return Err(errors::thread_not_found(&params.thread_id)),
    };
    if let Some(mut moment) = moment {
        if params.include_turns {
            thread.turns = whole_turns(app, &mut moment, &row, newest, first, word).await?;
        }
        moment.end().await?;
    }
    Ok(ThreadReadResult { thread, snapshot_seq: row.last_seq, launch: launch::shown(app, &row) })
}

/// All turns of a thread, oldest first, if they fit into a frame. `newest` is what memory has of the newest one, which
/// begins at `first`; `word` is what the old turns said before.
async fn whole_turns(
    app: &AppServer,
    moment: &mut Moment,
    row: &SessionRow,
    newest: Option<TurnPart>,
    first: Option<Seq>,
    word: u64,
) -> Result<Vec<Turn>, Error> {
    let limit = MAX_RESULT_BYTES;
    let too_large = || errors::history_too_large(limit);
    let old = app.hubs().old_turns();
    let stored = if first.is_none() { moment.newest_turn().await? } else { None };
    // Whatever began before the newest turn is over.
    let first = first.or(stored.as_ref().map(|turn| turn.first_seq)).unwrap_or(row.last_seq + 1);
    let used = newest.as_ref().map_or(0, |part| part.bytes);
    let left =
        limit.checked_sub(used).filter(|_| newest.as_ref().is_none_or(|part| part.items_before.is_none()));
    let left = left.ok_or_else(too_large)?;
    let kept = old.get(row.id, first);
    let more = left.checked_sub(kept.bytes).ok_or_else(too_large)?;
    let more = turns::whole(moment, row, kept.before, first, more).await?.ok_or_else(too_large)?;
    let bytes = kept.bytes + more.iter().map(|(_, bytes)| bytes + 1).sum::<usize>();
    let all = if more.is_empty() {
        kept.turns
    } else {
        let mut all = Arc::unwrap_or_clone(kept.turns);
        all.extend(more.into_iter().map(|(turn, _)| turn));
        let all = Arc::new(all);
        old.keep(row.id, all.clone(), first, bytes, word);
        all
    };
    let mut all = Vec::clone(&all);
    match newest {
        Some(part) => all.push(part.turn),
        None if stored.is_some() => {
            let left = left.checked_sub(bytes).ok_or_else(too_large)?;
            let last = turns::whole(moment, row, first, row.last_seq + 1, left).await?;
            all.extend(last.ok_or_else(too_large)?.into_iter().map(|(turn, _)| turn));
        }
        None => {}
    }
    Ok(all)
}

fn unsubscribe(
    ctx: Ctx<AppServer>,
    params: ThreadUnsubscribeParams,
) -> Result<ThreadUnsubscribeResult, Error> {
    let peer = ctx.peer().map_err(Error::Rpc)?;
    let session = session_id(&params.thread_id)?;
    let hubs = ctx.app().hubs();
    let status = match hubs.get(session) {
        None => ThreadUnsubscribeStatus::NotLoaded,
        Some(hub) if hub.leave(peer) => {
            Connection::of(peer).unsubscribed(session);
            for open in hubs.approvals().of_session(session) {
                peer.withdraw(&open.id);
            }
            hubs.check_approvals(session);
            ThreadUnsubscribeStatus::Unsubscribed
        }
        Some(_) => ThreadUnsubscribeStatus::NotSubscribed,
    };
    Ok(ThreadUnsubscribeResult { status })
}

/// Subscribes the caller; one that cannot be sent anything gets the thread as it is. The second value says that what
/// followed the place `after` is delivered.
pub(super) async fn join_or_read(
    ctx: &Ctx<AppServer>,
    hub: &Visit,
    wants: Wants,
    after: Option<u64>,
) -> Result<(Snapshot, bool), Error> {
    let Some(peer) = ctx.peer_opt() else { return Ok((hub.read(wants.with_turn()).await?, false)) };
    let joined = hub.join(Subscriber::new(peer), wants, after).await?;
    ctx.keep_until_sent(Box::new(joined.hold));
    Ok((joined.snapshot, joined.continued))
}

pub(super) fn warn(ctx: &Ctx<AppServer>, session: SessionId, warnings: Vec<String>) {
    let Some(peer) = ctx.peer_opt() else { return };
    let subscriber = Subscriber::new(peer);
    for message in warnings {
        ctx.app().hubs().warn(&subscriber, session, message);
    }
}

pub(super) fn opened(
    app: &AppServer,
    snapshot: Snapshot,
    turns: Vec<signalbox_protocol::app::Turn>,
) -> OpenedThread {
    let Snapshot { row, mut thread, settings, seq, cursor, .. } = snapshot;
    thread.turns = turns;
    OpenedThread {
        thread,
        model: settings.model,
        model_provider: settings.model_provider,
        cwd: settings.cwd,
        runtime_workspace_roots: row.roots.iter().map(|root| root.display().to_string()).collect(),
        approval_policy: settings.approval_policy,
        approvals_reviewer: ApprovalsReviewer::User,
        sandbox: convert::sandbox_policy_out(row.policy.sandbox, &row.all_roots()),
        reasoning_effort: settings.effort,
        service_tier: None,
        instruction_sources: Vec::new(),
        snapshot_seq: seq,
        cursor: Some(cursor),
        launch: launch::shown(app, &row),
    }
}
