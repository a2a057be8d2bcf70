//! `abort()` at every fail point, in a child process; afterwards everything that was answered is there, and no half of anything.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "the test starts itself as the process that crashes")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::*;
use signalbox_facts::{Activity, Fact, FactBody, Seq, SessionId};
use signalbox_store::{SessionQuery, Store};

const HOME: &str = "SIGNALBOX_CRASH_TEST_HOME";

/// Three sessions that open a turn each, stream, end it and compact it, side by side. Every answer is told at once.
async fn play(path: &Path, tell: impl Fn(SessionId, Seq)) -> Vec<SessionId> {
    let store = Store::open(path).await.unwrap();
    let mut sessions = [Session::new(), Session::new(), Session::new()];
    let plays = sessions.iter_mut().map(|session| {
        let (store, tell) = (&store, &tell);
        async move {
            let commit = async |commit| {
                for fact in facts(store.writer.commit(commit).await.unwrap()) {
                    tell(fact.session, fact.seq);
                }
            };
            commit(session.created()).await;
            for _ in 0..3 {
                commit(session.prompt("go")).await;
                let turn = session.turn.unwrap();
                let item = session.last + 1;
                for text in ["a", "b", "c"] {
                    let chunk = session.commit_of([(Some(item), chunk("m", text))]);
                    commit(chunk).await;
                }
                commit(session.ended()).await;
                store.writer.compact(session.id, turn).await.unwrap();
            }
            session.id
        }
    });
    let ids = futures_util::future::join_all(plays).await;
    store.close().await;
    ids
}

/// In a child process the one that crashes; else the proof that the play itself ends well.
#[tokio::test]
async fn the_play_without_a_crash() {
    if let Ok(home) = std::env::var(HOME) {
        play(&PathBuf::from(home).join("signalbox.db"), |session, seq| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "answered {session} {seq}").unwrap();
            out.flush().unwrap();
        })
        .await;
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let ids = play(&path, |_, _| ()).await;
    let store = Store::open(&path).await.unwrap();
    for id in ids {
        // Created, then three times activity, prompt, three chunks in one row, activity, end.
        assert_eq!(stored(&store, id).await.len(), 16);
    }
}

/// Runs the play in a child that aborts at the point, and answers what it had been told.
fn crash(home: &Path, point: &str) -> Vec<(SessionId, Seq)> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_play_without_a_crash", "--nocapture"])
        .env(HOME, home)
        .env("SIGNALBOX_FAIL_POINT", point)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(!child.status.success(), "{point} was never reached");
    let told = String::from_utf8(child.stdout).unwrap();
    let answers = told.lines().filter_map(|line| line.split_once("answered ")).map(|(_, line)| {
        let (session, seq) = line.split_once(' ').unwrap();
        (session.parse().unwrap(), seq.parse().unwrap())
    });
    answers.collect()
}

/// What must hold of any session after any crash: the rows are what the facts say.
async fn consistent(store: &Store, session: SessionId) -> Vec<Fact> {
    let facts = stored(store, session).await;
    let row = store.reader.session(session).await.unwrap().unwrap();
    let mut next = 1;
    for fact in &facts {
        assert_eq!(fact.seq, next, "no gap");
        next = fact.through_seq + 1;
    }
    assert_eq!(row.last_seq, next - 1);
    let activity = facts.iter().rev().find_map(|fact| match &fact.body {
        FactBody::Activity(activity) => Some(activity.clone()),
        _ => None,
    });
    assert_eq!(row.activity, activity.unwrap_or_else(Activity::default));
    let count = |wanted: fn(&FactBody) -> bool| facts.iter().filter(|fact| wanted(&fact.body)).count();
    let turns = store.reader.turns(session, signalbox_store::TurnQuery::default()).await.unwrap();
    assert_eq!(turns.len(), count(|body| matches!(body, FactBody::Prompt(_))));
    let ended = turns.iter().filter(|turn| turn.end_seq.is_some()).count();
    assert_eq!(ended, count(|body| matches!(body, FactBody::TurnEnded(_))));
    facts
}

#[tokio::test]
async fn whatever_was_answered_survives_a_crash_at_any_point() {
    let points = [
        ("before_begin", 7),
        ("in_savepoint", 0),
        ("in_savepoint", 9),
        ("before_commit", 3),
        ("after_commit", 0),
        ("after_commit", 8),
        ("before_flush", 2),
        ("after_flush", 2),
        ("between_slices", 1),
    ];
    for (point, skip) in points {
        let home = tempfile::tempdir().unwrap();
        let answered = crash(home.path(), &format!("{point}:abort:{skip}"));
        let store = Store::open(&home.path().join("signalbox.db")).await.unwrap();
        for (session, seq) in answered {
            let facts = consistent(&store, session).await;
            assert!(
                facts.iter().any(|fact| fact.seq <= seq && seq <= fact.through_seq),
                "{point}: fact {seq} was answered and is gone"
            );
        }
        // The sessions nobody was told about are whole or absent, and the store takes new ones.
        for listed in store.reader.sessions(&SessionQuery::default()).await.unwrap().sessions {
            let signalbox_store::Listed::Session(row) = listed else { panic!("{point}: unreadable row") };
            consistent(&store, row.id).await;
        }
        running(&store).await;
        store.close().await;
    }
}
