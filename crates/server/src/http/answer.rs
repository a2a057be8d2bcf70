//! From a request to its answer: the guards, who calls, and which path leads where.

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use signalbox_rpc::{Role, RpcError};

use super::admit::caller;
use super::connection::ConnInfo;
use super::respond::{Answer, Refusal, json};
use super::site::Site;
use super::{admit, events, guard, metrics, ops, pair, post, upgrade};
use crate::access::Caller;

/// Answers one request.
pub(super) async fn answer(
    site: &Site,
    conn: &std::sync::Arc<ConnInfo>,
    request: Request<Incoming>,
) -> Answer {
    site.0.counters.request();
    // Without a body to speak of, for whoever asks whether the process lives.
    if request.uri().path() == "/healthz" {
        return alive(request.method(), StatusCode::OK, r#"{"status":"ok"}"#);
    }
    let (head, body) = request.into_parts();
    let cors = match guard::check(conn, &head) {
        Ok(cors) => cors,
        Err(refusal) => {
            tracing::info!(
                via = conn.name(),
                path = head.uri.path(),
                status = refusal.status.as_u16(),
                "refused"
            );
            return refused(site, refusal);
        }
    };
    let answer = match guard::preflight(&head) {
        Some(answer) => answer,
        None => route(site, conn, head, body).await.unwrap_or_else(|refusal| refused(site, refusal)),
    };
    cors.apply(answer)
}

fn refused(site: &Site, refusal: Refusal) -> Answer {
    site.0.counters.refused();
    refusal.into()
}

async fn route(
    site: &Site,
    conn: &std::sync::Arc<ConnInfo>,
    head: Parts,
    body: Incoming,
) -> Result<Answer, Refusal> {
    let path = head.uri.path().to_owned();
    if path.starts_with("/api/") {
        // Written so that nothing of the body is taken for a path that is not there.
        return match admit::api(site, conn, &head, body).await {
            Some(answer) => answer.map(uncached),
            None => Err(not_found()),
        };
    }
    let answer = match path.as_str() {
        "/readyz" => {
            if conn.leaving.is_cancelled() {
                return Err(Refusal::leaving());
            }
            alive(&head.method, StatusCode::OK, r#"{"status":"ready"}"#)
        }
        "/" | "/rpc" if upgrade::is_asked(&head) => {
            let caller = caller(conn, &head).await?;
            upgrade::rpc(site, conn, caller, Request::from_parts(head, body))?
        }
        "/" | "/rpc" => {
            only(&head, Method::POST, "POST, OPTIONS", ", and as GET the upgrade to a WebSocket")?;
            let caller = caller(conn, &head).await?;
            post::post(site, conn, caller, &head, body).await?
        }
        "/ws" => {
            only(&head, Method::GET, "GET", " as the upgrade to a WebSocket, with ?ticket=TICKET")?;
            ops::open(site, conn, Request::from_parts(head, body)).await?
        }
        "/pair" => pair::page(&head.method)?,
        "/metrics" => {
            only(&head, Method::GET, "GET", "")?;
            needs(&caller(conn, &head).await?, Role::Observer)?;
            metrics::answer(site).await?
        }
        path => match thread_of(path) {
            Some(thread) => {
                only(&head, Method::GET, "GET", "")?;
                let caller = caller(conn, &head).await?;
                events::open(site, conn, caller, thread, &head).await?
            }
            None => return Err(not_found()),
        },
    };
    Ok(uncached(answer))
}

fn not_found() -> Refusal {
    let known =
        "/rpc, /threads/ID/events, /ws, /pair, /api/pair, /api/ws-ticket, /healthz, /readyz and /metrics";
    Refusal::bad(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("There is nothing here; this server has {known}"),
    )
}

/// The thread in `/threads/ID/events`.
fn thread_of(path: &str) -> Option<&str> {
    path.strip_prefix("/threads/")?.strip_suffix("/events").filter(|id| !id.is_empty() && !id.contains('/'))
}

pub(super) fn only(head: &Parts, method: Method, allow: &'static str, hint: &str) -> Result<(), Refusal> {
    if head.method == method { Ok(()) } else { Err(Refusal::method_not_allowed(allow, hint)) }
}

fn needs(caller: &Caller, role: Role) -> Result<(), Refusal> {
    if caller.role >= role {
        Ok(())
    } else {
        Err(Refusal::new(StatusCode::FORBIDDEN, RpcError::unauthorized(role)))
    }
}

fn alive(method: &Method, status: StatusCode, text: &'static str) -> Answer {
    match *method {
        Method::GET | Method::HEAD => uncached(json(status, text)),
        _ => Refusal::method_not_allowed("GET, HEAD", "").into(),
    }
}

/// Nothing that is said here is worth keeping.
fn uncached(mut answer: Answer) -> Answer {
    answer.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
