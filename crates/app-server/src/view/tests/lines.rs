//! Effects as lines that people can read: method and what matters of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::world::{Event, World};
use crate::view::{Outgoing, Scope, ThreadView};

/// What clients are told of a world's events from `from` on, a line an effect. What lies before it has been told.
pub(super) fn told(world: &World, from: usize) -> String {
    let mut view = ThreadView::new(World::row(&world.events[..1]));
    let mut lines = String::new();
    for (place, event) in world.events.iter().enumerate() {
        let mut effects = match event {
            Event::Fact(fact) => view.apply(fact),
            Event::Signal(signal) => view.apply_signal(signal),
        };
        if place + 1 == world.events.len() {
            effects.extend(view.flush());
        }
        if place >= from {
            lines.push_str(&render(&effects));
        }
    }
    lines
}

/// A line an effect.
pub(super) fn render(effects: &[Outgoing<'_>]) -> String {
    let names = World::names();
    let mut lines = String::new();
    for effect in effects {
        let (method, params, sign) = match effect {
            Outgoing::Notification(told) => {
                let sign = if told.scope == Scope::All { "* " } else { "" };
                (told.body.method(), serde_json::to_value(&told.body).unwrap(), sign)
            }
            Outgoing::Delta(delta) => {
                (delta.method(), serde_json::to_value(delta.to_notification()).unwrap(), "")
            }
            Outgoing::ServerRequest(request) => {
                (request.method(), serde_json::to_value(request).unwrap(), "? ")
            }
            Outgoing::Withdraw { approval } => {
                writeln!(lines, "- withdraw {}", name(&names, &approval.to_string())).unwrap();
                continue;
            }
        };
        let mut line = format!("{sign}{method}");
        for word in words(method, &params) {
            line.push(' ');
            line.push_str(&name(&names, &word));
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

fn name(names: &BTreeMap<String, String>, word: &str) -> String {
    names.get(word).cloned().unwrap_or_else(|| word.to_owned())
}

fn words(method: &str, params: &Value) -> Vec<String> {
    let at = |path: &str| match params.pointer(path) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(value) => Some(value.to_string()),
    };
    let quoted = |path: &str| params.pointer(path).filter(|value| !value.is_null()).map(Value::to_string);
    let list = |words: &[Option<String>]| words.iter().flatten().cloned().collect();
    match method {
        "thread/status/changed" => {
            list(&[at("/status/type"), quoted("/status/activeFlags").filter(|flags| flags != "[]")])
        }
        "thread/activity/changed" => list(&[at("/activity/revision"), at("/activity/state/kind")]),
        "turn/started" | "turn/completed" => {
            list(&[at("/turn/id"), at("/turn/status"), quoted("/turn/error/message")])
        }
        "item/started" | "item/completed" => {
            let item = &params["item"];
            let mut words = list(&[at("/item/id"), at("/item/type"), at("/item/status")]);
            for (field, value) in item.as_object().unwrap() {
                let shown = matches!(
                    field.as_str(),
                    "text"
                        | "summary"
                        | "aggregatedOutput"
                        | "exitCode"
                        | "durationMs"
                        | "late"
                        | "declined"
                        | "success"
                        | "contentItems"
                        | "error"
                ) && !value.is_null();
                if shown || field == "changes" {
                    words.push(format!("{field}={value}"));
                }
                if field == "content" && item["type"] == "userMessage" {
                    words.push(value[0]["text"].to_string());
                }
            }
            words
        }
        "turn/plan/updated" => params["plan"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| format!("{}:{}", step["step"].as_str().unwrap(), step["status"].as_str().unwrap()))
            .collect(),
        "turn/diff/updated" => list(&[quoted("/diff")]),
        "thread/tokenUsage/updated" => list(&[
            at("/turnId"),
            at("/tokenUsage/total/totalTokens").map(|n| format!("total={n}")),
            at("/tokenUsage/last/totalTokens").map(|n| format!("last={n}")),
            at("/tokenUsage/modelContextWindow").map(|n| format!("window={n}")),
        ]),
        "serverRequest/resolved" => {
            list(&[at("/approvalId"), at("/decision"), at("/optionId"), at("/by/kind"), at("/by/name")])
        }
        "approval/requested" => list(&[
            at("/approval/approvalId"),
            at("/approval/itemId"),
            at("/approval/kind"),
            quoted("/approval/availableDecisions"),
        ]),
        "error" => list(&[at("/turnId"), quoted("/error/message"), at("/error/reason"), at("/requestId")]),
        "warning" => list(&[quoted("/message"), at("/requestId")]),
        "thread/started" => list(&[at("/requestId")]),
        "thread/name/updated" => list(&[quoted("/threadName")]),
        "thread/reverted" => list(&[at("/beforeTurnId")]),
        "thread/settings/updated" => {
            list(&[at("/threadSettings/approvalPolicy"), at("/threadSettings/sandboxPolicy/type")])
        }
        _ => list(&[
            at("/approvalId"),
            at("/itemId"),
            quoted("/delta"),
            quoted("/command"),
            quoted("/changes").filter(|changes| changes != "[]"),
            quoted("/questions/0/question"),
            quoted("/message"),
        ]),
    }
}
