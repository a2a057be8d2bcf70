//! The page behind a pairing URL, as bytes on a connection.

use signalbox_server::http::ListenOptions;

use crate::stage::{Set, Stage, owner};

const HOST: &str = "host: localhost\r\n";

#[tokio::test]
async fn the_page_is_for_everybody_holds_nothing_and_may_do_nothing_but_pair() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    let code = stage.access.pairing_create(&owner(), Default::default()).unwrap().code;
    let page = stage.asks("GET", "/pair", HOST, "").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = String::from_utf8(page.body).unwrap();
    assert!(!text.contains(&code) && !text.contains("sbx_"), "a page that is the same for everybody");
    assert!(!text.contains(&stage.access.home_token().unwrap()));

    // Whoever only looks at it, as previews of links do, uses nothing up.
    let mut preview = stage.connect().await;
    preview.sends("HEAD", "/pair", HOST, "").await;
    assert_eq!(preview.head().await.unwrap().status, 200);
    let body = serde_json::json!({"token": code}).to_string();
    assert_eq!(stage.asks("POST", "/api/pair", crate::stage::JSON, &body).await.status, 200);
}

#[tokio::test]
async fn a_code_does_not_belong_into_what_the_page_is_asked_by() {
    let stage = Stage::open().await;
    let asked = stage.asks("GET", "/pair?token=sbx_pair_x", HOST, "").await;
    assert_eq!((asked.status, asked.reason().as_str()), (400, "token_in_query"));
    let sent = stage.asks("POST", "/pair", crate::stage::JSON, "{}").await;
    assert_eq!((sent.status, sent.header("allow")), (405, Some("GET, HEAD")));
    let foreign = stage.asks("GET", "/pair", "host: evil.example\r\n", "").await;
    assert_eq!((foreign.status, foreign.reason().as_str()), (403, "host_not_allowed"));
}
