//! What a piece of what an agent sends is to clients, each bounded. Pure.

use serde_json::{Value, json};
use signalbox_agents::Content;
use signalbox_facts::ToolContent;

/// Of one text.
pub(crate) const MAX_CONTENT_BYTES: usize = 128 << 10;
const MAX_RAW_INPUT_BYTES: usize = 16 << 10;
/// Of an image or a sound, as base64; a larger one is named, not shown.
pub(crate) const MAX_MEDIA_BYTES: usize = 4 << 20;

/// What a piece of content is to clients: mostly one piece.
pub(crate) fn tool_content(content: Content) -> Vec<ToolContent> {
    if let Some((_, piece)) = media(&content) {
        return vec![piece];
    }
    match content {
        Content::Link { uri, name } => vec![ToolContent::Link { uri, name }],
        Content::Resource { uri, text: Some(text), .. } => {
            let text = ToolContent::Text { text: cut(text, MAX_CONTENT_BYTES) };
            if uri.is_empty() { vec![text] } else { vec![ToolContent::Link { name: uri.clone(), uri }, text] }
        }
        other => vec![ToolContent::Text { text: cut(describe(&other), MAX_CONTENT_BYTES) }],
    }
}

/// An image or a sound that can be shown, with a word for it.
pub(crate) fn media(content: &Content) -> Option<(&'static str, ToolContent)> {
    let image = |url| ("Image", ToolContent::Image { url });
    let audio = |url| ("Audio", ToolContent::Audio { url });
    match content {
        Content::Image { mime, data, uri } => {
            data_url(mime, data).or_else(|| web_url(uri.as_deref())).map(image)
        }
        Content::Audio { mime, data } => data_url(mime, data).map(audio),
        Content::Resource { mime: Some(mime), blob: Some(blob), .. } if mime.starts_with("image/") => {
            data_url(mime, blob).map(image)
        }
        Content::Resource { mime: Some(mime), blob: Some(blob), .. } if mime.starts_with("audio/") => {
            data_url(mime, blob).map(audio)
        }
        _ => None,
    }
}

fn data_url(mime: &str, data: &str) -> Option<String> {
    let fits = !data.is_empty() && data.len() <= MAX_MEDIA_BYTES;
    fits.then(|| format!("data:{mime};base64,{data}"))
}

/// An address that a client somewhere else can open too.
fn web_url(uri: Option<&str>) -> Option<String> {
    uri.filter(|uri| uri.starts_with("https://") || uri.starts_with("http://")).map(str::to_owned)
}

/// What text can say of a piece of content.
pub(crate) fn describe(content: &Content) -> String {
    let sized = |what: &str, mime: &str, data: &str, uri: Option<&str>| {
        let uri = uri.filter(|uri| !uri.is_empty()).map(|uri| format!(" {uri}")).unwrap_or_default();
        format!("[{what}{uri}, {mime}, {} bytes]", data.len() / 4 * 3)
    };
    match content {
        Content::Text(text) => text.clone(),
        Content::Image { mime, data, uri } => sized("image", mime, data, uri.as_deref()),
        Content::Audio { mime, data } => sized("audio", mime, data, None),
        Content::Link { uri, name } => format!("[{name}]({uri})"),
        Content::Resource { text: Some(text), .. } => text.clone(),
        Content::Resource { uri, mime, blob, .. } => {
            let mime = mime.as_deref().unwrap_or("application/octet-stream");
            sized("resource", mime, blob.as_deref().unwrap_or_default(), Some(uri))
        }
        Content::Unknown(value) => bounded(value.clone()).to_string(),
    }
}

/// What a result of any JSON kind says to people, if it says anything.
pub(crate) fn words(result: Value) -> Option<String> {
    /// Members that hold the words of a result, where it is an object.
    const WORDS: [&str; 7] = ["output", "content", "text", "result", "error", "message", "stderr"];
    let text = match result {
        Value::Null => return None,
        Value::String(text) => text,
        Value::Object(object) => {
            let words = WORDS.iter().find_map(|key| object.get(*key)?.as_str());
            match words.filter(|words| !words.trim().is_empty()).map(str::to_owned) {
                Some(words) => words,
                None if object.is_empty() => return None,
                None => bounded(Value::Object(object)).to_string(),
            }
        }
        other => bounded(other).to_string(),
    };
    (!text.trim().is_empty()).then_some(text)
}

/// A JSON value, or a note that it was too large.
pub(crate) fn bounded(value: Value) -> Value {
    let length = value.to_string().len();
    if length <= MAX_RAW_INPUT_BYTES { value } else { json!({ "omitted_bytes": length }) }
}

pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('\u{2026}');
    }
    text
}
