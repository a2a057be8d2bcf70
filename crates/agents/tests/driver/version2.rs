//! Version 2 of ACP, end to end: negotiation, turns, permission requests, cancels, earlier sessions.

use signalbox_agents::{Agent, AgentEvent, Answer, FailureReason, OpenSession, TextChunk, ToolPatch, Update};
use signalbox_facts::Command;

use crate::fake::SESSION;
use crate::rig::{Rig, limits, open, prompt, spec};

fn offering_two(part: &str, open: OpenSession) -> Rig {
    let mut spec = spec(part);
    spec.protocol = 2;
    // Only an earlier session has options here.
    spec.ask_modes = open.resume.iter().map(|_| "careful".to_owned()).collect();
    Rig::with(spec, open, limits())
}

fn rig(part: &str) -> Rig {
    offering_two(part, open())
}

/// An event as a line; chunks of one message are joined.
fn line(event: AgentEvent) -> String {
    let text = |who: &str, TextChunk { message_id, text }| {
        format!("{who} {}: {text}", message_id.unwrap_or_default())
    };
    match event {
        AgentEvent::Update(Update::Message(chunk)) => text("says", chunk),
        AgentEvent::Update(Update::Thought(chunk)) => text("thinks", chunk),
        AgentEvent::Update(Update::UserMessage(chunk)) => text("hears", chunk),
        AgentEvent::Replayed(update) => format!("before: {}", line(AgentEvent::Update(update))),
        AgentEvent::Update(Update::Tool(tool)) => format!("tool {}", tool_text(&tool)),
        AgentEvent::Update(Update::Commands(commands)) => format!("offers {} commands", commands.len()),
        AgentEvent::Update(Update::Title(title)) => format!("title {title:?}"),
        AgentEvent::Permission { tool, .. } => format!("asks about {}", tool_text(&tool)),
        AgentEvent::PromptEnded(Ok(outcome)) => {
            format!("ends {} {:?}", outcome.stop_reason, outcome.usage.map(|usage| usage.total))
        }
        other => format!("{other:?}"),
    }
}

fn tool_text(tool: &ToolPatch) -> String {
    let mut said = vec![tool.id.clone()];
    said.extend(tool.title.clone());
    said.extend(tool.command.as_ref().map(|command| format!("command={command}")));
    said.extend(tool.status.map(|status| status.as_str().to_owned()));
    said.extend(tool.output.as_ref().map(|output| format!("{output:?}")));
    said.extend(tool.exit_code.map(|code| format!("exit={code}")));
    said.join(" ")
}

/// Everything until the prompt's end; permission requests are answered with the first option.
async fn story(rig: &mut Rig) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    loop {
        let event = rig.next().await.expect("the stream has not ended");
        if let AgentEvent::Permission { key, options, .. } = &event {
            let answer = Answer::Selected(options[0].id.clone());
            rig.agent().answer_permission(*key, answer).unwrap();
        }
        let ended = matches!(event, AgentEvent::PromptEnded(_));
        let line = line(event);
        // Chunks of one message may have come merged or not.
        match lines.last_mut() {
            Some(last) if line.starts_with("says m: ") && last.starts_with("says m: ") => {
                last.push_str(&line["says m: ".len()..]);
            }
            _ => lines.push(line),
        }
        if ended {
            return lines;
        }
    }
}

#[tokio::test]
async fn a_turn_is_told_like_any_other() {
    let mut rig = rig("two-turn");
    let info = rig.ready().await;
    assert_eq!((info.protocol, info.name.as_str(), info.version.as_deref()), (2, "fake", Some("0.2")));
    assert!(info.can_load && info.can_resume && info.can_list && info.can_close && !info.can_fork);
    let commands = rig.until(|event| match event {
        AgentEvent::Update(Update::Commands(commands)) => Some(commands),
        _ => None,
    });
    assert_eq!(commands.await, [Command { name: "go".into(), description: String::new(), hint: None }]);
    rig.agent().prompt(prompt("go")).unwrap();
    assert_eq!(
        story(&mut rig).await,
        [
            "hears u: go",
            "thinks m: hm",
            "says m: Hello there",
            "tool c ls command=ls pending",
            "asks about c pending",
            "tool c Append(\"a.txt\\n\")",
            "tool c exit=0",
            "tool c completed",
            "ends end_turn Some(10)",
        ]
    );
    // What the agent does on its own account belongs to no prompt, and ends none.
    let mut late = Vec::new();
    while late.last().is_none_or(|last: &String| !last.contains("afterthought")) {
        late.push(line(rig.next().await.unwrap()));
    }
    assert_eq!(late, ["title Some(\"A title\")", "says n: afterthought"]);
    rig.agent().prompt(prompt("again")).unwrap();
    assert_eq!(story(&mut rig).await, ["ends refusal Some(10)"]);
}

#[tokio::test]
async fn a_message_that_shrinks_is_corrected_by_another_and_the_answer_may_come_last() {
    let mut rig = rig("two-hasty");
    rig.ready().await;
    rig.agent().prompt(prompt("go")).unwrap();
    let story = story(&mut rig).await;
    assert_eq!(
        story,
        [
            "offers 1 commands",
            "hears u: go",
            "says m: The answer is 41.",
            "says m~1: 42",
            "says m~2: 43",
            "ends end_turn Some(10)"
        ]
    );
}

async fn says(rig: &mut Rig, wanted: &str) {
    rig.until(|event| match event {
        AgentEvent::Update(Update::Message(chunk)) => chunk.text.contains(wanted).then_some(()),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_cancel_ends_the_prompt_wherever_it_is() {
    let mut rig = rig("two-cancelled");
    rig.ready().await;
    let start = |agent: &Agent| agent.prompt(prompt("go")).unwrap();
    start(rig.agent());
    says(&mut rig, "working").await;
    rig.agent().cancel().unwrap();
    let (text, outcome) = rig.turn().await;
    let outcome = outcome.unwrap();
    assert_eq!((text.as_str(), outcome.stop_reason.as_str()), (" still", "cancelled"));
    assert!(outcome.cancel_requested);

    start(rig.agent());
    let key = rig.until(|event| match event {
        AgentEvent::Permission { key, .. } => Some(key),
        _ => None,
    });
    let key = key.await;
    rig.agent().cancel().unwrap();
    let withdrawn = rig.until(|event| match event {
        AgentEvent::Withdrawn { key } => Some(key),
        _ => None,
    });
    assert_eq!(withdrawn.await, key);
    let (text, outcome) = rig.turn().await;
    assert_eq!(outcome.unwrap().stop_reason, "cancelled");
    for id in [1, 2] {
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#);
        assert!(text.contains(&answer), "{text}");
    }

    start(rig.agent());
    says(&mut rig, "another thing").await;
    rig.agent().cancel().unwrap();
    assert_eq!(rig.prompt_ended().await.unwrap().stop_reason, "cancelled");

    start(rig.agent());
    assert_eq!(rig.prompt_ended().await.unwrap().stop_reason, "end_turn");
}

#[tokio::test]
async fn an_agent_that_dies_after_taking_a_prompt_ends_it() {
    let mut rig = rig("two-dies");
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, outcome) = rig.turn().await;
    assert_eq!(text, "the last words");
    let failure = outcome.unwrap_err();
    assert_eq!(failure.reason, FailureReason::AgentFailed);
    assert_eq!(failure.exit_status.as_deref(), Some("exit status: 7"));
    rig.exit().await;
}

#[tokio::test]
async fn an_agent_of_the_version_before_is_spoken_to_in_it() {
    let mut rig = rig("two-answers-one");
    assert_eq!(rig.ready().await.protocol, 1);
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, outcome) = rig.turn().await;
    assert_eq!((text.as_str(), outcome.unwrap().stop_reason.as_str()), ("as before", "end_turn"));

    let mut rig = self::rig("two-refused");
    assert_eq!(rig.ready().await.protocol, 1);
}

#[tokio::test]
async fn a_version_that_is_not_spoken_fails_clearly() {
    let failure = rig("two-three").start_failure().await;
    assert_eq!(failure.message, "fake answered with ACP version 3, and signalbox had offered version 2");
}

#[tokio::test]
async fn an_earlier_session_goes_on_without_its_history() {
    let open = OpenSession { resume: Some(SESSION.to_owned()), ..open() };
    let mut rig = offering_two("two-resumes", open);
    let info = rig.ready().await;
    assert!(info.resumed && !info.context_lost && info.mode_in_force);
    assert_eq!(info.modes.map(|modes| modes.current).as_deref(), Some("careful"));
}

#[tokio::test]
async fn an_earlier_session_is_told_where_that_is_wanted() {
    let open = OpenSession { resume: Some(SESSION.to_owned()), replay: true, ..open() };
    let mut rig = offering_two("two-replays", open);
    let mut lines = Vec::new();
    let info = loop {
        match rig.next().await.unwrap() {
            AgentEvent::Ready(info) => break info,
            AgentEvent::Introduced(_) => {}
            event => lines.push(line(event)),
        }
    };
    assert!(info.replayed);
    assert_eq!(
        lines,
        [
            "before: hears u: old question",
            "before: says m: old answer",
            "before: tool c ls command=ls completed Append(\"a.txt\\n\")",
        ]
    );
    rig.agent().prompt(prompt("go")).unwrap();
    assert_eq!(story(&mut rig).await, ["says m:  and a new one", "ends end_turn Some(10)"]);
}

#[tokio::test]
async fn an_earlier_session_that_is_gone_is_replaced_by_a_new_one() {
    let open = OpenSession { resume: Some("another".to_owned()), ..open() };
    let mut rig = offering_two("two-forgot", open);
    let info = rig.ready().await;
    assert!(info.context_lost && !info.resumed);
    assert_eq!(info.acp_session_id, SESSION);
}
