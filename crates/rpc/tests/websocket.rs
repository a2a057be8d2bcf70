//! The server's end of a WebSocket: messages whole and in pieces, what ends it and with which code, and silence.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use common::{LIMIT, options, service, within};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use signalbox_rpc::{
    CloseReason, ConnOptions, Connection, Frame, KeepAlive, OutboxLimits, Peer, Pushed, Violation, WebSocket,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const PING: u8 = 0x9;
const FINAL: u8 = 0x80;

/// A connection of which the client's end is still bytes.
struct Served {
    wire: DuplexStream,
    peer: Peer,
    served: JoinHandle<CloseReason>,
    flushes: Arc<AtomicUsize>,
}

/// Counts how often it is flushed.
struct Flushes(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Flushes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        b: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, b)
    }
}

impl AsyncWrite for Flushes {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, b)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

async fn serve(options: ConnOptions) -> Served {
    serve_with(options, KeepAlive::default()).await
}

async fn serve_with(options: ConnOptions, keep_alive: KeepAlive) -> Served {
    serve_as(options, |transport| transport.keep_alive(keep_alive)).await
}

async fn serve_as(
    options: ConnOptions,
    set: impl FnOnce(WebSocket<Flushes>) -> WebSocket<Flushes>,
) -> Served {
    let (server, wire) = tokio::io::duplex(64 * 1024);
    let flushes = Arc::new(AtomicUsize::new(0));
    let transport = WebSocket::server(Flushes(server, flushes.clone()), options.max_frame_bytes).await;
    let connection = Connection::new(service().0, options);
    let peer = connection.peer().clone();
    let served = tokio::spawn(connection.serve(set(transport)));
    Served { wire, peer, served, flushes }
}

/// A client that keeps to the rules.
struct Client {
    wire: WebSocketStream<DuplexStream>,
    peer: Peer,
    served: JoinHandle<CloseReason>,
    flushes: Arc<AtomicUsize>,
}

async fn client(options: ConnOptions) -> Client {
    serve(options).await.client().await
}

impl Served {
    async fn client(self) -> Client {
        let Self { wire, peer, served, flushes } = self;
        let wire = WebSocketStream::from_raw_socket(wire, Role::Client, None).await;
        Client { wire, peer, served, flushes }
    }
}

impl Client {
    async fn send(&mut self, message: Value) {
        within(self.wire.send(Message::text(message.to_string()))).await.unwrap();
    }

    async fn recv(&mut self) -> Value {
        loop {
            match within(self.wire.next()).await.expect("the connection has ended").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn expect_echo(&mut self) {
        self.send(json!({"id": 0, "method": "echo", "params": {"text": "still here"}})).await;
        assert_eq!(self.recv().await["result"]["text"], "still here");
    }

    /// What the server closes with, whatever it says before.
    async fn closed_with(&mut self) -> (u16, String) {
        loop {
            match within(self.wire.next()).await.expect("no goodbye").unwrap() {
                Message::Close(Some(close)) => return (close.code.into(), close.reason.to_string()),
                Message::Close(None) => panic!("a goodbye without a code"),
                _ => {}
            }
        }
    }

    async fn ended(self) -> CloseReason {
        drop(self.wire);
        within(self.served).await.unwrap()
    }
}

/// A frame as a client writes it; unmasked it breaks the rules.
fn frame(first: u8, payload: &[u8], masked: bool) -> Vec<u8> {
    let mask = [0x11, 0x22, 0x33, 0x44];
    let mut bytes = vec![first];
    let bit = if masked { 0x80 } else { 0 };
    match payload.len() {
        length @ 0..126 => bytes.push(bit | length as u8),
        length @ 126..0x1_0000 => {
            bytes.push(bit | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(bit | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    if masked {
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    } else {
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// A text in pieces of `size` bytes, a ping between any two.
fn fragmented(text: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut pieces = text.chunks(size).peekable();
    let mut kind = TEXT;
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { FINAL } else { 0 };
        bytes.extend(frame(kind | last, piece, true));
        if last == 0 {
            bytes.extend(frame(PING | FINAL, b"there?", true));
        }
        kind = 0;
    }
    bytes
}

#[tokio::test]
async fn calls_and_answers_are_text_messages() {
    let mut client = client(options()).await;
    client.send(json!({"id": 1, "method": "echo", "params": {"text": "é\n"}})).await;
    assert_eq!(client.recv().await, json!({"jsonrpc": "2.0", "id": 1, "result": {"text": "é\n"}}));
    client.send(json!([{"id": 2, "method": "id"}, {"id": 3, "method": "nowhere"}])).await;
    assert_eq!(client.recv().await[1]["error"]["code"], -32601);
    for text in ["not json", "", " \n"] {
        within(client.wire.send(Message::text(text))).await.unwrap();
    }
    assert_eq!(client.recv().await["error"]["code"], -32700);
    client.send(json!({"id": 4, "method": "ask", "params": {"id": "q1"}})).await;
    let asked = client.recv().await;
    assert_eq!((&asked["method"], &asked["id"]), (&json!("ask/client"), &json!("q1")));
    client.send(json!({"id": "q1", "result": {"yes": true}})).await;
    assert_eq!(client.recv().await["result"]["yes"], true);
    within(client.wire.send(Message::Ping("x".into()))).await.unwrap();
    assert_eq!(within(client.wire.next()).await.unwrap().unwrap(), Message::Pong("x".into()));
    client.expect_echo().await;
}

#[tokio::test]
async fn a_message_in_pieces_is_one_frame_and_pings_between_them_are_answered() {
    let mut served = serve(options()).await;
    let call = json!({"id": 1, "method": "echo", "params": {"text": "in many pieces"}}).to_string();
    served.wire.write_all(&fragmented(call.as_bytes(), 7)).await.unwrap();
    let mut wire = WebSocketStream::from_raw_socket(served.wire, Role::Client, None).await;
    let mut pongs = 0;
    let answer = loop {
        match within(wire.next()).await.unwrap().unwrap() {
            Message::Pong(text) => {
                assert_eq!(text, "there?");
                pongs += 1;
            }
            Message::Text(text) => break text,
            other => panic!("{other:?}"),
        }
    };
    assert!(answer.contains("in many pieces"), "{answer}");
    assert!(pongs >= 1, "pings that come together may be answered together, but they are");
}

#[tokio::test]
async fn large_answers_come_whole_and_in_order() {
    let mut client = client(options()).await;
    let sizes = [10, 16 * 1024, 200_000, 20, 9_000_000, 16 * 1024 - 40, 1];
    for n in sizes {
        client.send(json!({"id": n, "method": "large", "params": {"n": n}})).await;
    }
    for n in sizes {
        assert_eq!(client.recv().await["result"].as_str().unwrap().len(), n);
    }
}

#[tokio::test]
async fn what_is_queued_together_is_flushed_once() {
    let mut client = client(options()).await;
    client.expect_echo().await;
    let before = client.flushes.load(Ordering::Relaxed);
    for n in 0..100 {
        assert_eq!(client.peer.notify(Frame::notification("n", &json!({"n": n})).unwrap()), Pushed::Queued);
    }
    for n in 0..100 {
        assert_eq!(client.recv().await["params"]["n"], n);
    }
    assert_eq!(client.flushes.load(Ordering::Relaxed) - before, 1);
}

#[tokio::test]
async fn a_client_that_breaks_a_rule_is_told_which() {
    let limit = 1000;
    let large = vec![b'['; limit + 1];
    let claims_much = frame(TEXT | FINAL, &[b'['; 70_000], true)[..20].to_vec();
    for (name, bytes, code, says) in [
        ("binary", frame(BINARY | FINAL, b"{}", true), 1003, "send text"),
        ("unmasked", frame(TEXT | FINAL, b"{}", false), 1002, "nmask"),
        ("too large", frame(TEXT | FINAL, &large, true), 1009, "larger than 1000 bytes"),
        ("too large, of which little has come", claims_much, 1009, "larger than 1000 bytes"),
        ("too large in pieces", fragmented(&large, 100), 1009, "larger than 1000 bytes"),
        ("no UTF-8", frame(TEXT | FINAL, b"{\"\xff\"}", true), 1007, "UTF-8"),
        ("a reserved bit", frame(TEXT | FINAL | 0x40, b"{}", true), 1002, ""),
        ("an unknown kind", frame(0x3 | FINAL, b"{}", true), 1002, ""),
        ("a piece of nothing", frame(FINAL, b"{}", true), 1002, ""),
        ("a large ping", frame(PING | FINAL, &[0; 126], true), 1002, ""),
    ] {
        let mut served = serve(ConnOptions { max_frame_bytes: limit, ..options() }).await;
        let call = json!({"id": 1, "method": "id"}).to_string();
        served.wire.write_all(&frame(TEXT | FINAL, call.as_bytes(), true)).await.unwrap();
        served.wire.write_all(&bytes).await.unwrap();
        let mut client = served.client().await;
        assert_eq!(client.recv().await["id"], 1, "{name}: what came before is answered");
        let (found, text) = client.closed_with().await;
        assert_eq!(found, code, "{name}: {text}");
        assert!(text.contains(says), "{name}: {text}");
        let reason = client.ended().await;
        assert!(matches!(reason, CloseReason::Violation(_, _)), "{name}: {reason}");
    }
}

#[tokio::test]
async fn a_frame_of_just_the_limit_passes() {
    let mut client = client(ConnOptions { max_frame_bytes: 100, ..options() }).await;
    let text = format!("{:<100}", r#"{"id":1,"method":"id"}"#);
    within(client.wire.send(Message::text(text))).await.unwrap();
    assert_eq!(client.recv().await["id"], 1);
}

#[tokio::test]
async fn every_end_has_its_code_and_says_why() {
    let said =
        "a reason of more bytes than fit: éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé";
    assert!(said.len() > 123);
    let revoked = CancellationToken::new();
    let shutdown = CancellationToken::new();
    let outbox = OutboxLimits { soft_bytes: 100, hard_bytes: 100, answer_bytes: 100 };
    let kinds: [(&str, u16, &str); 7] = [
        ("shutdown", 1001, "shutting down"),
        ("revoked", 1008, "access was revoked"),
        ("revoked by hand", 1008, "no longer"),
        ("overflow", 1013, "too slowly"),
        ("lagging", 1013, "missed"),
        ("closed", 1011, "broken"),
        ("long", 1011, "a reason of more"),
    ];
    for (kind, code, says) in kinds {
        let (shutdown, revoked) = (shutdown.child_token(), revoked.child_token());
        let options =
            ConnOptions { shutdown: shutdown.clone(), revoked: revoked.clone(), outbox, ..options() };
        let mut client = client(options).await;
        client.expect_echo().await;
        match kind {
            "shutdown" => shutdown.cancel(),
            "revoked" => revoked.cancel(),
            "revoked by hand" => client.peer.revoke("no longer let in"),
            "overflow" => {
                let frame = Frame::notification("n", &json!({"text": "x".repeat(200)})).unwrap();
                while client.peer.notify(frame.clone()) != Pushed::Closed {}
            }
            "lagging" => client.peer.close_lagging("missed too much"),
            "closed" => client.peer.close("something is broken"),
            _ => client.peer.close(said),
        }
        let (found, text) = client.closed_with().await;
        assert_eq!(found, code, "{kind}: {text}");
        assert!(text.contains(says) && text.len() <= 123, "{kind}: {text}");
        client.ended().await;
    }
}

#[tokio::test]
async fn a_client_that_says_goodbye_is_answered_and_calls_under_way_end_first() {
    let (service, app) = service();
    let (server, wire) = tokio::io::duplex(64 * 1024);
    let transport = WebSocket::server(server, 1000).await;
    let served = tokio::spawn(Connection::new(service, options()).serve(transport));
    let mut wire = WebSocketStream::from_raw_socket(wire, Role::Client, None).await;
    let call = json!({"id": 1, "method": "hold", "params": {"text": "x"}}).to_string();
    within(wire.send(Message::text(call))).await.unwrap();
    within(async {
        while app.held.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(wire.close(None)).await.unwrap();
    assert!(matches!(within(wire.next()).await, Some(Ok(Message::Close(_)))), "the goodbye is answered");
    app.gate.notify_one();
    assert_eq!(within(served).await.unwrap(), CloseReason::Eof);
    assert_eq!(*app.held.lock(), ["begun"], "the call was not dropped");
}

#[tokio::test]
async fn a_client_that_vanishes_ends_its_connection_only() {
    for half_a_message in [false, true] {
        let mut served = serve(options()).await;
        if half_a_message {
            served.wire.write_all(&frame(TEXT, b"{", true)).await.unwrap();
        }
        drop(served.wire);
        let reason = within(served.served).await.unwrap();
        assert_eq!(reason, CloseReason::Eof);
    }
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_one_that_answers_stays() {
    let keep_alive = KeepAlive { interval: Duration::from_millis(2), pings: 20 };
    let mut client = serve_with(options(), keep_alive).await.client().await;
    client.expect_echo().await;
    let mut pings = 0;
    while pings < 100 {
        match within(client.wire.next()).await.unwrap().unwrap() {
            // Answered by the library when it is polled again.
            Message::Ping(_) => pings += 1,
            other => panic!("{other:?}"),
        }
    }
    client.expect_echo().await;
}

#[tokio::test]
async fn a_half_open_socket_ends_after_its_pings() {
    let keep_alive = KeepAlive { interval: Duration::from_millis(5), pings: 3 };
    let mut served = serve_with(options(), keep_alive).await;
    assert_eq!(within(served.served).await.unwrap(), CloseReason::Silent);
    let mut said = Vec::new();
    within(served.wire.read_to_end(&mut said)).await.unwrap();
    let (pings, goodbye) = said.split_at(6);
    assert_eq!(pings, [0x89, 0].repeat(3), "the pings");
    assert_eq!(goodbye[..4], [0x88, goodbye[1], 0x03, 0xe9], "and then the goodbye, 1001");
    assert_eq!(&goodbye[4..], b"the client answers no pings");
}

#[tokio::test]
async fn a_client_that_pings_without_reading_the_pongs_is_not_read_on_and_cut_after_the_grace() {
    let options = ConnOptions { stall_grace: Some(Duration::from_millis(50)), ..options() };
    let mut served = serve(options).await;
    let pings = frame(PING | FINAL, &[b'x'; 125], true).repeat(100);
    let mut taken = 0;
    // Fails when the connection has ended.
    within(async {
        while served.wire.write_all(&pings).await.is_ok() {
            taken += pings.len();
            assert!(taken < 1 << 20, "nothing holds it back");
        }
    })
    .await;
    assert_eq!(within(served.served).await.unwrap(), CloseReason::Stalled);
}

#[tokio::test]
async fn a_client_may_ping_as_much_as_it_likes_if_it_reads() {
    let served = serve(options()).await;
    let (mut read, mut write) = tokio::io::split(served.wire);
    let pings = 5_000;
    let writes = async {
        write.write_all(&frame(PING | FINAL, b"?", true).repeat(pings)).await.unwrap();
        let call = json!({"id": 1, "method": "echo", "params": {"text": "after all"}}).to_string();
        write.write_all(&frame(TEXT | FINAL, call.as_bytes(), true)).await.unwrap();
    };
    let reads = async {
        let mut said = Vec::new();
        while !said.ends_with(b"}") {
            said.push(read.read_u8().await.unwrap());
        }
        said
    };
    let ((), said) = within(async { tokio::join!(writes, reads) }).await;
    assert!(String::from_utf8_lossy(&said).contains("after all"));
}

#[tokio::test]
async fn a_message_that_never_comes_whole_ends_the_connection() {
    let long = frame(TEXT | FINAL, &[b' '; 60_000], true);
    let (begun, drip) = long.split_at(100);
    // One byte at a time of a long frame, and whole pings in the middle of a message in pieces.
    let ping = frame(PING | FINAL, b"", true);
    for (begun, drip) in [(begun, &drip[..1]), (&frame(TEXT, b"{", true), &ping)] {
        let keep_alive = KeepAlive { interval: Duration::from_millis(2), pings: 1_000 };
        let set = |transport: WebSocket<Flushes>| {
            transport.keep_alive(keep_alive).message_time(Duration::from_millis(50))
        };
        let mut served = serve_as(options(), set).await;
        served.wire.write_all(begun).await.unwrap();
        let goodbye = within(async {
            loop {
                let head = served.wire.read_u16().await.unwrap().to_be_bytes();
                if head[0] == 0x88 {
                    break served.wire.read_u16().await.unwrap();
                }
                assert_eq!(head[1], 0, "a ping or a pong");
                if head[0] == 0x89 {
                    served.wire.write_all(drip).await.unwrap();
                }
            }
        });
        assert_eq!(goodbye.await, 1008);
        drop(served.wire);
        let reason = within(served.served).await.unwrap();
        assert!(matches!(reason, CloseReason::Violation(Violation::Slow, _)), "{reason}");
    }
}

#[tokio::test]
async fn messages_that_have_come_in_part_share_their_room() {
    let room = Arc::new(Semaphore::new(100));
    let open = async || serve_as(options(), |transport| transport.room(room.clone())).await;
    let blank = [b' '; 90 << 10];
    let (mut first, mut second, mut third) = (open().await, open().await, open().await);
    first.wire.write_all(&frame(TEXT, &blank, true)).await.unwrap();
    first.wire.write_all(&frame(PING | FINAL, b"", true)).await.unwrap();
    assert_eq!(within(first.wire.read_u16()).await.unwrap(), 0x8a00, "it was read as far as that");

    let (mut read, mut write) = tokio::io::split(second.wire);
    let writes = async {
        // Not all of it may be taken.
        let _ = write.write_all(&frame(TEXT, &blank, true)).await;
    };
    let reads = async { (read.read_u16().await.unwrap().to_be_bytes()[0], read.read_u16().await.unwrap()) };
    let ((), goodbye) = within(async { tokio::join!(writes, reads) }).await;
    assert_eq!(goodbye, (0x88, 1013));
    drop((read, write));
    let reason = within(&mut second.served).await.unwrap();
    assert!(matches!(reason, CloseReason::Violation(Violation::NoRoom, _)), "{reason}");

    let call = json!({"id": 1, "method": "id"}).to_string();
    first.wire.write_all(&frame(FINAL, call.as_bytes(), true)).await.unwrap();
    assert_eq!(within(first.wire.read_u8()).await.unwrap(), TEXT | FINAL);
    third.wire.write_all(&frame(TEXT, &blank, true)).await.unwrap();
    third.wire.write_all(&frame(FINAL, call.as_bytes(), true)).await.unwrap();
    assert_eq!(within(third.wire.read_u8()).await.unwrap(), TEXT | FINAL, "room comes back");
}

#[tokio::test]
async fn a_message_that_comes_slowly_is_a_sign_of_life() {
    let keep_alive = KeepAlive { interval: Duration::from_millis(2), pings: 20 };
    let mut served = serve_with(options(), keep_alive).await;
    let call = json!({"id": 1, "method": "echo", "params": {"text": "in no hurry"}}).to_string();
    let call = frame(TEXT | FINAL, call.as_bytes(), true);
    assert!(call.len() > 2 * 20);
    for byte in call {
        // No pong, only the next byte.
        assert_eq!(within(served.wire.read_u16()).await.unwrap(), 0x8900);
        served.wire.write_all(&[byte]).await.unwrap();
    }
    let mut said = Vec::new();
    while !said.ends_with(b"}") {
        said.push(within(served.wire.read_u8()).await.unwrap());
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_after_the_grace_and_costs_its_outbox_at_most() {
    let served = serve(options()).await;
    let frame = Frame::notification("n", &json!({"text": "x".repeat(50_000)})).unwrap();
    let mut pushed = 0_usize;
    while served.peer.notify(frame.clone()) == Pushed::Queued {
        pushed += 1;
        assert!(pushed < 400, "the bound is never met");
        tokio::task::yield_now().await;
    }
    assert_eq!(within(served.served).await.unwrap(), CloseReason::Overflow);

    let served = serve(ConnOptions { stall_grace: Some(Duration::from_millis(50)), ..options() }).await;
    assert_eq!(served.peer.notify(frame.clone()), Pushed::Queued);
    assert_eq!(served.peer.notify(frame), Pushed::Queued);
    assert_eq!(within(served.served).await.unwrap(), CloseReason::Stalled);
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_not_cut_while_it_reads() {
    let mut served = serve(ConnOptions { stall_grace: Some(Duration::from_secs(1)), ..options() }).await;
    let large = Frame::notification("large", &json!({"text": "x".repeat(3_000_000)})).unwrap();
    assert_eq!(served.peer.notify(large), Pushed::Queued);
    let mut read = 0;
    let mut piece = vec![0; 60_000];
    while read < 3_000_000 {
        // Longer than the grace in all, never longer than it without progress.
        tokio::time::sleep(Duration::from_millis(30)).await;
        read += within(served.wire.read(&mut piece)).await.unwrap();
    }
    assert!(!served.served.is_finished());
}

#[tokio::test]
async fn a_client_that_does_not_answer_the_goodbye_is_not_waited_for() {
    let shutdown = CancellationToken::new();
    // Longer than the test may take: its end must not be what ends the connection.
    let served = serve(ConnOptions { shutdown: shutdown.clone(), drain: 2 * LIMIT, ..options() }).await;
    shutdown.cancel();
    assert_eq!(within(served.served).await.unwrap(), CloseReason::Shutdown);
}

#[tokio::test]
async fn pieces_of_garbage_never_do_more_than_end_the_connection() {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let one = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), prop::collection::vec(any::<u8>(), 0..300), any::<bool>())
            .prop_map(|(first, payload, masked)| frame(first, &payload, masked)),
    ];
    let strategy = prop::collection::vec(one, 1..6);
    for _ in 0..300 {
        let pieces = strategy.new_tree(&mut runner).unwrap().current();
        let mut served = serve(ConnOptions { max_frame_bytes: 200, ..options() }).await;
        for piece in &pieces {
            // The server may have ended already.
            let _ = served.wire.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        served.wire.shutdown().await.unwrap();
        let mut said = Vec::new();
        within(served.wire.read_to_end(&mut said)).await.unwrap();
        let reason = within(served.served).await.unwrap();
        assert!(
            matches!(reason, CloseReason::Eof | CloseReason::Violation(_, _)),
            "{reason} after {pieces:?}"
        );
    }
}
