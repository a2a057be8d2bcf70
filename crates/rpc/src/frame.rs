//! Incoming frames: one pass from bytes to call, notification, response, batch or a reasoned refusal.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::RpcError;

/// Most entries that a batch may have.
pub const MAX_BATCH: usize = 64;

/// Longest `traceparent` and `tracestate` that are kept, in bytes; longer ones are ignored, as W3C advises.
const MAX_TRACE_BYTES: usize = 512;

/// What one frame holds.
#[derive(Debug)]
pub enum Inbound<'a> {
    /// Nothing but white space; never answered.
    Blank,
    /// A single message.
    One(Message<'a>),
    /// 1 to [`MAX_BATCH`] messages, answered together.
    Batch(Vec<Message<'a>>),
}

/// One message of a frame.
#[derive(Debug)]
pub enum Message<'a> {
    /// A request that wants an answer.
    Call(Call<'a>),
    /// A request without an id; never answered.
    Notification(Notice<'a>),
    /// The client's answer to a request of ours; never answered.
    Response(Response<'a>),
    /// None of these; answered with the error.
    Invalid(Invalid<'a>),
}

/// A request that wants an answer.
#[derive(Debug)]
pub struct Call<'a> {
    /// The id exactly as the client wrote it (`7`, `-1`, `"a\u0062"`), to be put back into the answer.
    pub raw_id: &'a str,
    /// The method's name, escapes resolved (`thread\/start` is `thread/start`).
    pub method: Cow<'a, str>,
    /// The parameters, not yet looked at.
    pub params: Option<&'a RawValue>,
    /// The caller's span.
    pub trace: Option<TraceContext>,
}

/// A request without an id.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The method's name, escapes resolved.
    pub method: Cow<'a, str>,
    /// The parameters, not yet looked at.
    pub params: Option<&'a RawValue>,
    /// The caller's span.
    pub trace: Option<TraceContext>,
}

/// An answer of the client to a request of ours.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id we chose, or `None` where the client sent null, a number or nothing.
    pub id: Option<Cow<'a, str>>,
    /// `Ok` holds the result (`null` counts as one), `Err` the error.
    pub outcome: Result<&'a RawValue, ClientError>,
}

/// A frame that is answered with an error and nothing else.
#[derive(Debug)]
pub struct Invalid<'a> {
    /// The id as the client wrote it, where it is a usable one; otherwise the answer has `null`.
    pub raw_id: Option<&'a str>,
    /// What is wrong.
    pub error: RpcError,
}

/// An error that a client answered; read leniently, because clients are.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct ClientError {
    /// The client's code, 0 where it gave none.
    pub code: i64,
    /// The client's message, empty where it gave none.
    pub message: String,
    /// The client's data.
    pub data: Option<serde_json::Value>,
}

/// W3C trace context of a request: the caller's span, which becomes the parent of ours.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TraceContext {
    /// `traceparent`, as sent.
    pub traceparent: String,
    /// `tracestate`, as sent.
    #[serde(default)]
    pub tracestate: Option<String>,
}

/// Reads one frame: a line without its end, or a WebSocket message.
///
/// Never fails and never recurses: what cannot be understood is an [`Invalid`], nesting of any depth is skipped
/// iteratively. A byte-order mark at the start is tolerated.
pub fn parse(frame: &[u8]) -> Inbound<'_> {
    let frame = frame.strip_prefix(b"\xef\xbb\xbf").unwrap_or(frame).trim_ascii();
    if frame.is_empty() {
        return Inbound::Blank;
    }
    let text = match std::str::from_utf8(frame) {
        Ok(text) => text,
        Err(error) => return refused(None, RpcError::parse_error(error)),
    };
    match text.as_bytes().first() {
        Some(b'{') => Inbound::One(message(text)),
        Some(b'[') => batch(text),
        _ => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => refused(None, RpcError::invalid_request("neither an object nor a batch")),
            Err(error) => refused(None, RpcError::parse_error(error)),
        },
    }
}

fn batch(text: &str) -> Inbound<'_> {
    let Entries { first, count } = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => return refused(None, RpcError::parse_error(error)),
    };
    match count {
        0 => refused(None, RpcError::invalid_request("the batch is empty")),
        1..=MAX_BATCH => Inbound::Batch(first.into_iter().map(|entry| message(entry.get())).collect()),
        n => refused(None, RpcError::invalid_request(format!("{n} entries in a batch, {MAX_BATCH} allowed"))),
    }
}

/// The entries of a batch. Those past the limit are counted only, so that a frame of millions costs nothing more.
struct Entries<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut entries = Entries { first: Vec::new(), count: 0 };
        while entries.count < MAX_BATCH {
            let Some(entry) = seq.next_element()? else { return Ok(entries) };
            entries.first.push(entry);
            entries.count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            entries.count += 1;
        }
        Ok(entries)
    }
}

fn message(text: &str) -> Message<'_> {
    if !text.starts_with('{') {
        return invalid(None, RpcError::invalid_request("not an object"));
    }
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => classify(envelope),
        Err(error) => invalid(None, RpcError::parse_error(error)),
    }
}

fn classify(envelope: Envelope<'_>) -> Message<'_> {
    let Envelope { jsonrpc, id, method, params, result, error, trace, duplicate } = envelope;
    let raw_id = id.map(|id| usable_id(id.get()));
    let answer_to = raw_id.flatten();
    if method.is_none() && (result.is_some() || error.is_some()) {
        // Never answered, however odd: two peers that answer each other's errors would not stop.
        return Message::Response(response(id, result, error));
    }
    if let Some(member) = duplicate {
        let id = if member == "id" { None } else { answer_to };
        return invalid(id, RpcError::invalid_request(format!("the member {member} is there twice")));
    }
    if jsonrpc.is_some_and(|version| text_of(version).as_deref() != Some("2.0")) {
        return invalid(answer_to, RpcError::invalid_request("jsonrpc is not \"2.0\""));
    }
    let Some(method) = method else {
        return invalid(answer_to, RpcError::invalid_request("neither a request nor a response"));
    };
    let Some(method) = text_of(method) else {
        return invalid(answer_to, RpcError::invalid_request("method is not a string"));
    };
    let trace = trace.and_then(trace_context);
    match raw_id {
        None => Message::Notification(Notice { method, params, trace }),
        Some(Some(raw_id)) => Message::Call(Call { raw_id, method, params, trace }),
        Some(None) => {
            invalid(None, RpcError::invalid_request("id is neither a string nor a 64-bit signed integer"))
        }
    }
}

/// The raw id if it is a string or an integer in the signed 64-bit range.
fn usable_id(raw: &str) -> Option<&str> {
    (raw.starts_with('"') || raw.parse::<i64>().is_ok()).then_some(raw)
}

/// Whether two raw ids are the same id, although they may be written differently (`"a"`, `"\u0061"`).
pub(crate) fn same_id(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    if one.starts_with('"') != other.starts_with('"') {
        return false;
    }
    if one.starts_with('"') {
        let decoded = |raw| serde_json::from_str::<String>(raw).ok();
        return (one.contains('\\') || other.contains('\\'))
            && matches!((decoded(one), decoded(other)), (Some(one), Some(other)) if one == other);
    }
    matches!((one.parse::<i64>(), other.parse::<i64>()), (Ok(one), Ok(other)) if one == other)
}

fn response<'a>(
    id: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
) -> Response<'a> {
    // `error: null` beside a result is how some libraries say success.
    let outcome = match (result, error) {
        (Some(result), None) => Ok(result),
        (Some(result), Some(error)) if error.get() == "null" => Ok(result),
        (_, error) => Err(client_error(error)),
    };
    Response { id: id.and_then(text_of), outcome }
}

fn client_error(error: Option<&RawValue>) -> ClientError {
    let value = error.and_then(|error| serde_json::from_str::<serde_json::Value>(error.get()).ok());
    let member = |name: &str| value.as_ref().and_then(|value| value.get(name));
    ClientError {
        code: member("code").and_then(serde_json::Value::as_i64).unwrap_or(0),
        message: member("message").and_then(|message| message.as_str()).unwrap_or_default().to_owned(),
        data: member("data").cloned(),
    }
}

fn trace_context(raw: &RawValue) -> Option<TraceContext> {
    let trace: TraceContext = serde_json::from_str(raw.get()).ok()?;
    let short = |text: &str| text.len() <= MAX_TRACE_BYTES;
    (short(&trace.traceparent) && trace.tracestate.as_deref().is_none_or(short)).then_some(trace)
}

/// The string that a raw JSON value is, borrowed where it has no escapes.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let raw = raw.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

fn invalid(raw_id: Option<&str>, error: RpcError) -> Message<'_> {
    Message::Invalid(Invalid { raw_id, error })
}

fn refused(raw_id: Option<&str>, error: RpcError) -> Inbound<'_> {
    Inbound::One(invalid(raw_id, error))
}

/// The members of a message, uninterpreted. A null is a member that is there.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    trace: Option<&'a RawValue>,
    /// A member that was there twice. Readers disagree about which one counts, so such a request is refused.
    duplicate: Option<&'static str>,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key::<Member>()? {
            let (slot, name) = match member {
                Member::Jsonrpc => (&mut envelope.jsonrpc, "jsonrpc"),
                Member::Id => (&mut envelope.id, "id"),
                Member::Method => (&mut envelope.method, "method"),
                Member::Params => (&mut envelope.params, "params"),
                Member::Result => (&mut envelope.result, "result"),
                Member::Error => (&mut envelope.error, "error"),
                Member::Trace => (&mut envelope.trace, "trace"),
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                envelope.duplicate = Some(name);
            }
        }
        Ok(envelope)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Trace,
    #[serde(other)]
    Other,
}
