//! Laws of one client's stream that the reducer does not rely on, and what two clients have to agree on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use signalbox_client::threads::{Phase, ThreadState, is_complete, is_cut};
use signalbox_protocol::app::{
    ItemBody, ServerNotification, Thread, ThreadStatus, Turn, TurnItemsView, TurnStatus,
};
use signalbox_protocol::ops::ResolverKind;

/// What a stream has shown so far.
#[derive(Default)]
pub(crate) struct Laws {
    /// Requests that wait on this connection.
    open: BTreeSet<String>,
    resolved: BTreeSet<String>,
    /// Items that were told to be complete, with the turn they are of.
    completed: BTreeMap<String, String>,
    /// No status was told since it joined; who had left may have been told the same before, because all are told.
    fresh: bool,
}

type Law = Result<(), String>;

impl Laws {
    /// A subscription begins: what waits is asked again.
    pub(crate) fn joined(&mut self) {
        self.open.clear();
        self.completed.clear();
        self.fresh = true;
    }

    pub(crate) fn asked(&mut self, approval: &str) -> Law {
        if self.resolved.contains(approval) {
            return Err(format!("{approval} is asked for after it was resolved"));
        }
        match self.open.insert(approval.to_owned()) {
            true => Ok(()),
            false => Err(format!("{approval} is asked for twice")),
        }
    }

    /// `state` is as it was before.
    pub(crate) fn hears(&mut self, told: &ServerNotification, state: &ThreadState) -> Law {
        use ServerNotification as N;
        let all = matches!(
            told,
            N::ThreadStarted(_)
                | N::ThreadStatusChanged(_)
                | N::ThreadActivityChanged(_)
                | N::ThreadNameUpdated(_)
                | N::ThreadArchived(_)
                | N::ThreadUnarchived(_)
                | N::ThreadDeleted(_)
                | N::ThreadClosed(_)
                | N::ThreadWorktreeDiscarded(_)
                | N::ThreadResyncRequired(_)
        );
        // A warning may be for this connection alone.
        if state.phase != Phase::Live && !all && !matches!(told, N::Warning(_)) {
            return Err("it does not follow the thread".to_owned());
        }
        match told {
            N::ThreadStatusChanged(told) if state.phase == Phase::Live => {
                let fresh = std::mem::replace(&mut self.fresh, false);
                match told.status == state.thread.status && !fresh {
                    true => Err("the status is told without a change".to_owned()),
                    false => Ok(()),
                }
            }
            N::TurnStarted(told) if !told.turn.items.is_empty() => {
                Err("a turn starts with items that nobody was told of".to_owned())
            }
            N::ItemStarted(told) => {
                let user = matches!(told.item.body, ItemBody::UserMessage { .. });
                let turn = state.turn(&told.turn_id);
                match turn.filter(|turn| turn.items_view == TurnItemsView::Full && turn.items.is_empty()) {
                    Some(_) if !user => Err("a turn's first item is not its prompt".to_owned()),
                    _ if is_complete(&told.item) => Err("an item starts complete".to_owned()),
                    _ => Ok(()),
                }
            }
            N::ItemCompleted(told) => {
                let again = self.completed.insert(told.item.id.clone(), told.turn_id.clone()).is_some();
                let running =
                    state.turn(&told.turn_id).is_some_and(|turn| turn.status == TurnStatus::InProgress);
                // What changed after its completion is told again when its turn settles, or later.
                let known = state.turn(&told.turn_id).and_then(|turn| find(turn, &told.item.id));
                if again && running && known == Some(&told.item) {
                    return Err("an item is completed twice without a change".to_owned());
                }
                Ok(())
            }
            N::TurnCompleted(told) => {
                let turn = state.turn(&told.turn.id);
                let last = turn.and_then(|turn| {
                    let mut items = turn.items.iter().rev();
                    items.find(|item| matches!(item.body, ItemBody::AgentMessage { .. }))
                });
                match told.turn.items.first() {
                    Some(first) if turn.is_some() && Some(first) != last => {
                        Err("a turn's summary is not its last message".to_owned())
                    }
                    _ if !self.open.is_empty() && turn.is_some() => {
                        Err(format!("a turn ends while {:?} wait", self.open))
                    }
                    _ => Ok(()),
                }
            }
            N::ServerRequestResolved(told) => {
                self.open.remove(&told.approval_id);
                let first = self.resolved.insert(told.approval_id.clone());
                match first || told.by.kind == ResolverKind::Policy {
                    true => Ok(()),
                    false => Err(format!("{} is resolved twice", told.approval_id)),
                }
            }
            _ => Ok(()),
        }
    }
}

fn find<'t>(turn: &'t Turn, item: &str) -> Option<&'t signalbox_protocol::app::ThreadItem> {
    turn.items.iter().find(|known| known.id == item)
}

/// Whether a prompt with this word is shown.
pub(crate) fn has_prompt(thread: &Thread, word: &str) -> bool {
    thread.turns.iter().flat_map(|turn| &turn.items).any(
        |item| matches!(&item.body, ItemBody::UserMessage { client_id: Some(known), .. } if known == word),
    )
}

/// What a state says that every other one has to say too. `lagging`: of open texts the end may be missing.
pub(crate) fn known(state: &ThreadState, lagging: bool, unable: bool) -> Value {
    let requests: Vec<&String> = if unable { Vec::new() } else { state.requests.keys().collect() };
    json!({
        "status": state.thread.status,
        "activity": state.thread.activity,
        "name": state.thread.name,
        "archived": state.thread.archived,
        "settings": format!("{:?}", state.settings),
        "requests": requests,
        "turns": state.thread.turns.iter().map(|turn| known_turn(turn, lagging)).collect::<Vec<_>>(),
    })
}

/// A turn as everybody knows it.
pub(crate) fn known_turn(turn: &Turn, lagging: bool) -> Value {
    let mut known = serde_json::to_value(turn).unwrap();
    let parts = known.as_object_mut().unwrap();
    // How full the context is, is the state of a running agent, and of a turn without tokens of its own no history tells it.
    let own = turn.token_usage.as_ref().filter(|usage| usage.total != Default::default());
    let total = own.map(|usage| usage.total);
    parts.insert("tokenUsage".to_owned(), serde_json::to_value(total).unwrap());
    for item in parts["items"].as_array_mut().unwrap() {
        if item["completedAtMs"].is_null() {
            let is_plan = item["type"] == "plan";
            let item = item.as_object_mut().unwrap();
            // Told with the completion only.
            for part in ["toolCall", "result", "contentItems"] {
                item.remove(part);
            }
            if lagging || is_plan {
                for part in ["text", "summary", "aggregatedOutput"] {
                    item.remove(part);
                }
            }
        }
    }
    if lagging && turn.status == TurnStatus::InProgress {
        for part in ["plan", "diff", "tokenUsage"] {
            parts.remove(part);
        }
    }
    known
}

/// Makes comparable what two know of turns: one may know a thread from some turn or item on only, and texts may be cut.
pub(crate) fn meld(ours: &mut Value, theirs: &mut Value) {
    let (ours, theirs) = (ours.as_array_mut().unwrap(), theirs.as_array_mut().unwrap());
    let first = theirs.first().map(|turn| turn["id"].clone());
    let from = ours.iter().position(|turn| Some(&turn["id"]) == first.as_ref());
    ours.drain(..from.unwrap_or(ours.len()));
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        // Of a long turn a result has the newest items.
        leave_out(ours, theirs);
        leave_out(theirs, ours);
        for turn in [&mut *ours, &mut *theirs] {
            turn["itemsView"] = Value::Null;
        }
        let (ours, theirs) = (ours["items"].as_array_mut().unwrap(), theirs["items"].as_array_mut().unwrap());
        ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| meld_item(ours, theirs));
    }
}

/// Leaves out what comes before the first item of a turn that is only partly there.
fn leave_out(whole: &mut Value, part: &Value) {
    if part["itemsView"] == "summary" {
        let first = &part["items"][0]["id"];
        let items = whole["items"].as_array_mut().unwrap();
        let from = items.iter().position(|item| item["id"] == *first).unwrap_or(0);
        items.drain(..from);
    }
}

/// How much of a text that is cut is surely there.
const HEAD: usize = 64;

fn meld_item(ours: &mut Value, theirs: &mut Value) {
    let cut: BTreeMap<String, u64> = [&*ours, &*theirs]
        .into_iter()
        .flat_map(|item| item["cutTexts"].as_array().into_iter().flatten())
        .map(|cut| (cut["field"].as_str().unwrap().to_owned(), cut["totalBytes"].as_u64().unwrap()))
        .collect();
    let is_open = ours["completedAtMs"].is_null();
    for (field, total) in cut {
        let length = |item: &Value| {
            let cuts = item["cutTexts"].as_array();
            let cut = cuts.and_then(|cuts| cuts.iter().find(|cut| cut["field"] == *field));
            let text = item.pointer(&field).and_then(Value::as_str).unwrap_or_default();
            let head: String = text.chars().take(HEAD).collect();
            (cut.map_or(text.len() as u64, |cut| cut["totalBytes"].as_u64().unwrap()), head)
        };
        let (a, b) = (length(ours), length(theirs));
        // What grows is told in other pieces to who has a part of it.
        if a == b || is_open {
            for item in [&mut *ours, &mut *theirs] {
                if let Some(text) = item.pointer_mut(&field) {
                    *text = json!(total);
                }
            }
        }
    }
    for item in [ours, theirs] {
        let item = item.as_object_mut().unwrap();
        item.remove("cutTexts");
        item.remove("outputTruncated");
    }
}

/// Where two values differ, for people.
pub(crate) fn differences(one: &Value, other: &Value) -> String {
    let mut found = Vec::new();
    differ(one, other, "", &mut found);
    found.join("\n  ")
}

fn differ(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                differ(&one[name], &other[name], &format!("{path}/{name}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differ(a, b, &format!("{path}/{at}"), found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {} against {}", short(one), short(other))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(600).collect()
}

pub(crate) fn is_active(state: &ThreadState) -> bool {
    matches!(state.thread.status, ThreadStatus::Active { .. })
}

/// What of a client's state a stored thread does not have, if anything: turns, items, and what was shown of them. A turn that
/// the client saw running may have grown, and has ended.
pub(crate) fn was_shown(state: &ThreadState, stored: &Thread) -> Option<String> {
    for turn in &state.thread.turns {
        let Some(kept) = stored.turns.iter().find(|kept| kept.id == turn.id) else {
            return Some(format!("turn {} is gone", turn.id));
        };
        if kept.status == TurnStatus::InProgress {
            return Some(format!("turn {} still runs", turn.id));
        }
        for item in &turn.items {
            let Some(kept) = find(kept, &item.id) else {
                return Some(format!("item {} of turn {} is gone", item.id, turn.id));
            };
            if !is_complete(kept) {
                return Some(format!("item {} is still open", item.id));
            }
            if is_cut(item) || is_cut(kept) {
                continue;
            }
            let (shown, kept) = (serde_json::to_value(item).unwrap(), serde_json::to_value(kept).unwrap());
            // A plan is told whole each time.
            for part in ["text", "aggregatedOutput"].iter().filter(|_| shown["type"] != "plan") {
                let text = |item: &Value| item[part].as_str().unwrap_or_default().to_owned();
                if !text(&kept).starts_with(&text(&shown)) {
                    return Some(format!("{part} was {}, and is {}", shown[part], kept[part]));
                }
            }
        }
    }
    None
}
