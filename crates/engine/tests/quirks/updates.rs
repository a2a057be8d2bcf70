//! Updates: messages, usage, notices, titles, commands, options, plans.

use serde_json::{Value, json};
use signalbox_facts::{FactBody, TurnStatus};
use signalbox_protocol::ops::Op;
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, well};
use crate::stage::{fact, story};

fn chunk(kind: &str, id: Option<&str>, text: &str) -> Value {
    let mut update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    if let Some(id) = id {
        update["messageId"] = json!(id);
    }
    update
}

#[tokio::test]
async fn messages_without_ids_and_thoughts_with_the_id_of_the_answer() {
    let script = Script::open()
        .prompted()
        .update(chunk("agent_thought_chunk", Some("m1"), "Hm"))
        .update(chunk("agent_message_chunk", Some("m1"), "First."))
        .update(chunk("agent_message_chunk", Some("m2"), "Second."))
        .call("c", "read", "completed")
        .text("Third")
        .text(", still.")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let seen = scene.session.until_end().await;
    let mut messages: Vec<(u64, String)> = Vec::new();
    for committed in &seen {
        let signalbox_facts::Committed::Fact(one) = committed else { continue };
        let (FactBody::AgentText(text) | FactBody::AgentThought(text)) = &one.body else { continue };
        match messages.last_mut() {
            Some((item, all)) if Some(*item) == one.item_seq => all.push_str(&text.text),
            _ => messages.push((one.item_seq.unwrap(), text.text.clone())),
        }
    }
    let texts: Vec<_> = messages.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["Hm", "First.", "Second.", "Third, still."], "{}", story(&seen));
    scene.goes_on().await;
}

#[tokio::test]
async fn the_echo_of_a_prompt_is_shown_once() {
    let script = Script::open().prompted().update(chunk("user_message_chunk", None, "go"));
    let mut scene = Scene::new(well(script.text("Hello.").ends("end_turn"))).await;
    let story = scene.completes().await;
    assert_eq!(story.matches("\"go\"").count(), 2, "as prompt, and as title: {story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn empty_chunks_are_no_items_and_carry_tokens() {
    let mut counted = chunk("agent_message_chunk", None, "");
    counted["_meta"] = json!({"usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}});
    let script = Script::open()
        .prompted()
        .update(chunk("agent_thought_chunk", None, "\n\n"))
        .update(chunk("agent_thought_chunk", None, "Hm"))
        .update(counted)
        .text("Hello.")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    let (story, ended) = scene.turn("go").await;
    assert!(!story.contains("says \"\""), "{story}");
    assert_eq!(ended.tokens.unwrap().usage.unwrap().last_total_tokens, 10);
    scene.goes_on().await;
}

fn usage(used: Value) -> Value {
    json!({"sessionUpdate": "usage_update", "used": used, "size": 1000})
}

#[tokio::test]
async fn zeros_and_nulls_do_not_overwrite_good_numbers() {
    let script = Script::open()
        .prompted()
        .update(usage(json!(250.5)))
        .text("Hello.")
        .answers(json!({"stopReason": "end_turn", "usage": {"inputTokens": 200, "outputTokens": 50, "totalTokens": 250}}))
        .prompted()
        .text("One")
        .told("session/cancel")
        .update(usage(json!(0)))
        .answers(json!({"stopReason": "cancelled", "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}}))
        .prompted()
        .text("Two")
        .answers(json!({"stopReason": "end_turn", "usage": null}));
    let mut scene = Scene::new(well(script)).await;
    scene.completes().await;
    scene.session.prompts("go").await;
    scene.session.hears("One").await;
    scene.session.cancels().await;
    let (told, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Interrupted);
    assert!(!told.contains("context 0"), "{told}");
    let (told, ended) = scene.turn("go").await;
    assert!(!told.contains("context 0"), "{told}");
    assert_eq!(ended.tokens, None, "no news, no numbers");
    scene.goes_on().await;
}

#[tokio::test]
async fn a_banner_before_the_first_turn_is_a_notice() {
    let notice = json!({"sessionUpdate": "notice", "severity": "warning", "title": "Old model", "description": "Use another."});
    // Before the answer, so that it surely precedes the prompt.
    let script = Script::new().initialized(json!({})).asked("session/new").text("Welcome to version 3!");
    let script = script.answers(json!({"sessionId": "script-session"}));
    let mut scene = Scene::new(well(script.prompted().update(notice).text("Hello.").ends("end_turn"))).await;
    let story = scene.completes().await;
    assert!(story.contains("warning agent_notice") && story.contains("warning agent_warning"), "{story}");
    assert!(story.contains("says \"Hello.\"") && !story.contains("says \"Welcome"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn a_session_info_with_nothing_in_it_is_no_title() {
    let info = |info: Value| {
        let mut update = json!({"sessionUpdate": "session_info_update"});
        update.as_object_mut().unwrap().extend(info.as_object().unwrap().clone());
        update
    };
    let script = Script::open()
        .prompted()
        .update(info(json!({"title": "A walk"})))
        .update(info(json!({"_meta": {"threadStatus": "active"}})))
        .update(info(json!({"title": null})))
        .update(info(json!({"title": ""})))
        .text("Hello.")
        .ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    let story = scene.completes().await;
    assert_eq!(story.matches("Agent").count(), 1, "{story}");
    assert!(story.contains("title \"A walk\" Agent"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn what_is_told_before_the_session_has_an_id_is_not_lost() {
    let title = json!({"sessionUpdate": "session_info_update", "title": "Early"});
    let script = Script::new().initialized(json!({})).asked("session/new").update(title.clone());
    // Nor does what is told of another session come in.
    let other = json!({"sessionUpdate": "session_info_update", "title": "Another's"});
    let script = script.update_of("another", other).answers(json!({"sessionId": "script-session"}));
    let mut scene = Scene::new(well(script.turn("Hello."))).await;
    let story = scene.completes().await;
    assert!(story.contains("title \"Early\" Agent") && !story.contains("Another's"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn what_comes_behind_the_end_is_of_that_turn() {
    let more = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
        "_meta": {"terminal_output_delta": {"terminal_id": "c", "data": "and on\n"}}});
    let script = Script::open()
        .prompted()
        .call("c", "execute", "in_progress")
        .ends("end_turn")
        .update(usage(json!(10)))
        .update(more)
        .call_is("c", "completed")
        .text("By the way, that went well.");
    let mut scene = Scene::new(well(script)).await;
    let turn = scene.session.prompts("go").await;
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Completed);
    let seen = scene.session.hears("By the way").await;
    assert!(story.contains("Failed Unfinished"), "{story}");
    let late = crate::stage::story(&seen);
    assert!(late.contains("output \"and on\\n\"") && late.contains("Completed\n"), "{late}");
    let of_it = |one: &signalbox_facts::Committed| match one {
        signalbox_facts::Committed::Fact(fact) => fact.turn == Some(turn),
        signalbox_facts::Committed::Signal(_) => true,
    };
    assert!(seen.iter().all(of_it), "{late}");
    assert!(!seen.iter().any(|one| matches!(fact(one), Some(FactBody::Activity(_)))), "{late}");
    scene.goes_on().await;
}

#[tokio::test]
async fn what_a_command_still_says_in_the_next_turn_makes_no_call_there() {
    let more = || {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c",
            "_meta": {"terminal_output_delta": {"terminal_id": "c", "data": "tick\n"}}})
    };
    let script = Script::open()
        .prompted()
        .call("c", "execute", "in_progress")
        .told("session/cancel")
        .ends("cancelled");
    let script = script.prompted().update(more()).call_is("c", "completed").text("Next.").ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    scene.hears(|body| matches!(body, FactBody::ToolCall(_))).await;
    scene.session.cancels().await;
    assert_eq!(scene.end().await.1.status, TurnStatus::Interrupted);
    let story = scene.completes().await;
    assert!(
        story.contains("says \"Next.\"") && !story.contains("Tool call") && !story.contains("tick"),
        "{story}"
    );
    scene.goes_on().await;
}

#[tokio::test]
async fn an_option_is_what_the_agent_last_said_of_it() {
    let options = |model: &str| {
        json!([{"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": model,
            "options": [{"group": "all", "name": "All", "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]}]}])
    };
    let modes = json!({"currentModeId": "one", "availableModes": [{"id": "one", "name": "1"}, {"id": "two", "name": "2"}]});
    let opened = json!({"configOptions": options("a"), "modes": modes});
    let script = Script::new()
        .initialized(json!({}))
        .opened(opened)
        .turn("Hello.")
        // An update before the answer, and the answer.
        .asked("session/set_config_option")
        .update(json!({"sessionUpdate": "config_option_update", "configOptions": options("b")}))
        .answers(json!({"configOptions": options("b")}))
        // An empty answer, and the update behind it.
        .asked("session/set_mode")
        .answers(json!({}))
        .update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "two"}));
    let mut scene = Scene::new(well(script)).await;
    scene.completes().await;
    for (id, value) in [("m", "b"), ("mode", "two")] {
        let op = Op::SetConfigOption {
            session: scene.session.id.to_string(),
            config_id: id.to_owned(),
            value: value.to_owned(),
        };
        scene.session.submit(op).await.unwrap();
    }
    scene.goes_on().await;
}

#[tokio::test]
async fn plans_come_as_plans_or_as_a_tool() {
    let entries = json!([{"content": "look", "priority": "high", "status": "in_progress"}, {"content": "leap", "status": "someday"}]);
    let script = Script::open().prompted().update(json!({"sessionUpdate": "plan", "entries": entries}));
    let mut scene = Scene::new(well(script.text("So.").ends("end_turn"))).await;
    assert!(scene.completes().await.contains("plan\n"));
    scene.goes_on().await;

    let todos = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "todowrite", "kind": "other", "status": "completed",
        "rawInput": {"todos": [{"content": "look", "status": "pending", "priority": "high"}]}});
    let script = Script::open().prompted().update(todos).text("So.").ends("end_turn");
    let mut scene = Scene::with(well(script), Props { provider: "opencode", ..Props::default() }).await;
    let story = scene.completes().await;
    assert!(story.contains("plan\n"), "{story}");
    scene.goes_on().await;
}

#[tokio::test]
async fn updates_that_nobody_knows_are_passed_over() {
    let script = Script::open()
        .prompted()
        .update(json!({"sessionUpdate": "brand_new_thing", "x": [1, 2]}))
        .update(json!({"sessionUpdate": "usage_update", "used": "many"}))
        .update(json!({"x": 1}))
        .update(json!("nothing"))
        .says(json!({"method": "_vendor/news", "params": {"a": 1}}))
        .text("Hello.")
        .ends("because I like it");
    let mut scene = Scene::new(well(script)).await;
    let (story, ended) = scene.turn("go").await;
    assert!(story.contains("says \"Hello.\""), "{story}");
    assert_eq!(ended.stop_reason.as_deref(), Some("because I like it"));
    scene.goes_on().await;
}
