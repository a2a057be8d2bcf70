//! The Op/Event socket behind `/ws?ticket=…`: frames between a WebSocket and the two queues of `ops_socket`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::Request;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use signalbox_engine::Origin;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::admit::ticket_holder;
use super::connection::ConnInfo;
use super::metrics::Use;
use super::respond::{Answer, Refusal};
use super::site::Site;
use super::upgrade;
use crate::access::Caller;
use crate::ops_socket::{Inbound, OpsClient, OpsSocket, ops_connection, serve_ops};

/// A client that says nothing for so many heartbeats, although it was asked, is gone.
const SILENT: u32 = 4;
/// What an idle connection keeps for reading.
const READ_BUFFER: usize = 16 * 1024;
/// How long the last frame may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Opens the socket for whoever has a ticket.
///
/// # Errors
/// 401 without a ticket that holds, 400 if it is no handshake.
pub(super) async fn open(
    site: &Site,
    conn: &Arc<ConnInfo>,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let caller = ticket_holder(conn, &head).await?;
    let place = upgrade::stream_place(site, &caller)?;
    let (served, conn) = (site.clone(), conn.clone());
    upgrade::switch(site, Request::from_parts(head, body), async move |stream| {
        let _counted = served.0.counters.begin(Use::Ops);
        serve(&served, &conn, stream, caller).await;
        drop((place, conn));
    })
}

async fn serve(site: &Site, conn: &ConnInfo, stream: TokioIo<Upgraded>, caller: Caller) {
    let limits = site.0.ops;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.text_bytes))
        .max_frame_size(Some(limits.text_bytes));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (connection, OpsSocket { inbox, mut outbox }) = ops_connection(limits);
    let origin = Origin { client: Some(caller.name.to_string()), ..Origin::default() };
    let client = OpsClient { role: caller.role, origin, audit: site.0.access.audit().clone() };
    site.tasks().spawn(serve_ops(site.0.app.engine().clone(), connection, client));

    let (mut sink, mut frames) = socket.split();
    let heartbeat = site.0.limits.heartbeat;
    let read = async {
        loop {
            let inbound = match timeout(heartbeat * SILENT, frames.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => Inbound::Text(text.as_str().to_owned()),
                Ok(Some(Ok(Message::Binary(_)))) => Inbound::Binary,
                Ok(Some(Ok(Message::Close(_))) | None) => return End::Gone,
                // What is left of such a message cannot be skipped.
                Ok(Some(Err(Error::Capacity(_)))) => {
                    return End::Close(CloseCode::Size, "the message is too large");
                }
                Ok(Some(Err(Error::Utf8(_)))) => {
                    return End::Close(CloseCode::Invalid, "the text is no UTF-8");
                }
                Ok(Some(Err(Error::Protocol(error)))) => {
                    tracing::debug!(%error, "a client of the event socket does not keep to the protocol");
                    return End::Close(CloseCode::Protocol, "this is not the WebSocket protocol");
                }
                Ok(Some(Err(_))) => return End::Gone,
                Ok(Some(Ok(_))) => continue,
                Err(_elapsed) => return End::Close(CloseCode::Away, "nothing was heard for too long"),
            };
            if inbox.send(inbound).await.is_err() {
                return End::Left;
            }
        }
    };
    let write = async {
        let mut beat = tokio::time::interval_at(Instant::now() + heartbeat, heartbeat);
        loop {
            let message = tokio::select! {
                frame = outbox.recv() => match frame {
                    Some(frame) => Message::text(frame.text()),
                    None => return End::Left,
                },
                _ = beat.tick() => Message::Ping(Vec::new().into()),
            };
            if sink.send(message).await.is_err() {
                return End::Gone;
            }
        }
    };
    let end = tokio::select! {
        end = write => end,
        end = read => end,
        why = caller.ended() => End::Close(CloseCode::Policy, why),
        () = conn.closing.cancelled() => End::Left,
    };
    let (code, reason) = match end {
        End::Gone => (CloseCode::Normal, ""),
        End::Left => (CloseCode::Away, "the server is shutting down"),
        End::Close(code, reason) => (code, reason),
    };
    let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    if timeout(FAREWELL, sink.send(close)).await.is_ok_and(|sent| sent.is_ok()) {
        // The client's own close frame, so that ours is not lost with a reset of what it still sends.
        let _ = timeout(FAREWELL, async { while let Some(Ok(_)) = frames.next().await {} }).await;
    }
}

/// Why a connection ends.
enum End {
    /// The client has left.
    Gone,
    /// The server leaves.
    Left,
    Close(CloseCode, &'static str),
}
