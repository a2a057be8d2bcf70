//! Outgoing frames: serialized once, cloned cheaply, and safe for transports that frame by line.

use std::ops::Range;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::RpcError;

/// Which text a delta frame adds to: frames of the same key are pieces of one growing text.
///
/// `scope` and `item` are the caller's own numbers (for instance a thread and an item in it), `kind` tells apart
/// several texts of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeltaKey {
    /// What the item belongs to.
    pub scope: u128,
    /// The item.
    pub item: u64,
    /// Which of the item's texts.
    pub kind: u32,
}

/// A complete message for a client. Cloning shares the bytes, so one event is serialized once for all clients.
#[derive(Debug, Clone)]
pub struct Frame {
    pub(crate) method: &'static str,
    pub(crate) bytes: Bytes,
    pub(crate) class: Class,
    pub(crate) ends: Option<DeltaKey>,
}

/// What may happen to a frame when its client lags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Class {
    /// Never dropped; counts against the hard bound.
    Lifecycle,
    /// Never dropped or refused; bounded by its cause (a request that was read, an approval that is pending).
    Essential,
    /// Like `Essential`, and also counted as an answer: too many unread ones stop the reading.
    Answer,
    /// May be merged with its predecessor or dropped. `text` is the range of the JSON-escaped text in the frame.
    Delta { key: DeltaKey, text: Range<usize> },
}

impl Frame {
    /// A notification without further members beside `method` and `params`.
    ///
    /// # Errors
    /// Only where `params` itself refuses to be serialized.
    pub fn notification(method: &'static str, params: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::build(method, None, params).map(|bytes| Self::lifecycle(method, bytes))
    }

    /// A notification with `emittedAtMs` (Unix time in milliseconds) beside `method`.
    ///
    /// # Errors
    /// Only where `params` itself refuses to be serialized.
    pub fn notification_at(
        method: &'static str,
        emitted_at_ms: u64,
        params: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Self::build(method, Some(emitted_at_ms), params).map(|bytes| Self::lifecycle(method, bytes))
    }

    /// A notification that adds `text` to the text `key`. `params` must serialize as an object; the text becomes
    /// its last member, named `member`.
    ///
    /// Of two such frames that are merged, the newer one's other members hold and the texts are joined.
    ///
    /// # Errors
    /// Where `params` refuses to be serialized, or is no object.
    pub fn delta(
        method: &'static str,
        emitted_at_ms: Option<u64>,
        key: DeltaKey,
        params: &impl Serialize,
        member: &str,
        text: &str,
    ) -> Result<Self, serde_json::Error> {
        let mut bytes = Self::build(method, emitted_at_ms, params)?;
        if !bytes.ends_with(b"}}") {
            return Err(serde::ser::Error::custom("the params of a delta are not an object"));
        }
        bytes.truncate(bytes.len() - 2);
        if bytes.last() != Some(&b'{') {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, member)?;
        bytes.push(b':');
        let start = bytes.len() + 1;
        serde_json::to_writer(&mut bytes, text)?;
        let end = bytes.len() - 1;
        bytes.extend_from_slice(b"}}");
        Ok(Self { method, bytes: bytes.into(), class: Class::Delta { key, text: start..end }, ends: None })
    }

    /// A request of ours to the client. `id` is what the client answers with.
    ///
    /// # Errors
    /// Only where `params` itself refuses to be serialized.
    pub fn request(
        id: &str,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        #[derive(Serialize)]
        struct Request<'a, P> {
            jsonrpc: &'static str,
            id: &'a str,
            method: &'static str,
            params: &'a P,
        }
        let mut bytes = serde_json::to_vec(&Request { jsonrpc: "2.0", id, method, params })?;
        flatten_lines(&mut bytes);
        Ok(Self { method, bytes: bytes.into(), class: Class::Essential, ends: None })
    }

    /// A frame that is complete already; line breaks between its tokens become blanks.
    pub fn from_json(method: &'static str, json: String) -> Self {
        let mut bytes = json.into_bytes();
        flatten_lines(&mut bytes);
        Self::lifecycle(method, bytes)
    }

    /// Marks the frame as one that must reach a client even over the hard bound (a last word before silence).
    #[must_use]
    pub fn essential(mut self) -> Self {
        self.class = Class::Essential;
        self
    }

    /// Says that with this frame the text `key` is complete: the outbox forgets that it dropped pieces of it.
    #[must_use]
    pub fn ending(mut self, key: DeltaKey) -> Self {
        self.ends = Some(key);
        self
    }

    /// The method this frame carries.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The frame's JSON, without a line end.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The text that this frame adds to, if it is a delta.
    pub fn delta_key(&self) -> Option<DeltaKey> {
        match self.class {
            Class::Delta { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The text that is complete with this frame.
    pub fn ends(&self) -> Option<DeltaKey> {
        self.ends
    }

    /// An answer to a request that was read.
    pub(crate) fn answer(bytes: impl Into<Bytes>) -> Self {
        Self { method: "", bytes: bytes.into(), class: Class::Answer, ends: None }
    }

    fn lifecycle(method: &'static str, bytes: Vec<u8>) -> Self {
        Self { method, bytes: bytes.into(), class: Class::Lifecycle, ends: None }
    }

    fn build(
        method: &'static str,
        emitted_at_ms: Option<u64>,
        params: &impl Serialize,
    ) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        struct Notification<'a, P> {
            jsonrpc: &'static str,
            method: &'static str,
            #[serde(rename = "emittedAtMs", skip_serializing_if = "Option::is_none")]
            emitted_at_ms: Option<u64>,
            params: &'a P,
        }
        let mut bytes = serde_json::to_vec(&Notification { jsonrpc: "2.0", method, emitted_at_ms, params })?;
        flatten_lines(&mut bytes);
        Ok(bytes)
    }
}

/// Replaces line breaks by blanks. Valid JSON has raw ones only between tokens, where a passed-through value may
/// bring them in, and there a blank means the same.
pub(crate) fn flatten_lines(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &json[from..]) {
        json[from + at] = b' ';
        from += at + 1;
    }
}

/// Puts the client's own id into an answer that was made under an internal number.
pub(crate) fn splice_id(json: &RawValue, raw_id: &str) -> Vec<u8> {
    const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;
    let text = json.get();
    let Some(rest) = text.strip_prefix(HEAD) else {
        // jsonrpsee always writes this head; if that ever changes, the client still gets an answer.
        return RpcError::internal("an answer without the expected head").response(raw_id);
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut bytes = Vec::with_capacity(HEAD.len() + raw_id.len() + rest.len());
    bytes.extend_from_slice(HEAD.as_bytes());
    bytes.extend_from_slice(raw_id.as_bytes());
    bytes.extend_from_slice(rest.as_bytes());
    flatten_lines(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: DeltaKey = DeltaKey { scope: 1, item: 2, kind: 0 };

    fn text(frame: &Frame) -> &str {
        std::str::from_utf8(&frame.bytes).unwrap()
    }

    #[test]
    fn a_notification_carries_its_time_beside_the_method() {
        let frame = Frame::notification_at("turn/started", 17, &json!({"a": 1})).unwrap();
        assert_eq!(
            text(&frame),
            r#"{"jsonrpc":"2.0","method":"turn/started","emittedAtMs":17,"params":{"a":1}}"#
        );
        let frame = Frame::notification("turn/started", &json!({})).unwrap();
        assert_eq!(text(&frame), r#"{"jsonrpc":"2.0","method":"turn/started","params":{}}"#);
    }

    #[test]
    fn a_delta_knows_where_its_escaped_text_is() {
        let frame = Frame::delta("x/delta", Some(1), KEY, &json!({"id": "i1"}), "delta", "a\n\"b").unwrap();
        assert_eq!(
            text(&frame),
            r#"{"jsonrpc":"2.0","method":"x/delta","emittedAtMs":1,"params":{"id":"i1","delta":"a\n\"b"}}"#
        );
        let Class::Delta { text: range, .. } = frame.class.clone() else { panic!("{frame:?}") };
        assert_eq!(&text(&frame)[range], r#"a\n\"b"#);
        let bare = Frame::delta("x/delta", None, KEY, &json!({}), "delta", "").unwrap();
        assert_eq!(text(&bare), r#"{"jsonrpc":"2.0","method":"x/delta","params":{"delta":""}}"#);
        assert!(Frame::delta("x/delta", None, KEY, &json!([1]), "delta", "").is_err());
    }

    #[test]
    fn passed_through_line_breaks_become_blanks() {
        let raw: Box<RawValue> = serde_json::from_str("{\n\"a\":\r\n\"b\\n\"}").unwrap();
        let frame = Frame::notification("n", &raw).unwrap();
        assert_eq!(text(&frame), r#"{"jsonrpc":"2.0","method":"n","params":{ "a":  "b\n"}}"#);
    }

    #[test]
    fn the_clients_id_is_put_back_verbatim() {
        let json = RawValue::from_string(r#"{"jsonrpc":"2.0","id":12,"result":12}"#.into()).unwrap();
        assert_eq!(splice_id(&json, "-5"), br#"{"jsonrpc":"2.0","id":-5,"result":12}"#);
        assert_eq!(splice_id(&json, r#""\u0061""#), br#"{"jsonrpc":"2.0","id":"\u0061","result":12}"#);
    }
}
