//! One connection on which HTTP is spoken, whatever it came through.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use signalbox_app_server::ConnectionContext;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::answer::answer;
use super::caps::Place;
use super::listen::ListenOptions;
use super::metrics::Use;
use super::site::Site;
use crate::access::Access;
use crate::life::Guest;

/// How long answers may take to get out after connections were told to end.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// Where a connection comes from. Shared by everything that is done on it.
#[derive(Debug)]
pub struct ConnInfo {
    pub(super) via: Via,
    /// The connection's place among all, where places are counted.
    pub(super) _place: Option<Place>,
    /// That the server stays for it, where it comes by the home's socket.
    pub(super) _guest: Option<Guest>,
    /// Cancelled: no further request is taken.
    pub(super) leaving: CancellationToken,
    /// Cancelled: WebSockets and event streams end.
    pub(super) closing: CancellationToken,
}

/// The kind of a connection.
#[derive(Debug, Clone)]
pub(super) enum Via {
    /// The unix socket, which only its owner can connect to.
    Unix,
    /// A TCP listener.
    Tcp { peer: SocketAddr, local: SocketAddr, options: Arc<ListenOptions>, access: Access },
}

impl ConnInfo {
    /// A connection to a unix socket of this server: its owner's.
    #[must_use]
    pub(crate) fn unix(site: &Site, guest: Option<Guest>) -> Self {
        Self {
            via: Via::Unix,
            _guest: guest,
            _place: None,
            leaving: site.0.leaving.clone(),
            closing: site.closing().clone(),
        }
    }

    /// What it brings along.
    pub(super) fn context(&self) -> ConnectionContext {
        let base_dir = match &self.via {
            Via::Unix => None,
            Via::Tcp { options, .. } => options.base_dir.clone(),
        };
        ConnectionContext { base_dir, ..ConnectionContext::default() }
    }

    /// Whether it comes from this very machine, as far as that can be seen.
    pub(super) fn is_local(&self) -> bool {
        match &self.via {
            Via::Unix => true,
            Via::Tcp { peer, .. } => peer.ip().to_canonical().is_loopback(),
        }
    }

    /// What the kind of connection is called.
    pub(super) fn name(&self) -> &'static str {
        match &self.via {
            Via::Unix => "unix",
            Via::Tcp { .. } => "tcp",
        }
    }
}

/// Serves HTTP/1 on a stream until either side ends it. WebSockets and event streams that began on it go on after the
/// future has ended, on tasks of the site.
pub async fn serve_http<S>(stream: S, conn: ConnInfo, site: Site)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = site.0.limits;
    let _counted = site.0.counters.begin(Use::Http);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_pause));
    let conn = Arc::new(conn);
    let (leaving, closing) = (conn.leaving.clone(), conn.closing.clone());
    let service = service_fn(move |request| {
        let (site, conn) = (site.clone(), conn.clone());
        async move { Ok::<_, Infallible>(answer(&site, &conn, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .serve_connection(TokioIo::new(Box::pin(stream)), service)
        .with_upgrades();
    let mut served = pin!(served);
    let ended = tokio::select! {
        biased;
        () = leaving.cancelled() => {
            served.as_mut().graceful_shutdown();
            let bounded = async {
                closing.cancelled().await;
                tokio::time::sleep(FAREWELL).await;
            };
            tokio::select! {
                ended = &mut served => ended,
                () = bounded => Ok(()),
            }
        }
        ended = &mut served => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
