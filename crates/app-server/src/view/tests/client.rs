//! A client as the API's documentation describes one: it knows nothing but what it was sent, as JSON, and checks on the way
//! that the stream keeps its promises.

use std::collections::BTreeMap;

use serde_json::Value;
use signalbox_protocol::app::{
    Approval, ItemBody, ServerNotification, ServerRequest, Thread, ThreadItem, ThreadSettings, ThreadStatus,
    Turn, TurnItemsView, TurnStatus,
};
use signalbox_protocol::ops;

use crate::view::{Outgoing, ThreadView};

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Client {
    pub(super) turns: Vec<Turn>,
    pub(super) status: Option<ThreadStatus>,
    pub(super) activity: Option<ops::Activity>,
    pub(super) name: Option<String>,
    pub(super) archived: bool,
    pub(super) settings: Option<ThreadSettings>,
    /// Server requests that wait for this client, by id.
    pub(super) requests: BTreeMap<String, ServerRequest>,
    /// Approvals it was told of and has not seen resolved.
    pub(super) approvals: BTreeMap<String, Approval>,
    seq: u64,
}

/// What the wire makes of a value.
fn sent<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

impl Client {
    /// A client that joins now: it gets the thread with all its turns, and what follows such a result.
    pub(super) fn joins(view: &ThreadView, older: Vec<Turn>) -> Self {
        let thread: Thread = sent(&view.thread());
        let mut turns = older;
        turns.extend(view.turn());
        let mut client = Self {
            turns: turns.iter().map(sent).collect(),
            status: Some(thread.status),
            activity: Some(thread.activity),
            name: thread.name,
            archived: thread.archived,
            settings: Some(sent(&view.settings())),
            seq: view.seq(),
            ..Self::default()
        };
        client.takes(&view.joining());
        client
    }

    pub(super) fn takes(&mut self, effects: &[Outgoing<'_>]) {
        for effect in effects {
            match effect {
                Outgoing::Notification(told) => {
                    assert!(told.seq >= self.seq, "seq goes back: {told:?}");
                    self.seq = told.seq;
                    self.hears(told.body.method(), serde_json::to_value(&told.body).unwrap());
                }
                Outgoing::Delta(delta) => {
                    assert!(delta.seq >= self.seq, "seq goes back: {delta:?}");
                    self.seq = delta.seq;
                    self.hears(delta.method(), serde_json::to_value(delta.to_notification()).unwrap());
                }
                Outgoing::ServerRequest(request) => {
                    let params = serde_json::to_value(request).unwrap();
                    let request = ServerRequest::decode(request.method(), params).unwrap().unwrap();
                    if let ServerRequest::ToolUserInput(_) = &request {
                        let other = |known: &ServerRequest| matches!(known, ServerRequest::ToolUserInput(_));
                        assert!(!self.requests.values().any(other), "two questions at a time");
                    }
                    let known = self.requests.insert(request.approval_id().to_owned(), request);
                    assert_eq!(known, None, "asked twice");
                }
                Outgoing::Withdraw { approval } => {
                    self.requests.remove(&approval.to_string());
                }
            }
        }
    }

    fn hears(&mut self, method: &str, params: Value) {
        use ServerNotification as Told;
        match ServerNotification::decode(method, params).unwrap().unwrap() {
            Told::ThreadStatusChanged(told) => {
                assert_ne!(self.status.as_ref(), Some(&told.status), "told without a change");
                if let ThreadStatus::Idle | ThreadStatus::SystemError = told.status {
                    let open = self.turns.last().filter(|turn| turn.status == TurnStatus::InProgress);
                    assert!(
                        open.is_none_or(|turn| turn.items.iter().all(is_complete)),
                        "idle with open items"
                    );
                }
                self.status = Some(told.status);
            }
            Told::ThreadActivityChanged(told) => self.activity = Some(told.activity),
            Told::ThreadNameUpdated(told) => self.name = told.thread_name,
            Told::ThreadArchived(_) => self.archived = true,
            Told::ThreadUnarchived(_) => self.archived = false,
            Told::ThreadSettingsUpdated(told) => self.settings = Some(told.thread_settings),
            Told::ThreadReverted(told) => {
                let gone = told.before_turn_id.unwrap();
                let place = self.turns.iter().position(|turn| turn.id == gone).unwrap();
                self.turns.truncate(place);
            }
            Told::TurnStarted(told) => {
                assert!(self.turns.iter().all(|turn| turn.status != TurnStatus::InProgress));
                assert!(matches!(self.status, Some(ThreadStatus::Active { .. })), "started while not active");
                self.turns.push(Turn { items_view: TurnItemsView::Full, ..told.turn });
            }
            Told::TurnCompleted(told) => {
                assert!(!matches!(self.status, Some(ThreadStatus::Active { .. })), "completed while active");
                assert!(self.approvals.is_empty() && self.requests.is_empty(), "approvals outlive the turn");
                let turn = self.turn(&told.turn.id);
                assert!(turn.items.iter().all(is_complete), "a turn ends with open items");
                let last =
                    turn.items.iter().rev().find(|item| matches!(item.body, ItemBody::AgentMessage { .. }));
                assert_eq!(told.turn.items.first(), last, "the summary's message");
                let items = std::mem::take(&mut turn.items);
                *turn = Turn { items, items_view: TurnItemsView::Full, ..told.turn };
            }
            Told::TurnPlanUpdated(told) => {
                let turn = self.turn(&told.turn_id);
                turn.plan = Some(told.plan);
            }
            Told::TurnDiffUpdated(told) => self.turn(&told.turn_id).diff = Some(told.diff),
            Told::ThreadTokenUsageUpdated(told) => {
                self.turn(&told.turn_id).token_usage = Some(told.token_usage);
            }
            Told::ItemStarted(told) => {
                let active = matches!(self.status, Some(ThreadStatus::Active { .. }));
                assert_eq!(told.item.late, !active, "late is what comes after the end");
                assert!(!is_complete(&told.item), "started complete");
                let items = &mut self.turn(&told.turn_id).items;
                assert!(items.iter().all(|item| item.id != told.item.id), "started twice");
                items.push(told.item);
            }
            Told::ItemCompleted(told) => {
                assert_eq!(told.item.completed_at_ms, Some(told.completed_at_ms));
                let item = self.item(&told.turn_id, &told.item.id);
                *item = told.item;
            }
            Told::AgentMessageDelta(told) => match &mut self.open_item(&told.turn_id, &told.item_id).body {
                ItemBody::AgentMessage { text, .. } => text.push_str(&told.delta),
                other => panic!("text for {other:?}"),
            },
            Told::PlanDelta(told) => match &mut self.open_item(&told.turn_id, &told.item_id).body {
                ItemBody::Plan { text } => text.push_str(&told.delta),
                other => panic!("a plan's text for {other:?}"),
            },
            Told::ReasoningSummaryPartAdded(told) => {
                match &mut self.open_item(&told.turn_id, &told.item_id).body {
                    ItemBody::Reasoning { summary, .. } => {
                        assert_eq!(told.summary_index, summary.len() as u64);
                        summary.push(String::new());
                    }
                    other => panic!("a summary for {other:?}"),
                }
            }
            Told::ReasoningSummaryTextDelta(told) => {
                match &mut self.open_item(&told.turn_id, &told.item_id).body {
                    ItemBody::Reasoning { summary, .. } => {
                        summary[usize::try_from(told.summary_index).unwrap()].push_str(&told.delta);
                    }
                    other => panic!("a summary for {other:?}"),
                }
            }
            Told::CommandExecutionOutputDelta(told) => {
                match &mut self.open_item(&told.turn_id, &told.item_id).body {
                    ItemBody::CommandExecution { aggregated_output, .. } => {
                        aggregated_output.get_or_insert_default().push_str(&told.delta);
                    }
                    other => panic!("output for {other:?}"),
                }
            }
            Told::FileChangePatchUpdated(told) => {
                match &mut self.open_item(&told.turn_id, &told.item_id).body {
                    ItemBody::FileChange { changes, .. } => *changes = told.changes,
                    other => panic!("a patch for {other:?}"),
                }
            }
            Told::ApprovalRequested(told) => {
                if let Some(item) = &told.approval.item_id {
                    self.open_item(&told.approval.turn_id, item);
                }
                let known = self.approvals.insert(told.approval.approval_id.clone(), told.approval);
                assert_eq!(known, None, "an approval told twice");
            }
            Told::ServerRequestResolved(told) => {
                assert!(!self.requests.contains_key(&told.approval_id), "resolved before it is withdrawn");
                self.approvals.remove(&told.approval_id);
            }
            Told::ThreadStarted(told) => {
                self.status = Some(told.thread.status);
                self.activity = Some(told.thread.activity);
            }
            Told::Error(_)
            | Told::Warning(_)
            | Told::ThreadDeleted(_)
            | Told::ThreadClosed(_)
            | Told::ThreadQueueChanged(_)
            | Told::ThreadWorktreeDiscarded(_)
            | Told::ThreadModelsUpdated(_)
            | Told::ThreadConfigOptionsUpdated(_)
            | Told::ThreadCommandsUpdated(_)
            | Told::AccountRateLimitsUpdated(_) => {}
            Told::ThreadResyncRequired(_) | Told::CoreEvent(_) | Told::ProviderLoginProgress(_) => {
                panic!("the view tells no {method}")
            }
        }
    }

    fn turn(&mut self, id: &str) -> &mut Turn {
        self.turns.iter_mut().find(|turn| turn.id == id).unwrap()
    }

    fn item(&mut self, turn: &str, id: &str) -> &mut ThreadItem {
        self.turn(turn).items.iter_mut().find(|item| item.id == id).unwrap()
    }

    fn open_item(&mut self, turn: &str, id: &str) -> &mut ThreadItem {
        let item = self.item(turn, id);
        assert!(!is_complete(item), "{id} is complete");
        item
    }
}

fn is_complete(item: &ThreadItem) -> bool {
    item.completed_at_ms.is_some()
}
