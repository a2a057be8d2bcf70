//! Scenarios 46 to 51: the execution policy as an Op.

use serde_json::json;
use signalbox_protocol::ops::decode_op;
use signalbox_store::FailPoint;

use super::face::{Face, only, wordless};

fn set(session: &str, mode: &str, sandbox: &str, request_id: &str) -> serde_json::Value {
    json!({"op": "set_execution_policy", "session": session, "mode": mode, "sandbox": sandbox, "request_id": request_id})
}

#[tokio::test]
async fn s46_a_policy_is_told_when_row_and_handler_hold_it() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(set(&session, "ask", "read_only", "policy-before-restart")).await;
    assert_eq!(
        face.hears().await,
        json!({"event": "execution_policy_changed", "session": session, "request_id": "policy-before-restart",
            "policy": {"mode": "ask", "sandbox": "read_only"}})
    );
    let listed = face.snapshot(&session).await;
    assert_eq!((&listed["permission_mode"], &listed["sandbox_policy"]), (&json!("ask"), &json!("read_only")));
}

#[tokio::test]
async fn s47_a_policy_that_cannot_be_stored_changes_neither_row_nor_handler() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.fail.fail(FailPoint::InSavepoint, 0, 2);
    face.sends(set(&session, "yolo", "danger_full_access", "policy-that-fails")).await;
    assert_eq!(
        wordless(&face.hears().await),
        json!({"event": "error", "session": session, "terminal": false, "request_id": "policy-that-fails",
            "reason": "storage_failed"})
    );
    let listed = face.snapshot(&session).await;
    assert_eq!(
        (&listed["permission_mode"], &listed["sandbox_policy"]),
        (&json!("ask"), &json!("workspace_write"))
    );
    face.prompts(&session, "run true", "r").await;
    face.next("permission_request").await;
}

#[tokio::test]
async fn s48_a_policy_for_an_unknown_session_is_a_non_terminal_error() {
    let mut face = Face::new().await;
    face.sends(set("missing-session", "ask", "read_only", "p")).await;
    let told = face.told().await;
    assert_eq!(
        told.iter().map(wordless).collect::<Vec<_>>(),
        [json!({"event": "error", "session": "missing-session", "terminal": false, "request_id": "p",
            "reason": "thread_not_found"})]
    );
}

#[tokio::test]
async fn s49_the_older_ops_change_one_axis_and_tell_both() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let told = |mode: &str, sandbox: &str| json!({"event": "execution_policy_changed", "session": session, "policy": {"mode": mode, "sandbox": sandbox}});
    face.sends(json!({"op": "set_permission_mode", "session": session, "mode": "yolo"})).await;
    assert_eq!(face.hears().await, told("yolo", "workspace_write"));
    face.sends(json!({"op": "set_sandbox", "session": session, "sandbox": "read_only"})).await;
    assert_eq!(face.hears().await, told("yolo", "read_only"));
    for op in ["set_permission_mode", "set_sandbox"] {
        face.sends(json!({"op": op, "session": "missing-session", "mode": "ask", "sandbox": "read_only"}))
            .await;
        let error = wordless(&face.told().await[0]);
        assert_eq!(
            error,
            json!({"event": "error", "session": "missing-session", "terminal": false, "reason": "thread_not_found"})
        );
    }
}

#[test]
fn s50_an_unknown_mode_or_sandbox_is_not_an_op() {
    for (mode, sandbox) in [("future_mode", "read_only"), ("ask", "future_sandbox")] {
        assert!(decode_op(&set("s", mode, sandbox, "p").to_string()).is_err());
    }
    let half = json!({"op": "new_session", "provider": "grok", "cwd": ".", "use_worktree": false,
        "initial_policy": {"mode": "ask"}});
    assert!(decode_op(&half.to_string()).is_err(), "the pair is given whole or not at all");
}

#[tokio::test]
async fn s51_a_policy_of_a_session_without_an_agent_is_used_by_the_next_one() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.turn(&session, "say hello").await;
    let mut face = face.restarts().await;
    face.sets_policy(&session, "yolo", "workspace_write").await;
    let heard = face.turn(&session, "run touch made").await;
    assert!(only(&heard, "permission_request").is_empty());
    assert!(face.work().join("made").exists());
}
