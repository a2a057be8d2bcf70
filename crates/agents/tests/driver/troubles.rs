//! Agents that are missing, die, talk nonsense or say nothing.

use std::time::Duration;

use serde_json::Value;
use signalbox_agents::{AgentEvent, FailureReason, LaunchSpec, Limits, Supervisor, Update};

use crate::rig::{Rig, limits, open, prompt, spec};

#[tokio::test]
async fn a_missing_command_is_unavailable_with_a_hint() {
    let spec =
        LaunchSpec { command: "no-such-agent-anywhere".into(), args: vec!["acp".into()], ..spec("turn") };
    let failure = Rig::with(spec, open(), limits()).start_failure().await;
    assert_eq!(failure.reason, FailureReason::ProviderUnavailable);
    assert_eq!(failure.command.as_deref(), Some("no-such-agent-anywhere acp"));
    assert_eq!(failure.hint.as_deref(), Some("install it"));
}

#[tokio::test]
async fn a_missing_directory_is_told() {
    let spec = LaunchSpec { cwd: "/no/such/directory".into(), ..spec("turn") };
    let failure = Rig::with(spec, open(), limits()).start_failure().await;
    assert!(failure.message.contains("/no/such/directory"), "{failure}");
}

#[tokio::test]
async fn an_exit_before_initialize_carries_status_and_the_ends_of_both_streams() {
    let mut rig = Rig::new("exits-at-once");
    rig.agent().prompt(prompt("go")).unwrap();
    let failure = rig.prompt_ended().await.unwrap_err();
    assert_eq!(failure.reason, FailureReason::AgentFailed);
    assert_eq!(failure.exit_status.as_deref(), Some("exit status: 3"));
    assert_eq!(failure.stderr_tail, "fake: no configuration found");
    assert!(failure.stdout_tail.ends_with("this is not ACP"), "{}", failure.stdout_tail);
    let stored = failure.to_failure();
    assert_eq!((stored.reason.as_str(), stored.retryable), ("agent_failed", true));
    assert_eq!(stored.data["stderrTail"], "fake: no configuration found");
    assert_eq!(rig.start_failure().await, *failure);
    assert!(rig.agent().is_gone() && rig.agent().prompt(prompt("again")).is_err());
}

#[tokio::test]
async fn a_death_in_the_turn_comes_after_the_last_text_and_ends_the_prompt() {
    let mut rig = Rig::new("exits-in-turn");
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, outcome) = rig.turn().await;
    assert_eq!(text, "the last words");
    let failure = outcome.unwrap_err();
    assert_eq!(failure.exit_status.as_deref(), Some("exit status: 7"));
    assert_eq!(failure.stderr_tail, "fake: out of luck");
    assert_eq!(rig.exit().await.reason, FailureReason::AgentFailed);
}

#[tokio::test]
async fn no_failure_names_what_the_agent_was_given() {
    let secret = "line-one-of\nthe \"key\" of it";
    let mut launch = spec("tells-its-secrets");
    launch.env.0.insert("API_KEY".to_owned(), secret.to_owned());
    let mut rig = Rig::with(launch, open(), limits());
    rig.agent().prompt(prompt("go")).unwrap();
    let refused = rig.prompt_ended().await.unwrap_err();
    assert!(refused.message.ends_with("cannot log in with [masked]"), "{refused}");
    let died = rig.exit().await;
    assert!(died.stderr_tail.contains(r#"{"API_KEY":"[masked]"}"#), "{}", died.stderr_tail);
    assert!(died.stdout_tail.contains("banner: [masked]"), "{}", died.stdout_tail);
    let all = format!("{refused:?}{died:?}{:?}", died.to_failure());
    assert!(!all.contains("line-one-of") && !all.contains("key\\\" of"), "{all}");
}

#[tokio::test]
async fn an_immense_error_is_cut() {
    let mut rig = Rig::new("refuses-at-length");
    rig.agent().prompt(prompt("go")).unwrap();
    let failure = rig.prompt_ended().await.unwrap_err();
    assert!(failure.message.contains("EEE") && failure.message.ends_with('\u{2026}'));
    let bytes = serde_json::to_vec(&failure.to_failure().data).unwrap().len() + failure.message.len();
    assert!(bytes < 32 << 10, "{bytes}");
}

#[tokio::test]
async fn an_agent_that_never_answers_initialize_times_out() {
    let limits = Limits { initialize: Duration::from_millis(50), ..limits() };
    let failure = Rig::with(spec("silent"), open(), limits).start_failure().await;
    assert_eq!(failure.reason, FailureReason::AgentTimeout);
    assert!(failure.message.contains("initialize"), "{failure}");
}

#[tokio::test]
async fn garbage_is_survived_and_never_answered() {
    let mut rig = Rig::new("garbage");
    rig.ready().await;
    rig.agent().prompt(prompt("go")).unwrap();
    let mut unknown = None;
    let mut text = String::new();
    let outcome = loop {
        match rig.next().await.unwrap() {
            AgentEvent::Update(Update::Unknown(value)) => unknown = Some(value),
            AgentEvent::Update(Update::Message(chunk)) => text.push_str(&chunk.text),
            AgentEvent::PromptEnded(outcome) => break outcome.unwrap(),
            _ => {}
        }
    };
    assert_eq!(unknown.unwrap()["sessionUpdate"], "never_heard_of");
    assert_eq!((text.as_str(), outcome.stop_reason.as_str()), ("still here", "because"));
    rig.agent().prompt(prompt("go on")).unwrap();
    let outcome = rig.prompt_ended().await.unwrap();
    assert!(!outcome.had_output);
}

#[tokio::test]
async fn unknown_requests_are_refused_at_once() {
    let mut rig = Rig::new("asks-unknown");
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, outcome) = rig.turn().await;
    let codes: Vec<i64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].as_i64().unwrap())
        .collect();
    assert_eq!((codes, outcome.is_ok()), (vec![-32601, -32601], true));
}

#[tokio::test]
async fn a_line_without_end_is_a_clear_failure() {
    let limits = Limits { line_bytes: 1 << 20, ..limits() };
    let mut rig = Rig::with(spec("huge-line"), open(), limits);
    rig.agent().prompt(prompt("go")).unwrap();
    let failure = rig.prompt_ended().await.unwrap_err();
    assert_eq!(failure.message, "the agent sent a line of more than 1048576 bytes");
    rig.exit().await;
}

#[tokio::test]
async fn a_message_of_too_many_values_is_not_even_parsed() {
    let mut rig = Rig::new("many-values");
    rig.agent().prompt(prompt("go")).unwrap();
    let failure = rig.prompt_ended().await.unwrap_err();
    assert!(failure.message.ends_with("bytes with more than 500000 values"), "{}", failure.message);
    rig.exit().await;
}

/// What one giant of the agent `giant` comes to in its buffer and as a message, and the begun lines of three others.
const ONE_GIANT: std::ops::Range<usize> = (16 << 20)..(28 << 20);

#[tokio::test]
async fn giant_lines_of_several_agents_come_through_in_turn() {
    let supervisor = Supervisor::default();
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut rig = Rig::under(supervisor.clone(), spec("giant"), open(), limits());
        turns.spawn(async move {
            rig.agent().prompt(prompt("go")).unwrap();
            let mut lengths = Vec::new();
            loop {
                match rig.next().await.unwrap() {
                    AgentEvent::Update(Update::Message(chunk)) => lengths.push(chunk.text.len()),
                    AgentEvent::PromptEnded(outcome) => break (lengths, outcome.is_ok()),
                    _ => {}
                }
            }
        });
    }
    let all = turns.join_all().await;
    assert_eq!(all, vec![(vec![8 << 20, 8 << 20], true); 4]);
    let (_, most) = supervisor.line_bytes();
    assert!(ONE_GIANT.contains(&most), "{most}");
    supervisor.finish().await;
    assert_eq!(supervisor.line_bytes().0, 0);
}

#[tokio::test]
async fn an_agent_that_waits_to_be_read_can_be_stopped_and_who_holds_the_turn_lets_it_go_at_its_end() {
    let supervisor = Supervisor::default();
    let start = |part| Rig::under(supervisor.clone(), spec(part), open(), limits());
    let mut begun = start("giant-begun");
    begun.agent().prompt(prompt("go")).unwrap();
    let grown = async {
        while supervisor.line_bytes().0 < 2 << 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), grown).await.unwrap();
    let (mut stopped, mut waiting) = (start("giant"), start("giant"));
    for rig in [&mut stopped, &mut waiting] {
        rig.ready().await;
        rig.agent().prompt(prompt("go")).unwrap();
    }
    stopped.agent.take();
    while stopped.next().await.is_some() {}
    begun.agent.take();
    let (text, outcome) = waiting.turn().await;
    assert_eq!((text.len(), outcome.is_ok()), (16 << 20, true));
    while begun.next().await.is_some() {}
}

#[tokio::test]
async fn a_long_line_is_just_long() {
    let mut rig = Rig::new("long-line");
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, outcome) = rig.turn().await;
    assert_eq!((text.len(), outcome.is_ok()), (3 << 20, true));
}

#[tokio::test]
async fn an_agent_gets_exactly_its_environment_and_starts_in_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().canonicalize().unwrap();
    let mut rig = Rig::with(LaunchSpec { cwd: cwd.clone(), ..spec("environment") }, open(), limits());
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, _) = rig.turn().await;
    let (names, at) = text.split_once(" in ").unwrap();
    let mut names: Vec<_> = names.split(',').collect();
    names.sort_unstable();
    assert_eq!(names, ["FAKE_AGENT", "PATH", "SIGNALBOX_AGENT"]);
    assert_eq!(at, cwd.to_str().unwrap());
}
