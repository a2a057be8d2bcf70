//! Content blocks and the pieces that tool calls show.

use std::path::{Path, PathBuf};

use serde_json::Value;
use signalbox_facts::Location;

use super::diff;
use super::fields::{
    ID_BYTES, MESSAGE_BYTES, Object, count, cut, into_object, take_filled, take_id, take_message, take_name,
    take_object, take_text,
};
use crate::update::{Content, ToolPart};

/// A content block of any kind.
pub(crate) fn content(value: Value) -> Content {
    let mut object = match into_object(value) {
        Ok(object) => object,
        // Some agents send bare text where a block belongs.
        Err(Value::String(text)) => return Content::Text(text),
        Err(other) => return Content::Unknown(other),
    };
    match kind(&object) {
        "text" => Content::Text(take_text(&mut object, "text").unwrap_or_default()),
        "image" => Content::Image {
            mime: take_name(&mut object, "mimeType").unwrap_or_else(|| "image/png".to_owned()),
            data: take_text(&mut object, "data").unwrap_or_default(),
            uri: take_filled(&mut object, "uri").filter(|uri| uri.len() <= MESSAGE_BYTES),
        },
        "audio" => Content::Audio {
            mime: take_name(&mut object, "mimeType").unwrap_or_else(|| "audio/wav".to_owned()),
            data: take_text(&mut object, "data").unwrap_or_default(),
        },
        "resource_link" => {
            let uri = take_message(&mut object, "uri").unwrap_or_default();
            let name = take_name(&mut object, "title").or_else(|| take_name(&mut object, "name"));
            Content::Link { name: name.unwrap_or_else(|| uri.clone()), uri }
        }
        "resource" => {
            let mut resource = take_object(&mut object, "resource").unwrap_or_default();
            Content::Resource {
                uri: take_message(&mut resource, "uri").unwrap_or_default(),
                mime: take_name(&mut resource, "mimeType"),
                text: take_text(&mut resource, "text"),
                blob: take_filled(&mut resource, "blob"),
            }
        }
        _ => Content::Unknown(Value::Object(object)),
    }
}

/// The pieces that an entry of a tool call's content is; a structured change is one a file.
pub(crate) fn tool_parts(value: Value, cwd: &Path) -> Vec<ToolPart> {
    match value {
        Value::Object(mut object) if diff::is_structured(&object) => {
            diff::changes(&mut object, cwd).into_iter().map(ToolPart::Patch).collect()
        }
        other => vec![tool_part(other, cwd)],
    }
}

/// A piece of what a tool call shows.
fn tool_part(value: Value, cwd: &Path) -> ToolPart {
    let mut object = match into_object(value) {
        Ok(object) => object,
        Err(other) => return ToolPart::Content(content(other)),
    };
    match kind(&object) {
        "content" => match object.remove("content") {
            Some(inner) => ToolPart::Content(content(inner)),
            None => ToolPart::Unknown(Value::Object(object)),
        },
        "diff" => ToolPart::Diff {
            path: path(&take_text(&mut object, "path").unwrap_or_default(), cwd),
            old_text: take_text(&mut object, "oldText"),
            new_text: take_text(&mut object, "newText").unwrap_or_default(),
        },
        "session" => ToolPart::Session { id: take_id(&mut object, "sessionId").unwrap_or_default() },
        "terminal" => ToolPart::Terminal { id: take_id(&mut object, "terminalId").unwrap_or_default() },
        // A block without its wrapper.
        "text" | "image" | "audio" | "resource" | "resource_link" => {
            ToolPart::Content(content(Value::Object(object)))
        }
        _ => ToolPart::Unknown(Value::Object(object)),
    }
}

/// A file and perhaps a line; anything without a path is none.
pub(crate) fn location(value: Value, cwd: &Path) -> Option<Location> {
    let mut object = match value {
        Value::String(text) => return Some(Location { path: path(&text, cwd), line: None }),
        other => into_object(other).ok()?,
    };
    let line =
        count(&object, "line").filter(|line| *line > 0).map(|line| u32::try_from(line).unwrap_or(u32::MAX));
    Some(Location { path: path(&take_filled(&mut object, "path")?, cwd), line })
}

/// An absolute path: agents should send those, and some send `file:` URIs or paths relative to the session.
pub(crate) fn path(text: &str, cwd: &Path) -> PathBuf {
    let text = text.strip_prefix("file://").unwrap_or(text);
    if text.len() > ID_BYTES {
        // No system has files of such names: it is only shown.
        return cwd.join(cut(text[..text.floor_char_boundary(ID_BYTES + 4)].to_owned(), ID_BYTES));
    }
    cwd.join(text)
}

fn kind(object: &Object) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_blocks_are_kept_and_known_ones_survive_missing_fields() {
        assert_eq!(content(json!({"type":"text"})), Content::Text(String::new()));
        assert_eq!(content(json!("bare")), Content::Text("bare".into()));
        assert!(matches!(content(json!({"type":"hologram","x":1})), Content::Unknown(_)));
        assert!(matches!(content(json!(5)), Content::Unknown(_)));
    }

    #[test]
    fn paths_are_absolute() {
        let cwd = Path::new("/w");
        assert_eq!(path("a/b.rs", cwd), Path::new("/w/a/b.rs"));
        assert_eq!(path("file:///x/y", cwd), Path::new("/x/y"));
        assert_eq!(location(json!({"path":"/p","line":3}), cwd).unwrap().line, Some(3));
        assert_eq!(location(json!({"line":3}), cwd), None);
    }
}
