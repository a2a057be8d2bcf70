//! However long what an agent sends is, little of it is kept.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::vendors::Quirks;

const BIG: usize = 4 << 20;
/// What may be left of one immense text, with room for its name.
const KEPT: usize = 80 << 10;

fn kept(update: Value) -> usize {
    let context = ToolContext { cwd: Path::new("/w"), quirks: &Quirks::NONE };
    let Value::Object(object) = update else { panic!() };
    format!("{:?}", super::update(object, BIG, &context, &mut ToolMemory::default())).len()
}

#[test]
fn immense_texts_of_updates_are_cut_or_left_out() {
    let big = "b".repeat(BIG);
    let call = |key: &str, value: Value| {
        let mut call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"});
        call[key] = value;
        call
    };
    for update in [
        json!({"sessionUpdate": big}),
        json!({"sessionUpdate": "session_info_update", "title": big}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": big}),
        json!({"sessionUpdate": "agent_message_chunk", "messageId": big, "content": {"type": "text", "text": "x"}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": big, "name": big}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "mimeType": big, "uri": big}}),
        json!({"sessionUpdate": "plan", "entries": [{"content": big, "priority": big}, big]}),
        json!({"sessionUpdate": "plan_update", "plan": {"planId": big, "entries": [{"content": big}]}}),
        json!({"sessionUpdate": "notice", "title": big, "description": big}),
        json!({"sessionUpdate": "compaction_update", "compactionId": big, "error": big}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": big, "description": big, "input": {"hint": big}}]}),
        call("toolCallId", json!(big)),
        call("title", json!(big)),
        call("kind", json!(big)),
        call("name", json!(big)),
        call("name", json!(format!("mcp__{big}__{big}"))),
        call("_meta", json!({"any": {"toolName": big}})),
        call("locations", json!([{"path": format!("/{big}")}, big])),
        call(
            "content",
            json!([{"type": "diff", "path": big, "newText": "x"}, {"type": "terminal", "terminalId": big}]),
        ),
        json!({"sessionUpdate": "config_option_update", "configOptions": [{"id": "o", "name": big, "category": big,
            "description": big, "type": "select", "currentValue": big,
            "options": [{"value": big, "name": "x"}, {"value": "v", "name": big, "description": big}]}, {"id": big}]}),
    ] {
        let names: Vec<_> = update.as_object().unwrap().keys().cloned().collect();
        let kind = update["sessionUpdate"].as_str().unwrap().get(..30).unwrap_or_default().to_owned();
        let bytes = kept(update);
        assert!(bytes < KEPT, "{kind} {names:?}: {bytes}");
    }
}

#[test]
fn immense_texts_of_answers_are_cut_or_left_out() {
    let big = "b".repeat(BIG);
    let error = rpc_error(json!({"code": 1, "message": big, "data": {"details": format!("x{big}")}}));
    assert!(error.message.len() < 20 << 10 && error.message.ends_with(ELLIPSIS));
    for version in [1, 2] {
        let told = json!({"name": big, "version": big});
        let hello = hello(
            json!({"protocolVersion": version, "agentInfo": told, "info": told, "authMethods": [
                {"id": "a", "name": big, "description": big, "type": big}, {"id": big},
                {"id": "c", "type": "terminal", "args": [big]}]}),
            &[],
        );
        let ids: Vec<_> = hello.auth_methods.iter().map(|method| method.id.as_str()).collect();
        assert_eq!((ids, hello.name.as_ref().map(String::len)), (vec!["a"], Some(NAME_BYTES)));
        assert!(format!("{hello:?}").len() < KEPT);
    }
    let models = models(json!({"currentModelId": big, "availableModels": [{"modelId": big},
        {"modelId": "m", "name": big, "description": big}]}));
    let modes = modes(json!({"currentModeId": big, "availableModes": [{"id": big},
        {"id": "m", "name": big, "description": big}]}));
    assert_eq!((models.as_ref().unwrap().0.len(), modes.as_ref().unwrap().available.len()), (1, 1));
    assert!(format!("{models:?}{modes:?}").len() < KEPT);
    let page = session_page(json!({"nextCursor": big, "sessions": [{"sessionId": big},
        {"sessionId": "s", "cwd": big, "title": big}]}));
    assert_eq!((page.sessions.len(), page.next.as_ref()), (1, None));
    assert!(format!("{page:?}").len() < KEPT);
    let options = asked::permission_options(vec![
        json!({"optionId": big, "name": "x"}),
        json!({"optionId": "a", "name": big, "kind": big}),
    ]);
    assert_eq!(options.len(), 1);
    assert!(format!("{options:?}").len() < KEPT);
}

#[test]
fn many_long_texts_together_are_bounded() {
    let long = "b".repeat(4000);
    let choices: Vec<_> = (0..2000).map(|at| json!({"value": at.to_string(), "description": long})).collect();
    let option = |at: usize| json!({"id": at.to_string(), "currentValue": "0", "options": choices});
    assert!(format!("{:?}", config_options((0..2).map(option).collect())).len() < 2 << 20);
    let entries: Vec<_> = (0..500).map(|_| json!({"content": long})).collect();
    assert!(kept(json!({"sessionUpdate": "plan", "entries": entries})) < 512 << 10);
}
