//! The tables of the document: every Op with what it must have, every Event with what it has and what it may lack.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Map, Value, json};
use signalbox_protocol::ops::decode_op;

use super::face::{Face, names, only, permit};

/// The Ops of the document: name, required fields, optional ones.
fn ops() -> Vec<(&'static str, Value, Value)> {
    let policy = json!({"mode": "ask", "sandbox": "workspace_write"});
    let sha = "0123456789abcdef0123456789abcdef01234567";
    vec![
        (
            "new_session",
            json!({"provider": "grok", "cwd": ".", "use_worktree": true}),
            json!({"worktree_base": "origin_default", "worktree_base_sha": sha, "initial_policy": policy, "request_id": "r"}),
        ),
        (
            "prompt",
            json!({"session": "s", "doc": [{"type": "text", "text": "x"}]}),
            json!({"request_id": "r"}),
        ),
        ("cancel", json!({"session": "s"}), json!({})),
        // Absent and null mean the same: cancel.
        ("answer_permission", json!({"session": "s", "request_id": "i"}), json!({"option_id": "allow"})),
        (
            "set_execution_policy",
            json!({"session": "s", "mode": "ask", "sandbox": "read_only"}),
            json!({"request_id": "r"}),
        ),
        ("set_permission_mode", json!({"session": "s", "mode": "accept_edits"}), json!({})),
        ("set_sandbox", json!({"session": "s", "sandbox": "danger_full_access"}), json!({})),
        ("set_model", json!({"session": "s", "model": "m"}), json!({})),
        ("set_config_option", json!({"session": "s", "config_id": "c", "value": "v"}), json!({})),
    ]
}

fn fields(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

#[test]
fn every_op_needs_its_required_fields_and_no_others() {
    for (name, required, optional) in ops() {
        let mut whole = fields(&required).clone();
        whole.insert("op".to_owned(), json!(name));
        let read = |op: &Map<String, Value>| decode_op(&Value::Object(op.clone()).to_string());
        let bare = read(&whole).unwrap_or_else(|error| panic!("{name}: {error}"));
        for key in fields(&required).keys() {
            let mut without = whole.clone();
            without.remove(key);
            assert!(read(&without).is_err(), "{name} without {key}");
        }
        for (key, value) in fields(&optional) {
            let mut with = whole.clone();
            with.insert(key.clone(), Value::Null);
            assert_eq!(read(&with).as_ref(), Ok(&bare), "{name} with {key}: null");
            with.insert(key.clone(), value.clone());
            let read = read(&with).unwrap();
            assert_ne!(read, bare, "{name} with {key}");
            // What is written again has what was there, and no more.
            assert_eq!(serde_json::to_value(&read).unwrap()[key], *value);
        }
        whole.insert("something_new".to_owned(), json!({"x": 1}));
        assert_eq!(read(&whole).as_ref(), Ok(&bare), "{name}: unknown fields are ignored");
    }
    assert!(decode_op(r#"{"op":"future_op","session":"s"}"#).is_err());
    let providers =
        ["claude_code", "codex", "grok", "cursor", "opencode", "opencode2", "pi", "kimi", "zcode"];
    for provider in providers {
        let op = json!({"op": "new_session", "provider": provider, "cwd": ".", "use_worktree": false});
        let read = decode_op(&op.to_string()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap()["provider"], provider, "as the document spells it");
    }
}

type Keys = &'static [&'static str];

/// The Events of the document: required fields, optional ones, and those that we add to them. `transcript_seq` is always
/// there, because there always is a store; nothing else may be.
const EVENTS: [(&str, Keys, Keys, Keys); 16] = [
    (
        "session_created",
        &["session", "cwd"],
        &["project_path", "worktree_path", "worktree_baseline", "request_id"],
        &["forked_from", "fork_context"],
    ),
    ("session_title_changed", &["session", "title"], &[], &[]),
    ("session_activity_changed", &["session", "activity"], &[], &[]),
    ("turn_started", &["session"], &["request_id", "transcript_seq"], &[]),
    ("agent_text", &["session", "message_id", "text"], &["transcript_seq"], &[]),
    ("agent_thought", &["session", "text"], &["transcript_seq"], &[]),
    ("tool_call", &["session", "id", "title", "status"], &["kind", "agent_input", "transcript_seq"], &[]),
    ("plan", &["session", "entries"], &["transcript_seq"], &[]),
    (
        "permission_request",
        &["session", "request_id", "title", "options"],
        &[],
        &["option_kinds", "tool_call_id"],
    ),
    ("usage", &["session", "input_tokens", "output_tokens"], &[], &[]),
    ("context_window", &["session", "used_tokens", "context_window"], &[], &["cost_usd"]),
    ("models", &["session", "available", "current"], &[], &[]),
    ("config_options", &["session", "options"], &[], &[]),
    ("execution_policy_changed", &["session", "policy"], &["request_id"], &[]),
    ("turn_ended", &["session", "stop_reason"], &[], &[]),
    ("error", &["session", "message", "terminal"], &["request_id"], &["reason"]),
];

/// Optional fields that are always there with us.
const ALWAYS: [&str; 2] = ["project_path", "transcript_seq"];

fn repository(face: &Face) -> String {
    let folder = face.folder().join("repository");
    std::fs::create_dir_all(&folder).unwrap();
    let identity =
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first"];
    for args in [&["init", "-q", "-b", "main"][..], &identity[..]] {
        assert!(Command::new("git").args(args).current_dir(&folder).status().unwrap().success());
    }
    folder.to_str().unwrap().to_owned()
}

/// Two sessions in which everything happens that the document has an event for, each once with what is optional and once
/// without. That no event has a null in an optional field is a law of the stage.
async fn everything(face: &mut Face) {
    let work = face.work();
    let fields =
        json!({"provider": "rehearsal", "cwd": work, "use_worktree": false, "request_id": "created"});
    let session = face.creates(fields).await;
    let worktree = json!({"provider": "rehearsal", "cwd": repository(face), "use_worktree": true});
    face.creates(worktree).await;
    let launch = json!({"sessionUpdate": "tool_call", "toolCallId": "launch", "title": "spawn_agent", "kind": "other",
        "status": "completed", "rawInput": {"agent_type": "explorer"}});
    let kindless = json!({"sessionUpdate": "tool_call", "toolCallId": "kindless", "title": "Something", "status": "completed"});
    let script = format!(
        "think Hm.\nsay One.\nplan done: a | todo: b\nread nothing\nusage 10 100\nsend-update {launch}\nsend-update {kindless}\n\
         send-update {}\nsay Two.",
        json!({"sessionUpdate": "usage_update", "used": 11, "size": 100, "cost": {"amount": 1.5, "currency": "USD"}})
    );
    face.turn(&session, &script).await;
    face.sends(json!({"op": "prompt", "session": session, "doc": [{"type": "text", "text": "fail x"}]}))
        .await;
    face.until_end(&session).await;
    face.prompts(&session, &permit(&[json!({"kind": "execute"})]), "asked").await;
    let request = face.next("permission_request").await;
    face.answers(&session, &request, Some("allow")).await;
    face.until_end(&session).await;
    face.prompts("missing-session", "say no", "declined").await;
    face.sends(json!({"op": "set_model", "session": "missing-session", "model": "m"})).await;
    face.sends(
        json!({"op": "new_session", "provider": {"custom": "nope"}, "cwd": ".", "use_worktree": false}),
    )
    .await;
    face.sets_policy(&session, "ask", "read_only").await;
    face.quiet(&session).await;
}

#[tokio::test]
async fn every_event_has_its_fields_and_lacks_what_is_absent() {
    let mut face = Face::new().await;
    everything(&mut face).await;
    let mut seen: BTreeMap<String, Vec<BTreeSet<String>>> = BTreeMap::new();
    for event in &face.log {
        let keys = fields(event).keys().filter(|key| *key != "event").cloned().collect();
        seen.entry(event["event"].as_str().unwrap().to_owned()).or_default().push(keys);
    }
    for (name, required, optional, ours) in EVENTS {
        let all = seen.get(name).unwrap_or_else(|| panic!("no {name} was told"));
        for keys in all {
            for key in required {
                assert!(keys.contains(*key), "{name} without {key}");
            }
            let known = |key: &str| [required, optional, ours].iter().any(|list| list.contains(&key));
            assert!(keys.iter().all(|key| known(key)), "{name} has {keys:?}");
        }
        for key in optional {
            assert!(all.iter().any(|keys| keys.contains(*key)), "{name} was never told with {key}");
            let always = all.iter().all(|keys| keys.contains(*key));
            assert_eq!(always, ALWAYS.contains(key), "{name} without {key}");
        }
    }
}

#[tokio::test]
async fn the_values_of_events_are_of_the_documents_kinds() {
    let mut face = Face::new().await;
    everything(&mut face).await;
    let log = std::mem::take(&mut face.log);
    let text = |value: &Value| value.is_string();
    for event in &log {
        let nobody = event["event"] == "error" && event["session"].is_null();
        assert!(text(&event["session"]) || nobody, "{event}");
    }
    let states = only(&log, "session_activity_changed").into_iter().map(|event| &event["activity"]["state"]);
    let mut kinds = BTreeSet::new();
    for state in states {
        let keys: Vec<_> =
            fields(state).keys().map(String::as_str).filter(|key| *key != "prompt_request_id").collect();
        let expected: &[&str] = match state["kind"].as_str().unwrap() {
            "idle" => &["kind"],
            "running" => &["kind", "turn_id"],
            "awaiting_input" => &["kind", "pending", "turn_id"],
            "failed" => &["kind", "message", "reason", "turn_id"],
            other => panic!("{other}"),
        };
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
        kinds.insert(state["kind"].to_string());
    }
    assert_eq!(kinds.len(), 4, "all four states");
    for event in only(&log, "plan") {
        assert!(event["entries"].as_array().unwrap().iter().all(text), "{event}");
    }
    for event in only(&log, "permission_request") {
        let pair =
            |pair: &Value| pair.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(text));
        assert!(event["options"].as_array().unwrap().iter().all(pair), "{event}");
    }
    for event in only(&log, "models") {
        for model in event["available"].as_array().unwrap() {
            assert_eq!(
                fields(model).keys().collect::<BTreeSet<_>>().len(),
                3,
                "id, name, description: {model}"
            );
        }
    }
    for event in only(&log, "config_options") {
        for option in event["options"].as_array().unwrap() {
            assert!(text(&option["current"]) && option["choices"].is_array(), "{option}");
        }
    }
    let baseline = log.iter().find_map(|event| event.get("worktree_baseline")).unwrap();
    assert_eq!((&baseline["kind"], &baseline["ref"]), (&json!("current"), &json!("main")));
    let sha = baseline["sha"].as_str().unwrap();
    assert!(sha.len() == 40 && baseline["display"].as_str().unwrap().contains(&sha[..8]), "{baseline}");
}

#[tokio::test]
async fn the_steps_of_a_tool_call_are_all_told_and_the_page_has_the_last() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sets_policy(&session, "yolo", "workspace_write").await;
    let heard = face.turn(&session, "run true").await;
    let mut steps: Vec<_> =
        only(&heard, "tool_call").into_iter().map(|event| event["status"].as_str().unwrap()).collect();
    // The permission request may tell more of it without another status.
    steps.dedup();
    assert_eq!(steps, ["pending", "in_progress", "completed"]);
    let entries = serde_json::to_value(face.page(&session).await.entries).unwrap();
    let calls: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["part"]["kind"] == "tool_call")
        .map(|entry| {
            (entry["part"]["status"].clone(), entry["part"]["tool_kind"].clone(), entry["seq"].clone())
        })
        .collect();
    let last = only(&heard, "tool_call").last().unwrap()["transcript_seq"].clone();
    assert_eq!(calls, [(json!("completed"), json!("execute"), last)]);
}

/// A snapshot and the events behind it are the whole: what a client that joins late merges by `transcript_seq`.
#[tokio::test]
async fn a_page_and_what_follows_it_are_what_somebody_saw_who_never_left() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "say first\nrun true\nsay last", "r").await;
    let request = face.next("permission_request").await;
    let page = face.page(&session).await;
    let through = page.snapshot_through.unwrap();
    face.answers(&session, &request, Some("allow")).await;
    let later = face.until_end(&session).await;
    let followed: Vec<_> = later.iter().filter_map(|event| event["transcript_seq"].as_u64()).collect();
    assert!(followed.iter().all(|seq| *seq > through), "{followed:?} after {through}");
    let told: BTreeSet<_> = face.log.iter().filter_map(|event| event["transcript_seq"].as_u64()).collect();
    let joined: BTreeSet<_> = page.entries.iter().map(|entry| entry.seq).chain(followed).collect();
    assert!(joined.is_subset(&told));
    let texts: Vec<_> = only(&face.log, "agent_text").into_iter().map(|event| &event["text"]).collect();
    assert_eq!(texts, ["first", "last"], "{:?}", names(&face.log));
}
