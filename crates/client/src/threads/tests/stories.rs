//! What each notification changes.

use serde_json::{Value, json};
use signalbox_protocol::app::{ServerNotification, ThreadStatus, TurnItemsView, TurnStatus};

use super::{Watched, command, item, message};
use crate::threads::{Behind, Change, Phase, Queue, Want};

#[test]
fn every_notification_of_a_thread_has_its_place_in_one_story() {
    let mut watched = Watched::new();
    let thread = super::result(json!([]))["thread"].clone();
    watched.hears("thread/started", json!({"thread": thread})).unwrap();
    watched.turn("u1");
    let activity = json!({"revision": 1, "state": {"kind": "running", "turn_id": "u1"}});
    watched.hears("thread/activity/changed", json!({"activity": activity})).unwrap();
    assert_eq!(watched.state.thread.activity.revision, 1);

    // Texts grow by deltas, and are what the completion says in the end.
    watched.starts("u1", &message("i1", "")).unwrap();
    for more in ["Hel", "lo"] {
        let changes = watched.grows("item/agentMessage/delta", "i1", json!({"delta": more})).unwrap();
        assert_eq!(changes, [Change::ItemGrew { turn: "u1".into(), item: "i1".into() }]);
    }
    assert_eq!(watched.item("i1")["text"], "Hello");
    watched.completes("u1", &message("i1", "Hello.")).unwrap();
    assert_eq!(watched.item("i1")["text"], "Hello.");

    let thought = item("i2", json!({"type": "reasoning", "summary": [], "content": []}));
    watched.starts("u1", &thought).unwrap();
    watched.grows("item/reasoning/summaryPartAdded", "i2", json!({"summaryIndex": 0})).unwrap();
    let more = json!({"summaryIndex": 0, "delta": "hm"});
    watched.grows("item/reasoning/summaryTextDelta", "i2", more).unwrap();
    assert_eq!(watched.item("i2")["summary"], json!(["hm"]));
    let thought = item("i2", json!({"type": "reasoning", "summary": ["hm"], "content": []}));
    watched.completes("u1", &thought).unwrap();

    watched.starts("u1", &item("i3", json!({"type": "plan", "text": ""}))).unwrap();
    watched.grows("item/plan/delta", "i3", json!({"delta": "# First"})).unwrap();
    assert_eq!(watched.item("i3")["text"], "# First");
    let plan = json!([{"step": "look", "status": "inProgress"}]);
    watched.hears("turn/plan/updated", json!({"turnId": "u1", "plan": plan})).unwrap();
    watched.completes("u1", &item("i3", json!({"type": "plan", "text": "# First"}))).unwrap();

    // An approval: told, asked, resolved, and only then does the item end.
    watched.starts("u1", &command("i4", "inProgress")).unwrap();
    let approval = json!({
        "approvalId": "a1", "threadId": "t", "turnId": "u1", "itemId": "i4", "kind": "command", "title": "make",
        "options": [], "sequence": 1, "requestedAtMs": 1, "availableDecisions": ["accept", "decline", "cancel"],
    });
    watched.hears("approval/requested", json!({"approval": approval})).unwrap();
    assert_eq!(watched.is_asked("a1", "i4").unwrap(), [Change::Asked { approval: "a1".into() }]);
    assert_eq!((watched.state.approvals.len(), watched.state.requests.len()), (1, 1));
    let resolved = json!({"requestId": "a1", "approvalId": "a1", "decision": "accept", "by": {"kind": "client", "name": "other"}});
    let changes = watched.hears("serverRequest/resolved", resolved).unwrap();
    assert!(
        matches!(&changes[..], [Change::ApprovalResolved { resolved }] if resolved.by.name.as_deref() == Some("other"))
    );
    assert_eq!((watched.state.approvals.len(), watched.state.requests.len()), (0, 0));
    watched.grows("item/commandExecution/outputDelta", "i4", json!({"delta": "done\n"})).unwrap();
    assert_eq!(watched.item("i4")["aggregatedOutput"], "done\n");
    watched.completes("u1", &command("i4", "completed")).unwrap();

    let change = json!({"path": "/work/a", "kind": {"type": "add"}, "diff": "a"});
    let edit = |changes: Value| {
        item("i5", json!({"type": "fileChange", "changes": changes, "status": "inProgress"}))
    };
    watched.starts("u1", &edit(json!([]))).unwrap();
    watched.grows("item/fileChange/patchUpdated", "i5", json!({"changes": [change]})).unwrap();
    assert_eq!(watched.item("i5")["changes"], json!([change]));
    watched.completes("u1", &edit(json!([change]))).unwrap();

    watched.hears("turn/diff/updated", json!({"turnId": "u1", "diff": "+a"})).unwrap();
    let tokens = |n: u64| json!({"totalTokens": n, "inputTokens": n, "cachedInputTokens": 0, "outputTokens": 0, "reasoningOutputTokens": 0});
    let usage = json!({"total": tokens(5), "last": tokens(4)});
    watched.hears("thread/tokenUsage/updated", json!({"turnId": "u1", "tokenUsage": usage})).unwrap();
    watched.hears("warning", json!({"message": "odd"})).unwrap();
    let error = json!({"turnId": "u1", "error": {"message": "bad"}, "willRetry": false});
    assert!(matches!(&watched.hears("error", error).unwrap()[..], [Change::Error { turn: Some(_), .. }]));
    {
        let turn = watched.state.turn("u1").unwrap();
        assert_eq!((turn.plan.as_ref().unwrap().len(), turn.diff.as_deref()), (1, Some("+a")));
        assert_eq!(turn.token_usage.as_ref().unwrap().last.total_tokens, 4);
    }
    assert_eq!(watched.ends("u1").unwrap(), [Change::TurnEnded { turn: "u1".into() }]);
    let turn = watched.state.turn("u1").unwrap();
    assert_eq!((turn.status, turn.items.len(), turn.duration_ms), (TurnStatus::Completed, 5, Some(7)));
    assert_eq!(turn.items_view, TurnItemsView::Full, "the items are those that were told before");

    // Between turns.
    watched.hears("thread/name/updated", json!({"threadName": "Fine work"})).unwrap();
    assert_eq!(watched.state.thread.name.as_deref(), Some("Fine work"));
    let settings = json!({
        "cwd": "/other", "model": "big", "modelProvider": "rehearsal", "approvalPolicy": "never", "approvalsReviewer": "user",
        "sandboxPolicy": {"type": "dangerFullAccess"}, "collaborationMode": {"mode": "default", "settings": {"model": "big"}},
        "policy": {"mode": "yolo", "sandbox": "danger_full_access"},
    });
    assert_eq!(
        watched.hears("thread/settings/updated", json!({"threadSettings": settings})).unwrap(),
        [Change::Settings]
    );
    assert_eq!((watched.state.settings.model.as_str(), watched.state.thread.cwd.as_str()), ("big", "/other"));
    watched.hears("thread/models/updated", json!({"data": [], "current": "big"})).unwrap();
    assert_eq!(watched.state.models, Some((Vec::new(), "big".to_owned())));
    watched.hears("thread/configOptions/updated", json!({"options": []})).unwrap();
    assert_eq!(watched.state.config_options, Some(Vec::new()));
    let command = json!({"name": "web", "description": "Searches"});
    let heard = watched.hears("thread/commands/updated", json!({"commands": [command]})).unwrap();
    assert_eq!((heard, watched.state.commands.as_ref().unwrap().len()), (vec![Change::Commands], 1));
    watched.state.queue_asked();
    assert_eq!(watched.state.wants(), []);
    assert_eq!(watched.hears("thread/queue/changed", json!({})).unwrap(), [Change::Queue]);
    watched.state.queue_read(Vec::new(), true);
    assert_eq!(watched.state.queue, Some(Queue { entries: Vec::new(), paused: true }));
    // It changed before it was read.
    assert_eq!(watched.state.wants(), [Want::Queue]);
    watched.hears("thread/worktree/discarded", json!({"path": "/w", "removedCheckout": true})).unwrap();
    assert_eq!(watched.state.thread.worktree, None);
    watched.hears("thread/archived", json!({})).unwrap();
    assert!(watched.state.thread.archived);
    watched.hears("thread/unarchived", json!({})).unwrap();
    assert!(!watched.state.thread.archived);

    // What comes after the end is late, complete at once, and may be told again.
    let mut late = message("i6", "by the way");
    late["late"] = json!(true);
    watched.starts("u1", &late).unwrap();
    watched.completes("u1", &late).unwrap();
    late["text"] = json!("by the way, twice");
    watched.completes("u1", &late).unwrap();
    assert_eq!(watched.item("i6")["text"], "by the way, twice");

    watched.hears("thread/reverted", json!({"beforeTurnId": "u1"})).unwrap();
    assert!(watched.state.thread.turns.is_empty());
    assert_eq!(watched.state.phase, Phase::Live);
    watched.hears("thread/resyncRequired", json!({"reason": "slow"})).unwrap();
    assert_eq!(watched.state.phase, Phase::Behind(Behind::Resync { reason: "slow".into() }));
    assert_eq!(watched.state.wants(), [Want::Resume]);
    watched.status(json!({"type": "notLoaded"}));
    assert_eq!(watched.state.thread.status, ThreadStatus::NotLoaded);
    assert_eq!(watched.hears("thread/closed", json!({})).unwrap(), [Change::FellBehind]);
    assert_eq!(watched.hears("thread/deleted", json!({})).unwrap(), [Change::Deleted]);
    assert_eq!(watched.state.phase, Phase::Deleted);
    assert_eq!(watched.state.wants(), []);

    let elsewhere = ["account/", "provider/", "event"];
    let of_threads = |method: &&&str| !elsewhere.iter().any(|start| method.starts_with(start));
    let all: Vec<&str> = ServerNotification::METHODS.iter().filter(of_threads).copied().collect();
    let missing: Vec<&&str> = all.iter().filter(|method| !watched.told.contains(**method)).collect();
    assert!(missing.is_empty(), "no story has {missing:?}");
}

#[test]
fn events_of_other_threads_change_nothing() {
    let mut watched = Watched::new();
    let before = watched.state.clone();
    for (method, params) in [
        ("thread/deleted", json!({"threadId": "other"})),
        ("thread/name/updated", json!({"threadId": "other", "threadName": "x"})),
        ("warning", json!({"threadId": null, "message": "of no thread"})),
    ] {
        let told = ServerNotification::decode(method, params).unwrap().unwrap();
        assert_eq!(watched.state.notified(&told, None), Ok(Vec::new()));
    }
    assert_eq!(watched.state, before);
}

#[test]
fn whoever_has_left_still_hears_what_everybody_is_told() {
    let mut watched = Watched::new();
    watched.turn("u1");
    let last = watched.state.cursor().unwrap().to_string();
    watched.state.unsubscribed();
    assert_eq!(watched.state.wants(), [], "that was its own wish");
    watched.status(json!({"type": "idle"}));
    watched.hears("thread/name/updated", json!({"threadName": "n"})).unwrap();
    assert_eq!(watched.state.thread.status, ThreadStatus::Idle);
    assert_eq!(watched.state.thread.name.as_deref(), Some("n"));
    assert_eq!(watched.state.turn("u1").unwrap().status, TurnStatus::InProgress, "as far as it knows");
    let params = watched.state.resume_params();
    assert_eq!(params.after_cursor, Some(last), "it goes on where nothing was left out");
}
