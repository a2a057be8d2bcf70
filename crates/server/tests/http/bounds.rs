//! Clients that are too many, too slow, too silent or too loud.

use std::time::Duration;

use serde_json::json;
use signalbox_server::http::HttpLimits;
use tokio::io::AsyncWriteExt;

use crate::stage::{JSON, Set, Stage, within};
use crate::websocket::{Socket, TEXT, frame};

const HTTP: &str = r#"signalbox_connections{transport="http"}"#;
const WEBSOCKET: &str = r#"signalbox_connections{transport="websocket"}"#;

#[tokio::test]
async fn a_head_that_drips_in_is_not_waited_for() {
    let limits = HttpLimits { head_time: Duration::from_millis(100), ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let mut silent = stage.connect().await;
    let mut dripping = stage.connect().await;
    dripping.writes("POST /rpc HTTP/1.1\r\nhost: localhost\r\nx-a: ").await;
    let drip = async {
        // Until the server has had enough, which shows as a write that fails or an end that is read.
        while dripping.stream.get_mut().write_all(b"b").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within(async {
        tokio::select! {
            () = drip => {}
            closed = silent.is_closed() => assert!(closed),
        }
    })
    .await;
    // One that is idle between two requests goes the same way.
    let mut idle = stage.connect().await;
    assert_eq!(idle.asks("GET", "/healthz", "host: localhost\r\n", "").await.status, 200);
    assert!(idle.is_closed().await);
}

#[tokio::test]
async fn heads_have_a_size() {
    let stage = Stage::open().await;
    let many: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
    let mut client = stage.connect().await;
    client.sends("GET", "/readyz", &format!("host: localhost\r\n{many}"), "").await;
    assert_eq!(client.head().await.unwrap().status, 431);
    let mut client = stage.connect().await;
    client.sends("GET", "/readyz", &format!("host: localhost\r\nx: {}\r\n", "y".repeat(200_000)), "").await;
    assert_eq!(client.head().await.unwrap().status, 431);
}

#[tokio::test]
async fn a_thousand_sockets_are_served_at_once() {
    let stage = Stage::open().await;
    let mut sockets = Vec::new();
    for _ in 0..1000 {
        sockets.push(Socket::open(&stage, "/", "").await);
    }
    for socket in &mut sockets {
        socket.sends(json!({"id": 1, "method": "server/health"})).await;
    }
    for socket in &mut sockets {
        assert_eq!(socket.json().await["result"]["status"], "ok");
    }
    drop(sockets);
    // Those that have not initialized are counted too.
    stage.falls_to(WEBSOCKET, 0).await;
}

#[tokio::test]
async fn who_finds_no_place_is_told_and_others_are_not_disturbed() {
    let limits = HttpLimits { connections: 3, ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let mut sockets = [Socket::open(&stage, "/", "").await, Socket::open(&stage, "/", "").await];
    let mut third = stage.connect().await;
    assert_eq!(third.asks("GET", "/readyz", "host: localhost\r\n", "").await.status, 200);
    let answer = stage.connect().await.answer().await.unwrap();
    assert_eq!((answer.status, answer.reason().as_str()), (503, "too_many_connections"));
    for socket in &mut sockets {
        socket.initializes().await;
    }
    drop(third);
    within(async {
        loop {
            let mut next = stage.connect().await;
            next.sends("GET", "/readyz", "host: localhost\r\n", "").await;
            if next.head().await.is_some_and(|answer| answer.status == 200) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_never_reads_costs_its_outbox_and_ends() {
    let limits = HttpLimits { write_pause: Duration::from_millis(300), ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, outbox: Some(256 << 10), ..Set::default() }).await;
    let batch = format!("[{}]", [r#"{"id":1,"method":"server/health"}"#; 64].join(","));
    let mut deaf = Socket::over(stage.connect_narrowly().await, "/", "").await;
    deaf.initializes().await;
    let call = frame(TEXT, true, true, batch.as_bytes());
    // Its own answers fill up; then it is not read any more, and in the end it is gone.
    within(async { while deaf.client.stream.get_mut().write_all(&call).await.is_ok() {} }).await;
    stage.falls_to(WEBSOCKET, 0).await;

    let mut deaf = stage.connect_narrowly().await;
    let post = format!("POST /rpc HTTP/1.1\r\n{JSON}content-length: {}\r\n\r\n{batch}", batch.len());
    within(async { while deaf.stream.get_mut().write_all(post.as_bytes()).await.is_ok() {} }).await;
    stage.falls_to(HTTP, 1).await;
}

#[tokio::test]
async fn a_client_that_floods_is_answered_and_others_are_too() {
    let stage = Stage::open().await;
    let mut loud = Socket::open(&stage, "/", "").await;
    loud.initializes().await;
    let count = 20_000;
    let Socket { client } = loud;
    let (mut read, mut write) = tokio::io::split(client.stream.into_inner());
    let flood = tokio::spawn(async move {
        for id in 0..count {
            let call = json!({"id": id, "method": "server/health"}).to_string();
            write.write_all(&frame(TEXT, true, true, call.as_bytes())).await.unwrap();
        }
        write
    });
    let answers = tokio::spawn(async move {
        let (mut all, mut buffer) = (0, vec![0; 1 << 16]);
        let mut rest = Vec::new();
        while all < count {
            let read = tokio::io::AsyncReadExt::read(&mut read, &mut buffer).await.unwrap();
            assert!(read > 0, "after {all} answers");
            rest.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&rest);
            all += text.matches(r#""uptimeMs""#).count();
            // What may be the beginning of another one is kept.
            let keep = text.rfind(r#""uptimeMs""#).map_or(0, |at| at + 10);
            rest = text.as_bytes()[keep..].to_vec();
        }
    });
    let mut calm = Socket::open(&stage, "/", "").await;
    calm.initializes().await;
    for id in 1..20 {
        assert_eq!(calm.calls(id, "server/health", json!({})).await["result"]["status"], "ok");
    }
    within(answers).await.unwrap();
    within(flood).await.unwrap();
}

#[tokio::test]
async fn a_device_has_so_many_streams() {
    let limits = HttpLimits { streams_per_device: 2, ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let bearer = stage.pairs("phone").await;
    let header = format!("authorization: Bearer {bearer}\r\n");
    let sockets = [Socket::open(&stage, "/", &header).await, Socket::open(&stage, "/", &header).await];
    let answer = stage.asks("GET", "/", &format!("{}{header}", crate::websocket::HANDSHAKE), "").await;
    assert_eq!((answer.status, answer.reason().as_str()), (429, "too_many_connections"));
    drop(sockets);
    stage.falls_to(WEBSOCKET, 0).await;
    Socket::open(&stage, "/", &header).await.initializes().await;
}
