//! A TCP listener: binding, the accept loop, and what is set on each connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connection::{ConnInfo, Via, serve_http};
use super::listen::{HttpDoorError, ListenOptions};
use super::site::Site;
use super::tls;
use crate::access::{Access, Keys};

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: u32 = 1024;
/// How long nothing is accepted after an error such as "too many open files".
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a peer may be out of reach while something is on its way to it.
const OUT_OF_REACH: Duration = Duration::from_secs(60);
/// How often the kernel asks whether a silent peer is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Open files that a server may want: many connections, and not so many that a program which closes all it could have takes long.
const OPEN_FILES: u64 = 16 * 1024;
/// How often the log is told that there is no place.
const FULL_NOTED: Duration = Duration::from_secs(10);
/// What those hear for whom there is no place, since nothing of their request is read.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 142\r\n\r\n\
{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":\"Too many connections\",\
\"data\":{\"reason\":\"too_many_connections\",\"retryable\":true}}}";

/// A TCP listener that nobody has been accepted on yet.
#[derive(Debug)]
pub struct HttpDoor {
    listener: TcpListener,
    address: SocketAddr,
    options: Arc<ListenOptions>,
    tls: Option<Tls>,
    keys: Keys,
}

#[derive(Clone)]
struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl HttpDoor {
    /// Listens on an address; port 0 is one that is free. Within a runtime.
    ///
    /// # Errors
    /// If the options make no sense for the address, the TLS files cannot be used, or the address cannot be had.
    pub fn bind(address: SocketAddr, options: ListenOptions) -> Result<Self, HttpDoorError> {
        options.check(address)?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?.map(Tls);
        let keys = Keys::load(&options.auth)?;
        raise_open_files();
        let failed = |source| HttpDoorError::Bind { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options: Arc::new(options), tls, keys })
    }

    /// Where it listens, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &ListenOptions {
        &self.options
    }

    /// The URL of its WebSocket.
    #[must_use]
    pub fn websocket_url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "wss" } else { "ws" }, self.address)
    }

    /// The URL of everything else.
    #[must_use]
    pub fn http_url(&self) -> String {
        base_url(self.address, &self.options)
    }

    /// Whether somebody gets in without a credential.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.keys.is_open()
    }

    /// Accepts connections until the server leaves or `closed` is cancelled, each on a task of the site. With `closed` the
    /// connections that came through this listener end too.
    pub async fn run(self, site: Site, closed: CancellationToken) {
        let Self { listener, address, options, tls, keys } = self;
        let _listening = site.0.access.listening(&base_url(address, &options));
        let accepting =
            Accepting { address, options, tls, access: site.0.access.with(keys), full: Full::default() };
        // A listener's connections end with the listener, or with all others.
        let (leaving, closing) = (CancellationToken::new(), CancellationToken::new());
        let either = {
            let (site, closed) = (site.clone(), closed.clone());
            let (leaving, closing) = (leaving.clone(), closing.clone());
            async move {
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = site.0.leaving.cancelled() => {}
                }
                leaving.cancel();
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = site.closing().cancelled() => {}
                }
                closing.cancel();
            }
        };
        site.tasks().spawn(either);
        loop {
            let accepted = tokio::select! {
                biased;
                () = leaving.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => accepting.take(stream, peer, &site, (&leaving, &closing)),
                Err(error) => {
                    tracing::warn!(%error, %address, "accepting a connection failed");
                    tokio::select! {
                        () = leaving.cancelled() => return,
                        () = tokio::time::sleep(AFTER_ERROR) => {}
                    }
                }
            }
        }
    }
}

/// What each connection of a listener is given.
#[derive(Debug)]
struct Accepting {
    address: SocketAddr,
    options: Arc<ListenOptions>,
    tls: Option<Tls>,
    access: Access,
    full: Full,
}

/// Those for whom there was no place; they are many when they are at all.
#[derive(Debug, Default)]
struct Full(Mutex<FullSince>);

#[derive(Debug, Default)]
struct FullSince {
    noted: Option<Instant>,
    refused: u64,
}

impl Full {
    /// One more. If a line is due, how many there were since the last one.
    fn notes(&self, now: Instant) -> Option<u64> {
        let mut since = self.0.lock();
        since.refused += 1;
        if since.noted.is_some_and(|noted| now < noted + FULL_NOTED) {
            return None;
        }
        since.noted = Some(now);
        Some(std::mem::take(&mut since.refused))
    }
}

impl Accepting {
    fn take(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        site: &Site,
        (leaving, closing): (&CancellationToken, &CancellationToken),
    ) {
        let Some(place) = site.0.caps.connection(Some(peer.ip())) else {
            site.0.counters.refused_connection();
            if let Some(refused) = self.full.notes(Instant::now()) {
                tracing::warn!(%peer, refused, "no place for another connection");
            }
            if self.tls.is_none() {
                tell_full(stream);
            }
            return;
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%error, %peer, "a connection was gone before it began");
            return;
        }
        let local = stream.local_addr().unwrap_or(self.address);
        let conn = ConnInfo {
            via: Via::Tcp { peer, local, options: self.options.clone(), access: self.access.clone() },
            _guest: None,
            _place: Some(place),
            leaving: leaving.clone(),
            closing: closing.clone(),
        };
        let (site, tls) = (site.clone(), self.tls.clone());
        site.clone().tasks().spawn(async move {
            let Some(Tls(tls)) = tls else { return serve_http(stream, conn, site).await };
            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => serve_http(stream, conn, site).await,
                Ok(Err(error)) => tracing::debug!(%error, %peer, "a TLS handshake failed"),
                Err(_elapsed) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
        });
    }
}

/// What does not fit into the empty buffer of a new connection is not waited for.
fn tell_full(stream: TcpStream) {
    use std::io::Write;
    // The runtime would first have to find out that it can be written.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(FULL);
    }
}

/// How others reach it: by its name, if it was given one.
fn base_url(address: SocketAddr, options: &ListenOptions) -> String {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    match options.allow_hosts.first() {
        Some(host) if host.contains(':') => format!("{scheme}://{host}"),
        Some(host) => format!("{scheme}://{host}:{}", address.port()),
        None => format!("{scheme}://{address}"),
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Else a restarted server has to wait for the connections of the one before it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Small frames go out at once, and a peer that is gone without a word is found out.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
        sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE / 3)?;
        sockopt::set_tcp_user_timeout(stream, u32::try_from(OUT_OF_REACH.as_millis()).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

/// Raises the soft limit of open files as far as we may and want.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_a_place_are_noted_together() {
        let full = Full::default();
        let begun = Instant::now();
        assert_eq!(full.notes(begun), Some(1));
        for _ in 0..1000 {
            assert_eq!(full.notes(begun + FULL_NOTED / 2), None);
        }
        assert_eq!(full.notes(begun + FULL_NOTED), Some(1001));
    }

    #[test]
    fn the_answer_without_a_place_is_whole() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{} bytes", body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["data"]["reason"], "too_many_connections");
    }
}
