//! The JSON of the Op/Event contract, literally: what each op and event looks like with everything and with nothing optional.

use std::collections::BTreeSet;
use std::fmt::Debug;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::ops::*;

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

const OPS: &[&str] = &[
    r#"{"op":"new_session","provider":"grok","cwd":".","use_worktree":false}"#,
    r#"{"op":"new_session","provider":{"custom":"mine"},"cwd":"/w","use_worktree":true,"worktree_base":"origin_default","worktree_base_sha":"0123456789abcdef0123456789abcdef01234567","initial_policy":{"mode":"ask","sandbox":"workspace_write"},"request_id":"r","roots":["/x"],"model":"m","effort":"high","config_options":{"fast":"true"},"title":"T","base_instructions":"b","developer_instructions":"d","ephemeral":true,"source":"cli"}"#,
    r#"{"op":"prompt","session":"s","doc":[]}"#,
    r#"{"op":"prompt","session":"s","doc":[{"type":"skill","skill_id":"reviewer","params":{}},{"type":"text","text":"Refactor."}],"request_id":"r"}"#,
    r#"{"op":"cancel","session":"s"}"#,
    r#"{"op":"cancel","session":"s","turn":"t"}"#,
    r#"{"op":"answer_permission","session":"s","request_id":"i","option_id":"allow"}"#,
    r#"{"op":"answer_permission","session":"s","request_id":"i","option_id":null}"#,
    r#"{"op":"answer_permission","session":"s","request_id":"i","option_id":"allow","for_session":true,"message":"m"}"#,
    r#"{"op":"answer_elicitation","session":"s","request_id":"i","answer":{"action":"accept","content":{"a":1,"b":["x"]}}}"#,
    r#"{"op":"answer_elicitation","session":"s","request_id":"i","answer":{"action":"decline"}}"#,
    r#"{"op":"answer_elicitation","session":"s","request_id":"i","answer":{"action":"cancel"}}"#,
    r#"{"op":"set_execution_policy","session":"s","mode":"accept_edits","sandbox":"read_only","request_id":"r"}"#,
    r#"{"op":"set_execution_policy","session":"s","mode":"yolo","sandbox":"danger_full_access"}"#,
    r#"{"op":"set_permission_mode","session":"s","mode":"ask"}"#,
    r#"{"op":"set_sandbox","session":"s","sandbox":"workspace_write"}"#,
    r#"{"op":"set_model","session":"s","model":"opus"}"#,
    r#"{"op":"set_config_option","session":"s","config_id":"effort","value":"high"}"#,
    r#"{"op":"turn_input","session":"s","doc":[{"type":"text","text":"Go."}]}"#,
    r#"{"op":"turn_input","session":"s","doc":[],"mode":"steer","expected_turn":"t","client_message_id":"c","settings":{"cwd":"/w","roots":[],"model":"m","effort":"low","policy":{"mode":"yolo"},"config_options":{"fast":"false"}},"additional_context":{"editor":{"value":"open: a.rs","kind":"application"},"web":{"value":"x","kind":"untrusted"}},"client_metadata":{"k":"v"},"parent_turn":"p","root_turn":"o","request_id":"r"}"#,
    r#"{"op":"turn_input","session":"s","doc":[],"mode":"queue"}"#,
    r#"{"op":"turn_input","session":"s","doc":[],"mode":"start"}"#,
    r#"{"op":"thread_settings","session":"s"}"#,
    r#"{"op":"thread_settings","session":"s","cwd":"/w","roots":["/x"],"model":"m","effort":"low","policy":{"mode":"ask","sandbox":"read_only"},"config_options":{"fast":"true"},"request_id":"r"}"#,
    r#"{"op":"fork","session":"s"}"#,
    r#"{"op":"fork","session":"s","through_turn":"t","settings":{"model":"m"},"provider":"codex","ephemeral":true,"base_instructions":"b","developer_instructions":"d","source":"cli","request_id":"r"}"#,
    r#"{"op":"revert","session":"s","before_turn":"t"}"#,
    r#"{"op":"revert","session":"s","before_turn":"t","request_id":"r"}"#,
    r#"{"op":"queue_add","session":"s","doc":[]}"#,
    r#"{"op":"queue_add","session":"s","doc":[],"client_message_id":"c","client_metadata":{"k":"v"},"request_id":"r"}"#,
    r#"{"op":"queue_edit","session":"s","queued":"q","doc":[]}"#,
    r#"{"op":"queue_edit","session":"s","queued":"q","doc":[],"client_metadata":{},"request_id":"r"}"#,
    r#"{"op":"queue_remove","session":"s","queued":"q"}"#,
    r#"{"op":"queue_remove","session":"s","queued":"q","request_id":"r"}"#,
    r#"{"op":"queue_move","session":"s","order":["q2","q1"]}"#,
    r#"{"op":"queue_move","session":"s","order":[],"request_id":"r"}"#,
    r#"{"op":"rename","session":"s","title":"T"}"#,
    r#"{"op":"rename","session":"s","title":"T","request_id":"r"}"#,
    r#"{"op":"archive","session":"s"}"#,
    r#"{"op":"archive","session":"s","request_id":"r"}"#,
    r#"{"op":"unarchive","session":"s"}"#,
    r#"{"op":"unarchive","session":"s","request_id":"r"}"#,
    r#"{"op":"delete","session":"s"}"#,
    r#"{"op":"delete","session":"s","request_id":"r"}"#,
    r#"{"op":"compact","session":"s"}"#,
    r#"{"op":"compact","session":"s","request_id":"r"}"#,
    r#"{"op":"discard_worktree","session":"s"}"#,
    r#"{"op":"discard_worktree","session":"s","force":true,"request_id":"r"}"#,
];

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

const EVENTS: &[&str] = &[
    r#"{"event":"session_created","session":"s","cwd":"/w"}"#,
    r#"{"event":"session_created","session":"s","cwd":"/w","project_path":"/p","worktree_path":"/t","worktree_baseline":{"kind":"origin_default","ref":"refs/remotes/origin/main","sha":"0123456789abcdef0123456789abcdef01234567","display":"origin/main @ 01234567"},"request_id":"r"}"#,
    r#"{"event":"session_title_changed","session":"s","title":"T"}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":6,"state":{"kind":"idle"}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":7,"state":{"kind":"running","turn_id":"t"}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":7,"state":{"kind":"running","turn_id":"t","prompt_request_id":"r"}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":8,"state":{"kind":"awaiting_input","turn_id":"t","pending":[{"input_id":"i","kind":"permission","title":"Run command?","options":[["allow","Allow"]],"sequence":12}]}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":8,"state":{"kind":"awaiting_input","turn_id":"t","prompt_request_id":"r","pending":[{"input_id":"i","kind":"elicitation","title":"Which?","options":[],"option_kinds":{"allow":"allow_once"},"sequence":13,"form":{"message":"Which?","fields":[{"key":"k","kind":"text","required":false}]}}]}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":9,"state":{"kind":"failed","reason":"interrupted","message":"m"}}}"#,
    r#"{"event":"session_activity_changed","session":"s","activity":{"revision":9,"state":{"kind":"failed","turn_id":"t","reason":"provider_error","message":"m"}}}"#,
    r#"{"event":"turn_started","session":"s"}"#,
    r#"{"event":"turn_started","session":"s","request_id":"r","transcript_seq":41}"#,
    r#"{"event":"agent_text","session":"s","message_id":"i2","text":"Hi"}"#,
    r#"{"event":"agent_text","session":"s","message_id":"i2","text":"Hi","transcript_seq":42}"#,
    r#"{"event":"agent_thought","session":"s","text":"Hm"}"#,
    r#"{"event":"agent_thought","session":"s","text":"Hm","transcript_seq":43}"#,
    r#"{"event":"tool_call","session":"s","id":"c","title":"ls","status":"pending"}"#,
    r#"{"event":"tool_call","session":"s","id":"c","title":"ls","status":"pending","kind":"execute","agent_input":{"role":"scout"},"transcript_seq":44}"#,
    r#"{"event":"plan","session":"s","entries":["one","two"]}"#,
    r#"{"event":"plan","session":"s","entries":[],"transcript_seq":45}"#,
    r#"{"event":"permission_request","session":"s","request_id":"i","title":"Run?","options":[["allow","Allow"],["deny","Deny"]]}"#,
    r#"{"event":"permission_request","session":"s","request_id":"i","title":"Run?","options":[["allow","Allow"]],"option_kinds":{"allow":"allow_once"},"tool_call_id":"c"}"#,
    r#"{"event":"elicitation_request","session":"s","request_id":"i","form":{"message":"Which?","tool_call_id":"c","fields":[{"key":"k","kind":"select","title":"K","description":"D","required":true,"options":[{"value":"a","label":"A"},{"value":"b","label":"B","description":"d","preview":"p"}],"default":"a"},{"key":"k2","kind":"text","required":false,"custom_answer_for":"k"}]}}"#,
    r#"{"event":"permission_resolved","session":"s","request_id":"i","option_id":"allow","by":{"kind":"client","name":"phone"}}"#,
    r#"{"event":"permission_resolved","session":"s","request_id":"i","option_id":null,"by":{"kind":"policy"},"rule":"ceiling","action":"decline","title":"Run?","tool_call_id":"c"}"#,
    r#"{"event":"usage","session":"s","input_tokens":1,"output_tokens":2}"#,
    r#"{"event":"usage","session":"s","input_tokens":1,"output_tokens":2,"rate_limits":[{"name":"5h","used_percent":12.5,"window_minutes":300,"resets_at":1755763200},{"name":"week","used_percent":1.0}]}"#,
    r#"{"event":"context_window","session":"s","used_tokens":10,"context_window":200000}"#,
    r#"{"event":"context_window","session":"s","used_tokens":10,"context_window":200000,"cost_usd":0.25}"#,
    r#"{"event":"models","session":"s","available":[{"id":"m","name":"M","description":null}],"current":""}"#,
    r#"{"event":"config_options","session":"s","options":[{"id":"o","name":"O","category":null,"current":"a","choices":[{"id":"a","name":"A","description":"d"}]}]}"#,
    r#"{"event":"execution_policy_changed","session":"s","policy":{"mode":"yolo","sandbox":"read_only"}}"#,
    r#"{"event":"execution_policy_changed","session":"s","policy":{"mode":"ask","sandbox":"workspace_write"},"request_id":"r"}"#,
    r#"{"event":"turn_ended","session":"s","stop_reason":"end_turn"}"#,
    r#"{"event":"error","session":null,"message":"m","terminal":true}"#,
    r#"{"event":"error","session":"s","message":"m","terminal":false,"request_id":"r"}"#,
    r#"{"event":"prompt_steered","session":"s"}"#,
    r#"{"event":"prompt_steered","session":"s","turn_id":"t","request_id":"r","transcript_seq":50}"#,
    r#"{"event":"turn_diff","session":"s","diff":"","truncated":false,"partial":false}"#,
    r#"{"event":"turn_diff","session":"s","diff":"--- a","truncated":true,"partial":true,"turn_id":"t","transcript_seq":51}"#,
    r#"{"event":"session_reverted","session":"s","before_turn":"t","through_seq":60}"#,
    r#"{"event":"session_archived","session":"s","archived":true}"#,
    r#"{"event":"queue_changed","session":"s","queue":[],"paused":false}"#,
    r#"{"event":"queue_changed","session":"s","queue":[{"id":"q","doc":[],"client_message_id":"c","client_metadata":{"k":"v"},"request_id":"r"},{"id":"q2","doc":[]}],"paused":true}"#,
    r#"{"event":"worktree_discarded","session":"s","worktree_path":"/t","removed_checkout":true}"#,
    r#"{"event":"worktree_discarded","session":"s","worktree_path":"/t","removed_checkout":false,"deleted_branch":"b"}"#,
    r#"{"event":"session_closed","session":"s","reason":"unloaded"}"#,
    r#"{"event":"session_closed","session":"s","reason":"deleted"}"#,
];

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
        r#"{"id":"5f1c","title":"Untitled session","title_origin":"default","pinned":false,"archived":false,"activity":{"revision":0,"state":{"kind":"idle"}},"provider":"grok","model":null,"project_path":"/work","cwd":"/work","roots":[],"worktree_path":null,"worktree_baseline":null,"worktree_discarded":false,"permission_mode":"ask","sandbox_policy":"workspace_write","acp_session_id":null,"forked_from":null,"memory_read":"inherit","memory_write":"inherit","created_at":1755763200000,"updated_at":0}"#,
    );
}

#[test]
fn a_policy_patch_changes_only_what_it_names() {
    let current = Policy { mode: PermissionMode::AcceptEdits, sandbox: SandboxLevel::ReadOnly };
    assert_eq!(PolicyPatch::default().over(current), current);
    let patch: PolicyPatch = serde_json::from_str(r#"{"mode":"yolo"}"#).unwrap();
    assert_eq!(patch.over(current), Policy { mode: PermissionMode::Yolo, sandbox: SandboxLevel::ReadOnly });
    assert_eq!(PolicyPatch::from(current).over(Policy::default()), current);
}
