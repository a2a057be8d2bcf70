//! Ops that wait for their answer: nothing but an exact `request_id` settles them.

use serde_json::json;
use signalbox_protocol::ops::{NewSession, Op, PermissionMode, Policy, Provider, SandboxLevel, TurnInput};

use super::*;
use crate::ops::Outcome;

fn settled(changes: &[Change]) -> Vec<(&str, &Outcome)> {
    let settled = changes.iter().filter_map(|change| match change {
        Change::Settled { request_id, outcome, .. } => Some((request_id.as_str(), outcome)),
        _ => None,
    });
    settled.collect()
}

#[test]
fn a_prompt_waits_until_exactly_its_own_turn_starts() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let op = state.prompt("s", vec![text_block("hello")], "mine");
    assert_eq!(op.request_id(), Some("mine"));
    for event in [
        json!({"event": "turn_started", "session": "s", "request_id": "theirs", "transcript_seq": 1}),
        json!({"event": "turn_started", "session": "s", "transcript_seq": 2}),
        json!({"event": "turn_ended", "session": "s", "stop_reason": "end_turn"}),
        json!({"event": "error", "session": "s", "message": "no", "terminal": true}),
        json!({"event": "session_created", "session": "x", "request_id": "mine"}),
        json!({"event": "execution_policy_changed", "session": "s", "policy": {"mode": "ask", "sandbox": "read_only"}, "request_id": "mine"}),
    ] {
        assert_eq!(settled(&tells(&mut state, event)), []);
    }
    does(
        &mut state,
        "s",
        Activity {
            revision: 9,
            state: ActivityState::Running { turn_id: "t".into(), prompt_request_id: Some("mine".into()) },
        },
    );
    assert!(state.submitted.contains_key("mine"), "the activity comes first; the start is what settles");
    let changes = tells(&mut state, json!({"event": "turn_started", "session": "s", "request_id": "mine"}));
    assert_eq!(settled(&changes), [("mine", &Outcome::Started)]);
    assert!(state.submitted.is_empty());
}

#[test]
fn a_prompt_may_be_steered_in_or_refused_instead() {
    let mut state = State::default();
    let mut input = TurnInput::new("s", vec![text_block("and this")]);
    input.request_id = Some("a".into());
    state.submit(Op::TurnInput(input));
    state.prompt("s", vec![], "b");
    let changes = tells(&mut state, json!({"event": "prompt_steered", "session": "s", "request_id": "a"}));
    assert_eq!(settled(&changes), [("a", &Outcome::Steered)]);
    let changes = tells(
        &mut state,
        json!({"event": "error", "session": "s", "message": "busy", "terminal": false, "request_id": "b"}),
    );
    assert_eq!(settled(&changes), [("b", &Outcome::Refused { message: "busy".into() })]);
}

#[test]
fn other_ops_are_settled_by_their_own_kind_of_answer() {
    let mut state = State::default();
    let mut new = NewSession::new(Provider::Grok, "/work");
    new.request_id = Some("new".into());
    state.submit(Op::NewSession(new));
    state.set_policy(
        "s",
        Policy { mode: PermissionMode::Yolo, sandbox: SandboxLevel::ReadOnly, never_ask: false },
        "policy",
    );
    assert_eq!(
        settled(&tells(&mut state, json!({"event": "turn_started", "session": "s", "request_id": "new"}))),
        []
    );
    let changes =
        tells(&mut state, json!({"event": "session_created", "session": "s2", "request_id": "new"}));
    assert_eq!(settled(&changes), [("new", &Outcome::Created { session: "s2".into() })]);
    assert_eq!(
        state.sessions.get("s").and_then(|session| session.policy),
        None,
        "no policy is shown before the core says it"
    );
    let changes = tells(
        &mut state,
        json!({"event": "execution_policy_changed", "session": "s", "policy": {"mode": "yolo", "sandbox": "read_only"}, "request_id": "policy"}),
    );
    assert_eq!(settled(&changes), [("policy", &Outcome::Applied)]);
}

#[test]
fn settings_queue_and_reverts_answer_for_themselves() {
    let mut state = State::default();
    let session = || "s".to_owned();
    let request_id = |id: &str| Some(id.to_owned());
    state.submit(Op::ThreadSettings {
        session: session(),
        settings: Default::default(),
        request_id: request_id("settings"),
    });
    state.submit(Op::QueueMove { session: session(), order: vec![], request_id: request_id("queue") });
    state.submit(Op::Revert {
        session: session(),
        before_turn: "t".into(),
        request_id: request_id("revert"),
    });
    for event in [
        json!({"event": "settings_changed", "session": "s", "request_id": "settings"}),
        json!({"event": "queue_changed", "session": "s", "queue": [], "request_id": "queue"}),
        json!({"event": "session_reverted", "session": "s", "before_turn": "t", "through_seq": 4, "request_id": "revert"}),
    ] {
        let id = event["request_id"].as_str().unwrap().to_owned();
        assert_eq!(settled(&tells(&mut state, event)), [(id.as_str(), &Outcome::Applied)]);
    }
    assert!(state.submitted.is_empty());
}

#[test]
fn an_op_that_could_not_be_read_is_refused() {
    let mut state = State::default();
    state.prompt("s", vec![], "mine");
    let changes =
        state.apply(frame(json!({"kind": "error", "message": "unknown field", "request_id": "mine"})));
    assert_eq!(settled(&changes), [("mine", &Outcome::Refused { message: "unknown field".into() })]);
}

#[test]
fn ops_without_a_correlated_answer_are_not_waited_for() {
    let mut state = State::default();
    state.submit(Op::Cancel { session: "s".into(), turn: None });
    state.submit(Op::Prompt { session: "s".into(), doc: vec![], request_id: None });
    state.submit(Op::Archive { session: "s".into(), request_id: Some("r".into()) });
    assert!(state.submitted.is_empty());
}

#[test]
fn a_queued_prompt_goes_on_waiting_for_its_turn() {
    let mut state = State::default();
    let mut input = TurnInput::new("s", vec![text_block("next")]);
    input.request_id = Some("q".into());
    state.submit(Op::TurnInput(input));
    tells(
        &mut state,
        json!({"event": "queue_changed", "session": "s", "queue": [{"id": "t2", "doc": [], "request_id": "q"}]}),
    );
    assert!(state.submitted["q"].queued);
    tells(&mut state, json!({"event": "queue_changed", "session": "s", "queue": []}));
    let changes = tells(&mut state, json!({"event": "turn_started", "session": "s", "request_id": "q"}));
    assert_eq!(settled(&changes), [("q", &Outcome::Started)]);
}

#[test]
fn after_a_lag_an_activity_that_names_the_prompt_settles_it() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    state.prompt("s", vec![], "mine");
    state.prompt("s", vec![], "lost");
    state.apply(frame(json!({"kind": "lagged", "missed": 2})));
    assert!(state.submitted["mine"].uncertain);
    let _ = state.ask_sessions();
    let running = ActivityState::Running { turn_id: "t".into(), prompt_request_id: Some("mine".into()) };
    let changes = lists(&mut state, &[("s", Activity { revision: 1, state: running })]);
    assert_eq!(settled(&changes), [("mine", &Outcome::Started)]);
    assert!(state.submitted["lost"].uncertain, "for the client to decide");
    assert!(state.forget("lost").is_some());
}

#[test]
fn the_words_of_an_own_prompt_are_known_and_those_of_others_are_to_be_asked_for() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let page = state.ask_transcript("s", None, "page");
    state.apply(super::pages::page_of(&page, json!([]), None, None));
    state.prompt("s", vec![text_block("hello")], "mine");
    tells(
        &mut state,
        json!({"event": "turn_started", "session": "s", "request_id": "mine", "transcript_seq": 1}),
    );
    tells(
        &mut state,
        json!({"event": "turn_started", "session": "s", "request_id": "theirs", "transcript_seq": 5}),
    );
    assert_eq!(story(&state, "s"), ["| (own)", "| (unknown)"]);
    let unknown: Vec<_> =
        state.sessions["s"].transcript.as_ref().unwrap().unknown_prompts().into_iter().collect();
    assert_eq!(unknown, [5]);

    let page = state.ask_transcript("s", Some(1), "page-2");
    let entries = json!([{"seq": 5, "role": "user", "part": {"kind": "prompt", "text": "theirs", "display": "theirs"}}]);
    state.apply(super::pages::page_of(&page, entries, Some(5), Some(6)));
    assert_eq!(story(&state, "s"), ["| (own)", "| theirs"], "what came before the page stays");
}
