//! The same rules over bytes: lines, pipes and sockets; long lines, slow readers, merged deltas.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader as BlockingReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use common::{LIMIT, options, refusal, service, within};
use serde_json::{Value, json};
use signalbox_rpc::{
    CloseReason, ConnOptions, Connection, DeltaKey, Frame, Framed, Framing, OutboxLimits, Overflow, Peer,
    Pushed, Stdio, UnixDoor, serve,
};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines as TokioLines, ReadHalf,
    WriteHalf,
};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A client over a byte stream.
struct ByteClient {
    input: WriteHalf<DuplexStream>,
    output: TokioLines<BufReader<ReadHalf<DuplexStream>>>,
    peer: Peer,
    served: JoinHandle<CloseReason>,
}

fn byte_client(options: ConnOptions) -> ByteClient {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let connection = Connection::new(service().0, options);
    let peer = connection.peer().clone();
    let served = tokio::spawn(connection.serve(Framed::new(Framing::Lines, reader, writer)));
    let (output, input) = tokio::io::split(theirs);
    ByteClient { input, output: BufReader::new(output).lines(), peer, served }
}

impl ByteClient {
    async fn write(&mut self, bytes: &[u8]) {
        within(self.input.write_all(bytes)).await.unwrap();
    }

    async fn line(&mut self) -> Option<Value> {
        let line = within(self.output.next_line()).await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn recv(&mut self) -> Value {
        self.line().await.expect("the connection has ended")
    }

    async fn expect_echo(&mut self) {
        self.write(b"{\"id\":0,\"method\":\"echo\",\"params\":{\"text\":\"still here\"}}\n").await;
        assert_eq!(self.recv().await["result"]["text"], "still here");
    }
}

#[tokio::test]
async fn lines_may_come_in_any_pieces_and_with_any_ends() {
    let mut client = byte_client(options());
    let text = "\u{feff}{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"é\"}}\r\n\n  \r\n\
                {\"id\":2,\"method\":\"echo\",\"params\":{\"text\":\"b\"}}\n";
    for byte in text.as_bytes() {
        client.write(&[*byte]).await;
    }
    assert_eq!(client.recv().await, json!({"jsonrpc": "2.0", "id": 1, "result": {"text": "é"}}));
    assert_eq!(client.recv().await["id"], 2);
    client.write(b"\xff\n{\"id\":3,\"method\":\"put\",\"params\":{\"n\":1}}").await;
    assert_eq!(refusal(&client.recv().await), (-32700, "parse_error"));
    within(client.input.shutdown()).await.unwrap();
    assert_eq!(client.recv().await["id"], 3, "the last line needs no end");
    assert_eq!(client.line().await, None);
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Eof);
}

#[tokio::test]
async fn a_line_of_twenty_mebibytes_is_skipped_and_answered() {
    let mut client = byte_client(options());
    for end in [&b"\n"[..], b"x\n{\"id\":1,\"method\":\"id\"}\n"] {
        let filler = vec![b'['; 1024 * 1024];
        for _ in 0..20 {
            client.write(&filler).await;
        }
        client.write(end).await;
        let answer = client.recv().await;
        assert_eq!((refusal(&answer), &answer["id"]), ((-32600, "frame_too_large"), &Value::Null));
        assert_eq!(answer["error"]["data"]["limitBytes"], 16 * 1024 * 1024);
    }
    assert_eq!(client.recv().await["id"], 1, "the next line is read again");
    client.expect_echo().await;
}

#[tokio::test]
async fn a_frame_of_just_the_limit_passes_and_one_more_byte_does_not() {
    let mut client = byte_client(ConnOptions { max_frame_bytes: 100, ..options() });
    let frame = |length: usize| {
        let mut frame = br#"{"id":1,"method":"id"}"#.to_vec();
        frame.resize(length, b' ');
        frame.push(b'\n');
        frame
    };
    client.write(&frame(100)).await;
    assert_eq!(client.recv().await["id"], 1);
    client.write(&frame(101)).await;
    assert_eq!(refusal(&client.recv().await), (-32600, "frame_too_large"));
}

#[tokio::test]
async fn large_answers_and_small_ones_come_whole_and_in_order() {
    let mut client = byte_client(options());
    let mut calls = String::new();
    for n in [10, 200_000, 20, 64 * 1024, 70_000, 1] {
        calls.push_str(&format!("{{\"id\":{n},\"method\":\"large\",\"params\":{{\"n\":{n}}}}}\n"));
    }
    client.write(calls.as_bytes()).await;
    for n in [10, 200_000, 20, 64 * 1024, 70_000, 1] {
        assert_eq!(client.recv().await["result"].as_str().unwrap().len(), n);
    }
}

#[tokio::test]
async fn line_breaks_in_passed_through_json_do_not_break_the_framing() {
    let mut client = byte_client(options());
    client.write(b"{\"id\":1,\"method\":\"raw\"}\n[{\"id\":2,\"method\":\"raw\"}]\n").await;
    assert_eq!(client.recv().await["result"], json!({"a": [1, 2]}));
    assert_eq!(client.recv().await[0]["result"], json!({"a": [1, 2]}));
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_after_the_grace() {
    let grace = Duration::from_millis(50);
    let client = byte_client(ConnOptions { stall_grace: Some(grace), ..options() });
    let frame = Frame::notification("n", &json!({"text": "x".repeat(100_000)})).unwrap();
    assert_eq!(client.peer.notify(frame), Pushed::Queued);
    let begun = std::time::Instant::now();
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Stalled);
    assert!(begun.elapsed() >= grace);
}

#[tokio::test]
async fn a_client_that_vanishes_ends_its_connection_only() {
    let client = byte_client(options());
    let frame = Frame::notification("n", &json!({})).unwrap();
    assert_eq!(client.peer.notify(frame), Pushed::Queued);
    drop((client.input, client.output));
    let reason = within(client.served).await.unwrap();
    assert!(matches!(reason, CloseReason::Eof | CloseReason::WriteFailed(_)), "{reason}");
}

fn delta(item: u64, cursor: u64, text: &str) -> Frame {
    let key = DeltaKey { scope: 9, item, kind: 0 };
    Frame::delta("delta", Some(cursor), key, &json!({"item": item, "cursor": cursor}), "delta", text).unwrap()
}

/// The texts of the items as a client adds them up, until `last` arrives.
async fn texts(client: &mut ByteClient, last: &str) -> (Vec<(u64, String)>, usize) {
    let mut texts: Vec<(u64, String)> = Vec::new();
    let (mut frames, mut cursor) = (0, 0);
    loop {
        let frame = client.recv().await;
        if frame["method"] == last {
            return (texts, frames);
        }
        if frame["method"] != "delta" {
            continue;
        }
        frames += 1;
        let params = &frame["params"];
        assert!(params["cursor"].as_u64().unwrap() > cursor, "cursors rise");
        cursor = params["cursor"].as_u64().unwrap();
        assert_eq!(frame["emittedAtMs"], cursor, "head and tail are of the same, newest frame");
        let (item, text) = (params["item"].as_u64().unwrap(), params["delta"].as_str().unwrap());
        match texts.iter_mut().find(|(known, _)| *known == item) {
            Some((_, known)) => known.push_str(text),
            None => texts.push((item, text.to_owned())),
        }
    }
}

#[tokio::test]
async fn deltas_of_one_text_merge_and_add_up_to_the_same() {
    let mut client = byte_client(options());
    let pieces = ["a\"b", "\\", "\n", "é\u{1}", "\u{1f600}", "", "</x>", "end"];
    let mut pushed = Vec::new();
    for (cursor, n) in (1..).zip(0..4_000) {
        let piece = pieces[n % pieces.len()];
        pushed.push(client.peer.notify(delta(u64::from(n >= 2_000), cursor, piece)));
    }
    assert_eq!(pushed.iter().filter(|pushed| **pushed == Pushed::Queued).count(), 2);
    assert_eq!(pushed.iter().filter(|pushed| **pushed == Pushed::Merged).count(), 3_998);
    let _ = client.peer.notify(Frame::notification("done", &json!({})).unwrap());
    let (texts, frames) = texts(&mut client, "done").await;
    let whole = pieces.concat().repeat(250);
    assert_eq!(texts, [(0, whole.clone()), (1, whole)]);
    assert_eq!(frames, 2);
}

#[tokio::test]
async fn a_lagging_client_loses_the_rest_of_a_text_and_nothing_else() {
    let outbox = OutboxLimits { soft_bytes: 10_000, ..OutboxLimits::default() };
    let mut client = byte_client(ConnOptions { outbox, overflow: Overflow::Refuse, ..options() });
    let lifecycle = |n: u64| Frame::notification("lifecycle", &json!({"n": n})).unwrap();
    let (mut kept, mut dropped) = (0, 0);
    for n in 1..=1_000 {
        match client.peer.notify(delta(1, n, &format!("<{n}>"))) {
            Pushed::Queued if dropped == 0 => kept = n,
            Pushed::Dropped => dropped += 1,
            other => panic!("{other:?} after {dropped} were dropped"),
        }
        assert_eq!(client.peer.notify(lifecycle(n)), Pushed::Queued);
    }
    assert!(kept > 10 && dropped > 500, "{kept} {dropped}");
    let ended = DeltaKey { scope: 9, item: 1, kind: 0 };
    let completed = Frame::notification("completed", &json!({})).unwrap().ending(ended);
    assert_eq!(client.peer.notify(completed), Pushed::Queued);

    let mut seen = 0;
    let mut text = String::new();
    loop {
        let frame = client.recv().await;
        match frame["method"].as_str().unwrap() {
            "lifecycle" => seen += 1,
            "delta" => text.push_str(frame["params"]["delta"].as_str().unwrap()),
            _ => break,
        }
    }
    assert_eq!(seen, 1_000, "lifecycle frames are never dropped");
    assert_eq!(text, (1..=kept).map(|n| format!("<{n}>")).collect::<String>(), "a text has no hole");
    assert_eq!(client.peer.notify(delta(1, 2_000, "again")), Pushed::Queued, "a new text of the same item");
}

#[tokio::test]
async fn a_text_that_was_cut_stays_cut_until_it_ends() {
    let outbox = OutboxLimits { soft_bytes: 400, ..OutboxLimits::default() };
    let mut client = byte_client(ConnOptions { outbox, ..options() });
    assert_eq!(client.peer.notify(delta(1, 1, &"x".repeat(300))), Pushed::Queued);
    assert_eq!(client.peer.notify(delta(2, 2, "y")), Pushed::Dropped);
    assert_eq!(client.recv().await["method"], "delta");
    within(client.peer.drained()).await;
    assert_eq!(client.peer.notify(delta(2, 3, "z")), Pushed::Dropped, "or there would be a hole");
    assert_eq!(client.peer.notify(delta(3, 4, "other")), Pushed::Queued);
}

async fn unix_client(
    path: &std::path::Path,
) -> (TokioLines<BufReader<tokio::net::unix::OwnedReadHalf>>, tokio::net::unix::OwnedWriteHalf) {
    let (reader, writer) = within(UnixStream::connect(path)).await.unwrap().into_split();
    (BufReader::new(reader).lines(), writer)
}

#[tokio::test]
async fn three_clients_share_a_unix_socket_and_one_end_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.sock");
    let door = UnixDoor::bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(UnixDoor::bind(&path).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let (shutdown, tasks) = (CancellationToken::new(), TaskTracker::new());
    let door = {
        let (shutdown, tasks) = (shutdown.clone(), tasks.clone());
        tokio::spawn(async move {
            let drain = Duration::from_millis(100);
            let (service, _) = service();
            let handle = |stream: UnixStream| {
                let options = ConnOptions { shutdown: shutdown.clone(), drain, ..options() };
                let service = service.clone();
                async move {
                    let (reader, writer) = stream.into_split();
                    serve(Framed::new(Framing::Lines, reader, writer), service, options).await;
                }
            };
            door.run(8, shutdown.clone(), &tasks, handle).await;
        })
    };
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(unix_client(&path).await);
    }
    for round in 0..2 {
        for (n, (reader, writer)) in clients.iter_mut().enumerate() {
            let call = json!({"id": n, "method": "put", "params": {"n": n}});
            within(writer.write_all(format!("{call}\n").as_bytes())).await.unwrap();
            let line = within(reader.next_line()).await.unwrap().unwrap();
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["result"], n, "round {round}");
        }
        // Brutally, with a call under way.
        if let Some((_, mut writer)) = clients.pop() {
            within(writer.write_all(b"{\"id\":1,\"method\":\"hold\",\"params\":{\"text\":\"x\"}}\n"))
                .await
                .unwrap();
        }
    }
    shutdown.cancel();
    for (reader, _) in &mut clients {
        assert_eq!(within(reader.next_line()).await.unwrap(), None);
    }
    within(door).await.unwrap();
    tasks.close();
    within(tasks.wait()).await;
    assert!(!path.exists(), "the socket is removed");
}

#[tokio::test]
async fn a_door_leaves_its_successors_socket_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.sock");
    let first = UnixDoor::bind(&path).unwrap();
    std::fs::rename(&path, folder.path().join("old.sock")).unwrap();
    let second = UnixDoor::bind(&path).unwrap();
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)))
}

/// With and without the threads that stand in where the kernel cannot read pipes without blocking.
fn over_pipes(server_in: File, server_out: File, threads: bool) -> Stdio {
    let stdio = Stdio::over(server_in, server_out);
    if threads { stdio.with_threads() } else { stdio }
}

#[test]
fn pipes_in_blocking_mode_do_not_hold_up_the_end() {
    for threads in [false, true] {
        let ((server_in, mut client_out), (client_in, server_out)) = (pipe(), pipe());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shutdown = CancellationToken::new();
        let options = ConnOptions { shutdown: shutdown.clone(), ..options() };
        let stdio = over_pipes(server_in, server_out, threads);
        let served = runtime.spawn(serve(stdio, service().0, options));
        let mut lines = BlockingReader::new(client_in).lines();
        let mut answer = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        for n in 0..100 {
            writeln!(client_out, "{}", json!({"id": n, "method": "put", "params": {"n": n}})).unwrap();
        }
        for n in 0..100 {
            assert_eq!(answer()["id"], n);
        }
        writeln!(client_out, "{}", json!({"id": 1, "method": "large", "params": {"n": 300_000}})).unwrap();
        assert_eq!(answer()["result"].as_str().unwrap().len(), 300_000);
        // The input stays open.
        shutdown.cancel();
        assert_eq!(runtime.block_on(within(served)).unwrap(), CloseReason::Shutdown);
        runtime.shutdown_timeout(LIMIT);
        assert!(lines.next().is_none(), "the output is closed");
        drop(client_out);
    }
}

#[test]
fn the_end_of_stdin_ends_the_connection_after_the_answers() {
    for threads in [false, true] {
        let ((server_in, mut client_out), (client_in, server_out)) = (pipe(), pipe());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let stdio = over_pipes(server_in, server_out, threads);
        let served = runtime.spawn(serve(stdio, service().0, options()));
        for n in 0..1_000 {
            writeln!(client_out, "{}", json!({"id": n, "method": "echo/async", "params": {"text": "x"}}))
                .unwrap();
        }
        drop(client_out);
        assert_eq!(BlockingReader::new(client_in).lines().count(), 1_000);
        assert_eq!(runtime.block_on(within(served)).unwrap(), CloseReason::Eof);
    }
}

#[test]
fn an_inherited_pipe_stays_in_blocking_mode() {
    let ((server_in, mut client_out), (client_in, server_out)) = (pipe(), pipe());
    let (shared_in, shared_out) = (server_in.try_clone().unwrap(), server_out.try_clone().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let served = tokio::spawn(serve(Stdio::over(server_in, server_out), service().0, options()));
        writeln!(client_out, "{}", json!({"id": 1, "method": "id"})).unwrap();
        let client_in = tokio::task::spawn_blocking(|| BlockingReader::new(client_in).lines().next());
        assert!(within(client_in).await.unwrap().is_some());
        for shared in [&shared_in, &shared_out] {
            let flags = rustix::fs::fcntl_getfl(shared).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        }
        drop(client_out);
        assert_eq!(within(served).await.unwrap(), CloseReason::Eof);
    });
}

#[test]
fn a_file_as_input_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls");
    std::fs::write(&path, "{\"id\":1,\"method\":\"id\"}\n{\"id\":2,\"method\":\"id\"}").unwrap();
    let (client_in, server_out) = pipe();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stdio = Stdio::over(File::open(&path).unwrap(), server_out);
    assert_eq!(runtime.block_on(within(serve(stdio, service().0, options()))), CloseReason::Eof);
    assert_eq!(BlockingReader::new(client_in).lines().count(), 2);
}

#[tokio::test]
async fn what_the_server_writes_is_bounded_for_a_client_that_never_reads_its_socket() {
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    let (reader, writer) = ours.into_split();
    let connection = Connection::new(service().0, options());
    let peer = connection.peer().clone();
    let served = tokio::spawn(connection.serve(Framed::new(Framing::Lines, reader, writer)));
    let frame = Frame::notification("n", &json!({"text": "x".repeat(50_000)})).unwrap();
    let mut pushed = 0_usize;
    while peer.notify(frame.clone()) == Pushed::Queued {
        pushed += 1;
        // What the kernel takes and one burst come on top of the outbox.
        assert!(pushed < 400, "the bound is never met");
        tokio::task::yield_now().await;
    }
    assert_eq!(within(served).await.unwrap(), CloseReason::Overflow);
    let mut rest = Vec::new();
    within(theirs.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.len() < 2 * 1024 * 1024);
}

#[tokio::test]
async fn a_large_answer_or_frame_makes_no_client_slow() {
    let mut client = byte_client(options());
    for id in [1, 2] {
        let call = json!({"id": id, "method": "large", "params": {"n": 9_000_000}});
        client.write(format!("{call}\n").as_bytes()).await;
    }
    // The writer has the first answer in hand; the second alone is more than either bound, but the client has asked for it.
    let peer = client.peer.clone();
    let second_waits = async {
        while peer.backlog().answer_bytes < 9_000_000 {
            tokio::task::yield_now().await;
        }
    };
    within(second_waits).await;
    let large = Frame::notification("large", &json!({"text": "x".repeat(9_000_000)})).unwrap();
    assert_eq!(client.peer.notify(delta(1, 1, "text")), Pushed::Queued);
    assert_eq!(client.peer.notify(large), Pushed::Queued, "one frame of any size passes");
    for id in [1, 2] {
        assert_eq!(client.recv().await["id"], id);
    }
    assert_eq!(client.recv().await["method"], "delta");
    assert_eq!(client.recv().await["method"], "large");
}
