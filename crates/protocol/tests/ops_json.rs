//! The JSON of the Op/Event contract, literally: what each op and event looks like with everything and with nothing optional.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Debug;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::ops::*;

use common::ops::{EVENTS, OPS};

/// Reads a document and writes it again; the bytes must be the same.
fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
    value
}

/// Reads a document that is written in another form.
fn reads<T: Serialize + DeserializeOwned>(text: &str, written: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(serde_json::to_string(&value).unwrap(), written, "read from {text}");
    value
}

/// The tags a union's schema lists.
fn tags<T: JsonSchema>(tag: &str) -> BTreeSet<String> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["properties"][tag]["const"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_op_is_written_as_it_was_read() {
    let mut seen = BTreeSet::new();
    for text in OPS {
        let op: Op = survives(text);
        let json: Value = serde_json::from_str(text).unwrap();
        assert_eq!(op.name(), json["op"]);
        assert_eq!(op.session(), json["session"].as_str());
        if !op.name().starts_with("answer_") {
            assert_eq!(op.request_id(), json["request_id"].as_str(), "{text}");
        }
        assert_eq!(decode_op(text).as_ref(), Ok(&op));
        seen.insert(op.name().to_owned());
    }
    assert_eq!(seen, tags::<Op>("op"), "ops without an example");
}

#[test]
fn every_event_is_written_as_it_was_read() {
    let mut seen = BTreeSet::new();
    for text in EVENTS {
        let event: Event = survives(text);
        let json: Value = serde_json::from_str(text).unwrap();
        assert_eq!(event.name(), json["event"]);
        assert_eq!(event.session(), json["session"].as_str());
        seen.insert(event.name().to_owned());
    }
    assert_eq!(seen, tags::<Event>("event"), "events without an example");
}

#[test]
fn every_block_part_and_frame_is_written_as_it_was_read() {
    let mut seen = BTreeSet::new();
    for text in [
        r#"{"type":"text","text":"t"}"#,
        r#"{"type":"text","text":"t","elements":[{"start":0,"end":1},{"start":1,"end":2,"placeholder":"p"}]}"#,
        r#"{"type":"skill","skill_id":"reviewer","params":{"a":"b"},"path":"/s/SKILL.md"}"#,
        r#"{"type":"file","path":"a.rs"}"#,
        r#"{"type":"file","path":"a.rs","name":"a"}"#,
        r#"{"type":"image","path":"a.png"}"#,
        r#"{"type":"image","path":"a.png","detail":"high"}"#,
        r#"{"type":"image_url","url":"data:image/png;base64,AA==","detail":"low"}"#,
        r#"{"type":"image_url","url":"https://x/y.png"}"#,
        r#"{"type":"session","session_id":"s2"}"#,
        r#"{"type":"issue","source":"github","id":"7","title":"T","url":"u","body":"b"}"#,
        r#"{"type":"resource","uri":"file:///a"}"#,
        r#"{"type":"resource","uri":"x:1","text":"t","path":"/a","mime_type":"text/plain"}"#,
        r#"{"type":"context","source":"editor","value":"v","kind":"application"}"#,
    ] {
        survives::<DocBlock>(text);
        let json: Value = serde_json::from_str(text).unwrap();
        seen.insert(json["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, tags::<DocBlock>("type"), "blocks without an example");

    for text in [
        r#"{"seq":41,"role":"user","part":{"kind":"prompt","text":"t","display":"t"}}"#,
        r#"{"seq":42,"role":"user","part":{"kind":"prompt","text":"t","display":"t"},"continues":true}"#,
        r#"{"seq":43,"role":"agent","part":{"kind":"text","text":"t"},"through_seq":50}"#,
        r#"{"seq":43,"role":"agent","part":{"kind":"text","text":"t","message_id":"m"}}"#,
        r#"{"seq":44,"role":"agent","part":{"kind":"reasoning","text":"t"}}"#,
        r#"{"seq":45,"role":"agent","part":{"kind":"tool_call","id":"c","title":"ls","status":"completed"}}"#,
        r#"{"seq":46,"role":"agent","part":{"kind":"tool_call","id":"c","title":"ls","status":"completed","tool_kind":"execute","agent_input":{}}}"#,
        r#"{"seq":47,"role":"agent","part":{"kind":"plan","entries":["one"]}}"#,
    ] {
        survives::<TranscriptEntry>(text);
    }

    let mut seen = BTreeSet::new();
    for text in [
        r#"{"kind":"sessions","sessions":[]}"#,
        r#"{"kind":"sessions_error","message":"m"}"#,
        r#"{"kind":"event","event":{"event":"session_archived","session":"s","archived":false}}"#,
        r#"{"kind":"transcript","session":"s","entries":[],"next_before":null,"snapshot_through":null}"#,
        r#"{"kind":"transcript","session":"s","request_id":"r","entries":[],"next_before":41,"snapshot_through":62}"#,
        r#"{"kind":"transcript_error","session":"s","message":"m"}"#,
        r#"{"kind":"transcript_error","session":"s","request_id":"r","message":"m"}"#,
        r#"{"kind":"lagged","missed":3}"#,
        r#"{"kind":"error","message":"m"}"#,
        r#"{"kind":"error","message":"m","request_id":"r"}"#,
    ] {
        survives::<ServerFrame>(text);
        let json: Value = serde_json::from_str(text).unwrap();
        seen.insert(json["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, tags::<ServerFrame>("kind"), "frames without an example");

    survives::<ClientRequest>(r#"{"req":"sessions"}"#);
    survives::<ClientRequest>(r#"{"req":"transcript","session":"s"}"#);
    survives::<ClientRequest>(
        r#"{"req":"transcript","session":"s","before":41,"limit":20,"request_id":"r"}"#,
    );
}

#[test]
fn null_and_absence_mean_the_same_when_read() {
    reads::<Op>(
        r#"{"op":"prompt","session":"s","doc":[],"request_id":null}"#,
        r#"{"op":"prompt","session":"s","doc":[]}"#,
    );
    reads::<Op>(
        r#"{"op":"new_session","provider":"pi","cwd":".","use_worktree":true,"worktree_base":null,"worktree_base_sha":null,"initial_policy":null,"request_id":null,"model":null}"#,
        r#"{"op":"new_session","provider":"pi","cwd":".","use_worktree":true}"#,
    );
    reads::<Op>(
        r#"{"op":"answer_permission","session":"s","request_id":"i"}"#,
        r#"{"op":"answer_permission","session":"s","request_id":"i","option_id":null}"#,
    );
    reads::<Event>(
        r#"{"event":"error","message":"m"}"#,
        r#"{"event":"error","session":null,"message":"m","terminal":false}"#,
    );
    reads::<Event>(
        r#"{"event":"session_created","session":"s","worktree_path":null,"request_id":null}"#,
        r#"{"event":"session_created","session":"s","cwd":""}"#,
    );
}

#[test]
fn a_switch_may_be_set_with_a_boolean() {
    reads::<Op>(
        r#"{"op":"set_config_option","session":"s","config_id":"fast","value":true}"#,
        r#"{"op":"set_config_option","session":"s","config_id":"fast","value":"true"}"#,
    );
    let text = r#"{"op":"set_config_option","session":"s","config_id":"fast","value":1}"#;
    assert!(serde_json::from_str::<Op>(text).is_err());
}

#[test]
fn unknown_fields_are_ignored_at_every_level() {
    reads::<Op>(
        r#"{"op":"prompt","session":"s","later":1,"doc":[{"type":"text","text":"t","colour":"red"}]}"#,
        r#"{"op":"prompt","session":"s","doc":[{"type":"text","text":"t"}]}"#,
    );
    reads::<Op>(
        r#"{"op":"thread_settings","session":"s","later":{},"policy":{"mode":"ask","third_axis":1}}"#,
        r#"{"op":"thread_settings","session":"s","policy":{"mode":"ask"}}"#,
    );
    reads::<Event>(
        r#"{"event":"permission_request","session":"s","request_id":"i","title":"t","options":[],"context":{"kind":"acp"}}"#,
        r#"{"event":"permission_request","session":"s","request_id":"i","title":"t","options":[]}"#,
    );
}

#[test]
fn what_is_no_op_is_refused_with_a_reason() {
    let refused = |text: &str| decode_op(text).unwrap_err();
    assert_eq!(refused(r#"{"op":"explode"}"#), DecodeError::Unknown { op: "explode".into() });
    assert_eq!(refused(r#"{"session":"s"}"#), DecodeError::NotAnOp);
    assert_eq!(refused(r#"{"op":7}"#), DecodeError::NotAnOp);
    assert_eq!(refused(r#"["cancel","s"]"#), DecodeError::NotAnOp);
    assert!(matches!(refused("{"), DecodeError::Json(_)));
    for text in [
        r#"{"op":"cancel"}"#,
        r#"{"op":"set_sandbox","session":"s","sandbox":"none"}"#,
        r#"{"op":"set_permission_mode","session":"s","mode":"YOLO"}"#,
        r#"{"op":"prompt","session":"s","doc":[{"type":"hologram"}]}"#,
        r#"{"op":"set_execution_policy","session":"s","mode":"ask"}"#,
        r#"{"op":"new_session","provider":"grok","cwd":"."}"#,
        r#"{"op":"new_session","provider":"","cwd":".","use_worktree":false}"#,
        r#"{"op":"new_session","provider":"grok","cwd":".","use_worktree":true,"worktree_base":"main"}"#,
        r#"{"op":"new_session","provider":"grok","cwd":".","use_worktree":false,"initial_policy":{"mode":"ask"}}"#,
    ] {
        assert!(matches!(refused(text), DecodeError::Fields { .. }), "{text}");
    }
}

#[test]
fn providers_have_one_name_space() {
    for provider in Provider::DOCUMENTED {
        let text = format!("{:?}", provider.name());
        assert_eq!(survives::<Provider>(&text), provider);
        assert_eq!(reads::<Provider>(&format!(r#"{{"custom":{text}}}"#), &text), provider);
    }
    assert_eq!(reads::<Provider>(r#""open_code""#, r#""opencode""#), Provider::Opencode);
    assert_eq!(reads::<Provider>(r#""z_code""#, r#""zcode""#), Provider::Zcode);
    assert_eq!(
        reads::<Provider>(r#""rehearsal""#, r#"{"custom":"rehearsal"}"#),
        Provider::Custom("rehearsal".into())
    );
    survives::<Provider>(r#"{"custom":"mine"}"#);
    for text in [r#""""#, "7", "null", "{}", r#"{"custom":" "}"#, r#"{"name":"codex"}"#] {
        assert!(serde_json::from_str::<Provider>(text).is_err(), "{text}");
    }
}

#[test]
fn a_session_of_an_older_server_is_read_as_revision_0_idle() {
    let old = json!({
        "id": "s", "title": "Untitled session", "provider": "grok", "model": null, "cwd": "/work",
        "worktree_path": null, "permission_mode": "ask", "acp_session_id": null,
        "memory_read": "inherit", "memory_write": "deny", "created_at": 1_755_763_200_000_i64,
    });
    let session: SessionSnapshot = serde_json::from_value(old).unwrap();
    assert_eq!(session.activity, Activity { revision: 0, state: ActivityState::Idle });
    assert_eq!(session.sandbox_policy, SandboxLevel::WorkspaceWrite);
    assert_eq!(session.title_origin, TitleOrigin::Default);
    assert_eq!(session.memory_write, MemoryAccess::Deny);
}

#[test]
fn a_session_is_written_with_every_key() {
    survives::<SessionSnapshot>(
        r#"{"id":"5f1c","title":"Untitled session","title_origin":"default","pinned":false,"archived":false,"activity":{"revision":0,"state":{"kind":"idle"}},"provider":"grok","model":null,"project_path":"/work","cwd":"/work","roots":[],"worktree_path":null,"worktree_baseline":null,"worktree_discarded":false,"permission_mode":"ask","sandbox_policy":"workspace_write","rules":[],"acp_session_id":null,"forked_from":null,"memory_read":"inherit","memory_write":"inherit","created_at":1755763200000,"updated_at":0}"#,
    );
}

#[test]
fn a_policy_patch_changes_only_what_it_names() {
    let current =
        Policy { mode: PermissionMode::AcceptEdits, sandbox: SandboxLevel::ReadOnly, never_ask: false };
    assert_eq!(PolicyPatch::default().over(current), current);
    let patch: PolicyPatch = serde_json::from_str(r#"{"mode":"yolo"}"#).unwrap();
    assert_eq!(
        patch.over(current),
        Policy { mode: PermissionMode::Yolo, sandbox: SandboxLevel::ReadOnly, never_ask: false }
    );
    assert_eq!(PolicyPatch::from(current).over(Policy::default()), current);
}
