//! What a careful client knows of its threads, computed from snapshots and notifications alone; and the rules it relies
//! on, each of which fails the test when it is broken.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// All threads a client has heard of.
#[derive(Debug, Default)]
pub struct Model {
    threads: BTreeMap<String, ThreadModel>,
    /// The client has let the server wait, or is sent more than it can take: deltas may be dropped.
    pub(crate) lags: bool,
    /// The client has opted out of some notifications: what they tell it learns later.
    pub(crate) opted_out: bool,
    /// A bridge may carry the client from one server to the next.
    pub(crate) other_lives: bool,
}

/// One thread as the client knows it.
#[derive(Debug, Default)]
pub struct ThreadModel {
    /// `thread.status`, as told last.
    pub status: Value,
    /// The title, as told last.
    pub name: Option<String>,
    /// The turns, in order.
    pub turns: Vec<TurnModel>,
    /// Approvals that wait, with what was asked.
    pub pending: BTreeMap<String, Value>,
    /// The revision of the activity told last.
    pub revision: Option<u64>,
    followed: bool,
    /// Approvals it was told of. A request that is withdrawn before it was sent is never seen.
    told_of: BTreeSet<String>,
    /// Turns that began before it was joined are not known.
    outline: bool,
    cursor: Option<(String, u64)>,
    seq: u64,
}

/// One turn as the client knows it.
#[derive(Debug, Default)]
pub struct TurnModel {
    /// Its id.
    pub id: String,
    /// `inProgress`, `completed`, `interrupted` or `failed`.
    pub status: String,
    /// Why it failed.
    pub error: Value,
    /// Its items, in order.
    pub items: Vec<Value>,
    /// The plan, as told last.
    pub plan: Value,
    /// The diff, as told last.
    pub diff: Value,
    /// The usage, as told last.
    pub usage: Value,
    open: BTreeSet<String>,
    /// Items that were told to be complete since the snapshot, which may have had the change that is told later.
    completed: BTreeSet<String>,
    /// Items whose text is the sum of what was told, from the very first.
    summed: BTreeSet<String>,
}

type Check = Result<(), String>;

impl Model {
    /// What is known of a thread.
    ///
    /// # Panics
    /// If nothing is.
    #[must_use]
    pub fn thread(&self, id: &str) -> &ThreadModel {
        self.threads.get(id).unwrap_or_else(|| panic!("nothing is known of thread {id}"))
    }

    /// The threads of which it knows the turns.
    #[must_use]
    pub fn followed(&self) -> Vec<String> {
        self.threads.iter().filter(|(_, thread)| thread.followed).map(|(id, _)| id.clone()).collect()
    }

    /// A thread was started or joined, by a call with these params: this is all of it up to now. Or it is continued, so
    /// that what was missed follows.
    pub(crate) fn opened(&mut self, params: &Value, result: &Value) -> Check {
        let thread = &result["thread"];
        let id = text(&thread["id"])?;
        let is_new = !self.threads.contains_key(&id);
        let known = self.threads.entry(id).or_default();
        known.followed = true;
        // What still waits is asked again.
        known.pending.clear();
        if result["continued"] == true {
            known.outline |= is_new;
            // What everybody was told meanwhile is told once more, in its place.
            known.cursor = Some(split(&text(&params["afterCursor"])?)?);
            known.seq = 0;
            known.revision = None;
            return Ok(());
        }
        known.outline = false;
        known.turns = array(&thread["turns"]).iter().map(TurnModel::of).collect::<Result<_, _>>()?;
        known.status = thread["status"].clone();
        known.name = thread["name"].as_str().map(str::to_owned);
        known.seq = known.seq.max(result["snapshotSeq"].as_u64().unwrap_or(0));
        if let Some(cursor) = result["cursor"].as_str() {
            known.cursor = Some(split(cursor)?);
        }
        Ok(())
    }

    /// The result that came last has left out the turns.
    pub(crate) fn is_outline(&mut self, thread: &str) {
        if let Some(known) = self.threads.get_mut(thread) {
            known.outline = true;
        }
    }

    /// Takes in a notification.
    pub(crate) fn told(&mut self, method: &str, params: &Value) -> Check {
        if method == "thread/started" {
            let id = text(&params["thread"]["id"])?;
            let known = self.threads.entry(id).or_default();
            known.place(params, self.other_lives)?;
            // Its maker has been given the thread already, in the answer that precedes this.
            if !known.followed {
                known.status = params["thread"]["status"].clone();
            }
            return Ok(());
        }
        let Some(id) = params["threadId"].as_str() else { return Ok(()) };
        let Some(thread) = self.threads.get_mut(id) else { return Ok(()) };
        thread.place(params, self.other_lives)?;
        if method == "thread/deleted" {
            self.threads.remove(id);
            return Ok(());
        }
        if method != "turn/started" && thread.leaves_out(params) {
            return Ok(());
        }
        thread.told(method, params, self.lags, self.opted_out)
    }

    /// Takes in a request of the server.
    pub(crate) fn asked(&mut self, id: &str, params: &Value) -> Check {
        if params["approvalId"] != id {
            return Err(format!("the id of a server request is its approvalId, not {id}"));
        }
        let thread = self.threads.get_mut(params["threadId"].as_str().unwrap_or_default());
        let thread = thread.ok_or("asked about a thread that the client does not follow")?;
        if thread.leaves_out(params) {
            return Ok(());
        }
        let turn = thread.turn(&params["turnId"])?;
        if turn.status != "inProgress" {
            return Err(format!("asked in turn {}, which is {}", turn.id, turn.status));
        }
        if let Some(item) = params["itemId"].as_str()
            && !turn.open.contains(item)
        {
            return Err(format!("asked about item {item}, which is not open"));
        }
        for decision in ["decline", "cancel"] {
            if !array(&params["availableDecisions"]).iter().any(|offered| offered == decision) {
                return Err(format!("{decision} is not offered"));
            }
        }
        match thread.pending.insert(id.to_owned(), params.clone()) {
            Some(_) => Err(format!("asked twice about {id}")),
            None => Ok(()),
        }
    }
}

impl ThreadModel {
    /// The newest turn.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn newest(&self) -> &TurnModel {
        self.turns.last().expect("the thread has a turn")
    }

    /// The turns as `thread/read` would give them: what both sides know, without times.
    #[must_use]
    pub fn content(&self) -> Value {
        self.turns.iter().map(TurnModel::content).collect()
    }

    /// Whether this is about a turn that was left out when the thread was joined.
    fn leaves_out(&self, params: &Value) -> bool {
        let turn = params["turnId"].as_str().or(params["turn"]["id"].as_str());
        self.outline && turn.is_some_and(|turn| self.turns.iter().all(|known| known.id != turn))
    }

    fn place(&mut self, params: &Value, other_lives: bool) -> Check {
        let seq = params["seq"].as_u64().ok_or("a notification without seq")?;
        if seq < self.seq {
            return Err(format!("seq went back from {} to {seq}", self.seq));
        }
        self.seq = seq;
        let (epoch, place) = split(&text(&params["cursor"])?)?;
        if let Some((before, at)) = &self.cursor
            && if *before == epoch { *at >= place } else { !other_lives }
        {
            return Err(format!("cursor {epoch}-{place} follows {before}-{at}"));
        }
        self.cursor = Some((epoch, place));
        Ok(())
    }

    fn told(&mut self, method: &str, params: &Value, lags: bool, opted_out: bool) -> Check {
        match method {
            "thread/status/changed" => self.status = params["status"].clone(),
            "thread/name/updated" => self.name = params["threadName"].as_str().map(str::to_owned),
            "thread/activity/changed" => {
                let revision =
                    params["activity"]["revision"].as_u64().ok_or("an activity without revision")?;
                if self.revision.is_some_and(|before| before > revision) {
                    return Err(format!("activity went back to revision {revision}"));
                }
                self.revision = Some(revision);
                let pending = array(&params["activity"]["state"]["pending"]).iter();
                self.told_of
                    .extend(pending.filter_map(|input| input["input_id"].as_str().map(str::to_owned)));
            }
            "turn/started" => {
                if let Some(turn) = self.turns.iter().find(|turn| turn.status == "inProgress") {
                    return Err(format!("a turn started while {} runs", turn.id));
                }
                self.turns.push(TurnModel::of(&params["turn"])?);
            }
            "thread/reverted" => {
                let before = self.turns.iter().position(|turn| turn.id == params["beforeTurnId"]);
                self.turns.truncate(before.unwrap_or(self.turns.len()));
            }
            "turn/completed" => return self.turn_ended(&params["turn"], opted_out),
            "turn/plan/updated" => self.turn(&params["turnId"])?.plan = params["plan"].clone(),
            "turn/diff/updated" => self.turn(&params["turnId"])?.diff = params["diff"].clone(),
            "thread/tokenUsage/updated" => self.turn(&params["turnId"])?.usage = params["tokenUsage"].clone(),
            "item/started" => self.turn(&params["turnId"])?.item_started(&params["item"])?,
            "item/completed" => return self.item_completed(params, lags),
            "approval/requested" => {
                self.told_of.insert(text(&params["approval"]["approvalId"])?);
            }
            "serverRequest/resolved" => {
                let id = text(&params["requestId"])?;
                let known = self.pending.remove(&id).is_some() | self.told_of.remove(&id);
                // What the policy decides by itself is told too, so that it can be seen.
                if !known && params["by"]["kind"] != "policy" && !self.outline {
                    return Err(format!("{id} was resolved, but never asked"));
                }
            }
            "item/agentMessage/delta" | "item/plan/delta" => {
                self.turn(&params["turnId"])?.more(params, &["text"])?;
            }
            "item/commandExecution/outputDelta" => {
                self.turn(&params["turnId"])?.more(params, &["aggregatedOutput"])?;
            }
            "item/reasoning/summaryPartAdded" => self.turn(&params["turnId"])?.new_part(params)?,
            "item/reasoning/summaryTextDelta" => {
                let part = params["summaryIndex"].to_string();
                self.turn(&params["turnId"])?.more(params, &["summary", &part])?;
            }
            "item/fileChange/patchUpdated" => {
                let changes = params["changes"].clone();
                self.turn(&params["turnId"])?.open_item(&params["itemId"])?["changes"] = changes;
            }
            _ => {}
        }
        Ok(())
    }

    fn turn(&mut self, id: &Value) -> Result<&mut TurnModel, String> {
        let turn = self.turns.iter_mut().find(|turn| *id == turn.id);
        turn.ok_or_else(|| format!("turn {id} was never started"))
    }

    fn turn_ended(&mut self, ended: &Value, opted_out: bool) -> Check {
        let id = text(&ended["id"])?;
        if let Some((approval, _)) = self.pending.iter().find(|(_, asked)| asked["turnId"] == id) {
            return Err(format!("turn {id} ended with approval {approval} open"));
        }
        let active = self.status["type"] == "active";
        let turn = self.turn(&ended["id"])?;
        if turn.status != "inProgress" {
            return Err(format!("turn {id} ended twice"));
        }
        if let Some(item) = turn.open.first() {
            return Err(format!("turn {id} ended with item {item} open"));
        }
        turn.status = text(&ended["status"])?;
        turn.error = ended["error"].clone();
        for (known, told) in [
            (&mut turn.plan, &ended["plan"]),
            (&mut turn.diff, &ended["diff"]),
            (&mut turn.usage, &ended["tokenUsage"]),
        ] {
            if opted_out {
                *known = told.clone();
            }
            if *known != *told {
                return Err(format!("at the end of turn {id} there is {told}, told before was {known}"));
            }
        }
        if turn.status == "inProgress" {
            return Err(format!("turn {id} ended in progress"));
        }
        if active {
            return Err(format!("turn {id} ended, but the thread was not told to be idle before"));
        }
        Ok(())
    }

    fn item_completed(&mut self, params: &Value, lags: bool) -> Check {
        let item = &params["item"];
        let id = text(&item["id"])?;
        if let Some((approval, _)) = self.pending.iter().find(|(_, asked)| asked["itemId"] == id) {
            return Err(format!("item {id} completed with its approval {approval} open"));
        }
        if item["status"] == "inProgress" {
            return Err(format!("item {id} completed in progress"));
        }
        self.turn(&params["turnId"])?.item_completed(&id, item, lags)
    }
}

impl TurnModel {
    fn of(turn: &Value) -> Result<Self, String> {
        let status = text(&turn["status"])?;
        let items = array(&turn["items"]).to_vec();
        // What a snapshot shows as open goes on with deltas.
        let open: BTreeSet<String> = items
            .iter()
            .filter(|item| status == "inProgress" && item["completedAtMs"].is_null())
            .filter_map(|item| item["id"].as_str().map(str::to_owned))
            .collect();
        // Of what a snapshot had no room for, the pieces do not add up to the end.
        let is_cut = |id: &String| {
            let is_cut = |item: &Value| item["cutTexts"].as_array().is_some_and(|texts| !texts.is_empty());
            items.iter().any(|item| item["id"] == id.as_str() && is_cut(item))
        };
        let summed = open.iter().filter(|id| !is_cut(id)).cloned().collect();
        Ok(Self {
            id: text(&turn["id"])?,
            status,
            error: turn["error"].clone(),
            items,
            plan: turn["plan"].clone(),
            diff: turn["diff"].clone(),
            usage: turn["tokenUsage"].clone(),
            summed,
            completed: BTreeSet::new(),
            open,
        })
    }

    /// The item of this id.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn item(&self, id: &str) -> &Value {
        self.items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("no item {id}"))
    }

    /// The only item of this type.
    ///
    /// # Panics
    /// If there is none, or more than one.
    #[must_use]
    pub fn only(&self, kind: &str) -> &Value {
        let found: Vec<&Value> = self.items.iter().filter(|item| item["type"] == kind).collect();
        match found[..] {
            [item] => item,
            _ => panic!("{} items of type {kind} in {:#?}", found.len(), self.items),
        }
    }

    /// The texts of the agent's messages, joined.
    #[must_use]
    pub fn said(&self) -> String {
        let messages = self.items.iter().filter(|item| item["type"] == "agentMessage");
        messages.filter_map(|item| item["text"].as_str()).collect()
    }

    /// What `thread/read` has of a turn too.
    #[must_use]
    pub fn content(&self) -> Value {
        content(&self.id, &self.status, &self.error, &self.items, [&self.plan, &self.diff, &self.usage])
    }

    fn item_started(&mut self, item: &Value) -> Check {
        let id = text(&item["id"])?;
        if self.items.iter().any(|known| known["id"] == id) {
            return Err(format!("item {id} started twice"));
        }
        if self.status != "inProgress" && item["late"] != true {
            return Err(format!("item {id} started after the end of its turn, and is not late"));
        }
        self.items.push(item.clone());
        self.open.insert(id.clone());
        self.summed.insert(id);
        Ok(())
    }

    fn item_completed(&mut self, id: &str, item: &Value, lags: bool) -> Check {
        let known = self.items.iter_mut().find(|known| known["id"] == id);
        let known = known.ok_or_else(|| format!("item {id} completed, but never started"))?;
        if known["type"] != item["type"] {
            return Err(format!("item {id} was {} and is {}", known["type"], item["type"]));
        }
        // What has changed since its completion is told again when its turn settles, or later.
        self.open.remove(id);
        if !self.completed.insert(id.to_owned()) && self.status == "inProgress" && known == item {
            return Err(format!("item {id} completed twice without a change"));
        }
        // What was told piece by piece is what is told at the end. A client that falls behind may miss pieces at the end
        // of a text, but never one in the middle.
        // A plan is told whole each time, so its text may be another in the end.
        if self.summed.remove(id) && item["type"] != "plan" {
            for member in ["text", "summary", "aggregatedOutput"] {
                let (told, whole) = (&known[member], &item[member]);
                if !told.is_null() && told != whole && !(lags && begins(whole, told)) {
                    return Err(format!("{member} of item {id} is {whole}, told was {told}"));
                }
            }
        }
        *known = item.clone();
        Ok(())
    }

    fn open_item(&mut self, id: &Value) -> Result<&mut Value, String> {
        if !id.as_str().is_some_and(|id| self.open.contains(id)) {
            return Err(format!("told more of item {id}, which is not open"));
        }
        let item = self.items.iter_mut().find(|item| item["id"] == *id);
        item.ok_or_else(|| format!("item {id} was never started"))
    }

    fn more(&mut self, params: &Value, path: &[&str]) -> Check {
        let delta = params["delta"].as_str().ok_or("a delta without text")?;
        let mut place = self.open_item(&params["itemId"])?;
        for step in path {
            place = match step.parse::<usize>() {
                Ok(index) => place.get_mut(index).ok_or(format!("there is no part {index}"))?,
                Err(_) => &mut place[*step],
            };
        }
        match place {
            Value::String(text) => text.push_str(delta),
            place => *place = Value::String(delta.to_owned()),
        }
        Ok(())
    }

    fn new_part(&mut self, params: &Value) -> Check {
        let index = params["summaryIndex"].as_u64().unwrap_or(u64::MAX);
        let item = self.open_item(&params["itemId"])?;
        let parts = item["summary"].as_array_mut().ok_or("a part of what is no reasoning")?;
        match u64::try_from(parts.len()) {
            Ok(there) if there == index => parts.push(json!("")),
            Ok(there) if there > index => {}
            _ => return Err(format!("part {index} follows part {}", parts.len())),
        }
        Ok(())
    }
}

/// What is equal live and after a reload. Of the usage these are the tokens that the agent reported; how full its context
/// is, is the state of a running agent and no part of a turn's history.
pub(crate) fn content(
    id: &str,
    status: &str,
    error: &Value,
    items: &[Value],
    [plan, diff, usage]: [&Value; 3],
) -> Value {
    json!({ "id": id, "status": status, "error": error, "items": items, "plan": plan, "diff": diff, "tokenUsage": usage["total"] })
}

/// The turns of a stored thread, in the form of [`ThreadModel::content`].
pub(crate) fn stored_content(thread: &Value) -> Value {
    let turns = array(&thread["turns"]).iter();
    turns
        .map(|turn| {
            content(
                turn["id"].as_str().unwrap_or_default(),
                turn["status"].as_str().unwrap_or_default(),
                &turn["error"],
                array(&turn["items"]),
                [&turn["plan"], &turn["diff"], &turn["tokenUsage"]],
            )
        })
        .collect()
}

/// Whether a text, or a list of texts, begins so.
fn begins(whole: &Value, told: &Value) -> bool {
    match (whole, told) {
        (Value::String(whole), Value::String(told)) => whole.starts_with(told.as_str()),
        (Value::Array(whole), Value::Array(told)) => {
            told.len() <= whole.len() && whole.iter().zip(told).all(|(whole, told)| begins(whole, told))
        }
        _ => false,
    }
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{value} is no text"))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn split(cursor: &str) -> Result<(String, u64), String> {
    let (epoch, place) = cursor.rsplit_once('-').ok_or_else(|| format!("{cursor} is no cursor"))?;
    let place = place.parse().map_err(|_| format!("{cursor} is no cursor"))?;
    Ok((epoch.to_owned(), place))
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
