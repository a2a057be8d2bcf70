//! Parameters from JSON, with errors that say where and what was expected.

use serde::de::DeserializeOwned;

use crate::error::RpcError;

/// Decodes parameters. Absent and null count as `{}`; unknown members are ignored unless the type forbids them.
///
/// # Errors
/// `invalid_params` with `data.path`, and `data.expected` where serde says it.
pub fn decode<P: DeserializeOwned>(params: Option<&str>) -> Result<P, RpcError> {
    let params = match params.map(str::trim_ascii) {
        None | Some("null") => "{}",
        Some(params) => params,
    };
    if !params.starts_with('{') {
        return Err(RpcError::invalid_params("the params must be an object", "", Some("an object")));
    }
    match serde_json::from_str(params) {
        Ok(params) => Ok(params),
        Err(error) => Err(locate::<P>(params, &error)),
    }
}

/// Decodes a second time, this time watching the path; only ever run for parameters that do not fit.
fn locate<P: DeserializeOwned>(params: &str, first: &serde_json::Error) -> RpcError {
    let mut deserializer = serde_json::Deserializer::from_str(params);
    let (mut path, detail) = match serde_path_to_error::deserialize::<_, P>(&mut deserializer) {
        Ok(_) => (String::new(), first.to_string()),
        Err(error) => {
            let path = error.path().to_string();
            (if path == "." { String::new() } else { path }, error.into_inner().to_string())
        }
    };
    let detail = plainly(without_position(&detail));
    let missing = detail.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(member) = missing {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(member);
    }
    let expected = match (missing, detail.rsplit_once("expected ")) {
        (Some(_), _) => Some("a value, the member is required"),
        (None, Some((_, expected))) => Some(expected),
        (None, None) => None,
    };
    RpcError::invalid_params(&detail, &path, expected)
}

/// What serde expects in the words of JSON instead of those of Rust.
fn plainly(detail: &str) -> String {
    let Some((found, expected)) = detail.rsplit_once("expected ") else { return detail.to_owned() };
    let json = match expected {
        "a sequence" => "an array",
        "a map" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a number from 0 on, without a fraction",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a number without a fraction",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("internally tagged enum ") => "an object with a `type`",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("a sequence of ") => "an array",
        _ => expected,
    };
    format!("{found}expected {json}")
}

/// serde_json ends its messages with a position in a text that the client has never seen as such.
fn without_position(detail: &str) -> &str {
    detail.rsplit_once(" at line ").map_or(detail, |(detail, _)| detail)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Start {
        cwd: String,
        #[serde(default)]
        input: Vec<Input>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", rename_all = "camelCase")]
    enum Input {
        Text { text: String },
        Image { bytes: u32 },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct AllOptional {
        limit: Option<u32>,
    }

    fn error(params: &str) -> RpcError {
        decode::<Start>(Some(params)).unwrap_err()
    }

    #[test]
    fn absent_null_and_empty_are_the_same_where_everything_is_optional() {
        for params in [None, Some("null"), Some("{}"), Some(" { } "), Some(r#"{"unknown":[1]}"#)] {
            assert_eq!(decode::<AllOptional>(params), Ok(AllOptional { limit: None }), "{params:?}");
        }
    }

    #[test]
    fn positional_and_scalar_params_are_refused() {
        for params in ["[1]", "[]", "3", "\"a\""] {
            let error = error(params);
            assert_eq!((error.code, error.reason), (-32602, "invalid_params"), "{params}");
            assert_eq!(error.data["expected"], json!("an object"));
        }
    }

    #[test]
    fn a_missing_member_is_named_with_its_path() {
        assert_eq!(error("{}").data["path"], json!("cwd"));
        let deep = error(r#"{"cwd":"/","input":[{"type":"text"}]}"#);
        assert_eq!(deep.data["path"], json!("input[0].text"));
        assert_eq!(deep.message, "Invalid params: missing field `text` (at input[0].text)");
    }

    #[test]
    fn a_wrong_type_says_what_was_expected() {
        let wrong = error(r#"{"cwd":7}"#);
        assert_eq!(wrong.data["path"], json!("cwd"));
        assert_eq!(wrong.data["expected"], json!("a string"));
        let wrong = error(r#"{"cwd":"/","input":{}}"#);
        assert_eq!(wrong.data["expected"], json!("an array"));
        let wrong = error(r#"{"cwd":"/","input":["text"]}"#);
        assert_eq!(wrong.data["expected"], json!("an object with a `type`"));
        let wrong = decode::<AllOptional>(Some(r#"{"limit":"many"}"#)).unwrap_err();
        assert_eq!(wrong.data["expected"], json!("a number from 0 on, without a fraction"));
        let wrong = error(r#"{"cwd":"/","input":[{"type":"video"}]}"#);
        assert_eq!(wrong.data["expected"], json!("`text` or `image`"));
    }

    #[test]
    fn nesting_beyond_all_reason_is_an_error_and_no_crash() {
        let deep = format!(r#"{{"cwd":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(error(&deep).reason, "invalid_params");
        let ignored = format!(r#"{{"cwd":"/","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(decode::<Start>(Some(&ignored)).is_ok());
        let value = decode::<std::collections::HashMap<String, serde_json::Value>>(Some(&ignored));
        assert_eq!(value.unwrap_err().reason, "invalid_params");
    }
}
