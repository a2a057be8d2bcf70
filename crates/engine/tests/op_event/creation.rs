//! Scenarios 80 to 83, 101 and 12.B20: sessions that come to be, and those that do not.

use serde_json::{Value, json};
use signalbox_store::FailPoint;

use super::face::{Face, names, wordless};

/// Creates with these fields and gives all that is told.
async fn told(face: &mut Face, provider: Value, cwd: &str) -> Vec<Value> {
    face.sends(json!({"op": "new_session", "provider": provider, "cwd": cwd, "use_worktree": false, "request_id": "ws-create"}))
        .await;
    face.told().await
}

fn failure(reason: &str) -> Value {
    json!({"event": "error", "session": null, "terminal": true, "request_id": "ws-create", "reason": reason})
}

#[tokio::test]
async fn s80_an_unknown_provider() {
    let mut face = Face::new().await;
    let told = told(&mut face, json!({"custom": "nope"}), ".").await;
    assert_eq!(told.iter().map(wordless).collect::<Vec<_>>(), [failure("provider_not_found")]);
    assert!(told[0]["message"].as_str().unwrap().contains("nope"));
}

#[tokio::test]
async fn s81_a_directory_that_is_none_is_named_and_an_empty_one_is_the_servers() {
    let mut face = Face::new().await;
    let none = told(&mut face, json!("rehearsal"), "/definitely/not/a/real/directory").await;
    assert_eq!(wordless(&none[0]), failure("invalid_params"));
    assert!(none[0]["message"].as_str().unwrap().contains("/definitely/not/a/real/directory"));
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    for cwd in ["", "  ", "."] {
        let made = face.creates(json!({"provider": "rehearsal", "cwd": cwd, "use_worktree": false})).await;
        assert_eq!(face.snapshot(&made).await["cwd"], here.to_str().unwrap());
    }
}

/// No agent is started by it, unlike in the reference: what it offers is told with the first prompt.
#[tokio::test]
async fn s82_s101_a_session_is_created_without_its_agent() {
    let mut face = Face::new().await;
    let work = face.work();
    face.sends(json!({"op": "new_session", "provider": "rehearsal", "cwd": work, "use_worktree": false, "request_id": "r"})).await;
    let made = face.hears().await;
    let session = made["session"].as_str().unwrap().to_owned();
    assert_eq!(
        made,
        json!({"event": "session_created", "session": session, "cwd": work, "project_path": work, "request_id": "r"}),
        "no worktree keys"
    );
    assert!(face.quiet(&session).await.is_empty());
    assert!(face.heard().is_empty());
}

/// Spawn failures are told to everybody (12.B20): a missing command at once, an agent that cannot start with the prompt.
#[tokio::test]
async fn s83_b20_failures_to_start_are_told_to_everybody() {
    let mut face = Face::new().await;
    let mut other = face.listens_too();
    let missing = told(&mut face, json!({"custom": "missing"}), ".").await;
    assert_eq!(missing.iter().map(wordless).collect::<Vec<_>>(), [failure("provider_unavailable")]);
    let seen: Value = serde_json::from_str(other.recv().await.unwrap().json()).unwrap();
    assert_eq!(seen, missing[0]);
    for (provider, reason) in [("exit:7", "agent_failed"), ("no-new", "agent_failed")] {
        let session = face.new_session_of(provider).await;
        face.prompts(&session, "say never", "r").await;
        let heard = face.until_end(&session).await;
        let end = heard.last().unwrap();
        assert_eq!(
            wordless(end),
            json!({"event": "error", "session": session, "terminal": true, "request_id": "r", "reason": reason})
        );
        assert!(names(&heard).contains(&"turn_started"), "it was accepted before the agent was started");
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_stored_is_told_and_not_listed() {
    let mut face = Face::new().await;
    face.fail.fail(FailPoint::InSavepoint, 0, 2);
    let failed = told(&mut face, json!("rehearsal"), ".").await;
    assert_eq!(failed.iter().map(wordless).collect::<Vec<_>>(), [failure("storage_failed")]);
    assert!(face.engine.loaded().is_empty());
    let page = face.engine.reader().sessions(&signalbox_store::SessionQuery::default()).await.unwrap();
    assert!(page.sessions.is_empty());
}

#[tokio::test]
async fn options_and_model_of_a_new_session_are_given_to_its_agent() {
    let mut face = Face::new().await;
    let fields = json!({"provider": "rehearsal", "cwd": ".", "use_worktree": false, "model": "rehearsal-terse",
        "config_options": {"mode": "look"}, "title": "Named"});
    let session = face.creates(fields).await;
    assert_eq!(face.next("session_title_changed").await["title"], "Named");
    let heard = face.turn(&session, "run touch made").await;
    let set: Vec<_> =
        face.heard_of("session/set_config_option").into_iter().map(|set| set["value"].clone()).collect();
    assert_eq!(set, [json!("rehearsal-terse"), json!("look")]);
    assert!(!names(&heard).contains(&"session_title_changed"), "it has a title already");
    assert_eq!(face.snapshot(&session).await["title"], "Named");
}
