//! When a prompt of version 2 is over, with time made up: states and answers in every order that agents may send them in.

use serde_json::{Value, json};

use super::tests::{SECOND, Talk};
use crate::event::{AgentEvent, FailureReason};
use crate::handle::Request;
use crate::spec::OpenSession;
use crate::update::Update;

/// Open and ready in version 2, with the prompt sent as request 3.
fn prompted() -> Talk {
    let mut talk = ready();
    talk.prompts();
    assert_eq!(talk.sent(), ["session/prompt"]);
    talk
}

fn ready() -> Talk {
    let mut talk = Talk::offering(2, OpenSession { cwd: "/w".into(), ..OpenSession::default() });
    talk.hears(json!({"id":1,"result":{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}}));
    talk.hears(json!({"id":2,"result":{"sessionId":"s"}}));
    assert!(talk.talk.is_ready());
    talk.events();
    talk.sent();
    talk
}

fn update(talk: &mut Talk, update: Value) {
    talk.hears(json!({"method":"session/update","params":{"sessionId":"s","update":update}}));
}

fn state(talk: &mut Talk, state: &str) {
    update(talk, json!({"sessionUpdate":"state_update","state":state}));
}

fn idle(talk: &mut Talk, reason: &str) {
    update(talk, json!({"sessionUpdate":"state_update","state":"idle","stopReason":reason}));
}

fn echo(talk: &mut Talk, id: &str) {
    let content = json!([{"type":"text","text":"go"}]);
    update(talk, json!({"sessionUpdate":"user_message","messageId":id,"content":content}));
}

fn taken(talk: &mut Talk, id: &str) {
    talk.hears(json!({"id":3,"result":{"messageId":id}}));
}

/// How the prompt ended, if it has: the stop reason, or the failure's message.
fn ended(talk: &mut Talk) -> Option<String> {
    let mut ends = talk.events().into_iter().filter_map(|event| match event {
        AgentEvent::PromptEnded(Ok(outcome)) => Some(outcome.stop_reason),
        AgentEvent::PromptEnded(Err(failure)) => Some(failure.message),
        _ => None,
    });
    let end = ends.next();
    assert_eq!(ends.next(), None);
    end
}

#[test]
fn the_end_of_the_work_is_the_end_of_the_prompt_and_its_answer_is_not() {
    let mut talk = prompted();
    echo(&mut talk, "m");
    taken(&mut talk, "m");
    state(&mut talk, "running");
    talk.says("hello");
    state(&mut talk, "requires_action");
    state(&mut talk, "_vendor_state");
    assert_eq!(ended(&mut talk), None);
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
    // Told again, and later: it ends nothing more.
    idle(&mut talk, "end_turn");
    talk.waits(600 * SECOND);
    assert_eq!(ended(&mut talk), None);
}

#[test]
fn work_may_begin_before_the_prompt_is_taken() {
    let mut talk = prompted();
    state(&mut talk, "running");
    echo(&mut talk, "m");
    taken(&mut talk, "m");
    talk.says("hello");
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn the_answer_may_come_after_the_end() {
    // The agent told the prompt before it came to rest, so that was the prompt's end.
    let mut talk = prompted();
    state(&mut talk, "running");
    echo(&mut talk, "m");
    talk.says("hello");
    idle(&mut talk, "max_tokens");
    assert_eq!(ended(&mut talk), None);
    taken(&mut talk, "m");
    assert_eq!(ended(&mut talk).as_deref(), Some("max_tokens"));

    // It never answers: the end counts after a moment.
    let mut talk = prompted();
    state(&mut talk, "running");
    echo(&mut talk, "m");
    idle(&mut talk, "end_turn");
    talk.waits(SECOND);
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
    // And an answer that is later still is none to the next prompt.
    talk.prompts();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    idle(&mut talk, "end_turn");
    talk.waits(20 * SECOND);
    assert_eq!(ended(&mut talk), None);
    talk.hears(json!({"id":4,"result":{"messageId":"n"}}));
    talk.waits(SECOND);
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));

    // It does not tell prompts at all.
    let mut talk = prompted();
    state(&mut talk, "running");
    talk.says("hello");
    idle(&mut talk, "end_turn");
    taken(&mut talk, "m");
    assert_eq!(ended(&mut talk), None);
    talk.waits(SECOND);
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn an_end_of_what_was_before_is_none_of_the_prompt() {
    // The agent works on something of its own when the prompt is sent.
    let mut talk = ready();
    state(&mut talk, "running");
    talk.prompts();
    idle(&mut talk, "end_turn");
    talk.waits(20 * SECOND);
    assert_eq!(ended(&mut talk), None);
    echo(&mut talk, "m");
    taken(&mut talk, "m");
    state(&mut talk, "running");
    talk.waits(20 * SECOND);
    assert_eq!(ended(&mut talk), None);
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));

    // It tells of another message first, as when a task in the background reports.
    let mut talk = prompted();
    echo(&mut talk, "another");
    state(&mut talk, "running");
    idle(&mut talk, "end_turn");
    taken(&mut talk, "m");
    talk.waits(20 * SECOND);
    assert_eq!(ended(&mut talk), None);
    echo(&mut talk, "m");
    state(&mut talk, "running");
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn a_state_that_is_told_again_ends_nothing_while_work_begins_at_once() {
    let mut talk = prompted();
    idle(&mut talk, "end_turn");
    taken(&mut talk, "m");
    // Before it begins, something in the background has changed.
    idle(&mut talk, "end_turn");
    state(&mut talk, "running");
    talk.waits(20 * SECOND);
    assert_eq!(ended(&mut talk), None);
    idle(&mut talk, "refusal");
    assert_eq!(ended(&mut talk).as_deref(), Some("refusal"));

    // An agent with nothing to do for the prompt never says that it works.
    let mut talk = prompted();
    taken(&mut talk, "m");
    idle(&mut talk, "end_turn");
    talk.waits(SECOND);
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
    // One that speaks without saying that it works has worked.
    let mut talk = prompted();
    taken(&mut talk, "m");
    talk.says("hello");
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn a_question_to_the_user_is_work() {
    let mut talk = prompted();
    taken(&mut talk, "m");
    idle(&mut talk, "end_turn");
    talk.hears(json!({"id":"p","method":"session/request_permission","params":{"sessionId":"s","title":"Run it?","description":"It lists files.",
        "subject":{"type":"command","command":"ls","cwd":"/w"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}));
    talk.waits(20 * SECOND);
    let events = talk.events();
    let [AgentEvent::Permission { tool, description, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(description.as_deref(), Some("It lists files."));
    assert_eq!((tool.id.as_str(), tool.command.as_deref()), ("request-1", Some("ls")));
}

#[test]
fn usage_and_errors_come_with_the_state() {
    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    update(
        &mut talk,
        json!({"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn",
        "usage":{"totalTokens":12,"inputTokens":10,"outputTokens":2}}),
    );
    let events = talk.events();
    let [AgentEvent::PromptEnded(Ok(outcome))] = &events[..] else { panic!("{events:?}") };
    assert_eq!((outcome.usage.unwrap().total, outcome.had_output), (12, false));

    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    let error = json!({"code":-32000,"message":"expired"});
    update(
        &mut talk,
        json!({"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":error}),
    );
    let events = talk.events();
    let [AgentEvent::PromptEnded(Err(failure))] = &events[..] else { panic!("{events:?}") };
    assert_eq!((failure.reason, failure.code), (FailureReason::AgentAuthRequired, Some(-32000)));

    // Without a reason it has simply ended.
    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    state(&mut talk, "idle");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn a_cancel_waits_for_the_rest_and_not_for_ever() {
    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    talk.asks(Request::Cancel);
    assert_eq!(talk.sent(), ["session/cancel"]);
    idle(&mut talk, "cancelled");
    let events = talk.events();
    let [AgentEvent::PromptEnded(Ok(outcome))] = &events[..] else { panic!("{events:?}") };
    assert!(outcome.cancel_requested && outcome.stop_reason == "cancelled");

    // One that was still waiting at the agent is answered with an error.
    let mut talk = ready();
    state(&mut talk, "running");
    talk.prompts();
    talk.asks(Request::Cancel);
    talk.hears(json!({"id":3,"error":{"code":-32800,"message":"Request cancelled"}}));
    assert_eq!(ended(&mut talk).as_deref(), Some("cancelled"));
    idle(&mut talk, "cancelled");
    assert_eq!(ended(&mut talk), None);

    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    talk.asks(Request::Cancel);
    talk.waits(10 * SECOND);
    assert_eq!(talk.end(), Some((FailureReason::AgentTimeout, true)));
}

#[test]
fn an_agent_that_takes_a_prompt_and_falls_silent_is_told_of() {
    let mut talk = prompted();
    taken(&mut talk, "m");
    talk.waits(30 * SECOND);
    let events = talk.events();
    assert!(matches!(events[..], [AgentEvent::Stalled(Some(_))]), "{events:?}");
    assert_eq!(talk.end(), None);
}

#[test]
fn an_answer_of_the_version_before_ends_the_prompt() {
    let mut talk = prompted();
    talk.says("hello");
    talk.hears(json!({"id":3,"result":{"stopReason":"end_turn"}}));
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
}

#[test]
fn what_comes_after_the_end_is_told_and_ends_nothing() {
    let mut talk = prompted();
    taken(&mut talk, "m");
    state(&mut talk, "running");
    idle(&mut talk, "end_turn");
    assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
    state(&mut talk, "running");
    talk.says("one more thing");
    idle(&mut talk, "end_turn");
    let events = talk.events();
    let [AgentEvent::Update(Update::Message(chunk))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(chunk.text, "one more thing");
}

#[test]
fn version_2_is_offered_once_and_whatever_is_answered_is_spoken() {
    // Refused by its number or by its shape: the first version is offered, in the time that is left.
    for code in [-32022, -32602, -32603] {
        let mut talk = Talk::offering(2, OpenSession::default());
        assert_eq!(talk.sent(), ["initialize"]);
        talk.waits(59 * SECOND);
        talk.hears(json!({"id":1,"error":{"code":code,"message":"no"}}));
        assert_eq!(talk.sent(), ["initialize"]);
        talk.hears(json!({"id":2,"result":{"protocolVersion":1}}));
        assert_eq!(talk.sent(), ["session/new"]);
        talk.hears(json!({"id":3,"result":{"sessionId":"s"}}));
        assert_eq!(talk.talk.info.protocol, 1);
        talk.prompts();
        talk.hears(json!({"id":4,"result":{"stopReason":"end_turn"}}));
        assert_eq!(ended(&mut talk).as_deref(), Some("end_turn"));
    }
    let mut talk = Talk::offering(2, OpenSession::default());
    talk.hears(json!({"id":1,"error":{"code":-32022,"message":"no"}}));
    talk.hears(json!({"id":2,"error":{"code":-32022,"message":"no"}}));
    assert_eq!(talk.end(), Some((FailureReason::AgentFailed, false)));

    // Answered with a lower one, or one that is not spoken here.
    let mut talk = Talk::offering(2, OpenSession::default());
    talk.hears(json!({"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}));
    assert_eq!((talk.talk.info.protocol, talk.talk.info.can_load, talk.end()), (1, true, None));
    for (offered, answered) in [(2, 3), (1, 2), (9, 3)] {
        let mut talk = Talk::offering(offered, OpenSession::default());
        talk.hears(json!({"id":1,"result":{"protocolVersion":answered}}));
        let end = talk.talk.end.as_ref().unwrap();
        let message = format!("ACP version {answered}, and signalbox had offered version {}", offered.min(2));
        assert!(end.failure.message.contains(&message), "{}", end.failure.message);
    }
}
