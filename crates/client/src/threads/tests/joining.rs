//! Joining, falling behind and coming back.

use serde_json::json;
use signalbox_protocol::app::{TurnItemsView, TurnStatus};

use super::{Watched, command, message, result, resumed};
use crate::threads::{Behind, Change, Phase, ThreadState, Want};

#[test]
fn what_was_told_before_the_snapshot_is_not_taken_in_again() {
    let turn = json!({"id": "u1", "status": "inProgress", "items": [message("i1", "Hello")]});
    let mut watched = Watched::of(result(json!([turn])));
    // Asked before the snapshot, read after it.
    watched.state.thread.turns[0].items.push(serde_json::from_value(command("i2", "inProgress")).unwrap());
    watched.is_asked("a1", "i2").unwrap();
    let late = json!({"turnId": "u1", "itemId": "i1", "delta": "lo"});
    let changes = watched.hears_at("item/agentMessage/delta", late, "9-8", 0).unwrap();
    assert_eq!(changes, [Change::Superseded]);
    let resolved = json!({"requestId": "a1", "approvalId": "a1", "by": {"kind": "interrupt"}});
    watched.hears_at("serverRequest/resolved", resolved, "9-9", 1).unwrap();
    assert!(watched.state.requests.is_empty());
    watched.hears("item/agentMessage/delta", json!({"turnId": "u1", "itemId": "i1", "delta": "!"})).unwrap();
    assert_eq!(watched.item("i1")["text"], "Hello!");
}

#[test]
fn an_outline_knows_turns_from_the_next_one_on() {
    let mut watched = Watched::new();
    watched.state = ThreadState::outline(resumed(result(json!([]))));
    watched.hears("thread/status/changed", json!({"status": {"type": "active", "activeFlags": []}})).unwrap();
    watched.hears("item/agentMessage/delta", json!({"turnId": "u0", "itemId": "i1", "delta": "x"})).unwrap();
    watched.completes("u0", &message("i1", "x")).unwrap();
    watched.hears("turn/plan/updated", json!({"turnId": "u0", "plan": []})).unwrap();
    watched.ends("u0").unwrap();
    assert!(watched.state.thread.turns.is_empty());
    watched.turn("u1");
    watched.starts("u1", &message("i2", "")).unwrap();
    assert_eq!(watched.state.thread.turns[0].items.len(), 1);
    // Older ones are read as pages, and none is here twice.
    let old = json!({"id": "u0", "status": "completed", "items": []});
    let turns = serde_json::from_value(json!([old, watched.state.thread.turns[0]])).unwrap();
    watched.state.older_turns_read(turns, None);
    let ids: Vec<&str> = watched.state.thread.turns.iter().map(|turn| turn.id.as_str()).collect();
    assert_eq!(ids, ["u0", "u1"]);
    assert_eq!(watched.state.thread.turns[1].items.len(), 1);
}

#[test]
fn items_that_a_snapshot_left_out_are_not_missed() {
    let turn = json!({"id": "u1", "status": "inProgress", "items": [], "itemsView": "summary"});
    let mut watched = Watched::of(result(json!([turn])));
    watched.hears("thread/status/changed", json!({"status": {"type": "active", "activeFlags": []}})).unwrap();
    watched.completes("u1", &message("i1", "long ago")).unwrap();
    watched.starts("u1", &message("i2", "")).unwrap();
    let turn = watched.state.turn("u1").unwrap();
    assert_eq!((turn.items.len(), turn.items_view), (1, TurnItemsView::Summary));
}

#[test]
fn a_continued_result_keeps_the_state_and_goes_on_behind_it() {
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.starts("u1", &message("i1", "Hel")).unwrap();
    watched.state.disconnected();
    assert_eq!(watched.state.wants(), [Want::Resume]);
    assert_eq!(watched.state.resume_params().after_cursor.as_deref(), Some("9-13"));
    let mut continued = result(json!([]));
    continued["continued"] = json!(true);
    continued["cursor"] = json!("9-40");
    watched.state.rejoined(resumed(continued));
    assert_eq!(watched.state.phase, Phase::Live);
    assert_eq!(watched.item("i1")["text"], "Hel");
    let more = watched.grows("item/agentMessage/delta", "i1", json!({"delta": "lo"})).unwrap();
    assert!(matches!(&more[..], [Change::ItemGrew { .. }]), "{more:?}");
    assert_eq!(watched.item("i1")["text"], "Hello");
}

#[test]
fn who_goes_on_hears_again_what_everybody_was_told() {
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.state.unsubscribed();
    let (cursor, seq) = (watched.state.cursor().cloned(), watched.state.seq);
    let idle = json!({"activity": {"revision": 9, "state": {"kind": "idle"}}});
    watched.hears("thread/activity/changed", idle).unwrap();
    assert!(watched.state.seq > seq);
    assert_eq!(watched.state.cursor().cloned(), cursor, "the rest was not told");
    let mut continued = result(json!([]));
    continued["continued"] = json!(true);
    watched.state.rejoined(resumed(continued));
    assert_eq!(watched.state.seq, seq, "what follows the cursor comes again");
    let earlier = json!({"activity": {"revision": 8, "state": {"kind": "idle"}}});
    watched.hears("thread/activity/changed", earlier).unwrap();
    assert_eq!(watched.state.thread.activity.revision, 8);
}

#[test]
fn another_result_replaces_the_state() {
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.starts("u1", &command("i1", "inProgress")).unwrap();
    watched.is_asked("a1", "i1").unwrap();
    watched.state.disconnected();
    assert!(watched.state.requests.is_empty(), "they were made over the old connection");
    let ended = json!({"id": "u1", "status": "interrupted", "items": [message("i1", "x")]});
    let mut whole = result(json!([ended]));
    whole["cursor"] = json!("10-3");
    watched.state.rejoined(resumed(whole));
    assert_eq!(watched.state.turn("u1").unwrap().status, TurnStatus::Interrupted);
    watched.hears_at("thread/name/updated", json!({"threadName": "n"}), "10-4", 2).unwrap();
    assert_eq!(watched.state.thread.name.as_deref(), Some("n"));
}

#[test]
fn who_was_too_slow_asks_for_the_whole() {
    let mut watched = Watched::new();
    watched.turn("u1");
    watched.hears("thread/resyncRequired", json!({"reason": "too slow"})).unwrap();
    watched.starts("u1", &message("i1", "")).unwrap();
    assert!(watched.state.turn("u1").unwrap().items.is_empty(), "nothing is built on what has a gap");
    assert_eq!(watched.state.resume_params().after_cursor, None);
    watched.state.disconnected();
    assert_eq!(watched.state.phase, Phase::Behind(Behind::Resync { reason: "too slow".into() }));
    assert_eq!(watched.state.resume_params().after_cursor, None);
}

#[test]
fn the_list_of_approvals_can_be_read() {
    let mut watched = Watched::new();
    let approval = |id: &str, thread: &str| {
        json!({"approvalId": id, "threadId": thread, "turnId": "u1", "kind": "tool", "title": "x", "options": [],
            "sequence": 1, "requestedAtMs": 1, "availableDecisions": ["decline", "cancel"]})
    };
    let list = json!({"data": [approval("a1", "t"), approval("a2", "other")]});
    watched.state.approvals_read(serde_json::from_value(list).unwrap());
    assert_eq!(watched.state.approvals.keys().collect::<Vec<_>>(), ["a1"]);
}
