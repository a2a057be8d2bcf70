//! What version 2 says, piece by piece, and what it becomes.

use std::path::Path;

use serde_json::{Value, json};
use signalbox_facts::{FileChangeKind, ToolStatus};

use super::*;
use crate::vendors::Quirks;

#[derive(Default)]
struct Session {
    tools: ToolMemory,
    memory: Memory,
}

impl Session {
    fn hears(&mut self, update: Value) -> Vec<Update> {
        let context = ToolContext { cwd: Path::new("/w"), quirks: &Quirks::NONE };
        let Value::Object(object) = update else { panic!() };
        let decoded = super::update(object, 100, &context, &mut self.tools, &mut self.memory);
        let updates = decoded.into_iter().map(|decoded| match decoded {
            Decoded::Update(update) => update,
            other => panic!("{other:?}"),
        });
        updates.collect()
    }

    /// The texts that it becomes, each with its id.
    fn texts(&mut self, update: Value) -> Vec<String> {
        let updates = self.hears(update).into_iter().map(|update| match update {
            Update::Message(chunk) | Update::Thought(chunk) | Update::UserMessage(chunk) => {
                format!("{}: {}", chunk.message_id.unwrap_or_default(), chunk.text)
            }
            Update::MessageContent { message_id, .. } => {
                format!("{}: a piece", message_id.unwrap_or_default())
            }
            other => panic!("{other:?}"),
        });
        updates.collect()
    }

    fn tool(&mut self, update: Value) -> ToolPatch {
        let mut updates = self.hears(update);
        match (updates.pop(), updates.is_empty()) {
            (Some(Update::Tool(patch)), true) => *patch,
            other => panic!("{other:?}"),
        }
    }
}

fn chunk(id: &str, text: &str) -> Value {
    json!({"sessionUpdate":"agent_message_chunk","messageId":id,"content":{"type":"text","text":text}})
}

fn whole(id: &str, content: Value) -> Value {
    json!({"sessionUpdate":"agent_message","messageId":id,"content":content})
}

fn text(text: &str) -> Value {
    json!({"type":"text","text":text})
}

#[test]
fn a_whole_message_adds_what_its_chunks_had_not_told() {
    let mut session = Session::default();
    assert_eq!(session.texts(chunk("m", "Hel")), ["m: Hel"]);
    assert_eq!(session.texts(whole("m", json!([text("Hel"), text("lo")]))), ["m: lo"]);
    assert!(session.texts(whole("m", json!([text("Hello")]))).is_empty());
    assert!(session.texts(json!({"sessionUpdate":"agent_message","messageId":"m"})).is_empty());
    assert_eq!(session.texts(chunk("m", "!")), ["m: !"]);
    let picture = json!({"type":"image","data":"","mimeType":"image/png"});
    assert_eq!(session.texts(whole("m", json!([text("Hello!"), picture]))), ["m: a piece"]);
    assert!(session.texts(whole("m", json!([text("Hello!"), picture]))).is_empty());
    // An empty one begins a message that nobody has seen.
    assert!(session.texts(whole("n", json!([]))).is_empty());
    assert_eq!(session.texts(chunk("n", "next")), ["n: next"]);
}

#[test]
fn a_message_that_is_corrected_is_told_anew_beside_the_old_one() {
    let mut session = Session::default();
    session.texts(chunk("m", "The answer is 41."));
    // It shrinks, to something else or to a part of it.
    assert_eq!(session.texts(whole("m", json!([text("42")]))), ["m~1: 42"]);
    assert_eq!(session.texts(chunk("m", ", surely")), ["m~1: , surely"]);
    assert_eq!(session.texts(whole("m", json!([text("42")]))), ["m~2: 42"]);
    // It is cleared, and told again.
    assert!(session.texts(whole("m", Value::Null)).is_empty());
    assert_eq!(session.texts(chunk("m", "42")), ["m~3: 42"]);
    // Cut inside a character, it is not the same.
    session.texts(chunk("u", "a\u{e9}"));
    assert_eq!(session.texts(whole("u", json!([text("ab\u{e9}")]))), ["u~1: ab\u{e9}"]);
    // A thought of the same id is another message.
    let thought = json!({"sessionUpdate":"agent_thought","messageId":"m","content":[text("hm")]});
    assert_eq!(session.texts(thought), ["m: hm"]);
}

#[test]
fn chunks_without_an_id_are_told_as_they_come() {
    let mut session = Session::default();
    let bare = json!({"sessionUpdate":"agent_message_chunk","content":text("a")});
    assert_eq!(session.texts(bare), [": a"]);
}

#[test]
fn a_terminal_writes_into_the_call_that_shows_it() {
    let mut session = Session::default();
    // Before the call is known, it is kept.
    let before = json!({"sessionUpdate":"terminal_update","terminalId":"t","command":"make","cwd":"sub"});
    assert!(session.hears(before).is_empty());
    let early = json!({"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"b25l"});
    assert!(session.hears(early).is_empty());
    let call = json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"execute","title":"make",
        "status":"in_progress","content":[{"type":"terminal","terminalId":"t"}]});
    let patch = session.tool(call.clone());
    assert_eq!(patch.command.as_deref(), Some("make"));
    assert_eq!(patch.cwd.as_deref(), Some(Path::new("/w/sub")));
    assert_eq!(patch.output, Some(OutputPatch::Append("one".into())));
    // Told again, it says nothing new.
    assert_eq!(session.tool(call).output, None);

    // A character may be cut in two.
    let more = |data: &str| json!({"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":data});
    assert_eq!(session.tool(more("IMOp")).output, Some(OutputPatch::Append(" é".into())));
    assert!(session.hears(more("w6=")).len() == 1, "what is no base64 is text");
    let mut session = Session::default();
    session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"t"}]}));
    assert!(session.hears(more("ww==")).is_empty());
    assert_eq!(session.tool(more("qQ==")).output, Some(OutputPatch::Append("é".into())));

    // All of it at once: what is new, or all if it is another.
    let all = |data: &str| json!({"sessionUpdate":"terminal_update","terminalId":"t","output":{"data":data}});
    assert_eq!(session.tool(all("w6kh")).output, Some(OutputPatch::Append("!".into())));
    assert!(session.hears(all("w6kh")).is_empty());
    assert_eq!(session.tool(all("bm8=")).output, Some(OutputPatch::Replace("no".into())));
    let cleared = json!({"sessionUpdate":"terminal_update","terminalId":"t","output":null});
    assert_eq!(session.tool(cleared).output, Some(OutputPatch::Replace(String::new())));

    let end = json!({"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"exitCode":3}});
    assert_eq!(session.tool(end).exit_code, Some(3));
    // The result once more, as the model gets it, is not the output.
    let done = json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"execute","status":"failed","rawOutput":"exit 3"});
    let patch = session.tool(done);
    assert_eq!((patch.status, patch.output), (Some(ToolStatus::Failed), None));
}

#[test]
fn a_terminal_that_no_call_shows_becomes_one() {
    let mut session = Session::default();
    session.hears(json!({"sessionUpdate":"terminal_update","terminalId":"t","command":"watch"}));
    session.hears(json!({"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"b25l"}));
    session.hears(json!({"sessionUpdate":"terminal_update","terminalId":"empty"}));
    let unshown = session.memory.terminals.unshown();
    assert_eq!(unshown.len(), 1);
    assert_eq!((unshown[0].id.as_str(), unshown[0].title.as_deref()), ("t", Some("watch")));
    assert_eq!(unshown[0].output, Some(OutputPatch::Append("one".into())));
    assert!(session.memory.terminals.unshown().is_empty());
    let end = json!({"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"exitCode":null,"signal":"KILL"}});
    assert!(session.hears(end).is_empty());
    let more = json!({"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"dHdv"});
    assert_eq!(session.tool(more).id, "t");
}

#[test]
fn a_call_is_added_to_piece_by_piece() {
    let mut session = Session::default();
    session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"read","content":[{"type":"content","content":text("a")}]}));
    let more = |content: Value| json!({"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":content});
    let patch = session.tool(more(json!({"type":"content","content":text("b")})));
    // Text goes on as output, and what was there of it becomes that.
    assert_eq!((patch.content, patch.output), (Some(Vec::new()), Some(OutputPatch::Append("ab".into()))));
    let change = json!({"type":"diff","changes":[{"operation":"delete","path":"/w/x"}]});
    let patch = session.tool(more(change));
    let parts = patch.content.unwrap();
    let [ToolPart::Patch(diff)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!((diff.path.as_path(), &diff.kind), (Path::new("/w/x"), &FileChangeKind::Delete));
    // A new list is a new beginning.
    let cleared = session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","content":null}));
    assert_eq!(
        (cleared.content, cleared.output),
        (Some(Vec::new()), Some(OutputPatch::Replace(String::new())))
    );
    let patch = session.tool(more(json!({"type":"_hologram","x":1})));
    assert!(matches!(patch.content.as_deref(), Some([ToolPart::Unknown(_)])));

    // What a command without a terminal writes.
    session.tool(
        json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"execute","status":"in_progress"}),
    );
    let patch = session.tool(more(json!({"type":"content","content":text("out")})));
    assert_eq!((patch.output, patch.content), (Some(OutputPatch::Append("out".into())), None));
}

fn more(call: &str, content: Value) -> Value {
    json!({"sessionUpdate":"tool_call_content_chunk","toolCallId":call,"content":content})
}

#[test]
fn each_chunk_of_text_is_told_once_however_many_there_are() {
    let mut session = Session::default();
    session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"read"}));
    for n in 0..8_000 {
        let text = text(&format!("{n} and twenty bytes\n"));
        let patch = session.tool(more("c", json!({"type":"content","content":text.clone()})));
        assert!(patch.only_appends());
        assert_eq!(patch.output, Some(OutputPatch::Append(text["text"].as_str().unwrap().to_owned())));
    }
    // The whole list at the end takes the place of it all, and is no second copy.
    let all = json!([{"type":"content","content":text("all of it")}]);
    let end = session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","content":all}));
    assert_eq!((end.content, end.output), (Some(Vec::new()), Some(OutputPatch::Replace("all of it".into()))));
}

#[test]
fn many_pieces_are_not_told_again_with_each_and_too_many_are_marked() {
    let mut session = Session::default();
    let data = "x".repeat(1_000);
    let picture = json!({"type":"content","content":{"type":"image","mimeType":"image/png","data":data}});
    let (mut told, mut latest, mut marks) = (0, 0, 0);
    for _ in 0..2_000 {
        for update in session.hears(more("c", picture.clone())) {
            let Update::Tool(patch) = update else { panic!("{update:?}") };
            if let Some(parts) = patch.content {
                assert!(parts.len() > latest, "what was shown stays");
                (told, latest) = (told + parts.len(), parts.len());
            }
            if let Some(OutputPatch::Append(text)) = patch.output {
                assert_eq!(text, contents::LEFT_OUT);
                marks += 1;
            }
        }
    }
    let rest = session.memory.untold();
    latest = rest.first().and_then(|patch| patch.content.as_ref()).map_or(latest, Vec::len);
    assert!((900..=1_000).contains(&latest) && told < 8 * latest, "{told} for {latest}");
    assert_eq!(marks, 1);
    assert!(session.memory.untold().is_empty());
}

#[test]
fn pieces_of_a_call_that_is_forgotten_are_marked_and_replace_nothing() {
    let mut session = Session::default();
    let picture = json!({"type":"content","content":{"type":"image","mimeType":"image/png","data":"x"}});
    session.tool(more("first", picture.clone()));
    for n in 0..300 {
        session.tool(more(&format!("other {n}"), json!({"type":"content","content":text("words")})));
    }
    let patch = session.tool(more("first", picture.clone()));
    assert_eq!((patch.content, patch.output), (None, Some(OutputPatch::Append(contents::LEFT_OUT.into()))));
    assert!(session.hears(more("first", picture)).is_empty());
    // So are those of one whose pieces had to go, because others hold too many.
    let mut session = Session::default();
    let large = json!({"type":"content","content":{"type":"image","mimeType":"image/png","data":"x".repeat(900 << 10)}});
    for n in 0..6 {
        assert!(session.tool(more(&format!("call {n}"), large.clone())).content.is_some());
    }
    let patch = session.tool(more("call 0", large));
    assert_eq!((patch.content, patch.output), (None, Some(OutputPatch::Append(contents::LEFT_OUT.into()))));
    let words = session.tool(more("call 1", json!({"type":"content","content":text("words")})));
    assert_eq!((words.content, words.output), (None, Some(OutputPatch::Append("words".into()))));
}

#[test]
fn states_of_calls_are_read_as_far_as_they_are_known() {
    let mut session = Session::default();
    let mut status = |word: &str| {
        let patch = session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":word}));
        (patch.status, patch.cancelled)
    };
    assert_eq!(status("paused"), (Some(ToolStatus::InProgress), false));
    assert_eq!(status("cancelled"), (Some(ToolStatus::Failed), true));
    assert_eq!(status("_melted"), (None, false));
}

#[test]
fn what_is_unknown_is_kept() {
    let updates = Session::default().hears(json!({"sessionUpdate":"_weather","rain":true}));
    assert_eq!(updates, [Update::Unknown(json!({"sessionUpdate":"_weather","rain":true}))]);
}

#[test]
fn a_permission_request_has_a_title_of_its_own() {
    let asks = |session: &mut Session, params: Value| {
        let context = ToolContext { cwd: Path::new("/w"), quirks: &Quirks::NONE };
        let Value::Object(mut params) = params else { panic!() };
        let (tools, memory) = (&mut session.tools, &mut session.memory);
        permission(&mut params, "own".into(), &context, tools, memory).0
    };
    let about =
        |call: Value| json!({"title":"Run it?","options":[],"subject":{"type":"tool_call","toolCall":call}});
    let mut session = Session::default();
    // It names a call that is not known yet, and then one that is.
    let patch = asks(&mut session, about(json!({"toolCallId":"c","kind":"execute"})));
    assert_eq!((patch.id.as_str(), patch.title.as_deref()), ("c", Some("Run it?")));
    let patch = asks(&mut session, about(json!({"toolCallId":"c","status":"pending"})));
    assert_eq!((patch.title, patch.status), (None, Some(ToolStatus::Pending)));
    // A command, of its own or of a call's terminal.
    let command =
        json!({"title":"Run it?","subject":{"type":"command","command":"ls","cwd":"/x","terminalId":"t"}});
    let patch = asks(&mut session, command.clone());
    assert_eq!((patch.id.as_str(), patch.title.as_deref()), ("own", Some("ls")));
    assert_eq!((patch.kind.as_deref(), patch.cwd.as_deref()), (Some("execute"), Some(Path::new("/x"))));
    session.tool(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"t"}]}));
    assert_eq!(asks(&mut session, command).id, "c");
    // About nothing, or something unheard of.
    for params in [json!({"title":"Sure?"}), json!({"title":"Sure?","subject":{"type":"_oath","of":1}})] {
        let patch = asks(&mut session, params);
        assert_eq!((patch.id.as_str(), patch.title.as_deref()), ("own", Some("Sure?")));
    }
}
