//! The fast path for what agents send most: one chunk of text, read without building a JSON tree.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;

use super::fields::ID_BYTES;

/// Which stream a chunk of text belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    Message,
    Thought,
}

/// A chunk of text, borrowed from its line where it has no escapes.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) session: Cow<'a, str>,
    pub(crate) stream: Stream,
    pub(crate) message_id: Option<Cow<'a, str>>,
    pub(crate) text: Cow<'a, str>,
}

/// Longer lines take the general path; at that length the difference does not matter.
const MAX_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    method: Text<'a>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "sessionId")]
    session: Text<'a>,
    #[serde(borrow)]
    update: Update<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Text<'a>,
    #[serde(borrow, rename = "messageId", default)]
    message_id: Option<Text<'a>>,
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
}

/// The chunk of text that this line is, if it is one of the usual shape. Everything else goes the general way, empty
/// chunks too, because their `_meta` may say something.
pub(crate) fn chunk(line: &[u8]) -> Option<Chunk<'_>> {
    if line.len() > MAX_BYTES || memmem::find(line, b"_chunk\"").is_none() {
        return None;
    }
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    if line.method.0 != "session/update" || line.params.update.content.kind.0 != "text" {
        return None;
    }
    let stream = match &*line.params.update.kind.0 {
        "agent_message_chunk" => Stream::Message,
        "agent_thought_chunk" => Stream::Thought,
        _ => return None,
    };
    let text = line.params.update.content.text.0;
    if text.is_empty() {
        return None;
    }
    Some(Chunk {
        session: line.params.session.0,
        stream,
        message_id: line
            .params
            .update
            .message_id
            .map(|id| id.0)
            .filter(|id| !id.is_empty() && id.len() <= ID_BYTES),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_chunk_is_read_without_copying() {
        let line = br#"{"jsonrpc":"2.0","method":"session/update","params":{"_meta":{"x":[1]},"sessionId":"s","update":{"content":{"text":"word","type":"text","annotations":null},"messageId":"m","sessionUpdate":"agent_message_chunk"}}}"#;
        let chunk = chunk(line).unwrap();
        assert!(
            matches!(chunk.text, Cow::Borrowed("word"))
                && matches!(chunk.message_id, Some(Cow::Borrowed("m")))
        );
        assert_eq!((chunk.stream, &*chunk.session), (Stream::Message, "s"));
    }

    #[test]
    fn escapes_are_resolved() {
        let line = br#"{"method":"session\/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","messageId":null,"content":{"type":"text","text":"a\n\u00e9"}}}}"#;
        let chunk = chunk(line).unwrap();
        assert_eq!((chunk.stream, &*chunk.text, chunk.message_id), (Stream::Thought, "a\né", None));
    }

    #[test]
    fn everything_else_goes_the_general_way() {
        for update in [
            r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"_meta":{"usage":{}}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","messageId":5,"content":{"type":"text","text":"a"}}"#,
            r#"{"sessionUpdate":"plan","entries":[]}"#,
        ] {
            let line =
                format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
            assert!(chunk(line.as_bytes()).is_none(), "{update}");
        }
    }
}
