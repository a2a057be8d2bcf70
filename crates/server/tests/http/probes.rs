//! Health, readiness and metrics.

use signalbox_server::http::ListenOptions;

use crate::stage::{Set, Stage};

#[tokio::test]
async fn whether_it_lives_is_told_to_everybody_and_whether_it_is_ready_as_long_as_it_is() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    for headers in ["", "host: anything.example\r\norigin: https://anything.example\r\n"] {
        let answer = stage.asks("GET", "/healthz", headers, "").await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("ok")));
    }
    let mut client = stage.connect().await;
    let answer = client.asks("GET", "/readyz", "host: localhost\r\n", "").await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("ready")));
    client.sends("HEAD", "/healthz", "host: localhost\r\n", "").await;
    assert_eq!(client.head().await.unwrap().status, 200);
}

#[tokio::test]
async fn metrics_need_a_credential_and_count_what_is_there() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    let answer = stage.asks("GET", "/metrics", "host: localhost\r\n", "").await;
    assert_eq!((answer.status, answer.reason().as_str()), (401, "unauthorized"));
    let token = stage.access.home_token().unwrap();
    let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n");
    let answer = stage.asks("GET", "/metrics", &headers, "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for line in [
        r#"signalbox_threads{state="idle"} 0"#,
        r#"signalbox_connections{transport="http"} 1"#,
        "signalbox_http_refused_total 1",
        "signalbox_outboxes_bytes 0",
        "signalbox_event_outboxes_bytes 0",
        "signalbox_agents 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("signalbox_store_database_bytes "));
}
