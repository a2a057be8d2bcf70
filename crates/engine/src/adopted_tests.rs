//! What becomes of a conversation that is told: turns, prompts, closed calls, and how much of it is kept.

use std::path::Path;

use signalbox_facts::{Committed, SessionId, ToolStatus};

use super::*;

fn chunk(id: Option<&str>, text: &str) -> TextChunk {
    TextChunk { message_id: id.map(str::to_owned), text: text.to_owned() }
}

fn user(id: Option<&str>, text: &str) -> Update {
    Update::UserMessage(chunk(id, text))
}

fn says(id: Option<&str>, text: &str) -> Update {
    Update::Message(chunk(id, text))
}

fn tool(id: &str, status: ToolStatus) -> Update {
    Update::Tool(Box::new(ToolPatch {
        id: id.to_owned(),
        title: Some("ls".to_owned()),
        kind: Some("execute".to_owned()),
        command: Some("ls".to_owned()),
        status: Some(status),
        output: Some(OutputPatch::Replace("one".to_owned())),
        ..ToolPatch::default()
    }))
}

/// The facts in short, turns numbered in their order.
fn facts(transcript: Transcript) -> Vec<String> {
    let mut batch = Batch::new(SessionId::generate(), 1, 7);
    let frame = Frame { cwd: Path::new("/w"), policy: Policy::default() };
    transcript.write(&mut batch, frame, false);
    let mut turns: Vec<TurnId> = Vec::new();
    let (_, entries) = batch.seal();
    let facts = entries.iter().filter_map(|entry| match entry {
        Committed::Fact(fact) => Some(fact),
        Committed::Signal(_) => None,
    });
    let mut lines = Vec::new();
    for fact in facts {
        let turn = fact.turn.unwrap();
        if !turns.contains(&turn) {
            turns.push(turn);
        }
        let what = match &fact.body {
            FactBody::Activity(activity) => format!("revision {}", activity.revision),
            FactBody::Prompt(prompt) => format!("> {}", prompt.text),
            FactBody::AgentText(text) => text.text.clone(),
            FactBody::ToolCall(call) => format!("{} {:?} {:?}", call.id, call.status, call.outcome),
            FactBody::ToolOutput(output) => format!("| {}", output.text),
            FactBody::TitleChanged(title) => format!("title {}", title.title),
            FactBody::TurnEnded(ended) => format!("{:?} {:?}", ended.status, ended.stop_reason),
            FactBody::Warning(warning) => format!("{}: {}", warning.reason, warning.message),
            other => other.kind().to_owned(),
        };
        lines.push(format!("{} {what}", turns.len()));
    }
    lines
}

#[test]
fn what_the_user_says_opens_a_turn_and_calls_are_closed_with_it() {
    let mut transcript = Transcript::default();
    for update in [
        user(Some("u1"), "List "),
        user(Some("u1"), "files"),
        user(Some("u2"), "(context)"),
        says(Some("m"), "Well"),
        says(Some("m"), "…"),
        tool("t", ToolStatus::Completed),
        user(None, "Again"),
        tool("t", ToolStatus::InProgress),
        Update::Title(Some("Files".to_owned())),
    ] {
        transcript.take(update);
    }
    assert_eq!(transcript.title(), Some("Files"));
    assert_eq!(
        facts(transcript),
        [
            "1 revision 1",
            "1 title List files",
            "1 > List files\n\n(context)",
            "1 Well…",
            "1 t InProgress None",
            "1 | one",
            "1 t Completed None",
            "1 revision 2",
            "1 Completed None",
            "2 revision 3",
            "2 > Again",
            "2 t InProgress None",
            "2 | one",
            "2 t Failed Some(Unfinished)",
            "2 revision 4",
            "2 Completed None",
        ]
    );
}

#[test]
fn what_comes_before_the_first_prompt_is_a_turn_too() {
    let mut transcript = Transcript::default();
    transcript.take(Update::Notice {
        severity: NoticeSeverity::Warning,
        title: "Old".into(),
        description: Some("very".into()),
    });
    let content = Box::new(Content::Text("Hi".into()));
    transcript.take(Update::MessageContent { thought: false, message_id: None, content });
    assert_eq!(
        facts(transcript),
        [
            "1 revision 1",
            "1 > (The agent did not tell what was asked here.)",
            "1 agent_warning: Old: very",
            "1 Hi",
            "1 revision 2",
            "1 Completed None",
        ]
    );
}

#[test]
fn the_newest_part_of_a_long_conversation_is_kept() {
    let mut transcript = Transcript::default();
    for turn in 0..100 {
        transcript.take(user(None, &format!("question {turn}")));
        transcript.take(says(None, &"x".repeat(1 << 20)));
    }
    assert!(transcript.bytes <= MAX_BYTES, "{}", transcript.bytes);
    let left_out = transcript.left_out();
    assert!((68..72).contains(&left_out), "{left_out}");
    let facts = facts(transcript);
    assert!(facts[2].ends_with(&format!("> question {left_out}")), "{}", facts[2]);
    assert!(facts.iter().any(|fact| fact.ends_with("> question 99")));
}

#[test]
fn a_turn_that_is_too_long_by_itself_ends_early() {
    let mut transcript = Transcript::default();
    transcript.take(user(None, "Go"));
    for n in 0..100 {
        transcript.take(says(Some(&n.to_string()), &"x".repeat(1 << 20)));
    }
    assert!(transcript.bytes <= MAX_BYTES && transcript.left_out() == 0);
}
