//! What real agents sent, in shape (the words are our own), against what we make of it.
//!
//! `UPDATE_EXPECT=1 cargo test -p signalbox-agents recordings` renews the expected readings.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::{ExpectFile, expect_file};

use super::*;
use crate::presets::preset;
use crate::update::{OutputPatch, ToolPatch, Update};

/// Updates that are not read here, and why; one that is not among them fails the tests.
const UNKNOWN: [(&str, &str); 2] = [
    ("subagent_update", "read by the driver, which knows the sessions of subagents"),
    ("session_message", "read by the driver, which knows the sessions of subagents"),
];

/// What an agent said in a recording, a message a line; an empty one where a prompt begins.
fn said(recording: &str) -> impl Iterator<Item = String> {
    recording.lines().filter_map(|text| {
        let mut line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
        match (line.remove("a2c"), line.remove("c2a")) {
            (Some(message), _) => Some(message.to_string()),
            (_, Some(message)) if message["method"] == "session/prompt" => Some(String::new()),
            _ => None,
        }
    })
}

/// Reads every line of a recording as the provider's agent, one line of text each; the same ones in a row are counted.
fn check(provider: &str, recording: &str, expected: ExpectFile) {
    let quirks = preset(provider).unwrap().quirks;
    let context = ToolContext { cwd: Path::new("/work/project"), quirks: &quirks };
    let mut tools = ToolMemory::default();
    let mut memory = v2::Memory::default();
    let mut second = false;
    let mut reading: Vec<(String, usize)> = Vec::new();
    for text in said(recording) {
        if text.is_empty() {
            tools.clear();
            reading.push(("→ prompt".to_owned(), 1));
            continue;
        }
        let said = match line(text.as_bytes()) {
            Line::Notification { method, mut params } if method == "session/update" => {
                let Some(serde_json::Value::Object(object)) = params.remove("update") else {
                    panic!("{text}")
                };
                let fast = fast::chunk(text.as_bytes());
                if second {
                    let decoded = v2::update(object, text.len(), &context, &mut tools, &mut memory);
                    let told: Vec<_> = decoded.into_iter().map(told).collect();
                    reading.push((if told.is_empty() { "-".to_owned() } else { told.join(" and ") }, 1));
                    continue;
                }
                let decoded = update(object, text.len(), &context, &mut tools);
                // Both ways read the same.
                if let Some(chunk) = &fast {
                    let Decoded::Update(Update::Message(same) | Update::Thought(same)) = &decoded else {
                        panic!("{text}")
                    };
                    assert_eq!(
                        (&*chunk.text, chunk.message_id.as_deref()),
                        (&*same.text, same.message_id.as_deref())
                    );
                }
                told(decoded)
            }
            Line::Notification { method, .. } => format!("({method})"),
            Line::Request { method, mut params, .. } => match method.as_str() {
                "session/request_permission" if second => {
                    let (tool, options) =
                        v2::permission(&mut params, "own".to_owned(), &context, &mut tools, &mut memory);
                    format!("asks {} options about {}", options.len(), tool_text(&tool))
                }
                "session/request_permission" => {
                    let (call, options) = asked::permission(&mut params);
                    let tool = tool_patch(call, &context, &mut tools).unwrap();
                    let kinds: Vec<_> = options.iter().map(|option| format!("{:?}", option.kind)).collect();
                    format!("asks [{}] about {}", kinds.join(" "), tool_text(&tool))
                }
                "elicitation/create" => {
                    let form = form::form(&mut params, quirks.other_suffix).unwrap();
                    let fields: Vec<_> =
                        form.fields.iter().map(|field| format!("{}: {:?}", field.key, field.kind)).collect();
                    format!("asks form [{}]", fields.join(", "))
                }
                other => format!("refused {other}"),
            },
            Line::Answer { result: Ok(serde_json::Value::Object(mut result)), .. } => {
                if result.contains_key("protocolVersion") {
                    let hello = hello(result.into(), &[]);
                    second = hello.protocol == Some(2);
                    format!(
                        "hello load={} resume={} fork={} images={}",
                        hello.load, hello.resume, hello.fork, hello.images
                    )
                } else if result.contains_key("stopReason") {
                    format!(
                        "ends {} {:?}",
                        result["stopReason"],
                        prompt_usage(&result).map(|usage| usage.total)
                    )
                } else {
                    let options = result.remove("configOptions").and_then(|list| list.as_array().cloned());
                    let options = config_options(options.unwrap_or_default());
                    let categories: Vec<_> =
                        options.iter().filter_map(|option| option.category.clone()).collect();
                    let modes = result.remove("modes").and_then(modes).map(|modes| modes.available.len());
                    let models = result.remove("models").and_then(models).map(|(models, _)| models.len());
                    format!("opened {categories:?} modes={modes:?} models={models:?}")
                }
            }
            Line::Answer { result: Ok(_), .. } => "answers".to_owned(),
            Line::Answer { result: Err(error), .. } => format!("error {}", error.code),
            Line::Stray => "stray".to_owned(),
        };
        match reading.last_mut() {
            Some((last, times)) if *last == said => *times += 1,
            _ => reading.push((said, 1)),
        }
    }
    let lines = reading.iter().map(|(said, times)| match times {
        1 => format!("{said}\n"),
        times => format!("{said} ×{times}\n"),
    });
    expected.assert_eq(&lines.collect::<String>());
    let unknown = reading.iter().filter_map(|(said, _)| said.strip_prefix("UNKNOWN "));
    for kind in unknown {
        assert!(UNKNOWN.iter().any(|(known, _)| *known == kind), "an update that is lost: {kind}");
    }
}

fn told(decoded: Decoded) -> String {
    match decoded {
        Decoded::Update(update) => match update {
            Update::Message(_) => "message".to_owned(),
            Update::Thought(_) => "thought".to_owned(),
            Update::UserMessage(_) => "user message".to_owned(),
            Update::MessageContent { .. } => "message content".to_owned(),
            Update::Tool(tool) => tool_text(&tool),
            Update::Plan(plan) => format!("plan of {}", plan.entries.len()),
            Update::Commands(commands) => format!("{} commands", commands.len()),
            Update::Title(title) => format!("title {}", title.is_some()),
            Update::Notice { severity, .. } => format!("notice {severity:?}"),
            Update::Compaction { status, .. } => format!("compaction {status:?}"),
            Update::Unknown(value) => format!("UNKNOWN {}", value["sessionUpdate"].as_str().unwrap()),
            other => format!("{other:?}"),
        },
        Decoded::Options(options) => format!("{} options", options.len()),
        Decoded::Mode(_) => "mode".to_owned(),
        Decoded::Usage(usage) => {
            format!("window {:?}", context_window(&usage).map(|window| window.size_tokens))
        }
        Decoded::State(v2::State::Busy) => "busy".to_owned(),
        Decoded::State(v2::State::Idle(idle)) => {
            format!(
                "idle {:?} {:?}",
                fields::text(&idle, "stopReason"),
                prompt_usage(&idle).map(|usage| usage.total)
            )
        }
        Decoded::ReplayComplete => "replay complete".to_owned(),
        Decoded::Nothing => "-".to_owned(),
    }
}

fn tool_text(tool: &ToolPatch) -> String {
    let mut text = format!("tool {}", tool.id);
    if let Some(kind) = &tool.kind {
        write!(text, " {kind}").unwrap();
    }
    if let Some(status) = tool.status {
        write!(text, " {}", status.as_str()).unwrap();
    }
    let has = [
        ("title", tool.title.is_some()),
        ("command", tool.command.is_some()),
        ("locations", tool.locations.as_ref().is_some_and(|list| !list.is_empty())),
        ("input", tool.raw_input.is_some()),
        ("result", tool.raw_output.is_some()),
    ];
    let has: Vec<_> = has.into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
    write!(text, " {has:?}").unwrap();
    if let Some(parts) = &tool.content {
        write!(text, " content={}", parts.len()).unwrap();
    }
    match &tool.output {
        Some(OutputPatch::Append(more)) => write!(text, " +{more:?}").unwrap(),
        Some(OutputPatch::Replace(all)) => write!(text, " ={all:?}").unwrap(),
        None => {}
    }
    if let Some(code) = tool.exit_code {
        write!(text, " exit={code}").unwrap();
    }
    text
}

macro_rules! recording {
    ($test:ident, $provider:literal, $name:literal) => {
        #[test]
        fn $test() {
            check(
                $provider,
                include_str!(concat!("../../../../tests/recordings/", $name, ".jsonl")),
                expect_file![concat!("../../tests/readings/", $name, ".txt")],
            );
        }
    };
}

recording!(claude_agent_acp, "claude_code", "claude-agent-acp");
recording!(claude_agent_acp_v2, "claude_code", "claude-agent-acp-v2");
recording!(codex_acp, "codex", "codex-acp");
recording!(codex_acp_edge, "codex", "codex-acp-edge");
recording!(gemini, "gemini", "gemini");
recording!(grok, "grok", "grok");
recording!(kimi, "kimi", "kimi");
recording!(opencode, "opencode", "opencode");
recording!(opencode_edge, "opencode", "opencode-edge");
