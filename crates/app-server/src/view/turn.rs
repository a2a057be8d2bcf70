//! The newest turn while its facts are folded: which items are open, what closes them, what is told about them.
//!
//! The rules that close an item are those by which the engine assigns them: a message ends where another item starts,
//! never by output or updates of an item that is already there; and whatever is open ends with the turn.

use signalbox_facts::{
    AgentText, ContextCompaction, Fact, Failure, Plan, Prompt, Seq, SessionId, ToolCall, ToolOutput,
    ToolStatus, TurnContext, TurnDiff, TurnEnded, TurnId, TurnRow, TurnStatus,
};
use signalbox_protocol::app::{
    CutText, ErrorNotification, FileChangePatchUpdatedNotification, ItemBody, ItemCompletedNotification,
    ItemStartedNotification, ReasoningSummaryPartAddedNotification, ThreadItem, ThreadTokenUsage, Turn,
    TurnApproval, TurnCompletedNotification, TurnDiffUpdatedNotification, TurnItemsView, TurnPlanStep,
    TurnPlanUpdatedNotification, TurnStartedNotification,
};

use super::convert;
use super::cut::{self, json_size};
use super::effects::{DeltaKind, Out};
use super::gap::Step;
use super::items::{self, Told};
use super::long::Rest;

/// Answered approvals that a turn shows.
const MAX_APPROVALS: usize = 64;

/// A turn with its items.
#[derive(Clone, Debug)]
pub(super) struct TurnState {
    pub(super) thread: SessionId,
    pub(super) id: TurnId,
    /// Seq of its first fact.
    pub(super) first_seq: Seq,
    status: TurnStatus,
    failure: Option<Failure>,
    started_at_ms: i64,
    ended_at_ms: Option<i64>,
    context: Option<TurnContext>,
    slots: Vec<Slot>,
    /// Place of the message or thought that may still go on.
    open_text: Option<usize>,
    plan_slot: Option<usize>,
    plan: Option<Vec<TurnPlanStep>>,
    /// The steps of each plan, by the place of its item.
    plan_steps: Vec<(usize, Vec<TurnPlanStep>)>,
    diff: Option<TurnDiff>,
    approvals: Vec<TurnApproval>,
    pub(super) usage: Option<ThreadTokenUsage>,
    /// The fact that is being taken in, or was taken in last.
    pub(super) told_seq: Seq,
    /// The fact that ended it.
    pub(super) ended_seq: Seq,
    /// Its end has begun: what was open is closed, and what comes now is late.
    settled: bool,
    /// Most bytes that are held of one message or thought.
    limit: usize,
}

/// A turn, or the newest items of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnPart {
    /// The turn. Its `itemsView` is `full` if it has all items that were asked for.
    pub turn: Turn,
    /// Bytes it takes as JSON.
    pub bytes: usize,
    /// The first item that is there, if older ones are left out.
    pub items_before: Option<Seq>,
}

/// An item and what is known about the clients' knowledge of it.
#[derive(Clone, Debug)]
struct Slot {
    seq: Seq,
    item: ThreadItem,
    /// What follows the text in `item`, if that is too long to be held.
    rest: Rest,
    open: bool,
    told: Told,
    /// The fact by which its completion was told last.
    completed_seq: Seq,
    /// Its text was replaced: no delta can lead from what clients have to what is true, so there are none any more and
    /// `item/completed` brings it right.
    diverged: bool,
    /// It changed after its completion was told; that is made good when the turn ends.
    stale: bool,
}

impl TurnState {
    /// The turn that a prompt opens.
    pub(super) fn open(fact: &Fact, id: TurnId, first_seq: Seq, prompt: &Prompt, limit: usize) -> Self {
        Self {
            thread: fact.session,
            id,
            first_seq,
            status: TurnStatus::InProgress,
            failure: None,
            started_at_ms: fact.at_ms,
            ended_at_ms: None,
            context: prompt.opens.as_deref().cloned(),
            slots: Vec::new(),
            open_text: None,
            plan_slot: None,
            plan: None,
            plan_steps: Vec::new(),
            diff: None,
            approvals: Vec::new(),
            usage: None,
            told_seq: fact.through_seq,
            ended_seq: 0,
            settled: false,
            limit,
        }
    }

    /// A turn of which only some items are of interest. If `settled`, they came after its end.
    pub(super) fn within(row: &TurnRow, settled: bool, limit: usize) -> Self {
        Self {
            thread: row.session,
            id: row.id,
            first_seq: row.first_seq,
            status: row.status,
            failure: row.failure.clone(),
            started_at_ms: row.started_at_ms,
            ended_at_ms: row.ended_at_ms,
            context: Some(row.context.clone()),
            slots: Vec::new(),
            open_text: None,
            plan_slot: None,
            plan: None,
            plan_steps: Vec::new(),
            diff: None,
            usage: None,
            approvals: Vec::new(),
            told_seq: 0,
            ended_seq: 0,
            settled,
            limit,
        }
    }

    /// Whether it runs.
    pub(super) fn is_open(&self) -> bool {
        self.status == TurnStatus::InProgress
    }

    /// How it stands or ended.
    pub(super) fn status(&self) -> TurnStatus {
        self.status
    }

    /// The item's body, if it is shown.
    pub(super) fn body(&self, seq: Seq) -> Option<&ItemBody> {
        self.find(seq).map(|place| &self.slots[place].item.body)
    }

    /// The whole turn.
    pub(super) fn snapshot(&self) -> Turn {
        Turn {
            items: (0..self.slots.len()).map(|place| self.whole(place)).collect(),
            items_view: TurnItemsView::Full,
            ..self.outline()
        }
    }

    /// The newest items that fit into `max` bytes of JSON, but at least one, each in at most `item_max`.
    pub(super) fn newest(&self, max: usize, item_max: usize) -> TurnPart {
        let mut turn = self.outline();
        if item_max < usize::MAX {
            turn = cut::outline(turn);
        }
        let mut bytes = json_size(&turn);
        let mut items_before = None;
        for place in (0..self.slots.len()).rev() {
            let (item, size) = self.shown(place, item_max);
            if bytes + size > max && !turn.items.is_empty() {
                items_before = Some(self.slots[place + 1].seq);
                break;
            }
            bytes += size + 1;
            turn.items.push(item);
        }
        turn.items.reverse();
        turn.items_view = if items_before.is_some() { TurnItemsView::Summary } else { TurnItemsView::Full };
        TurnPart { turn, bytes, items_before }
    }

    /// Of the items only what the user wrote first and what the agent said last.
    pub(super) fn brief(&self, item_max: usize) -> TurnPart {
        let mut turn = cut::outline(self.outline());
        let is_prompt = |slot: &Slot| matches!(slot.item.body, ItemBody::UserMessage { .. });
        let is_message = |slot: &Slot| matches!(slot.item.body, ItemBody::AgentMessage { .. });
        let places = [self.slots.iter().position(is_prompt), self.slots.iter().rposition(is_message)];
        turn.items = places.into_iter().flatten().map(|place| self.shown(place, item_max).0).collect();
        turn.items_view = TurnItemsView::Summary;
        TurnPart { bytes: json_size(&turn), turn, items_before: None }
    }

    /// The items with their seqs, each in at most `item_max` bytes of JSON, and how many it takes.
    pub(super) fn items(&self, item_max: usize) -> impl Iterator<Item = (Seq, ThreadItem, usize)> + '_ {
        (0..self.slots.len()).map(move |place| {
            let (item, size) = self.shown(place, item_max);
            (self.slots[place].seq, item, size)
        })
    }

    /// An item as it is held.
    pub(super) fn whole(&self, place: usize) -> ThreadItem {
        let slot = &self.slots[place];
        items::text(&slot.item.body)
            .filter(|text| slot.rest.total(text) > text.len() as u64)
            .map_or_else(|| slot.item.clone(), |text| self.shown_text(slot, text, usize::MAX))
    }

    /// An item in at most `max` bytes of JSON, and how many it takes.
    fn shown(&self, place: usize, max: usize) -> (ThreadItem, usize) {
        let slot = &self.slots[place];
        match items::text(&slot.item.body) {
            Some(text) if text.len() > max / 8 => {
                let item = self.shown_text(slot, text, max);
                let size = json_size(&item);
                (item, size)
            }
            _ => cut::item(self.whole(place), max),
        }
    }

    fn shown_text(&self, slot: &Slot, text: &str, max: usize) -> ThreadItem {
        /// What an item takes beside its text.
        const BESIDE: usize = 512;
        let (shown, is_whole) = slot.rest.shown(text, self.limit, max.saturating_sub(BESIDE));
        let (body, field) = items::with_text(&slot.item.body, shown);
        let cut = CutText { field: field.to_owned(), total_bytes: slot.rest.total(text) };
        ThreadItem {
            id: slot.item.id.clone(),
            body,
            started_at_ms: slot.item.started_at_ms,
            completed_at_ms: slot.item.completed_at_ms,
            late: slot.item.late,
            tool_call: None,
            output_truncated: !is_whole,
            cut_texts: if is_whole { Vec::new() } else { vec![cut] },
        }
    }

    /// The turn without items.
    pub(super) fn outline(&self) -> Turn {
        Turn {
            error: self.failure.as_ref().map(convert::error_out),
            root_turn_id: self
                .context
                .as_ref()
                .and_then(|context| context.root_turn)
                .map(|turn| turn.to_string()),
            plan: self.plan.clone(),
            diff: self.diff.as_ref().map(|diff| diff.diff.clone()),
            token_usage: self.usage.clone(),
            context: self.context.as_ref().map(convert::context_out),
            approvals: if self.is_open() { Vec::new() } else { self.approvals.clone() },
            ..convert::turn_out(self.id, self.status, Some(self.started_at_ms), self.ended_at_ms)
        }
    }

    /// The turn as its end is told: of the items only the last message.
    pub(super) fn summary(&self) -> Turn {
        let is_message = |slot: &Slot| matches!(slot.item.body, ItemBody::AgentMessage { .. });
        let last = self.slots.iter().rposition(is_message);
        Turn {
            items: last.map(|place| self.whole(place)).into_iter().collect(),
            items_view: TurnItemsView::Summary,
            ..self.outline()
        }
    }

    // ---- What was told when ----

    /// The starts and ends of items that were told by facts after this one, in their order.
    pub(super) fn steps_since(&self, since: Seq) -> Vec<(usize, Step)> {
        let mut steps = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.seq > since {
                steps.push((slot.seq, 1, place, Step::Start));
            }
            if !slot.open && slot.completed_seq > since {
                // What starts an item ends the one before it first, and its own last.
                let order = if slot.completed_seq == slot.seq { 2 } else { 0 };
                steps.push((slot.completed_seq, order, place, Step::End));
            }
        }
        steps.sort_by_key(|(seq, order, place, _)| (*seq, *order, *place));
        steps.into_iter().map(|(_, _, place, step)| (place, step)).collect()
    }

    /// The items that were there at this fact and are still open.
    pub(super) fn open_before(&self, since: Seq) -> impl Iterator<Item = (Seq, &ItemBody)> {
        let known = self.slots.iter().filter(move |slot| slot.open && slot.seq <= since);
        known.map(|slot| (slot.seq, &slot.item.body))
    }

    /// Tells that the turn began.
    pub(super) fn tell_started(&self, out: &mut Out<'_>) {
        out.subscribers(|| TurnStartedNotification { thread_id: self.thread_id(), turn: self.outline() });
    }

    /// Takes in a fact that makes items.
    pub(super) fn take<'f>(&mut self, fact: &'f Fact, out: &mut Out<'f>) {
        use signalbox_facts::FactBody as Body;
        debug_assert!(items::makes_item(&fact.body), "the view hands over nothing else");
        match &fact.body {
            Body::Prompt(prompt) => self.prompt(fact, prompt, out),
            Body::AgentText(text) => self.text(fact, text, false, out),
            Body::AgentThought(text) => self.text(fact, text, true, out),
            Body::ToolCall(call) => self.tool(fact, call, out),
            Body::ToolOutput(output) => self.output(fact, output, out),
            Body::Plan(plan) => self.plan(fact, plan, out),
            Body::ContextCompaction(compaction) => self.compaction(fact, compaction, out),
            _ => {}
        }
    }

    fn prompt(&mut self, fact: &Fact, prompt: &Prompt, out: &mut Out<'_>) {
        if let Some(place) = self.start(fact, || items::user_message(prompt), out) {
            self.complete(place, fact.at_ms, out);
        }
    }

    fn text<'f>(&mut self, fact: &Fact, chunk: &'f AgentText, thought: bool, out: &mut Out<'f>) {
        let place = if fact.starts_item() {
            let Some(place) = self.start(fact, || items::empty_text(thought), out) else { return };
            if thought {
                items::add_summary_part(&mut self.slots[place].item.body);
                out.subscribers(|| ReasoningSummaryPartAddedNotification {
                    thread_id: self.thread_id(),
                    turn_id: self.id.to_string(),
                    item_id: self.slots[place].item.id.clone(),
                    summary_index: 0,
                });
            }
            self.open_text = Some(place);
            place
        } else {
            let Some(place) = fact.item_seq.and_then(|seq| self.find(seq)) else { return };
            place
        };
        let slot = &mut self.slots[place];
        items::append_text(&mut slot.item.body, &chunk.text, &mut slot.rest, self.limit);
        if slot.open {
            let kind = if thought { DeltaKind::Reasoning } else { DeltaKind::AgentMessage };
            out.delta(self.thread, self.id, slot.seq, kind, &chunk.text);
            self.complete_late(place, fact.at_ms, out);
        } else {
            self.touched(place, out);
        }
    }

    fn tool(&mut self, fact: &Fact, call: &ToolCall, out: &mut Out<'_>) {
        if fact.starts_item() {
            self.announce(fact, call, out);
            return;
        }
        let Some(place) = fact.item_seq.and_then(|seq| self.find(seq)) else { return };
        let slot = &mut self.slots[place];
        let before = (!slot.open).then(|| slot.item.clone());
        let changes =
            (slot.open && !call.status.is_final()).then(|| items::changes(&slot.item.body).to_vec());
        items::update_tool(&mut slot.item.body, call, &mut slot.told);
        slot.item.tool_call = Some(items::tool_info(call));
        if let Some(before) = before {
            items::close(&mut slot.item);
            if slot.item != before {
                self.touched(place, out);
            }
        } else if call.status.is_final() {
            self.complete(place, fact.at_ms, out);
        } else if changes.is_some_and(|before| before != items::changes(&slot.item.body)) {
            let slot = &self.slots[place];
            out.subscribers(|| FileChangePatchUpdatedNotification {
                thread_id: self.thread_id(),
                turn_id: self.id.to_string(),
                item_id: slot.item.id.clone(),
                changes: items::changes(&slot.item.body).to_vec(),
            });
        }
    }

    fn announce(&mut self, fact: &Fact, call: &ToolCall, out: &mut Out<'_>) {
        let is_final = call.status.is_final();
        let fill = |slot: &mut Slot| {
            if is_final {
                // What comes whole is in progress for as long as it takes to say so.
                let begun = ToolCall { outcome: None, exit_code: None, ..call.clone() };
                let begun = ToolCall { status: ToolStatus::InProgress, error: None, ..begun };
                items::update_tool(&mut slot.item.body, &begun, &mut slot.told);
            } else {
                items::update_tool(&mut slot.item.body, call, &mut slot.told);
            }
            slot.item.tool_call = Some(items::tool_info(call));
        };
        let Some(place) = self.start_with(fact, || items::tool(call), fill, out) else { return };
        if is_final {
            let slot = &mut self.slots[place];
            items::update_tool(&mut slot.item.body, call, &mut slot.told);
            self.complete(place, fact.at_ms, out);
        }
        self.complete_late(place, fact.at_ms, out);
    }

    fn output<'f>(&mut self, fact: &Fact, output: &'f ToolOutput, out: &mut Out<'f>) {
        let Some(place) = fact.item_seq.and_then(|seq| self.find(seq)) else { return };
        let slot = &mut self.slots[place];
        let had = items::has_output(&slot.item.body);
        items::append_output(&mut slot.item.body, &output.text, output.replace, &mut slot.told);
        if output.replace && had {
            slot.diverged = true;
        }
        if !slot.open {
            self.touched(place, out);
        } else if items::streams_output(&slot.item.body) && !slot.diverged {
            out.delta(self.thread, self.id, slot.seq, DeltaKind::CommandOutput, &output.text);
        }
    }

    fn plan<'f>(&mut self, fact: &Fact, plan: &'f Plan, out: &mut Out<'f>) {
        let started = fact.starts_item();
        let place = if started {
            // Markdown comes as deltas from nothing, a list of entries at once.
            let text = if plan.markdown.is_some() { String::new() } else { items::plan_text(plan) };
            let Some(place) = self.start(fact, || ItemBody::Plan { text }, out) else { return };
            self.plan_slot = Some(place);
            place
        } else {
            let known = fact.item_seq.and_then(|seq| self.find(seq));
            let Some(place) = known.or(self.plan_slot) else { return };
            place
        };
        let slot = &mut self.slots[place];
        let mut changed = false;
        if let ItemBody::Plan { text } = &mut slot.item.body {
            match plan.markdown.as_deref().map(|markdown| markdown.strip_prefix(text.as_str())) {
                Some(Some(more)) if slot.open && !slot.diverged => {
                    text.push_str(more);
                    out.delta(self.thread, self.id, slot.seq, DeltaKind::Plan, more);
                }
                _ => {
                    let whole = items::plan_text(plan);
                    changed = whole != *text;
                    slot.diverged |= changed;
                    *text = whole;
                }
            }
        }
        let own = convert::plan_out(&plan.entries);
        match self.plan_steps.iter_mut().find(|(of, _)| *of == place) {
            Some((_, steps)) => *steps = own,
            None => self.plan_steps.push((place, own)),
        }
        // An agent may have several plans; the turn's is all of them.
        let steps: Vec<_> = self.plan_steps.iter().flat_map(|(_, steps)| steps.iter().cloned()).collect();
        let known = self.plan.as_deref().unwrap_or_default();
        if known != steps {
            self.plan = Some(steps);
            self.tell_plan(out);
        }
        if started {
            self.complete_late(place, fact.at_ms, out);
        } else if changed && !self.slots[place].open {
            self.touched(place, out);
        }
    }

    fn compaction(&mut self, fact: &Fact, compaction: &ContextCompaction, out: &mut Out<'_>) {
        let place = if fact.starts_item() {
            self.start(fact, || ItemBody::ContextCompaction { summary: None }, out)
        } else {
            fact.item_seq.and_then(|seq| self.find(seq))
        };
        let Some(place) = place else { return };
        if let (ItemBody::ContextCompaction { summary }, Some(told)) =
            (&mut self.slots[place].item.body, &compaction.summary)
            && summary.as_ref() != Some(told)
        {
            *summary = Some(told.clone());
            if !self.slots[place].open {
                self.touched(place, out);
            }
        }
        if items::is_final(compaction.status) && self.slots[place].open {
            self.complete(place, fact.at_ms, out);
        }
        self.complete_late(place, fact.at_ms, out);
    }

    /// Takes in the diff of the turn so far.
    pub(super) fn set_diff(&mut self, diff: &TurnDiff, out: &mut Out<'_>) {
        if self.diff.as_ref() != Some(diff) {
            self.diff = Some(diff.clone());
            self.tell_diff(out);
        }
    }

    /// Keeps what became of an approval.
    pub(super) fn approval_resolved(&mut self, approval: TurnApproval) {
        if self.approvals.len() == MAX_APPROVALS {
            self.approvals.remove(0);
        }
        self.approvals.push(approval);
    }

    /// The turn's end begins: everything open is completed, and what changed after its completion is told again.
    pub(super) fn settle(&mut self, at_ms: i64, out: &mut Out<'_>) {
        for place in 0..self.slots.len() {
            if self.slots[place].open {
                self.complete(place, at_ms, out);
            } else if self.slots[place].stale {
                self.slots[place].stale = false;
                self.tell_completed(place, out);
            }
        }
        self.open_text = None;
        self.settled = true;
    }

    /// The turn has ended.
    pub(super) fn end(&mut self, at_ms: i64, ended: &TurnEnded, out: &mut Out<'_>) {
        self.settle(at_ms, out);
        self.status = ended.status;
        self.ended_seq = self.told_seq;
        self.ended_at_ms = Some(at_ms);
        self.failure = match (&ended.failure, ended.status) {
            (_, TurnStatus::Completed | TurnStatus::InProgress) => None,
            (None, TurnStatus::Failed) => Some(unknown_failure()),
            (failure, _) => failure.clone(),
        };
        if let Some(failure) = self.failure.as_ref().filter(|_| ended.status == TurnStatus::Failed) {
            out.subscribers(|| ErrorNotification {
                thread_id: self.thread_id(),
                turn_id: self.id.to_string(),
                error: convert::error_out(failure),
                will_retry: false,
                request_id: ended.request_id.clone(),
            });
        }
        out.subscribers(|| TurnCompletedNotification { thread_id: self.thread_id(), turn: self.summary() });
    }

    /// Tells the plan, if there is one.
    pub(super) fn tell_plan(&self, out: &mut Out<'_>) {
        if let Some(plan) = &self.plan {
            out.subscribers(|| TurnPlanUpdatedNotification {
                thread_id: self.thread_id(),
                turn_id: self.id.to_string(),
                explanation: None,
                plan: plan.clone(),
            });
        }
    }

    /// Tells the diff, if there is one.
    pub(super) fn tell_diff(&self, out: &mut Out<'_>) {
        if let Some(diff) = &self.diff {
            out.subscribers(|| TurnDiffUpdatedNotification {
                thread_id: self.thread_id(),
                turn_id: self.id.to_string(),
                diff: diff.diff.clone(),
                truncated: diff.truncated,
                partial: diff.partial,
            });
        }
    }

    // ---- Items ----

    fn start(&mut self, fact: &Fact, body: impl FnOnce() -> ItemBody, out: &mut Out<'_>) -> Option<usize> {
        self.start_with(fact, body, |_| {}, out)
    }

    /// A new item, which ends the message before it. `None` if it is not new after all.
    fn start_with(
        &mut self,
        fact: &Fact,
        body: impl FnOnce() -> ItemBody,
        fill: impl FnOnce(&mut Slot),
        out: &mut Out<'_>,
    ) -> Option<usize> {
        if self.slots.last().is_some_and(|last| last.seq >= fact.seq) {
            return None;
        }
        if let Some(text) = self.open_text.take().filter(|&place| self.slots[place].open) {
            self.complete(text, fact.at_ms, out);
        }
        let mut item = items::item(fact.seq, fact.at_ms, body());
        item.late = self.settled;
        let mut slot = Slot {
            seq: fact.seq,
            item,
            rest: Rest::default(),
            open: true,
            told: Told::default(),
            completed_seq: 0,
            diverged: false,
            stale: false,
        };
        fill(&mut slot);
        let place = self.slots.len();
        self.slots.push(slot);
        let slot = &self.slots[place];
        out.subscribers(|| ItemStartedNotification {
            thread_id: self.thread_id(),
            turn_id: self.id.to_string(),
            item: slot.item.clone(),
            started_at_ms: fact.at_ms,
        });
        Some(place)
    }

    fn complete(&mut self, place: usize, at_ms: i64, out: &mut Out<'_>) {
        let slot = &mut self.slots[place];
        slot.open = false;
        slot.stale = false;
        slot.item.completed_at_ms = Some(at_ms);
        items::close(&mut slot.item);
        self.tell_completed(place, out);
    }

    /// An item that comes after its turn's end is complete as it comes.
    fn complete_late(&mut self, place: usize, at_ms: i64, out: &mut Out<'_>) {
        if self.settled && self.slots[place].open {
            self.complete(place, at_ms, out);
        }
    }

    /// A completed item has changed. While the turn runs that waits for its end; after it, clients are told at once.
    fn touched(&mut self, place: usize, out: &mut Out<'_>) {
        if self.settled {
            self.tell_completed(place, out);
        } else {
            self.slots[place].stale = true;
        }
    }

    fn tell_completed(&mut self, place: usize, out: &mut Out<'_>) {
        self.slots[place].completed_seq = self.told_seq;
        out.subscribers(|| ItemCompletedNotification {
            thread_id: self.thread_id(),
            turn_id: self.id.to_string(),
            item: self.whole(place),
            completed_at_ms: self.slots[place].item.completed_at_ms.unwrap_or_default(),
        });
    }

    fn find(&self, seq: Seq) -> Option<usize> {
        self.slots.binary_search_by_key(&seq, |slot| slot.seq).ok()
    }

    fn thread_id(&self) -> String {
        self.thread.to_string()
    }
}

/// A turn as it was when it began.
pub(super) fn begun(turn: Turn) -> Turn {
    let status = convert::turn_status_out(TurnStatus::InProgress);
    Turn { status, error: None, completed_at: None, duration_ms: None, ..turn }
}

fn unknown_failure() -> Failure {
    Failure {
        reason: "internal".to_owned(),
        message: "The turn failed.".to_owned(),
        retryable: false,
        data: serde_json::Map::new(),
    }
}
