//! Sessions at rest leave memory, and come back: nothing is lost or declined in between, and there is never more than one.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_engine::{Accepted, Engine, OpError, Origin};
use signalbox_facts::{FactBody, SessionId, TurnId};
use signalbox_protocol::ops::{CloseReason, DocBlock, Event, Op, TurnInput};
use stage::{Life, Stage, story};

/// A rest that a test can wait for.
const SHORT: Duration = Duration::from_millis(60);

fn rename(session: SessionId, title: String) -> Op {
    Op::Rename { session: session.to_string(), title, request_id: None }
}

fn input(session: SessionId, script: &str) -> TurnInput {
    let text = DocBlock::Text { text: script.to_owned(), elements: Vec::new() };
    TurnInput::new(session.to_string(), vec![text])
}

async fn starts(engine: &Engine, session: SessionId, script: &str) -> TurnId {
    match engine.submit(Op::TurnInput(input(session, script)), Origin::default()).await {
        Ok(Accepted::Started { turn }) => turn,
        other => panic!("{other:?}"),
    }
}

/// Waits until a session has left memory.
async fn gone(engine: &Engine, session: SessionId) {
    let mut events = engine.op_events();
    while engine.loaded().contains(&session) {
        if let Event::SessionClosed { session: closed, reason } = &events.recv().await.unwrap().event {
            assert_eq!((closed, reason), (&session.to_string(), &CloseReason::Unloaded));
        }
    }
}

/// The lives of one session follow each other, and together they are its history.
fn one_after_the_other(lives: &[Arc<Mutex<Life>>], last_seq: u64) {
    let mut seq = 0;
    for life in lives {
        let life = life.lock();
        assert_eq!(life.after, seq, "a life begins where the one before has ended");
        for next in &life.seqs {
            seq += 1;
            assert_eq!(*next, seq);
        }
    }
    assert_eq!(seq, last_seq);
}

#[tokio::test]
async fn a_session_at_rest_stops_its_agent_and_leaves_memory_until_the_next_prompt() {
    let stage = Stage::resting(SHORT).await;
    let mut session = stage.session().await;
    let id = session.id;
    session.prompts("say before").await;
    session.until_end().await;
    let seen = session.until_unloaded().await;
    assert_eq!(story(&seen), "", "it goes in silence");
    assert!(stage.engine.loaded().is_empty());
    let row = stage.store.reader.session(id).await.unwrap().unwrap();

    let turn = starts(&stage.engine, id, "say after").await;
    let mut session = stage.watch(id).await;
    let seen = session.until_end().await;
    let first = match &seen[0] {
        signalbox_facts::Committed::Fact(fact) => fact,
        other => panic!("{other:?}"),
    };
    assert_eq!((first.turn, first.seq), (Some(turn), row.last_seq + 1), "the history goes on");
    assert!(story(&seen).starts_with("3 running\n"), "{}", story(&seen));
    assert!(story(&seen).contains("says \"after\"") && !story(&seen).contains("context_lost"));
    assert_eq!(stage.heard_of("session/resume").len(), 1, "the agent goes on with its conversation");
    session.until_unloaded().await;
}

#[tokio::test]
async fn who_watches_keeps_the_session_and_its_agent() {
    let stage = Stage::resting(SHORT).await;
    let mut session = stage.session().await;
    let id = session.id;
    let watching = stage.engine.watch(id).await.unwrap();
    session.prompts("say one").await;
    session.until_end().await;
    // Another session rests through several such times meanwhile.
    for _ in 0..3 {
        let other = stage.new_session("rehearsal").await.unwrap();
        stage.watch(other).await.until_unloaded().await;
    }
    assert_eq!(stage.engine.loaded(), [id]);
    session.prompts("say two").await;
    session.until_end().await;
    assert_eq!(stage.heard_of("initialize").len(), 1, "the agent was not stopped either");
    let second = watching.clone();
    drop(watching);
    stage.engine.load(id).await.unwrap();
    drop(second);
    session.until_unloaded().await;
}

#[tokio::test]
async fn what_runs_waits_or_is_parked_is_never_unloaded() {
    let (stage, lives) = Stage::restless().await;
    let id = stage.new_session("rehearsal").await.unwrap();
    let mut events = stage.engine.op_events();
    starts(&stage.engine, id, "run true").await;
    let asked = loop {
        match &events.recv().await.unwrap().event {
            Event::PermissionRequest { request_id, .. } => break request_id.clone(),
            Event::SessionClosed { .. } => {}
            Event::Error { message, .. } => panic!("{message}"),
            _ => {}
        }
    };
    let mut later = input(id, "say queued");
    later.mode = signalbox_protocol::ops::TurnMode::Queue;
    let queued = stage.engine.submit(Op::TurnInput(later), Origin::default()).await;
    assert!(matches!(queued, Ok(Accepted::Queued { .. })), "{queued:?}");
    let before = lives.lock().len();
    // Time for it to leave, if it did.
    let other = stage.new_session("rehearsal").await.unwrap();
    gone(&stage.engine, other).await;
    assert!(stage.engine.loaded().contains(&id));
    let answer = Op::AnswerPermission {
        session: id.to_string(),
        request_id: asked,
        option_id: Some("allow".to_owned()),
        for_session: false,
        decline: false,
        message: None,
    };
    assert_eq!(stage.engine.submit(answer, Origin::default()).await, Ok(Accepted::Applied));
    gone(&stage.engine, id).await;
    assert_eq!(lives.lock().len(), before + 1, "the queue has run in the same life");
    let facts = stage.store.reader.facts(id, 1, u64::MAX >> 1).await.unwrap();
    assert!(
        facts.iter().any(|fact| matches!(&fact.body, FactBody::AgentText(text) if text.text == "queued"))
    );
}

#[tokio::test]
async fn ops_that_meet_the_end_are_taken_in_the_order_of_their_callers() {
    const CALLERS: usize = 3;
    const ROUNDS: usize = 60;
    const OPS: usize = 2;
    let (stage, lives) = Stage::restless().await;
    let id = stage.new_session("rehearsal").await.unwrap();
    for round in 0..ROUNDS {
        let calls = (0..CALLERS).map(|caller| {
            let engine = stage.engine.clone();
            tokio::spawn(async move {
                // At another moment of its leaving each time.
                for _ in 0..(round + caller) % 11 {
                    tokio::task::yield_now().await;
                }
                let mut decisions = Vec::new();
                for op in 0..OPS {
                    let (reply, decision) = signalbox_engine::Reply::to_caller();
                    let submission = signalbox_engine::Submission {
                        id: signalbox_facts::SubmissionId::generate(),
                        op: rename(id, format!("{caller}-{}", round * OPS + op)),
                        origin: Origin::default(),
                        session: None,
                        interrupt: false,
                        reply,
                    };
                    engine.dispatch(submission).await;
                    decisions.push(decision);
                }
                for decision in decisions {
                    assert_eq!(decision.await, Ok(Ok(Accepted::Applied)));
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    }
    gone(&stage.engine, id).await;
    let row = stage.store.reader.session(id).await.unwrap().unwrap();
    let facts = stage.store.reader.facts(id, 1, row.last_seq).await.unwrap();
    let mut next = [0; CALLERS];
    for fact in &facts {
        if let FactBody::TitleChanged(changed) = &fact.body {
            let (caller, op) = changed.title.split_once('-').unwrap();
            let caller: usize = caller.parse().unwrap();
            assert_eq!(op.parse(), Ok(next[caller]), "each caller's in its order");
            next[caller] += 1;
        }
    }
    assert_eq!(next, [ROUNDS * OPS; CALLERS]);
    assert!(lives.lock().len() > CALLERS, "it left and came back meanwhile: {}", lives.lock().len());
    // The last reader may still be at it.
    while lives.lock().iter().any(|life| !life.lock().closed) {
        tokio::task::yield_now().await;
    }
    one_after_the_other(&lives.lock(), row.last_seq);
}

#[tokio::test]
async fn who_subscribes_while_it_leaves_gets_a_stream_that_goes_on() {
    let (stage, _lives) = Stage::restless().await;
    let id = stage.new_session("rehearsal").await.unwrap();
    for round in 0..40 {
        let watching = stage.engine.watch(id).await.unwrap();
        let mut stream = stage.engine.subscribe(id).await.unwrap();
        let title = format!("round {round}");
        assert_eq!(
            stage.engine.submit(rename(id, title.clone()), Origin::default()).await,
            Ok(Accepted::Applied)
        );
        let delivery = stream.deliveries.recv().await.expect("a session that is watched stays");
        let told = delivery.iter().any(
            |one| matches!(stage::fact(one), Some(FactBody::TitleChanged(changed)) if changed.title == title),
        );
        assert!(told, "{delivery:?}");
        drop(watching);
    }
}

#[tokio::test]
async fn a_deleted_session_does_not_come_back() {
    let (stage, _lives) = Stage::restless().await;
    let id = stage.new_session("rehearsal").await.unwrap();
    let delete = Op::Delete { session: id.to_string(), agent_session: false, request_id: None };
    assert_eq!(stage.engine.submit(delete, Origin::default()).await, Ok(Accepted::Applied));
    let refused = stage.engine.submit(rename(id, "x".into()), Origin::default()).await;
    assert!(matches!(refused, Err(OpError::SessionNotFound(_))), "{refused:?}");
    assert!(stage.engine.watch(id).await.is_err());
    assert!(stage.engine.loaded().is_empty());
}

#[tokio::test]
async fn a_server_that_stops_ends_what_is_leaving_too() {
    let (stage, _lives) = Stage::restless().await;
    for _ in 0..8 {
        stage.new_session("rehearsal").await.unwrap();
    }
    stage.engine.shutdown().await;
    assert!(stage.engine.loaded().is_empty());
}
