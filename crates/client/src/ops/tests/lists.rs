//! Lists: how they merge with what events told, and what happens when they fail or something was missed.

use serde_json::json;

use super::*;
use crate::ops::Want;

#[test]
fn a_late_list_does_not_roll_a_session_back() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(6))]);
    let _ = state.ask_sessions();
    does(&mut state, "s", running(7, "t"));
    tells(&mut state, json!({"event": "turn_started", "session": "s"}));
    lists(&mut state, &[("s", idle(6))]);
    assert_eq!(state.sessions["s"].activity, running(7, "t"));
    assert!(state.sessions["s"].running);
}

#[test]
fn a_late_activity_event_does_not_roll_a_list_back() {
    let mut state = State::default();
    lists(&mut state, &[("s", awaiting(8, "t", &[("p", 3)]))]);
    let changes = does(&mut state, "s", running(7, "t"));
    assert_eq!(changes, []);
    assert_eq!(state.awaiting().len(), 1);
}

#[test]
fn what_events_told_after_a_list_was_asked_for_is_newer_than_the_list() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let _ = state.ask_sessions();
    tells(&mut state, json!({"event": "session_title_changed", "session": "s", "title": "Login"}));
    let policy = json!({"mode": "yolo", "sandbox": "read_only"});
    tells(&mut state, json!({"event": "execution_policy_changed", "session": "s", "policy": policy}));
    lists(&mut state, &[("s", idle(0))]);
    assert_eq!(state.sessions["s"].title.as_deref(), Some("Login"));
    assert_eq!(serde_json::to_value(state.sessions["s"].policy).unwrap(), policy);

    let _ = state.ask_sessions();
    lists(&mut state, &[("s", idle(0))]);
    assert_eq!(
        state.sessions["s"].title.as_deref(),
        Some("Untitled session"),
        "a list asked for since is newer"
    );
}

#[test]
fn sessions_absent_from_a_fresh_list_are_gone_but_a_later_receipt_is_kept() {
    let mut state = State::default();
    lists(&mut state, &[("old", idle(0)), ("kept", idle(0))]);
    let _ = state.ask_sessions();
    tells(&mut state, json!({"event": "session_created", "session": "new", "cwd": "/work"}));
    let changes = lists(&mut state, &[("kept", idle(0))]);
    assert!(changes.contains(&Change::SessionRemoved { session: "old".into() }));
    assert_eq!(state.list.order, ["new", "kept"]);
    assert!(state.sessions["new"].listed);

    let _ = state.ask_sessions();
    lists(&mut state, &[("kept", idle(0))]);
    assert!(!state.sessions.contains_key("new"), "a list asked for after the receipt would have it");
}

#[test]
fn two_lists_asked_for_are_told_from_each_other_by_their_order() {
    let mut state = State::default();
    lists(&mut state, &[]);
    let _ = state.ask_sessions();
    tells(&mut state, json!({"event": "session_created", "session": "new"}));
    let _ = state.ask_sessions();
    lists(&mut state, &[]);
    assert!(state.sessions.contains_key("new"), "the first could not have it");
    lists(&mut state, &[]);
    assert!(!state.sessions.contains_key("new"), "the second could");
}

#[test]
fn a_history_on_the_screen_outlives_a_list_without_its_session() {
    let mut state = State::default();
    lists(&mut state, &[("archived", idle(0))]);
    let _ = state.ask_transcript("archived", None, "page");
    let _ = state.ask_sessions();
    lists(&mut state, &[]);
    assert!(!state.sessions["archived"].listed);
    assert!(state.list.order.is_empty());
    state.close_transcript("archived");
    let _ = state.ask_sessions();
    lists(&mut state, &[]);
    assert!(state.sessions.is_empty());
}

#[test]
fn a_failed_list_keeps_the_last_good_one() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(3))]);
    let _ = state.ask_sessions();
    let changes = state.apply(frame(json!({"kind": "sessions_error", "message": "disk"})));
    assert_eq!(changes, [Change::ListFailed { message: "disk".into() }]);
    assert_eq!(state.list.order, ["s"]);
    assert_eq!(state.sessions["s"].activity, idle(3));
    assert_eq!(state.list.error.as_deref(), Some("disk"));

    let _ = state.ask_sessions();
    lists(&mut state, &[("s", idle(3))]);
    assert_eq!(state.list.error, None);
}

#[test]
fn a_session_can_be_used_from_its_receipt_alone() {
    let mut state = State::default();
    state.apply(frame(json!({"kind": "sessions_error", "message": "disk"})));
    let baseline = json!({"kind": "current", "ref": "main", "sha": "0123", "display": "main @ 0123"});
    tells(
        &mut state,
        json!({"event": "session_created", "session": "s", "cwd": "/w/app", "project_path": "/p/app",
            "worktree_path": "/w", "worktree_baseline": baseline}),
    );
    let session = &state.sessions["s"];
    assert_eq!(session.cwd.as_deref(), Some("/w/app"));
    assert_eq!(session.project_path.as_deref(), Some("/p/app"));
    assert_eq!(session.worktree_path.as_deref(), Some("/w"));
    assert_eq!(serde_json::to_value(&session.worktree_baseline).unwrap(), baseline);
    assert_eq!(state.list.order, ["s"]);
}

#[test]
fn provenance_is_never_derived_from_a_directory() {
    let mut state = State::default();
    tells(
        &mut state,
        json!({"event": "session_created", "session": "s", "cwd": "/p/.signalbox-worktrees/app-1"}),
    );
    let session = &state.sessions["s"];
    assert_eq!(
        (&session.worktree_path, &session.worktree_baseline, &session.project_path),
        (&None, &None, &None)
    );
    // A receipt without them takes nothing away that is known, either.
    let mut state = State::default();
    let mut listed = snapshot("s", idle(0));
    listed.worktree_path = Some("/w".into());
    state.apply(ServerFrame::Sessions { sessions: vec![listed] });
    tells(&mut state, json!({"event": "session_created", "session": "s"}));
    assert_eq!(state.sessions["s"].worktree_path.as_deref(), Some("/w"));
    assert_eq!(state.sessions["s"].cwd.as_deref(), Some("/work"));
}

#[test]
fn after_a_lag_the_list_and_every_open_transcript_are_asked_for_again() {
    let mut state = State::default();
    lists(&mut state, &[("a", idle(1)), ("b", idle(1))]);
    let page = state.ask_transcript("a", None, "page-1");
    state.apply(page_of(&page, json!([]), None, None));
    assert_eq!(state.wants(), []);

    let changes = state.apply(frame(json!({"kind": "lagged", "missed": 12})));
    assert_eq!(changes, [Change::Stale { missed: 12 }]);
    assert_eq!(state.wants(), [Want::Sessions, Want::Transcript("a".into())]);

    let _ = state.ask_sessions();
    let page = state.ask_transcript("a", None, "page-2");
    assert_eq!(state.wants(), [], "what is asked for is not wanted again");
    lists(&mut state, &[("a", idle(2)), ("b", idle(1))]);
    state.apply(page_of(&page, json!([]), None, Some(4)));
    assert_eq!(state.wants(), []);
    assert!(!state.list.stale);
}

#[test]
fn a_list_asked_for_before_a_lag_does_not_make_good_for_it() {
    let mut state = State::default();
    lists(&mut state, &[]);
    let _ = state.ask_sessions();
    state.apply(frame(json!({"kind": "lagged", "missed": 1})));
    lists(&mut state, &[]);
    assert_eq!(state.wants(), [Want::Sessions]);
}

#[test]
fn a_new_connection_begins_with_a_list_nobody_asks_for() {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(1))]);
    let _ = state.ask_sessions();
    let _ = state.ask_transcript("s", None, "page-1");
    state.connected();
    assert_eq!(state.wants(), [Want::Transcript("s".into())], "the welcome is on its way");
    lists(&mut state, &[("s", idle(2))]);
    assert!(!state.list.stale);
    assert_eq!(state.sessions["s"].activity, idle(2));
}

#[test]
fn a_session_that_runs_and_was_on_no_list_makes_the_list_wanted() {
    let mut state = State::default();
    lists(&mut state, &[]);
    tells(&mut state, json!({"event": "session_title_changed", "session": "far", "title": "Old"}));
    assert_eq!(state.wants(), [], "it may well be in the archive");
    tells(&mut state, json!({"event": "turn_started", "session": "far"}));
    assert_eq!(state.wants(), [Want::Sessions]);
}

#[test]
fn archived_and_deleted_sessions_leave_the_list() {
    let mut state = State::default();
    lists(&mut state, &[("a", idle(0)), ("b", idle(0))]);
    tells(&mut state, json!({"event": "session_archived", "session": "a", "archived": true}));
    assert_eq!(state.list.order, ["b"]);
    assert!(state.sessions["a"].archived);
    tells(&mut state, json!({"event": "session_archived", "session": "a", "archived": false}));
    assert_eq!(state.list.order, ["a", "b"]);
    tells(&mut state, json!({"event": "session_closed", "session": "b", "reason": "unloaded"}));
    assert!(state.sessions["b"].unloaded);
    let changes = tells(&mut state, json!({"event": "session_closed", "session": "b", "reason": "deleted"}));
    assert_eq!(changes, [Change::SessionRemoved { session: "b".into() }]);
    assert_eq!(state.list.order, ["a"]);
}

/// The page that answers a request.
fn page_of(
    request: &ClientRequest,
    entries: serde_json::Value,
    next: Option<u64>,
    through: Option<u64>,
) -> ServerFrame {
    super::pages::page_of(request, entries, next, through)
}
