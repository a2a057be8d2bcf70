//! Scenarios 52 to 59: what of the activity outlives a server that is killed.

use serde_json::json;
use signalbox_store::FailPoint;

use super::face::{Face, names, trace};

#[tokio::test]
async fn s54_s55_s56_after_a_kill_nothing_runs_and_nothing_can_be_answered() {
    let mut face = Face::new().await;
    let idle = face.new_session().await;
    face.turn(&idle, "say done").await;
    let failed = face.new_session().await;
    face.turn(&failed, "fail no").await;
    let running = face.new_session().await;
    face.prompts(&running, "say first\nhang", "r").await;
    face.next("agent_text").await;
    let waiting = face.new_session().await;
    face.prompts(&waiting, "parallel true || true", "w").await;
    face.next("permission_request").await;
    let request = face.next("permission_request").await;
    let before = face.snapshot(&waiting).await["activity"].clone();

    // That revisions do not go back is checked for every session as it is found again.
    let mut face = face.dies().await;
    let state = async |session: &str| face.snapshot(session).await["activity"].clone();
    assert_eq!(
        (state(&idle).await["revision"].as_u64(), state(&failed).await["revision"].as_u64()),
        (Some(2), Some(2))
    );
    assert_eq!(state(&idle).await["state"]["kind"], "idle");
    assert_eq!(state(&failed).await["state"]["reason"], "provider_error");
    let ended = state(&running).await;
    assert_eq!((&ended["revision"], &ended["state"]["kind"]), (&json!(2), &json!("failed")));
    assert_eq!(ended["state"]["reason"], "interrupted");
    let ended = state(&waiting).await;
    assert_eq!((&ended["revision"], &ended["state"]["reason"]), (&json!(4), &json!("interrupted")));
    assert_eq!(ended["state"]["turn_id"], before["state"]["turn_id"]);
    assert!(ended["state"].get("pending").is_none());

    face.answers(&waiting, &request, Some("allow")).await;
    assert!(face.quiet(&waiting).await.is_empty(), "an old button does nothing");

    // And once more: what is mended stays as it is.
    let face = face.dies().await;
    assert_eq!(face.snapshot(&waiting).await["activity"], ended);
}

#[tokio::test]
async fn s56_a_session_that_was_interrupted_takes_prompts_again() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "run true", "r").await;
    face.next("permission_request").await;
    let mut face = face.dies().await;
    let heard = face.turn(&session, "say back").await;
    assert_eq!(trace(&heard), ["4 running", "5 idle"]);
}

#[tokio::test]
async fn s59_one_activity_that_could_not_be_stored_spoils_nothing_later() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "say first\nsleep 200\nsay last", "r").await;
    face.next("agent_text").await;
    // Whatever comes next fails twice over, the end of the turn perhaps among it.
    face.fail.fail(FailPoint::InSavepoint, 0, 4);
    let end = face.until_end(&session).await;
    assert_eq!(end.last().unwrap()["event"], "turn_ended");
    let heard = face.turn(&session, "say next").await;
    assert_eq!(trace(&heard), ["3 running", "4 idle"]);
    assert!(names(&heard).contains(&"turn_started"));
    assert_eq!(face.snapshot(&session).await["activity"]["revision"], 4);
}
