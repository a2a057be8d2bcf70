//! Threads in a worktree of their own: who is told what, and when. That they work is tested in the engine and in a transcript.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::stage::Stage;

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=A", "-c", "user.email=a@example.org"]).args(args);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/nonexistent");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository in the stage's project folder, with files that Git LFS would keep.
fn repository(stage: &Stage) -> PathBuf {
    let project = stage.folder.path().join("project").canonicalize().unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    fs::write(project.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "-q", "-m", "first"]);
    project
}

#[tokio::test]
async fn who_starts_one_is_told_what_its_checkout_lacks_behind_the_answer() {
    let stage = Stage::new().await;
    let project = repository(&stage);
    let [mut first, mut second] = stage.clients().await;
    let before = first.log.len();
    let started = first.ok("thread/start", json!({"worktree": {"base": "current"}})).await;
    let warning = first.until("warning").await;
    assert_eq!(first.methods()[before..], ["answer", "thread/started", "warning"]);
    assert_eq!(warning["params"]["threadId"], started["thread"]["id"]);
    assert!(warning["params"]["message"].as_str().unwrap().contains("Git LFS"), "{warning}");
    let told = second.until("thread/started").await;
    assert_eq!(told["params"]["thread"]["worktree"], started["thread"]["worktree"]);
    let worktree = &started["thread"]["worktree"];
    assert_eq!(started["cwd"], worktree["path"]);
    assert_eq!(started["thread"]["projectPath"], project.display().to_string());
    assert_eq!(started["thread"]["gitInfo"]["branch"], worktree["branch"]);

    // Everybody learns that it is gone, whether or not they follow the thread.
    let thread = started["thread"]["id"].clone();
    first.ok("thread/worktree/discard", json!({"threadId": thread})).await;
    for client in [&mut first, &mut second] {
        let gone = client.until("thread/worktree/discarded").await;
        assert_eq!(gone["params"]["path"], worktree["path"]);
        assert_eq!(gone["params"]["deletedBranch"], worktree["branch"]);
    }
    let read = second.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!((&read["thread"]["worktree"], &read["thread"]["gitInfo"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn a_resume_from_the_source_directory_joins_and_says_where_the_thread_works() {
    let stage = Stage::new().await;
    let project = repository(&stage);
    let mut first = stage.client("first").await;
    let started = first.ok("thread/start", json!({"worktree": {"base": "current"}})).await;
    let thread = started["thread"]["id"].clone();
    first.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    let mut second = stage.client("second").await;
    let joined = second.ok("thread/resume", json!({"threadId": thread, "cwd": project})).await;
    assert_eq!(joined["cwd"], started["cwd"]);
    let warning = second.until("warning").await;
    assert!(warning["params"]["message"].as_str().unwrap().contains("works in its worktree"), "{warning}");
}

#[tokio::test]
async fn baselines_begin_where_the_server_does() {
    let stage = Stage::new().await;
    repository(&stage);
    let mut client = stage.client("picker").await;
    let here = client.ok("worktree/baselines", json!({})).await;
    assert_eq!((&here["data"][0]["kind"], &here["data"][0]["ref"]), (&json!("current"), &json!("main")));
    assert_eq!(here["data"][0]["sha"].as_str().unwrap().len(), 40);
    assert_eq!(here["data"][1]["kind"], "origin_default");
    assert!(here["data"][1]["unavailable"].is_string() && here["data"][1].get("sha").is_none(), "{here}");
    assert_eq!(client.ok("worktree/baselines", json!({"cwd": "."})).await, here);
    let refused = client.refused("worktree/baselines", json!({"cwd": "/no/such/place"})).await;
    assert_eq!(refused, (-32602, "invalid_params".to_owned()));
}
