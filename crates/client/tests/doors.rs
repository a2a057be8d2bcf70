//! The client over WebSocket and over Content-Length frames, with a server that is played by hand.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test"
)]

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use signalbox_client::{CallError, Client, ConnectError, Event, Goodbye, WebSocketOptions};
use signalbox_protocol::app::{ServerNotification, ThreadLoadedListParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

const URL: &str = "ws://localhost/rpc";

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it should have happened by now")
}

fn bearer(bearer: &str) -> WebSocketOptions {
    WebSocketOptions { bearer: Some(bearer.to_owned()), ..WebSocketOptions::default() }
}

/// A server's end that lets in who has the bearer `right`.
#[allow(clippy::result_large_err, reason = "the library's own type")]
async fn accepts(stream: DuplexStream) -> Option<WebSocketStream<DuplexStream>> {
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.uri().path(), "/rpc");
        let bearer = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        if bearer.as_deref() == Some("Bearer right") {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(Some("no such device".to_owned()));
        *refusal.status_mut() = StatusCode::UNAUTHORIZED;
        refusal.headers_mut().insert("content-length", "14".parse().unwrap());
        Err(refusal)
    };
    accept_hdr_async(stream, check).await.ok()
}

async fn reads(server: &mut WebSocketStream<DuplexStream>) -> Value {
    match within(server.next()).await.unwrap().unwrap() {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn says(server: &mut WebSocketStream<DuplexStream>, frame: Value) {
    within(server.send(Message::text(frame.to_string()))).await.unwrap();
}

#[tokio::test]
async fn calls_and_events_go_over_a_websocket() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let accepted = tokio::spawn(accepts(theirs));
    let (client, mut events) = within(Client::over_websocket(ours, URL, &bearer("right"))).await.unwrap();
    let mut server = within(accepted).await.unwrap().unwrap();
    let params = ThreadLoadedListParams::default();
    let call = async { client.thread_loaded_list(&params).await.unwrap().data };
    let answer = async {
        let call = reads(&mut server).await;
        assert_eq!(call["method"], "thread/loaded/list");
        let many: Vec<String> = (0..100_000).map(|n| format!("thread-{n}")).collect();
        says(
            &mut server,
            json!({"jsonrpc": "2.0", "id": call["id"], "result": {"data": many, "nextCursor": null}}),
        )
        .await;
    };
    let (listed, ()) = within(async { tokio::join!(call, answer) }).await;
    assert_eq!(listed.len(), 100_000);
    let warning = json!({"threadId": "t", "message": "careful", "seq": 3, "cursor": "1-2"});
    says(&mut server, json!({"jsonrpc": "2.0", "method": "warning", "params": warning})).await;
    match within(events.next()).await {
        Some(Event::Notification(told)) => assert!(matches!(told.body, ServerNotification::Warning(_))),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.goodbye(), None);
    let close = CloseFrame { code: 1008.into(), reason: Utf8Bytes::from_static("access was revoked") };
    within(server.close(Some(close))).await.unwrap();
    assert!(within(server.next()).await.is_some(), "the goodbye is answered");
    drop(server);
    assert_eq!(within(events.next()).await, None);
    within(client.closed()).await;
    assert!(matches!(client.thread_loaded_list(&params).await, Err(CallError::Closed)));
    assert_eq!(client.goodbye(), Some(&Goodbye { code: 1008, reason: "access was revoked".to_owned() }));
}

#[tokio::test]
async fn a_client_that_leaves_says_goodbye() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let accepted = tokio::spawn(accepts(theirs));
    let (client, events) = within(Client::over_websocket(ours, URL, &bearer("right"))).await.unwrap();
    let mut server = within(accepted).await.unwrap().unwrap();
    drop((client, events));
    assert!(matches!(within(server.next()).await, Some(Ok(Message::Close(_)))));
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why() {
    for options in [WebSocketOptions::default(), bearer("wrong")] {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let accepted = tokio::spawn(accepts(theirs));
        match within(Client::over_websocket(ours, URL, &options)).await {
            Err(error @ ConnectError::Refused { status: 401, .. }) => {
                assert!(error.to_string().contains("no such device"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(within(accepted).await.unwrap().is_none());
    }
    assert!(!format!("{:?}", bearer("secret")).contains("secret"));
    let (ours, _theirs) = tokio::io::duplex(64);
    assert!(matches!(
        within(Client::over_websocket(ours, URL, &bearer("two\nlines"))).await,
        Err(ConnectError::Bearer)
    ));
}

#[tokio::test]
async fn what_is_no_such_server_is_said() {
    let options = WebSocketOptions::default();
    for url in ["http://localhost:1/rpc", "localhost:1", "wss://localhost/rpc", ""] {
        match within(Client::websocket(url, &options)).await {
            Err(ConnectError::Address { url: named }) => assert_eq!(named, url),
            other => panic!("{url}: {other:?}"),
        }
    }
    let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
    theirs.write_all(b"SSH-2.0-OpenSSH\r\n\r\n").await.unwrap();
    let refused = within(Client::over_websocket(ours, URL, &options)).await;
    assert!(matches!(refused, Err(ConnectError::Handshake { .. })), "{refused:?}");
    let (ours, _silent) = tokio::io::duplex(64 * 1024);
    let options = WebSocketOptions { patience: Duration::from_millis(20), ..options };
    let late = within(Client::over_websocket(ours, URL, &options)).await;
    assert!(matches!(late, Err(ConnectError::Late { .. })), "{late:?}");
}

#[tokio::test]
async fn calls_and_events_go_behind_content_length_headers() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let (client, mut events) = Client::over_content_length(reader, writer);
    let (mut reader, mut writer) = tokio::io::split(theirs);
    let params = ThreadLoadedListParams::default();
    let call = async { client.thread_loaded_list(&params).await.unwrap().data };
    let answer = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(reader.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.trim().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await.unwrap();
        let call: Value = serde_json::from_slice(&body).unwrap();
        let many: Vec<String> = (0..100_000).map(|n| format!("thread-{n}")).collect();
        let answer =
            json!({"jsonrpc": "2.0", "id": call["id"], "result": {"data": many, "nextCursor": null}});
        let answer = answer.to_string();
        let warning = json!({"jsonrpc": "2.0", "method": "warning",
            "params": {"threadId": "t", "message": "careful", "seq": 3, "cursor": "1-2"}});
        let warning = warning.to_string();
        let said = format!(
            "Content-Type: application/vscode-jsonrpc\r\ncontent-length:{}\r\n\r\n{answer}\
             \r\nContent-Length: {}\r\n\r\n{warning}",
            answer.len(),
            warning.len()
        );
        writer.write_all(said.as_bytes()).await.unwrap();
    };
    let (listed, ()) = within(async { tokio::join!(call, answer) }).await;
    assert_eq!(listed.len(), 100_000);
    assert!(matches!(within(events.next()).await, Some(Event::Notification(_))));
    writer.write_all(b"Content-Length: 20\r\n\r\n{\"half").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(within(events.next()).await, None, "half a frame is none");
    within(client.closed()).await;
}
