//! Looks at frames without taking them apart: which method, whose id, which thread. What streams by is looked at by its
//! first and last bytes only.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use signalbox_rpc::frame::MAX_BATCH;

/// How every notification begins that our server writes.
const NOTIFICATION: &[u8] = br#"{"jsonrpc":"2.0","method":""#;
/// How the params of a thread's notification begin.
const THREAD: &[u8] = br#""params":{"threadId":""#;
/// Within so many bytes after its method a delta has its params, and after its thread the place, before its text.
const HEAD: usize = 256;

/// One message, with what matters of it uninterpreted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// An entry of a batch; nothing of it if it is no message.
    fn of(entry: &'a RawValue) -> Self {
        serde_json::from_str(entry.get()).unwrap_or_default()
    }

    /// The method, if there is one that is written plainly, as all methods are.
    pub(super) fn method(&self) -> Option<&'a str> {
        plain(self.method?.get())
    }

    /// Whether it is a request or a notification, however odd its method.
    pub(super) fn has_method(&self) -> bool {
        self.method.is_some()
    }

    /// The params, read as far as `T` wants to know.
    pub(super) fn params_as<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }

    /// The result, read as far as `T` wants to know.
    pub(super) fn result_as<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.result?.get()).ok()
    }
}

/// A frame: one message, a batch of them, or something that only the other side can make sense of.
#[derive(Debug)]
pub(super) enum Look<'a> {
    One(Envelope<'a>),
    Batch(Vec<Envelope<'a>>),
    Unclear,
}

/// Reads the outline of a frame.
pub(super) fn look(frame: &[u8]) -> Look<'_> {
    match frame.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(frame).map_or(Look::Unclear, Look::One),
        Some(b'[') => match serde_json::from_slice::<Entries<'_>>(frame) {
            Ok(Entries(entries)) => Look::Batch(entries.into_iter().map(Envelope::of).collect()),
            Err(_) => Look::Unclear,
        },
        _ => Look::Unclear,
    }
}

/// The entries of a batch that is not larger than the server takes.
struct Entries<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    if entries.len() == MAX_BATCH {
                        return Err(Error::invalid_length(MAX_BATCH + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_seq(Bounded)
    }
}

/// A piece of a text on its way, which changes nothing but the thread's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delta<'a> {
    pub(super) thread: &'a str,
    pub(super) cursor: Option<&'a str>,
}

/// Whether a frame of the server is a delta, by its bytes alone.
pub(super) fn delta(frame: &[u8]) -> Option<Delta<'_>> {
    let rest = frame.strip_prefix(NOTIFICATION)?;
    let end = memchr::memchr(b'"', rest)?;
    let method = &rest[..end];
    if !method.ends_with(b"elta") {
        return None;
    }
    let rest = after(&rest[end..], THREAD)?;
    let thread = until_quote(rest)?;
    let cursor = after(&rest[thread.len()..], br#""cursor":""#).and_then(until_quote);
    Some(Delta { thread, cursor })
}

/// What stands behind this in the head of these bytes.
fn after<'a>(bytes: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(&bytes[..bytes.len().min(HEAD)], what)?;
    Some(&bytes[at + what.len()..])
}

fn until_quote(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(&bytes[..memchr::memchr(b'"', bytes)?]).ok()
}

/// The id with which an answer of our server begins, by its first bytes alone.
pub(super) fn answered(frame: &[u8]) -> Option<&str> {
    let rest = frame.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let end = match rest.first()? {
        b'"' => {
            let mut at = 1;
            loop {
                at += memchr::memchr2(b'"', b'\\', &rest[at..])?;
                if rest[at] == b'"' {
                    break at + 1;
                }
                at += 2;
                if at >= rest.len() {
                    return None;
                }
            }
        }
        _ => memchr::memchr2(b',', b'}', rest)?,
    };
    let is_answer = rest[end..].starts_with(br#","result":"#) || rest[end..].starts_with(br#","error":"#);
    std::str::from_utf8(&rest[..end]).ok().filter(|_| is_answer)
}

/// The text of a JSON string without escapes.
pub(super) fn plain(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_is_known_by_its_first_bytes() {
        let frame = br#"{"jsonrpc":"2.0","method":"item/agentMessage/delta","emittedAtMs":5,"params":{"threadId":"t","turnId":"u","itemId":"i1","seq":7,"cursor":"e-9","delta":"\"cursor\":\"no\""}}"#;
        assert_eq!(delta(frame), Some(Delta { thread: "t", cursor: Some("e-9") }));
        let other = br#"{"jsonrpc":"2.0","method":"turn/started","params":{"threadId":"t"}}"#;
        assert_eq!(delta(other), None);
    }

    #[test]
    fn ids_of_answers_are_found_as_they_are_written() {
        for id in ["1", "-5", r#""a""#, r#""a\"b\\""#, "null"] {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"id":3}}}}"#);
            assert_eq!(answered(answer.as_bytes()), Some(id));
            let asked = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            assert_eq!(answered(asked.as_bytes()), None);
            let cut = &answer.as_bytes()[..22 + id.len()];
            assert_eq!(answered(cut), None);
        }
    }

    #[test]
    fn what_is_no_message_is_passed_on_unclear() {
        for frame in ["", "nonsense", "{", "[1,", "\u{feff}{}"] {
            assert!(matches!(look(frame.as_bytes()), Look::Unclear), "{frame}");
        }
        let Look::Batch(entries) = look(br#"[1,{"id":2,"method":"a\u002fb"}]"#) else { panic!("a batch") };
        assert!(!entries[0].has_method() && entries[1].has_method());
        assert_eq!(entries[1].method(), None);
    }
}
