//! A client and a server that is played by hand, over lines.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use serde_json::{Value, json};
use signalbox_client::{CallError, CallOptions, Client, Event, Events, frames};
use signalbox_protocol::app::{RequestId, ServerNotification, ServerRequest, ThreadLoadedListParams};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::task::TaskTracker;

/// The server's end of the lines.
struct Server {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    async fn reads(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the client said something");
        serde_json::from_str(&line).unwrap()
    }

    async fn says(&mut self, frame: Value) {
        self.writes(&format!("{frame}\n")).await;
    }

    async fn writes(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }
}

fn connected() -> (Client, Events, Server) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let (client, events) = Client::over_lines(reader, writer);
    let (reader, writer) = tokio::io::split(theirs);
    (client, events, Server { lines: BufReader::new(reader).lines(), writer })
}

fn warning(message: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "warning", "emittedAtMs": 7,
        "params": { "threadId": "t", "message": message, "seq": 3, "cursor": "1-2" },
    })
}

async fn list(client: Client) -> Result<Vec<String>, CallError> {
    client.thread_loaded_list(&ThreadLoadedListParams::default()).await.map(|result| result.data)
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (client, _events, mut server) = connected();
    let first = tokio::spawn(list(client.clone()));
    let one = server.reads().await;
    assert_eq!(one["method"], "thread/loaded/list");
    assert_eq!(one["jsonrpc"], "2.0");
    let second = tokio::spawn(list(client.clone()));
    let two = server.reads().await;
    assert_ne!(one["id"], two["id"]);
    server.says(json!({ "id": two["id"], "result": { "data": ["b"] } })).await;
    server.says(json!({ "jsonrpc": "2.0", "id": one["id"], "result": { "data": ["a"], "more": 1 } })).await;
    assert_eq!(first.await.unwrap().unwrap(), ["a"]);
    assert_eq!(second.await.unwrap().unwrap(), ["b"]);
}

#[tokio::test]
async fn a_refusal_comes_with_its_reason() {
    let (client, _events, mut server) = connected();
    let call = tokio::spawn(list(client));
    let id = server.reads().await["id"].clone();
    let data = json!({ "reason": "server_overloaded", "retryable": true, "retryAfterMs": 200 });
    server.says(json!({ "id": id, "error": { "code": -32001, "message": "busy", "data": data } })).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "busy");
    let CallError::Refused(failure) = error else { panic!("{error:?}") };
    assert_eq!(
        (failure.code, failure.reason.as_str(), failure.retryable),
        (-32001, "server_overloaded", true)
    );
    assert_eq!(failure.data["retryAfterMs"], 200);
}

#[tokio::test]
async fn a_result_of_another_form_names_the_method() {
    let (client, _events, mut server) = connected();
    let call = tokio::spawn(list(client));
    let id = server.reads().await["id"].clone();
    server.says(json!({ "id": id, "result": { "data": 5 } })).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the answer to thread/loaded/list cannot be read");
}

#[tokio::test]
async fn when_the_server_goes_calls_and_events_end() {
    let (client, mut events, mut server) = connected();
    let call = tokio::spawn(list(client.clone()));
    server.reads().await;
    server.says(warning("last words")).await;
    drop(server);
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed)));
    assert!(matches!(events.next().await, Some(Event::Notification(_))));
    assert_eq!(events.next().await, None);
    client.closed().await;
    assert!(matches!(list(client).await, Err(CallError::Closed)));
}

#[tokio::test]
async fn when_the_client_goes_the_server_reads_the_end() {
    let (client, events, mut server) = connected();
    client.notify("initialized", &json!({})).await.unwrap();
    drop((client, events));
    assert_eq!(server.reads().await["method"], "initialized");
    assert!(server.lines.next_line().await.unwrap().is_none());
}

#[tokio::test]
async fn notifications_are_typed_and_placed() {
    let (_client, mut events, mut server) = connected();
    server.says(warning("careful")).await;
    let Some(Event::Notification(told)) = events.next().await else { panic!("a notification") };
    let ServerNotification::Warning(warning) = &told.body else { panic!("{told:?}") };
    assert_eq!(warning.message, "careful");
    assert_eq!(told.emitted_at_ms, Some(7));
    let place = told.place.as_ref().unwrap();
    assert_eq!((place.seq, place.cursor.as_str()), (3, "1-2"));
    assert!(told.frame.starts_with(b"{"));
}

#[tokio::test]
async fn a_request_of_the_server_is_answered_under_its_id() {
    let (client, mut events, mut server) = connected();
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i1", "startedAtMs": 1, "command": "ls",
        "approvalId": "a", "title": "Run ls", "options": [], "availableDecisions": ["accept", "decline", "cancel"],
    });
    let method = "item/commandExecution/requestApproval";
    server.says(json!({ "jsonrpc": "2.0", "id": "a", "method": method, "params": params })).await;
    let Some(Event::Request(request)) = events.next().await else { panic!("a request") };
    assert!(matches!(request.body, ServerRequest::CommandExecutionApproval(_)));
    client.respond(&request.id, &json!({ "decision": "accept" })).await.unwrap();
    let answer = server.reads().await;
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "a", "result": { "decision": "accept" } }));
    client.refuse(&RequestId::Integer(5), -32603, "no").await.unwrap();
    let refusal = server.reads().await;
    assert_eq!((&refusal["id"], &refusal["error"]["message"]), (&json!(5), &json!("no")));
}

#[tokio::test]
async fn what_is_not_known_is_told_and_refused() {
    let (_client, mut events, mut server) = connected();
    server.says(json!({ "jsonrpc": "2.0", "method": "sky/fell", "params": {} })).await;
    let Some(Event::Unreadable(strange)) = events.next().await else { panic!("something strange") };
    assert_eq!((strange.method.as_str(), strange.problem), ("sky/fell", None));
    server.says(json!({ "jsonrpc": "2.0", "id": 9, "method": "dance", "params": {} })).await;
    assert!(matches!(events.next().await, Some(Event::Unreadable(_))));
    let refusal = server.reads().await;
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(9), &json!(-32601)));
}

#[tokio::test]
async fn garbage_hurts_nothing() {
    let (_client, mut events, mut server) = connected();
    server.writes("no json\n\n[]\n{}\n{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}\n").await;
    server.writes("{\"id\":77,\"result\":{}}\n{\"id\":\"x\",\"result\":{}}\n").await;
    server.says(warning("still here")).await;
    assert!(matches!(events.next().await, Some(Event::Notification(_))));
}

#[tokio::test]
async fn without_events_calls_go_on_and_requests_are_refused() {
    let (client, events, mut server) = connected();
    drop(events);
    for _ in 0..1000 {
        server.says(warning("nobody listens")).await;
    }
    server
        .says(json!({ "jsonrpc": "2.0", "id": "q", "method": "item/tool/requestUserInput", "params": {} }))
        .await;
    assert_eq!(server.reads().await["error"]["code"], -32601);
    let call = tokio::spawn(list(client));
    let id = server.reads().await["id"].clone();
    server.says(json!({ "id": id, "result": { "data": [] } })).await;
    assert!(call.await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_whose_answer_is_behind_unread_events_ends() {
    let (to_client, incoming) = frames();
    let (outgoing, mut from_client) = frames();
    let patience = Duration::from_millis(1);
    let options = CallOptions { patience };
    let (client, mut events) = Client::connect_with(incoming, outgoing, options, &TaskTracker::new());
    let call = tokio::spawn(list(client.clone()));
    let asked: Value = serde_json::from_slice(&from_client.recv().await.unwrap()).unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..600 {
            to_client.send(warning("unread").to_string()).await.unwrap();
        }
        let late = json!({ "id": asked["id"], "result": { "data": [] } });
        to_client.send(late.to_string()).await.unwrap();
        to_client
    });
    assert!(matches!(call.await.unwrap(), Err(CallError::EventsUnread)));
    for _ in 0..600 {
        assert!(matches!(events.next().await, Some(Event::Notification(_))));
    }
    let to_client = server.await.unwrap();
    let again = tokio::spawn(list(client));
    let asked: Value = serde_json::from_slice(&from_client.recv().await.unwrap()).unwrap();
    to_client.send(json!({ "id": asked["id"], "result": { "data": ["x"] } }).to_string()).await.unwrap();
    assert_eq!(again.await.unwrap().unwrap(), ["x"]);
}

#[tokio::test]
async fn a_homes_socket_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let home = signalbox_home::Home::locate(Some(folder.path().join("home")), &|_| None).unwrap();
    assert!(Client::of_home(&home).await.is_err(), "nobody listens yet");
    let listener = tokio::net::UnixListener::bind(home.socket()).unwrap();
    let (client, _events) = Client::of_home(&home).await.unwrap();
    client.notify("initialized", &json!({})).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let line = BufReader::new(stream).lines().next_line().await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["method"], "initialized");
}
