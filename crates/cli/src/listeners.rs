//! What may be said about listeners on TCP, and what is told when they are open.

use std::io::Write;
use std::path::{Path, PathBuf};

use signalbox_protocol::app::{ConnectionRole, ListenerAuth, WsAuth};
use signalbox_server::http::{HttpDoor, HttpDoorError, ListenOptions, TlsFiles};

const HEADING: &str = "Options of ws:// and wss:// addresses";

/// Options of every command that listens on TCP.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ListenerArgs {
    /// Let pages of this origin in, e.g. `https://app.example`; the server's own origins are in already. May be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allow_origins: Vec<String>,

    /// Answer to this host name beside localhost and the address itself. May be repeated
    #[arg(long = "allow-host", value_name = "HOST")]
    allow_hosts: Vec<String>,

    /// Listen for other machines without TLS
    #[arg(long)]
    insecure: bool,

    /// The certificate chain for TLS, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// A TOML file of static tokens, each with a name and a role
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// Let in who has a token, as existing clients are told to
    #[arg(long, value_enum, value_name = "KIND")]
    ws_auth: Option<WsAuthKind>,

    /// The file of a capability token
    #[arg(long, value_name = "FILE", requires = "ws_auth")]
    ws_token_file: Option<PathBuf>,

    /// The SHA-256 of a capability token, in hexadecimal
    #[arg(long, value_name = "HEX", requires = "ws_auth", conflicts_with = "ws_token_file")]
    ws_token_sha256: Option<String>,

    /// The file of the secret with which bearer tokens are signed
    #[arg(long, value_name = "FILE", requires = "ws_auth")]
    ws_shared_secret_file: Option<PathBuf>,

    /// The issuer that signed tokens must name
    #[arg(long, value_name = "TEXT", requires = "ws_auth")]
    ws_issuer: Option<String>,

    /// The audience that signed tokens must name
    #[arg(long, value_name = "TEXT", requires = "ws_auth")]
    ws_audience: Option<String>,

    /// How far clocks may differ when a signed token is checked
    #[arg(long, value_name = "SECONDS", requires = "ws_auth")]
    ws_max_clock_skew_seconds: Option<u64>,
}

/// The kinds of `--ws-auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WsAuthKind {
    /// One token, from a file or as its hash
    CapabilityToken,
    /// Tokens (JWT, HS256) signed with a shared secret
    SignedBearerToken,
}

/// The options of a listener make no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenerError {
    /// Something is missing.
    #[error("{0}")]
    Missing(&'static str),
    /// A relative path cannot be made absolute.
    #[error("{} cannot be found", .0.display())]
    Path(PathBuf, #[source] std::io::Error),
}

impl ListenerArgs {
    /// The options of each listener, with absolute paths. `local` is what whoever comes from this machine may do without a
    /// credential.
    ///
    /// # Errors
    /// If an option needs another one.
    pub(crate) fn options(&self, local: Option<ConnectionRole>) -> Result<ListenOptions, ListenerError> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert: absolute(cert)?, key: absolute(key)? }),
            _ => None,
        };
        let tokens_file = self.tokens.as_deref().map(text).transpose()?;
        Ok(ListenOptions {
            allow_origins: self.allow_origins.clone(),
            allow_hosts: self.allow_hosts.clone(),
            auth: ListenerAuth { allow_local: local, tokens_file, ws_auth: self.ws_auth()? },
            insecure: self.insecure,
            tls,
            base_dir: None,
        })
    }

    /// Whether who has no credential stays out although the address is one of this machine.
    pub(crate) fn asks_for_credentials(&self) -> bool {
        self.ws_auth.is_some() || self.tokens.is_some()
    }

    fn ws_auth(&self) -> Result<Option<WsAuth>, ListenerError> {
        Ok(match self.ws_auth {
            None => None,
            Some(WsAuthKind::CapabilityToken) => Some(WsAuth::CapabilityToken {
                token_file: self.ws_token_file.as_deref().map(text).transpose()?,
                token_sha256: self.ws_token_sha256.clone(),
            }),
            Some(WsAuthKind::SignedBearerToken) => {
                let secret = self.ws_shared_secret_file.as_deref();
                let secret = secret.ok_or(ListenerError::Missing(
                    "--ws-auth signed-bearer-token needs --ws-shared-secret-file FILE",
                ))?;
                Some(WsAuth::SignedBearerToken {
                    shared_secret_file: text(secret)?,
                    issuer: self.ws_issuer.clone(),
                    audience: self.ws_audience.clone(),
                    max_clock_skew_seconds: self.ws_max_clock_skew_seconds,
                })
            }
        })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, ListenerError> {
    std::path::absolute(path).map_err(|error| ListenerError::Path(path.to_owned(), error))
}

fn text(path: &Path) -> Result<String, ListenerError> {
    Ok(absolute(path)?.display().to_string())
}

/// Opens a listener.
///
/// # Errors
/// If its options make no sense, or the address cannot be had.
pub(crate) fn bind(
    address: std::net::SocketAddr,
    tls: bool,
    options: ListenOptions,
) -> Result<HttpDoor, HttpDoorError> {
    if tls && options.tls.is_none() {
        return Err(HttpDoorError::NoCertificate(address));
    }
    HttpDoor::bind(address, options)
}

/// Says on stderr where a listener is reached, and whom it lets in.
pub(crate) fn announce(door: &HttpDoor) {
    let whom = if door.is_open() {
        "open to every program of this machine, as operator"
    } else {
        "for clients with a token"
    };
    tell(&format!("listening on {} ({whom})", door.websocket_url()));
}

/// Writes one line to stderr. That it cannot be written is nothing that could be told anywhere.
pub(crate) fn tell(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{text}");
}
