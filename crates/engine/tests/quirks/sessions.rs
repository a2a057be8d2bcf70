//! Sessions that are opened again, lost, or never let go.

use serde_json::{Value, json};
use signalbox_facts::TurnStatus;
use signalbox_protocol::ops::Op;
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, short, well};

fn user(text: &str) -> Value {
    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}})
}

fn history(script: Script) -> Script {
    script.update(user("<session_context>")).update(user("go")).text("Old answer.").call(
        "old",
        "read",
        "completed",
    )
}

/// A first process with one turn; then one that opens the session by this method.
fn opened_again(capabilities: Value, method: &str) -> Script {
    let first = Script::new().initialized(capabilities.clone()).opened(json!({})).turn("Old answer.");
    first.starts_again().initialized(capabilities).asked(method)
}

async fn plays_again(script: Script) {
    let mut scene = Scene::new(well(script)).await;
    scene.completes().await;
    let mut scene = scene.restarts().await;
    let (story, ended) = scene.turn("Is all well?").await;
    assert_eq!(ended.status, TurnStatus::Completed, "{story}");
    assert!(!story.contains("Old answer.") && !story.contains("context_lost"), "history once more: {story}");
    assert_eq!(scene.starts(), 2);
}

#[tokio::test]
async fn a_replay_may_come_before_the_answer_behind_it_or_both() {
    let load = || opened_again(json!({"loadSession": true}), "session/load");
    plays_again(history(load()).answers(json!(null))).await;
    plays_again(history(load().answers(json!({})))).await;
    plays_again(history(
        load().update(user("<session_context>")).answers(json!({"sessionId": "script-session"})),
    ))
    .await;
}

#[tokio::test]
async fn a_resume_tells_no_history_and_may_tell_commands() {
    let script =
        opened_again(json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}), "session/resume");
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    plays_again(script.update(commands).answers(json!({}))).await;
}

#[tokio::test]
async fn a_session_that_the_agent_no_longer_knows_starts_afresh_and_says_so() {
    for code in [-32002, -32602, -32603] {
        let script = opened_again(
            json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}),
            "session/resume",
        );
        let script =
            script.refuses(code, "unknown session").asked("session/load").refuses(code, "unknown session");
        let mut scene = Scene::new(well(well(script.opened(json!({}))))).await;
        scene.completes().await;
        let mut scene = scene.restarts().await;
        let (story, ended) = scene.turn("go").await;
        assert_eq!(ended.status, TurnStatus::Completed, "{story}");
        assert!(story.contains("warning context_lost"), "{story}");
        scene.starts_afresh().await;
    }
}

#[tokio::test]
async fn an_agent_that_is_still_busy_is_told_to_stop() {
    for (code, message) in
        [(-32600, "another turn is already in progress"), (-32603, "The session is already running")]
    {
        let script = Script::open().prompted().refuses(code, message).told("session/cancel");
        let mut scene = Scene::new(well(script)).await;
        assert!(scene.fails("agent_failed").await.contains(message));
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn a_session_that_is_lost_while_the_agent_runs_is_opened_again_with_the_next_prompt() {
    for (code, message) in [
        (-32002, "Resource not found"),
        (-32602, "Invalid params: session not found: script-session"),
        (-32603, "Unknown sessionId: script-session"),
    ] {
        let script = Script::open().turn("Hello.").prompted().refuses(code, message);
        let script = well(script.starts_again().initialized(json!({})).opened(json!({})));
        let mut scene = Scene::new(script).await;
        scene.completes().await;
        assert!(scene.fails("agent_failed").await.contains(message));
        scene.starts_afresh().await;
    }
}

#[tokio::test]
async fn a_directory_that_is_gone_never_gets_to_the_agent() {
    let mut scene = Scene::new(well(Script::open())).await;
    std::fs::remove_dir_all(scene.stage.work()).unwrap();
    std::fs::write(scene.stage.folder.path().join("work"), "in its place").unwrap();
    let declined = scene.session.submit(Op::TurnInput(scene.session.input("go"))).await.unwrap_err();
    assert!(declined.to_string().contains("is gone"), "{declined}");
    assert_eq!(scene.starts(), 0);
    std::fs::remove_file(scene.stage.folder.path().join("work")).unwrap();
    scene.stage.work();
    scene.goes_on().await;
}

#[tokio::test]
async fn an_agent_that_does_not_leave_is_killed() {
    let script = well(Script::open()).stays();
    let mut scene = Scene::with(script, Props { limits: short(), ..Props::default() }).await;
    scene.goes_on().await;
    let folder = scene.stage.folder.path().to_str().unwrap().to_owned();
    assert_eq!(processes_with(&folder), 1);
    let _kept = scene.stage.close().await;
    assert_eq!(processes_with(&folder), 0);
}

/// Processes in whose environment this text is.
fn processes_with(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let environments = processes.filter_map(|one| std::fs::read(one.path().join("environ")).ok());
    environments.filter(|all| String::from_utf8_lossy(all).contains(text)).count()
}
