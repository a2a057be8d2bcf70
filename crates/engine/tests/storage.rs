//! Trouble with the store: nothing is shown that is not stored, nobody waits without an answer, and it recovers.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use signalbox_engine::{Accepted, Why};
use signalbox_facts::{Committed, Fact, FactBody, SessionRow};
use signalbox_protocol::ops::Op;
use signalbox_store::FailPoint;
use stage::{Stage, story};

#[tokio::test]
async fn a_prompt_that_cannot_be_stored_is_declined_and_leaves_no_trace() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    stage.fail.fail(FailPoint::InSavepoint, 0, 2);
    let refused = session.submit(Op::TurnInput(session.input("say no"))).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("storage_failed", true));
    session.prompts("say yes").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("1 running") && !seen.contains("say no"), "{seen}");
}

#[tokio::test]
async fn an_approval_that_cannot_be_stored_is_cancelled_and_the_turn_goes_on() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say first\nsleep 300\nrun touch made\nsay last").await;
    session.hears("first").await;
    // The tool call before the request passes, the park behind it does not.
    stage.fail.fail(FailPoint::InSavepoint, 1, 2);
    let seen = story(&session.until_end().await);
    assert!(!seen.contains("asks"), "{seen}");
    assert!(seen.contains("says \"last\""), "{seen}");
    assert!(!stage.work().join("made").exists());
}

#[tokio::test]
async fn a_stalled_session_loses_nothing_of_what_the_agent_says() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 300 20 1").await;
    session.hears("00000000").await;
    stage.fail.fail(FailPoint::InSavepoint, 0, 6);
    session.until_end().await;
    let facts = stage.store.reader.facts(session.id, 1, u64::MAX >> 1).await.unwrap();
    let text: String = facts.iter().filter_map(text).collect();
    let numbers: Vec<_> = text.split_whitespace().map(|word| word.trim_end_matches('.')).collect();
    let expected: Vec<_> = (0..300).map(|number| format!("{number:08}")).collect();
    assert_eq!(numbers, expected);
}

fn text(fact: &Fact) -> Option<&str> {
    match &fact.body {
        FactBody::AgentText(text) => Some(&text.text),
        _ => None,
    }
}

#[tokio::test]
async fn the_stored_row_is_what_its_facts_say() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("title From the agent\nthink hm\nsay Hello\nusage 10 100\nrun true").await;
    let input = session.is_asked().await;
    session.answers(&input, Some("allow")).await.unwrap();
    session.until_end().await;
    session
        .submit(Op::Rename { session: session.id.to_string(), title: "Mine".into(), request_id: None })
        .await
        .unwrap();
    session.until(|one| matches!(one, Committed::Fact(fact) if fact.body.kind() == "title_changed")).await;
    let stored = stage.store.reader.session(session.id).await.unwrap().unwrap();
    let facts = stage.store.reader.facts(session.id, 1, stored.last_seq).await.unwrap();
    let mut row = SessionRow::created(&facts[0]).unwrap();
    for fact in &facts[1..] {
        row.apply(fact);
    }
    assert_eq!(row, stored);
    assert_eq!(stored.title, "Mine");
}

#[tokio::test]
async fn a_stalled_session_says_so_and_when_it_tries_again() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 300 20 1").await;
    session.hears("00000000").await;
    stage.fail.fail(FailPoint::InSavepoint, 0, u32::MAX);
    let told = loop {
        let told = stage.engine.explain(session.id).await.unwrap();
        if let Why::Stalled { error, next_attempt_at_ms } = told.state {
            break (error, next_attempt_at_ms);
        }
    };
    assert!(!told.0.is_empty() && told.1 > 0, "{told:?}");
    let diagnostics = stage.engine.diagnostics().await;
    assert_eq!(diagnostics.sessions.len(), 1);
    stage.fail.fail(FailPoint::InSavepoint, 0, 1);
    session.until_end().await;
    assert_eq!(stage.engine.explain(session.id).await.unwrap().state, Why::Idle);
}

#[tokio::test]
async fn what_a_session_waits_for_is_told() {
    let stage = Stage::new().await;
    let (repo_stage, repo) = stage::git::with_repository().await;
    // An agent that never opens its conversation.
    let id = stage.new_session("hangs").await.unwrap();
    let slow = stage.watch(id).await;
    slow.prompts("say never").await;
    let told = loop {
        let told = stage.engine.explain(id).await.unwrap();
        if let Why::StartingAgent { since_ms, .. } = told.state {
            break since_ms;
        }
    };
    assert!(told > 0);
    drop(slow);

    // An agent that does not go on.
    let mut session = stage.session().await;
    session.prompts("say Hello.\nhang").await;
    session.hears("Hello").await;
    assert!(matches!(stage.engine.explain(session.id).await.unwrap().state, Why::AwaitingAgent { .. }));

    // A setting that the agent does not answer, because it is not let.
    let mut session = stage.session().await;
    session.prompts("say Hello.").await;
    session.until_end().await;
    let engine = stage.engine.clone();
    let id = session.id;
    let pid = engine.explain(id).await.unwrap().agent.and_then(|agent| agent.pid).unwrap();
    send("-STOP", pid);
    let op = Op::SetModel { session: id.to_string(), model: "rehearsal-terse".into() };
    let settles = async {
        let since = loop {
            if let Why::Settling { since_ms } = engine.explain(id).await.unwrap().state {
                break since_ms;
            }
        };
        send("-CONT", pid);
        since
    };
    let (set, since) = tokio::join!(session.submit(op), settles);
    assert_eq!(set, Ok(Accepted::Applied));
    assert!(since > 0);
    assert_eq!(engine.explain(id).await.unwrap().state, Why::Idle);

    // A checkout that goes as soon as its agent has ended.
    let (mut session, _) = stage::git::session(&repo_stage, &repo).await;
    session.prompts("say Hello.").await;
    session.until_end().await;
    let engine = repo_stage.engine.clone();
    let id = session.id;
    let op = Op::DiscardWorktree { session: id.to_string(), force: false, request_id: None };
    let mut discard = Box::pin(session.submit(op));
    loop {
        tokio::select! {
            biased;
            told = engine.explain(id) => if told.unwrap().state == Why::DiscardingWorktree { break },
            done = &mut discard => panic!("it was never seen: {done:?}"),
        }
    }
    discard.await.unwrap();
    assert_eq!(engine.explain(id).await.unwrap().state, Why::Idle);
}

/// A signal to a process, as a person would send it.
fn send(signal: &str, pid: u32) {
    assert!(std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn a_session_that_waits_for_the_disk_is_explained_from_its_row() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    // Nothing but the prompt is to be held.
    stage.store.writer.index().await.unwrap();
    let held = stage.fail.hold(FailPoint::BeforeCommit);
    let explained = async {
        held.reached().await;
        let told = stage.engine.explain(session.id).await.unwrap();
        drop(held);
        told
    };
    let (_, told) = tokio::join!(session.prompts("say Hello."), explained);
    assert_eq!((told.state, told.turn, told.agent), (Why::Busy, None, None));
    session.until_end().await;
    assert_eq!(stage.engine.explain(session.id).await.unwrap().state, Why::Idle);
}
