//! What a conversation makes of questions with addresses, and of an agent's own agents; with time made up.

use serde_json::{Value, json};
use signalbox_facts::ToolStatus;

use super::tests::{self, Talk};
use crate::event::AgentEvent;
use crate::handle::{ElicitationAnswer, Request};
use crate::spec::OpenSession;
use crate::update::{OutputPatch, ToolPatch, Update};

fn update(session: &str, update: Value) -> Value {
    json!({"method":"session/update","params":{"sessionId":session,"update":update}})
}

fn child(state: &str) -> Value {
    update(
        "s",
        json!({"sessionUpdate":"subagent_update","sessionId":"c","title":"look around","state":{"state":state,"stopReason":"end_turn"}}),
    )
}

fn tools(events: Vec<AgentEvent>) -> Vec<ToolPatch> {
    let tools = events.into_iter().filter_map(|event| match event {
        AgentEvent::Update(Update::Tool(tool)) => Some(*tool),
        AgentEvent::Update(other) => panic!("{other:?}"),
        _ => None,
    });
    tools.collect()
}

fn text(patch: &ToolPatch) -> &str {
    match &patch.output {
        Some(OutputPatch::Append(text)) => text,
        _ => "",
    }
}

#[test]
fn a_subagent_is_one_call_with_its_task_and_all_it_says() {
    let mut talk = Talk::ready();
    talk.hears(child("running"));
    let task = json!({"sessionUpdate":"session_message","messageId":"m","senderSessionId":"s","recipientSessionId":"c",
        "content":[{"type":"text","text":"Look."}]});
    // Seen in both transcripts, told once.
    talk.hears(update("s", task.clone()));
    talk.hears(update("c", task));
    let chunk = |id: &str, text: &str| {
        update(
            "c",
            json!({"sessionUpdate":"agent_message_chunk","messageId":id,"content":{"type":"text","text":text}}),
        )
    };
    talk.hears(chunk("1", "I "));
    talk.hears(chunk("1", "look."));
    talk.hears(chunk("2", "Done."));
    let report = json!({"sessionUpdate":"session_message","messageId":"r","senderSessionId":"c","recipientSessionId":"s",
        "content":[{"type":"text","text":"Done."}]});
    talk.hears(update("s", report));
    talk.hears(child("idle"));
    let told = tools(talk.events());
    assert!(told.iter().all(|patch| patch.id == "subagent/c"), "{told:?}");
    let inputs: Vec<_> = told.iter().filter_map(|patch| patch.raw_input.as_ref()).collect();
    assert_eq!(inputs.len(), 2, "when it began and when its task was known");
    assert_eq!((&inputs[1]["prompt"], &inputs[1]["name"]), (&json!("Look."), &json!("look around")));
    assert_eq!(told.iter().map(text).collect::<String>(), "I look.\n\nDone.");
    assert_eq!(told.first().unwrap().status, Some(ToolStatus::InProgress));
    assert_eq!(told.last().unwrap().status, Some(ToolStatus::Completed));
}

#[test]
fn a_report_that_the_child_did_not_say_itself_is_shown_in_pieces_too() {
    let mut talk = Talk::ready();
    talk.hears(child("running"));
    talk.events();
    let report = json!({"sessionUpdate":"session_message","messageId":"r","senderSessionId":"c","recipientSessionId":"s"});
    talk.hears(update("s", report));
    for piece in ["All ", "well."] {
        let chunk = json!({"sessionUpdate":"session_message_chunk","messageId":"r","content":{"type":"text","text":piece}});
        talk.hears(update("s", chunk));
    }
    assert_eq!(tools(talk.events()).iter().map(text).collect::<String>(), "All well.");
}

#[test]
fn calls_and_requests_of_a_subagent_are_its_own_and_its_settings_are_not_its_parents() {
    let mut talk = Talk::ready();
    talk.hears(child("running"));
    talk.events();
    let call = json!({"sessionUpdate":"tool_call","toolCallId":"t","title":"ls","kind":"execute","status":"pending"});
    talk.hears(update("c", call));
    let options = json!({"sessionUpdate":"config_option_update","configOptions":[]});
    talk.hears(update("c", options));
    let request = json!({"sessionId":"c","toolCall":{"toolCallId":"t","title":"ls"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]});
    talk.hears(json!({"id":7,"method":"session/request_permission","params":request}));
    let events = talk.events();
    let [AgentEvent::Update(Update::Tool(call)), AgentEvent::Permission { tool, .. }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((call.id.as_str(), call.title.as_deref()), ("c/t", Some("look around: ls")));
    assert_eq!((tool.id.as_str(), tool.title.as_deref()), ("c/t", Some("look around: ls")));
}

#[test]
fn a_session_that_nobody_has_told_of_is_left_alone() {
    let mut talk = Talk::ready();
    let chunk = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"who?"}});
    talk.hears(update("stranger", chunk));
    assert_eq!(talk.events(), []);
}

fn open_address(scope: Value) -> Value {
    let mut params = json!({"mode":"url","elicitationId":"e","url":"https://x.test/","message":"Log in"});
    params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
    json!({"id":9,"method":"elicitation/create","params":params})
}

#[test]
fn an_address_is_asked_for_and_its_completion_answers_it() {
    let mut talk = Talk::ready();
    talk.hears(open_address(json!({"sessionId":"s"})));
    let events = talk.events();
    let [AgentEvent::Elicitation { key, form, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(form.link.as_ref().unwrap().url, "https://x.test/");
    assert_eq!(talk.sent(), [""; 0]);
    talk.hears(json!({"method":"elicitation/complete","params":{"elicitationId":"other"}}));
    assert_eq!(talk.events(), []);
    talk.hears(json!({"method":"elicitation/complete","params":{"elicitationId":"e"}}));
    assert_eq!(talk.events(), [AgentEvent::DoneElsewhere { key: *key }]);
    assert_eq!(talk.sent(), ["9"]);
    // An answer that comes now is one too many, and is not sent.
    talk.asks(Request::Elicitation(*key, ElicitationAnswer::Decline));
    assert_eq!(talk.sent(), [""; 0]);
}

#[test]
fn an_address_that_is_none_is_declined_with_a_warning() {
    let mut talk = Talk::ready();
    let mut request = open_address(json!({"sessionId":"s"}));
    request["params"]["url"] = json!("file:///etc/passwd");
    talk.hears(request);
    let events = talk.events();
    assert!(
        matches!(events.as_slice(), [AgentEvent::Warning { reason: "question_declined", .. }]),
        "{events:?}"
    );
    assert_eq!(talk.sent(), ["9"]);
}

#[test]
fn a_question_while_the_session_opens_is_asked_at_once_and_opening_waits_for_it() {
    let mut talk = Talk::new(OpenSession { cwd: "/w".into(), ..OpenSession::default() });
    talk.hears(json!({"id":1,"result":{"protocolVersion":1}}));
    talk.sent();
    talk.hears(open_address(json!({"requestId":2})));
    let events = talk.events();
    let [AgentEvent::Introduced(_), AgentEvent::Elicitation { key, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    talk.waits(10_000 * tests::SECOND);
    assert_eq!(talk.end(), None, "people may take their time");
    talk.asks(Request::Elicitation(*key, ElicitationAnswer::Accept([].into())));
    assert_eq!(talk.sent(), ["9"]);
    talk.hears(json!({"id":2,"result":{"sessionId":"s"}}));
    assert!(matches!(talk.events().as_slice(), [AgentEvent::Ready(_)]));
}

#[test]
fn a_subagent_that_works_on_is_told_anew_in_the_next_turn() {
    let mut talk = Talk::ready();
    talk.prompts();
    talk.hears(child("running"));
    talk.hears(json!({"id":3,"result":{"stopReason":"end_turn"}}));
    talk.prompts();
    talk.events();
    let chunk = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Still here."}});
    talk.hears(update("c", chunk));
    talk.hears(child("idle"));
    let told = tools(talk.events());
    let [again, end] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((again.status, again.title.as_deref()), (Some(ToolStatus::InProgress), Some("look around")));
    assert_eq!((text(again), end.status), ("Still here.", Some(ToolStatus::Completed)));
}

#[test]
fn the_last_of_very_many_subagents_is_shown_too() {
    let mut talk = Talk::ready();
    for number in 0..600 {
        for state in ["running", "idle"] {
            let child = json!({"sessionUpdate":"subagent_update","sessionId":format!("c{number}"),"state":{"state":state}});
            talk.hears(update("s", child));
        }
    }
    let told = tools(talk.events());
    assert_eq!(told.last().unwrap().id, "subagent/c599");
}
