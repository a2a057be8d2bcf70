//! Figures of the store alone, printed: opening, commits of every kind, pages, a long session, compaction.
//!
//! `cargo run --release -p signalbox-store --example store_bench [FOLDER [chunks|sessions|long|list]]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints figures or stops")]

use std::path::Path;
use std::time::{Duration, Instant};

use signalbox_facts::{
    Activity, ActivityState, AgentText, Fact, FactBody, Policy, Prompt, Provider, Seq, SessionCreated,
    SessionId, SessionSource, TurnContext, TurnEnded, TurnId, TurnStatus,
};
use signalbox_store::{Commit, SessionQuery, Store};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // On a worker, as the session actors are.
    tokio_util::task::TaskTracker::new().spawn(measure()).await.unwrap();
}

async fn measure() {
    let home = std::env::args().nth(1).unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = Path::new(&home).join(format!("store-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("signalbox.db");
    let begun = Instant::now();
    let store = Store::open(&path).await.unwrap();
    println!("open, new file            {:>9.2?}", begun.elapsed());
    store.close().await;
    let begun = Instant::now();
    let store = Store::open(&path).await.unwrap();
    println!("open, existing file       {:>9.2?}", begun.elapsed());

    let part = std::env::args().nth(2);
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("chunks") {
        one_by_one(&store).await;
    }
    if wanted("sessions") {
        side_by_side(&store).await;
    }
    if wanted("long") {
        long_session(&store).await;
    }
    if wanted("list") {
        many_sessions(&store).await;
    }
    let begun = Instant::now();
    store.close().await;
    println!("close                     {:>9.2?}", begun.elapsed());
    println!("database                  {:>9} KiB", std::fs::metadata(&path).unwrap().len() / 1024);
    println!("peak memory               {:>9} KiB", peak_memory());
    std::fs::remove_dir_all(folder).unwrap();
}

/// An idle server: each chunk alone.
async fn one_by_one(store: &Store) {
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    let begun = Instant::now();
    store.writer.commit(session.prompt("go")).await.unwrap();
    println!("commit of a boundary      {:>9.2?}", begun.elapsed());
    let cpu = cpu_time();
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let commit = session.chunks(1);
        let begun = Instant::now();
        store.writer.commit(commit).await.unwrap();
        times.push(begun.elapsed());
    }
    let cpu = (cpu_time() - cpu) / 20_000;
    report("commit of one chunk", &mut times, cpu);
    let mut times = Vec::new();
    let cpu = cpu_time();
    for _ in 0..2_000 {
        let commit = session.chunks(32);
        let begun = Instant::now();
        store.writer.commit(commit).await.unwrap();
        times.push(begun.elapsed());
    }
    report("commit of 32 facts", &mut times, (cpu_time() - cpu) / 2_000);
}

/// A busy server: ten sessions at once.
async fn side_by_side(store: &Store) {
    let begun = Instant::now();
    let cpu = cpu_time();
    let tasks = (0..10).map(|_| async {
        let mut session = Session::new();
        store.writer.commit(session.created()).await.unwrap();
        store.writer.commit(session.prompt("go")).await.unwrap();
        for _ in 0..2_000 {
            store.writer.commit(session.chunks(1)).await.unwrap();
        }
    });
    futures_util::future::join_all(tasks).await;
    let (wall, cpu) = (begun.elapsed(), cpu_time() - cpu);
    let rate = 20_000.0 / wall.as_secs_f64();
    println!("ten sessions side by side {rate:>9.0} commits/s, CPU {:.1?} each", cpu / 20_000);
}

/// A thousand turns of eight chunks, read whole, compacted, read again.
async fn long_session(store: &Store) {
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    let mut turns = Vec::new();
    let begun = Instant::now();
    for _ in 0..1_000 {
        store.writer.commit(session.prompt("go")).await.unwrap();
        turns.push(session.turn.unwrap());
        store.writer.commit(session.chunks(8)).await.unwrap();
        store.writer.commit(session.ended()).await.unwrap();
    }
    println!("1,000 turns               {:>9.2?}, {:.2?} each", begun.elapsed(), begun.elapsed() / 1_000);
    read(store, &session, "read of all facts").await;
    let begun = Instant::now();
    for turn in &turns {
        store.writer.compact(session.id, *turn).await.unwrap();
    }
    println!("compaction of a turn      {:>9.2?}", begun.elapsed() / 1_000);
    read(store, &session, "read, compacted").await;
    let mut times = Vec::new();
    for turn in &turns {
        let begun = Instant::now();
        store.reader.facts_of_turn(session.id, *turn).await.unwrap();
        times.push(begun.elapsed());
    }
    report("read of one turn", &mut times, Duration::ZERO);
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        store.reader.session_at(session.id).await.unwrap().unwrap();
        times.push(begun.elapsed());
    }
    report("load of a session", &mut times, Duration::ZERO);
}

async fn read(store: &Store, session: &Session, what: &str) {
    let mut times = Vec::new();
    let mut rows = 0;
    for _ in 0..20 {
        let begun = Instant::now();
        rows = store.reader.facts(session.id, 0, Seq::MAX).await.unwrap().len();
        times.push(begun.elapsed());
    }
    report(&format!("{what} ({rows})"), &mut times, Duration::ZERO);
}

async fn many_sessions(store: &Store) {
    let mut commits = Vec::new();
    for _ in 0..10_000 {
        commits.push(store.writer.commit(Session::new().created()));
    }
    let begun = Instant::now();
    for result in futures_util::future::join_all(commits).await {
        result.unwrap();
    }
    println!("10,000 new sessions       {:>9.2?}", begun.elapsed());
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        store.reader.sessions(&SessionQuery::default()).await.unwrap();
        times.push(begun.elapsed());
    }
    report("list, 20 of 10,000", &mut times, Duration::ZERO);
    let mut times = Vec::new();
    for _ in 0..200 {
        let query = SessionQuery { providers: vec![Provider::new("nobody")], ..SessionQuery::default() };
        let begun = Instant::now();
        store.reader.sessions(&query).await.unwrap();
        times.push(begun.elapsed());
    }
    report("list, nothing found", &mut times, Duration::ZERO);
}

fn report(what: &str, times: &mut [Duration], cpu: Duration) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let cpu = if cpu.is_zero() { String::new() } else { format!(", CPU {cpu:.1?}") };
    println!("{what:<25} p50 {:>9.2?}  p99 {:>9.2?}{cpu}", at(50), at(99));
}

/// Of the whole process, in steps of 10 ms; zero where there is no `/proc`.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

struct Session {
    id: SessionId,
    last: Seq,
    revision: u64,
    turn: Option<TurnId>,
    item: Seq,
}

impl Session {
    fn new() -> Self {
        Self { id: SessionId::generate(), last: 0, revision: 0, turn: None, item: 0 }
    }

    fn commit(&mut self, bodies: impl IntoIterator<Item = FactBody>) -> Commit {
        let expected = self.last;
        let mut facts = Vec::new();
        for body in bodies {
            self.last += 1;
            let item_seq = body.is_chunk().then_some(self.item);
            let (seq, session, turn) = (self.last, self.id, self.turn);
            let at_ms = 1_700_000_000_000;
            facts.push(Fact { session, turn, seq, through_seq: seq, item_seq, at_ms, body });
        }
        Commit::facts(self.id, expected, facts)
    }

    fn created(&mut self) -> Commit {
        let created = SessionCreated {
            provider: Provider::new("rehearsal"),
            cwd: "/home/somebody/projects/signalbox".into(),
            roots: Vec::new(),
            project_path: "/home/somebody/projects/signalbox".into(),
            worktree: None,
            policy: Policy::default(),
            model: None,
            effort: None,
            instructions: None,
            request_id: None,
            source: SessionSource::App,
            forked_from: None,
            fork_context: None,
            ephemeral: false,
            launch: None,
        };
        self.commit([FactBody::SessionCreated(created.into())])
    }

    fn prompt(&mut self, text: &str) -> Commit {
        let turn = TurnId::generate();
        self.turn = Some(turn);
        self.revision += 1;
        self.item = self.last + 3;
        let state = ActivityState::Running { turn_id: turn, prompt_request_id: None };
        let prompt = Prompt {
            blocks: Vec::new(),
            text: text.into(),
            display: text.into(),
            request_id: None,
            client_message_id: None,
            opens: Some(Box::new(TurnContext { cwd: "/home/somebody".into(), ..TurnContext::default() })),
        };
        let activity = FactBody::Activity(Activity { revision: self.revision, state });
        self.commit([activity, FactBody::Prompt(prompt.into())])
    }

    fn chunks(&mut self, count: usize) -> Commit {
        let message_id = format!("i{}", self.item);
        let text = AgentText { message_id, text: "A chunk of an answer. ".into() };
        self.commit((0..count).map(|_| FactBody::AgentText(text.clone())).collect::<Vec<_>>())
    }

    fn ended(&mut self) -> Commit {
        self.revision += 1;
        let activity = Activity { revision: self.revision, state: ActivityState::Idle };
        let ended = TurnEnded {
            status: TurnStatus::Completed,
            stop_reason: None,
            failure: None,
            request_id: None,
            tokens: None,
        };
        self.commit([FactBody::Activity(activity), FactBody::TurnEnded(ended.into())])
    }
}
