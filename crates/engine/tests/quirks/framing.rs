//! Lines that are no messages, long ones, and what is on stderr.

use serde_json::json;
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, well};
use crate::stage::Setup;

#[tokio::test]
async fn stray_lines_are_neither_answered_nor_the_end() {
    let mut script =
        Script::new().raw("running migration 1 of 3").initialized(json!({})).opened(json!({})).prompted();
    for line in [
        "running migration 2 of 3",
        "",
        "42",
        "\"done\"",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]",
        "{\"level\":\"info\",\"msg\":\"ready\"}",
        "{\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/upd",
        "\u{1b}[32mcolours\u{1b}[0m",
        // The id is that of the open prompt, but it is no answer.
        "{\"id\":3,\"level\":\"warn\"}",
    ] {
        script = script.raw(line);
    }
    let mut scene = Scene::new(well(script.text("Hello.").ends("end_turn"))).await;
    assert!(scene.completes().await.contains("says \"Hello.\""));
    scene.goes_on().await;
    assert_eq!(scene.methods(), ["initialize", "session/new", "session/prompt", "session/prompt"]);
}

#[tokio::test]
async fn messages_without_a_version_are_messages() {
    let script = Script::open().prompted().raw(
        r#"{"method":"session\/update","params":{"sessionId":"script-session","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi."}}}}"#,
    );
    // The id comes back as text.
    let mut scene = Scene::new(well(script.raw(r#"{"id":"3","result":{"stopReason":"end_turn"}}"#))).await;
    assert!(scene.completes().await.contains("says \"Hi.\""));
    scene.goes_on().await;
}

#[tokio::test]
async fn a_full_stderr_blocks_nobody_and_its_end_is_kept() {
    let mut script = Script::open().prompted();
    for n in 0..60 {
        script = script.stderr(format!("{n} {}", "noise ".repeat(1000)));
    }
    let script = script.text("Hello.").ends("end_turn").prompted().stderr("the last words").exits(9);
    let script = well(script.starts_again().initialized(json!({})).opened(json!({})));
    let mut scene = Scene::new(script).await;
    scene.completes().await;
    let (_, ended) = scene.turn("go").await;
    let failure = ended.failure.unwrap();
    let tail = failure.data["stderrTail"].as_str().unwrap();
    assert!(tail.ends_with("the last words") && tail.len() <= 64 << 10, "{}", tail.len());
    assert_eq!(failure.data["exitStatus"], "exit status: 9");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn giant_lines_are_read_and_bytes_are_output() {
    let skills = "a skill. ".repeat(100_000);
    let commands = json!({"sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "go", "description": ""}], "_meta": {"availableSkillDetails": skills}});
    let bytes: Vec<u8> = b"line\n".repeat(20_000);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
        "rawOutput": {"type": "Bash", "output": bytes, "exit_code": 0}});
    let script = Script::open().update(commands).prompted().call("c", "execute", "in_progress").update(done);
    let mut scene = Scene::new(well(script.text("Done.").ends("end_turn"))).await;
    let story = scene.completes().await;
    assert!(story.contains("output \"line\\nline\\n"), "{}", &story[..500.min(story.len())]);
    assert!(story.contains("Completed exit 0"), "the exit code is there");
    scene.goes_on().await;
}

#[tokio::test]
async fn a_line_without_end_ends_the_agent_and_not_the_session() {
    let script = Script::open().prompted().raw("x".repeat(300_000));
    let script = well(script.starts_again().initialized(json!({})).opened(json!({})));
    let limits = signalbox_engine::Limits { line_bytes: 100_000, ..Setup::default().limits };
    let mut scene = Scene::with(script, Props { limits, ..Props::default() }).await;
    assert!(scene.fails("agent_failed").await.contains("a line of more than 100000 bytes"));
    scene.starts_afresh().await;
}
