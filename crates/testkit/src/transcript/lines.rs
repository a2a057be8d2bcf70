//! The lines of a transcript, read and written.

use serde_json::Value;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// A comment, a blank line, or a setting.
    Text(String),
    /// What a client sends.
    Send { client: usize, frame: String },
    /// What a client gets.
    Get { client: usize, frame: Value },
}

/// Reads a transcript.
///
/// # Panics
/// If a line is none.
pub(super) fn read(text: &str, file: &str) -> Vec<Line> {
    text.lines().enumerate().map(|(at, line)| read_line(line, &format!("{file}:{}", at + 1))).collect()
}

fn read_line(line: &str, place: &str) -> Line {
    if line.is_empty() || line.starts_with(['#', '@']) {
        return Line::Text(line.to_owned());
    }
    let (client, rest) = match line.find(['→', '←']) {
        Some(0) => (1, line),
        Some(at) => match line[..at].parse() {
            Ok(number) => (number, &line[at..]),
            Err(_) => panic!("{place}: not a client: {}", &line[..at]),
        },
        None => panic!("{place}: neither → nor ←"),
    };
    let frame = rest.trim_start_matches(['→', '←']).trim();
    if rest.starts_with('→') {
        return Line::Send { client, frame: frame.to_owned() };
    }
    match serde_json::from_str(frame) {
        Ok(frame) => Line::Get { client, frame },
        Err(error) => panic!("{place}: {error}"),
    }
}

/// Writes a line.
pub(super) fn write(line: &Line) -> String {
    let mark = |client: usize| if client == 1 { String::new() } else { client.to_string() };
    match line {
        Line::Text(text) => text.clone(),
        Line::Send { client, frame } => format!("{}→ {frame}", mark(*client)),
        Line::Get { client, frame } => format!("{}← {}", mark(*client), compact(frame)),
    }
}

/// Id and method first, the rest in its own order.
fn compact(frame: &Value) -> String {
    let Value::Object(members) = frame else { return frame.to_string() };
    let rank = |name: &str| match name {
        "id" => 0,
        "method" => 1,
        _ => 2,
    };
    let mut ordered: Vec<_> = members.iter().collect();
    ordered.sort_by_key(|(name, _)| rank(name));
    let members: Vec<String> =
        ordered.iter().map(|(name, value)| format!("{}:{value}", Value::String((*name).clone()))).collect();
    format!("{{{}}}", members.join(","))
}

/// What kind of frame it is: what a group of lines is aligned by.
pub(super) fn kind(frame: &Value) -> String {
    match (frame["method"].as_str(), frame.get("id")) {
        (Some(method), _) => {
            let item = frame["params"]["item"]["type"].as_str().unwrap_or_default();
            format!("{method} {item}")
        }
        (None, Some(id)) => format!("answer {id}"),
        (None, None) => "answers".to_owned(),
    }
}
