//! Addresses that the home's server opens for a command, as long as the command runs.

use signalbox_client::{CallError, Client, Events};
use signalbox_protocol::app::{ListenerOpenParams, ListenerOpenResult, ListenerTls, method};
use signalbox_server::http::ListenOptions;
use signalbox_server::{Listen, Setup, Signals};

use crate::connect;
use crate::listeners::tell;
use crate::setup::SetupError;

/// The addresses could not be opened, or are open no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenedError {
    /// No server.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It declines.
    #[error("cannot listen on {listen}: {source}")]
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
    #[error("the server has ended, and with it its addresses")]
    Gone,
}

/// Has the home's server open the addresses, says so, and waits until somebody ends this command or the server ends.
pub(crate) async fn serve(
    setup: &Setup,
    client: &str,
    sets: &[String],
    addresses: Vec<(Listen, ListenOptions)>,
    signals: &mut Signals,
) -> Result<(), OpenedError> {
    let open = async {
        if addresses.iter().any(|(listen, _)| *listen == Listen::Stdio) {
            return Err(OpenedError::Stdio);
        }
        let connected = connect::to_server(setup, client, sets).await?;
        let pid = connected.welcome.pid;
        let (reader, writer) = connected.stream.into_split();
        let (connection, events) = Client::over_lines(reader, writer);
        let refused = |listen: &Listen, source| OpenedError::Refused { listen: listen.to_string(), source };
        let mut opened = Vec::new();
        let name = format!("signalbox-{client}");
        let mut is_new = true;
        for (listen, options) in addresses {
            if std::mem::take(&mut is_new) {
                let hello = connection.initialize(&name, env!("CARGO_PKG_VERSION"));
                hello.await.map_err(|error| refused(&listen, error))?;
            }
            let params = params(&listen, options);
            let answer = connection.call(method::LISTENER_OPEN, &params).await;
            opened.push(answer.map_err(|error| refused(&listen, error))?);
        }
        Ok((connection, events, pid, opened))
    };
    let (connection, events, pid, opened): (Client, Events, u32, Vec<ListenerOpenResult>) = tokio::select! {
        opened = open => opened?,
        _ = signals.next() => return Ok(()),
    };
    drop(events);
    announce(&opened, pid);
    tokio::select! {
        _ = signals.next() => Ok(()),
        () = connection.closed() => Err(OpenedError::Gone),
    }
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
