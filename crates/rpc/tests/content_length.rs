//! Frames behind headers, and how a stream's framing is told: by whole connections, in pieces, out of garbage.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use common::{LIMIT, options, refusal, service, within};
use proptest::prelude::*;
use serde_json::{Value, json};
use signalbox_rpc::transport::{LengthDecoder, LineDecoder, MAX_HEADER_BYTES};
use signalbox_rpc::{
    CloseReason, ConnOptions, Connection, Frame, Framed, Framing, Prefixed, Protocol, Received, Stdio,
    Violation, serve, sniff,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A client that puts headers before its frames.
struct Client {
    input: WriteHalf<DuplexStream>,
    output: ReadHalf<DuplexStream>,
    served: JoinHandle<CloseReason>,
}

fn client(options: ConnOptions) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let transport = Framed::new(Framing::ContentLength, reader, writer);
    let served = tokio::spawn(serve(transport, service().0, options));
    let (output, input) = tokio::io::split(theirs);
    Client { input, output, served }
}

fn framed(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

impl Client {
    async fn write(&mut self, bytes: &[u8]) {
        within(self.input.write_all(bytes)).await.unwrap();
    }

    /// Reads one frame, whose head must be exactly what every client understands.
    async fn recv(&mut self) -> Value {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(self.output.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let length =
            head.strip_prefix("Content-Length: ").and_then(|rest| rest.strip_suffix("\r\n\r\n")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        within(self.output.read_exact(&mut body)).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    async fn expect_echo(&mut self) {
        self.write(framed(r#"{"id":0,"method":"echo","params":{"text":"still here"}}"#).as_bytes()).await;
        assert_eq!(self.recv().await["result"]["text"], "still here");
    }

    async fn expect_refusal(&mut self, reason: (i64, &str)) -> Value {
        let answer = self.recv().await;
        assert_eq!((refusal(&answer), &answer["id"]), (reason, &Value::Null));
        answer
    }
}

#[tokio::test]
async fn frames_behind_headers_may_come_in_any_pieces_with_any_headers() {
    let mut client = client(options());
    let pretty = "{\n  \"id\": 1,\n  \"method\": \"echo\", \"params\": {\"text\": \"é\"}\n}";
    let more = r#"{"id":2,"method":"echo","params":{"text":"b"}}"#;
    let text = format!(
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-LENGTH:{}\r\n\r\n{pretty}\
         \r\n\r\nContent-Length: {}\nX: y\n\n{more}",
        pretty.len(),
        more.len(),
    );
    for byte in text.as_bytes() {
        client.write(&[*byte]).await;
    }
    assert_eq!(client.recv().await, json!({"jsonrpc": "2.0", "id": 1, "result": {"text": "é"}}));
    assert_eq!(client.recv().await["id"], 2);
    client.write(format!("{}{}", framed("not json"), framed(" ")).as_bytes()).await;
    client.expect_refusal((-32700, "parse_error")).await;
    client.expect_echo().await;
    client.write(b"Content-Length: 5\r\n\r\n{\"i").await;
    within(client.input.shutdown()).await.unwrap();
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Eof, "half a frame is none");
}

#[tokio::test]
async fn answers_of_any_size_come_framed_and_in_order() {
    let mut client = client(options());
    let sizes = [10, 200_000, 20, 64 * 1024, 70_000, 1];
    for n in sizes {
        client
            .write(
                framed(&format!("{{\"id\":{n},\"method\":\"large\",\"params\":{{\"n\":{n}}}}}")).as_bytes(),
            )
            .await;
    }
    for n in sizes {
        assert_eq!(client.recv().await["result"].as_str().unwrap().len(), n);
    }
}

#[tokio::test]
async fn a_frame_above_the_limit_is_skipped_and_answered_once() {
    let mut client = client(ConnOptions { max_frame_bytes: 100, ..options() });
    let fitting = format!("{:<100}", r#"{"id":1,"method":"id"}"#);
    client.write(framed(&fitting).as_bytes()).await;
    assert_eq!(client.recv().await["id"], 1);
    for length in [101, 1_000_000] {
        client.write(format!("Content-Length: {length}\r\n\r\n").as_bytes()).await;
        let answer = client.expect_refusal((-32600, "frame_too_large")).await;
        assert_eq!(answer["error"]["data"]["limitBytes"], 100, "told before the frame itself has come");
        client.write(&vec![b'{'; length]).await;
        client.expect_echo().await;
    }
}

#[tokio::test]
async fn headers_without_sense_are_answered_and_the_next_frame_is_read() {
    let mut client = client(options());
    for (headers, problem) in [
        ("Content-Length: many\r\n\r\n", "no number"),
        ("Content-Length: -1\r\n\r\n", "no number"),
        ("Content-Length: +1\r\n\r\n", "no number"),
        ("Content-Length: 0x10\r\n\r\n", "no number"),
        ("Content-Length:\r\n\r\n", "no number"),
        ("Content-Length: 99999999999999999999\r\n\r\n", "no number"),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "two different"),
        ("Content-Type: text\r\n\r\n", "no Content-Length"),
        ("nonsense\r\n\r\n", "no colon"),
        ("{\"id\":1,\"method\":\"id\"}\n\n", "no Content-Length"),
    ] {
        client.write(headers.as_bytes()).await;
        let answer = client.expect_refusal((-32600, "invalid_request")).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains(problem), "{headers:?}: {answer}");
        client.write(b"{\"id\":7,\"method\":\"echo\",\"params\":{\"text\":\"Content-Length\"}}").await;
        client.expect_echo().await;
    }
    let long = format!("X: {}", "y".repeat(MAX_HEADER_BYTES));
    client.write(long.as_bytes()).await;
    client.expect_refusal((-32600, "invalid_request")).await;
    client.write(b"\r\n\r\n").await;
    client.expect_echo().await;
}

#[tokio::test]
async fn a_stream_without_any_header_is_given_up_and_told_why() {
    let mut client = client(ConnOptions { max_frame_bytes: 10_000, ..options() });
    client.write(&vec![b'x'; MAX_HEADER_BYTES + 1]).await;
    client.expect_refusal((-32600, "invalid_request")).await;
    client.write(&vec![b'x'; 40_000]).await;
    let reason = within(client.served).await.unwrap();
    assert!(matches!(reason, CloseReason::Violation(Violation::Protocol, _)), "{reason}");
    let mut rest = Vec::new();
    within(client.output.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn nobody_reads_the_answers_of_a_client_whose_headers_are_all_nonsense() {
    let outbox = signalbox_rpc::OutboxLimits { answer_bytes: 10_000, ..Default::default() };
    let mut client =
        client(ConnOptions { outbox, stall_grace: Some(Duration::from_millis(50)), ..options() });
    let written = async {
        for _ in 0..1_000_000 {
            if client.input.write_all(b"Content-Length: x\r\n\r\n").await.is_err() {
                return;
            }
        }
        panic!("the bound is never met");
    };
    within(written).await;
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Stalled);
}

fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)))
}

#[test]
fn stdio_answers_in_the_framing_of_the_first_byte_and_says_nothing_before() {
    for threads in [false, true] {
        for (call, answer) in [
            (framed(r#"{"id":1,"method":"id"}"#), "Content-Length: "),
            ("{\"id\":1,\"method\":\"id\"}\n".to_owned(), "{\"jsonrpc\""),
            ("\n{\"id\":1,\"method\":\"id\"}\n".to_owned(), "{\"jsonrpc\""),
        ] {
            let ((server_in, mut client_out), (mut client_in, server_out)) = (pipe(), pipe());
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let stdio = Stdio::over(server_in, server_out);
            let stdio = if threads { stdio.with_threads() } else { stdio };
            let connection = Connection::new(service().0, options());
            let peer = connection.peer().clone();
            let served = runtime.spawn(connection.serve(stdio));
            let told = Frame::notification("told/early", &json!({})).unwrap();
            assert_eq!(peer.notify(told), signalbox_rpc::Pushed::Queued);
            client_out.write_all(call.as_bytes()).unwrap();
            drop(client_out);
            let mut said = String::new();
            client_in.read_to_string(&mut said).unwrap();
            assert!(said.starts_with(answer), "{said}");
            assert!(said.contains("told/early") && said.contains("\"result\""), "{said}");
            assert_eq!(said.matches("Content-Length: ").count(), if answer.starts_with('C') { 2 } else { 0 });
            assert_eq!(runtime.block_on(within(served)).unwrap(), CloseReason::Eof);
        }
    }
}

#[test]
fn stdio_on_which_nothing_was_ever_said_ends_at_once() {
    for threads in [false, true] {
        let ((server_in, client_out), (mut client_in, server_out)) = (pipe(), pipe());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shutdown = CancellationToken::new();
        // Longer than the test may take: its end must not be what ends the connection.
        let options = ConnOptions { shutdown: shutdown.clone(), drain: 2 * LIMIT, ..options() };
        let stdio = Stdio::over(server_in, server_out);
        let stdio = if threads { stdio.with_threads() } else { stdio };
        let connection = Connection::new(service().0, options);
        let told = Frame::notification("told", &json!({})).unwrap();
        assert_eq!(connection.peer().notify(told), signalbox_rpc::Pushed::Queued);
        let served = runtime.spawn(connection.serve(stdio));
        shutdown.cancel();
        assert_eq!(runtime.block_on(within(served)).unwrap(), CloseReason::Shutdown);
        runtime.shutdown_timeout(LIMIT);
        let mut said = String::new();
        client_in.read_to_string(&mut said).unwrap();
        assert_eq!(said, "{\"jsonrpc\":\"2.0\",\"method\":\"told\",\"params\":{}}\n");
        drop(client_out);
    }
}

#[tokio::test]
async fn what_a_client_speaks_is_told_from_its_first_bytes_and_nothing_is_lost() {
    for (said, expected) in [
        ("{\"id\":1}\n", Protocol::Lines),
        ("Content-Length: 2\r\n\r\n{}", Protocol::ContentLength),
        ("CONNECT x HTTP/1.1\r\n", Protocol::Http),
        ("GET /healthz HTTP/1.1\r\n\r\n", Protocol::Http),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http),
        // The deadline and the end mean lines.
        ("CON", Protocol::Lines),
        ("", Protocol::Lines),
    ] {
        for closes in [false, true] {
            let (mut client, server) = tokio::io::duplex(1024);
            let undecided = ["CON", ""].contains(&said) && !closes;
            let deadline = if undecided { Duration::from_millis(20) } else { 2 * LIMIT };
            let sniffing = tokio::spawn(sniff(server, deadline));
            for byte in said.as_bytes() {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            if closes {
                client.shutdown().await.unwrap();
            }
            let (protocol, mut stream) = within(sniffing).await.unwrap().unwrap();
            assert_eq!(protocol, expected, "{said:?}");
            client.shutdown().await.unwrap();
            let mut read = String::new();
            within(stream.read_to_string(&mut read)).await.unwrap();
            assert_eq!(read, said);
        }
    }
}

#[tokio::test]
async fn a_first_line_is_looked_at_and_stays_in_front() {
    let (mut client, server) = tokio::io::duplex(16);
    let said = "{\"greeting\":\"a bridge's\"}\n{\"id\":1}\n";
    let speaking = tokio::spawn(async move {
        client.write_all(said.as_bytes()).await.unwrap();
    });
    let (_, mut stream) = within(sniff(server, LIMIT)).await.unwrap();
    let line = within(stream.first_line(1000)).await.unwrap().unwrap();
    assert_eq!(line, &said.as_bytes()[..25]);
    assert_eq!(within(stream.first_line(1000)).await.unwrap().unwrap(), line, "it is still there");
    stream.skip(line.len() + 1);
    let mut rest = String::new();
    within(stream.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "{\"id\":1}\n");
    within(speaking).await.unwrap();
    let mut long = Prefixed::new("x".repeat(50).into(), &b"yz\n"[..]);
    assert_eq!(within(long.first_line(51)).await.unwrap(), None, "longer than that");
    assert_eq!(within(long.first_line(52)).await.unwrap().unwrap().len(), 52);
    let mut unfinished = Prefixed::new("x".into(), &b"y"[..]);
    assert_eq!(within(unfinished.first_line(52)).await.unwrap(), None, "the stream ends before the line");
    let mut rest = String::new();
    within(unfinished.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "xy");
}

/// All that comes out of a stream that is cut into pieces of these sizes.
fn by_length(stream: &[u8], cuts: &[usize], max_bytes: usize) -> Vec<Received> {
    let mut decoder = LengthDecoder::new(max_bytes);
    let mut received = Vec::new();
    for piece in pieces(stream, cuts) {
        decoder.buffer().extend_from_slice(piece);
        while let Some(one) = decoder.next() {
            let end = matches!(one, Received::End(_));
            received.push(one);
            if end {
                return received;
            }
        }
    }
    received
}

fn by_line(stream: &[u8], cuts: &[usize], max_bytes: usize) -> Vec<Received> {
    let mut decoder = LineDecoder::new(max_bytes);
    let mut received = Vec::new();
    for piece in pieces(stream, cuts) {
        decoder.buffer().extend_from_slice(piece);
        while let Some(one) = decoder.next() {
            received.push(one);
        }
    }
    received.extend(decoder.finish());
    received
}

fn pieces<'a>(mut stream: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(usize::MAX));
    std::iter::from_fn(move || {
        let at = cuts.next().unwrap_or(usize::MAX).clamp(1, stream.len().max(1)).min(stream.len());
        let (piece, rest) = stream.split_at(at);
        stream = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A frame, good or bad, as it stands in the stream, and whether it is good.
fn message() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
    let body = prop::collection::vec(any::<u8>(), 0..60);
    let head = prop::sample::select(vec![
        "Content-Length: {}\r\n\r\n",
        "content-length:{}\n\n",
        "\r\nContent-Type: x:y\r\nContent-Length: {}\r\n\r\n",
        "CONTENT-LENGTH: {} \r\nA:\r\n\r\n",
    ]);
    (head, body).prop_map(|(head, body)| {
        let mut bytes = head.replace("{}", &body.len().to_string()).into_bytes();
        bytes.extend_from_slice(&body);
        (bytes, Some(body))
    })
}

fn broken() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
    prop::sample::select(vec![
        "Content-Length: x\r\n\r\n{}",
        "Content-Type: x\r\n\r\n[1]",
        "garbage\n\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ])
    .prop_map(|text| (text.as_bytes().to_vec(), None))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_pieces_the_same_frames_come_out(
        messages in prop::collection::vec(prop_oneof![4 => message(), 1 => broken()], 0..12),
        cuts in prop::collection::vec(1_usize..40, 0..80),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let whole = by_length(&stream, &[], 1000);
        prop_assert_eq!(&by_length(&stream, &cuts, 1000), &whole);
        let frames: Vec<Vec<u8>> = whole.iter().filter_map(|one| match one {
            Received::Frame(frame) => Some(frame.to_vec()),
            _ => None,
        }).collect();
        let good: Vec<Vec<u8>> = messages.iter().filter_map(|(_, body)| body.clone()).collect();
        prop_assert_eq!(frames, good, "no frame is lost behind headers that make no sense");
        let bad = messages.iter().filter(|(_, body)| body.is_none()).count();
        let told = whole.iter().filter(|one| matches!(one, Received::Malformed(_))).count();
        // While the next frame is looked for, nothing more is told.
        prop_assert!((told > 0) == (bad > 0) && told <= bad);
    }

    #[test]
    fn garbage_gives_the_same_in_any_pieces_and_never_more_than_it_has(
        stream in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..600),
            "(Content-Length|:| |\r\n|\n|[0-9]{1,3}|[{}a-z]){0,120}".prop_map(String::into_bytes),
        ],
        cuts in prop::collection::vec(1_usize..40, 0..60),
        max_bytes in 0_usize..80,
    ) {
        for decode in [by_length, by_line] {
            let whole = decode(&stream, &[], max_bytes);
            prop_assert_eq!(&decode(&stream, &cuts, max_bytes), &whole);
            let mut bytes = 0;
            for one in &whole {
                if let Received::Frame(frame) = one {
                    prop_assert!(frame.len() <= max_bytes);
                    bytes += frame.len();
                }
            }
            prop_assert!(bytes <= stream.len());
        }
    }

    #[test]
    fn lines_in_any_pieces_are_the_same_lines(
        lines in prop::collection::vec("[^\n]{0,40}", 0..20),
        cuts in prop::collection::vec(1_usize..30, 0..80),
    ) {
        let stream: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let received: Vec<String> = by_line(stream.as_bytes(), &cuts, 1000).iter().map(|one| match one {
            Received::Frame(frame) => String::from_utf8(frame.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(received, lines);
    }
}
