//! JSON-RPC by POST: one message or a batch in, its answers out.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use signalbox_app_server::AppServer;
use signalbox_rpc::{INTERNAL, PostOptions, RpcError};

use super::body;
use super::connection::{ConnInfo, FAREWELL};
use super::respond::{Answer, Refusal, empty, json};
use super::site::Site;
use crate::access::Caller;

/// Answers what is posted: 200 with the answer or the array of answers, also where they are errors; 202 where there is
/// nothing to answer.
///
/// # Errors
/// What [`body::read`] refuses; 415 for another content type; 503 while the server leaves; 504 if a method hangs.
pub(super) async fn post(
    site: &Site,
    conn: &Arc<ConnInfo>,
    caller: Caller,
    head: &Parts,
    body: Incoming,
) -> Result<Answer, Refusal> {
    is_json(head)?;
    let limits = &site.0.limits;
    let held = body::read(site, body, limits.body_bytes).await?;
    let options = PostOptions {
        role: caller.role,
        label: caller.name.clone(),
        state: Some(AppServer::post_state(conn.context())),
    };
    // A client that leaves drops this, and with it the handler.
    let answered = tokio::select! {
        answered = site.0.service.post(&held.bytes, options) => answered,
        () = tokio::time::sleep(limits.call_time) => {
            tracing::warn!(caller = %caller.name, "what was posted took too long");
            let message = "The request took too long and was given up; what it began may go on";
            let error = RpcError::new(INTERNAL, "timed_out", message).retryable();
            return Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, error));
        }
        why = caller.ended() => return Err(caller_ended(why)),
        () = left(conn) => return Err(Refusal::leaving()),
    };
    site.0.counters.posted(held.bytes.len());
    Ok(answered.map_or_else(|| empty(StatusCode::ACCEPTED), |answer| json(StatusCode::OK, answer)))
}

/// What is under way when the server leaves has a moment to end by itself.
async fn left(conn: &ConnInfo) {
    conn.closing.cancelled().await;
    tokio::time::sleep(FAREWELL).await;
}

/// The credential ended while it was in use.
fn caller_ended(why: &'static str) -> Refusal {
    let error = RpcError::new(signalbox_rpc::UNAUTHORIZED, "unauthorized", why);
    Refusal::new(StatusCode::UNAUTHORIZED, error)
}

/// Another type than JSON may be sent by pages of any origin without being asked for.
fn is_json(head: &Parts) -> Result<(), Refusal> {
    let mut types = head.headers.get_all(CONTENT_TYPE).iter();
    let given = types.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") && types.next().is_none() {
        return Ok(());
    }
    Err(Refusal::bad(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "The body must be JSON and say so: Content-Type: application/json",
    ))
}
