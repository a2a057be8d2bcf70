//! What a line from an agent is: a request, a notification, an answer to us, or no ACP at all.

use serde_json::Value;

use super::fields::{MESSAGE_BYTES, Object, cut, into_object, take_text};

/// A line from an agent.
#[derive(Debug)]
pub(crate) enum Line {
    /// Wants an answer; the id goes back as it came, `null` included.
    Request { id: Value, method: String, params: Object },
    /// Wants none.
    Notification { method: String, params: Object },
    /// The answer to one of our requests.
    Answer { id: u64, result: Result<Value, RpcError> },
    /// Not for us: log text, a bare scalar, an object of another protocol, an answer to nothing. Never answered, because
    /// some agents die of an answer they do not expect.
    Stray,
}

/// An error that an agent answered with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// Shorter lines are parsed without a look at them first: whatever they hold, it is little.
const GIANT_BYTES: usize = 512 << 10;
/// Values in one message. In memory each takes thirty times the two bytes that it may have on the line, or more; real
/// giants are long texts.
pub(crate) const MAX_VALUES: usize = 500_000;

/// Whether parsing this line would make more values of it than [`MAX_VALUES`].
pub(crate) fn has_too_many_values(line: &[u8]) -> bool {
    if line.len() < GIANT_BYTES {
        return false;
    }
    let (mut values, mut at) = (0, 0);
    // What separates values stands outside of texts. In a text only its end and escapes matter.
    while let Some(byte) = line.get(at) {
        at += 1;
        match byte {
            b',' | b'[' | b'{' => values += 1,
            b'"' => {
                while let Some(found) = memchr::memchr2(b'"', b'\\', line.get(at..).unwrap_or_default()) {
                    at += found + 1;
                    if line.get(at - 1) == Some(&b'"') {
                        break;
                    }
                    at += 1;
                }
            }
            _ => {}
        }
    }
    values > MAX_VALUES
}

/// Longest text taken over from an error's `data`.
const DATA_BYTES: usize = 2048;

/// Reads one line. `jsonrpc` may be missing; invalid UTF-8 is replaced rather than refused.
pub(crate) fn line(bytes: &[u8]) -> Line {
    let parsed = serde_json::from_slice(bytes).or_else(|error| {
        if std::str::from_utf8(bytes).is_ok() {
            Err(error)
        } else {
            serde_json::from_str(&String::from_utf8_lossy(bytes))
        }
    });
    let Ok(Value::Object(mut object)) = parsed else { return Line::Stray };
    let id = object.get_mut("id").map(Value::take);
    if let Some(method) = take_text(&mut object, "method") {
        let params = object.get_mut("params").map(Value::take).and_then(|params| into_object(params).ok());
        let params = params.unwrap_or_default();
        return match id {
            Some(id) => Line::Request { id, method, params },
            None => Line::Notification { method, params },
        };
    }
    let Some(id) = id.as_ref().and_then(own_id) else { return Line::Stray };
    if let Some(error) = object.get_mut("error").map(Value::take).filter(|error| !error.is_null()) {
        return Line::Answer { id, result: Err(rpc_error(error)) };
    }
    match object.get_mut("result") {
        Some(result) => Line::Answer { id, result: Ok(result.take()) },
        None => Line::Stray,
    }
}

/// Our ids are numbers; an agent that gives them back as text means the same.
fn own_id(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// An error object, read tolerantly.
pub(crate) fn rpc_error(error: Value) -> RpcError {
    let Ok(mut error) = into_object(error) else {
        return RpcError { code: -32603, message: "an error without explanation".to_owned() };
    };
    let code = error.get("code").and_then(Value::as_i64).unwrap_or(-32603);
    let mut message = take_text(&mut error, "message").unwrap_or_else(|| format!("error {code}"));
    message = cut(message, MESSAGE_BYTES);
    let data = match error.get("data") {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Object(data)) => {
            ["details", "message", "error", "reason"].iter().find_map(|key| data.get(*key)?.as_str())
        }
        _ => None,
    };
    if let Some(data) = data.filter(|data| !data.is_empty() && !message.contains(*data)) {
        message.push_str(": ");
        // One byte more shows that there is more.
        message.push_str(&cut(clip(data, DATA_BYTES + 4).to_owned(), DATA_BYTES));
    }
    RpcError { code, message }
}

/// The beginning of a text, cut at a character.
fn clip(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_their_id_as_it_came() {
        for id in ["0", "\"a-b\"", "null", "-3", "1.5"] {
            let text = format!(r#"{{"id":{id},"method":"x\/y","params":[1]}}"#);
            let Line::Request { id: got, method, params } = line(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((got.to_string().as_str(), method.as_str(), params.len()), (id, "x/y", 0));
        }
    }

    #[test]
    fn answers_need_no_version_and_may_give_the_id_as_text() {
        assert!(matches!(
            line(br#"{"id":7,"result":null}"#),
            Line::Answer { id: 7, result: Ok(Value::Null) }
        ));
        assert!(matches!(line(br#"{"id":"7","result":{}}"#), Line::Answer { id: 7, result: Ok(_) }));
        let Line::Answer { result: Err(error), .. } = line(
            br#"{"id":7,"error":{"code":-32603,"message":"Internal error","data":{"details":"no model"}}}"#,
        ) else {
            panic!()
        };
        assert_eq!(error, RpcError { code: -32603, message: "Internal error: no model".into() });
    }

    #[test]
    fn what_is_not_for_us_is_stray() {
        for text in [
            "",
            "hello",
            "42",
            "[]",
            "{}",
            r#"{"level":"info","id":7}"#,
            r#"{"id":null,"error":{}}"#,
            "{\"id\":1",
        ] {
            assert!(matches!(line(text.as_bytes()), Line::Stray), "{text}");
        }
    }

    #[test]
    fn many_values_are_counted_outside_of_texts_only() {
        let many = format!("{{\"a\":[{}1]}}", "1,".repeat(MAX_VALUES + 1));
        assert!(has_too_many_values(many.as_bytes()));
        let text = format!("{{\"a\":\"{}\",\"b\":[1,2]}}", "1,[{\\\"\\\\".repeat(MAX_VALUES + 1));
        assert!(text.len() > GIANT_BYTES && serde_json::from_str::<Value>(&text).is_ok());
        assert!(!has_too_many_values(text.as_bytes()));
        assert!(!has_too_many_values(b"[1,2,3"));
        let open = format!("\"{}", "x\\".repeat(GIANT_BYTES));
        assert!(!has_too_many_values(open.as_bytes()));
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let Line::Notification { params, .. } = line(b"{\"method\":\"m\",\"params\":{\"a\":\"x\xff\"}}")
        else {
            panic!()
        };
        assert_eq!(params["a"], "x\u{fffd}");
    }
}
