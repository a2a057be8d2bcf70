//! A played client that checks what it is told: everything once, in an order that makes sense.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What a client has been told, and what it waits for.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Turns in the order in which they began, with how they ended.
    pub(super) turns: Vec<(String, Option<String>)>,
    /// Items by thread and id, with whether they are complete.
    pub(super) items: BTreeMap<String, bool>,
    pub(super) pending: BTreeSet<String>,
    /// Requests that wait for their answers.
    pub(super) asked: BTreeSet<String>,
    pub(super) plans: usize,
    pub(super) resyncs: Vec<String>,
    pub(super) warnings: usize,
    cursors: BTreeMap<String, (u64, u64)>,
    seqs: BTreeMap<String, u64>,
    plan: BTreeMap<String, (Value, Value)>,
}

impl Client {
    pub(super) fn told(&mut self, frame: &[u8]) {
        let frame: Value = serde_json::from_slice(frame).unwrap();
        if let Some(batch) = frame.as_array() {
            batch.iter().for_each(|answer| self.answered(answer));
            return;
        }
        let Some(method) = frame["method"].as_str() else { return self.answered(&frame) };
        let params = &frame["params"];
        if let Some(id) = frame["id"].as_str() {
            assert!(self.pending.insert(id.to_owned()), "asked twice: {frame}");
            let item = key(params, &params["itemId"]);
            assert_eq!(self.items.get(&item), Some(&false), "asked about no open item: {frame}");
            return;
        }
        self.place(params, &frame);
        let turn = || text(&params["turn"]["id"]);
        let item = || key(params, &params["item"]["id"]);
        let thread = text(&params["threadId"]);
        let (of_turns, of_items) = (format!("turn-{thread}-"), format!("{thread}/"));
        match method {
            "turn/started" => {
                assert!(self.turns.iter().all(|(known, _)| *known != turn()), "began twice: {frame}");
                let mut of_thread = self.turns.iter().filter(|(id, _)| id.starts_with(&of_turns));
                assert!(of_thread.all(|(_, ended)| ended.is_some()), "another runs: {frame}");
                self.turns.push((turn(), None));
            }
            "turn/completed" => {
                let known = self.turns.iter_mut().find(|(known, _)| *known == turn());
                let (_, ended) = known.unwrap_or_else(|| panic!("ended, never began: {frame}"));
                assert_eq!(ended.replace(text(&params["turn"]["status"])), None, "ended twice: {frame}");
                let mut of_thread = self.items.iter().filter(|(id, _)| id.starts_with(&of_items));
                assert!(of_thread.all(|(_, complete)| *complete), "items are open: {frame}");
                let approvals = format!("approval-{thread}-");
                assert!(
                    !self.pending.iter().any(|id| id.starts_with(&approvals)),
                    "an approval waits: {frame}"
                );
            }
            "item/started" => {
                assert_eq!(self.items.insert(item(), false), None, "began twice: {frame}");
                self.runs(&params["turnId"], &frame);
            }
            "item/completed" => {
                assert_eq!(self.items.insert(item(), true), Some(false), "not open: {frame}");
                assert!(!params["item"]["completedAtMs"].is_null() || params["item"]["status"] == "failed");
            }
            "item/agentMessage/delta" => {
                let item = key(params, &params["itemId"]);
                assert_eq!(self.items.get(&item), Some(&false), "not open: {frame}");
            }
            "serverRequest/resolved" => {
                assert!(self.pending.remove(&text(&params["requestId"])), "not asked: {frame}");
            }
            "turn/plan/updated" => {
                let told = (params["turnId"].clone(), params["plan"].clone());
                assert_ne!(self.plan.insert(thread, told.clone()), Some(told), "told twice: {frame}");
                self.plans += 1;
            }
            "thread/resyncRequired" => self.resyncs.push(text(&params["threadId"])),
            "warning" => self.warnings += 1,
            _ => {}
        }
    }

    fn answered(&mut self, answer: &Value) {
        assert!(self.asked.remove(&answer["id"].to_string()), "answered twice, or never asked: {answer}");
    }

    fn runs(&self, turn: &Value, frame: &Value) {
        let known = self.turns.iter().any(|(known, ended)| *turn == known.as_str() && ended.is_none());
        assert!(known, "in no open turn: {frame}");
    }

    fn place(&mut self, params: &Value, frame: &Value) {
        let thread = text(&params["threadId"]);
        let cursor = text(&params["cursor"]);
        let (life, place) = cursor.split_once('-').unwrap();
        let now = (life.parse().unwrap(), place.parse().unwrap());
        if let Some(before) = self.cursors.insert(thread.clone(), now) {
            assert!(before < now, "{before:?} was before: {frame}");
        }
        let seq = params["seq"].as_u64().unwrap();
        let before = self.seqs.insert(thread, seq).unwrap_or(0);
        assert!(before <= seq, "{before} was before: {frame}");
    }
}

fn key(params: &Value, item: &Value) -> String {
    format!("{}/{}", text(&params["threadId"]), text(item))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
