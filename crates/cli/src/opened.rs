//! Addresses that the home's server opens for a command, as long as the command runs.

use std::time::Duration;

use signalbox_client::{CallError, Client};
use signalbox_home::Holder;
use signalbox_protocol::app::{ListenerOpenParams, ListenerOpenResult, ListenerTls, method};
use signalbox_server::http::ListenOptions;
use signalbox_server::life::{ANSWER, ConnectError};
use signalbox_server::{Listen, Setup, Signals};

use crate::connect;
use crate::listeners::tell;
use crate::setup::{SetupError, told};

/// The addresses could not be opened, or are open no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenedError {
    /// No server.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It declines.
    #[error("{}", refused(listen, source))]
    Refused {
        /// The address.
        listen: String,
        /// Why.
        source: CallError,
    },
    /// Nothing that a server could open.
    #[error("the home's server has no client on stdin and stdout; `signalbox app-server` has")]
    Stdio,
    /// It has ended.
    #[error("the server has ended, and with it its addresses; `signalbox serve` starts another")]
    Gone,
}

/// The server says where it cannot listen; in front of anything else that is still to be said.
fn refused(listen: &str, error: &CallError) -> String {
    let text = error.to_string();
    if text.contains("cannot listen on") { text } else { format!("cannot listen on {listen}: {text}") }
}

/// How long another server is looked for when the one that had the addresses open has died.
const WITHOUT_SERVER: Duration = Duration::from_secs(10);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Has the home's server open the addresses, says so, and waits until somebody ends this command or stops the server. If
/// the server dies, the next one opens the same addresses.
pub(crate) async fn serve(
    setup: &Setup,
    client: &str,
    sets: &[String],
    addresses: Vec<(Listen, ListenOptions)>,
    signals: &mut Signals,
) -> Result<(), OpenedError> {
    let mut served = tokio::select! {
        served = Served::open(setup, client, sets, addresses) => served?,
        _ = signals.next() => return Ok(()),
    };
    announce(&served.opened, served.pid);
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(()),
            () = served.connection.closed() => {}
        }
        if Holder::has_left(&setup.home, served.pid) {
            return Err(OpenedError::Gone);
        }
        tell("the server has died; having another one open the same addresses");
        let addresses = served.addresses;
        let again = async {
            loop {
                match Served::open(setup, client, sets, addresses.clone()).await {
                    Ok(served) => return served,
                    Err(error) => tracing::warn!(error = %told(&error), "not yet"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        served = tokio::select! {
            again = tokio::time::timeout(WITHOUT_SERVER, again) => again.map_err(|_elapsed| OpenedError::Gone)?,
            _ = signals.next() => return Ok(()),
        };
        announce(&served.opened, served.pid);
    }
}

/// Addresses that are open as long as this lives.
struct Served {
    connection: Client,
    pid: u32,
    opened: Vec<ListenerOpenResult>,
    /// The same once more, with the ports that were free.
    addresses: Vec<(Listen, ListenOptions)>,
}

impl Served {
    async fn open(
        setup: &Setup,
        client: &str,
        sets: &[String],
        mut addresses: Vec<(Listen, ListenOptions)>,
    ) -> Result<Self, OpenedError> {
        if addresses.iter().any(|(listen, _)| *listen == Listen::Stdio) {
            return Err(OpenedError::Stdio);
        }
        let connected = connect::to_server(setup, client, sets).await?;
        let pid = connected.welcome.pid;
        let (reader, writer) = connected.stream.into_split();
        let (connection, events) = Client::over_lines(reader, writer);
        // Nothing that is told matters here.
        drop(events);
        let refused = |listen: &Listen, source| OpenedError::Refused { listen: listen.to_string(), source };
        let name = format!("signalbox-{client}");
        let hello = connection.initialize(&name, env!("CARGO_PKG_VERSION"));
        if let (Err(error), Some((listen, _))) = (in_time(pid, hello).await?, addresses.first()) {
            return Err(refused(listen, error));
        }
        let mut opened = Vec::new();
        for (listen, options) in &mut addresses {
            let params = params(listen, options.clone());
            let asked = connection.call(method::LISTENER_OPEN, &params);
            let answer: ListenerOpenResult =
                in_time(pid, asked).await?.map_err(|error| refused(listen, error))?;
            if let (Listen::Tcp { .. }, Ok(actual)) = (&*listen, answer.listen.parse()) {
                *listen = actual;
            }
            opened.push(answer);
        }
        Ok(Self { connection, pid, opened, addresses })
    }
}

/// What the server answers, unless it takes too long.
async fn in_time<T>(pid: u32, answer: impl Future<Output = T>) -> Result<T, SetupError> {
    let answer = tokio::time::timeout(ANSWER, answer).await;
    answer.map_err(|_elapsed| ConnectError::Silent { pid: Some(pid) }.into())
}

fn params(listen: &Listen, options: ListenOptions) -> ListenerOpenParams {
    let ListenOptions { allow_origins, allow_hosts, auth, insecure, tls, base_dir: _ } = options;
    let tls = tls
        .map(|tls| ListenerTls { cert: tls.cert.display().to_string(), key: tls.key.display().to_string() });
    ListenerOpenParams { listen: listen.to_string(), allow_origins, allow_hosts, auth, insecure, tls }
}

/// Says where the server listens now, and how a client begins. The token itself stays in its file.
fn announce(opened: &[ListenerOpenResult], pid: u32) {
    for one in opened {
        let whom = match (&one.http_url, one.open) {
            (None, _) => "",
            (Some(_), true) => " (open to every program of this machine, as operator)",
            (Some(_), false) => " (for clients with a token)",
        };
        tell(&format!("listening on {}{whom}", one.listen));
    }
    let with_token = opened.iter().find_map(|one| one.http_url.as_ref().zip(one.token_file.as_ref()));
    if let Some((url, file)) = with_token {
        tell(&format!(
            "  curl -H \"Authorization: Bearer $(cat {file})\" -H 'Content-Type: application/json' \\\n    \
             -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/health\"}}' {url}/rpc",
        ));
    }
    tell(&format!(
        "the server is process {pid}; it goes on when this command ends (`signalbox stop` ends it)"
    ));
}
