//! `signalbox login`: logs in with an agent, in this terminal or by the agent itself, and sees that it works afterwards.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use signalbox_client::{CallError, Client, Event, Events};
use signalbox_home::Config;
use signalbox_protocol::app::{
    AuthMethod, LoginProgress, LoginRequired, ProviderCheckParams, ProviderCheckResult, ProviderFailure,
    ProviderLoginParams, ServerNotification, method,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::{Global, LoginArgs};
use crate::details::{detailed, with_details};
use crate::setup::{self, Prepared, SetupError, complain, told};
use crate::{EXIT_FORCED, EXIT_USAGE, connect, logs};

mod progress;

/// What an agent says that may wait to be shown.
const SAID: usize = 64;

/// An agent that is done sooner has hardly asked its user anything.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    #[error("the terminal cannot be used")]
    Terminal(#[from] io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: &LoginArgs) -> ExitCode {
    logs::init("off");
    let done = setup::runtime().map_err(Trouble::from).and_then(|runtime| {
        let done = runtime.block_on(log_in(global, args));
        // A read of a terminal cannot be interrupted; the process must not wait for it.
        runtime.shutdown_background();
        done
    });
    let Err(trouble) = done else { return ExitCode::SUCCESS };
    complain(&told(&trouble));
    match trouble {
        Trouble::Setup(_) | Trouble::Usage(_) => ExitCode::from(EXIT_USAGE),
        Trouble::Interrupted => ExitCode::from(EXIT_FORCED),
        Trouble::Call(_) | Trouble::Failed(_) | Trouble::Terminal(_) => ExitCode::FAILURE,
    }
}

async fn log_in(global: &Global, args: &LoginArgs) -> Result<(), Trouble> {
    let Prepared { setup, warnings } = setup::prepare(global, "login")?;
    for warning in warnings {
        complain(&warning);
    }
    let connected = connect::to_server(&setup, "login", &global.config).await?;
    let (reader, writer) = connected.stream.into_split();
    let (client, events) = Client::over_lines(reader, writer);
    client.initialize("signalbox-login", env!("CARGO_PKG_VERSION")).await?;
    let (told, mut said) = mpsc::channel(SAID);
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        // The end of the connection ends what the server does for it.
        _ = interrupt.recv() => Err(Trouble::Interrupted),
        done = with(&client, args, &setup.config, &mut said) => done,
        () = listen(events, told) => Err(Trouble::Call(CallError::Closed)),
    }
}

/// Takes what the server tells. Of all that only the progress of a login matters here.
async fn listen(mut events: Events, told: mpsc::Sender<LoginProgress>) {
    while let Some(event) = events.next().await {
        if let Event::Notification(notification) = event
            && let ServerNotification::ProviderLoginProgress(own) = notification.body
            && told.send(own.progress).await.is_err()
        {
            return;
        }
    }
}

async fn with(
    client: &Client,
    args: &LoginArgs,
    config: &Config,
    said: &mut mpsc::Receiver<LoginProgress>,
) -> Result<(), Trouble> {
    let provider = &args.provider;
    say(&format!("Looking at {provider} …"))?;
    let before = check(client, provider).await?;
    if before.agent.is_none()
        && let Some(failure) = &before.failure
    {
        return Err(Trouble::Failed(with_hint(failure)));
    }
    let name = before.agent.as_ref().map_or(provider.as_str(), |agent| agent.name.as_str());
    let may_want_one = before.login.required == LoginRequired::Unknown && !before.login.methods.is_empty();
    if before.ok && before.login.required != LoginRequired::Yes && args.method.is_none() {
        if may_want_one {
            say(&format!(
                "{name} opens sessions. Whether it is logged in shows at a prompt; --method ID logs in: {}",
                ids(&before.login.methods)
            ))?;
        } else {
            say(&format!("{name} opens sessions: nothing is missing."))?;
        }
        let question = if may_want_one { "Log in?" } else { "Log in anew?" };
        if before.login.methods.is_empty() || !is_interactive() || !confirmed(question).await? {
            return Ok(());
        }
    }
    let hint = before.login.hint.as_deref().and_then(|hint| others(hint, provider));
    let chosen = choose(&before.login.methods, args.method.as_deref(), name, hint.as_deref()).await?;
    if let Some(description) = chosen.description.as_deref().filter(|text| !text.trim().is_empty()) {
        say(&format!("{}: {}", plain(&chosen.name), plain(description)))?;
    }
    let params = ProviderLoginParams { provider: provider.clone(), method_id: Some(chosen.id.clone()) };
    let began = Instant::now();
    match chosen.command.as_deref() {
        Some([program, words @ ..]) => {
            // Where the agent keeps its login may depend on what is set for it.
            let mut env = config.providers.get(provider).map(|own| own.env.clone()).unwrap_or_default();
            env.extend(chosen.env.clone());
            // So that the server knows that what the agent refused before may hold no more.
            let _offered: signalbox_protocol::app::ProviderLoginResult =
                client.call(method::PROVIDER_LOGIN, &params).await.map_err(refused)?;
            in_terminal(program, words, &env).await?;
        }
        _ => {
            say(&format!("{name} logs you in ({}); it may open a browser. Ctrl-C ends this.", chosen.name))?;
            progress::log_in(client, &params, said).await?;
            if began.elapsed() < AT_ONCE
                && let Some(hint) = &hint
            {
                say(&format!("{name} was done at once, which may mean that it did nothing: then {hint}"))?;
            }
        }
    }
    say(&format!("Opening a session with {name} to see that it works …"))?;
    let after = check(client, provider).await?;
    match after.failure {
        None => {
            let shows = match after.login.required {
                LoginRequired::No => "",
                LoginRequired::Yes | LoginRequired::Unknown => " A prompt shows whether the login holds.",
            };
            say(&format!("{name} opens sessions.{shows} Try: signalbox run --provider {provider} \"Hello\""))
        }
        // To log in here is what was just done.
        Some(mut failure) => {
            failure.hint = failure.hint.and_then(|hint| others(&hint, provider));
            Err(Trouble::Failed(with_hint(&failure)))
        }
    }
}

async fn check(client: &Client, provider: &str) -> Result<ProviderCheckResult, Trouble> {
    let params = ProviderCheckParams { provider: provider.to_owned(), session: true };
    client.call(method::PROVIDER_CHECK, &params).await.map_err(refused)
}

/// What the server declines, with what would help.
fn refused(error: CallError) -> Trouble {
    let CallError::Refused(failure) = &error else { return error.into() };
    let mut data = failure.data.clone();
    // To log in here is what was just tried.
    if let Some(hint) = data.get("hint").and_then(|hint| hint.as_str()).map(str::to_owned) {
        data.remove("hint");
        let ours = hint.split_once("run `signalbox login ").and_then(|(_, rest)| rest.split_once('`'));
        let other = match ours {
            Some((provider, _)) => others(&hint, provider),
            None => Some(hint),
        };
        data.extend(other.map(|hint| ("hint".to_owned(), hint.into())));
    }
    let text = with_details(&failure.message, &data);
    match failure.reason.as_str() {
        "provider_not_found" | "provider_unavailable" | "invalid_params" => Trouble::Usage(text),
        _ => Trouble::Failed(text),
    }
}

fn with_hint(failure: &ProviderFailure) -> String {
    let (stderr, stdout) = (failure.stderr_tail.as_deref(), failure.stdout_tail.as_deref());
    detailed(&failure.message, stderr, stdout, failure.hint.as_deref())
}

/// A hint without the advice to run this very command.
fn others(hint: &str, provider: &str) -> Option<String> {
    let rest = hint.strip_prefix(&format!("run `signalbox login {provider}`")).unwrap_or(hint);
    let rest = rest.strip_prefix("; or ").unwrap_or(rest).trim();
    (!rest.is_empty()).then(|| rest.to_owned())
}

fn ids(methods: &[AuthMethod]) -> String {
    methods.iter().map(|method| method.id.as_str()).collect::<Vec<_>>().join(", ")
}

/// What an agent says, without what steers a terminal.
fn plain(text: &str) -> String {
    crate::run::clean::clean(text).trim().to_owned()
}

/// The method that was named, the only one, or the one that is chosen in the terminal.
async fn choose<'a>(
    methods: &'a [AuthMethod],
    named: Option<&str>,
    name: &str,
    hint: Option<&str>,
) -> Result<&'a AuthMethod, Trouble> {
    match (named, methods) {
        (_, []) => {
            let hint = hint.unwrap_or("see its own documentation");
            Err(Trouble::Failed(format!("{name} offers no way to log in from here: {hint}")))
        }
        (Some(id), _) => methods.iter().find(|method| method.id == id).ok_or_else(|| {
            Trouble::Usage(format!("{name} has no way to log in called {id:?}; it has {}", ids(methods)))
        }),
        (None, [only]) => Ok(only),
        (None, _) if !is_interactive() => Err(Trouble::Usage(format!(
            "{name} has several ways to log in: choose one with --method: {}",
            ids(methods)
        ))),
        (None, _) => {
            say(&format!("{name} has several ways to log in:"))?;
            for (at, method) in methods.iter().enumerate() {
                let more = method.description.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                say(&format!("  {}  {} [{}]{more}", at + 1, method.name, method.id))?;
            }
            let answer = ask(&format!("Which one? [1-{}] ", methods.len())).await?;
            let at = answer.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            at.and_then(|at| methods.get(at)).ok_or_else(|| Trouble::Usage("that is none of them".to_owned()))
        }
    }
}

/// Runs the agent's own command here. Everything it asks is between it and the user.
async fn in_terminal(program: &str, words: &[String], env: &BTreeMap<String, String>) -> Result<(), Trouble> {
    say(&format!("Running: {program} {}", words.join(" ")))?;
    #[allow(
        clippy::disallowed_methods,
        reason = "it is the user's own command, in the user's own environment"
    )]
    let status =
        tokio::process::Command::new(program).args(words).envs(env).kill_on_drop(true).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Trouble::Failed(format!("the login has failed: {program} ended with {status}"))),
        Err(error) => Err(Trouble::Failed(format!("{program} cannot be started: {error}"))),
    }
}

fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

async fn confirmed(question: &str) -> Result<bool, Trouble> {
    Ok(matches!(ask(&format!("{question} [y/N] ")).await?.trim(), "y" | "Y" | "yes"))
}

async fn ask(question: &str) -> Result<String, Trouble> {
    let mut stderr = anstream::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    Ok(read.await.map_err(io::Error::other)??)
}

/// Says something to people; stdout is left to the agent's command.
fn say(text: &str) -> Result<(), Trouble> {
    Ok(writeln!(anstream::stderr(), "{text}")?)
}
