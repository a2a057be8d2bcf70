//! The schema document: its layout holds for every definition, and every sample is valid against it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde_json::{Value, json};
use signalbox_protocol::app::*;
use signalbox_protocol::ops;
use signalbox_protocol::schema::{
    Bundle, BundleError, Entry, Side, input_schema, normalise, output_schema, to_text,
};

use common::app::{notifications, thread};
use common::ops::{EVENTS, OPS};

fn request<P: JsonSchema, R: JsonSchema>(method: &str) -> Entry {
    Entry::client_request(method, Some(input_schema::<P>()), output_schema::<R>())
        .doc("A request.")
        .annotate("lane", "read")
        .annotate("role", "observer")
        .annotate("stability", "stable")
}

fn document() -> Value {
    let mut bundle = Bundle::new();
    let requests = [
        request::<InitializeParams, InitializeResult>(method::INITIALIZE),
        request::<ThreadStartParams, ThreadStartResult>(method::THREAD_START),
        request::<ThreadResumeParams, ThreadResumeResult>(method::THREAD_RESUME),
        request::<ThreadReadParams, ThreadReadResult>(method::THREAD_READ),
        request::<ThreadListParams, ThreadListResult>(method::THREAD_LIST),
        request::<ThreadLoadedListParams, ThreadLoadedListResult>(method::THREAD_LOADED_LIST),
        request::<ThreadTranscriptReadParams, ThreadTranscriptReadResult>(method::THREAD_TRANSCRIPT_READ),
        request::<ThreadTurnsListParams, ThreadTurnsListResult>(method::THREAD_TURNS_LIST),
        request::<ThreadItemsListParams, ThreadItemsListResult>(method::THREAD_ITEMS_LIST),
        request::<ItemOutputReadParams, ItemOutputReadResult>(method::ITEM_OUTPUT_READ),
        request::<ThreadUnsubscribeParams, ThreadUnsubscribeResult>(method::THREAD_UNSUBSCRIBE),
        request::<TurnStartParams, TurnStartResult>(method::TURN_START),
        request::<TurnSteerParams, TurnSteerResult>(method::TURN_STEER),
        request::<TurnInterruptParams, EmptyResult>(method::TURN_INTERRUPT),
        request::<PromptPreviewParams, PromptPreviewResult>(method::PROMPT_PREVIEW),
        request::<ModelListParams, ModelListResult>(method::MODEL_LIST),
        request::<ModelProviderListParams, ModelProviderListResult>(method::MODEL_PROVIDER_LIST),
        request::<ProviderListParams, ProviderListResult>(method::PROVIDER_LIST),
        request::<ProviderSessionsListParams, ProviderSessionsListResult>(method::PROVIDER_SESSIONS_LIST),
        request::<ThreadImportParams, ThreadImportResult>(method::THREAD_IMPORT),
        request::<ProviderCheckParams, ProviderCheckResult>(method::PROVIDER_CHECK),
        request::<ProviderLoginParams, ProviderLoginResult>(method::PROVIDER_LOGIN),
        request::<ProviderLoginAnswerParams, EmptyResult>(method::PROVIDER_LOGIN_ANSWER),
        request::<AccountReadParams, AccountReadResult>(method::ACCOUNT_READ),
        request::<ConfigReadParams, ConfigReadResult>(method::CONFIG_READ),
        request::<ConfigRequirementsReadParams, ConfigRequirementsReadResult>(
            method::CONFIG_REQUIREMENTS_READ,
        ),
        request::<ApprovalListParams, ApprovalListResult>(method::APPROVAL_LIST),
        request::<ApprovalRespondParams, ApprovalRespondResult>(method::APPROVAL_RESPOND),
        request::<OpSubmitParams, OpSubmitResult>(method::OP_SUBMIT),
        request::<ServerHealthParams, ServerHealthResult>(method::SERVER_HEALTH),
    ];
    let others = [
        Entry::client_notification(method::INITIALIZED, None),
        Entry::client_notification(method::CANCEL_REQUEST, Some(input_schema::<CancelRequestParams>())),
    ];
    let entries = requests
        .into_iter()
        .chain(others)
        .chain(ServerNotification::entries())
        .chain(ServerRequest::entries());
    for entry in entries {
        bundle.add(entry).unwrap();
    }
    bundle.add_type(Side::Client, input_schema::<ops::Op>()).unwrap();
    bundle.add_type(Side::Server, output_schema::<ops::Event>()).unwrap();
    bundle.add_type(Side::Client, input_schema::<ops::ClientRequest>()).unwrap();
    bundle.add_type(Side::Server, output_schema::<ops::ServerFrame>()).unwrap();
    bundle.finish().unwrap()
}

/// All schema objects of a document with the way to them.
fn walk<'a>(value: &'a Value, path: String, visit: &mut dyn FnMut(&str, &'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            visit(&path, object);
            for (key, value) in object {
                walk(value, format!("{path}/{key}"), visit);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                walk(value, format!("{path}/{index}"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn the_document_is_a_schema() {
    let document = document();
    if let Err(error) = jsonschema::meta::validate(&document) {
        panic!("{error} at {}", error.instance_path());
    }
}

#[test]
fn every_definition_is_named_once() {
    let document = document();
    let mut names = BTreeMap::new();
    for (name, definition) in document["$defs"].as_object().unwrap() {
        assert_eq!(definition["title"], *name);
        assert!(
            !name.ends_with(|letter: char| letter.is_ascii_digit()),
            "{name} looks like a name that was taken"
        );
    }
    walk(&document, String::new(), &mut |path, object| {
        if let Some(title) = object.get("title").and_then(Value::as_str)
            && !path.ends_with("/properties")
        {
            let before = names.insert(title.to_ascii_lowercase(), path.to_owned());
            assert_eq!(before, None, "{title} is also the title of {path}");
        }
    });
}

#[test]
fn references_stand_alone_and_lead_somewhere() {
    let document = document();
    let mut reached = BTreeSet::new();
    walk(&document, String::new(), &mut |path, object| {
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            assert_eq!(object.len(), 1, "{path} has something beside its reference");
            let name = reference.strip_prefix("#/$defs/").unwrap();
            assert!(document["$defs"].get(name).is_some(), "{path} leads nowhere");
            reached.insert(name.to_owned());
        }
    });
    let all: BTreeSet<String> = document["$defs"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(reached, all, "definitions that nothing leads to");
}

#[test]
fn every_union_says_what_kind_it_is() {
    walk(&document(), String::new(), &mut |path, object| {
        let Some(variants) = object.get("oneOf").and_then(Value::as_array) else { return };
        if path.is_empty() {
            return;
        }
        for variant in variants {
            assert!(variant.get("title").is_some(), "{path} has a variant without a name");
        }
        if let Some(discriminator) = object.get("discriminator") {
            let tag = discriminator["propertyName"].as_str().unwrap();
            let mut words = BTreeSet::new();
            for variant in variants {
                assert_eq!(variant["type"], "object", "{path}");
                assert_eq!(variant["required"][0], tag, "{path}");
                assert!(
                    words.insert(variant["properties"][tag]["const"].as_str().unwrap()),
                    "{path} has a word twice"
                );
            }
        } else {
            assert!(
                object.contains_key("x-tagging") || object.contains_key("x-untagged"),
                "{path} is unexplained"
            );
        }
    });
}

#[test]
fn other_choices_are_values_that_may_be_null() {
    walk(&document(), String::new(), &mut |path, object| {
        if let Some(choices) = object.get("anyOf").and_then(Value::as_array)
            && !object.contains_key("x-untagged")
        {
            assert!(choices.len() == 2 && choices[1] == json!({"type": "null"}), "{path}");
        }
        let format = object.get("format").filter(|format| format.is_string());
        assert_eq!(format, None, "{path} has a format of Rust's");
        assert_ne!(
            object.get("additionalProperties"),
            Some(&json!(false)),
            "{path} is closed to later fields"
        );
        assert_ne!(object.get("additionalProperties"), Some(&json!(true)), "{path} has unmarked free JSON");
    });
}

#[test]
fn only_these_types_are_read_and_written_in_different_forms() {
    let document = document();
    let inputs: Vec<&str> = document["$defs"]
        .as_object()
        .unwrap()
        .keys()
        .filter_map(|name| name.strip_suffix("Input"))
        .filter(|name| document["$defs"].get(name).is_some())
        .collect();
    expect_test::expect![[r#"
        AskForApproval
        CollaborationMode
        CollaborationSettings
        DocBlock
        GranularApproval
        SandboxPolicy
        TextElement
        TextSpan
        UserInput"#]]
    .assert_eq(&inputs.join("\n"));
}

#[test]
fn every_method_carries_its_annotations() {
    let document = document();
    let requests = document["$defs"]["ClientRequestMessage"]["oneOf"].as_array().unwrap();
    let start = requests.iter().find(|message| message["x-method"] == "thread/start").unwrap();
    assert_eq!(start["title"], "ThreadStartMessage");
    assert_eq!(start["x-result"], json!({"$ref": "#/$defs/ThreadStartResult"}));
    assert_eq!(
        (&start["x-lane"], &start["x-role"], &start["x-side"]),
        (&json!("read"), &json!("observer"), &json!("client"))
    );
    assert_eq!(start["required"], json!(["method", "id"]), "params of thread/start may be left out");
    let read = requests.iter().find(|message| message["x-method"] == "thread/read").unwrap();
    assert_eq!(read["required"], json!(["method", "id", "params"]));
    let delta = &document["$defs"]["AgentMessageDeltaNotification"]["properties"];
    assert!(delta.get("seq").is_some() && delta.get("cursor").is_some());
}

#[test]
fn every_sample_is_valid() {
    let document = document();
    let validator = jsonschema::validator_for(&document).unwrap();
    let check = |value: &Value| {
        if let Err(error) = validator.validate(value) {
            panic!("{error} at {}\n{value:#}", error.instance_path());
        }
    };
    for text in OPS.iter().chain(EVENTS) {
        check(&serde_json::from_str(text).unwrap());
    }
    for (method, params) in notifications() {
        let notification = ServerNotification::decode(method, params).unwrap().unwrap();
        let place = Place { seq: 1, cursor: "e-1".into() };
        check(
            &serde_json::to_value(NotificationFrame {
                notification: &notification,
                place: Some(&place),
                emitted_at_ms: 1,
            })
            .unwrap(),
        );
    }
    check(&json!({"id": 1, "method": "thread/start"}));
    check(
        &json!({"id": "a", "method": "thread/start", "params": {"cwd": null, "approvalPolicy": {"granular": {"rules": true}}}}),
    );
    check(&json!({"jsonrpc": "2.0", "id": 1, "result": {"thread": thread(), "snapshotSeq": 1}}));
    check(
        &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m", "data": {"reason": "parse_error", "retryable": false}}}),
    );
    for refused in [
        json!({"id": 1, "method": "thread/explode"}),
        json!({"id": 1, "method": "thread/read", "params": {}}),
        json!({"op": "explode"}),
        json!({"event": "error", "session": 7, "message": "m", "terminal": true}),
    ] {
        assert!(!validator.is_valid(&refused), "{refused}");
    }
}

#[test]
fn the_text_does_not_depend_on_the_order_of_what_was_added() {
    let add = |reverse: bool| {
        let mut entries = ServerNotification::entries();
        if reverse {
            entries.reverse();
        }
        let mut bundle = Bundle::new();
        for entry in entries {
            bundle.add(entry).unwrap();
        }
        to_text(&bundle.finish().unwrap())
    };
    assert_eq!(add(false), add(true));
    assert!(add(false).ends_with("}\n"));
}

#[test]
fn a_bundle_refuses_what_it_cannot_name() {
    let mut bundle = Bundle::new();
    bundle.add(request::<ThreadReadParams, EmptyResult>("a")).unwrap();
    let again = bundle.add(request::<ThreadReadParams, EmptyResult>("a"));
    assert_eq!(again, Err(BundleError::Duplicate { method: "a".into() }));
    let other = json!({"title": "ThreadReadParams", "type": "object"});
    let conflict = bundle.add(Entry::client_request("b", Some(other), output_schema::<EmptyResult>()));
    assert_eq!(conflict, Err(BundleError::Conflict { name: "ThreadReadParams".into() }));
    let unnamed = bundle.add(Entry::client_request(
        "c",
        Some(json!({"type": "object"})),
        output_schema::<EmptyResult>(),
    ));
    assert_eq!(unnamed, Err(BundleError::Unnamed { method: "c".into() }));
    let unanswered = bundle.add(Entry::server_request::<ThreadReadParams>("d"));
    assert_eq!(unanswered, Err(BundleError::NoResult { method: "d".into() }));
}

#[test]
fn normalising_twice_changes_nothing() {
    for schema in [
        input_schema::<ops::Op>(),
        output_schema::<ops::Event>(),
        output_schema::<Thread>(),
        input_schema::<TurnStartParams>(),
    ] {
        let once = normalise(schema);
        assert_eq!(normalise(once.clone()), once);
    }
}

#[test]
fn a_variant_that_is_a_struct_is_written_out() {
    let op = normalise(input_schema::<ops::Op>());
    let new_session = &op["oneOf"][0];
    assert_eq!(new_session["title"], "OpNewSession");
    assert_eq!(new_session["required"], json!(["op", "provider", "cwd", "use_worktree"]));
    assert!(new_session["properties"].get("worktree_base").is_some());
    let item = normalise(output_schema::<ThreadItem>());
    assert_eq!(item["discriminator"], json!({"propertyName": "type"}));
    let message = item["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["title"] == "ThreadItemAgentMessage")
        .unwrap();
    assert!(
        message["properties"].get("startedAtMs").is_some(),
        "fields beside the flattened union are in each variant"
    );
    let mode = &op["$defs"]["PermissionMode"];
    assert_eq!(mode["enum"], json!(["ask", "accept_edits", "yolo"]));
    assert!(mode["x-enumDescriptions"]["yolo"].is_string());
    let source = normalise(output_schema::<SessionSource>());
    assert_eq!(
        (&source["oneOf"][0]["title"], &source["oneOf"][1]["title"]),
        (&json!("SessionSourceWord"), &json!("SessionSourceCustom"))
    );
}
