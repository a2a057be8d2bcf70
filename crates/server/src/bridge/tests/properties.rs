//! Whatever happens and wherever the connection breaks off: every request is answered once, every item that began is
//! completed, every turn that began ends, and nothing is told twice.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tracker::{Tracker, Way};
use super::client::Client;
use super::server::Thread;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    Turn,
    Text,
    Stream,
    Plan,
    Ends,
    Asks,
    Resolves,
    Completes,
    /// The client asks something that is not answered before the next death.
    Request,
}

/// A life of a server: what happens, how much of it the client hears of, and how little of the history a resume on the
/// next one shows.
#[derive(Debug, Clone)]
struct Life {
    steps: Vec<(usize, Step)>,
    heard: prop::sample::Index,
    page: usize,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Turn),
        4 => Just(Step::Text),
        4 => Just(Step::Stream),
        1 => Just(Step::Plan),
        3 => Just(Step::Ends),
        3 => Just(Step::Asks),
        2 => Just(Step::Resolves),
        2 => Just(Step::Completes),
        2 => Just(Step::Request),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    let steps = prop::collection::vec((0..THREADS, step()), 0..40);
    (steps, any::<prop::sample::Index>(), 1..4_usize).prop_map(|(steps, heard, page)| Life {
        steps,
        heard,
        page,
    })
}

const THREADS: usize = 2;

/// The whole scene.
struct Scene {
    tracker: Tracker,
    client: Client,
    threads: Vec<Thread>,
    next_id: u64,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self {
            tracker: Tracker::new(|| 7),
            client: Client::default(),
            threads: (0..THREADS).map(|n| Thread::new(&format!("t{n}"))).collect(),
            next_id: 0,
        };
        let hello = json!({ "clientInfo": { "name": "x", "version": "1" } });
        let id = scene.ask("initialize", &hello);
        scene.hears(&answer(&id, &json!({ "userAgent": "x" })));
        assert_eq!(scene.tracker.client(&Bytes::from(r#"{"method":"initialized"}"#)), Way::On);
        for n in 0..THREADS {
            let id = scene.ask("thread/start", &json!({}));
            let result = scene.threads[n].result(usize::MAX);
            scene.hears(&answer(&id, &result));
        }
        scene
    }

    fn ask(&mut self, method: &str, params: &Value) -> String {
        self.next_id += 1;
        let id = self.next_id.to_string();
        let request = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        assert_eq!(self.tracker.client(&request.to_string().into()), Way::On);
        self.client.asked.insert(id.clone());
        id
    }

    /// A frame of the server comes.
    fn hears(&mut self, frame: &Bytes) {
        if self.tracker.server(frame) == Way::On {
            self.client.told(frame);
        }
        self.collect();
    }

    fn collect(&mut self) {
        for frame in std::mem::take(&mut self.tracker.to_client) {
            self.client.told(&frame);
        }
    }

    /// Plays a life up to its death.
    fn lives(&mut self, life: &Life) {
        let mut frames: Vec<Bytes> = Vec::new();
        let mut requests = Vec::new();
        for (at, step) in &life.steps {
            let thread = &mut self.threads[*at];
            match step {
                Step::Turn => thread.begins_turn(),
                Step::Text => {
                    if thread.open().is_some() {
                        thread.begins_item("agentMessage");
                    }
                }
                Step::Stream => thread.streams(),
                Step::Plan => thread.plans(),
                Step::Ends => thread.ends_items(),
                Step::Asks => thread.asks(),
                Step::Resolves => thread.resolves("client"),
                Step::Completes => thread.ends_turn("completed"),
                Step::Request => requests.push(frames.len()),
            }
            frames.append(&mut thread.frames);
        }
        let heard = life.heard.index(frames.len() + 1);
        for (at, frame) in frames.iter().take(heard).enumerate() {
            if requests.contains(&at) {
                self.ask("thread/list", &json!({}));
            }
            self.hears(frame);
        }
        for thread in &mut self.threads {
            thread.dies();
        }
        self.tracker.broken();
        self.collect();
        assert!(self.client.asked.is_empty(), "requests on their way are answered at once");
    }

    /// Plays the next server until the bridge is through with it.
    fn recovers(&mut self, page: usize) {
        self.tracker.reconnected();
        while let Some(request) = take_first(&mut self.tracker.to_server) {
            let request: Value = serde_json::from_slice(&request).unwrap();
            let (Some(id), params) = (request.get("id"), &request["params"]) else { continue };
            let thread = |threads: &mut Vec<Thread>| {
                threads.iter().position(|thread| params["threadId"] == thread.id.as_str()).unwrap()
            };
            match request["method"].as_str().unwrap() {
                "initialize" => self.hears(&answer(&id.to_string(), &json!({ "userAgent": "x" }))),
                "thread/resume" => {
                    let at = thread(&mut self.threads);
                    let result = self.threads[at].result(page);
                    let (_, behind) = self.threads[at].joined();
                    self.hears(&answer(&id.to_string(), &result));
                    behind.iter().for_each(|frame| self.hears(frame));
                }
                "thread/items/list" => {
                    let at = thread(&mut self.threads);
                    let wanted = params["cursor"]["itemId"].as_str().unwrap();
                    let found = self.threads[at].item(wanted);
                    let data: Vec<Value> = found
                        .into_iter()
                        .map(|(turn, item)| json!({ "turnId": turn, "item": item }))
                        .collect();
                    self.hears(&answer(&id.to_string(), &json!({ "data": data })));
                }
                "thread/turns/list" => {
                    let at = thread(&mut self.threads);
                    let turns = self.threads[at].result(usize::MAX)["thread"]["turns"].clone();
                    self.hears(&answer(&id.to_string(), &json!({ "data": turns })));
                }
                other => panic!("the bridge asks {other}"),
            }
        }
        assert!(self.tracker.is_live());
    }

    /// After a recovery nothing is open; and if every page held everything, nothing was missed.
    fn is_whole(&self, all: bool) {
        assert!(self.client.items.values().all(|complete| *complete), "{:?}", self.client.items);
        assert!(self.client.turns.iter().all(|(_, ended)| ended.is_some()), "{:?}", self.client.turns);
        assert!(self.client.pending.is_empty(), "{:?}", self.client.pending);
        if !all {
            return;
        }
        for thread in &self.threads {
            let stored: Vec<&str> = thread.turns.iter().map(|turn| turn.id.as_str()).collect();
            let prefix = format!("turn-{}-", thread.id);
            let known: Vec<&str> = self
                .client
                .turns
                .iter()
                .map(|(id, _)| id.as_str())
                .filter(|id| id.starts_with(&prefix))
                .collect();
            assert_eq!(known, stored);
            for turn in &thread.turns {
                let known = self.client.turns.iter().find(|(id, _)| *id == turn.id).unwrap();
                assert_eq!(known.1.as_deref(), Some(turn.status));
            }
        }
    }
}

fn take_first(frames: &mut Vec<Bytes>) -> Option<Bytes> {
    (!frames.is_empty()).then(|| frames.remove(0))
}

fn answer(id: &str, result: &Value) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

proptest! {
    #[test]
    fn everything_is_told_once(lives in prop::collection::vec(life(), 1..4), pages_are_short: bool) {
        let mut scene = Scene::new();
        for life in &lives {
            scene.lives(life);
            scene.recovers(if pages_are_short { life.page } else { usize::MAX });
            scene.is_whole(!pages_are_short);
        }
    }
}
