//! Sessions: running and awaiting, policies, and the values that events tell.

use serde_json::json;

use super::*;

fn started() -> State {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    does(&mut state, "s", running(1, "t"));
    tells(
        &mut state,
        json!({"event": "turn_started", "session": "s", "request_id": "r", "transcript_seq": 3}),
    );
    assert!(state.sessions["s"].running);
    state
}

#[test]
fn only_an_end_a_terminal_error_or_a_newer_activity_clears_running() {
    let mut state = started();
    tells(&mut state, json!({"event": "error", "session": "s", "message": "careful", "terminal": false}));
    tells(&mut state, json!({"event": "error", "session": null, "message": "elsewhere", "terminal": true}));
    tells(&mut state, json!({"event": "error", "session": "s", "message": "busy", "request_id": "r"}));
    tells(&mut state, json!({"event": "session_closed", "session": "s", "reason": "unloaded"}));
    state.apply(frame(json!({"kind": "error", "message": "what was that"})));
    state.apply(frame(json!({"kind": "sessions_error", "message": "disk"})));
    assert!(state.sessions["s"].running);

    let mut ended = state.clone();
    let changes =
        tells(&mut ended, json!({"event": "turn_ended", "session": "s", "stop_reason": "end_turn"}));
    assert!(changes.contains(&Change::TurnEnded { session: "s".into(), stop_reason: "end_turn".into() }));
    assert!(!ended.sessions["s"].running);

    let mut broken = state.clone();
    tells(
        &mut broken,
        json!({"event": "error", "session": "s", "message": "gone", "terminal": true, "request_id": "r"}),
    );
    assert!(!broken.sessions["s"].running);

    does(&mut state, "s", failed(2));
    assert!(!state.sessions["s"].running);
}

#[test]
fn a_terminal_error_of_another_request_does_not_end_the_turn_that_the_core_says_runs() {
    let mut state = started();
    tells(
        &mut state,
        json!({"event": "error", "session": "s", "message": "no", "terminal": true, "request_id": "other"}),
    );
    assert!(state.sessions["s"].running);
    tells(&mut state, json!({"event": "prompt_steered", "session": "s", "request_id": "other"}));
    tells(
        &mut state,
        json!({"event": "error", "session": "s", "message": "no", "terminal": true, "request_id": "other"}),
    );
    assert!(!state.sessions["s"].running, "it is one of the turn's prompts now");
}

#[test]
fn a_server_without_activities_is_understood() {
    let mut state = State::default();
    tells(&mut state, json!({"event": "turn_started", "session": "s"}));
    let ask = json!({"event": "permission_request", "session": "s", "request_id": "p", "title": "Run?", "options": [["y", "Yes"]]});
    tells(&mut state, ask);
    assert_eq!(state.awaiting()[0].input.options, [("y".to_owned(), "Yes".to_owned())]);
    tells(&mut state, json!({"event": "turn_ended", "session": "s", "stop_reason": "EndTurn"}));
    assert!(!state.sessions["s"].running);
    assert!(state.awaiting().is_empty());
}

#[test]
fn running_and_awaiting_are_rebuilt_from_a_list() {
    let mut state = State::default();
    lists(&mut state, &[("a", running(3, "t")), ("b", awaiting(5, "u", &[("p", 9)])), ("c", failed(2))]);
    assert!(state.sessions["a"].running);
    assert!(state.sessions["b"].running);
    assert!(!state.sessions["c"].running);
    assert_eq!(state.awaiting()[0].session, "b");
}

#[test]
fn what_awaits_an_answer_is_one_queue_over_all_sessions() {
    let mut state = State::default();
    lists(
        &mut state,
        &[
            ("a", awaiting(2, "t", &[("late", 12), ("later", 14)])),
            ("b", awaiting(2, "u", &[("first", 11), ("between", 13)])),
        ],
    );
    let ids: Vec<_> = state.awaiting().iter().map(|waiting| waiting.input.input_id.clone()).collect();
    assert_eq!(ids, ["first", "late", "between", "later"]);
}

#[test]
fn an_answered_request_leaves_the_queue_whichever_event_says_so() {
    let mut state = State::default();
    lists(&mut state, &[("s", awaiting(3, "t", &[("p", 1), ("q", 2)]))]);
    let resolved = json!({"event": "permission_resolved", "session": "s", "request_id": "p", "option_id": "allow", "by": {"kind": "client", "name": "phone"}});
    let changes = tells(&mut state, resolved);
    let [Change::InputResolved { request_id, option_id, by, .. }] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert_eq!(
        (request_id.as_str(), option_id.as_deref(), by.name.as_deref()),
        ("p", Some("allow"), Some("phone"))
    );
    assert_eq!(state.awaiting().len(), 1);
    does(&mut state, "s", running(5, "t"));
    assert!(state.awaiting().is_empty());
    assert!(state.sessions["s"].running);
}

#[test]
fn a_request_says_more_about_what_the_activity_lists_and_nothing_about_what_it_does_not() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    does(&mut state, "s", awaiting(2, "t", &[("p", 1)]));
    let ask = |id: &str| json!({"event": "permission_request", "session": "s", "request_id": id, "title": "Run?", "options": [], "tool_call_id": "call"});
    tells(&mut state, ask("p"));
    tells(&mut state, ask("answered-long-ago"));
    assert_eq!(state.sessions["s"].pending.len(), 1);
    assert_eq!(state.sessions["s"].pending[0].tool_call_id.as_deref(), Some("call"));
    does(&mut state, "s", awaiting(3, "t", &[("p", 1), ("q", 2)]));
    assert_eq!(
        state.sessions["s"].pending[0].tool_call_id.as_deref(),
        Some("call"),
        "kept when another one comes"
    );
}

#[test]
fn events_that_a_list_has_overtaken_do_not_end_the_turn_it_told_of() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    does(&mut state, "s", running(1, "first"));
    tells(&mut state, json!({"event": "turn_started", "session": "s"}));
    let _ = state.ask_sessions();
    lists(&mut state, &[("s", awaiting(4, "second", &[("p", 1)]))]);
    does(&mut state, "s", idle(2));
    tells(&mut state, json!({"event": "turn_ended", "session": "s", "stop_reason": "end_turn"}));
    assert!(state.sessions["s"].running);
    assert_eq!(state.awaiting().len(), 1);
    does(&mut state, "s", running(3, "second"));
    tells(&mut state, json!({"event": "turn_started", "session": "s"}));
    does(&mut state, "s", awaiting(4, "second", &[("p", 1)]));
    does(&mut state, "s", running(5, "second"));
    does(&mut state, "s", idle(6));
    tells(&mut state, json!({"event": "turn_ended", "session": "s", "stop_reason": "end_turn"}));
    assert!(!state.sessions["s"].running);
}

#[test]
fn every_policy_that_is_broadcast_is_applied() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let mut set = |mode: &str, request: Option<&str>| {
        let mut event = json!({"event": "execution_policy_changed", "session": "s", "policy": {"mode": mode, "sandbox": "read_only"}});
        if let Some(request) = request {
            event["request_id"] = json!(request);
        }
        tells(&mut state, event);
        serde_json::to_value(state.sessions["s"].policy.unwrap().mode).unwrap()
    };
    assert_eq!(set("yolo", None), "yolo", "from an older op");
    assert_eq!(set("accept_edits", Some("of-another-client")), "accept_edits");
}

#[test]
fn values_of_a_session_are_those_told_last() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    for event in [
        json!({"event": "models", "session": "s", "available": [{"id": "m", "name": "M", "description": null}], "current": "m"}),
        json!({"event": "config_options", "session": "s", "options": [{"id": "effort", "name": "Effort", "category": null, "current": "low", "choices": []}]}),
        json!({"event": "context_window", "session": "s", "used_tokens": 10, "context_window": 100}),
        json!({"event": "context_window", "session": "s", "used_tokens": 20, "context_window": 100, "cost_usd": 0.5}),
        json!({"event": "usage", "session": "s", "input_tokens": 7, "output_tokens": 8}),
        json!({"event": "queue_changed", "session": "s", "queue": [{"id": "t", "doc": []}], "paused": true}),
        json!({"event": "settings_changed", "session": "s", "effort": "high", "cwd": "/else", "config_options": {"effort": "high"}}),
        json!({"event": "worktree_discarded", "session": "s", "worktree_path": "/w", "removed_checkout": true}),
    ] {
        let changes = tells(&mut state, event);
        assert_eq!(changes, [Change::SessionChanged { session: "s".into() }]);
    }
    let session = &state.sessions["s"];
    assert_eq!(session.model.as_deref(), Some("m"));
    assert_eq!(session.models.as_ref().unwrap().available.len(), 1);
    assert_eq!(session.config_options.as_ref().unwrap()[0].current, "high");
    assert_eq!(session.context_window.unwrap().used_tokens, 20);
    assert_eq!(session.usage.as_ref().unwrap().output_tokens, 8);
    assert_eq!((session.queue.len(), session.queue_paused), (1, true));
    assert_eq!((session.effort.as_deref(), session.cwd.as_deref()), (Some("high"), Some("/else")));
    assert!(session.worktree_discarded);
}

#[test]
fn models_without_a_current_one_take_no_model_away() {
    let mut state = State::default();
    let mut listed = snapshot("s", idle(0));
    listed.model = Some("m".into());
    state.apply(ServerFrame::Sessions { sessions: vec![listed] });
    tells(&mut state, json!({"event": "models", "session": "s", "available": [], "current": ""}));
    assert_eq!(state.sessions["s"].model.as_deref(), Some("m"));
}

#[test]
fn the_newest_diff_of_the_newest_turn_is_kept() {
    let mut state = State::default();
    let diff = |text: &str, seq: u64| json!({"event": "turn_diff", "session": "s", "diff": text, "transcript_seq": seq});
    tells(&mut state, diff("one", 5));
    tells(&mut state, diff("two", 9));
    tells(&mut state, diff("one", 5));
    assert_eq!(state.sessions["s"].diff.as_ref().unwrap().diff, "two");
    tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": 11}));
    assert_eq!(state.sessions["s"].diff, None);
}

#[test]
fn rules_for_the_session_come_and_go() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let rule = json!({"type": "command", "command": "cargo test"});
    let resolved = json!({"event": "permission_resolved", "session": "s", "request_id": "p", "option_id": "allow", "by": {"kind": "client"}, "kept_rule": rule});
    tells(&mut state, resolved.clone());
    tells(&mut state, resolved);
    assert_eq!(serde_json::to_value(&state.sessions["s"].rules).unwrap(), json!([rule]));
    tells(&mut state, json!({"event": "rule_removed", "session": "s", "rule": rule}));
    assert!(state.sessions["s"].rules.is_empty());
}
