//! Compaction in the database equals `facts::compact`, whatever a turn looks like, and never touches seqs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tasks of tests end with their runtime")]

mod common;

use common::*;
use proptest::prelude::*;
use signalbox_facts::{
    AgentText, Fact, FactBody, ItemKind, Seq, ToolCall, ToolOutput, ToolStatus, Warning, compact,
};
use signalbox_store::{FailPoint, FailPoints, Store, StoreOptions};

/// One fact of a random turn: what, of which item, with how much text.
#[derive(Clone, Debug)]
enum Step {
    Text(usize, String),
    Thought(usize, String),
    Output(usize, String, bool),
    Call(usize),
    Aside,
    BetweenTurns,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let item = 0..4_usize;
    let step = prop_oneof![
        4 => (item.clone(), "[a-z\"\\\\é]{0,6}").prop_map(|(item, text)| Step::Text(item, text)),
        2 => (item.clone(), "[a-z]{0,6}").prop_map(|(item, text)| Step::Thought(item, text)),
        4 => (item.clone(), "[a-z\n]{0,6}", prop::bool::weighted(0.1))
            .prop_map(|(item, text, replace)| Step::Output(item, text, replace)),
        1 => item.prop_map(Step::Call),
        1 => Just(Step::Aside),
        1 => Just(Step::BetweenTurns),
    ];
    prop::collection::vec(step, 0..60)
}

/// Stores the steps as one turn and compacts it.
async fn play(store: &Store, steps: &[Step]) -> (Session, Vec<Fact>) {
    let mut session = running(store).await;
    let turn = session.turn;
    // Each kind of item has items of its own, that begin with their first fact.
    let mut items: [[Option<Seq>; 4]; 3] = [[None; 4]; 3];
    let mut commits = Vec::new();
    for step in steps {
        let next = session.last + 1;
        let mut item = |kind: usize, item: usize| Some(*items[kind][item].get_or_insert(next));
        let (item, body) = match step {
            Step::Text(n, text) => (item(0, *n), chunk(&format!("m{n}"), text)),
            Step::Thought(n, text) => {
                let thought = AgentText { message_id: format!("t{n}"), text: text.clone() };
                (item(1, *n), FactBody::AgentThought(thought))
            }
            Step::Output(n, text, replace) => {
                let output = ToolOutput { id: format!("c{n}"), text: text.clone(), replace: *replace };
                (item(2, *n), FactBody::ToolOutput(output))
            }
            Step::Call(n) => (item(2, *n), call(&format!("c{n}"))),
            Step::Aside | Step::BetweenTurns => (None, aside()),
        };
        session.turn = turn.filter(|_| !matches!(step, Step::BetweenTurns));
        commits.push(session.commit_of([(item, body)]));
    }
    session.turn = turn;
    commits.push(session.ended());
    for commit in commits {
        store.writer.commit(commit).await.unwrap();
    }
    let done = store.writer.compact(session.id, turn.unwrap()).await.unwrap();
    let rows = stored(store, session.id).await;
    let of_turn = |facts: &[Fact]| facts.iter().filter(|fact| fact.turn == turn).count() as u64;
    assert_eq!((done.rows_before, done.rows_after), (of_turn(&session.facts), of_turn(&rows)));
    (session, rows)
}

fn call(id: &str) -> FactBody {
    FactBody::ToolCall(
        ToolCall {
            id: id.into(),
            item: ItemKind::CommandExecution,
            title: "ls".into(),
            kind: None,
            status: ToolStatus::InProgress,
            outcome: None,
            agent_input: None,
            command: None,
            cwd: None,
            exit_code: None,
            locations: Vec::new(),
            mcp: None,
            diffs: None,
            content: None,
            raw_input: None,
            error: None,
        }
        .into(),
    )
}

fn aside() -> FactBody {
    FactBody::Warning(Warning { message: "w".into(), reason: "r".into(), terminal: false, request_id: None })
}

#[test]
fn equals_the_pure_function_for_any_turn() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::in_memory()).unwrap();
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps())| {
        runtime.block_on(async {
            let (session, rows) = play(&store, &steps).await;
            assert_eq!(rows, compact(&session.facts));
            let row = store.reader.session(session.id).await.unwrap().unwrap();
            assert_eq!(row.last_seq, session.last);
        });
    });
}

/// Interleaved items with long texts, so that rows are read in several slices and joined text is written in between.
fn long_turn() -> Vec<Step> {
    let text = "x".repeat(2_000);
    (0..5_000)
        .map(|n| match n % 7 {
            0..4 => Step::Text(0, format!("{n} {text}")),
            4 => Step::Output(n % 3, format!("{n} {text}"), n % 1_000 == 4),
            5 => Step::Thought(1, format!("{n}")),
            _ if n % 500 == 6 => Step::Call(n % 3),
            _ => Step::Aside,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_longer_than_a_slice_ends_the_same() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("signalbox.db")).await.unwrap();
    let (session, rows) = play(&store, &long_turn()).await;
    assert!(rows == compact(&session.facts), "{} rows", rows.len());
}

#[tokio::test]
async fn stopped_between_slices_it_leaves_a_readable_turn_and_goes_on_later() {
    let home = tempfile::tempdir().unwrap();
    let fail_points = FailPoints::default();
    let options = StoreOptions { fail_points: fail_points.clone(), ..StoreOptions::default() };
    let path = home.path().join("signalbox.db");
    let store = Store::open_with(&path, options).await.unwrap();
    let mut session = running(&store).await;
    let turn = session.turn.unwrap();
    // More joined rows than fit into one slice.
    for item in 0..100 {
        let first = session.last + 1;
        let halves =
            [(Some(first), chunk(&format!("m{item}"), "a")), (Some(first), chunk(&format!("m{item}"), "b"))];
        store.writer.commit(session.commit_of(halves)).await.unwrap();
    }
    store.writer.commit(session.ended()).await.unwrap();
    // For good: left undone, it would be tried again at once.
    fail_points.fail(FailPoint::BetweenSlices, 1, u32::MAX);
    assert!(store.writer.compact(session.id, turn).await.is_err());
    let half = stored(&store, session.id).await;
    let whole = compact(&session.facts);
    assert!(half.len() > whole.len() && half.len() < session.facts.len());
    assert_eq!(compact(&half), whole, "nothing is lost or doubled");
    store.close().await;

    // After a start the first chore of any session makes up for it.
    let store = Store::open(&path).await.unwrap();
    let mut other = running(&store).await;
    let other_turn = other.turn.unwrap();
    store.writer.commit(other.ended()).await.unwrap();
    store.writer.compact(other.id, other_turn).await.unwrap();
    while stored(&store, session.id).await.len() > whole.len() {
        tokio::task::yield_now().await;
    }
    assert_eq!(stored(&store, session.id).await, whole);
}

#[tokio::test]
async fn commits_go_on_between_slices() {
    let home = tempfile::tempdir().unwrap();
    let fail_points = FailPoints::default();
    let options = StoreOptions { fail_points: fail_points.clone(), ..StoreOptions::default() };
    let store = Store::open_with(&home.path().join("signalbox.db"), options).await.unwrap();
    let mut session = running(&store).await;
    let turn = session.turn.unwrap();
    for text in ["a", "b"] {
        let commit = session.commit_of([(Some(4), chunk("m", text))]);
        store.writer.commit(commit).await.unwrap();
    }
    store.writer.commit(session.ended()).await.unwrap();
    let held = fail_points.hold(FailPoint::BetweenSlices);
    let compaction = tokio::spawn({
        let store = store.clone();
        let id = session.id;
        async move { store.writer.compact(id, turn).await }
    });
    held.reached().await;
    // A late chunk arrives in between.
    session.turn = Some(turn);
    let late = session.commit_of([(Some(4), chunk("m", "late"))]);
    store.writer.commit(late).await.unwrap();
    drop(held);
    compaction.await.unwrap().unwrap();
    let rows = stored(&store, session.id).await;
    assert_eq!(compact(&rows), compact(&session.facts));
    // The two are one; the late one is a row of its own, unless it was there before the rows were read after all.
    assert!(rows.len() < session.facts.len());
}
