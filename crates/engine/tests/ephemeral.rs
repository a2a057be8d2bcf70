//! Ephemeral sessions: they do what others do, are in memory only, and are gone when they have left it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::time::Duration;

use signalbox_engine::{Accepted, OpError, Origin, Why, transcript};
use signalbox_facts::{SessionId, TurnId};
use signalbox_protocol::ops::{NewSession, Op, Provider, SettingsPatch, TurnMode};
use signalbox_store::SessionQuery;
use stage::{Stage, Watched, story};

fn new(stage: &Stage) -> NewSession {
    NewSession {
        ephemeral: true,
        ..NewSession::new(Provider::from_name("rehearsal"), stage.work().to_str().unwrap())
    }
}

async fn created(stage: &Stage) -> SessionId {
    match stage.engine.submit(Op::NewSession(new(stage)), Origin::default()).await {
        Ok(Accepted::Created { session }) => session,
        other => panic!("{other:?}"),
    }
}

fn fork(session: SessionId, through: Option<TurnId>, ephemeral: bool) -> Op {
    Op::Fork {
        session: session.to_string(),
        through_turn: through.map(|turn| turn.to_string()),
        settings: SettingsPatch::default(),
        provider: None,
        ephemeral,
        base_instructions: None,
        developer_instructions: None,
        source: None,
        request_id: None,
    }
}

async fn said(stage: &Stage, session: SessionId) -> usize {
    let reader = stage.engine.reader_of(session);
    transcript::page(&reader, &session.to_string(), None, None).await.unwrap().entries.len()
}

#[tokio::test]
async fn an_ephemeral_session_does_what_others_do_and_is_in_no_list() {
    let stage = Stage::new().await;
    let id = created(&stage).await;
    let mut session = stage.watch(id).await;
    let first = session.prompts("run true\nsay one").await;
    let asked = session.is_asked().await;
    assert_eq!(session.answers(&asked, Some("allow")).await, Ok(Accepted::Applied));
    session.until_end().await;
    let running = session.prompts("run false").await;
    let asked = session.is_asked().await;
    let mut later = session.input("say queued");
    later.mode = TurnMode::Queue;
    assert!(matches!(session.submit(Op::TurnInput(later)).await, Ok(Accepted::Queued { .. })));
    assert_eq!(session.answers(&asked, Some("allow")).await, Ok(Accepted::Applied));
    session.until_end().await;
    assert!(story(&session.until_end().await).contains("says \"queued\""));
    assert!(said(&stage, id).await > 5);
    let revert = Op::Revert { session: id.to_string(), before_turn: running.to_string(), request_id: None };
    assert_eq!(session.submit(revert).await, Ok(Accepted::Applied));
    let row = stage.engine.reader_of(id).session(id).await.unwrap().unwrap();
    assert!(row.ephemeral && row.last_seq > 10);
    assert!(stage.engine.reader_of(id).turn(id, first).await.unwrap().is_some());

    assert!(stage.store.reader.session(id).await.unwrap().is_none(), "nothing of it is on disk");
    let page = stage.store.reader.sessions(&SessionQuery::default()).await.unwrap();
    assert!(page.sessions.is_empty());
}

#[tokio::test]
async fn it_is_gone_when_it_has_left_memory() {
    let stage = Stage::resting(Duration::from_millis(60)).await;
    let id = created(&stage).await;
    let mut session = stage.watch(id).await;
    session.prompts("say one").await;
    session.until_end().await;
    session.until_unloaded().await;
    let refused = stage.engine.watch(id).await.map(drop);
    assert!(matches!(refused, Err(OpError::SessionNotFound(_))), "{refused:?}");
    assert!(stage.engine.reader_of(id).session(id).await.unwrap().is_none());
    // Another one begins anew, in a store of its own.
    let next = created(&stage).await;
    assert!(stage.engine.reader_of(next).session(next).await.unwrap().is_some());
}

#[tokio::test]
async fn it_is_gone_after_a_restart_and_when_it_was_deleted() {
    let stage = Stage::new().await;
    let (kept, deleted) = (created(&stage).await, created(&stage).await);
    let delete = Op::Delete { session: deleted.to_string(), agent_session: false, request_id: None };
    assert_eq!(stage.engine.submit(delete, Origin::default()).await, Ok(Accepted::Applied));
    assert!(matches!(stage.engine.load(deleted).await, Err(OpError::SessionNotFound(_))));
    stage.engine.load(kept).await.unwrap();
    let stage = stage.restart().await;
    assert!(matches!(stage.engine.load(kept).await, Err(OpError::SessionNotFound(_))));
}

#[tokio::test]
async fn no_worktree_is_made_that_nobody_would_know() {
    let stage = Stage::new().await;
    let with_worktree = NewSession { use_worktree: true, ..new(&stage) };
    let refused = stage.engine.submit(Op::NewSession(with_worktree), Origin::default()).await.unwrap_err();
    assert_eq!((refused.reason(), &refused.data()["path"]), ("invalid_params", &"use_worktree".into()));
}

#[tokio::test]
async fn there_are_only_so_many() {
    let stage = Stage::new().await;
    for _ in 0..256 {
        created(&stage).await;
    }
    let refused = stage.engine.submit(Op::NewSession(new(&stage)), Origin::default()).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("server_overloaded", true));
    assert!(refused.to_string().contains("256 ephemeral threads"), "{refused}");
    let one = stage.engine.loaded()[0];
    let delete = Op::Delete { session: one.to_string(), agent_session: false, request_id: None };
    assert_eq!(stage.engine.submit(delete, Origin::default()).await, Ok(Accepted::Applied));
    created(&stage).await;
}

#[tokio::test]
async fn another_chat_may_refer_to_it_while_it_is_there() {
    let stage = Stage::new().await;
    let id = created(&stage).await;
    let mut session = stage.watch(id).await;
    session.prompts("say the secret is 42").await;
    session.until_end().await;
    let other = stage.session().await;
    let doc = vec![signalbox_protocol::ops::DocBlock::Session { session_id: id.to_string() }];
    let preview = stage.engine.preview_prompt(other.id, doc, Default::default()).await.unwrap();
    assert!(preview.unresolved.is_empty(), "{preview:?}");
    assert!(
        preview.pieces.iter().any(|piece| piece.text().is_some_and(|text| text.contains("secret is 42")))
    );
}

#[tokio::test]
async fn a_fork_may_be_ephemeral_and_an_ephemeral_thread_may_be_kept_as_a_fork() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let turn = session.prompts("say one").await;
    session.until_end().await;
    let forked = async |session: &Watched, ephemeral: bool| match session
        .submit(fork(session.id, Some(turn), ephemeral))
        .await
    {
        Ok(Accepted::Forked { session, .. }) => session,
        other => panic!("{other:?}"),
    };
    let passing = forked(&session, true).await;
    assert!(stage.store.reader.session(passing).await.unwrap().is_none());
    assert_eq!(said(&stage, passing).await, said(&stage, session.id).await);
    let mut passing = stage.watch(passing).await;
    passing.prompts("say two").await;
    passing.until_end().await;
    let again = forked(&passing, true).await;
    assert!(stage.store.reader.session(again).await.unwrap().is_none());

    let kept = forked(&passing, false).await;
    let row = stage.store.reader.session(kept).await.unwrap().unwrap();
    assert_eq!((row.ephemeral, row.forked_from), (false, Some(passing.id)));
    let (passing, source) = (passing.id, session.id);
    drop(session);
    let stage = stage.restart().await;
    assert!(stage.engine.load(passing).await.is_err());
    assert_eq!(
        said(&stage, kept).await,
        said(&stage, source).await,
        "it goes back to the turn that was named"
    );
    let mut kept = stage.watch(kept).await;
    kept.prompts("say three").await;
    assert!(story(&kept.until_end().await).contains("says \"three\""));
}

#[tokio::test]
async fn one_that_has_filled_the_memory_says_so_can_be_deleted_and_makes_room_for_others() {
    let stage = Stage::cramped(1024 * 1024).await;
    let (other, id) = (created(&stage).await, created(&stage).await);
    let session = stage.watch(id).await;
    let (seen, engine) = (session.input("stream 100000 1000 0"), stage.engine.clone());
    assert!(matches!(session.submit(Op::TurnInput(seen)).await, Ok(Accepted::Started { .. })));
    let reading = tokio::spawn(session.until_deleted());
    let error = loop {
        if let Why::Stalled { error, .. } = engine.explain(id).await.unwrap().state {
            break error;
        }
    };
    assert!(error.contains("memory for ephemeral threads is full; delete one"), "{error}");
    let rename = Op::Rename { session: id.to_string(), title: "No".into(), request_id: None };
    let refused = engine.submit(rename, Origin::default()).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("storage_failed", true));
    let delete = Op::Delete { session: id.to_string(), agent_session: false, request_id: None };
    assert_eq!(engine.submit(delete, Origin::default()).await, Ok(Accepted::Applied));
    reading.await.unwrap();
    assert!(matches!(engine.load(id).await, Err(OpError::SessionNotFound(_))));
    let mut other = stage.watch(other).await;
    // The rows go in the background.
    while let Err(error) = other.submit(Op::TurnInput(other.input("say there is room"))).await {
        assert_eq!(error.reason(), "storage_failed");
    }
    assert!(story(&other.until_end().await).contains("says \"there is room\""));
}
