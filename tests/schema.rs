//! The committed schema is what the types say.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "runs the program under test"
)]

use std::process::Command;

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/signalbox.schema.json");
/// What renews it.
const RENEW: &str = "cargo run -q -p signalbox -- schema --out schema";

fn printed() -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_signalbox")).args(["schema", "--print"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn the_committed_schema_is_fresh() {
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    let now = printed();
    if committed != now {
        panic!(
            "schema/signalbox.schema.json is stale:\n{}\nTo renew it: {RENEW}",
            difference(&committed, &now)
        );
    }
}

#[test]
fn the_committed_open_rpc_document_is_fresh() {
    let made = tempfile::tempdir().unwrap();
    let run =
        Command::new(env!("CARGO_BIN_EXE_signalbox")).args(["schema", "--out"]).arg(made.path()).output();
    assert!(run.unwrap().status.success());
    for entry in std::fs::read_dir(made.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let now = std::fs::read_to_string(made.path().join(&name)).unwrap();
        let committed = std::fs::read_to_string(format!("{FOLDER}/{name}")).unwrap_or_default();
        if committed != now {
            panic!("schema/{name} is stale:\n{}\nTo renew it: {RENEW}", difference(&committed, &now));
        }
    }
}

/// The first lines that differ, with the place in the file.
fn difference(committed: &str, now: &str) -> String {
    const MOST: usize = 8;
    let (old, new): (Vec<&str>, Vec<&str>) = (committed.lines().collect(), now.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let same_end =
        old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..old.len() - same_end], &new[same..new.len() - same_end]);
    let mut lines = vec![format!("from line {}:", same + 1)];
    for (mark, changed) in [('-', old), ('+', new)] {
        lines.extend(changed.iter().take(MOST).map(|line| format!("{mark} {line}")));
        if changed.len() > MOST {
            lines.push(format!("{mark} … {} more lines", changed.len() - MOST));
        }
    }
    lines.join("\n")
}

#[test]
fn a_difference_is_told_in_few_lines() {
    assert_eq!(difference("a\nb\nc\n", "a\nB\nc\n"), "from line 2:\n- b\n+ B");
    assert_eq!(difference("a\nc\n", "a\nb\nc\n"), "from line 2:\n+ b");
    let long: String = (0..20).map(|n| format!("{n}\n")).collect();
    assert!(difference("", &long).ends_with("+ … 12 more lines"));
}

/// A test that reads what the server writes without the clients of the testkit, which check every frame, must do so itself.
#[test]
fn no_test_reads_frames_past_the_checks() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    let mut readers = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("\"app-server\"") && text.contains("stdout.take()") {
            readers += 1;
            assert!(text.contains("Schemas::get()"), "{} does not check the frames it reads", file.display());
        }
    }
    assert!(readers > 0, "nobody does; then this test has no purpose");
}

#[test]
fn every_message_says_where_it_belongs() {
    let schema: Value = serde_json::from_str(&printed()).unwrap();
    let of = |union: &str| schema["$defs"][union]["oneOf"].as_array().unwrap().clone();
    for message in of("ClientRequestMessage") {
        let method = message["x-method"].as_str().unwrap();
        for key in ["x-lane", "x-role", "x-stability", "x-side", "x-scope"] {
            assert!(message[key].is_string(), "{method} has no {key}");
        }
        assert!(message["x-result"]["$ref"].is_string(), "{method} has no result");
        assert!(
            message["description"].as_str().is_some_and(|text| text.ends_with('.')),
            "{method} is not described"
        );
    }
    for message in of("ServerNotificationMessage").into_iter().chain(of("ServerRequestMessage")) {
        assert_eq!(message["x-side"], "server");
        assert_eq!(message["x-stability"], "stable");
    }
    for name in ["Op", "Event", "ErrorObject", "ThreadItem"] {
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
    jsonschema::meta::validate(&schema).unwrap();
}
