//! A client of the unix socket: what it speaks is told from its first bytes.

use std::time::Duration;

use bytes::Bytes;
use signalbox_rpc::{ConnOptions, Framed, Framing, Prefixed, Protocol, Service, serve, sniff};
use tokio::net::UnixStream;

use crate::http::{ConnInfo, Site, serve_http};
use crate::life::Guest;

/// How long a client may be silent before it is taken for one that will speak lines.
const SNIFFING: Duration = Duration::from_secs(10);

/// Serves one client until it ends. `ahead` was read of the stream already.
pub(crate) async fn serve_stream(
    ahead: Bytes,
    stream: UnixStream,
    service: Service,
    options: ConnOptions,
    site: Site,
    guest: Option<Guest>,
) {
    let shutdown = options.shutdown.clone();
    let sniffed = tokio::select! {
        biased;
        sniffed = sniff(Prefixed::new(ahead, stream), SNIFFING) => sniffed,
        () = shutdown.cancelled() => return,
    };
    let (protocol, stream) = match sniffed {
        Ok(sniffed) => sniffed,
        Err(error) => {
            tracing::debug!(%error, "a client was gone before it said anything");
            return;
        }
    };
    let framing = match protocol {
        Protocol::ContentLength => Framing::ContentLength,
        Protocol::Lines => Framing::Lines,
        Protocol::Http => return serve_http(stream, ConnInfo::unix(&site, guest), site).await,
    };
    let (begin, stream) = stream.into_parts();
    let (rest, stream) = stream.into_parts();
    let (reader, writer) = stream.into_split();
    let reader = Prefixed::new(begin, Prefixed::new(rest, reader));
    serve(Framed::new(framing, reader, writer), service, options).await;
}
