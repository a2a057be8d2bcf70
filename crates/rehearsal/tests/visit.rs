//! What the agent does with a prompt in prose.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts real processes"
)]

mod support;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use support::{Client, Played, allow, never, reject};

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A small repository with one commit.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/main.rs"), "fn main() {\n}\n").unwrap();
    fs::write(root.join("Cargo.toml"), "[package]\nname = \"trains\"\n").unwrap();
    fs::write(root.join("README.md"), "# Trains\n").unwrap();
    git(root, &["init", "-q"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "Lay the first rail"]);
    folder
}

/// The permission requests' kinds and titles.
fn asked(played: &Played) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let calls = played.requests.iter().map(|request| &request["params"]["toolCall"]);
    calls.map(|call| (text(&call["kind"]), text(&call["title"]))).collect()
}

#[tokio::test]
async fn a_visit_looks_asks_writes_and_sums_up() {
    let folder = repository();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("Please add a signal.", allow).await;
    assert_eq!(played.stop_reason(), "end_turn");

    let said = played.said();
    for part in [
        "no model behind me",
        "3 files",
        "Cargo package `trains`",
        "Rust 2 lines in 1 file",
        "README: `README.md`",
    ] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    let wanted = [("execute", "git log --oneline -5"), ("edit", "Write REHEARSAL-NOTE.md")];
    assert_eq!(asked(&played), wanted.map(|(kind, title)| (kind.to_owned(), title.to_owned())));
    assert!(played.output().ends_with("Lay the first rail\n"), "{}", played.output());
    let note = fs::read_to_string(folder.path().join("REHEARSAL-NOTE.md")).unwrap();
    assert!(note.contains("Cargo package `trains`"), "{note}");

    let plan = played.last("plan")["entries"].as_array().unwrap();
    assert!(plan.iter().all(|entry| entry["status"] == "completed"));
    assert!(played.last("session_info_update")["title"].as_str().unwrap().starts_with("A look around"));
    assert!(played.last("usage_update")["used"].as_u64().unwrap() > 0);
    let usage = &played.answer["result"]["usage"];
    assert_eq!(
        usage["totalTokens"].as_u64().unwrap(),
        usage["inputTokens"].as_u64().unwrap() + usage["outputTokens"].as_u64().unwrap()
    );
    assert!(!played.chunks("agent_thought_chunk").is_empty());

    // Every call that was opened is closed.
    for update in played.updates.iter().filter(|update| update["sessionUpdate"] == "tool_call") {
        let id = &update["toolCallId"];
        let last = played.updates.iter().rfind(|update| update["toolCallId"] == *id).unwrap();
        assert_eq!(last["status"], "completed", "{update}");
    }
}

#[tokio::test]
async fn a_second_visit_finds_its_note_and_does_not_ask_again() {
    let folder = repository();
    let mut client = Client::in_folder(folder.path()).await;
    client.play("Look, please.", allow).await;
    let played = client.play("Look again, please.", allow).await;
    assert_eq!(asked(&played).len(), 1);
    assert!(played.said().contains("already says all this"));

    // Once the folder has changed, the proposal is a diff against the note that is there.
    fs::write(folder.path().join("more.py"), "pass\n").unwrap();
    let played = client.play("And again.", allow).await;
    let diff = &played.requests[1]["params"]["toolCall"]["content"][0];
    assert!(diff["oldText"].as_str().unwrap().contains("3 files"), "{diff}");
    assert!(diff["newText"].as_str().unwrap().contains("4 files"), "{diff}");
}

#[tokio::test]
async fn when_declined_it_says_so_and_goes_on() {
    let folder = repository();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("Look, please.", reject).await;
    assert_eq!(played.stop_reason(), "end_turn");
    let said = played.said();
    assert!(said.contains("Declined, so I did not look at the commits."), "{said}");
    assert!(said.contains("Declined, so `REHEARSAL-NOTE.md` is not written."), "{said}");
    assert!(!folder.path().join("REHEARSAL-NOTE.md").exists());
    assert_eq!(played.output(), "");
}

#[tokio::test]
async fn outside_of_a_repository_it_asks_for_no_commits() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("Look, please.", reject).await;
    assert!(played.said().contains("This is no git repository"));
    assert_eq!(asked(&played), [("edit".to_owned(), "Write REHEARSAL-NOTE.md".to_owned())]);
}

#[tokio::test]
async fn a_repository_without_commits_fails_the_command_but_not_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("Look, please.", allow).await;
    assert!(played.said().contains("ended with exit code 128"), "{}", played.said());
    assert_eq!(played.stop_reason(), "end_turn");
}

#[tokio::test]
async fn the_terse_model_says_less_and_does_the_same() {
    let folder = repository();
    let mut client = Client::in_folder(folder.path()).await;
    let params = json!({"sessionId": client.session, "configId": "model", "value": "rehearsal-terse"});
    client.call("session/set_config_option", params).await;
    let played = client.play("Look, please.", allow).await;
    assert!(played.chunks("agent_thought_chunk").is_empty());
    assert!(!played.said().contains("no model behind me"));
    assert_eq!(asked(&played).len(), 2);
}

#[tokio::test]
async fn in_the_mode_look_nothing_is_asked() {
    let folder = repository();
    let mut client = Client::in_folder(folder.path()).await;
    let params = json!({"sessionId": client.session, "modeId": "look"});
    client.call("session/set_mode", params).await;
    let played = client.play("Look, please.", never).await;
    assert_eq!(played.stop_reason(), "end_turn");
    assert!(!folder.path().join("REHEARSAL-NOTE.md").exists());
}
