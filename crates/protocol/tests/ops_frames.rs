//! The remote framing: what is read from a client's text, what is said about texts that are nothing, and what is written.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use proptest::prelude::*;
use serde_json::{Value, json};
use signalbox_protocol::ops::*;

use common::ops::{EVENTS, OPS};

fn refused(text: &str) -> (String, Option<String>) {
    let Undecodable { problem, request_id } = decode(text).unwrap_err();
    (problem.to_string(), request_id)
}

#[test]
fn every_op_and_every_request_is_read() {
    for text in OPS {
        assert_eq!(decode(text), Ok(Incoming::Op(serde_json::from_str(text).unwrap())), "{text}");
    }
    let page = ClientRequest::Transcript {
        session: "s".into(),
        before: None,
        limit: Some(20),
        request_id: Some("page-uuid".into()),
    };
    let documented =
        r#"{"req":"transcript","session":"s","before":null,"limit":20,"request_id":"page-uuid"}"#;
    assert_eq!(decode(documented), Ok(Incoming::Request(page)));
    let bare = ClientRequest::Transcript { session: "s".into(), before: None, limit: None, request_id: None };
    assert_eq!(decode(r#" {"req":"transcript","session":"s","more":1} "#), Ok(Incoming::Request(bare)));
    assert_eq!(decode(r#"{"req":"sessions"}"#), Ok(Incoming::Request(ClientRequest::Sessions)));
}

#[test]
fn an_op_wins_over_a_request_if_it_can_be_read() {
    let cancel = Op::Cancel { session: "s".into(), turn: None };
    assert_eq!(decode(r#"{"op":"cancel","req":"sessions","session":"s"}"#), Ok(Incoming::Op(cancel)));
    for no_op in [r#"{"op":"cancel","req":"sessions"}"#, r#"{"op":"later","req":"sessions"}"#] {
        assert_eq!(decode(no_op), Ok(Incoming::Request(ClientRequest::Sessions)), "{no_op}");
    }
    let neither = r#"{"op":"cancel","req":"later","request_id":"r"}"#;
    assert_eq!(refused(neither), ("op `cancel`: missing field `session`".into(), Some("r".into())));
}

#[test]
fn what_is_nothing_is_named_with_its_request_id() {
    for (text, problem, request_id) in [
        ("", "not JSON: EOF while parsing a value at line 1 column 0", None),
        ("{\"op\":", "not JSON: EOF while parsing a value at line 1 column 6", None),
        ("null", "null is no message: an object with a string `op` or `req` is expected", None),
        ("true", "a boolean is no message: an object with a string `op` or `req` is expected", None),
        ("7", "a number is no message: an object with a string `op` or `req` is expected", None),
        ("\"cancel\"", "a string is no message: an object with a string `op` or `req` is expected", None),
        (
            r#"["cancel","s"]"#,
            "an array (there are no batches) is no message: an object with a string `op` or `req` is expected",
            None,
        ),
        (
            r#"[{"op":"cancel","session":"s"}]"#,
            "an array (there are no batches) is no message: an object with a string `op` or `req` is expected",
            None,
        ),
        (
            r#"{"request_id":"r"}"#,
            "neither an op nor a request: a string `op` or `req` is expected",
            Some("r"),
        ),
        (
            r#"{"op":1,"request_id":"r"}"#,
            "neither an op nor a request: a string `op` or `req` is expected",
            Some("r"),
        ),
        (r#"{"op":"later","request_id":"r"}"#, "unknown op `later`", Some("r")),
        (r#"{"op":"prompt","session":"s","request_id":"r"}"#, "op `prompt`: missing field `doc`", Some("r")),
        (r#"{"req":"later","request_id":"r"}"#, "unknown request `later`", Some("r")),
        (
            r#"{"req":"transcript","request_id":"r"}"#,
            "request `transcript`: missing field `session`",
            Some("r"),
        ),
        (r#"{"op":"later","request_id":7}"#, "unknown op `later`", None),
    ] {
        assert_eq!(refused(text), (problem.to_owned(), request_id.map(str::to_owned)), "{text}");
    }
    let (problem, _) = refused(r#"{"req":"transcript","session":"s","before":-1}"#);
    assert!(problem.starts_with("request `transcript`: invalid value"), "{problem}");
}

#[test]
fn an_unknown_word_of_an_enum_never_means_a_default() {
    for text in [
        r#"{"op":"set_execution_policy","session":"s","mode":"future_mode","sandbox":"read_only","request_id":"r"}"#,
        r#"{"op":"set_execution_policy","session":"s","mode":"ask","sandbox":"future_sandbox","request_id":"r"}"#,
        r#"{"op":"new_session","provider":"grok","cwd":".","use_worktree":true,"worktree_base":"main","request_id":"r"}"#,
        r#"{"op":"prompt","session":"s","doc":[{"type":"hologram"}],"request_id":"r"}"#,
    ] {
        let (problem, request_id) = refused(text);
        assert!(problem.contains("unknown variant"), "{problem}");
        assert_eq!(request_id.as_deref(), Some("r"));
    }
}

#[test]
fn what_cannot_be_read_is_answered_with_a_frame() {
    let frame = decode(r#"{"op":"later","request_id":"r"}"#).unwrap_err().frame();
    assert_eq!(
        encode(&frame).unwrap(),
        r#"{"kind":"error","message":"unknown op `later`","request_id":"r"}"#
    );
    let too_large = Undecodable::from(Problem::TooLarge { bytes: 9, limit: 8 }).frame();
    let text = r#"{"kind":"error","message":"the message has 9 bytes, more than the 8 that are taken"}"#;
    assert_eq!(encode(&too_large).unwrap(), text);
}

#[test]
fn a_frame_of_an_event_that_is_json_already_is_the_frame_of_the_event() {
    for text in EVENTS {
        let event: Event = serde_json::from_str(text).unwrap();
        let frame = event_frame(text);
        assert_eq!(frame, encode(&ServerFrame::Event { event }).unwrap());
        assert_eq!(frame.len(), text.len() + EVENT_FRAME_BYTES);
    }
}

#[test]
fn every_frame_is_written_as_documented() {
    let frames: [(Value, &str); 7] = [
        (json!({"kind": "sessions", "sessions": []}), r#"{"kind":"sessions","sessions":[]}"#),
        (json!({"kind": "sessions_error", "message": "m"}), r#"{"kind":"sessions_error","message":"m"}"#),
        (
            json!({"kind": "transcript", "session": "s", "entries": []}),
            r#"{"kind":"transcript","session":"s","entries":[],"next_before":null,"snapshot_through":null}"#,
        ),
        (
            json!({"kind": "transcript", "session": "s", "request_id": "r", "entries": [], "next_before": 41, "snapshot_through": 62}),
            r#"{"kind":"transcript","session":"s","request_id":"r","entries":[],"next_before":41,"snapshot_through":62}"#,
        ),
        (
            json!({"kind": "transcript_error", "session": "s", "message": "m", "request_id": null}),
            r#"{"kind":"transcript_error","session":"s","message":"m"}"#,
        ),
        (json!({"kind": "lagged", "missed": 3}), r#"{"kind":"lagged","missed":3}"#),
        (json!({"kind": "error", "message": "m"}), r#"{"kind":"error","message":"m"}"#),
    ];
    for (json, written) in frames {
        let frame: ServerFrame = serde_json::from_value(json).unwrap();
        assert_eq!(encode(&frame).unwrap(), written);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever a client sends there is an answer, and what is taken for a message survives being written.
    #[test]
    fn any_text_is_a_message_or_refused(
        text in prop_oneof![
            ".{0,40}",
            (prop::sample::select(OPS), any::<prop::sample::Index>(), ".{0,6}").prop_map(|(text, place, noise)| {
                let letters: Vec<char> = text.chars().collect();
                let at = place.index(letters.len());
                letters[..at].iter().copied().chain(noise.chars()).chain(letters[at..].iter().copied()).collect()
            }),
        ],
    ) {
        match decode(&text) {
            Ok(Incoming::Op(op)) => {
                let written = serde_json::to_string(&op).unwrap();
                prop_assert_eq!(decode(&written), Ok(Incoming::Op(op)));
            }
            Ok(Incoming::Request(request)) => {
                let written = serde_json::to_string(&request).unwrap();
                prop_assert_eq!(decode(&written), Ok(Incoming::Request(request)));
            }
            Err(refused) => prop_assert!(!refused.problem.to_string().is_empty()),
        }
    }
}
