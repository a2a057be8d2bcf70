//! The op decoder under texts that no client should send.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use proptest::prelude::*;
use signalbox_protocol::ops::{Op, decode_op};

use common::ops::OPS;

/// What replaces a piece of a good text.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("null".to_owned()),
        Just("-1".to_owned()),
        Just("1e400".to_owned()),
        Just("[[".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        Just(",\"op\":\"cancel\"".to_owned()),
        ".{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is done to a good text, the decoder answers; and what it takes for an op survives being written.
    #[test]
    fn a_damaged_op_is_refused_or_is_an_op(
        text in prop::sample::select(OPS),
        place in any::<prop::sample::Index>(),
        length in 0_usize..12,
        noise in noise(),
    ) {
        let letters: Vec<char> = text.chars().collect();
        let from = place.index(letters.len());
        let to = (from + length).min(letters.len());
        let damaged: String = letters[..from].iter().copied().chain(noise.chars()).chain(letters[to..].iter().copied()).collect();
        if let Ok(op) = decode_op(&damaged) {
            let written = serde_json::to_string(&op).unwrap();
            prop_assert_eq!(decode_op(&written), Ok(op));
        }
    }
}

#[test]
fn a_deep_text_is_refused() {
    let deep = format!(r#"{{"op":"prompt","session":"s","doc":{}"#, "[".repeat(100_000));
    assert!(decode_op(&deep).is_err());
    assert!(serde_json::from_str::<Op>(&deep).is_err());
}
