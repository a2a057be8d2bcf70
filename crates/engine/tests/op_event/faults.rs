//! Section 12.B: the faults of the reference implementation, each seen to be absent. Those that other tests show are in the
//! table of `main.rs`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_engine::Limits;

use super::face::{Face, limits, names, only, said, the, trace, wordless};

#[tokio::test]
async fn b1_a_prompt_to_an_agent_that_was_killed_is_answered_by_a_fresh_one() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sets_policy(&session, "yolo", "workspace_write").await;
    for _ in 0..3 {
        // The command's parent is the agent.
        let heard = face.turn(&session, "run kill -9 $PPID\nhang").await;
        assert_eq!(heard.last().unwrap()["event"], "error");
        let heard = face.turn(&session, "say alive").await;
        assert_eq!(said(&heard), "alive");
    }
    assert_eq!(face.snapshot(&session).await["activity"]["revision"], 12);
}

#[tokio::test]
async fn b1_a_prompt_right_behind_a_death_between_turns_is_answered() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sets_policy(&session, "yolo", "workspace_write").await;
    let heard = face.turn(&session, "run echo pid=$PPID").await;
    assert_eq!(heard.last().unwrap()["event"], "turn_ended");
    let output = face.facts(&session).await.into_iter().find_map(|fact| match fact.body {
        signalbox_facts::FactBody::ToolOutput(output) => Some(output.text),
        _ => None,
    });
    let pid = output.unwrap().trim().trim_start_matches("pid=").to_owned();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let heard = face.turn(&session, "say alive").await;
    // Whether it had been noticed by then or not: there is an end, and the one after it is good.
    if heard.last().unwrap()["event"] == "error" {
        assert_eq!(said(&face.turn(&session, "say alive").await), "alive");
    } else {
        assert_eq!(said(&heard), "alive");
    }
}

#[tokio::test]
async fn b5_an_agent_that_never_answers_is_given_up_and_hinders_nobody() {
    let limits =
        Limits { initialize: Duration::from_millis(400), session: Duration::from_millis(400), ..limits() };
    let mut face = Face::with_limits(limits).await;
    for provider in ["hang", "hang-new"] {
        let stuck = face.new_session_of(provider).await;
        face.prompts(&stuck, "say never", "stuck").await;
        face.next("turn_started").await;
        let well = face.new_session_of("no-load").await;
        face.prompts(&well, "say quick", "well").await;
        let heard = face.until(|event| event["session"] == stuck.as_str() && event["terminal"] == true).await;
        assert_eq!(
            wordless(heard.last().unwrap()),
            json!({"event": "error", "session": stuck, "terminal": true, "request_id": "stuck", "reason": "agent_timeout"})
        );
        assert_eq!(trace(&heard).last().unwrap(), "2 failed");
        if !heard.iter().any(|event| event["session"] == well.as_str() && event["event"] == "turn_ended") {
            face.until_end(&well).await;
        }
    }
}

#[tokio::test]
async fn b5_a_conversation_that_is_never_loaded_is_given_up() {
    let limits = Limits { session: Duration::from_millis(1500), ..limits() };
    let mut face = Face::with_limits(limits).await;
    let session = face.new_session_of("hang-load").await;
    face.turn(&session, "say first").await;
    let mut face = face.restarts().await;
    let heard = face.turn(&session, "say second").await;
    assert_eq!(heard.last().unwrap()["reason"], "agent_timeout");
}

/// One writer a session: neither overwrites the other, whichever comes first.
#[tokio::test]
async fn b6_a_model_and_a_policy_set_at_once_are_both_kept() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.turn(&session, "say x").await;
    for (model, mode) in [("rehearsal-terse", "yolo"), ("rehearsal", "accept_edits")] {
        face.sends(json!({"op": "set_model", "session": session, "model": model})).await;
        face.sends(json!({"op": "set_permission_mode", "session": session, "mode": mode})).await;
        let told = face.quiet(&session).await;
        assert!(!only(&told, "models").is_empty());
        assert_eq!(only(&told, "execution_policy_changed").len(), 1);
        let listed = face.snapshot(&session).await;
        assert_eq!((&listed["model"], &listed["permission_mode"]), (&json!(model), &json!(mode)));
    }
}

#[tokio::test]
async fn b7_a_stored_model_is_set_again_after_a_resume() {
    let mut face = Face::new().await;
    // The agent is new and has forgotten the model with the conversation.
    let session = face.new_session_of("no-load").await;
    face.sends(json!({"op": "set_model", "session": session, "model": "rehearsal-terse"})).await;
    face.turn(&session, "say x").await;
    let mut face = face.restarts().await;
    let heard = face.turn(&session, "say y").await;
    let models = only(&heard, "models");
    assert!(
        !models.is_empty() && models.iter().all(|told| told["current"] == "rehearsal-terse"),
        "{models:?}"
    );
    let set: Vec<_> =
        face.heard_of("session/set_config_option").into_iter().map(|set| set["value"].clone()).collect();
    assert_eq!(set, [json!("rehearsal-terse"), json!("rehearsal-terse")]);
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The state before the turn is recorded before the agent is prompted, and leaves nothing in the user's repository.
#[tokio::test]
async fn b11_the_workspace_is_recorded_before_the_agent_is_prompted_and_outside_the_repository() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let work = face.work();
    git(&work, &["init", "-q", "-b", "main"]);
    std::fs::write(work.join("kept.txt"), "one\n").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]);
    std::fs::write(work.join("kept.txt"), "the user's own\n").unwrap();
    std::fs::write(work.join("untracked.txt"), "mine\n").unwrap();
    let looks = |work: &Path| {
        let index = std::fs::read(work.join(".git/index")).unwrap();
        (git(work, &["for-each-ref"]), git(work, &["count-objects", "-v"]), index)
    };
    let before = looks(&work);
    face.sets_policy(&session, "yolo", "workspace_write").await;
    let heard = face.turn(&session, "run echo agent >> kept.txt").await;
    let diff = only(&heard, "turn_diff").last().unwrap()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("+agent") && diff.contains(" the user's own"), "{diff}");
    assert!(!diff.contains("-one") && !diff.contains("untracked"), "only what the turn changed: {diff}");
    assert_eq!(looks(&work), before);
}

#[tokio::test]
async fn b13_a_kind_is_remembered_from_the_call_before_the_request() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sets_policy(&session, "yolo", "workspace_write").await;
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Build", "kind": "execute",
        "status": "pending", "rawInput": {"command": "make"}});
    let request = json!({"toolCall": {"toolCallId": "c"}, "options": [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]});
    let heard = face
        .turn(&session, &format!("send-update {call}\nsend-request session/request_permission {request}"))
        .await;
    let resolved = the(&heard, "permission_resolved");
    assert_eq!((&resolved["option_id"], &resolved["rule"]), (&json!("allow"), &json!("mode")));
    assert_eq!(resolved["title"], "Build");
}

#[tokio::test]
async fn b16_what_is_no_text_is_told_as_what_text_can_say() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let chunk = |content: Value| {
        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content});
        format!("send-update {update}\n")
    };
    let script = [
        chunk(json!({"type": "text", "text": "See "})),
        chunk(json!({"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"})),
        chunk(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"})),
    ];
    let heard = face.turn(&session, &script.concat()).await;
    let said = said(&heard);
    assert_eq!(said, "See [a.txt](file:///a.txt)");
    let image = the(&heard, "tool_call");
    assert_eq!((&image["title"], &image["status"]), (&json!("Image"), &json!("completed")));
    let ids: Vec<_> = only(&heard, "agent_text").into_iter().map(|event| &event["message_id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one message");
}

#[tokio::test]
async fn b16_updates_of_another_conversation_are_not_taken_for_this_one() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "not yours"}});
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Not yours", "kind": "read", "status": "completed"});
    let script = format!(
        "say mine\nsend-update-as somebody-else {chunk}\nsend-update-as somebody-else {call}\nsay too"
    );
    let heard = face.turn(&session, &script).await;
    assert_eq!(said(&heard), "minetoo");
    assert!(only(&heard, "tool_call").is_empty());
}

#[tokio::test]
async fn b18_titles_keep_file_names_and_are_given_once() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let heard = face.turn(&session, "Refactor src/main.rs and lib.rs. Then test.\nsay Done.").await;
    assert_eq!(the(&heard, "session_title_changed")["title"], "Refactor src/main.rs and lib.rs");
    let again = face.turn(&session, "Another prompt.\nsay Done.").await;
    assert!(only(&again, "session_title_changed").is_empty());
    let given = face.turn(&session, "title By the agent\nsay Done.").await;
    assert_eq!(the(&given, "session_title_changed")["title"], "By the agent");
    face.sends(json!({"op": "rename", "session": session, "title": "By hand"})).await;
    assert_eq!(face.next("session_title_changed").await["title"], "By hand");
    let last = face.turn(&session, "title Once more\nsay Done.").await;
    assert!(only(&last, "session_title_changed").is_empty(), "by hand wins for good: {:?}", names(&last));
    let listed = face.snapshot(&session).await;
    assert_eq!((&listed["title"], &listed["title_origin"]), (&json!("By hand"), &json!("manual")));
}
