//! Tool calls and what is asked about them.

use serde_json::{Value, json};
use signalbox_facts::{FactBody, TurnStatus};
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, well};

fn ls(id: &str) -> Value {
    json!({"toolCallId": id, "title": "ls", "kind": "execute", "status": "pending", "rawInput": {"command": "ls"}})
}

async fn answers(scene: &mut Scene, option: &str) -> signalbox_facts::PendingInput {
    let input = scene.session.is_asked().await;
    scene.session.answers(&input, Some(option)).await.unwrap();
    input
}

#[tokio::test]
async fn a_permission_may_come_before_its_call_or_without_one() {
    // Announced behind the permission; never announced, only updated; never heard of again.
    let script = Script::open()
        .prompted()
        .asks(json!("uuid-1"), ls("a"))
        .answered(json!("uuid-1"))
        .call("a", "execute", "in_progress")
        .call_is("a", "completed")
        .asks(json!(0), ls("b"))
        .answered(json!(0))
        .call_is("b", "completed")
        .asks(json!(1), ls("c"))
        .answered(json!(1))
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    answers(&mut scene, "yes").await;
    answers(&mut scene, "yes").await;
    answers(&mut scene, "no").await;
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Completed, "{story}");
    assert!(story.contains("Failed Declined"), "{story}");
    scene.goes_on().await;
    let outcomes: Vec<_> = scene
        .heard()
        .iter()
        .filter_map(|one| one["result"]["outcome"]["optionId"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(outcomes, ["yes", "yes", "no"]);
}

#[tokio::test]
async fn a_request_that_only_names_its_call_shows_what_is_known_of_it() {
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Write notes", "kind": "edit", "status": "in_progress",
            "locations": [{"path": "notes.txt"}]}))
        .asks(json!(1), json!({"toolCallId": "a"}))
        .answered(json!(1))
        // Backwards: noise.
        .call_is("a", "pending")
        .call_is("a", "completed")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let input = answers(&mut scene, "yes").await;
    assert_eq!((input.title.as_str(), input.tool_kind.as_deref()), ("Write notes", Some("edit")));
    assert_eq!(input.locations[0].path, scene.stage.work().join("notes.txt"));
    let (story, _) = scene.end().await;
    assert!(!story.contains("Pending") && story.contains("Completed\n"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn a_request_about_nothing_that_is_known_is_asked_all_the_same() {
    let options = json!([{"optionId": "1", "name": "Sure", "kind": "allow_once"}, {"optionId": "2", "name": "Sure, always", "kind": "allow_once"},
        {"optionId": "3", "name": "Hm", "kind": "perhaps"}, {"optionId": "4", "name": "No", "kind": "reject_once"}]);
    let script =
        Script::open().prompted().asks_with(json!(7), json!({}), options).answered(json!(7)).ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let input = answers(&mut scene, "2").await;
    assert_eq!(input.options.len(), 4);
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Completed, "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn what_an_agent_says_about_its_request_is_why_it_is_asked() {
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {"sessionId": "script-session",
        "title": "Run it?", "description": "It lists what is here.", "toolCall": ls("a"),
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}});
    let script = Script::open().prompted().says(request).answered(json!(7)).ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let input = answers(&mut scene, "yes").await;
    assert_eq!(input.reason.as_deref(), Some("It lists what is here."));
    scene.end().await;
    scene.goes_on().await;
}

#[tokio::test]
async fn titles_and_arguments_may_grow() {
    let update = |more: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a"});
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update
    };
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "run_terminal_command"}))
        .update(update(json!({"rawInput": {}})))
        .update(update(json!({"kind": "execute", "title": "ls -l", "rawInput": {"command": "ls -l"}})))
        .update(update(json!({"status": "completed", "rawOutput": "total 0"})))
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    let story = scene.completes().await;
    assert!(
        story.contains("CommandExecution \"ls -l\" Completed") && !story.contains("run_terminal_command"),
        "{story}"
    );
    scene.goes_on().await;

    // Kimi's arguments come as text content, a few letters at a time.
    let part = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Bash", "kind": "execute", "status": "pending"}))
        .update(update(json!({"status": "in_progress", "content": part("{\"comm")})))
        .update(update(json!({"status": "in_progress", "content": part("{\"command\": \"ls\"}")})))
        .update(update(json!({"title": "ls", "rawInput": {"command": "ls"}})))
        .update(update(json!({"status": "completed", "content": part("a.txt\n")})))
        .ends("end_turn");
    let mut scene = Scene::with(well(script), Props { provider: "kimi", ..Props::default() }).await;
    let story = scene.completes().await;
    assert!(story.contains("output \"a.txt\\n\"") && !story.contains("{\\\"comm"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn calls_that_are_left_open_are_closed() {
    let mut script =
        Script::open().prompted().call("a", "execute", "in_progress").call("b", "read", "pending");
    // Absent means pending.
    script = script
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "kind": "search"}));
    let mut scene = Scene::new(well(script.text("Bye.").ends("end_turn"))).await;
    let story = scene.completes().await;
    assert_eq!(story.matches("Failed Unfinished").count(), 3, "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn a_cancelled_command_is_closed_however_the_agent_puts_it() {
    for (status, words) in [
        (Some("completed"), "Completed\n"),
        (Some("cancelled"), "Failed Interrupted"),
        (Some("failed"), "Failed\n"),
        (None, "Failed Interrupted"),
    ] {
        let mut script = Script::open().prompted().call("a", "execute", "in_progress").told("session/cancel");
        if let Some(status) = status {
            script = script.call_is("a", status);
        }
        let mut scene = Scene::new(well(script.ends("cancelled"))).await;
        scene.session.prompts("go").await;
        scene.hears(|body| matches!(body, FactBody::ToolCall(_))).await;
        scene.session.cancels().await;
        let (story, ended) = scene.end().await;
        assert_eq!(ended.status, TurnStatus::Interrupted);
        assert!(story.contains(words), "{status:?}: {story}");
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn a_failing_command_keeps_its_exit_code_whatever_its_status() {
    for status in ["completed", "failed"] {
        let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": status,
            "rawOutput": {"output": "oops\n", "metadata": {"exit": 3}}});
        let script =
            Script::open().prompted().call("a", "execute", "in_progress").update(done).ends("end_turn");
        let mut scene = Scene::new(well(script)).await;
        let story = scene.completes().await;
        assert!(story.contains("exit 3") && story.contains("output \"oops\\n\""), "{story}");
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn content_of_every_sort() {
    let content = json!([{"type": "diff", "path": "new.txt", "oldText": null, "newText": "x\n"},
        {"type": "diff", "path": "old.txt", "oldText": "hunk", "newText": "hank"}, {"type": "terminal", "terminalId": "nobody-made-it"},
        {"type": "hologram", "x": 1}, {"type": "content", "content": {"type": "smell", "of": "coal"}}, 7]);
    let delta = json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "content": [{"type": "terminal", "terminalId": "t"}],
        "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/"}, "terminal_output": {"terminal_id": "t", "data": "out\n"}}});
    let exit = json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "completed", "_meta": {"terminal_exit": {"terminal_id": "t", "exit_code": 0}}});
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Edit", "kind": "edit", "status": "completed", "content": content}))
        .call("b", "execute", "in_progress")
        .update(delta)
        .update(exit)
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let seen = scene.session.until_end().await;
    let edit = seen.iter().find_map(|one| match crate::stage::fact(one) {
        Some(FactBody::ToolCall(call)) if call.id == "a" => call.diffs.clone(),
        _ => None,
    });
    let paths: Vec<_> = edit.unwrap().into_iter().map(|diff| diff.path).collect();
    assert_eq!(paths, [scene.stage.work().join("new.txt"), scene.stage.work().join("old.txt")]);
    let told = crate::stage::story(&seen);
    assert!(told.contains("output \"out\\n\"") && told.contains("exit 0"), "{told}");
    scene.goes_on().await;
}

#[tokio::test]
async fn places_arguments_and_results_of_any_form() {
    let mut script = Script::open().prompted();
    let forms = [json!("text"), json!(["a", 1]), json!(null), json!(3), json!({"deep": {"er": []}})];
    for (at, form) in forms.iter().enumerate() {
        script = script.update(json!({"sessionUpdate": "tool_call", "toolCallId": format!("c{at}"), "title": "t", "kind": "read",
            "status": "completed", "locations": [{"path": "."}, {"path": 7}, {}], "rawInput": form, "rawOutput": form}));
    }
    // An id that is no text is one all the same, and a call without one is none.
    script = script
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": 12, "title": "t", "kind": "read", "status": "completed"}))
        .update(json!({"sessionUpdate": "tool_call", "title": "t"}))
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "l", "title": "t", "kind": "read", "locations": [], "status": "completed"}));
    let mut scene = Scene::new(well(script.text("So.").ends("end_turn"))).await;
    let story = scene.completes().await;
    assert!(story.matches("Completed\n").count() > forms.len(), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn what_is_no_tool_may_come_as_a_call() {
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "g", "title": "Guardian Review", "kind": "think", "status": "in_progress"}))
        .call_is("g", "completed")
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "k", "title": "Odd", "kind": "levitate", "status": "completed"}))
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    let story = scene.completes().await;
    assert!(
        story.contains("DynamicToolCall \"Guardian Review\" Completed")
            && story.contains("\"Odd\" Completed"),
        "{story}"
    );
    scene.goes_on().await;
}

#[tokio::test]
async fn files_terminals_and_unknown_requests_are_refused_at_once() {
    let script = Script::open()
        .prompted()
        .says(json!({"id": 0, "method": "fs/write_text_file", "params": {"sessionId": "script-session", "path": "/x", "content": "y"}}))
        .answered(json!(0))
        .says(json!({"id": 1, "method": "terminal/create", "params": {"sessionId": "script-session", "command": "ls"}}))
        .answered(json!(1))
        .says(json!({"id": "two", "method": "craft/drainMidTurnQueue"}))
        .answered(json!("two"))
        .text("I can do that myself.")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.completes().await;
    scene.goes_on().await;
    let heard = scene.heard();
    let capabilities = &heard[0]["params"]["clientCapabilities"];
    assert!(
        capabilities["terminal"] != true && capabilities["fs"]["writeTextFile"] != true,
        "{capabilities}"
    );
    let codes: Vec<_> = heard.iter().filter_map(|one| one["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [-32601, -32601, -32601]);
}

#[tokio::test]
async fn ids_come_again_in_the_next_turn() {
    let script = Script::open()
        .prompted()
        .call("call-1", "execute", "in_progress")
        .call_is("call-1", "completed")
        .ends("end_turn")
        .prompted()
        .call("call-1", "read", "pending")
        .call_is("call-1", "completed")
        .ends("end_turn")
        .prompted()
        .asks(json!(5), ls("call-1"))
        .answered(json!(5))
        .call_is("call-1", "completed")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    assert!(scene.completes().await.contains("CommandExecution \"call call-1\" Completed"));
    assert!(scene.completes().await.contains("DynamicToolCall \"call call-1\" Completed"));
    scene.session.prompts("go").await;
    answers(&mut scene, "yes").await;
    let (story, _) = scene.end().await;
    assert!(story.contains("CommandExecution \"ls\" Completed"), "{story}");
    scene.goes_on().await;
}
