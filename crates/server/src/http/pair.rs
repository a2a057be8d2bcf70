//! The page behind the URL that `signalbox pair` prints. It holds nothing itself: the code is in the fragment, which no
//! browser sends, and is used only when somebody presses the button, so a preview of the link costs nothing.

use std::sync::LazyLock;

use base64::Engine as _;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::respond::{Answer, Refusal, typed};

const PAGE: &str = include_str!("pair.html");
/// By their hashes the page's own script and style are allowed, and nothing else is.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(within("script")),
        hash(within("style"))
    )
});

/// What stands between the tags of this name.
fn within(tag: &str) -> &'static str {
    let inner =
        PAGE.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")));
    inner.map_or("", |(inner, _)| inner)
}

fn hash(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text))
}

/// The page, for everybody.
///
/// # Errors
/// 405 for another method than GET and HEAD.
pub(super) fn page(method: &Method) -> Result<Answer, Refusal> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refusal::method_not_allowed("GET, HEAD", "; a code is sent to /api/pair"));
    }
    let mut answer = typed(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let headers = answer.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_script_and_one_style_and_nothing_from_elsewhere() {
        for tag in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert!(within(tag).len() > 100, "{tag}");
        }
        // The policy allows none of these.
        for foreign in ["src=", "href=", "url(", "@import", " style=", " onclick", "://"] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
    }
}
