//! Agents' own sessions: listed, adopted with their history, gone on with, deleted.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signalbox_engine::{Accepted, AgentSessionQuery, AgentSessions, OpError, Origin, ProviderEntry};
use signalbox_facts::{ActivityState, Provider, SessionId, TitleOrigin};
use signalbox_protocol::ops::{self, Import, Op};
use signalbox_store::{FailPoint, SessionQuery, TurnQuery};
use stage::{Setup, Stage, story};

async fn listed(stage: &Stage, provider: &str, cwd: Option<&Path>) -> Result<AgentSessions, OpError> {
    let query =
        AgentSessionQuery { provider: Provider::new(provider), cwd: cwd.map(Path::to_owned), cursor: None };
    stage.engine.agent_sessions(query, &Origin::default()).await
}

fn wish(provider: &str, agent_session: &str) -> Import {
    Import {
        provider: ops::Provider::from_name(provider),
        agent_session: agent_session.to_owned(),
        cwd: None,
        initial_policy: None,
        request_id: Some("import-1".to_owned()),
        source: None,
    }
}

async fn imported(stage: &Stage, wish: Import) -> Result<SessionId, OpError> {
    match stage.engine.submit(Op::Import(wish), Origin::default()).await? {
        Accepted::Created { session } => Ok(session),
        other => panic!("{other:?}"),
    }
}

async fn deleted(stage: &Stage, session: SessionId, agent_session: bool) {
    let delete = Op::Delete { session: session.to_string(), agent_session, request_id: None };
    assert_eq!(stage.engine.submit(delete, Origin::default()).await, Ok(Accepted::Applied));
}

/// A conversation that the agent has and we do not any more; its id there.
async fn left_behind(stage: &Stage, scripts: &[&str]) -> String {
    let mut session = stage.session().await;
    for script in scripts {
        session.prompts(script).await;
        session.until_end().await;
    }
    let own = stage.store.reader.session(session.id).await.unwrap().unwrap().agent_session.unwrap();
    deleted(stage, session.id, false).await;
    own
}

async fn count(stage: &Stage) -> usize {
    stage.store.reader.sessions(&SessionQuery::default()).await.unwrap().sessions.len()
}

/// All facts of a session in short.
async fn told(stage: &Stage, session: SessionId) -> String {
    let facts = stage.store.reader.facts(session, 1, u64::MAX >> 1).await.unwrap();
    let facts: Vec<_> = facts.into_iter().map(|fact| signalbox_facts::Committed::Fact(fact.into())).collect();
    story(&facts)
}

#[tokio::test]
async fn a_session_of_the_agent_becomes_one_of_ours_and_goes_on_there() {
    let stage = Stage::new().await;
    let script = "title The amber key\nthink Hm.\nsay The key is amber.\nno-close An open call";
    let own = left_behind(&stage, &[script, "say Second."]).await;
    let work = stage.work().canonicalize().unwrap();

    let found = listed(&stage, "rehearsal", Some(&work)).await.unwrap();
    assert_eq!(found.next, None);
    let [only] = &found.sessions[..] else { panic!("{found:?}") };
    assert_eq!((&*only.listed.id, only.listed.title.as_deref()), (&*own, Some("The amber key")));
    assert_eq!((only.listed.cwd.as_deref(), only.adopted), (Some(&*work), None));
    let elsewhere = listed(&stage, "rehearsal", Some(stage.folder.path())).await.unwrap();
    assert_eq!(elsewhere.sessions, []);

    let mut events = stage.engine.op_events();
    let session = imported(&stage, wish("rehearsal", &own)).await.unwrap();
    let event: Value = serde_json::from_str(events.recv().await.unwrap().json()).unwrap();
    assert_eq!((&event["event"], &event["request_id"]), (&json!("session_created"), &json!("import-1")));
    let row = stage.store.reader.session(session).await.unwrap().unwrap();
    assert_eq!((&*row.title, row.title_origin), ("The amber key", TitleOrigin::Agent));
    assert_eq!((row.cwd, row.agent_session.as_deref()), (work, Some(&*own)));
    assert_eq!(row.activity.state, ActivityState::Idle);
    let turns = stage.store.reader.turns(session, TurnQuery::default()).await.unwrap();
    assert_eq!(turns.len(), 2);
    assert!(turns.iter().all(|turn| turn.end_seq.is_some()), "{turns:?}");
    let history = told(&stage, session).await;
    for part in ["The key is amber.", "Hm.", "An open call", "Second."] {
        assert!(history.contains(part), "{part}: {history}");
    }
    assert!(!history.contains("warning"), "{history}");

    // Its next turn is the third of the agent's own conversation.
    let mut watched = stage.watch(session).await;
    watched.prompts("say Third.").await;
    let turn = story(&watched.until_end().await);
    assert!(turn.contains("Third.") && !turn.contains("context_"), "{turn}");
    assert_eq!(stage.heard_of("session/resume").last().unwrap()["sessionId"], json!(own));
    let row = stage.store.reader.session(session).await.unwrap().unwrap();
    assert_eq!(row.agent_session, Some(own));
}

#[tokio::test]
async fn an_agents_session_is_adopted_once_as_long_as_it_is_there() {
    let stage = Stage::new().await;
    let own = left_behind(&stage, &["say One."]).await;
    let both =
        tokio::join!(imported(&stage, wish("rehearsal", &own)), imported(&stage, wish("rehearsal", &own)));
    let (session, refused) = match both {
        (Ok(session), Err(refused)) | (Err(refused), Ok(session)) => (session, refused),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused.reason(), "already_imported");
    let refused = imported(&stage, wish("rehearsal", &own)).await.unwrap_err();
    assert_eq!(refused, OpError::AlreadyImported { session: own.clone(), thread: Some(session) });
    assert_eq!(refused.data()["threadId"], json!(session.to_string()));
    let found = listed(&stage, "rehearsal", None).await.unwrap();
    assert_eq!(found.sessions[0].adopted, Some(session));

    deleted(&stage, session, false).await;
    let session = imported(&stage, wish("rehearsal", &own)).await.unwrap();
    // What the agent keeps goes only if that is asked for.
    deleted(&stage, session, true).await;
    assert_eq!(stage.heard_of("session/delete"), [json!({"sessionId": own})]);
    assert_eq!(listed(&stage, "rehearsal", None).await.unwrap().sessions, []);
    assert_eq!(count(&stage).await, 0);
}

#[tokio::test]
async fn a_history_behind_the_answer_is_heard_and_one_that_is_not_told_is_missed() {
    let stage = Stage::new().await;
    let own = left_behind(&stage, &["say The key is amber."]).await;
    let session = imported(&stage, wish("late-load", &own)).await.unwrap();
    let history = told(&stage, session).await;
    assert!(history.contains("The key is amber.") && !history.contains("history_unavailable"), "{history}");

    let session = imported(&stage, wish("resume-only", &own)).await.unwrap();
    let history = told(&stage, session).await;
    assert!(history.contains("history_unavailable") && !history.contains("amber"), "{history}");
    let mut watched = stage.watch(session).await;
    watched.prompts("say Here.").await;
    let turn = story(&watched.until_end().await);
    assert!(turn.contains("Here.") && !turn.contains("context_"), "{turn}");
}

#[tokio::test]
async fn what_cannot_be_listed_or_adopted_says_why_and_leaves_nothing() {
    let stage = Stage::new().await;
    let own = left_behind(&stage, &["say One."]).await;
    let reason = |error: &OpError| error.reason();

    let refused = listed(&stage, "no-list", None).await.unwrap_err();
    assert_eq!(reason(&refused), "unsupported_by_agent");
    assert!(refused.to_string().contains("whose id and directory are known can be adopted"), "{refused}");
    for (provider, wanted) in [
        ("missing", "provider_unavailable"),
        ("leaves", "agent_failed"),
        ("auth", "agent_auth_required"),
        ("nobody", "provider_not_found"),
    ] {
        assert_eq!(reason(&listed(&stage, provider, None).await.unwrap_err()), wanted, "{provider}");
        assert_eq!(reason(&imported(&stage, wish(provider, &own)).await.unwrap_err()), wanted, "{provider}");
    }
    let refused = listed(&stage, "leaves", None).await.unwrap_err();
    assert_eq!(refused.data()["exitStatus"], "exit status: 7");

    let other = SessionId::generate().to_string();
    let unknown = imported(&stage, wish("rehearsal", &other)).await.unwrap_err();
    assert_eq!(reason(&unknown), "agent_session_not_found");
    let in_work = |wish: Import| Import { cwd: Some(stage.work().display().to_string()), ..wish };
    let unknown = imported(&stage, in_work(wish("rehearsal", &other))).await.unwrap_err();
    assert_eq!(reason(&unknown), "agent_failed");
    let nowhere = imported(&stage, wish("no-list", &own)).await.unwrap_err();
    assert!(matches!(nowhere, OpError::InvalidParams { path: "cwd", .. }), "{nowhere}");

    stage.fail.fail(FailPoint::InSavepoint, 0, 2);
    assert_eq!(reason(&imported(&stage, wish("rehearsal", &own)).await.unwrap_err()), "storage_failed");
    assert_eq!(count(&stage).await, 0);
    imported(&stage, in_work(wish("no-list", &own))).await.unwrap();
    assert_eq!(count(&stage).await, 1);
}

#[tokio::test]
async fn a_list_that_repeats_itself_has_an_end() {
    let stage = Stage::new().await;
    let found = listed(&stage, "repeats", None).await.unwrap();
    let ids: Vec<_> = found.sessions.iter().map(|session| &*session.listed.id).collect();
    assert_eq!((ids, found.next), (vec!["s2", "same", "s3", "s4"], None));
    let unknown = imported(&stage, wish("repeats", "nowhere")).await.unwrap_err();
    assert_eq!(unknown.reason(), "agent_session_not_found");
}

/// An agent that tells a session only when it has had answers to a question and to a request for permission.
const ASKS: &str = r#"read line
echo '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'
read line
echo '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","sessionId":"old","message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}}'
read line
echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"old","toolCall":{"toolCallId":"t","kind":"execute","title":"ls"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}'
read line
case "$line" in *cancelled*) echo '{"id":2,"result":{}}' ;; esac
while read line; do :; done"#;

#[tokio::test]
async fn an_agent_that_asks_while_its_session_is_adopted_is_not_kept_waiting() {
    let command = ["sh", "-c", ASKS].map(str::to_owned).into();
    let agents = vec![ProviderEntry::custom("asks", "Asks", command)];
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::set_up(folder, Setup { agents, ..Setup::default() }).await;
    let wish = Import { cwd: Some("/".to_owned()), ..wish("asks", "old") };
    let adopted = tokio::time::timeout(Duration::from_secs(60), imported(&stage, wish)).await;
    let session = adopted.expect("the agent waits for an answer").unwrap();
    assert!(told(&stage, session).await.contains("history_unavailable"));
}

#[tokio::test]
async fn ten_thousand_items_are_adopted_at_once() {
    let stage = Stage::new().await;
    let own = left_behind(&stage, &["say One."]).await;
    let file = stage.folder.path().join("agent-memory").join(format!("{own}.json"));
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let message = |kind: &str, n: usize| json!({"type": "message", "update": kind, "id": format!("{kind}-{n}"), "text": format!("{kind} {n}")});
    let told: Vec<Value> = (0..5_000)
        .flat_map(|n| [message("user_message_chunk", n), message("agent_message_chunk", n)])
        .collect();
    kept["history"] = json!(told);
    std::fs::write(&file, kept.to_string()).unwrap();

    let begun = Instant::now();
    let session = imported(&stage, wish("rehearsal", &own)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(50));
    let query = TurnQuery { limit: 10_000, ascending: true, ..TurnQuery::default() };
    let turns = stage.store.reader.turns(session, query).await.unwrap();
    assert_eq!(turns.len(), 5_000);
    let row = stage.store.reader.session(session).await.unwrap().unwrap();
    assert_eq!(row.preview, "user_message_chunk 0");
    assert_eq!(row.activity.revision, 10_000);
    let last = stage.store.reader.facts_of_turn(session, turns[4_999].id).await.unwrap();
    assert_eq!(last.len(), 5, "activity, prompt, text, activity, end: {last:?}");
}
