//! How the agent of a fork knows what was said: by a copy of the agent's own conversation, or because it is told.
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

use signalbox_engine::{Accepted, OpError, Why};
use signalbox_facts::{FactBody, ForkContext, SessionId, TurnId};
use signalbox_protocol::ops::{self, Op, SettingsPatch};
use stage::{Stage, Watched, story};

fn fork_op(session: &Watched) -> Op {
    Op::Fork {
        session: session.id.to_string(),
        through_turn: None,
        settings: SettingsPatch::default(),
        provider: None,
        ephemeral: false,
        base_instructions: None,
        developer_instructions: None,
        source: None,
        request_id: Some("fork-1".to_owned()),
    }
}

async fn forks(session: &Watched, op: Op) -> (SessionId, ForkContext) {
    match session.submit(op).await.unwrap() {
        Accepted::Forked { session, context } => (session, context),
        other => panic!("{other:?}"),
    }
}

async fn told(session: &mut Watched, script: &str) -> TurnId {
    let turn = session.prompts(script).await;
    session.until_end().await;
    turn
}

async fn agent_session(stage: &Stage, session: SessionId) -> Option<String> {
    stage.store.reader.session(session).await.unwrap().unwrap().agent_session
}

/// What the fork's first prompt tells, and whether its agent was told what was said before.
async fn first_turn(stage: &Stage, fork: SessionId) -> (String, bool) {
    let mut fork = stage.watch(fork).await;
    fork.prompts("echo-prompt").await;
    let seen = story(&fork.until_end().await);
    assert!(seen.contains("ended Completed"), "{seen}");
    let told = seen.contains("context_primed") && seen.contains("The key is amber.");
    (seen, told)
}

#[tokio::test]
async fn an_agent_that_can_goes_on_with_a_copy_of_its_own_conversation() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    told(&mut session, "say The key is amber.").await;
    let mut events = session.engine.op_events();
    let (fork, context) = forks(&session, fork_op(&session)).await;
    assert_eq!(context, ForkContext::Agent);
    let event = events.recv().await.unwrap();
    let event: serde_json::Value = serde_json::from_str(event.json()).unwrap();
    assert_eq!((&event["event"], &event["fork_context"]), (&"session_created".into(), &"agent".into()));
    let (own, copy) = (agent_session(&stage, session.id).await, agent_session(&stage, fork).await);
    assert!(copy.is_some() && copy != own, "{own:?} {copy:?}");

    let (seen, primed) = first_turn(&stage, fork).await;
    assert!(!primed && !seen.contains("context_lost") && !seen.contains("amber"), "{seen}");
    assert_eq!(agent_session(&stage, fork).await, copy, "that conversation went on");
    // The source's agent has not noticed.
    told(&mut session, "say Still here.").await;
    assert_eq!(agent_session(&stage, session.id).await, own);

    // What the fork is made with is the same after a restart, and so is the copy.
    let stage = stage.restart().await;
    let facts = stage.store.reader.facts(fork, 1, 1).await.unwrap();
    let FactBody::SessionCreated(created) = &facts[0].body else { panic!("{facts:?}") };
    assert_eq!(created.fork_context, Some(ForkContext::Agent));
    let (seen, _) = first_turn(&stage, fork).await;
    assert!(!seen.contains("context_lost") && !seen.contains("context_primed"), "{seen}");
}

#[tokio::test]
async fn a_copy_is_taken_of_all_that_was_said_or_not_at_all() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let first = told(&mut session, "say The key is amber.").await;
    let second = told(&mut session, "say The key is beige.").await;
    let with = |change: &dyn Fn(&mut Op)| {
        let mut op = fork_op(&session);
        change(&mut op);
        op
    };
    let newest = with(&|op| {
        let Op::Fork { through_turn, provider, .. } = op else { return };
        *through_turn = Some(second.to_string());
        *provider = Some(ops::Provider::from_name("rehearsal"));
    });
    assert_eq!(forks(&session, newest).await.1, ForkContext::Agent, "said in other words it is the same");
    let older = with(&|op| {
        let Op::Fork { through_turn, .. } = op else { return };
        *through_turn = Some(first.to_string());
    });
    let instructed = with(&|op| {
        let Op::Fork { base_instructions, .. } = op else { return };
        *base_instructions = Some("Be brief.".to_owned());
    });
    let other = with(&|op| {
        let Op::Fork { provider, .. } = op else { return };
        *provider = Some(ops::Provider::from_name("no-fork"));
    });
    for op in [older, instructed, other] {
        let (fork, context) = forks(&session, op).await;
        assert_eq!(context, ForkContext::History);
        assert_eq!(agent_session(&stage, fork).await, None);
        let (seen, primed) = first_turn(&stage, fork).await;
        assert!(primed, "{seen}");
    }
}

#[tokio::test]
async fn an_agent_that_does_not_run_is_not_asked() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let id = session.id;
    told(&mut session, "say The key is amber.").await;
    drop(session);
    let stage = stage.restart().await;
    let session = stage.watch(id).await;
    let (fork, context) = forks(&session, fork_op(&session)).await;
    assert_eq!(context, ForkContext::History);
    assert!(first_turn(&stage, fork).await.1);
}

#[tokio::test]
async fn an_agent_that_cannot_or_fails_or_is_silent_costs_the_fork_no_more_than_the_copy() {
    for provider in ["no-fork", "fail-fork", "hang-fork"] {
        let stage = Stage::forking_within(Duration::from_millis(100)).await;
        let id = stage.new_session(provider).await.unwrap();
        let mut session = stage.watch(id).await;
        told(&mut session, "say The key is amber.").await;
        let (fork, context) = forks(&session, fork_op(&session)).await;
        assert_eq!(context, ForkContext::History, "{provider}");
        let (seen, primed) = first_turn(&stage, fork).await;
        assert!(primed, "{provider}: {seen}");
        // And the session itself goes on with its agent.
        told(&mut session, "say Still here.").await;
    }
}

#[tokio::test]
async fn nothing_but_work_waits_for_an_agent_that_is_asked_for_a_copy() {
    let stage = Stage::new().await;
    let id = stage.new_session("hang-fork").await.unwrap();
    let mut session = stage.watch(id).await;
    told(&mut session, "say The key is amber.").await;
    let delete = Op::Delete { session: session.id.to_string(), agent_session: false, request_id: None };
    let explained_then_deleted = async {
        // The question goes another way than work, and may come before the fork.
        while !matches!(session.engine.explain(id).await.unwrap().state, Why::Forking { .. }) {}
        session.submit(delete).await
    };
    let (forked, deleted) = tokio::join!(session.submit(fork_op(&session)), explained_then_deleted);
    assert_eq!(deleted, Ok(Accepted::Applied));
    assert_eq!(forked, Err(OpError::SessionNotFound(session.id.to_string())));
}

#[tokio::test]
async fn what_a_turn_got_late_is_in_the_fork_too() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let first = session.prompts("say soon\nlate The key is amber.").await;
    session.until_end().await;
    session.hears("The key is amber.").await;
    let whole = forks(&session, fork_op(&session)).await.0;
    told(&mut session, "say more").await;
    let mut op = fork_op(&session);
    if let Op::Fork { through_turn, .. } = &mut op {
        *through_turn = Some(first.to_string());
    }
    let older = forks(&session, op).await.0;
    for fork in [whole, older] {
        let facts = stage.store.reader.facts(fork, 1, u64::MAX).await.unwrap();
        let said: Vec<_> = facts
            .iter()
            .filter_map(|fact| match &fact.body {
                FactBody::AgentText(said) => Some((fact.turn, said.text.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(said, [(Some(first), "soon"), (Some(first), "The key is amber.")]);
    }
}
