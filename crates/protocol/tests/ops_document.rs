//! The frames that `docs/op-event.md` shows are frames, and its tables leave nothing out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use std::collections::BTreeSet;

use serde_json::Value;
use signalbox_protocol::ops::{ServerFrame, decode};

use common::ops::{EVENTS, OPS};

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/op-event.md")).unwrap()
}

#[test]
fn every_frame_in_the_document_is_one() {
    let (mut sent, mut received) = (0, 0);
    for line in document().lines() {
        if let Some(text) = line.strip_prefix("→ ") {
            sent += 1;
            // The one that is shown to be refused.
            assert_eq!(decode(text).is_err(), text.contains("dance"), "{text}");
        }
        if let Some(text) = line.strip_prefix("← ") {
            received += 1;
            let frame: ServerFrame =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
            assert_eq!(serde_json::to_string(&frame).unwrap(), text, "written as the server writes it");
        }
    }
    assert!(sent > 4 && received > 10, "{sent} and {received}");
}

#[test]
fn every_op_and_event_is_in_the_document() {
    let document = document();
    let names = |examples: &[&str], tag: &str| -> BTreeSet<String> {
        let name =
            |text: &&str| serde_json::from_str::<Value>(text).unwrap()[tag].as_str().unwrap().to_owned();
        examples.iter().map(name).collect()
    };
    for name in names(OPS, "op").iter().chain(&names(EVENTS, "event")) {
        assert!(document.contains(&format!("`{name}`")), "{name} is not in docs/op-event.md");
    }
}
