//! Tests of the reducer: a story for each rule of the contract, and properties of any order of frames.

mod lists;
mod pages;
mod prompts;
mod properties;
mod sessions;

use serde_json::{Value, json};
use signalbox_protocol::ops::{
    Activity, ActivityState, ClientRequest, DocBlock, Event, FailureReason, PendingInput, PendingKind,
    ServerFrame, SessionSnapshot,
};

use super::{Change, Item, State};

/// A frame from its JSON.
pub(super) fn frame(json: Value) -> ServerFrame {
    serde_json::from_value(json).unwrap()
}

/// An event from its JSON without the tag `kind`.
pub(super) fn tells(state: &mut State, event: Value) -> Vec<Change> {
    let event: Event = serde_json::from_value(event).unwrap();
    state.apply(ServerFrame::Event { event })
}

pub(super) fn snapshot(id: &str, activity: Activity) -> SessionSnapshot {
    let mut snapshot: SessionSnapshot = serde_json::from_value(json!({
        "id": id, "title": "Untitled session", "provider": "grok", "cwd": "/work",
        "permission_mode": "ask", "sandbox_policy": "workspace_write", "created_at": 1, "memory_read": "inherit",
        "memory_write": "inherit",
    }))
    .unwrap();
    snapshot.activity = activity;
    snapshot
}

pub(super) fn lists(state: &mut State, sessions: &[(&str, Activity)]) -> Vec<Change> {
    let sessions = sessions.iter().map(|(id, activity)| snapshot(id, activity.clone())).collect();
    state.apply(ServerFrame::Sessions { sessions })
}

pub(super) fn idle(revision: u64) -> Activity {
    Activity { revision, state: ActivityState::Idle }
}

pub(super) fn running(revision: u64, turn: &str) -> Activity {
    let state = ActivityState::Running { turn_id: turn.to_owned(), prompt_request_id: None };
    Activity { revision, state }
}

pub(super) fn failed(revision: u64) -> Activity {
    let state = ActivityState::Failed {
        turn_id: None,
        reason: FailureReason::ProviderError,
        message: "the agent is gone".to_owned(),
    };
    Activity { revision, state }
}

pub(super) fn awaiting(revision: u64, turn: &str, inputs: &[(&str, u64)]) -> Activity {
    let input = |(id, sequence): &(&str, u64)| PendingInput {
        input_id: (*id).to_owned(),
        kind: PendingKind::Permission,
        title: "Run it?".to_owned(),
        options: vec![("allow".to_owned(), "Allow".to_owned())],
        option_kinds: Default::default(),
        sequence: *sequence,
        form: None,
    };
    let pending = inputs.iter().map(input).collect();
    let state = ActivityState::AwaitingInput { turn_id: turn.to_owned(), prompt_request_id: None, pending };
    Activity { revision, state }
}

/// An activity event.
pub(super) fn does(state: &mut State, session: &str, activity: Activity) -> Vec<Change> {
    state.apply(ServerFrame::Event {
        event: Event::SessionActivityChanged { session: session.to_owned(), activity },
    })
}

pub(super) fn text_block(text: &str) -> DocBlock {
    DocBlock::Text { text: text.to_owned(), elements: Vec::new() }
}

pub(super) fn id_of(request: &ClientRequest) -> &str {
    match request {
        ClientRequest::Transcript { request_id, .. } => request_id.as_deref().unwrap(),
        ClientRequest::Sessions => panic!("not a page"),
    }
}

/// A line for each item, `|` before the first of each turn.
pub(super) fn story(state: &State, session: &str) -> Vec<String> {
    let transcript = state.sessions[session].transcript.as_ref().unwrap();
    let mut lines = Vec::new();
    for turn in &transcript.turns {
        for (place, item) in turn.items.iter().enumerate() {
            let line = match item {
                Item::Prompt { text, doc, continues, .. } => {
                    let words = match (text, doc) {
                        (Some(text), _) => text.clone(),
                        (None, Some(_)) => "(own)".to_owned(),
                        (None, None) => "(unknown)".to_owned(),
                    };
                    format!("{}{words}", if *continues { "> " } else { "" })
                }
                Item::Text { text, .. } => format!("says {text}"),
                Item::Reasoning { text, .. } => format!("thinks {text}"),
                Item::ToolCall { title, status, kind, .. } => {
                    format!("{title} {status} {}", kind.as_deref().unwrap_or("-"))
                }
                Item::Plan { entries, .. } => format!("plans {}", entries.join(", ")),
            };
            lines.push(if place == 0 { format!("| {line}") } else { line });
        }
    }
    lines
}
