//! Tool calls in the shapes that real agents send.

use serde_json::json;

use super::*;

struct Agent {
    quirks: Quirks,
    memory: ToolMemory,
}

impl Agent {
    fn new(quirks: Quirks) -> Self {
        Self { quirks, memory: ToolMemory::default() }
    }

    fn sends(&mut self, call: Value) -> ToolPatch {
        let Value::Object(call) = call else { panic!("an object") };
        let context = ToolContext { cwd: Path::new("/w"), quirks: &self.quirks };
        tool_patch(call, &context, &mut self.memory).unwrap()
    }
}

fn text_part(text: &str) -> Value {
    json!({"type":"content","content":{"type":"text","text":text}})
}

#[test]
fn growing_text_content_becomes_appended_output() {
    let mut agent = Agent::new(crate::vendors::opencode::OPENCODE.quirks);
    agent.sends(json!({"toolCallId":"c","title":"bash","kind":"execute","status":"pending"}));
    let first = agent.sends(json!({"toolCallId":"c","status":"in_progress","content":[text_part("one\n")]}));
    assert_eq!((first.output, first.content), (Some(OutputPatch::Replace("one\n".into())), None));
    let second =
        agent.sends(json!({"toolCallId":"c","status":"in_progress","content":[text_part("one\ntwo\n")]}));
    assert_eq!(second.output, Some(OutputPatch::Append("two\n".into())));
    let last = agent.sends(json!({"toolCallId":"c","status":"completed","content":[text_part("one\ntwo\n")],
        "rawOutput":{"output":"one\ntwo\n","metadata":{"exit":0}}}));
    assert_eq!((last.output, last.exit_code), (None, Some(0)));
}

#[test]
fn streamed_output_in_meta_is_appended_and_not_repeated() {
    let mut agent = Agent::new(crate::vendors::openai::CODEX.quirks);
    let start = agent.sends(json!({"toolCallId":"c","kind":"execute","status":"in_progress",
        "content":[{"type":"terminal","terminalId":"c"}],"rawInput":{"command":"ls","cwd":"/w/sub"}}));
    assert_eq!((start.command.as_deref(), start.cwd.as_deref()), (Some("ls"), Some(Path::new("/w/sub"))));
    let chunk = agent
        .sends(json!({"toolCallId":"c","_meta":{"terminal_output_delta":{"data":"a\n","terminal_id":"c"}}}));
    assert!(chunk.only_appends());
    let end = agent.sends(json!({"toolCallId":"c","status":"failed","rawOutput":{"formatted_output":"a\n"},
        "_meta":{"terminal_exit":{"exit_code":3,"signal":null}}}));
    assert_eq!((end.output, end.exit_code), (None, Some(3)));
}

#[test]
fn a_fence_around_the_output_is_taken_off_and_a_description_is_no_output() {
    let mut agent = Agent::new(crate::vendors::anthropic::CLAUDE_CODE.quirks);
    let start = agent.sends(json!({"toolCallId":"c","kind":"execute","status":"in_progress","content":[text_part("what it does")]}));
    assert_eq!(start.output, None);
    assert!(start.content.is_some());
    let end = agent.sends(json!({"toolCallId":"c","status":"completed","rawOutput":"hi","content":[text_part("```console\nhi\n```")]}));
    assert_eq!(end.output, Some(OutputPatch::Replace("hi\n".into())));
}

#[test]
fn output_may_be_an_array_of_bytes_and_the_kind_in_meta() {
    let mut agent = Agent::new(crate::vendors::xai::GROK.quirks);
    let start = agent
        .sends(json!({"toolCallId":"c","title":"run","_meta":{"x.ai/tool":{"name":"run","kind":"execute"}}}));
    assert_eq!((start.kind.as_deref(), start.name.as_deref()), (Some("execute"), Some("run")));
    let end = agent.sends(
        json!({"toolCallId":"c","status":"completed","rawOutput":{"output":[104,105,10],"exit_code":0}}),
    );
    assert_eq!((end.output, end.exit_code), (Some(OutputPatch::Replace("hi\n".into())), Some(0)));
}

#[test]
fn arguments_streamed_as_text_are_not_content() {
    let mut agent = Agent::new(crate::vendors::moonshot::KIMI.quirks);
    let call = agent
        .sends(json!({"toolCallId":"c","status":"in_progress","content":[text_part("{\"command\": \"l")]}));
    assert_eq!(call.content, None);
}

#[test]
fn odd_shapes_are_read_field_by_field() {
    let mut agent = Agent::new(Quirks::NONE);
    let call = agent.sends(json!({"toolCallId":17,"status":"dormant","kind":"teleport","locations":[{"path":"a.rs","line":2},{"line":3}],
        "content":[{"type":"diff","path":"a.rs","oldText":null,"newText":"x"},{"type":"future"}],"rawInput":"text"}));
    assert_eq!((call.id.as_str(), call.status, call.kind.as_deref()), ("17", None, Some("teleport")));
    assert_eq!(call.locations.unwrap().len(), 1);
    let parts = call.content.unwrap();
    assert!(matches!(&parts[0], ToolPart::Diff { path, old_text: None, .. } if path == Path::new("/w/a.rs")));
    assert!(matches!(&parts[1], ToolPart::Unknown(_)));
    let cleared = agent.sends(json!({"toolCallId":17,"content":null,"locations":null,"status":"cancelled"}));
    assert_eq!((cleared.content, cleared.locations.map(|list| list.len())), (Some(vec![]), Some(0)));
    assert!(cleared.cancelled && cleared.status == Some(ToolStatus::Failed));
}

#[test]
fn mcp_tools_are_recognised() {
    let mut agent = Agent::new(Quirks::NONE);
    let wanted = Some(McpTool { server: "docs".into(), tool: "find".into() });
    assert_eq!(agent.sends(json!({"toolCallId":"a","name":"mcp__docs__find"})).mcp, wanted);
    assert_eq!(
        agent.sends(json!({"toolCallId":"b","_meta":{"claudeCode":{"toolName":"mcp__docs__find"}}})).mcp,
        wanted
    );
    assert_eq!(
        agent.sends(json!({"toolCallId":"c","rawInput":{"server":"docs","tool":"find","arguments":{}}})).mcp,
        wanted
    );
    assert_eq!(agent.sends(json!({"toolCallId":"d","name":"mcp__broken"})).mcp, None);
}

#[test]
fn a_shell_around_a_command_is_left_out() {
    assert_eq!(command(&json!({"command":["/bin/bash","-lc","ls -l"]})).as_deref(), Some("ls -l"));
    assert_eq!(command(&json!({"cmd":["git","log"]})).as_deref(), Some("git log"));
    assert_eq!(command(&json!({"command":""})), None);
}
