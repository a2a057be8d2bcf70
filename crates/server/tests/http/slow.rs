//! WebSockets that are not read for a while: what that costs, what others notice, and how such a client becomes whole.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_server::http::HttpLimits;
use tokio::io::AsyncWriteExt;

use crate::stage::{JSON, Set, Stage, within};
use crate::websocket::{PING, Socket, frame};

const OUTBOX: usize = 2 << 20;

/// A client that joined the thread.
async fn joins(mut socket: Socket, thread: &str) -> Socket {
    let client = json!({"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"resync": true}});
    assert!(socket.calls(0, "initialize", client).await.get("result").is_some());
    let joined = socket.calls(1, "thread/resume", json!({"threadId": thread})).await;
    assert_eq!(joined["result"]["thread"]["id"], thread, "{joined}");
    socket
}

/// All that comes until the turn has ended.
async fn until_the_end(socket: &mut Socket) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let message = socket.json().await;
        assert_ne!(message["method"], "thread/resyncRequired", "it reads all the time");
        let ended = message["method"] == "turn/completed";
        seen.push(message);
        if ended {
            return seen;
        }
    }
}

/// The texts of a turn's messages by their items, as the deltas tell them, and as the completed items do.
fn texts(seen: &[Value]) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut told, mut whole) = (BTreeMap::<String, String>::new(), BTreeMap::new());
    for message in seen {
        let params = &message["params"];
        if message["method"] == "item/agentMessage/delta" {
            let item = params["itemId"].as_str().unwrap().to_owned();
            told.entry(item).or_default().push_str(params["delta"].as_str().unwrap());
        }
        if message["method"] == "item/completed" && params["item"]["type"] == "agentMessage" {
            let (item, text) = (&params["item"]["id"], &params["item"]["text"]);
            whole.insert(item.as_str().unwrap().to_owned(), text.as_str().unwrap().to_owned());
        }
    }
    (told, whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_to_reading_late_has_lost_nothing() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let mut late = joins(Socket::open(&stage, "/", "").await, &thread).await;
    let mut quick = joins(Socket::open(&stage, "/", "").await, &thread).await;
    // Far more than an agent says in two seconds, all of it before the late one looks.
    stage.prompts(&thread, "stream 2000 40 0\nsay The end.").await;
    let of_quick = until_the_end(&mut quick).await;
    let of_late = until_the_end(&mut late).await;
    let (told, whole) = texts(&of_late);
    assert_eq!(told, whole, "every letter came as a delta too");
    assert_eq!(whole, texts(&of_quick).1);
    assert!(!of_late.iter().any(|message| message["method"] == "thread/resyncRequired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_client_costs_its_outbox_delays_nobody_and_becomes_whole_by_joining_again() {
    let stage = Stage::with(Set { outbox: Some(OUTBOX), ..Set::default() }).await;
    let thread = stage.thread().await;
    let mut stalled = joins(Socket::over(stage.connect_narrowly().await, "/", "").await, &thread).await;
    let mut quick = joins(Socket::open(&stage, "/", "").await, &thread).await;
    // More than sockets and outbox take: the whole text of a message is never merged away.
    let script = "stream 20 5000 0\nthink So far.\n".repeat(150);
    stage.prompts(&thread, &script).await;
    // The other one is told everything to the end while the first has read nothing of it.
    let mut seen = until_the_end(&mut quick).await;
    assert_eq!(texts(&seen).1.len(), 150, "each message whole");
    assert_eq!(seen.pop().unwrap()["params"]["turn"]["status"], "completed");

    // What waits for it is shown, and bounded.
    let figure = stage.figure("signalbox_outboxes_bytes").await;
    let diagnostics = stage.calls("server/diagnostics", json!({})).await;
    let waits = diagnostics["connections"].as_array().unwrap().iter();
    let waits = waits.map(|one| one["backlogBytes"].as_u64().unwrap()).max().unwrap();
    // What one commit tells may exceed the bound: it is taken as a whole or not at all.
    let most = u64::try_from(OUTBOX).unwrap() + (1 << 20);
    assert!(waits > 0 && waits <= most, "{waits} bytes: {diagnostics}");
    assert!(figure > 0 && u64::try_from(figure).unwrap() <= 2 * most, "{figure}");

    // Reading again it is told once, and joining again has the whole thread.
    within(async { while stalled.json().await["method"] != "thread/resyncRequired" {} }).await;
    stalled.sends(json!({"id": 9, "method": "thread/resume", "params": {"threadId": thread}})).await;
    let joined = loop {
        let message = stalled.json().await;
        assert_ne!(message["method"], "thread/resyncRequired", "a second time");
        if message["id"] == 9 {
            break message["result"].clone();
        }
    };
    let turn = joined["thread"]["turns"].as_array().unwrap().last().unwrap();
    assert_eq!(turn["status"], "completed");
    stage.prompts(&thread, "say hello again").await;
    let (told, whole) = texts(&until_the_end(&mut stalled).await);
    assert_eq!((told.len(), told), (1, whole));
}

#[tokio::test]
async fn a_client_that_pings_without_reading_is_not_read_on() {
    let limits = HttpLimits { write_pause: Duration::from_millis(300), ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let ticket = stage.asks("POST", "/api/ws-ticket", JSON, "").await.json()["ticket"].clone();
    for target in ["/", &format!("/ws?ticket={}", ticket.as_str().unwrap())] {
        let mut deaf = Socket::over(stage.connect_narrowly().await, target, "").await;
        let pings = frame(PING, true, true, &[b'x'; 125]).repeat(100);
        let mut taken = 0;
        // Fails when the connection has ended.
        within(async {
            while deaf.client.stream.get_mut().write_all(&pings).await.is_ok() {
                taken += pings.len();
                assert!(taken < 32 << 20, "{target}: nothing holds it back");
            }
        })
        .await;
    }
}
