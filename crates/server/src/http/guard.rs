//! Who may be addressed, and by which web pages: the `Host` and `Origin` allow-lists, and CORS for those that are allowed.

use std::net::IpAddr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap,
    HeaderValue, ORIGIN, VARY,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode, Uri};

use super::connection::{ConnInfo, Via};
use super::listen::ListenOptions;
use super::respond::{Answer, Refusal, empty};

/// Names of credentials that people put into addresses, where logs and histories keep them.
const SECRETS: [&str; 6] = ["token", "access_token", "bearer", "auth", "authorization", "api_key"];

/// What remains to be said to an allowed page of another origin.
#[derive(Debug)]
pub(super) struct Cors(Option<HeaderValue>);

/// Lets a request pass that is addressed to this server, by nobody or by an allowed page.
///
/// # Errors
/// 400 without a usable `Host`, 403 for a foreign `Host` or `Origin`, 400 for a credential in the address.
pub(super) fn check(conn: &ConnInfo, head: &Parts) -> Result<Cors, Refusal> {
    // Neither names nor web pages lead to a unix socket.
    let cors = match &conn.via {
        Via::Unix => Cors(None),
        Via::Tcp { local, options, .. } => addressed(head, local.ip(), options)?,
    };
    no_secret_in(&head.uri)?;
    Ok(cors)
}

fn addressed(head: &Parts, local: IpAddr, options: &ListenOptions) -> Result<Cors, Refusal> {
    let host = host(head)?;
    host_allowed(&host, local, options)?;
    origin(&head.headers, &host, options)
}

/// The one host that the request is for.
fn host(head: &Parts) -> Result<Authority, Refusal> {
    let wrong =
        |why: &str| Refusal::bad(StatusCode::BAD_REQUEST, "bad_host", format!("The Host header {why}"));
    // A target in absolute form wins over the header, as HTTP says.
    if let Some(authority) = head.uri.authority() {
        return Ok(authority.clone());
    }
    let mut all = head.headers.get_all(HOST).iter();
    let (first, more) = (all.next(), all.next());
    if more.is_some() {
        return Err(wrong("is there twice"));
    }
    let first = first.ok_or_else(|| wrong("is missing"))?;
    let host: Authority = first.as_bytes().try_into().map_err(|_invalid| wrong("is no host"))?;
    if host.as_str().contains('@') { Err(wrong("is no host")) } else { Ok(host) }
}

fn host_allowed(host: &Authority, local: IpAddr, options: &ListenOptions) -> Result<(), Refusal> {
    let name = host.host();
    let ours = match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        // A page that was led here by its own name cannot send an address; only those of this machine are ours all the same.
        Ok(ip) => ip.to_canonical().is_loopback() || ip.to_canonical() == local.to_canonical(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    let allowed = options
        .allow_hosts
        .iter()
        .any(|allowed| name.eq_ignore_ascii_case(allowed) || host.as_str().eq_ignore_ascii_case(allowed));
    if ours || allowed {
        return Ok(());
    }
    let name: String = name.chars().take(100).collect();
    Err(Refusal::forbidden(
        "host_not_allowed",
        format!(
            "This server does not answer to the host {name:?}; if it is yours, start it with --allow-host {name}"
        ),
    ))
}

fn origin(headers: &HeaderMap, host: &Authority, options: &ListenOptions) -> Result<Cors, Refusal> {
    let mut all = headers.get_all(ORIGIN).iter();
    let Some(given) = all.next() else { return Ok(Cors(None)) };
    let text = given.to_str().unwrap_or_default();
    let allowed = options.allow_origins.iter().any(|allowed| same_origin(text, allowed));
    if all.next().is_none() && allowed {
        return Ok(Cors(Some(given.clone())));
    }
    // The port belongs to an origin: another program of this machine may serve pages on another one.
    let own = ["http://", "https://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str())));
    if headers.get_all(ORIGIN).iter().count() == 1 && own {
        return Ok(Cors(None));
    }
    let text: String = text.chars().take(100).collect();
    let what_to_do = if text == "null" || text.is_empty() {
        "a page without an origin (a file, a sandboxed frame) is never let in".to_owned()
    } else {
        format!("if the page is yours, start the server with --allow-origin {text}")
    };
    Err(Refusal::forbidden(
        "origin_not_allowed",
        format!("The origin {text:?} may not use this server; {what_to_do}"),
    ))
}

/// Whether two origins are the same, a default port written or not.
fn same_origin(one: &str, other: &str) -> bool {
    let plain = |origin: &str| {
        let uri = origin.parse::<Uri>().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let port = uri.port_u16().or(match scheme.as_str() {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            _ => None,
        });
        Some((scheme, uri.host()?.to_ascii_lowercase(), port))
    };
    let one = plain(one);
    one.is_some() && one == plain(other)
}

fn no_secret_in(uri: &Uri) -> Result<(), Refusal> {
    let names =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    for name in names {
        if SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
            return Err(Refusal::bad(
                StatusCode::BAD_REQUEST,
                "token_in_query",
                format!(
                    "A credential does not belong into the address (?{name}=…), where logs keep it: send the header \
                     Authorization: Bearer TOKEN, or as a browser's WebSocket the subprotocol bearer.TOKEN"
                ),
            ));
        }
    }
    Ok(())
}

/// The answer to a browser that asks before it sends a request, if it is one.
pub(super) fn preflight(head: &Parts) -> Option<Answer> {
    (head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)).then(|| {
        let mut answer = empty(StatusCode::NO_CONTENT);
        let headers = answer.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, last-event-id"),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        if head.headers.contains_key("access-control-request-private-network") {
            headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
        }
        answer
    })
}

impl Cors {
    /// Lets the page read the answer, if it is one of another origin that is allowed.
    pub(super) fn apply(self, mut answer: Answer) -> Answer {
        if let Self(Some(origin)) = self {
            let headers = answer.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn passes(options: &ListenOptions, headers: &[(&str, &str)], target: &str) -> Result<Cors, Refusal> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        no_secret_in(&head.uri)?;
        addressed(&head, "10.0.0.1".parse().unwrap(), options)
    }

    fn status(options: &ListenOptions, headers: &[(&str, &str)]) -> u16 {
        passes(options, headers, "/rpc").map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    #[test]
    fn only_our_own_names_are_answered_to() {
        let plain = ListenOptions::default();
        for host in ["localhost", "LOCALHOST:4517", "127.0.0.1:1", "[::1]:4517", "10.0.0.1", "10.0.0.1:80"] {
            assert_eq!(status(&plain, &[("host", host)]), 200, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.2", "127.0.0.1.evil.example:4517", "[::2]"]
        {
            assert_eq!(status(&plain, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&plain, &[]), 400);
        assert_eq!(status(&plain, &[("host", "localhost"), ("host", "evil.example")]), 400);
        assert_eq!(status(&plain, &[("host", "me@localhost")]), 400);
        let named = ListenOptions { allow_hosts: vec!["box.example".to_owned()], ..plain };
        assert_eq!(status(&named, &[("host", "Box.Example:8443")]), 200);
        assert_eq!(status(&named, &[("host", "a.box.example")]), 403);
        // What HTTP reads instead of the header counts instead of it.
        assert!(passes(&named, &[("host", "localhost")], "http://evil.example/rpc").is_err());
    }

    #[test]
    fn only_our_own_pages_and_named_ones_get_in() {
        let named = ListenOptions {
            allow_origins: vec!["https://app.example".to_owned()],
            ..ListenOptions::default()
        };
        let from = |origin: &str| status(&named, &[("host", "localhost:4517"), ("origin", origin)]);
        for origin in [
            "http://localhost:4517",
            "https://LOCALHOST:4517",
            "https://app.example",
            "https://app.example:443",
        ] {
            assert_eq!(from(origin), 200, "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:4517",
            "http://app.example",
            "https://app.example.evil.example",
            "https://evil.example",
            "file://",
        ] {
            assert_eq!(from(origin), 403, "{origin}");
        }
        let twice =
            [("host", "localhost"), ("origin", "https://app.example"), ("origin", "https://evil.example")];
        assert_eq!(status(&named, &twice), 403);
    }

    #[test]
    fn credentials_in_the_address_are_refused_with_a_word_on_where_they_belong() {
        let plain = ListenOptions::default();
        for query in ["token=abc", "a=1&access_token=abc", "Bearer=x"] {
            let refusal = passes(&plain, &[("host", "localhost")], &format!("/rpc?{query}")).unwrap_err();
            assert_eq!(refusal.status, 400);
            let answer = format!("{refusal:?}");
            assert!(answer.contains("Authorization: Bearer") && !answer.contains("abc"), "{answer}");
        }
        assert!(passes(&plain, &[("host", "localhost")], "/ws?ticket=abc").is_ok());
    }
}
