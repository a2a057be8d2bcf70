//! Turns: text, permission requests, questions, cancels, late updates.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_agents::{
    AgentEvent, Answer, ElicitationAnswer, FailureReason, Limits, SendError, TextChunk, TokenUsage, Update,
};
use signalbox_facts::{FieldKind, OptionKind, ToolStatus};

use crate::rig::{Rig, limits, open, prompt, spec};

#[tokio::test]
async fn a_turn_comes_in_order_and_late_updates_after_its_end() {
    let mut rig = Rig::new("turn");
    let info = rig.ready().await;
    assert_eq!((info.name.as_str(), info.version.as_deref()), ("fake", Some("0.1")));
    rig.agent().prompt(prompt("hello")).unwrap();
    let mut seen = Vec::new();
    let outcome = loop {
        match rig.next().await.unwrap() {
            AgentEvent::PromptEnded(outcome) => break outcome.unwrap(),
            AgentEvent::Update(Update::Message(TextChunk { text, .. })) => seen.push(format!("says {text}")),
            AgentEvent::Update(Update::Thought(TextChunk { text, .. })) => {
                seen.push(format!("thinks {text}"))
            }
            AgentEvent::Update(Update::Tool(tool)) => seen.push(format!("{} {:?}", tool.id, tool.status)),
            AgentEvent::Update(Update::ContextWindow(window)) => {
                seen.push(format!("used {}", window.used_tokens))
            }
            other => panic!("{other:?}"),
        }
    };
    // The two chunks may have come merged or not.
    let seen = seen.join("|").replace("says Hello|says  there", "says Hello there");
    assert_eq!(
        seen,
        format!(
            "thinks hm|says Hello there|c {:?}|c {:?}|used 10",
            Some(ToolStatus::InProgress),
            Some(ToolStatus::Completed)
        )
    );
    assert_eq!(outcome.stop_reason, "end_turn");
    assert_eq!(outcome.usage, Some(TokenUsage { input: 8, output: 2, total: 10, ..TokenUsage::default() }));
    assert!(outcome.had_output && !outcome.cancel_requested);
    let title = rig.until(|event| match event {
        AgentEvent::Update(Update::Title(title)) => Some(title),
        _ => None,
    });
    assert_eq!(title.await.as_deref(), Some("A title"));
    let text = rig.until(|event| match event {
        AgentEvent::Update(Update::Message(chunk)) => Some(chunk.text),
        _ => None,
    });
    assert_eq!(text.await, "afterthought");
}

#[tokio::test]
async fn a_prompt_may_be_sent_at_once_and_only_one_at_a_time() {
    let mut rig = Rig::new("turn");
    rig.agent().prompt(prompt("early")).unwrap();
    assert_eq!(rig.agent().prompt(prompt("second")), Err(SendError::PromptRunning));
    assert_eq!(rig.agent().prompt(prompt("").clone()), Err(SendError::PromptRunning));
    assert!(rig.prompt_ended().await.is_ok());
    let empty = signalbox_agents::PromptRequest::default();
    assert_eq!(rig.agent().prompt(empty), Err(SendError::EmptyPrompt));
}

#[tokio::test]
async fn a_permission_request_is_answered_once_with_the_chosen_option() {
    let mut rig = Rig::new("permission");
    rig.agent().prompt(prompt("go")).unwrap();
    let (key, tool, options) = rig
        .until(|event| match event {
            AgentEvent::Permission { key, tool, options, .. } => Some((key, tool, options)),
            _ => None,
        })
        .await;
    assert_eq!(
        (tool.id.as_str(), tool.kind.as_deref(), tool.command.as_deref()),
        ("call-1", Some("execute"), Some("ls"))
    );
    assert_eq!(
        options.iter().map(|option| option.kind.clone()).collect::<Vec<_>>(),
        [OptionKind::AllowOnce, OptionKind::RejectOnce]
    );
    rig.agent().answer_permission(key, Answer::Selected("yes".into())).unwrap();
    rig.agent().answer_permission(key, Answer::Selected("no".into())).unwrap();
    let (text, outcome) = rig.turn().await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        answer,
        json!({"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}})
    );
    assert_eq!(outcome.unwrap().stop_reason, "end_turn");
}

#[tokio::test]
async fn a_question_is_a_form_and_its_answer_keeps_its_types() {
    let mut rig = Rig::new("question");
    rig.agent().prompt(prompt("go")).unwrap();
    let (key, tool_call, form) = rig
        .until(|event| match event {
            AgentEvent::Elicitation { key, tool_call, form } => Some((key, tool_call, form)),
            _ => None,
        })
        .await;
    assert_eq!((form.message.as_str(), tool_call.as_deref()), ("Which?", Some("c")));
    assert_eq!((form.fields[0].key.as_str(), form.fields[0].kind), ("colour", FieldKind::Select));
    // The wrong kind of answer answers nothing.
    rig.agent().answer_permission(key, Answer::Cancelled).unwrap();
    let values = BTreeMap::from([("colour".to_owned(), json!("blue"))]);
    rig.agent().answer_elicitation(key, ElicitationAnswer::Accept(values)).unwrap();
    let (text, _) = rig.turn().await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["result"], json!({"action":"accept","content":{"colour":"blue"}}));
}

#[tokio::test]
async fn a_request_that_the_agent_takes_back_is_withdrawn_and_still_answered() {
    let mut rig = Rig::new("withdraws");
    rig.agent().prompt(prompt("go")).unwrap();
    let asked = rig
        .until(|event| match event {
            AgentEvent::Permission { key, .. } => Some(key),
            _ => None,
        })
        .await;
    let withdrawn = rig
        .until(|event| match event {
            AgentEvent::Withdrawn { key } => Some(key),
            _ => None,
        })
        .await;
    assert_eq!(asked, withdrawn);
    rig.agent().answer_permission(asked, Answer::Selected("yes".into())).unwrap();
    let (text, _) = rig.turn().await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer, json!({"jsonrpc":"2.0","id":"p-1","result":{"outcome":{"outcome":"cancelled"}}}));
}

#[tokio::test]
async fn a_cancel_answers_what_is_open_and_the_next_prompt_works() {
    let mut rig = Rig::new("cancellable");
    rig.agent().prompt(prompt("go")).unwrap();
    let key = rig
        .until(|event| match event {
            AgentEvent::Permission { key, .. } => Some(key),
            _ => None,
        })
        .await;
    rig.agent().cancel().unwrap();
    rig.agent().cancel().unwrap();
    let withdrawn = rig
        .until(|event| match event {
            AgentEvent::Withdrawn { key } => Some(key),
            _ => None,
        })
        .await;
    assert_eq!(withdrawn, key);
    let (text, outcome) = rig.turn().await;
    let outcomes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cancelled = json!({"outcome":{"outcome":"cancelled"}});
    assert_eq!(outcomes.iter().map(|answer| &answer["result"]).collect::<Vec<_>>(), [&cancelled, &cancelled]);
    // It answered the prompt with an error; the cancel decides what that means.
    let outcome = outcome.unwrap();
    assert_eq!((outcome.stop_reason.as_str(), outcome.cancel_requested), ("cancelled", true));
    rig.agent().prompt(prompt("go on")).unwrap();
    let (text, outcome) = rig.turn().await;
    assert_eq!((text.as_str(), outcome.unwrap().cancel_requested), ("again", false));
}

#[tokio::test]
async fn a_prompt_that_waits_is_cancelled_without_the_agent() {
    let mut rig = Rig::new("silent");
    rig.agent().prompt(prompt("never sent")).unwrap();
    rig.agent().cancel().unwrap();
    let outcome = rig.prompt_ended().await.unwrap();
    assert_eq!((outcome.stop_reason.as_str(), outcome.cancel_requested), ("cancelled", true));
    rig.agent().stop();
    assert_eq!(rig.start_failure().await.reason, FailureReason::Stopped);
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_killed() {
    let limits = Limits { cancel: Duration::from_millis(50), ..limits() };
    let mut rig = Rig::with(spec("ignores-cancel"), open(), limits);
    rig.agent().prompt(prompt("go")).unwrap();
    rig.until(|event| matches!(event, AgentEvent::Update(Update::Message(_))).then_some(())).await;
    rig.agent().cancel().unwrap();
    let failure = rig.prompt_ended().await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::AgentTimeout);
    assert_eq!(rig.exit().await.reason, FailureReason::AgentTimeout);
}

#[tokio::test]
async fn silence_in_a_prompt_is_reported_and_so_is_its_end() {
    let limits = Limits { stall: Duration::from_millis(20), ..limits() };
    let mut rig = Rig::with(spec("silent-in-prompt"), open(), limits);
    rig.agent().prompt(prompt("go")).unwrap();
    let silent = rig
        .until(|event| match event {
            AgentEvent::Stalled(silent) => Some(silent),
            _ => None,
        })
        .await;
    assert!(silent.unwrap() >= Duration::from_millis(20));
    rig.agent().cancel().unwrap();
    let speaks = rig
        .until(|event| match event {
            AgentEvent::Stalled(silent) => Some(silent),
            _ => None,
        })
        .await;
    assert_eq!(speaks, None);
    assert_eq!(rig.prompt_ended().await.unwrap().stop_reason, "cancelled");
}

#[tokio::test]
async fn what_nobody_takes_holds_the_agent_back_but_not_a_cancel() {
    let limits = Limits { queue_bytes: 4 << 10, cancel: Duration::from_secs(60), ..limits() };
    let mut rig = Rig::with(spec("floods"), open(), limits);
    rig.ready().await;
    rig.agent().prompt(prompt("go")).unwrap();
    let mut text = rig
        .until(|event| match event {
            AgentEvent::Update(Update::Message(chunk)) => Some(chunk.text),
            _ => None,
        })
        .await;
    rig.agent().cancel().unwrap();
    let (rest, outcome) = rig.turn().await;
    text.push_str(&rest);
    assert_eq!(outcome.unwrap().stop_reason, "cancelled");
    let numbers: Vec<u32> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..30_000), "nothing is lost or out of order");
}
