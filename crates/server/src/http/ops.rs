//! The Op/Event socket behind `/ws?ticket=…`: frames between a WebSocket and the two queues of `ops_socket`.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Request;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use signalbox_engine::Origin;
use signalbox_rpc::{CloseReason, Heard, KeepAlive};

use super::admit::ticket_holder;
use super::connection::ConnInfo;
use super::metrics::Use;
use super::respond::{Answer, Refusal};
use super::site::Site;
use super::upgrade;
use crate::access::Caller;
use crate::ops_socket::{Inbound, OpsClient, OpsSocket, ops_connection, serve_ops};

/// A client that says nothing for a heartbeat, and then not although it was pinged so many times, is gone.
const PINGS: u32 = 3;

/// Opens the socket for whoever has a ticket.
///
/// # Errors
/// 400 if it is no handshake, and no ticket is used up; 401 without a ticket that holds.
pub(super) async fn open(
    site: &Site,
    conn: &Arc<ConnInfo>,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let handshake = upgrade::handshake(&head)?;
    let caller = ticket_holder(conn, &head).await?;
    let place = upgrade::stream_place(site, &caller)?;
    let (served, conn) = (site.clone(), conn.clone());
    let request = Request::from_parts(head, body);
    Ok(upgrade::switch(site, request, handshake, async move |stream| {
        let _counted = served.0.counters.begin(Use::Ops);
        serve(&served, &conn, stream, caller).await;
        drop((place, conn));
    }))
}

async fn serve(site: &Site, conn: &ConnInfo, stream: TokioIo<Upgraded>, caller: Caller) {
    let limits = site.0.ops;
    let grace = site.0.options.stall_grace;
    let keep_alive = KeepAlive { interval: site.0.limits.heartbeat, pings: PINGS };
    let socket = upgrade::websocket(site, stream, limits.text_bytes).await.keep_alive(keep_alive);
    let (mut source, mut sink) = socket.split();
    let (connection, OpsSocket { inbox, mut outbox }) = ops_connection(limits);
    site.0.counters.outbox(outbox.fill());
    let origin = Origin { client: Some(caller.name.to_string()), ..Origin::default() };
    let client = OpsClient { role: caller.role, origin, audit: site.0.access.audit().clone() };
    site.tasks().spawn(serve_ops(site.0.app.engine().clone(), connection, client));

    let read = async {
        loop {
            let inbound = match source.hear().await {
                Ok(Some(Heard::Text(text))) => Inbound::Text(String::from_utf8_lossy(&text).into_owned()),
                Ok(Some(Heard::Binary)) => Inbound::Binary,
                Ok(Some(Heard::End(reason))) => return Some(reason),
                Ok(None) | Err(_) => return None,
            };
            if inbox.send(inbound).await.is_err() {
                return Some(CloseReason::Shutdown);
            }
        }
    };
    let write = async {
        let mut frames = Vec::new();
        loop {
            let written = tokio::select! {
                frame = outbox.recv() => match frame {
                    Some(frame) => {
                        frames.push(Bytes::from(frame.text()));
                        sink.send(&mut frames, grace).await
                    }
                    None => return Some(CloseReason::Shutdown),
                },
                due = sink.due() => sink.attend(due, grace).await,
            };
            if let Err(reason) = written {
                // What could not be written keeps a goodbye from it too.
                tracing::debug!(%reason, "a client of the event socket is gone");
                return None;
            }
        }
    };
    // None where the client has left.
    let end = tokio::select! {
        end = write => end,
        end = read => end,
        why = caller.ended() => Some(CloseReason::Revoked(why)),
        () = conn.closing.cancelled() => Some(CloseReason::Shutdown),
    };
    if let Some(reason) = end {
        sink.close(&reason).await;
    }
}
