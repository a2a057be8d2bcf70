//! Subscriptions over a stream that the test feeds by hand, commit by commit.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use signalbox_engine::{Origin, SessionStream};
use signalbox_facts::{
    Activity, ActivityState, AgentText, Committed, DocBlock, Fact, FactBody, Policy, Prompt, Seq, SessionId,
    TurnContext, TurnEnded, TurnId, TurnStatus,
};
use signalbox_protocol::ops::{self, NewSession, Op};
use tokio::sync::{mpsc, oneshot};

use crate::stage::{Client, Stage, within};

/// A session whose commits the test makes.
pub(crate) struct Fed {
    pub(crate) session: SessionId,
    turn: TurnId,
    seq: Seq,
    revision: u64,
    commits: mpsc::Sender<Arc<[Committed]>>,
}

impl Fed {
    /// A session that the engine has made, and whose stream is the test's from its first fact on.
    pub(crate) async fn load(stage: &Stage) -> (Self, Fact) {
        let session = SessionId::generate();
        let (commits, fed) = mpsc::channel(64);
        let (first, made) = oneshot::channel();
        *stage.feed.lock().unwrap() = Some(Box::new(move |stream: SessionStream| {
            let SessionStream { row, live, deliveries: mut own } = stream;
            tokio::spawn(async move {
                let mut first = Some(first);
                // The engine's own commits are read, so that it never waits.
                while let Some(commit) = own.recv().await {
                    if let Some(first) = first.take() {
                        let _ = first.send(commit);
                    }
                }
            });
            SessionStream { row, live, deliveries: fed }
        }));
        let op = Op::NewSession(NewSession::new(ops::Provider::from_name("rehearsal"), "/".to_owned()));
        stage.app.engine().submit_as(op, Origin::default(), Some(session)).await.unwrap();
        let made = within(made).await.unwrap();
        let [Committed::Fact(created)] = &made[..] else { panic!("{made:?}") };
        let fed = Self { session, turn: TurnId::generate(), seq: created.seq, revision: 0, commits };
        (fed, (**created).clone())
    }

    fn fact(&mut self, turn: Option<TurnId>, item: Option<Seq>, body: FactBody) -> Fact {
        self.seq += 1;
        let at_ms = i64::try_from(self.seq).unwrap();
        let item_seq = item.map(|item| if item == 0 { self.seq } else { item });
        Fact { session: self.session, turn, seq: self.seq, through_seq: self.seq, item_seq, at_ms, body }
    }

    pub(crate) async fn commit(&self, facts: impl IntoIterator<Item = Fact>) {
        let committed: Vec<_> = facts.into_iter().map(|fact| Committed::Fact(Arc::new(fact))).collect();
        self.commits.send(committed.into()).await.unwrap();
    }

    fn activity(&mut self, state: ActivityState) -> Fact {
        self.revision += 1;
        let turn = Some(self.turn);
        self.fact(turn, None, FactBody::Activity(Activity { revision: self.revision, state }))
    }

    /// A turn begins.
    pub(crate) async fn prompt(&mut self, text: &str) {
        self.turn = TurnId::generate();
        let running = ActivityState::Running { turn_id: self.turn, prompt_request_id: None };
        let running = self.activity(running);
        let prompt = Prompt {
            blocks: vec![DocBlock::text(text.to_owned())],
            text: text.to_owned(),
            display: text.to_owned(),
            request_id: None,
            client_message_id: None,
            opens: Some(Box::new(context())),
        };
        let prompt = self.fact(Some(self.turn), Some(0), FactBody::Prompt(Box::new(prompt)));
        self.commit([running, prompt]).await;
    }

    /// The agent says something; 0 begins a new message.
    pub(crate) async fn say(&mut self, item: Seq, text: &str) -> Seq {
        let text = AgentText { message_id: "m".to_owned(), text: text.to_owned() };
        let fact = self.fact(Some(self.turn), Some(item), FactBody::AgentText(text));
        let item = fact.item_seq.unwrap();
        self.commit([fact]).await;
        item
    }

    pub(crate) async fn end(&mut self) {
        let idle = self.activity(ActivityState::Idle);
        let ended = TurnEnded {
            status: TurnStatus::Completed,
            stop_reason: None,
            failure: None,
            request_id: None,
            tokens: None,
        };
        let ended = self.fact(Some(self.turn), None, FactBody::TurnEnded(Box::new(ended)));
        self.commit([idle, ended]).await;
    }
}

fn context() -> TurnContext {
    TurnContext {
        cwd: PathBuf::from("/"),
        roots: Vec::new(),
        model: None,
        effort: None,
        policy: Policy::default(),
        options: Default::default(),
        client_metadata: Default::default(),
        additional_context: Default::default(),
        parent_turn: None,
        root_turn: None,
    }
}

/// What a client knows of the last message: its snapshot and what followed.
fn known(client: &Client, resumed: &Value) -> String {
    let mut text = String::new();
    if let Some(items) = resumed["thread"]["turns"].as_array().and_then(|turns| turns.last())
        && let Some(message) =
            items["items"].as_array().unwrap().iter().rfind(|item| item["type"] == "agentMessage")
    {
        text.push_str(message["text"].as_str().unwrap());
    }
    let joined = client.log.iter().rposition(|frame| frame["result"]["snapshotSeq"].is_u64()).unwrap();
    for frame in &client.log[joined..] {
        if frame["method"] == "item/agentMessage/delta" {
            text.push_str(frame["params"]["delta"].as_str().unwrap());
        }
    }
    text
}

#[tokio::test]
async fn whoever_joins_knows_the_same_as_who_was_there() {
    let stage = Stage::new().await;
    let mut watcher = stage.client("watcher").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    let from_the_start = watcher.ok("thread/resume", json!({"threadId": id})).await;
    fed.commit([created]).await;
    fed.prompt("tell a story").await;
    let mut joiners = Vec::new();
    let (mut item, mut whole) = (0, String::new());
    for word in 0..40 {
        let word = format!("word{word} ");
        item = fed.say(item, &word).await;
        whole.push_str(&word);
        let mut joiner = stage.client("joiner").await;
        let resumed = joiner.ok("thread/resume", json!({"threadId": id})).await;
        joiners.push((joiner, resumed));
    }
    fed.end().await;

    let completed = watcher.until("turn/completed").await;
    assert_eq!(completed["params"]["seq"], fed.seq);
    assert_eq!(known(&watcher, &from_the_start), whole);
    for (mut joiner, resumed) in joiners {
        joiner.until("turn/completed").await;
        assert_eq!(known(&joiner, &resumed), whole);
        // Nothing behind the snapshot is older than it, and no item begins twice.
        let snapshot = resumed["snapshotSeq"].as_u64().unwrap();
        let joined = joiner.place(|frame| frame["result"]["snapshotSeq"].is_u64());
        for frame in &joiner.log[joined + 1..] {
            assert!(frame["params"]["seq"].as_u64().unwrap() >= snapshot, "{frame}");
        }
        let shown = resumed["thread"]["turns"].as_array().unwrap().iter();
        let shown = shown.flat_map(|turn| turn["items"].as_array().unwrap()).count();
        assert_eq!(shown + joiner.count("item/started"), 2);
    }
}

#[tokio::test]
async fn whoever_joins_again_is_told_nothing_twice() {
    let stage = Stage::new().await;
    let mut client = stage.client("again").await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    fed.prompt("tell a story").await;
    let feeding = tokio::spawn(async move {
        let (mut item, mut whole) = (0, String::new());
        for word in 0..500 {
            let word = format!("word{word} ");
            item = fed.say(item, &word).await;
            whole.push_str(&word);
            tokio::task::yield_now().await;
        }
        (fed, whole)
    });
    let mut resumed = Value::Null;
    while !feeding.is_finished() || resumed.is_null() {
        resumed = client.ok("thread/resume", json!({"threadId": id})).await;
    }
    let (mut fed, whole) = feeding.await.unwrap();
    fed.end().await;
    client.until("turn/completed").await;
    assert_eq!(known(&client, &resumed), whole);

    // Between two joinings nothing is older than the first of them.
    let mut snapshot = 0;
    for frame in &client.log {
        if let Some(seq) = frame["result"]["snapshotSeq"].as_u64() {
            snapshot = seq;
        } else if let Some(seq) = frame["params"]["seq"].as_u64() {
            assert!(seq >= snapshot, "{frame}");
        }
    }
}

#[tokio::test]
async fn what_everybody_gets_needs_no_subscription() {
    let stage = Stage::new().await;
    let mut bystander = stage.client("bystander").await;
    let (mut fed, created) = Fed::load(&stage).await;
    fed.commit([created]).await;
    fed.prompt("anything").await;
    fed.say(0, "something").await;
    fed.end().await;
    bystander.until("thread/started").await;
    let active = bystander.until("thread/status/changed").await;
    assert_eq!(active["params"]["status"]["type"], "active");
    let idle = bystander.until("thread/status/changed").await;
    assert_eq!(idle["params"]["status"]["type"], "idle");
    bystander.settle().await;
    for method in ["turn/started", "item/started", "item/agentMessage/delta", "turn/completed"] {
        assert_eq!(bystander.count(method), 0, "{method}");
    }
}

#[tokio::test]
async fn who_has_left_gets_nothing_more() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let (mut fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    for client in [&mut first, &mut second] {
        client.ok("thread/resume", json!({"threadId": id})).await;
    }
    first.ok("thread/unsubscribe", json!({"threadId": id})).await;
    fed.prompt("anything").await;
    fed.say(0, "something").await;
    fed.end().await;
    second.until("turn/completed").await;
    first.until_that("thread/status/changed", |told| told["status"]["type"] == "idle").await;
    assert_eq!(first.count("turn/started"), 0);
    assert_eq!(second.count("turn/started"), 1);
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_hub() {
    let stage = Stage::new().await;
    let mut client = stage.client("last").await;
    let (fed, created) = Fed::load(&stage).await;
    let id = fed.session.to_string();
    fed.commit([created]).await;
    client.ok("thread/resume", json!({"threadId": id})).await;
    drop(fed);
    loop {
        let answer = client.call("thread/resume", json!({"threadId": id})).await;
        if answer["error"]["data"]["reason"] == "shutting_down" {
            break;
        }
    }
    assert_eq!(client.ok("thread/unsubscribe", json!({"threadId": id})).await["status"], "notLoaded");
}

#[tokio::test]
async fn thousands_of_cheap_requests_are_all_answered() {
    let stage = Stage::new().await;
    let mut client = stage.client("hasty").await;
    let mut ids = Vec::new();
    for _ in 0..2_000 {
        ids.push(client.ask("thread/loaded/list", json!({})).await);
    }
    for id in ids {
        assert!(client.answer(id).await.get("result").is_some());
    }
}

#[tokio::test]
async fn a_prompt_larger_than_an_outbox_does_not_cost_who_reads_its_connection() {
    let stage = Stage::new().await;
    let mut client = stage.client("verbose").await;
    let thread = client.thread(json!({})).await;
    let text = "say hi\n".to_owned() + &"# x".repeat(3 << 20);
    client.turn(&thread, &text).await;
    for method in ["item/started", "item/completed"] {
        let frame = client.until(method).await;
        let item = &frame["params"]["item"];
        assert_eq!(item["type"], "userMessage");
        assert_eq!(item["outputTruncated"], true);
        assert_eq!(item["cutTexts"], json!([{"field": "/content/0/text", "totalBytes": text.len()}]));
        // Several of them together must leave room in an outbox.
        let most = signalbox_rpc::OutboxLimits::default().hard_bytes / 3;
        assert!(frame.to_string().len() < most);
    }
    let ended = client.until("turn/completed").await;
    assert_eq!(ended["params"]["turn"]["status"], "completed");
    client.ok("server/health", json!({})).await;
}
