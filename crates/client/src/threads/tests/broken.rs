//! Promises that are not kept are told, and change nothing.

use serde_json::{Value, json};

use super::{Watched, command, message};
use crate::threads::{Behind, Cursor, Phase, Problem, ThreadState, Want};

fn cursor(place: u64) -> Cursor {
    Cursor { life: "9".to_owned(), place }
}

/// In a turn with a complete message `i1` and an open command `i2`, this is a problem; the turn stays as it is.
fn breaks(method: &str, params: Value, problem: &Problem) {
    let mut watched = story();
    let before = watched.state.thread.turns.clone();
    let broken = watched.hears(method, params).unwrap_err();
    assert_eq!((&broken.problem, broken.method.as_str()), (problem, method));
    assert_eq!(watched.state.thread.turns, before);
    assert_eq!(watched.state.phase, Phase::Behind(Behind::Broken(broken)));
    assert_eq!(watched.state.wants(), [Want::Resume]);
    assert_eq!(watched.state.resume_params().after_cursor, None, "it cannot be trusted");
}

fn story() -> Watched {
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.starts("u1", &message("i1", "")).unwrap();
    watched.completes("u1", &message("i1", "Hello")).unwrap();
    watched.starts("u1", &command("i2", "inProgress")).unwrap();
    watched
}

#[test]
fn cursors_that_do_not_increase() {
    let mut watched = story();
    let place = watched.place;
    let broken =
        watched.hears_at("thread/archived", json!({}), &format!("9-{place}"), watched.seq).unwrap_err();
    let problem = Problem::CursorOrder { before: cursor(place), found: cursor(place) };
    assert_eq!(broken.problem, problem);
    assert!(!watched.state.thread.archived);
    let other_life = watched.hears_at("thread/archived", json!({}), "8-900", 99).unwrap_err();
    assert!(matches!(other_life.problem, Problem::CursorOrder { .. }));
    let no_cursor = watched.hears_at("thread/archived", json!({}), "soon", 99).unwrap_err();
    assert_eq!(no_cursor.problem, Problem::NoCursor("soon".to_owned()));
}

#[test]
fn facts_that_go_back() {
    let mut watched = story();
    let seq = watched.seq;
    let broken = watched.hears_at("thread/archived", json!({}), "9-900", 1).unwrap_err();
    assert_eq!(broken.problem, Problem::SeqOrder { before: seq, found: 1 });
    let activity = |revision: u64| json!({"activity": {"revision": revision, "state": {"kind": "idle"}}});
    let mut watched = story();
    watched.hears("thread/activity/changed", activity(4)).unwrap();
    let broken = watched.hears("thread/activity/changed", activity(3)).unwrap_err();
    assert_eq!(broken.problem, Problem::RevisionOrder { before: 4, found: 3 });
}

#[test]
fn turns_out_of_order() {
    let turn = |id: &str| json!({"turn": {"id": id, "status": "inProgress", "items": []}});
    breaks("turn/started", turn("u1"), &Problem::TurnStartedTwice("u1".into()));
    breaks("turn/started", turn("u2"), &Problem::TurnStillRuns("u1".into()));
    breaks("turn/completed", turn("u1"), &Problem::Status("idle"));
    breaks("turn/diff/updated", json!({"turnId": "u2", "diff": ""}), &Problem::UnknownTurn("u2".into()));
    breaks("thread/reverted", json!({"beforeTurnId": "u2"}), &Problem::UnknownTurn("u2".into()));
    breaks("thread/status/changed", json!({"status": {"type": "idle"}}), &Problem::ItemOpen("i2".into()));

    let mut watched = Watched::new();
    let broken = watched.hears("turn/started", turn("u1")).unwrap_err();
    assert_eq!(broken.problem, Problem::Status("active"));
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.ends("u1").unwrap();
    let broken = watched.ends("u1").unwrap_err();
    assert_eq!(broken.problem, Problem::TurnEnded("u1".into()));
}

#[test]
fn items_out_of_order() {
    let started = |item: Value| json!({"turnId": "u1", "item": item, "startedAtMs": 1});
    let completed = |mut item: Value| {
        item["completedAtMs"] = json!(5);
        json!({"turnId": "u1", "item": item, "completedAtMs": 5})
    };
    let delta = |item: &str| json!({"turnId": "u1", "itemId": item, "delta": "x"});
    breaks("item/started", started(message("i2", "")), &Problem::ItemStartedTwice("i2".into()));
    let mut late = message("i3", "");
    late["late"] = json!(true);
    breaks("item/started", started(late), &Problem::Late("i3".into()));
    breaks("item/completed", completed(message("i3", "")), &Problem::UnknownItem("i3".into()));
    breaks("item/completed", completed(message("i2", "")), &Problem::OtherKind("i2".into()));
    let open = json!({"turnId": "u1", "item": command("i2", "completed"), "completedAtMs": 5});
    breaks("item/completed", open, &Problem::ItemIncomplete("i2".into()));
    breaks("item/agentMessage/delta", delta("i1"), &Problem::ItemComplete("i1".into()));
    breaks("item/agentMessage/delta", delta("i2"), &Problem::OtherKind("i2".into()));
    breaks("item/plan/delta", delta("i9"), &Problem::UnknownItem("i9".into()));

    let mut watched = Watched::new();
    watched.turn("u1");
    watched.ends("u1").unwrap();
    let broken = watched.starts("u1", &message("i1", "")).unwrap_err();
    assert_eq!(broken.problem, Problem::Late("i1".into()));
}

#[test]
fn parts_out_of_order() {
    for (method, more) in [
        ("item/reasoning/summaryPartAdded", json!({"summaryIndex": 1})),
        ("item/reasoning/summaryTextDelta", json!({"summaryIndex": 0, "delta": "x"})),
    ] {
        let mut watched = Watched::new();
        watched.turn("u1");
        let thought = super::item("i1", json!({"type": "reasoning", "summary": [], "content": []}));
        watched.starts("u1", &thought).unwrap();
        let broken = watched.grows(method, "i1", more).unwrap_err();
        assert!(matches!(broken.problem, Problem::Part { .. }), "{broken}");
    }
}

#[test]
fn approvals_that_outlive_what_they_hold_up() {
    let approval = json!({"approval": {
        "approvalId": "a1", "threadId": "t", "turnId": "u1", "itemId": "i2", "kind": "command", "title": "make", "options": [],
        "sequence": 1, "requestedAtMs": 1, "availableDecisions": ["decline", "cancel"],
    }});
    let mut watched = story();
    watched.hears("approval/requested", approval.clone()).unwrap();
    let mut twice = watched.state.clone();
    assert_eq!(
        watched.completes("u1", &command("i2", "completed")).unwrap_err().problem,
        Problem::ApprovalWaits("a1".into())
    );
    std::mem::swap(&mut watched.state, &mut twice);
    assert_eq!(
        watched.hears("approval/requested", approval).unwrap_err().problem,
        Problem::ApprovalTwice("a1".into())
    );

    let mut watched = story();
    assert_eq!(watched.is_asked("a1", "i1").unwrap_err().problem, Problem::ItemComplete("i1".into()));
    let mut watched = story();
    watched.completes("u1", &command("i2", "completed")).unwrap();
    watched.ends("u1").unwrap();
    assert_eq!(watched.is_asked("a1", "i2").unwrap_err().problem, Problem::TurnEnded("u1".into()));
}

#[test]
fn a_problem_says_what_was_told_of_which_thread() {
    let mut watched = Watched::new();
    let told =
        signalbox_protocol::app::ServerNotification::decode("thread/archived", json!({"threadId": "t"}));
    let broken = ThreadState::notified(&mut watched.state, &told.unwrap().unwrap(), None).unwrap_err();
    assert_eq!(broken.to_string(), "thread/archived for thread t: it has no place in the thread's stream");
}
