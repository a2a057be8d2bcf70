//! Who is addressed and by which pages: Host, Origin, preflight, credentials in addresses.

use signalbox_server::http::ListenOptions;

use crate::stage::{JSON, Set, Stage};

const HEALTH: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/health"}"#;

async fn stage() -> Stage {
    let options = ListenOptions {
        allow_origins: vec!["https://app.example".to_owned()],
        allow_hosts: vec!["box.example".to_owned()],
        ..crate::stage::local()
    };
    Stage::with(Set { options, ..Set::default() }).await
}

fn with(headers: &str) -> String {
    format!("content-type: application/json\r\n{headers}")
}

#[tokio::test]
async fn a_name_that_was_rebound_to_this_machine_reaches_nothing() {
    let stage = stage().await;
    for path in ["/rpc", "/", "/metrics", "/threads/x/events", "/ws?ticket=x", "/readyz", "/api/pair"] {
        for method in ["GET", "POST"] {
            let answer = stage.asks(method, path, &with("host: evil.example\r\n"), "").await;
            assert_eq!(
                (answer.status, answer.reason().as_str()),
                (403, "host_not_allowed"),
                "{method} {path}"
            );
            assert!(answer.message().contains("--allow-host evil.example"));
        }
    }
    let answer = stage.asks("POST", "/rpc", &with("host: evil.example:4517\r\n"), HEALTH).await;
    assert_eq!(answer.status, 403);
    for host in ["box.example", "localhost:4517", "127.0.0.1"] {
        let answer = stage.asks("POST", "/rpc", &with(&format!("host: {host}\r\n")), HEALTH).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    let answer = stage.asks("POST", "/rpc", &with(""), HEALTH).await;
    assert_eq!((answer.status, answer.reason().as_str()), (400, "bad_host"));
}

#[tokio::test]
async fn a_foreign_page_reaches_nothing_not_even_with_a_websocket() {
    let stage = stage().await;
    for origin in ["https://evil.example", "null", "http://localhost:1", "file://"] {
        let headers = format!("{JSON}origin: {origin}\r\n");
        let answer = stage.asks("POST", "/rpc", &headers, HEALTH).await;
        assert_eq!((answer.status, answer.reason().as_str()), (403, "origin_not_allowed"), "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
        let headers = format!("{}origin: {origin}\r\n", crate::websocket::HANDSHAKE);
        let answer = stage.asks("GET", "/", &headers, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (403, "origin_not_allowed"), "{origin}");
    }
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_ask_and_read() {
    let stage = stage().await;
    let asks = "host: localhost\r\norigin: https://app.example\r\naccess-control-request-method: POST\r\n\
                access-control-request-headers: authorization, content-type\r\n";
    let answer = stage.asks("OPTIONS", "/rpc", asks, "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert!(answer.header("vary").unwrap().contains("origin"));

    let answer = stage.asks("POST", "/rpc", &format!("{JSON}origin: https://app.example\r\n"), HEALTH).await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
    // What is refused can be read too, else a page cannot say why.
    let answer =
        stage.asks("POST", "/rpc", "host: localhost\r\norigin: https://app.example\r\n", HEALTH).await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (415, Some("https://app.example"))
    );
}

#[tokio::test]
async fn a_credential_in_the_address_is_refused_and_not_repeated() {
    let stage = stage().await;
    for target in ["/rpc?token=secret-1", "/?access_token=secret-1", "/threads/x/events?bearer=secret-1"] {
        let answer = stage.asks("POST", target, JSON, HEALTH).await;
        assert_eq!((answer.status, answer.reason().as_str()), (400, "token_in_query"), "{target}");
        assert!(answer.message().contains("Authorization: Bearer") && !answer.message().contains("secret-1"));
    }
}
