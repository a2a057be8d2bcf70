//! The upgrade to a WebSocket, and serving JSON-RPC on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::TokioIo;
use signalbox_rpc::{ConnOptions, Connection, Transport, WebSocket};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::caps::StreamPlace;
use super::connection::ConnInfo;
use super::metrics::Use;
use super::respond::{Answer, Refusal, empty};
use super::site::Site;
use crate::access::Caller;

/// The subprotocol of JSON-RPC, for clients that ask for one.
pub(super) const PROTOCOL: &str = "signalbox.v1";
/// How long a client may take between our answer and the first byte of the other protocol.
const SWITCHING: Duration = Duration::from_secs(10);

/// Whether the request asks for a WebSocket.
pub(super) fn is_asked(head: &Parts) -> bool {
    has(&head.headers, &UPGRADE, "websocket")
}

/// Whether a header that is a list of words has this one.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    words(headers, name).any(|one| one.eq_ignore_ascii_case(word))
}

/// The words of a header that is a list.
pub(super) fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// The answer to a handshake.
///
/// # Errors
/// 400 if it is none, 426 if it is of another version.
pub(super) fn handshake(head: &Parts) -> Result<Handshake, Refusal> {
    let wrong = |why: &str| {
        Refusal::bad(
            StatusCode::BAD_REQUEST,
            "bad_handshake",
            format!("This is no WebSocket handshake: {why}"),
        )
    };
    if head.method != Method::GET {
        return Err(Refusal::method_not_allowed("GET", " where a WebSocket is asked for"));
    }
    if head.version != Version::HTTP_11 {
        return Err(wrong("it takes HTTP/1.1"));
    }
    if !is_asked(head) {
        return Err(wrong("Upgrade must name websocket"));
    }
    if !has(&head.headers, &CONNECTION, "upgrade") {
        return Err(wrong("Connection must name Upgrade"));
    }
    // What is sent at once is the first of the other protocol, or a body: nobody may take it for both.
    let length = head.headers.get_all(CONTENT_LENGTH).iter();
    if head.headers.contains_key(TRANSFER_ENCODING) || length.into_iter().any(|length| length != "0") {
        return Err(wrong("it has no body"));
    }
    for name in [SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
        if head.headers.get_all(&name).iter().count() > 1 {
            return Err(wrong(&format!("the header {name} is there more than once")));
        }
    }
    if head.headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version.as_bytes() != b"13") {
        let mut answer = Refusal::bad(
            StatusCode::UPGRADE_REQUIRED,
            "bad_handshake",
            "This server speaks version 13 of the WebSocket protocol",
        );
        answer.add(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(answer);
    }
    let key = head.headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(key);
    if !decoded.is_ok_and(|key| key.len() == 16) {
        return Err(wrong("Sec-WebSocket-Key must be 16 bytes in base64"));
    }
    let accept = HeaderValue::from_str(&derive_accept_key(key)).map_err(|_never| wrong("the key"))?;
    let mut answer = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    // Only what was asked for may be named; a token that stands beside it is never sent back.
    if words(&head.headers, &SEC_WEBSOCKET_PROTOCOL).any(|word| word == PROTOCOL) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    Ok(Handshake(answer))
}

/// A handshake that is one, with its answer.
pub(super) struct Handshake(Answer);

/// Answers a handshake, and hands the stream to `then` on a task of the site when the client has switched.
pub(super) fn switch<F>(
    site: &Site,
    mut request: Request<Incoming>,
    Handshake(answer): Handshake,
    then: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
) -> Answer
where
    F: Future<Output = ()> + Send + 'static,
{
    let upgraded = hyper::upgrade::on(&mut request);
    site.tasks().spawn(async move {
        match tokio::time::timeout(SWITCHING, upgraded).await {
            Ok(Ok(stream)) => then(TokioIo::new(stream)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client left before it had switched"),
            Err(_elapsed) => tracing::debug!("a client did not switch in time"),
        }
    });
    answer
}

/// The WebSocket on a stream, with the bounds of the site.
pub(super) async fn websocket(
    site: &Site,
    stream: TokioIo<Upgraded>,
    message_bytes: usize,
) -> WebSocket<TokioIo<Upgraded>> {
    let limits = &site.0.limits;
    WebSocket::server(stream, message_bytes)
        .await
        .keep_alive(limits.keep_alive)
        .message_time(limits.message_time)
        .room(site.0.messages.clone())
}

/// A WebSocket that speaks JSON-RPC.
///
/// # Errors
/// If it is no handshake, or the device has too many connections.
pub(super) fn rpc(
    site: &Site,
    conn: &Arc<ConnInfo>,
    caller: Caller,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let handshake = handshake(&head)?;
    let place = stream_place(site, &caller)?;
    let options = options(site, conn, &caller);
    let frame_bytes = options.max_frame_bytes;
    let (served, conn) = (site.clone(), conn.clone());
    let request = Request::from_parts(head, body);
    Ok(switch(site, request, handshake, async move |stream| {
        let _counted = served.0.counters.begin(Use::WebSocket);
        let socket = websocket(&served, stream, frame_bytes).await;
        serve_caller(served.clone(), socket, options, caller).await;
        drop((place, conn));
    }))
}

/// A place for a long-lived stream of this caller.
///
/// # Errors
/// 429 if its device has too many, 503 if the server leaves.
pub(super) fn stream_place(site: &Site, caller: &Caller) -> Result<Option<StreamPlace>, Refusal> {
    let Some(device) = &caller.device else { return Ok(None) };
    site.0.caps.stream(&device.to_string()).map(Some).ok_or_else(|| {
        Refusal::bad(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            "This device has too many connections open; close one first",
        )
    })
}

/// How a connection of this caller is served.
pub(super) fn options(site: &Site, conn: &ConnInfo, caller: &Caller) -> ConnOptions {
    ConnOptions {
        role: caller.role,
        label: caller.name.clone(),
        shutdown: conn.closing.clone(),
        hooks: site.0.app.hooks_for(conn.context()),
        ..site.0.options.clone()
    }
}

/// Serves a connection until it ends, or the caller's credential does.
pub(super) async fn serve_caller(
    site: Site,
    transport: impl Transport,
    options: ConnOptions,
    caller: Caller,
) {
    let connection = Connection::new(site.0.service.clone(), options);
    let peer = connection.peer().clone();
    let mut served = std::pin::pin!(connection.serve(transport));
    let why = tokio::select! {
        biased;
        _ = &mut served => return,
        why = caller.ended() => why,
    };
    peer.revoke(why);
    served.await;
}
