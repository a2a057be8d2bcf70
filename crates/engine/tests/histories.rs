//! What becomes of a session's history and queue: follow-ups, forks, turns taken back, sessions deleted, rules removed.
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

use signalbox_engine::{Accepted, OpError, Origin, Unattended, transcript};
use signalbox_facts::{FactBody, QueueChanged, ResolverKind, SessionId, SessionRule, TurnId, TurnStatus};
use signalbox_protocol::ops::{self, DocBlock, Op, Part, SettingsPatch, TurnMode};
use stage::{Stage, Watched, fact, story};

fn text(text: &str) -> Vec<DocBlock> {
    vec![DocBlock::Text { text: text.to_owned(), elements: Vec::new() }]
}

fn add(session: &Watched, script: &str, id: Option<&str>) -> Op {
    Op::QueueAdd {
        session: session.id.to_string(),
        doc: text(script),
        client_message_id: id.map(str::to_owned),
        client_metadata: std::collections::BTreeMap::new(),
        request_id: None,
    }
}

async fn queued(session: &Watched, script: &str) -> TurnId {
    match session.submit(add(session, script, None)).await.unwrap() {
        Accepted::Queued { turn } => turn,
        other => panic!("{other:?}"),
    }
}

async fn waiting(stage: &Stage, session: SessionId) -> Option<QueueChanged> {
    stage.store.reader.session(session).await.unwrap().unwrap().queue
}

async fn forked(session: &Watched, through: Option<TurnId>) -> Result<SessionId, OpError> {
    let op = Op::Fork {
        session: session.id.to_string(),
        through_turn: through.map(|turn| turn.to_string()),
        settings: SettingsPatch::default(),
        provider: None,
        ephemeral: false,
        base_instructions: None,
        developer_instructions: None,
        source: None,
        request_id: Some("fork-1".to_owned()),
    };
    match session.submit(op).await? {
        Accepted::Forked { session, .. } => Ok(session),
        other => panic!("{other:?}"),
    }
}

async fn words(stage: &Stage, session: SessionId) -> Vec<String> {
    let page = transcript::page(&stage.store.reader, &session.to_string(), None, None).await.unwrap();
    let word = |part: Part| match part {
        Part::Prompt { text, .. } => format!("> {text}"),
        Part::Text { text, .. } => text,
        other => format!("{other:?}"),
    };
    page.entries.into_iter().map(|entry| word(entry.part)).collect()
}

#[tokio::test]
async fn follow_ups_run_one_after_the_other_with_the_ids_they_were_given() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    let (second, third) = (queued(&session, "say two").await, queued(&session, "say three").await);
    let steered = session.submit(Op::TurnInput(session.input("say one"))).await;
    assert!(matches!(steered, Ok(Accepted::Steered { .. })), "input without a mode still steers");
    let mut ended = Vec::new();
    for _ in 0..3 {
        let seen = session.until_end().await;
        ended.extend(seen.into_iter().filter_map(|one| match one {
            signalbox_facts::Committed::Fact(fact) => match &fact.body {
                FactBody::TurnEnded(end) => Some((fact.turn.unwrap(), end.status)),
                _ => None,
            },
            signalbox_facts::Committed::Signal(_) => None,
        }));
    }
    assert_eq!(ended[1..], [(second, TurnStatus::Completed), (third, TurnStatus::Completed)]);
    assert_eq!(waiting(&stage, session.id).await, None);
}

#[tokio::test]
async fn the_queue_pauses_after_an_interrupt_and_goes_on_with_the_next_prompt() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    queued(&session, "say queued").await;
    session.cancels().await;
    session.until_end().await;
    assert!(waiting(&stage, session.id).await.unwrap().paused);
    session.prompts("say mine").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "mine""#), "{seen}");
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "queued""#), "{seen}");
}

#[tokio::test]
async fn a_follow_up_to_an_idle_session_starts_at_once() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let turn = queued(&session, "say at once").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "at once""#), "{seen}");
    assert!(stage.store.reader.turn(session.id, turn).await.unwrap().is_some());
}

#[tokio::test]
async fn follow_ups_are_edited_moved_and_removed_by_their_ids() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    let id = session.id.to_string();
    let (one, two) = (queued(&session, "say one").await, queued(&session, "say two").await);
    let three = queued(&session, "say three").await;
    let order: Vec<_> = [three, one, two].iter().map(ToString::to_string).collect();
    let moved = Op::QueueMove { session: id.clone(), order: order.clone(), request_id: None };
    assert_eq!(session.submit(moved).await, Ok(Accepted::Applied));
    let incomplete = Op::QueueMove { session: id.clone(), order: order[1..].to_vec(), request_id: None };
    assert_eq!(session.submit(incomplete).await.unwrap_err().reason(), "invalid_params");
    let edited = Op::QueueEdit {
        session: id.clone(),
        queued: one.to_string(),
        doc: text("say ONE"),
        client_metadata: None,
        request_id: None,
    };
    assert_eq!(session.submit(edited).await, Ok(Accepted::Applied));
    let remove = Op::QueueRemove { session: id, queued: two.to_string(), request_id: None };
    assert_eq!(session.submit(remove.clone()).await, Ok(Accepted::Applied));
    assert_eq!(session.submit(remove).await.unwrap_err().reason(), "invalid_params");
    let left = waiting(&stage, session.id).await.unwrap();
    let left: Vec<_> = left.entries.iter().map(|entry| entry.turn).collect();
    assert_eq!(left, [three, one]);
}

#[tokio::test]
async fn a_follow_up_with_an_id_of_its_own_is_taken_once() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    let first = session.submit(add(&session, "say x", Some("m-1"))).await.unwrap();
    let Accepted::Queued { turn } = first else { panic!("{first:?}") };
    let again = session.submit(add(&session, "say x", Some("m-1"))).await;
    assert_eq!(again, Ok(Accepted::Repeated { turn }));
    let other = session.submit(add(&session, "say y", Some("m-1"))).await.unwrap_err();
    assert_eq!(other.reason(), "invalid_params");
    let mut events = session.engine.op_events();
    session.engine.dispatch_op(add(&session, "say x", Some("m-1")), Origin::default()).await;
    while !events.recv().await.unwrap().json().contains("already_accepted") {}
}

#[tokio::test]
async fn a_queue_survives_a_restart_and_waits_for_the_next_prompt() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    queued(&session, "say kept").await;
    let id = session.id;
    drop(session);
    let stage = stage.restart().await;
    let mut session = stage.watch(id).await;
    assert!(waiting(&stage, id).await.unwrap().paused, "the turn before it did not complete");
    session.prompts("say first").await;
    session.until_end().await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "kept""#), "{seen}");
}

#[tokio::test]
async fn a_queue_has_a_bound() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    for _ in 0..64 {
        queued(&session, "say x").await;
        // Whoever watches a session has to read what it commits.
        session.until(|one| matches!(fact(one), Some(FactBody::QueueChanged(_)))).await;
    }
    let full = session.submit(add(&session, "say x", None)).await.unwrap_err();
    assert_eq!(full.reason(), "server_overloaded");
    assert!(full.to_string().contains("64"), "{full}");
}

#[tokio::test]
async fn a_fork_begins_with_the_history_and_its_agent_is_told_of_it() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let option = Op::SetConfigOption {
        session: session.id.to_string(),
        config_id: "thinking".into(),
        value: "true".into(),
    };
    assert_eq!(session.submit(option).await, Ok(Accepted::Applied));
    let first = session.prompts("say The key is amber.").await;
    session.until_end().await;
    session.prompts("say The key is beige.").await;
    session.until_end().await;
    let mut events = session.engine.op_events();
    let fork = forked(&session, Some(first)).await.unwrap();
    assert_eq!(words(&stage, fork).await, ["> say The key is amber.", "The key is amber."]);
    assert_eq!(stage.store.reader.session(fork).await.unwrap().unwrap().options["thinking"], "true");
    let told = events.recv().await.unwrap();
    let told: serde_json::Value = serde_json::from_str(told.json()).unwrap();
    assert_eq!(told["event"], "session_created");
    assert_eq!(told["forked_from"], session.id.to_string());
    assert_eq!(told["request_id"], "fork-1");
    let mut fork = stage.watch(fork).await;
    fork.prompts("echo-prompt").await;
    let seen = story(&fork.until_end().await);
    assert!(seen.contains("warning context_primed"), "{seen}");
    assert!(seen.contains("The key is amber."), "the agent gets what was said: {seen}");
    assert!(!seen.contains("beige"), "{seen}");
    assert_eq!(words(&stage, session.id).await.len(), 4, "the source stays as it was");
}

#[tokio::test]
async fn an_open_turn_is_not_forked() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say before").await;
    session.until_end().await;
    let open = session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    assert_eq!(forked(&session, Some(open)).await, Err(OpError::TurnActive(open)));
    let fork = forked(&session, None).await.unwrap();
    assert_eq!(words(&stage, fork).await, ["> say before", "before"]);
    let nowhere = forked(&session, Some(TurnId::generate())).await.unwrap_err();
    assert_eq!(nowhere.reason(), "turn_not_found");
}

#[tokio::test]
async fn what_is_taken_back_is_in_no_page_and_in_no_agents_memory() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say The key is amber.").await;
    session.until_end().await;
    let second = session.prompts("say The key is beige.").await;
    session.until_end().await;
    let revert = |turn: TurnId| Op::Revert {
        session: session.id.to_string(),
        before_turn: turn.to_string(),
        request_id: None,
    };
    assert_eq!(session.submit(revert(second)).await, Ok(Accepted::Applied));
    assert_eq!(words(&stage, session.id).await, ["> say The key is amber.", "The key is amber."]);
    let again = session.submit(revert(second)).await.unwrap_err();
    assert_eq!(again.reason(), "turn_not_found");
    session.prompts("echo-prompt").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("The key is amber.") && !seen.contains("beige"), "{seen}");
    let open = session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    let refused =
        Op::Revert { session: session.id.to_string(), before_turn: open.to_string(), request_id: None };
    assert_eq!(session.submit(refused).await, Err(OpError::TurnActive(open)));
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_approval_and_its_agent() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run echo hi").await;
    let input = session.is_asked().await;
    let mut events = session.engine.op_events();
    let delete = Op::Delete { session: session.id.to_string(), agent_session: false, request_id: None };
    assert_eq!(session.submit(delete.clone()).await, Ok(Accepted::Applied));
    let mut last = String::new();
    while !last.contains("session_closed") {
        last = events.recv().await.unwrap().json().to_owned();
    }
    assert!(last.contains(r#""reason":"deleted""#), "{last}");
    assert!(stage.store.reader.session(session.id).await.unwrap().is_none());
    assert!(stage.store.reader.pending_inputs(None).await.unwrap().is_empty());
    let gone = session.answers(&input, None).await.unwrap_err();
    assert_eq!(gone.reason(), "thread_not_found");
    assert_eq!(session.submit(delete).await.unwrap_err().reason(), "thread_not_found");
    assert!(!session.engine.loaded().contains(&session.id));
}

#[tokio::test]
async fn a_rule_that_was_removed_no_longer_answers() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run echo hi").await;
    let input = session.is_asked().await;
    let answer = Op::AnswerPermission {
        session: session.id.to_string(),
        request_id: input.id.to_string(),
        option_id: Some("allow".to_owned()),
        for_session: true,
        message: None,
        decline: false,
    };
    assert_eq!(session.submit(answer).await, Ok(Accepted::Applied));
    session.until_end().await;
    session.prompts("run echo hi").await;
    let unasked = story(&session.until_end().await);
    assert!(unasked.contains("resolved Accept by Policy (session_rule)"), "{unasked}");
    let rules = stage.store.reader.session(session.id).await.unwrap().unwrap().rules;
    assert_eq!(rules, [SessionRule::Command { command: "echo hi".into() }]);
    let remove = Op::RemoveRule {
        session: session.id.to_string(),
        rule: ops::SessionRule::Command { command: "echo hi".into() },
        request_id: None,
    };
    assert_eq!(session.submit(remove.clone()).await, Ok(Accepted::Applied));
    assert_eq!(session.submit(remove).await.unwrap_err().reason(), "invalid_params");
    session.prompts("run echo hi").await;
    let input = session.is_asked().await;
    assert_eq!(session.answers(&input, Some("reject")).await, Ok(Accepted::Applied));
}

#[tokio::test]
async fn without_anybody_a_request_waits_and_says_so() {
    let mut stage = Stage::new().await;
    stage.attending = None;
    let mut session = stage.session().await;
    session.prompts("run echo hi").await;
    let input = session.is_asked().await;
    let seen = session
        .until(|one| matches!(fact(one), Some(FactBody::Warning(warning)) if warning.reason == "unattended"))
        .await;
    assert_eq!(seen.len(), 1);
    assert_eq!(session.answers(&input, Some("reject")).await, Ok(Accepted::Applied));
}

#[tokio::test]
async fn without_anybody_a_request_is_rejected_if_so_configured() {
    for unattended in [Unattended::Reject, Unattended::WaitFor(Duration::from_millis(20))] {
        let mut stage = Stage::with(tempfile::tempdir().unwrap(), unattended).await;
        stage.attending = None;
        let mut session = stage.session().await;
        session.prompts("run echo hi\nask Which? | red | blue").await;
        let seen = session.until_end().await;
        let by = seen.iter().filter_map(|one| match fact(one) {
            Some(FactBody::PermissionResolved(resolved)) => Some((resolved.by.kind, resolved.rule.clone())),
            _ => None,
        });
        let expected = (ResolverKind::Unattended, Some("unattended".to_owned()));
        assert_eq!(by.collect::<Vec<_>>(), [expected.clone(), expected], "{}", story(&seen));
    }
}

#[tokio::test]
async fn the_last_one_to_leave_leaves_the_decision_to_the_server() {
    let mut stage = Stage::with(tempfile::tempdir().unwrap(), Unattended::Reject).await;
    let mut session = stage.session().await;
    session.prompts("run echo hi").await;
    session.is_asked().await;
    stage.attending = None;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Decline by Unattended (unattended)"), "{seen}");
}

#[tokio::test]
async fn whoever_lists_approvals_counts_as_there() {
    let mut stage = Stage::with(tempfile::tempdir().unwrap(), Unattended::Reject).await;
    stage.engine.approvals_listed(None);
    stage.attending = None;
    let mut session = stage.session().await;
    session.prompts("run echo hi").await;
    let input = session.is_asked().await;
    assert_eq!(session.answers(&input, Some("allow")).await, Ok(Accepted::Applied));
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Accept by Client"), "{seen}");
}

#[tokio::test]
async fn a_setting_is_answered_with_what_now_holds() {
    let stage = Stage::new().await;
    let session = stage.session().await;
    let mut events = session.engine.op_events();
    let id = session.id.to_string();
    let mut told = async |op: Op, name: &str| {
        session.engine.dispatch_op(op, Origin::default()).await;
        loop {
            let event = events.recv().await.unwrap();
            if event.event.name() == name {
                return serde_json::from_str::<serde_json::Value>(event.json()).unwrap();
            }
        }
    };
    let models = told(Op::SetModel { session: id.clone(), model: "fast".into() }, "models").await;
    assert_eq!((&models["current"], &models["available"]), (&"fast".into(), &serde_json::json!([])));
    let option =
        Op::SetConfigOption { session: id.clone(), config_id: "thinking".into(), value: "true".into() };
    let options = told(option, "config_options").await;
    assert_eq!(options["options"][0]["current"], "true");
    let patch = SettingsPatch { effort: Some("high".into()), ..SettingsPatch::default() };
    let again = patch.clone();
    let set =
        |patch| Op::ThreadSettings { session: id.clone(), settings: patch, request_id: Some("s".into()) };
    let changed = told(set(patch), "settings_changed").await;
    assert_eq!((&changed["effort"], &changed["request_id"]), (&"high".into(), &"s".into()));
    let unchanged = told(set(again), "settings_changed").await;
    assert_eq!(unchanged["request_id"], "s", "whoever waits for a word of his own gets one");
    assert!(unchanged.get("effort").is_none());
}

#[tokio::test]
async fn nothing_to_compact_with_is_said() {
    let stage = Stage::new().await;
    let session = stage.session().await;
    let compact = Op::Compact { session: session.id.to_string(), request_id: None };
    assert_eq!(session.submit(compact).await.unwrap_err().reason(), "unsupported_by_agent");
}

#[tokio::test]
async fn input_that_may_only_queue_waits_for_the_open_turn() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 300 8 1").await;
    session.hears("00000005").await;
    let mut input = session.input("say queued");
    input.mode = TurnMode::Queue;
    input.client_metadata.insert("k".into(), "v".into());
    let Ok(Accepted::Queued { turn }) = session.submit(Op::TurnInput(input)).await else { panic!() };
    session.until_end().await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "queued""#), "{seen}");
    let row = stage.store.reader.turn(session.id, turn).await.unwrap().unwrap();
    assert_eq!(row.context.client_metadata["k"], "v");
}

#[tokio::test]
async fn another_directory_holds_from_the_next_turn_on_and_ends_no_turn() {
    let stage = Stage::new().await;
    let other = stage.folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    let mut session = stage.session().await;
    session.prompts("stream 200 8 1\nsay done").await;
    session.hears("00000005").await;
    let patch = SettingsPatch { cwd: Some(other.display().to_string()), ..SettingsPatch::default() };
    let set = Op::ThreadSettings { session: session.id.to_string(), settings: patch, request_id: None };
    assert_eq!(session.submit(set).await, Ok(Accepted::Applied));
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "done""#) && seen.contains("ended Completed"), "{seen}");
    session.prompts("run pwd").await;
    let input = session.is_asked().await;
    assert_eq!(session.answers(&input, Some("allow")).await, Ok(Accepted::Applied));
    let seen = story(&session.until_end().await);
    assert!(seen.contains(&format!("{}", other.display())), "{seen}");
    std::fs::remove_dir(&other).unwrap();
    let gone = session.submit(Op::TurnInput(session.input("say x"))).await.unwrap_err();
    assert!(gone.reason() == "invalid_params" && gone.to_string().contains("is gone"), "{gone}");
    let back = SettingsPatch { cwd: Some(stage.work().display().to_string()), ..SettingsPatch::default() };
    let mut input = session.input("say back");
    input.settings = back;
    assert!(matches!(session.submit(Op::TurnInput(input)).await, Ok(Accepted::Started { .. })));
    let seen = story(&session.until_end().await);
    assert!(seen.contains(r#"says "back""#), "{seen}");
}

#[tokio::test]
async fn settings_of_a_steer_hold_like_all_others() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 1").await;
    session.hears("00000005").await;
    let mut input = session.input("run echo hi");
    input.settings.effort = Some("high".into());
    input.settings.policy =
        Some(ops::PolicyPatch { mode: Some(ops::PermissionMode::Yolo), ..ops::PolicyPatch::default() });
    assert!(matches!(session.submit(Op::TurnInput(input)).await, Ok(Accepted::Steered { .. })));
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Accept by Policy (mode)"), "{seen}");
    let row = stage.store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!(row.effort.as_deref(), Some("high"));
}

#[tokio::test]
async fn an_answer_that_leaves_out_what_is_needed_changes_nothing() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("ask Which? | red | blue").await;
    let input = session.is_asked().await;
    let answer = |colour: &str| Op::AnswerElicitation {
        session: session.id.to_string(),
        request_id: input.id.to_string(),
        answer: serde_json::from_value(
            serde_json::json!({"action": "accept", "content": {"answer": colour}}),
        )
        .unwrap(),
    };
    let green = session.submit(answer("green")).await.unwrap_err();
    assert!(green.to_string().contains("red, blue"), "{green}");
    assert_eq!(session.submit(answer("blue")).await, Ok(Accepted::Applied));
    let seen = story(&session.until_end().await);
    assert!(seen.contains("blue"), "{seen}");
}

#[tokio::test]
async fn a_deletion_that_cannot_be_stored_is_declined_and_takes_nothing() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("stream 100000 8 50").await;
    session.hears("00000005").await;
    let reader = tokio::spawn(async move {
        session.until_end().await;
        session
    });
    stage.fail.fail(signalbox_store::FailPoint::InSavepoint, 0, 4);
    let id = stage.engine.loaded()[0];
    let delete = || {
        stage.engine.submit(
            Op::Delete { session: id.to_string(), agent_session: false, request_id: None },
            Origin::default(),
        )
    };
    assert_eq!(delete().await.unwrap_err().reason(), "storage_failed");
    assert!(stage.store.reader.session(id).await.unwrap().is_some());
    while let Err(declined) = delete().await {
        assert_eq!(declined.reason(), "storage_failed");
    }
    assert!(stage.store.reader.session(id).await.unwrap().is_none());
    reader.abort();
}

#[tokio::test]
async fn a_prompt_right_behind_a_revert_waits_for_the_end_of_the_old_agent() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let mut taken_back = session.prompts("say one").await;
    session.until_end().await;
    for _ in 0..10 {
        let revert = Op::Revert {
            session: session.id.to_string(),
            before_turn: taken_back.to_string(),
            request_id: None,
        };
        let model = Op::SetModel { session: session.id.to_string(), model: "rehearsal-terse".into() };
        let prompt = Op::TurnInput(session.input("say again"));
        let (reverted, set, started) =
            tokio::join!(session.submit(revert), session.submit(model), session.submit(prompt));
        assert_eq!((reverted, set), (Ok(Accepted::Applied), Ok(Accepted::Applied)));
        let Ok(Accepted::Started { turn }) = started else { panic!("{started:?}") };
        let seen = story(&session.until_end().await);
        assert!(seen.contains("ended Completed"), "{seen}");
        taken_back = turn;
    }
}
