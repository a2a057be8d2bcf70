//! A thread's events as a stream: what a script with curl sees.

use serde_json::{Value, json};
use signalbox_engine::Unattended;
use signalbox_server::http::HttpLimits;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::stage::{Set, Stage};

/// An open stream.
pub(crate) struct Stream {
    client: Client<TcpStream>,
    text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Event {
    id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
    pub(crate) comment: bool,
}

impl Stream {
    pub(crate) async fn open(stage: &Stage, target: &str, headers: &str) -> Self {
        Self::over(stage.connect().await, target, headers).await
    }

    async fn over(mut client: Client<TcpStream>, target: &str, headers: &str) -> Self {
        client.sends("GET", target, &format!("host: localhost\r\n{headers}"), "").await;
        let head = client.head().await.unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        assert_eq!(head.header("cache-control"), Some("no-store"));
        Self { client, text: String::new() }
    }

    /// The next block of lines; none at the end, which must be one in order.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                return Some(block);
            }
            let chunk = self.client.chunk().await?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let mut event = Event::default();
            for line in self.block().await?.lines() {
                match line.split_once(": ").unwrap() {
                    ("id", id) => event.id = Some(id.to_owned()),
                    ("event", name) => name.clone_into(&mut event.name),
                    ("data", data) => event.data = serde_json::from_str(data).unwrap(),
                    ("retry", _) => {}
                    ("", _) => event.comment = true,
                    other => panic!("{other:?}"),
                }
            }
            if event.comment || !event.name.is_empty() {
                if !event.comment && event.name != "end" {
                    assert_eq!(event.data["method"], event.name.as_str());
                }
                return Some(event);
            }
        }
    }

    pub(crate) async fn until(&mut self, name: &str) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("it ended before {name}"));
            let found = event.name == name;
            seen.push(event);
            if found {
                return seen;
            }
        }
    }
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

#[tokio::test]
async fn a_turn_is_followed_from_its_beginning_to_its_end() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let other = stage.thread().await;
    let target = format!("/threads/{thread}/events");
    let mut stream = Stream::open(&stage, &target, "").await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.name, "thread/snapshot");
    assert_eq!(first.data["params"]["thread"]["id"], thread.as_str());
    assert_eq!(first.data["params"]["cursor"], first.id.clone().unwrap().as_str());

    stage.prompts(&other, "say not for you").await;
    stage.prompts(&thread, "say hello\nrun echo hello").await;
    let before = stream.until("approval/requested").await;
    let approval = &before.last().unwrap().data["params"]["approval"]["approvalId"];

    // Somebody who comes later learns of it too, once.
    let mut late = Stream::open(&stage, &target, "").await;
    let joined = late.until("approval/requested").await;
    assert_eq!(names(&joined), ["thread/snapshot", "approval/requested"]);
    assert_eq!(joined[1].data["params"]["approval"]["approvalId"], *approval);

    stage.calls("approval/respond", json!({"approvalId": approval, "decision": "accept"})).await;
    let rest = stream.until("turn/completed").await;
    assert!(names(&rest).contains(&"serverRequest/resolved"), "{rest:?}");
    let of_late = late.until("turn/completed").await;
    assert!(!names(&of_late).contains(&"approval/requested"), "{of_late:?}");

    let all: Vec<_> = before.iter().chain(&rest).collect();
    for event in &all {
        let about = &event.data["params"]["threadId"];
        assert!(about.is_null() || about == thread.as_str(), "{event:?}");
        assert_eq!(event.data["params"]["cursor"].as_str(), event.id.as_deref());
    }
    for name in ["turn/started", "item/agentMessage/delta", "item/completed"] {
        assert!(all.iter().any(|event| event.name == name), "{name}");
    }
}

#[tokio::test]
async fn who_comes_back_goes_on_where_it_was() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let target = format!("/threads/{thread}/events");
    let mut stream = Stream::open(&stage, &target, "").await;
    stage.prompts(&thread, "say one\nsay two").await;
    let all = stream.until("turn/completed").await;
    let place = all.iter().position(|event| event.name == "turn/started").unwrap();
    let id = all[place].id.clone().unwrap();
    drop(stream);

    for (target, headers) in [
        (target.clone(), format!("last-event-id: {id}\r\n")),
        (format!("{target}?after={id}"), String::new()),
    ] {
        let mut again = Stream::open(&stage, &target, &headers).await;
        let rest = again.until("turn/completed").await;
        let ids = |events: &[Event]| events.iter().map(|event| event.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&rest), ids(&all[place + 1..]));
    }
    // A place of another life of the server, or no place at all.
    for id in ["1-1", "nonsense", ""] {
        let mut again = Stream::open(&stage, &target, &format!("last-event-id: {id}\r\n")).await;
        assert_eq!(again.next().await.unwrap().name, "thread/snapshot", "{id:?}");
    }
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_told_before_anything_streams() {
    let stage = Stage::open().await;
    for id in ["01a23067-3244-7338-9696-f0ca38dae2d8", "nonsense"] {
        let answer = stage.asks("GET", &format!("/threads/{id}/events"), "host: localhost\r\n", "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (404, "thread_not_found"));
    }
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives_and_ends_with_its_thread() {
    let limits = HttpLimits { heartbeat: std::time::Duration::from_millis(20), ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let thread = stage.thread().await;
    let mut stream = Stream::open(&stage, &format!("/threads/{thread}/events"), "").await;
    while !stream.next().await.unwrap().comment {}
    stage.calls("thread/delete", json!({"threadId": thread})).await;
    let mut last = Vec::new();
    while let Some(event) = stream.next().await {
        if !event.comment {
            last.push(event);
        }
    }
    let [.., deleted, end] = &last[..] else { panic!("{last:?}") };
    assert_eq!((deleted.name.as_str(), end.name.as_str()), ("thread/deleted", "end"));
    assert_eq!(end.data["reason"], "thread_over");
}

#[tokio::test]
async fn who_follows_is_there_to_answer() {
    let stage = Stage::with(Set { unattended: Unattended::Reject, ..Set::default() }).await;
    let thread = stage.thread().await;
    let mut stream = Stream::open(&stage, &format!("/threads/{thread}/events"), "").await;
    stage.prompts(&thread, "run echo hello").await;
    let seen = stream.until("approval/requested").await;
    let approval = &seen.last().unwrap().data["params"]["approval"]["approvalId"];
    let outcome =
        stage.calls("approval/respond", json!({"approvalId": approval, "decision": "accept"})).await;
    assert_eq!(outcome["outcome"]["decision"], "accept");
    stream.until("turn/completed").await;
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_gets_a_new_snapshot_and_others_see_no_delay() {
    let stage = Stage::with(Set { outbox: Some(64 << 10), ..Set::default() }).await;
    let thread = stage.thread().await;
    let target = format!("/threads/{thread}/events");
    let mut slow = Stream::over(stage.connect_narrowly().await, &target, "").await;
    assert_eq!(slow.next().await.unwrap().name, "thread/snapshot");
    let mut quick = Stream::open(&stage, &target, "").await;
    // More than sockets and outbox take: the whole text of a message is never merged away.
    stage.prompts(&thread, &"stream 20 5000 0\n".repeat(60)).await;
    quick.until("turn/completed").await;
    let mut snapshots = 0;
    loop {
        let event = slow.next().await.expect("it goes on");
        let is_snapshot = event.name == "thread/snapshot";
        snapshots += usize::from(is_snapshot);
        let newest = &event.data["params"]["thread"]["turns"];
        let newest = newest.as_array().and_then(|turns| turns.last()).map(|turn| &turn["status"]);
        if event.name == "turn/completed" || newest.is_some_and(|status| status == "completed") {
            break;
        }
    }
    assert!(snapshots > 0, "what was lost was made good by a snapshot");
}
