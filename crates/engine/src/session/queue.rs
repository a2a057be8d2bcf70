//! The durable queue of follow-ups: it goes on after a completed turn, and pauses after any other end until the next
//! accepted prompt.

use signalbox_facts::{DocBlock, FactBody, QueueChanged, QueuePause, QueuedPrompt, TurnId};
use signalbox_protocol::ops::{SettingsPatch, TurnInput, TurnMode};

use super::actor::Actor;
use super::turns::{Admitted, Start, causes, empty_input, is_blank, not_stored, used_before};
use crate::batch::Item;
use crate::convert;
use crate::submission::{Accepted, OpError, Origin};

/// Follow-ups that one session may hold.
const MAX_ENTRIES: usize = 64;
/// Bytes that they may take together: every change of the queue stores the whole of it.
const MAX_BYTES: usize = 1 << 20;

impl Actor {
    fn queue(&self) -> QueueChanged {
        self.row.queue.clone().unwrap_or_default()
    }

    /// Whether a follow-up is to start now.
    pub(super) fn queue_is_due(&self) -> bool {
        let waits = |queue: &QueueChanged| !queue.paused && !queue.entries.is_empty();
        self.turn.is_none()
            && !self.row.archived
            && !self.row.worktree_discarded
            && self.row.queue.as_ref().is_some_and(waits)
    }

    /// Starts the follow-up that is next. One that cannot start pauses the queue, and people are told why.
    pub(super) async fn run_queue(&mut self) {
        let Some(next) = self.row.queue.as_ref().and_then(|queue| queue.entries.first()).cloned() else {
            return;
        };
        let request_id = next.request_id.clone();
        match self.start_queued(next).await {
            Ok(_) => self.drive_prompt().await,
            Err(error) => {
                self.batch = None;
                let queue = self.queue().halted(QueuePause::NotStarted);
                self.batch().push(None, Item::None, FactBody::QueueChanged(queue));
                self.warn(error.reason(), format!("The queue pauses: {error}"), request_id);
                self.commit().await;
            }
        }
    }

    async fn start_queued(&mut self, next: QueuedPrompt) -> Result<Accepted, OpError> {
        let settings = serde_json::from_value(serde_json::Value::Object(next.settings)).map_err(|error| {
            OpError::InvalidParams { path: "settings", message: format!("stored settings: {error}") }
        })?;
        let input = TurnInput {
            mode: TurnMode::Start,
            client_message_id: next.client_message_id,
            client_metadata: next.client_metadata,
            settings,
            additional_context: convert::context_out(next.additional_context),
            parent_turn: next.parent_turn.map(|turn| turn.to_string()),
            root_turn: next.root_turn.map(|turn| turn.to_string()),
            request_id: next.request_id,
            ..TurnInput::new(self.row.id.to_string(), Vec::new())
        };
        let origin =
            Origin { traceparent: next.traceparent, tracestate: next.tracestate, ..Origin::default() };
        self.start_turn(Start { turn: next.turn, input, blocks: next.blocks, origin }).await
    }

    /// Into the batch: a turn starts, so the queue goes on; if it is one of the queue, it waits no longer.
    pub(super) fn queue_goes_on(&mut self, turn: TurnId) {
        let Some(mut queue) = self.row.queue.clone() else { return };
        queue.entries.retain(|entry| entry.turn != turn);
        queue.goes_on();
        if self.row.queue.as_ref() != Some(&queue) {
            self.batch().push(None, Item::None, FactBody::QueueChanged(queue));
        }
    }

    /// Into the batch: what waits does not follow a turn that did not complete.
    pub(super) fn queue_pauses(&mut self, by: QueuePause) {
        if let Some(queue) = self.row.queue.as_ref().and_then(|queue| queue.held_up(by)) {
            self.batch().push(None, Item::None, FactBody::QueueChanged(queue));
        }
    }

    /// An input that waits for the open turn.
    pub(super) async fn enqueue(
        &mut self,
        input: TurnInput,
        blocks: Vec<DocBlock>,
        origin: &Origin,
    ) -> Result<Accepted, OpError> {
        let (parent_turn, root_turn) = causes(&input)?;
        let settings = match serde_json::to_value(&input.settings) {
            Ok(serde_json::Value::Object(settings)) => settings,
            _ => serde_json::Map::new(),
        };
        let entry = QueuedPrompt {
            turn: TurnId::generate(),
            blocks,
            client_message_id: input.client_message_id,
            request_id: input.request_id.clone(),
            client_metadata: input.client_metadata,
            additional_context: convert::context_in(input.additional_context),
            settings,
            parent_turn,
            root_turn,
            traceparent: origin.traceparent.clone(),
            tracestate: origin.tracestate.clone(),
        };
        self.check_settings(&input.settings)?;
        let turn = entry.turn;
        let mut queue = self.queue();
        queue.entries.push(entry);
        self.store_queue(queue, input.request_id).await?;
        Ok(Accepted::Queued { turn })
    }

    /// Adds a follow-up; when nothing runs and nothing is held up, it starts at once.
    pub(super) async fn queue_add(&mut self, input: TurnInput, origin: &Origin) -> Result<Accepted, OpError> {
        match self.admitted(&input).await? {
            Admitted::New(blocks) => self.enqueue(input, blocks, origin).await,
            Admitted::Before(turn) => Ok(Accepted::Repeated { turn }),
        }
    }

    /// The turn that a follow-up with this id will be, if it waits. The same id with another text is an error.
    pub(super) fn queued_before(&self, id: &str, blocks: &[DocBlock]) -> Result<Option<TurnId>, OpError> {
        let mut entries = self.row.queue.iter().flat_map(|queue| &queue.entries);
        match entries.find(|entry| entry.client_message_id.as_deref() == Some(id)) {
            None => Ok(None),
            Some(entry) if entry.blocks == blocks => Ok(Some(entry.turn)),
            Some(_) => Err(used_before(id)),
        }
    }

    /// Replaces the text of a follow-up that waits.
    pub(super) async fn queue_edit(
        &mut self,
        queued: &str,
        blocks: Vec<DocBlock>,
        metadata: Option<std::collections::BTreeMap<String, String>>,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        if is_blank(&blocks) {
            return Err(empty_input());
        }
        let mut queue = self.queue();
        let entry = queue.entries.iter_mut().find(|entry| entry.turn.to_string() == queued);
        let entry = entry.ok_or_else(|| not_waiting(queued))?;
        entry.blocks = blocks;
        entry.client_metadata = metadata.unwrap_or_else(|| std::mem::take(&mut entry.client_metadata));
        self.store_queue(queue, request_id).await
    }

    /// Takes a follow-up out of the queue.
    pub(super) async fn queue_remove(
        &mut self,
        queued: &str,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        let mut queue = self.queue();
        let before = queue.entries.len();
        queue.entries.retain(|entry| entry.turn.to_string() != queued);
        if queue.entries.len() == before {
            return Err(not_waiting(queued));
        }
        if queue.entries.is_empty() {
            queue.goes_on();
        }
        self.store_queue(queue, request_id).await
    }

    /// Gives the queue another order.
    pub(super) async fn queue_move(
        &mut self,
        order: &[String],
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        let mut queue = self.queue();
        let mut entries = Vec::with_capacity(order.len());
        for id in order {
            let place = queue.entries.iter().position(|entry| entry.turn.to_string() == *id);
            entries.push(queue.entries.remove(place.ok_or_else(|| not_waiting(id))?));
        }
        if let Some(left_out) = queue.entries.first() {
            let message =
                format!("the new order leaves out {}; name every follow-up that waits", left_out.turn);
            return Err(OpError::InvalidParams { path: "order", message });
        }
        queue.entries = entries;
        self.store_queue(queue, request_id).await
    }

    async fn store_queue(
        &mut self,
        queue: QueueChanged,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        let size = |entry: &QueuedPrompt| serde_json::to_vec(entry).map_or(MAX_BYTES + 1, |json| json.len());
        let sizes: Vec<usize> = queue.entries.iter().map(size).collect();
        if sizes.iter().any(|size| *size > MAX_BYTES) {
            let message =
                format!("a follow-up holds at most {MAX_BYTES} bytes; shorten it, or start it as a turn");
            return Err(OpError::InvalidParams { path: "doc", message });
        }
        if sizes.len() > MAX_ENTRIES || sizes.iter().sum::<usize>() > MAX_BYTES {
            return Err(OpError::QueueFull { entries: MAX_ENTRIES, bytes: MAX_BYTES });
        }
        let changed = QueueChanged { request_id, ..queue };
        self.batch().push(None, Item::None, FactBody::QueueChanged(changed));
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        Ok(Accepted::Applied)
    }

    /// What can be said of settings before their turn comes.
    fn check_settings(&self, patch: &SettingsPatch) -> Result<(), OpError> {
        if let Some(cwd) = &patch.cwd {
            let cwd = super::existing_directory(&self.row.cwd, cwd, "cwd")?;
            self.inside_checkout(&cwd)?;
        }
        let roots = patch.roots.as_deref().unwrap_or_default();
        super::existing_directories(&self.row.cwd, roots, "roots").map(drop)
    }
}

fn not_waiting(queued: &str) -> OpError {
    OpError::InvalidParams { path: "queued", message: format!("no follow-up {queued} waits in this thread") }
}
