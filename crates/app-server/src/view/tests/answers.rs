//! What client answers become: the option that is meant, or why none is.

use std::collections::BTreeMap;

use serde_json::{Value, from_value, json};
use signalbox_facts::{Form, InputKind, OptionKind, PendingInput, PermissionOption};
use signalbox_protocol::app::{
    ApprovalDecision, ApprovalRespondParams, CommandExecutionRequestApprovalResponse,
    FileChangeRequestApprovalResponse, McpServerElicitationRequestResponse, ToolRequestUserInputAnswer,
    ToolRequestUserInputResponse,
};
use signalbox_protocol::ops::{ElicitationAnswer, Op};

use super::world::{input_id, option, session};
use crate::view::answer::{Answer, AnswerError, Reply, answer};

fn input(options: Vec<PermissionOption>) -> PendingInput {
    PendingInput {
        id: input_id(1),
        kind: InputKind::Permission,
        title: "Run ls?".into(),
        options,
        sequence: 1,
        requested_at_ms: 0,
        item_seq: Some(4),
        tool_call: Some("call".into()),
        tool_kind: Some("execute".into()),
        command: Some("ls".into()),
        cwd: None,
        locations: Vec::new(),
        reason: None,
        form: None,
    }
}

fn usual() -> PendingInput {
    input(vec![
        option("always", OptionKind::AllowAlways),
        option("yes", OptionKind::AllowOnce),
        option("never", OptionKind::RejectAlways),
        option("no", OptionKind::RejectOnce),
    ])
}

fn decide(input: &PendingInput, decision: ApprovalDecision) -> Result<Answer, AnswerError> {
    answer(session(), input, Reply { decision: Some(decision), ..Reply::default() })
}

/// Option, whether for the session, message, whether the turn is interrupted.
type Gist = (Option<String>, bool, Option<String>, bool);

fn gist(answer: Answer) -> Gist {
    match answer.op {
        Op::AnswerPermission { session: of, request_id, option_id, for_session, message, decline } => {
            assert_eq!((of, request_id), (session().to_string(), input_id(1).to_string()));
            assert!(!decline || option_id.is_none(), "an option says what it is");
            (option_id, for_session, message, answer.then_interrupt)
        }
        other => panic!("{other:?}"),
    }
}

fn chosen(id: &str) -> Gist {
    (Some(id.to_owned()), false, None, false)
}

#[test]
fn decisions_choose_by_kind_and_never_an_always() {
    let input = usual();
    assert_eq!(gist(decide(&input, ApprovalDecision::Accept).unwrap()), chosen("yes"));
    assert_eq!(
        gist(decide(&input, ApprovalDecision::AcceptForSession).unwrap()),
        (Some("yes".into()), true, None, false)
    );
    assert_eq!(gist(decide(&input, ApprovalDecision::Decline).unwrap()), chosen("no"));
    assert_eq!(gist(decide(&input, ApprovalDecision::Cancel).unwrap()), (None, false, None, true));
}

#[test]
fn without_an_option_that_allows_once_nothing_is_accepted() {
    let input = input(vec![option("always", OptionKind::AllowAlways)]);
    let known = vec!["always".to_owned()];
    assert_eq!(
        decide(&input, ApprovalDecision::Accept),
        Err(AnswerError::NothingAllowsOnce { known: known.clone() })
    );
    let named = |id: &str| Reply { option_id: Some(id.into()), ..Reply::default() };
    assert_eq!(gist(answer(session(), &input, named("always")).unwrap()), chosen("always"));
    assert_eq!(
        answer(session(), &input, named("yes")),
        Err(AnswerError::UnknownOption { option_id: "yes".into(), known })
    );
    assert_eq!(answer(session(), &input, Reply::default()), Err(AnswerError::Empty));
}

#[test]
fn declining_falls_back_to_what_rejects_and_else_to_nothing() {
    let never = input(vec![option("never", OptionKind::RejectAlways)]);
    assert_eq!(gist(decide(&never, ApprovalDecision::Decline).unwrap()), chosen("never"));
    let nothing = input(Vec::new());
    let declined = decide(&nothing, ApprovalDecision::Decline).unwrap();
    assert!(matches!(declined.op, Op::AnswerPermission { decline: true, .. }), "{declined:?}");
    let cancelled = decide(&nothing, ApprovalDecision::Cancel).unwrap();
    assert!(matches!(cancelled.op, Op::AnswerPermission { decline: false, .. }), "{cancelled:?}");
    assert_eq!(gist(declined), (None, false, None, false), "the turn is not interrupted");
}

fn reply<T: serde::de::DeserializeOwned + Into<Reply>>(response: Value) -> Reply {
    from_value::<T>(response).unwrap().into()
}

#[test]
fn responses_of_every_kind_are_understood() {
    let input = usual();
    let take = |reply: Reply| gist(answer(session(), &input, reply).unwrap());
    let command = reply::<CommandExecutionRequestApprovalResponse>;
    assert_eq!(take(command(json!({ "decision": "accept" }))), chosen("yes"));
    let amended =
        json!({ "decision": { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["ls"] } } });
    assert_eq!(take(command(amended)), (Some("yes".into()), true, None, false));
    let told = json!({ "decision": "decline", "message": "not now" });
    assert_eq!(take(command(told)), (Some("no".into()), false, Some("not now".into()), false));
    let file = reply::<FileChangeRequestApprovalResponse>;
    assert_eq!(take(file(json!({ "decision": "cancel" }))), (None, false, None, true));
    let named = json!({ "approvalId": input.id.to_string(), "optionId": "always", "decision": "decline" });
    assert_eq!(take(reply::<ApprovalRespondParams>(named)), chosen("always"));
}

fn question(input: &PendingInput, answers: &[&str]) -> Reply {
    let answers = ToolRequestUserInputAnswer { answers: answers.iter().map(|&text| text.into()).collect() };
    let response = ToolRequestUserInputResponse {
        answers: Some(BTreeMap::from([(input.id.to_string(), answers)])),
        ..ToolRequestUserInputResponse::default()
    };
    Reply::from_question(response, input)
}

#[test]
fn an_answer_to_a_question_is_a_label_or_words_of_the_users_own() {
    let mut input = usual();
    for option in &mut input.options {
        option.label = if option.kind == OptionKind::RejectOnce { "No".into() } else { "Yes".into() };
    }
    let take = |answers: &[&str]| gist(answer(session(), &input, question(&input, answers)).unwrap());
    assert_eq!(take(&["Yes"]), chosen("always"), "labels that are equal get numbers");
    assert_eq!(take(&["Yes (2)"]), chosen("yes"));
    assert_eq!(take(&["No", "user_note: use rg"]), (Some("no".into()), false, Some("use rg".into()), false));
    assert_eq!(take(&["use rg"]), (Some("no".into()), false, Some("use rg".into()), false));
    assert_eq!(answer(session(), &input, question(&input, &[])), Err(AnswerError::Empty));
}

#[test]
fn a_form_is_accepted_with_values_and_dismissed_without_an_interrupt() {
    let mut input = usual();
    input.kind = InputKind::Elicitation;
    input.form = Some(Form { message: "Who?".into(), ..Form::default() });
    let respond = |response: Value| {
        let reply = reply::<McpServerElicitationRequestResponse>(response);
        answer(session(), &input, reply).map(|answer| match answer.op {
            Op::AnswerElicitation { answer: given, .. } => (given, answer.then_interrupt),
            other => panic!("{other:?}"),
        })
    };
    let content = json!({ "name": "Ada" });
    assert_eq!(
        respond(json!({ "action": "accept", "content": content })),
        Ok((ElicitationAnswer::Accept { content: content.as_object().unwrap().clone() }, false))
    );
    assert_eq!(respond(json!({ "action": "cancel" })), Ok((ElicitationAnswer::Cancel, false)));
    assert_eq!(respond(json!({ "action": "decline" })), Ok((ElicitationAnswer::Decline, false)));
    assert_eq!(respond(json!({ "action": "accept", "content": [1] })), Err(AnswerError::Content));
}
