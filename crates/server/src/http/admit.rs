//! Who calls: the one place where HTTP asks `access`, and what access answers over HTTP.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::answer::only;
use super::body;
use super::connection::{ConnInfo, Via};
use super::respond::{self, Refusal};
use super::site::Site;
use super::upgrade::words;
use crate::access::{self, Access, Caller, Refused};

/// A subprotocol that carries a token, because a browser's WebSocket can send no other header.
const BEARER_PROTOCOL: &str = "bearer.";
/// Bytes of a request to pair.
const PAIRING_BYTES: usize = 16 * 1024;
/// Headers by which a proxy says that it passes on what somebody else sent.
const PASSED_ON: [HeaderName; 4] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("via"),
];

/// Who comes through a TCP listener, as access sees it.
struct Visitor<'a> {
    access: &'a Access,
    /// The address that the connection comes from, and for what a proxy passes on one that is not of this machine.
    from: IpAddr,
}

/// None for the unix socket, whose clients are known.
fn visitor<'a>(conn: &'a ConnInfo, head: &Parts) -> Option<Visitor<'a>> {
    match &conn.via {
        Via::Unix => None,
        Via::Tcp { peer, access, .. } => {
            let passed_on = PASSED_ON.iter().any(|name| head.headers.contains_key(name));
            // Whom a proxy on this machine lets through is not of this machine for that.
            let from = if passed_on && conn.is_local() { IpAddr::from([0, 0, 0, 0]) } else { peer.ip() };
            Some(Visitor { access, from })
        }
    }
}

/// Who sends this request.
///
/// # Errors
/// 401 without a credential that is worth something, 429 after too many attempts.
pub(super) async fn caller(conn: &ConnInfo, head: &Parts) -> Result<Caller, Refusal> {
    let Some(Visitor { access, from }) = visitor(conn, head) else { return Ok(Caller::owner("unix")) };
    Ok(access.authenticate(credential(head)?, from).await?)
}

/// Who has the ticket in `?ticket=…`; over the unix socket none is needed.
///
/// # Errors
/// 401 without a ticket that holds, 429 after too many attempts.
pub(super) async fn ticket_holder(conn: &ConnInfo, head: &Parts) -> Result<Caller, Refusal> {
    let Some(Visitor { access, from }) = visitor(conn, head) else { return Ok(Caller::owner("unix")) };
    let pairs = head.uri.query().unwrap_or_default().split('&');
    let ticket = pairs.filter_map(|pair| pair.strip_prefix("ticket=")).next();
    Ok(access.redeem(ticket, from).await?)
}

/// `/api/pair` and `/api/ws-ticket`; none if the path is neither.
///
/// # Errors
/// 405 for another method than POST, and what reading a body refuses.
pub(super) async fn api(
    site: &Site,
    conn: &Arc<ConnInfo>,
    head: &Parts,
    body: Incoming,
) -> Option<Result<respond::Answer, Refusal>> {
    let pairs = match head.uri.path() {
        "/api/pair" => true,
        "/api/ws-ticket" => false,
        _ => return None,
    };
    Some(
        async {
            only(head, Method::POST, "POST", "")?;
            let local = || (&site.0.access, IpAddr::from([127, 0, 0, 1]));
            let (access, from) =
                visitor(conn, head).map_or_else(local, |visitor| (visitor.access, visitor.from));
            let answer = if pairs {
                let held = body::read(site, body, PAIRING_BYTES).await?;
                access.pair(&held.bytes, from).await
            } else {
                access.ws_ticket(credential(head)?, from).await
            };
            Ok(answer_of(answer))
        }
        .await,
    )
}

/// The token of a request, from its header or a WebSocket's subprotocols.
fn credential(head: &Parts) -> Result<Option<&str>, Refusal> {
    let mut given = head.headers.get_all(AUTHORIZATION).iter();
    let wrong = |why: &str| {
        Refusal::bad(
            StatusCode::BAD_REQUEST,
            "bad_credential",
            format!("{why}; it should be: Authorization: Bearer TOKEN"),
        )
    };
    let Some(first) = given.next() else {
        let mut asked = words(&head.headers, &SEC_WEBSOCKET_PROTOCOL);
        return Ok(asked.find_map(|word| word.strip_prefix(BEARER_PROTOCOL)));
    };
    if given.next().is_some() {
        return Err(wrong("The header Authorization is there twice"));
    }
    let text = first.to_str().map_err(|_not_text| wrong("The header Authorization is no text"))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(wrong("The header Authorization has another scheme than Bearer")),
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::UNAUTHORIZED);
        let mut refusal = Self::new(status, refused.rpc());
        if let Some(seconds) = refused.retry_after_seconds() {
            refusal.add(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = refused.challenge() {
            refusal.add(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        refusal
    }
}

fn answer_of(answer: access::Answer) -> respond::Answer {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut sent = respond::json(status, answer.body.to_string());
    if let Some(seconds) = answer.retry_after {
        sent.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if let Some(challenge) = answer.challenge {
        sent.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    sent
}
