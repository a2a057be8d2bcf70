//! Providers: the ways to start an agent, and whether they can be used from here.

use signalbox_engine::{
    AgentFailure, AgentInfo, Check, Engine, Known, LastFailure, Login, LoginMethod, LoginState, ProbeNews,
    ProviderStatus, RequestKey,
};
use signalbox_facts::Provider;
use signalbox_protocol::app::{
    AgentCapabilities, AgentDescription, AuthMethod, EmptyResult, LoginInfo, LoginProgress, LoginRequired,
    ModelProviderListParams, ModelProviderListResult, ModelProviderSummary, ProviderCheckParams,
    ProviderCheckResult, ProviderFailure, ProviderInfo, ProviderListParams, ProviderListResult,
    ProviderLoginAnswerParams, ProviderLoginParams, ProviderLoginProgressNotification, ProviderLoginResult,
    ProviderSettings, method,
};
use signalbox_rpc::{Ctx, Frame, Lane, MethodSpec, Registry, Role, RpcError};
use tokio::sync::mpsc;

use crate::app::{AppServer, default_provider, env};
use crate::errors::{self, Error};

/// Pieces of what an agent says that may wait to be told.
const NEWS: usize = 256;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::PROVIDER_LIST,
                Lane::Concurrent,
                "All providers, whether their commands are there, and what would help if not.",
            ),
            list,
        )
        .method(
            MethodSpec::new(
                method::PROVIDER_CHECK,
                Lane::Concurrent,
                "Ext: starts a provider's agent, learns what it is, whether it opens a session and whether it wants a \
                 login, and stops it. What is learnt is in `provider/list` from then on.",
            )
            .role(Role::Operator),
            check,
        )
        .method(
            MethodSpec::new(
                method::PROVIDER_LOGIN,
                Lane::Concurrent,
                "Ext: logs in with a provider's agent. What the agent does itself is waited for, for at most ten \
                 minutes, and ends when the request is cancelled; of a login in a terminal the command is given back.",
            )
            .role(Role::Owner),
            login,
        )
        .method(
            MethodSpec::new(
                method::PROVIDER_LOGIN_ANSWER,
                Lane::Concurrent,
                "Ext: tells an agent that logs in what became of the address it asked to be opened.",
            )
            .role(Role::Owner),
            answer,
        )
        .method(
            MethodSpec::new(
                method::MODEL_PROVIDER_LIST,
                Lane::Concurrent,
                "The same providers in the form existing clients know.",
            ),
            list_for_existing,
        );
}

async fn list(ctx: Ctx<AppServer>, _: ProviderListParams) -> Result<ProviderListResult, RpcError> {
    let default = default_provider(&ctx);
    let engine = ctx.app().engine();
    let info = |status: ProviderStatus| {
        let known = engine.memory().of(&status.provider).unwrap_or_default();
        let login = login_out(engine, &status.provider, &known);
        ProviderInfo {
            is_default: status.provider.as_str() == default,
            id: status.provider.to_string(),
            name: status.title,
            available: status.available,
            reason: status.reason,
            hint: status.hint,
            downloads: status.downloads,
            disabled: status.disabled,
            command: status.command,
            version: known.version,
            auth_methods: login.methods.clone(),
            login,
            last_failure: known.last_failure.map(last_failure_out),
            mediated: status.mediated,
        }
    };
    Ok(ProviderListResult { data: statuses(&ctx).await?.into_iter().map(info).collect() })
}

async fn check(ctx: Ctx<AppServer>, params: ProviderCheckParams) -> Result<ProviderCheckResult, Error> {
    let provider = Provider::new(&params.provider);
    let engine = ctx.app().engine();
    let what = if params.session { Check::Session } else { Check::Introduction };
    let probed = engine.check_provider(&provider, what, env(&ctx).as_ref()).await?;
    let known = engine.memory().of(&provider).unwrap_or_default();
    Ok(ProviderCheckResult {
        login: login_out(engine, &provider, &known),
        provider: provider.to_string(),
        ok: probed.failure.is_none(),
        failure: probed.failure.map(|failure| failure_out(&failure, ctx.app().now_ms())),
        agent: probed.info.map(agent_out),
        warnings: probed.warnings,
    })
}

async fn login(ctx: Ctx<AppServer>, params: ProviderLoginParams) -> Result<ProviderLoginResult, Error> {
    let provider = Provider::new(&params.provider);
    let engine = ctx.app().engine();
    let method = params.method_id.as_deref();
    let (told, mut news) = mpsc::channel(NEWS);
    let env = env(&ctx);
    let mut login = std::pin::pin!(engine.log_in(&provider, method, env.as_ref(), told));
    let (method, login) = loop {
        tokio::select! {
            // What was told before the end is told first.
            biased;
            Some(news) = news.recv() => tell(&ctx, &provider, news),
            done = login.as_mut() => break done?,
        }
    };
    while let Ok(news) = news.try_recv() {
        tell(&ctx, &provider, news);
    }
    let method = method_out(method);
    match login {
        Login::Terminal => Ok(ProviderLoginResult::Terminal { method }),
        Login::Agent(probed) => match probed.failure {
            None => Ok(ProviderLoginResult::Done {
                method,
                stderr_tail: Some(probed.stderr_tail).filter(|tail| !tail.is_empty()),
                addresses: probed.addresses,
            }),
            Some(failure) => Err(errors::of_login(&failure, probed.addresses)),
        },
    }
}

/// Shows the caller what the agent says. A connection that is not there any more has cancelled the login.
fn tell(ctx: &Ctx<AppServer>, provider: &Provider, news: ProbeNews) {
    let progress = match news {
        ProbeNews::Said(text) => LoginProgress::Output { text },
        ProbeNews::Address { key, message, url } => {
            LoginProgress::Address { request_id: key.0, message, url }
        }
        ProbeNews::Settled { key } => LoginProgress::AddressDone { request_id: key.0 },
    };
    // A POST has no connection that could be told; the result has the addresses.
    let Some(peer) = ctx.peer_opt() else { return };
    let told = ProviderLoginProgressNotification { provider: provider.to_string(), progress };
    match Frame::notification(method::PROVIDER_LOGIN_PROGRESS, &told) {
        Ok(frame) => drop(peer.notify(frame)),
        Err(error) => tracing::warn!(%error, "the progress of a login cannot be told"),
    }
}

async fn answer(ctx: Ctx<AppServer>, params: ProviderLoginAnswerParams) -> Result<EmptyResult, Error> {
    let provider = Provider::new(&params.provider);
    ctx.app().engine().answer_login(&provider, RequestKey(params.request_id), params.accept)?;
    Ok(EmptyResult {})
}

fn login_out(engine: &Engine, provider: &Provider, known: &Known) -> LoginInfo {
    let hint = engine.catalog().entry(provider).ok().and_then(|entry| entry.login_hint.clone());
    let ours = (!known.methods.is_empty()).then(|| format!("run `signalbox login {provider}`"));
    LoginInfo {
        required: match known.login {
            LoginState::Unknown => LoginRequired::Unknown,
            LoginState::Required => LoginRequired::Yes,
            LoginState::Done => LoginRequired::No,
        },
        methods: known.methods.iter().cloned().map(method_out).collect(),
        hint: match (ours, hint) {
            _ if known.login == LoginState::Done => None,
            (Some(ours), Some(hint)) => Some(format!("{ours}; or {hint}")),
            (ours, hint) => ours.or(hint),
        },
    }
}

fn method_out(method: LoginMethod) -> AuthMethod {
    let LoginMethod { id, name, description, kind, command, env } = method;
    AuthMethod { id, name, description, kind, command, env }
}

fn last_failure_out(failure: LastFailure) -> ProviderFailure {
    let LastFailure { reason, message, hint, at_ms } = failure;
    ProviderFailure { reason, message, hint, stderr_tail: None, stdout_tail: None, at: at_ms }
}

fn failure_out(failure: &AgentFailure, at: i64) -> ProviderFailure {
    ProviderFailure {
        reason: failure.reason.as_str().to_owned(),
        message: failure.message.clone(),
        hint: failure.hint.clone(),
        stderr_tail: Some(failure.stderr_tail.clone()).filter(|text| !text.is_empty()),
        stdout_tail: Some(failure.stdout_tail.clone()).filter(|text| !text.is_empty()),
        at,
    }
}

fn agent_out(info: AgentInfo) -> AgentDescription {
    AgentDescription {
        capabilities: AgentCapabilities {
            images: info.takes_images,
            audio: info.takes_audio,
            resources: info.takes_resources,
            mcp_http: info.mcp_http,
            mcp_sse: info.mcp_sse,
            resume: info.can_resume || info.can_load,
            fork: info.can_fork,
            list: info.can_list,
        },
        models: info.models.into_iter().map(|model| model.id).collect(),
        modes: info
            .modes
            .map(|modes| modes.available.into_iter().map(|mode| mode.id).collect())
            .unwrap_or_default(),
        name: info.name,
        version: info.version,
        protocol: info.protocol,
    }
}

async fn list_for_existing(
    ctx: Ctx<AppServer>,
    _: ModelProviderListParams,
) -> Result<ModelProviderListResult, RpcError> {
    let summary = |status: ProviderStatus| ModelProviderSummary {
        id: status.provider.to_string(),
        name: status.title,
        base_url: None,
        can_edit: false,
        settings: ProviderSettings::Openai,
    };
    Ok(ModelProviderListResult {
        data: statuses(&ctx).await?.into_iter().map(summary).collect(),
        default_provider_id: default_provider(&ctx),
        can_change_default: false,
    })
}

/// Looks for the commands on disk, where the caller's agents would be looked for, beside everything else.
async fn statuses(ctx: &Ctx<AppServer>) -> Result<Vec<ProviderStatus>, RpcError> {
    let engine = ctx.app().engine().clone();
    let offered = engine.catalog().offered(env(ctx).as_ref()).await;
    tokio::task::spawn_blocking(move || engine.catalog().list(&offered)).await.map_err(RpcError::internal)
}
