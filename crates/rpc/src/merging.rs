//! Deltas of one text that become one frame: the texts are joined, all else is the newest one's.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::outgoing::{Class, DeltaKey, Frame};

/// A delta that others may be added to before it is sent.
#[derive(Debug)]
pub struct Merging {
    key: DeltaKey,
    method: &'static str,
    pieces: Pieces,
}

#[derive(Debug)]
enum Pieces {
    One { frame: Bytes, text: Range<usize> },
    Many { head: Bytes, text: BytesMut, tail: Bytes },
}

impl Merging {
    /// Begins with this frame; `None` if it is no delta.
    pub fn new(frame: &Frame) -> Option<Self> {
        let Class::Delta { key, text } = &frame.class else { return None };
        let pieces = Pieces::One { frame: frame.bytes.clone(), text: text.clone() };
        Some(Self { key: *key, method: frame.method, pieces })
    }

    /// The text it adds to.
    pub fn key(&self) -> DeltaKey {
        self.key
    }

    /// Bytes of its text, as JSON.
    pub fn text_bytes(&self) -> usize {
        match &self.pieces {
            Pieces::One { text, .. } => text.len(),
            Pieces::Many { text, .. } => text.len(),
        }
    }

    /// Adds a later delta of the same text; false if it is none.
    pub fn add(&mut self, later: &Frame) -> bool {
        let Class::Delta { key, text } = &later.class else { return false };
        if *key != self.key {
            return false;
        }
        self.extend(&later.bytes, text);
        true
    }

    /// Adds the text at this place of a later frame.
    pub(crate) fn extend(&mut self, later: &Bytes, text: &Range<usize>) {
        let (new_head, new_tail) = (later.slice(..text.start), later.slice(text.end..));
        let added = &later[text.clone()];
        match &mut self.pieces {
            Pieces::One { frame, text: first } => {
                let mut joined = BytesMut::with_capacity((first.len() + added.len()) * 2);
                joined.extend_from_slice(&frame[first.clone()]);
                joined.extend_from_slice(added);
                self.pieces = Pieces::Many { head: new_head, text: joined, tail: new_tail };
            }
            Pieces::Many { head, text, tail } => {
                text.extend_from_slice(added);
                (*head, *tail) = (new_head, new_tail);
            }
        }
    }

    /// The one frame.
    pub fn into_frame(self) -> Frame {
        let (bytes, text) = match self.pieces {
            Pieces::One { frame, text } => (frame, text),
            Pieces::Many { head, text, tail } => {
                let range = head.len()..head.len() + text.len();
                let mut bytes = BytesMut::with_capacity(range.end + tail.len());
                bytes.extend_from_slice(&head);
                bytes.extend_from_slice(&text);
                bytes.extend_from_slice(&tail);
                (bytes.freeze(), range)
            }
        };
        Frame { method: self.method, bytes, class: Class::Delta { key: self.key, text }, ends: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEY: DeltaKey = DeltaKey { scope: 1, item: 2, kind: 0 };

    fn delta(key: DeltaKey, cursor: u64, text: &str) -> Frame {
        Frame::delta("x/delta", Some(cursor), key, &json!({ "cursor": cursor }), "delta", text).unwrap()
    }

    #[test]
    fn texts_are_joined_and_the_newest_ones_place_holds() {
        let mut merging = Merging::new(&delta(KEY, 1, "one \"")).unwrap();
        assert!(merging.add(&delta(KEY, 2, "\n two")));
        assert!(!merging.add(&delta(DeltaKey { item: 3, ..KEY }, 3, "other")));
        assert!(merging.add(&delta(KEY, 4, " three")));
        let frame = merging.into_frame();
        assert_eq!(frame.delta_key(), Some(KEY));
        let sent: Value = serde_json::from_slice(frame.bytes()).unwrap();
        assert_eq!(sent["params"], json!({ "cursor": 4, "delta": "one \"\n two three" }));
        assert_eq!(sent["emittedAtMs"], 4);
        // What was merged can be merged again.
        let mut again = Merging::new(&frame).unwrap();
        assert!(again.add(&delta(KEY, 5, "!")));
        let sent: Value = serde_json::from_slice(again.into_frame().bytes()).unwrap();
        assert_eq!(sent["params"]["delta"], "one \"\n two three!");
    }

    #[test]
    fn what_is_no_delta_does_not_merge() {
        let frame = Frame::notification("n", &json!({})).unwrap();
        assert!(Merging::new(&frame).is_none());
    }
}
