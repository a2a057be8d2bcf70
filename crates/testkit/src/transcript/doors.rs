//! Which doors a transcript is played through, told from what is in it.

use serde_json::{Value, json};

use super::holes::ANY;
use super::lines::Line;

/// How the ids of calls begin that stand for answers. What they are answered is no line of the transcript.
pub(super) const ANSWER: &str = "answer ";

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// stdin and stdout, a frame a line.
    Stdio,
    /// stdin and stdout, frames behind `Content-Length`.
    ContentLength,
    /// A unix socket, a frame a line.
    Unix,
    /// stdin and stdout of a bridge for each client, a frame a line.
    Bridges,
    /// A WebSocket.
    WebSocket,
    /// A POST for each call, and nothing else.
    Post,
    /// A POST for each call, and the thread's event stream.
    Events,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Stdio,
        Self::ContentLength,
        Self::Unix,
        Self::Bridges,
        Self::WebSocket,
        Self::Post,
        Self::Events,
    ];
}

/// The doors, each with the transcript as it is seen there.
pub(super) fn of(lines: &[Line]) -> Vec<(Door, Vec<Line>)> {
    let mut doors = vec![(Door::Unix, lines.to_vec()), (Door::WebSocket, lines.to_vec())];
    // What becomes of the server's own process is told otherwise behind a bridge.
    let of_process = |text: &str| ["@ kill", "@ restart", "@ terminate"].contains(&text);
    if !lines.iter().any(|line| matches!(line, Line::Text(text) if of_process(text))) {
        doors.push((Door::Bridges, lines.to_vec()));
    }
    if one_client(lines) {
        doors.push((Door::Stdio, lines.to_vec()));
        doors.push((Door::ContentLength, lines.to_vec()));
    }
    if let Some(lines) = over_http(lines) {
        let told = lines.iter().any(|line| matches!(line, Line::Get { frame, .. } if is_told(frame)));
        doors.push((if told { Door::Events } else { Door::Post }, lines));
    }
    doors
}

fn one_client(lines: &[Line]) -> bool {
    lines.iter().all(|line| match line {
        Line::Send { client, .. } | Line::Get { client, .. } => *client == 1,
        Line::Text(_) => true,
    })
}

fn is_told(frame: &Value) -> bool {
    frame["method"].is_string()
}

/// The transcript for a client that only posts and follows one thread: it is not told what happened before it could follow,
/// is not asked, and answers by `approval/respond`. None if it does what such a client cannot.
fn over_http(lines: &[Line]) -> Option<Vec<Line>> {
    let about_handshakes = |line: &Line| matches!(line, Line::Get { frame, .. } if frame["error"]["data"]["reason"] == "not_initialized");
    if !one_client(lines) || lines.iter().any(about_handshakes) {
        return None;
    }
    let mut seen = Vec::new();
    let mut answers = 0;
    for line in lines {
        match line {
            // With a connection that is lost there is nothing to compare.
            Line::Text(text)
                if ["@ kill", "@ restart", "@ terminate", "@ capabilities", "@ argument"]
                    .iter()
                    .any(|setting| text.starts_with(setting)) =>
            {
                return None;
            }
            Line::Text(_) => seen.push(line.clone()),
            Line::Send { client, frame } => {
                let sent: Value = serde_json::from_str(frame).ok()?;
                if let Some(answered) = sent.get("result") {
                    answers += 1;
                    let id = format!("{ANSWER}{answers}");
                    let respond = respond(&sent["id"], answered)?;
                    let call = json!({"id": id, "method": "approval/respond", "params": respond});
                    seen.push(Line::Send { client: *client, frame: call.to_string() });
                    continue;
                }
                // What makes a connection a member of a thread, or is about being one.
                let method = sent["method"].as_str().filter(|_| sent.get("id").is_some())?;
                if NEEDS_A_CONNECTION.contains(&method) {
                    return None;
                }
                seen.push(line.clone());
            }
            Line::Get { client, frame } => {
                // A warning is for the one connection that caused it.
                if frame["method"] == "warning" {
                    return None;
                }
                let asked = is_told(frame) && frame.get("id").is_some();
                if !asked && frame["method"] != "thread/started" {
                    let mut frame = frame.clone();
                    forget_who(&mut frame);
                    seen.push(Line::Get { client: *client, frame });
                }
            }
        }
    }
    Some(seen)
}

/// Without a handshake nobody knows the name of who has answered.
fn forget_who(frame: &mut Value) {
    match frame {
        Value::Object(members) => {
            for (name, value) in members {
                if name == "by" && value["kind"] == "client" {
                    *value = ANY.into();
                } else {
                    forget_who(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(forget_who),
        _ => {}
    }
}

const NEEDS_A_CONNECTION: [&str; 5] =
    ["initialize", "thread/resume", "thread/fork", "thread/unsubscribe", "thread/delete"];

/// The params of `approval/respond` that say the same.
fn respond(id: &Value, answered: &Value) -> Option<Value> {
    let mut params = answered.as_object()?.clone();
    let known = ["decision", "optionId", "message"];
    if !params.get("decision").is_some_and(Value::is_string)
        || params.keys().any(|key| !known.contains(&key.as_str()))
    {
        return None;
    }
    params.insert("approvalId".to_owned(), id.clone());
    Some(Value::Object(params))
}
