//! Conversions between wire and core: what goes in comes out again, and what cannot go in is named.

use serde_json::{Value, from_value, json, to_value};
use signalbox_engine::convert as core;
use signalbox_facts::{
    DocBlock, Failure, FieldKind, FieldOption, Form, FormField, Mode, Policy, Sandbox, TurnId,
};
use signalbox_protocol::app::{AskForApproval, GranularApproval, UserInput};

use super::world::{World, session};
use crate::view::convert::{
    InputError, approval_policy_out, content_of, error_out, form_schema_out, input_in, input_out, item_id,
    item_seq, policy_in, sandbox_policy_out, thread_out,
};
use crate::view::items::user_message;
use crate::view::{Delta, DeltaKind};

#[test]
fn input_comes_out_as_it_went_in() {
    let input = json!([
        { "type": "text", "text": "look @a", "text_elements": [
            { "byteRange": { "start": 5, "end": 7 }, "placeholder": "a" },
        ] },
        { "type": "image", "url": "data:image/png;base64,AA==", "detail": "high" },
        { "type": "localImage", "path": "/repo/a.png" },
        { "type": "skill", "name": "review", "path": "/skills/review/SKILL.md" },
        { "type": "mention", "name": "a", "path": "src/a.rs" },
        { "type": "chat", "threadId": "t" },
        { "type": "resource", "uri": "file:///a", "text": "hi" },
    ]);
    let blocks = core::doc_in(input_in(from_value(input.clone()).unwrap()).unwrap());
    assert_eq!(to_value(input_out(&blocks)).unwrap(), input);
}

#[test]
fn input_that_says_nothing_or_cannot_be_given_is_refused() {
    let refused = |input: Value| input_in(from_value(input).unwrap()).unwrap_err();
    assert_eq!(refused(json!([])), InputError::Empty);
    assert_eq!(refused(json!([{ "type": "text", "text": " \n" }])), InputError::Empty);
    let text = json!({ "type": "text", "text": "hi" });
    let audio = refused(json!([text, { "type": "localAudio", "path": "/a.wav" }]));
    assert_eq!(audio.to_string(), "input[1]: agents take no audio");
    let image = refused(json!([{ "type": "image", "fileId": "f" }]));
    assert!(matches!(image, InputError::Block { index: 0, .. }));
}

#[test]
fn context_is_not_what_the_user_wrote() {
    let context = DocBlock::Context { source: "editor".into(), value: "x".into(), untrusted: true };
    let shown = input_out(&[context, DocBlock::text("hi")]);
    assert!(matches!(shown.as_slice(), [UserInput::Text { text, .. }] if text == "hi"));
}

#[test]
fn policies_of_existing_clients() {
    let now = Policy::default();
    let policy = |approval, sandbox| policy_in(approval, sandbox, now);
    let of = |mode, sandbox| Policy { mode, sandbox };
    use Sandbox::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    let granular = AskForApproval::Granular(GranularApproval::default());
    assert_eq!(policy(None, None), now);
    assert_eq!(policy(None, Some(ReadOnly)), of(Mode::Ask, ReadOnly));
    assert_eq!(policy(Some(AskForApproval::Untrusted), None), of(Mode::Ask, WorkspaceWrite));
    assert_eq!(policy(Some(granular), None), of(Mode::Ask, WorkspaceWrite));
    assert_eq!(policy(Some(AskForApproval::OnRequest), None), of(Mode::AcceptEdits, WorkspaceWrite));
    let never = Some(AskForApproval::Never);
    assert_eq!(policy(never, Some(DangerFullAccess)), of(Mode::NeverAsk, DangerFullAccess));
    assert_eq!(policy(never, Some(ReadOnly)), of(Mode::NeverAsk, ReadOnly));
    assert_eq!(policy(never, None), of(Mode::NeverAsk, WorkspaceWrite));
}

#[test]
fn a_policy_that_is_told_is_the_one_that_comes_back() {
    for mode in [Mode::Ask, Mode::AcceptEdits, Mode::NeverAsk] {
        for sandbox in [Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess] {
            let policy = Policy { mode, sandbox };
            let told = sandbox_policy_out(sandbox, &["/repo".into()]);
            let back = crate::view::convert::sandbox_policy_in(&told);
            assert_eq!(policy_in(Some(approval_policy_out(policy)), Some(back), Policy::default()), policy);
        }
    }
}

#[test]
fn the_content_of_new_and_deleted_files() {
    let content = |unified: &str, mark| content_of(unified, mark);
    assert_eq!(content("@@ -0,0 +1,2 @@\n+a\n++b\n", '+').as_deref(), Some("a\n+b\n"));
    let no_newline = "@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n";
    assert_eq!(content(no_newline, '-').as_deref(), Some("a\nb"));
    assert_eq!(content("", '+').as_deref(), Some(""));
    assert_eq!(content("@@ too large to compare: 1 and 2 bytes @@\n", '+'), None, "a note is kept as it is");
}

#[test]
fn failures_tell_programs_and_people() {
    let failure = Failure {
        reason: "agent_auth_required".into(),
        message: "Log in first.".into(),
        retryable: false,
        data: json!({ "stderrTail": "no token\n" }).as_object().unwrap().clone(),
    };
    assert_eq!(
        to_value(error_out(&failure)).unwrap(),
        json!({
            "message": "Log in first.",
            "codexErrorInfo": "unauthorized",
            "additionalDetails": "no token\n",
            "code": -32021,
            "reason": "agent_auth_required",
            "retryable": false,
            "data": { "stderrTail": "no token\n" },
        })
    );
}

#[test]
fn a_forms_schema_has_only_what_existing_clients_take() {
    let field = |key: &str, kind, required| FormField {
        key: key.into(),
        kind,
        description: (kind == FieldKind::Text).then(|| "help".into()),
        required,
        options: vec![FieldOption { value: "a".into(), label: "A".into(), description: None }],
        min: (kind != FieldKind::Select).then(|| 1.into()),
        default: (kind == FieldKind::Select).then(|| "a".into()),
        pattern: Some("^a".into()),
        format: Some(if required { "email" } else { "hologram" }.into()),
        ..FormField::default()
    };
    let form = Form {
        message: "?".into(),
        fields: vec![
            field("t", FieldKind::Text, true),
            field("n", FieldKind::Integer, false),
            field("one", FieldKind::Select, false),
            field("many", FieldKind::MultiSelect, false),
        ],
        schema: json!({ "type": "object", "$comment": "the agent's own" }),
        link: None,
    };
    let choices = json!([{ "const": "a", "title": "A" }]);
    assert_eq!(
        form_schema_out(Some(&form)),
        json!({
            "type": "object",
            "properties": {
                "t": { "type": "string", "description": "help", "minLength": 1, "format": "email" },
                "n": { "type": "integer", "minimum": 1 },
                "one": { "type": "string", "oneOf": choices, "default": "a" },
                "many": { "type": "array", "items": { "anyOf": choices }, "minItems": 1 },
            },
            "required": ["t"],
        })
    );
}

#[test]
fn item_ids_go_both_ways() {
    assert_eq!(item_seq(&item_id(42)), Some(42));
    assert_eq!((item_seq("42"), item_seq("ix"), item_seq("")), (None, None, None));
}

#[test]
fn a_delta_knows_its_method() {
    let kinds = [DeltaKind::AgentMessage, DeltaKind::Reasoning, DeltaKind::Plan, DeltaKind::CommandOutput];
    for kind in kinds {
        let (thread, turn) = (session(), TurnId::generate());
        let delta = Delta { thread, turn, item: 4, kind, seq: 9, at_ms: 1, text: "a\"b\n" };
        assert_eq!(delta.method(), delta.to_notification().method());
    }
}

#[test]
fn a_thread_as_lists_have_it() {
    let mut world = World::new();
    world.titled("Tidy up");
    let row = World::row(&world.events);
    let thread = thread_out(&row, signalbox_protocol::app::ThreadStatus::NotLoaded);
    assert_eq!((thread.name.as_deref(), thread.cwd.as_str()), (Some("Tidy up"), "/repo"));
    assert_eq!((thread.created_at, thread.roots), (1000, vec!["/repo".to_owned()]));
    assert_eq!(thread.model_provider, "rehearsal");
}

#[test]
fn a_prompt_of_which_only_the_text_is_known_is_shown_as_that_text() {
    let prompt = from_value(json!({ "text": "old words" })).unwrap();
    let content = json!([{ "type": "text", "text": "old words", "text_elements": [] }]);
    assert_eq!(to_value(user_message(&prompt)).unwrap()["content"], content);
}
