//! What goes along with the start of a turn: once only by the client's id, causes, trace and metadata down to the agent.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use signalbox_engine::{Accepted, Origin};
use signalbox_facts::{Committed, FactBody, SignalBody, TurnId};
use signalbox_protocol::ops::{NewSession, Op, PermissionMode, Policy, Provider, SandboxLevel, TurnMode};
use stage::{Stage, Watched, fact, story};

fn traced(number: u8) -> Origin {
    Origin {
        traceparent: Some(format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{number}-01")),
        tracestate: Some(format!("vendor={number}")),
        ..Origin::default()
    }
}

async fn submits(session: &Watched, mode: TurnMode, script: &str, number: u8) -> Accepted {
    let mut input = session.input(script);
    input.mode = mode;
    input.client_message_id = Some(format!("m{number}"));
    input.client_metadata = BTreeMap::from([("ticket".to_owned(), number.to_string())]);
    session.engine.submit(Op::TurnInput(input), traced(number)).await.unwrap()
}

#[tokio::test]
async fn trace_and_metadata_of_started_steered_and_queued_input_reach_the_agent() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    submits(&session, TurnMode::Start, "say go\nhang polite", 1).await;
    session.hears("go").await;
    submits(&session, TurnMode::Queue, "say queued", 3).await;
    submits(&session, TurnMode::Steer, "say steered", 2).await;
    session.until_end().await;
    session.until_end().await;
    let meta: Vec<Value> =
        stage.heard_of("session/prompt").into_iter().map(|mut prompt| prompt["_meta"].take()).collect();
    let expected = |number: u8| {
        let origin = traced(number);
        json!({"ticket": number.to_string(), "traceparent": origin.traceparent, "tracestate": origin.tracestate})
    };
    assert_eq!(meta, [expected(1), expected(2), expected(3)]);
}

#[tokio::test]
async fn the_same_message_is_taken_once_whatever_became_of_it_also_after_a_restart() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let Accepted::Started { turn } = submits(&session, TurnMode::Auto, "say go\nrun true", 1).await else {
        panic!()
    };
    session.is_asked().await;
    let Accepted::Queued { turn: queued } = submits(&session, TurnMode::Queue, "say queued", 3).await else {
        panic!()
    };
    assert_eq!(submits(&session, TurnMode::Auto, "say steered", 2).await, Accepted::Steered { turn });
    let repeats = async |session: &Watched| {
        for (mode, script, number, of) in [
            (TurnMode::Auto, "say go\nrun true", 1, turn),
            (TurnMode::Steer, "say steered", 2, turn),
            (TurnMode::Queue, "say queued", 3, queued),
            (TurnMode::Start, "say queued", 3, queued),
        ] {
            assert_eq!(submits(session, mode, script, number).await, Accepted::Repeated { turn: of });
            let mut other = session.input("say something else");
            other.client_message_id = Some(format!("m{number}"));
            let refused = session.submit(Op::TurnInput(other)).await.unwrap_err();
            assert_eq!(
                (refused.reason(), &refused.data()["path"]),
                ("invalid_params", &"client_message_id".into())
            );
        }
    };
    repeats(&session).await;
    let id = session.id;
    drop(session);
    let stage = stage.restart().await;
    let session = stage.watch(id).await;
    repeats(&session).await;
}

#[tokio::test]
async fn the_turns_that_caused_a_turn_are_kept_with_it() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let (parent, root) = (TurnId::generate(), TurnId::generate());
    let mut input = session.input("say go");
    input.parent_turn = Some(parent.to_string());
    input.root_turn = Some(root.to_string());
    let Ok(Accepted::Started { turn }) = session.submit(Op::TurnInput(input)).await else { panic!() };
    session.until_end().await;
    let row = stage.store.reader.turn(session.id, turn).await.unwrap().unwrap();
    assert_eq!((row.context.parent_turn, row.context.root_turn), (Some(parent), Some(root)));
    for field in ["parent_turn", "root_turn"] {
        let mut input = session.input("say go");
        let bad = Some("turn 7".to_owned());
        if field == "parent_turn" {
            input.parent_turn = bad
        } else {
            input.root_turn = bad
        }
        let refused = session.submit(Op::TurnInput(input)).await.unwrap_err();
        assert_eq!((refused.reason(), &refused.data()["path"]), ("invalid_params", &field.into()));
    }
}

#[tokio::test]
async fn a_model_that_is_set_on_a_running_agent_is_told_once() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say go").await;
    session.until_end().await;
    let op = Op::SetModel { session: session.id.to_string(), model: "rehearsal-terse".to_owned() };
    assert_eq!(session.submit(op).await, Ok(Accepted::Applied));
    session.prompts("say end").await;
    let told = session.until_end().await;
    let models = told.iter().filter(|one| match one {
        Committed::Signal(signal) => {
            matches!(&signal.body, SignalBody::Models { current, .. } if current == "rehearsal-terse")
        }
        Committed::Fact(_) => false,
    });
    assert_eq!(models.count(), 1);
}

#[tokio::test]
async fn who_never_wants_to_be_asked_is_not_also_after_a_restart() {
    let stage = Stage::new().await;
    let policy =
        Policy { mode: PermissionMode::AcceptEdits, sandbox: SandboxLevel::WorkspaceWrite, never_ask: true };
    let cwd = stage.work().to_str().unwrap().to_owned();
    let new =
        NewSession { initial_policy: Some(policy), ..NewSession::new(Provider::from_name("rehearsal"), cwd) };
    let Ok(Accepted::Created { session: id }) =
        stage.engine.submit(Op::NewSession(new), Origin::default()).await
    else {
        panic!()
    };
    let script = "run true\nwrite made.txt <<END\nyes\nEND\nask Which? | red | blue\nsay done";
    let mut session = stage.watch(id).await;
    session.prompts(script).await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Decline by Policy (never_ask)"), "{seen}");
    assert!(seen.contains("resolved Accept by Policy (never_ask)"), "{seen}");
    assert_eq!(seen.matches("resolved Decline by Policy (never_ask)").count(), 2, "the question too: {seen}");
    assert!(!seen.contains("asks ") && !seen.contains("awaiting"), "{seen}");
    assert!(stage.work().join("made.txt").exists());
    drop(session);
    let stage = stage.restart().await;
    let mut session = stage.watch(id).await;
    session.prompts("run true\nsay done").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Decline by Policy (never_ask)"), "{seen}");
    // With nothing to protect, commands run too; and who asks again is asked again.
    session
        .submit(Op::SetSandbox { session: id.to_string(), sandbox: SandboxLevel::DangerFullAccess })
        .await
        .unwrap();
    session.prompts("run echo ran").await;
    assert!(story(&session.until_end().await).contains("output \"ran\\n\""));
    session.policy(PermissionMode::Ask, SandboxLevel::WorkspaceWrite).await;
    session.prompts("run true").await;
    session.is_asked().await;
}

#[tokio::test]
async fn what_waits_is_decided_when_nobody_wants_to_be_asked_any_more() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("ask Which? | red | blue\nsay done").await;
    session.until(|one| matches!(fact(one), Some(FactBody::PermissionRequested(_)))).await;
    let settings = signalbox_protocol::ops::SettingsPatch {
        policy: Some(signalbox_protocol::ops::PolicyPatch { never_ask: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let op = Op::ThreadSettings { session: session.id.to_string(), settings, request_id: None };
    assert_eq!(session.submit(op).await, Ok(Accepted::Applied));
    let seen = story(&session.until_end().await);
    assert!(
        seen.contains("resolved Decline by Policy (never_ask)") && seen.contains("says \"done\""),
        "{seen}"
    );
}

/// What the turn warned of, by reason.
async fn cautions(session: &mut Watched) -> Vec<String> {
    session.prompts("say hello").await;
    let seen = session.until_end().await;
    let warned = seen.iter().filter_map(|committed| match fact(committed) {
        Some(FactBody::Warning(warning)) => Some(format!("{}: {}", warning.reason, warning.message)),
        _ => None,
    });
    warned.collect()
}

#[tokio::test]
async fn an_agent_that_never_asks_is_not_kept_to_read_only_and_other_policies_warn() {
    let stage = Stage::new().await;
    let id = stage.new_session("never-asks").await.unwrap();
    let mut session = stage.watch(id).await;
    assert_eq!(
        cautions(&mut session).await,
        ["not_mediated: Never asks never asks before it acts: the thread's policy cannot hold it back."]
    );
    let op = Op::SetExecutionPolicy {
        session: id.to_string(),
        mode: PermissionMode::Ask,
        sandbox: SandboxLevel::ReadOnly,
        request_id: None,
    };
    let refused = session.submit(op).await.unwrap_err();
    assert_eq!(refused.reason(), "invalid_params");
    assert!(refused.to_string().contains("read_only"), "{refused}");
    let mut input = session.input("say no");
    input.settings.policy = Some(signalbox_protocol::ops::PolicyPatch {
        sandbox: Some(SandboxLevel::ReadOnly),
        ..signalbox_protocol::ops::PolicyPatch::default()
    });
    let refused = session.submit(Op::TurnInput(input)).await.unwrap_err();
    assert!(refused.to_string().contains("read_only"), "{refused}");
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    assert!(cautions(&mut session).await.is_empty());
}

#[tokio::test]
async fn an_agent_that_edits_unasked_is_warned_of_where_edits_were_to_be_asked() {
    let stage = Stage::new().await;
    let mut asking = stage.watch(stage.new_session("edits-unasked").await.unwrap()).await;
    let warned = cautions(&mut asking).await;
    assert!(
        warned.len() == 1 && warned[0].starts_with("not_mediated: Edits unasked edits files"),
        "{warned:?}"
    );
    let mut editing = stage.watch(stage.new_session("edits-unasked").await.unwrap()).await;
    editing.policy(PermissionMode::AcceptEdits, SandboxLevel::WorkspaceWrite).await;
    assert!(cautions(&mut editing).await.is_empty());
}
