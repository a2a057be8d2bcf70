//! The remote framing as text: what a client sends becomes an op or a request, and frames become text. Pure; no sockets.

use serde_json::{Map, Value};
use thiserror::Error;

use super::decode::{self, DecodeError};
use super::frame::{ClientRequest, ServerFrame};
use super::op::Op;

/// What a client may send: one JSON object a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one at a time a connection, and moved straight on")]
pub enum Incoming {
    Op(Op),
    Request(ClientRequest),
}

/// A message that is neither. It is answered with an `error` frame, and the connection goes on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct Undecodable {
    pub problem: Problem,
    /// The message's `request_id`, if that much of it could be read.
    pub request_id: Option<String>,
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Longer than the receiver takes.
    #[error("the message has {bytes} bytes, more than the {limit} that are taken")]
    TooLarge { bytes: usize, limit: usize },
    /// A frame of a kind that carries no text.
    #[error("only text frames are read")]
    NotText,
    /// Not JSON; the message says where it broke.
    #[error("not JSON: {message}")]
    Json { message: String },
    /// JSON of another kind: a batch, a string, a number.
    #[error("{found} is no message: an object with a string `op` or `req` is expected")]
    NotAnObject { found: &'static str },
    /// An object without a string `op` and without a string `req`.
    #[error("neither an op nor a request: a string `op` or `req` is expected")]
    Neither,
    /// An op that this server does not know, or whose fields do not fit.
    #[error(transparent)]
    Op(DecodeError),
    /// A `req` this server does not know.
    #[error("unknown request `{req}`")]
    UnknownRequest { req: String },
    /// A known request whose fields do not fit.
    #[error("request `{req}`: {message}")]
    Request { req: String, message: String },
}

impl Undecodable {
    /// The frame that says so.
    #[must_use]
    pub fn frame(self) -> ServerFrame {
        ServerFrame::Error { message: self.problem.to_string(), request_id: self.request_id }
    }
}

impl From<Problem> for Undecodable {
    /// Of a message that could not be read at all.
    fn from(problem: Problem) -> Self {
        Self { problem, request_id: None }
    }
}

/// Reads one message. One that has both `op` and `req` is the op if that part can be read, else the request.
///
/// # Errors
/// See [`Problem`].
pub fn decode(text: &str) -> Result<Incoming, Undecodable> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| Problem::Json { message: error.to_string() })?;
    let object = match value {
        Value::Object(object) => object,
        other => return Err(Problem::NotAnObject { found: kind_of(&other) }.into()),
    };
    let word = |key| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let request_id = word("request_id");
    let read = match (word("op"), word("req")) {
        (Some(op), None) => read_op(op, object).map(Incoming::Op),
        (None, Some(req)) => read_request(req, object).map(Incoming::Request),
        (Some(op), Some(req)) => match read_op(op, object.clone()) {
            Ok(op) => Ok(Incoming::Op(op)),
            Err(of_op) => read_request(req, object).map(Incoming::Request).map_err(|_| of_op),
        },
        (None, None) => Err(Problem::Neither),
    };
    read.map_err(|problem| Undecodable { problem, request_id })
}

fn read_op(op: String, object: Map<String, Value>) -> Result<Op, Problem> {
    decode::from_value(op, Value::Object(object)).map_err(Problem::Op)
}

fn read_request(req: String, object: Map<String, Value>) -> Result<ClientRequest, Problem> {
    serde_json::from_value(Value::Object(object)).map_err(|error| match decode::fields(&req, &error) {
        Some(message) => Problem::Request { req, message },
        None => Problem::UnknownRequest { req },
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array (there are no batches)",
        Value::Object(_) => "an object",
    }
}

/// Writes a frame.
///
/// # Errors
/// A value in it has no JSON form, which its types rule out.
pub fn encode(frame: &ServerFrame) -> Result<String, serde_json::Error> {
    serde_json::to_string(frame)
}

const EVENT: (&str, &str) = (r#"{"kind":"event","event":"#, "}");

/// The bytes that [`event_frame`] puts around an event.
pub const EVENT_FRAME_BYTES: usize = EVENT.0.len() + EVENT.1.len();

/// The frame of an event that is JSON already, so that one serialization serves all connections.
#[must_use]
pub fn event_frame(event: &str) -> String {
    [EVENT.0, event, EVENT.1].concat()
}
