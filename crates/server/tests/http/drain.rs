//! The end of a server, and of one listener of it.

use serde_json::json;

use crate::stage::{JSON, Stage, within};
use crate::websocket::Socket;

#[tokio::test]
async fn everybody_is_told_how_turns_ended_before_connections_do() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let mut socket = Socket::open(&stage, "/", "").await;
    socket.initializes().await;
    socket.calls(1, "thread/resume", json!({"threadId": thread})).await;
    let mut events = stage.connect().await;
    events.sends("GET", &format!("/threads/{thread}/events"), "host: localhost\r\n", "").await;
    assert_eq!(events.head().await.unwrap().status, 200);
    let mut idle = stage.connect().await;
    assert_eq!(idle.asks("GET", "/readyz", "host: localhost\r\n", "").await.status, 200);
    stage.prompts(&thread, "run echo never").await;
    while socket.json().await["method"] != "approval/requested" {}

    let end = async {
        let mut ended = false;
        let (code, _) = loop {
            let (opcode, payload) = socket.next().await.expect("a close frame");
            if opcode == crate::websocket::CLOSE {
                break (u16::from_be_bytes([payload[0], payload[1]]), ());
            }
            ended |= String::from_utf8_lossy(&payload).contains(r#""method":"turn/completed""#);
        };
        assert!(ended, "the turn's end was told first");
        assert_eq!(code, 1001);
        let mut text = String::new();
        // A body that ends in order, with its last chunk.
        while let Some(chunk) = events.chunk().await {
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        assert!(text.contains("event: turn/completed"), "{text}");
        let (_, end) = text.split_once("event: end\n").expect("it is told why it ends");
        assert!(end.contains(r#""reason":"shutting_down""#), "{end}");
        assert!(idle.is_closed().await);
    };
    tokio::join!(stage.leaves(), end);
}

#[tokio::test]
async fn a_listener_that_is_closed_takes_its_connections_along_and_nothing_else() {
    let stage = Stage::open().await;
    let mut socket = Socket::open(&stage, "/", "").await;
    socket.initializes().await;
    let other = signalbox_server::http::HttpDoor::bind("127.0.0.1:0".parse().unwrap(), crate::stage::local());
    let other = other.unwrap();
    let address = other.address();
    stage.tasks.spawn(other.run(stage.site.clone(), tokio_util::sync::CancellationToken::new()));
    stage.door_closed.cancel();
    assert_eq!(socket.close_code().await.0, 1001);
    within(async { while tokio::net::TcpStream::connect(stage.address).await.is_ok() {} }).await;
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = r#"{"id":1,"method":"server/health"}"#;
    let answer = crate::client::Client::new(stream).asks("POST", "/rpc", JSON, body).await;
    assert_eq!(answer.status, 200);
    stage.leaves().await;
}
