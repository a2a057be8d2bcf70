//! Clients that leave and come back, or do not read for a while: in the end they know what those know that never left.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use signalbox_rpc::{ConnOptions, OutboxLimits, Overflow};

use crate::stage::{Client, Stage, input, within};
use crate::streams::Fed;

/// What a client knows of a thread.
#[derive(Debug, Default, PartialEq)]
struct Knows {
    texts: BTreeMap<String, String>,
    complete: BTreeSet<String>,
    turns: BTreeMap<String, String>,
    status: Value,
}

impl Knows {
    /// From the last whole answer to a joining on.
    fn of<'l>(log: impl IntoIterator<Item = &'l Value>) -> Self {
        let mut knows = Self::default();
        for frame in log {
            knows.take(frame);
        }
        knows
    }

    fn take(&mut self, frame: &Value) {
        let params = &frame["params"];
        match frame["method"].as_str() {
            None if frame["result"]["cursor"].is_string() && frame["result"]["continued"] != true => {
                *self = Self::default();
                self.status = frame["result"]["thread"]["status"].clone();
                for turn in frame["result"]["thread"]["turns"].as_array().unwrap() {
                    self.turns.insert(text(&turn["id"]), text(&turn["status"]));
                    for item in turn["items"].as_array().unwrap() {
                        self.item(item);
                        if !item["completedAtMs"].is_null() {
                            self.complete.insert(text(&item["id"]));
                        }
                    }
                }
            }
            Some("thread/status/changed") => self.status = params["status"].clone(),
            Some("turn/started" | "turn/completed") => {
                self.turns.insert(text(&params["turn"]["id"]), text(&params["turn"]["status"]));
            }
            Some("item/started") => {
                assert!(!self.texts.contains_key(&text(&params["item"]["id"])), "started twice: {frame}");
                self.item(&params["item"]);
            }
            Some("item/agentMessage/delta") => {
                let known = self.texts.get_mut(&text(&params["itemId"])).unwrap();
                known.push_str(params["delta"].as_str().unwrap());
            }
            Some("item/completed") => {
                let whole = params["item"]["text"].as_str().unwrap_or_default();
                let known = &self.texts[&text(&params["item"]["id"])];
                assert!(whole.starts_with(known.as_str()), "a text with a hole");
                self.item(&params["item"]);
                assert!(self.complete.insert(text(&params["item"]["id"])), "completed twice: {frame}");
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &Value) {
        self.texts.insert(text(&item["id"]), item["text"].as_str().unwrap_or_default().to_owned());
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The notifications about threads, in order.
fn told(log: &[Value]) -> impl Iterator<Item = &Value> {
    log.iter().filter(|frame| frame["params"]["cursor"].is_string())
}

fn place(cursor: &Value) -> u64 {
    cursor.as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap()
}

fn last_cursor(log: &[Value]) -> Value {
    let frame = log.iter().rev().find_map(|frame| {
        [&frame["params"]["cursor"], &frame["result"]["cursor"]].into_iter().find(|cursor| cursor.is_string())
    });
    frame.unwrap().clone()
}

fn cursors_increase(log: &[Value]) {
    let mut before = 0;
    for frame in told(log) {
        let place = place(&frame["params"]["cursor"]);
        assert!(place > before, "{before} precedes {frame}");
        before = place;
    }
}

/// A client with an outbox of 64 KiB that is not cut.
async fn patient(stage: &Stage, capabilities: Value) -> (Client, signalbox_rpc::Peer) {
    let outbox = OutboxLimits { soft_bytes: 32 * 1024, hard_bytes: 64 * 1024, answer_bytes: 64 * 1024 };
    let options = ConnOptions { outbox, overflow: Overflow::Refuse, ..ConnOptions::default() };
    let (mut client, peer) = stage.connect_with(options);
    client.introduce("patient", capabilities).await;
    (client, peer)
}

/// One step of a story that is the same for all tests.
async fn step(fed: &mut Fed, item: &mut u64, number: usize) {
    match number % 9 {
        0 => fed.prompt("go on").await,
        8 => {
            fed.end().await;
            *item = 0;
        }
        3 | 6 => *item = fed.say(0, "A new message. ").await,
        _ => *item = fed.say(*item, &format!("Piece {number}. ")).await,
    }
}

#[tokio::test]
async fn who_comes_back_is_told_exactly_what_it_has_missed() {
    const STEPS: usize = 27;
    for (left, back) in [(1, 2), (2, 9), (4, 14), (8, 9), (9, 27), (13, 13), (0, 27), (20, 26)] {
        let stage = Stage::new().await;
        let [mut stayed, mut leaves] = stage.clients().await;
        let (mut fed, created) = Fed::load(&stage).await;
        let id = fed.session.to_string();
        fed.commit([created]).await;
        for client in [&mut stayed, &mut leaves] {
            client.ok("thread/resume", json!({"threadId": id})).await;
            client.settle().await;
        }
        let from = stayed.log.len();
        let (mut item, mut returned) = (0, None);
        let mut leaves = Some(leaves);
        let mut before = Vec::new();
        for number in 0..=STEPS {
            if number == left {
                // Whatever was committed so far has been told when the hub has answered.
                let mut gone = leaves.take().unwrap();
                gone.ok("thread/read", json!({"threadId": id})).await;
                before = std::mem::take(&mut gone.log);
            }
            if number == back {
                let mut client = stage.client("returned").await;
                let after = last_cursor(&before);
                let resumed = client.ok("thread/resume", json!({"threadId": id, "afterCursor": after})).await;
                assert_eq!(resumed["continued"], true, "left at {left}, back at {back}");
                assert_eq!(resumed["cursor"], after);
                assert_eq!(resumed["thread"]["turns"], json!([]));
                returned = Some(client);
            }
            if number < STEPS {
                step(&mut fed, &mut item, number).await;
            }
        }
        let mut returned = returned.unwrap();
        for client in [&mut stayed, &mut returned] {
            client.ok("thread/read", json!({"threadId": id})).await;
        }
        let seen = || before.iter().chain(&returned.log);
        assert_eq!(Knows::of(seen()), Knows::of(&stayed.log), "left at {left}, back at {back}");
        // Deltas may have been merged for the one and not for the other.
        let steps = |log: &[Value]| -> Vec<Value> {
            told(log).filter(|frame| frame["method"] != "item/agentMessage/delta").cloned().collect()
        };
        let whole = steps(&stayed.log[from..]);
        assert_eq!(
            [steps(&before[from..]), steps(&returned.log)].concat(),
            whole,
            "left at {left}, back at {back}"
        );
        cursors_increase(&returned.log);
    }
}

#[tokio::test]
async fn when_all_have_left_the_first_who_comes_back_goes_on() {
    let stage = Stage::new().await;
    let mut client = stage.client("only").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    client.ok("thread/resume", json!({"threadId": id})).await;
    fed.prompt("tell").await;
    let item = fed.say(0, "The beginning").await;
    client.until("item/agentMessage/delta").await;
    client.ok("thread/unsubscribe", json!({"threadId": id})).await;
    let (log, after) = (client.log.clone(), last_cursor(&client.log));
    drop(client);
    fed.say(item, " and the end.").await;
    fed.end().await;

    let mut back = stage.client("back").await;
    let resumed = back.ok("thread/resume", json!({"threadId": id, "afterCursor": after})).await;
    assert_eq!(resumed["continued"], true);
    back.until("turn/completed").await;
    let mut whole = stage.client("whole").await;
    whole.ok("thread/resume", json!({"threadId": id})).await;
    assert_eq!(Knows::of(log.iter().chain(&back.log)), Knows::of(&whole.log));
}

#[tokio::test]
async fn a_cursor_that_does_not_lead_on_gives_the_whole_thread() {
    let stage = Stage::new().await;
    let mut client = stage.client("curious").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    client.ok("thread/resume", json!({"threadId": id})).await;
    let (other, created) = Fed::load(&stage).await;
    let other_id = other.session.to_string();
    other.commit([created]).await;
    client.ok("thread/resume", json!({"threadId": other_id})).await;
    let foreign = last_cursor(&client.log);
    fed.prompt("anything").await;
    fed.say(0, "something").await;
    client.until("item/agentMessage/delta").await;
    let last = last_cursor(&client.log);
    let number = place(&last);
    let epoch = text(&last).rsplit_once('-').unwrap().0.to_owned();
    let strange =
        ["", "x", "-", "1-2", &format!("{epoch}-{}", number + 1_000), &format!("0{epoch}-{number}")];
    let strange = strange.into_iter().map(|cursor| json!(cursor)).chain([foreign]);
    for cursor in strange {
        let mut joiner = stage.client("joiner").await;
        let resumed = joiner.ok("thread/resume", json!({"threadId": id, "afterCursor": cursor})).await;
        assert!(resumed.get("continued").is_none(), "{cursor}");
        assert_eq!(resumed["thread"]["turns"][0]["items"][1]["text"], "something");
    }
    // Who follows the thread already gets it whole too: what is on its way must not come twice.
    let resumed = client.ok("thread/resume", json!({"threadId": id, "afterCursor": last})).await;
    assert!(resumed.get("continued").is_none());
}

#[tokio::test]
async fn open_requests_are_asked_again_once_and_resolved_ones_are_not() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.ask("turn/start", input(&thread, "run echo one")).await;
    let asked = first.until("item/commandExecution/requestApproval").await;
    second.until("item/commandExecution/requestApproval").await;
    let after = last_cursor(&first.log);
    drop(first);

    let mut back = stage.client("back").await;
    let resumed = back.ok("thread/resume", json!({"threadId": thread, "afterCursor": after})).await;
    assert_eq!(resumed["continued"], true);
    let again = back.until("item/commandExecution/requestApproval").await;
    assert_eq!(again["id"], asked["id"]);
    drop(back);
    second.respond(&asked, json!({"decision": "accept"})).await;
    second.until("turn/completed").await;

    let mut late = stage.client("late").await;
    let resumed = late.ok("thread/resume", json!({"threadId": thread, "afterCursor": after})).await;
    assert_eq!(resumed["continued"], true);
    late.until("serverRequest/resolved").await;
    late.until("turn/completed").await;
    assert_eq!(late.count("item/commandExecution/requestApproval"), 0);
}

#[tokio::test]
async fn a_slow_client_that_can_resync_is_told_once_and_is_whole_after_its_resume() {
    let stage = Stage::new().await;
    let mut watcher = stage.client("watcher").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    let outbox = OutboxLimits { soft_bytes: 32 * 1024, hard_bytes: 64 * 1024, answer_bytes: 64 * 1024 };
    // As on a socket, where a client without the capability is cut.
    let (mut slow, peer) = stage.connect_with(ConnOptions { outbox, ..ConnOptions::default() });
    slow.introduce("slow", json!({"resync": true})).await;
    for client in [&mut watcher, &mut slow] {
        client.ok("thread/resume", json!({"threadId": id})).await;
    }
    fed.prompt("tell much").await;
    // More than the outbox takes, less than a page of a turn.
    for _ in 0..60 {
        fed.say(0, &"much ".repeat(1_000)).await;
    }
    watcher.ok("thread/read", json!({"threadId": id})).await;
    assert!(peer.backlog().bytes < 128 * 1024, "{:?}", peer.backlog());
    slow.until("thread/resyncRequired").await;
    slow.settle().await;
    assert_eq!(slow.log.last().unwrap()["method"], Value::Null);
    let told_before = told(&slow.log).count();
    fed.say(0, "nobody tells the slow one").await;
    watcher.ok("thread/read", json!({"threadId": id})).await;
    slow.settle().await;
    assert_eq!(told(&slow.log).count(), told_before);
    assert_eq!(slow.count("thread/resyncRequired"), 1);

    slow.ok("thread/resume", json!({"threadId": id})).await;
    fed.say(0, "and on it goes").await;
    fed.end().await;
    for client in [&mut watcher, &mut slow] {
        client.until("turn/completed").await;
    }
    assert_eq!(Knows::of(&slow.log), Knows::of(&watcher.log));
    assert_eq!(slow.count("thread/resyncRequired"), 1);
    cursors_increase(&slow.log);
}

#[tokio::test]
async fn a_slow_client_without_a_way_back_is_cut() {
    let stage = Stage::new().await;
    let mut watcher = stage.client("watcher").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    let outbox = OutboxLimits { soft_bytes: 32 * 1024, hard_bytes: 64 * 1024, answer_bytes: 64 * 1024 };
    let (mut slow, peer) = stage.connect_with(ConnOptions { outbox, ..ConnOptions::default() });
    slow.introduce("slow", json!({})).await;
    for client in [&mut watcher, &mut slow] {
        client.ok("thread/resume", json!({"threadId": id})).await;
    }
    fed.prompt("tell much").await;
    for _ in 0..100 {
        fed.say(0, &"much ".repeat(1_000)).await;
    }
    watcher.ok("thread/read", json!({"threadId": id})).await;
    slow.until_closed().await;
    assert_eq!(peer.close_reason().unwrap().to_string(), "the client reads too slowly");
    fed.end().await;
    watcher.until("turn/completed").await;
}

#[tokio::test]
async fn a_client_that_is_never_cut_knows_everything_when_it_reads_again() {
    let stage = Stage::new().await;
    let mut watcher = stage.client("watcher").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    let (mut stalled, peer) = patient(&stage, json!({})).await;
    for client in [&mut watcher, &mut stalled] {
        client.ok("thread/resume", json!({"threadId": id})).await;
    }
    fed.prompt("tell very much").await;
    let megabyte = "x".repeat(1024 * 1024);
    let mut open = 0;
    for number in 0..50 {
        open = fed.say(0, &megabyte).await;
        if number % 2 == 0 {
            watcher.ok("thread/read", json!({"threadId": id})).await;
            let waits = peer.backlog().bytes;
            assert!(waits < 3 * 1024 * 1024, "{waits} bytes wait for a client that does not read");
        }
    }
    watcher.ok("thread/read", json!({"threadId": id})).await;
    // It reads again: what it missed comes, and then what follows.
    let missed = stalled.log.len();
    stalled.until_that("item/started", |params| params["item"]["id"] == format!("i{open}")).await;
    stalled.settle().await;
    assert!(stalled.log.len() > missed);
    fed.say(open, "live again").await;
    stalled.until("item/agentMessage/delta").await;
    fed.end().await;
    for client in [&mut watcher, &mut stalled] {
        client.until("turn/completed").await;
    }
    assert_eq!(Knows::of(&stalled.log), Knows::of(&watcher.log));
    cursors_increase(&stalled.log);
}

#[tokio::test]
async fn whole_turns_that_were_missed_come_from_the_store() {
    let stage = Stage::new().await;
    let mut watcher = stage.client("watcher").await;
    let thread = watcher.thread(json!({})).await;
    let (mut stalled, _peer) = patient(&stage, json!({})).await;
    stalled.ok("thread/resume", json!({"threadId": thread})).await;
    let long = "much to say ".repeat(1_000);
    for _ in 0..8 {
        watcher.turn(&thread, &format!("say {long}")).await;
        watcher.until("turn/completed").await;
    }
    watcher.ok("thread/name/set", json!({"threadId": thread, "name": "Another name"})).await;
    let [mut last] = stage.clients().await;
    last.ok("thread/resume", json!({"threadId": thread})).await;
    while stalled.count("turn/completed") < 8 {
        stalled.until("turn/completed").await;
    }
    stalled.settle().await;
    assert_eq!(Knows::of(&stalled.log), Knows::of(&last.log));
    cursors_increase(&stalled.log);
    let named = stalled.log.iter().rfind(|frame| frame["method"] == "thread/name/updated");
    assert_eq!(named.unwrap()["params"]["threadName"], "Another name");
}

#[tokio::test]
async fn who_only_looks_on_is_told_in_the_end_how_threads_stand() {
    let stage = Stage::new().await;
    let (mut bystander, peer) = patient(&stage, json!({})).await;
    let mut fed = Vec::new();
    // The bystander reads nothing while there is more to tell than it may leave unread.
    while !peer.is_slow() || peer.backlog().bytes < 64 * 1024 {
        let (one, created) = Fed::load(&stage).await;
        one.commit([created]).await;
        let mut reader = stage.client("reader").await;
        reader.ok("thread/resume", json!({"threadId": one.session.to_string()})).await;
        fed.push(one);
    }
    let (mut missed, created) = Fed::load(&stage).await;
    missed.commit([created]).await;
    missed.prompt("run").await;
    let mut watcher = stage.client("watcher").await;
    let id = missed.session.to_string();
    watcher.ok("thread/resume", json!({"threadId": id})).await;
    let is_it = |params: &Value| params["thread"]["id"] == id.as_str();
    let started = bystander.until_that("thread/started", is_it).await;
    let status = &started["params"]["thread"]["status"];
    if status["type"] != "active" {
        let is_active =
            |params: &Value| params["threadId"] == id.as_str() && params["status"]["type"] == "active";
        bystander.until_that("thread/status/changed", is_active).await;
    }
    missed.end().await;
    let is_idle = |params: &Value| params["threadId"] == id.as_str() && params["status"]["type"] == "idle";
    bystander.until_that("thread/status/changed", is_idle).await;
    within(async { drop(fed) }).await;
}

#[tokio::test]
async fn an_interval_for_deltas_has_a_bound() {
    let stage = Stage::new().await;
    let mut client = stage.connect(signalbox_rpc::Role::Owner);
    let hello = |interval: u64| json!({"clientInfo": {"name": "n", "version": "1"}, "capabilities": {"deltaIntervalMs": interval}});
    assert_eq!(client.refused("initialize", hello(10_001)).await, (-32602, "invalid_params".to_owned()));
    let welcome = client.ok("initialize", hello(10_000)).await;
    assert_eq!(welcome["capabilities"]["deltaInterval"], true);
    assert_eq!(welcome["capabilities"]["resync"], true);
}
