//! Random histories of a session, stored as they arise, and what follows from their facts.
#![allow(dead_code, unreachable_pub, reason = "not every test file uses every verb")]

use proptest::prelude::*;
use signalbox_facts::{
    ActivityState, Fact, FactBody, FailedReason, ItemKind, Plan, PlanEntry, PlanStatus, Reverted, Seq,
    TitleChanged, TitleOrigin, ToolCall, ToolOutput, ToolStatus, TurnDiff, TurnEnded, TurnId, TurnStatus,
    Usage,
};
use signalbox_store::Store;

use super::{Session, activity, chunk, created, prompt};

/// One thing that happens; numbers choose among what is possible at the time.
#[derive(Clone, Debug)]
pub enum Step {
    /// Opens a turn, or steers the open one.
    Prompt(String),
    Say {
        item: u64,
        text: String,
    },
    Think(String),
    Tool {
        id: usize,
        title: &'static str,
        status: usize,
    },
    Output(String),
    Plan(String),
    Diff(usize),
    Title(String),
    Usage(u64),
    End {
        failed: bool,
    },
    /// Text of the turn that has ended.
    Late(String),
    Revert(usize),
    /// Joins the chunks of an ended turn.
    Compact(usize),
}

pub fn step() -> impl Strategy<Value = Step> {
    let text = "[a-zé \"\\\\]{0,12}";
    prop_oneof![
        6 => text.prop_map(Step::Prompt),
        12 => (0..2_u64, text).prop_map(|(item, text)| Step::Say { item, text }),
        4 => text.prop_map(Step::Think),
        10 => (0..3_usize, prop::sample::select(&["", "Read"][..]), 0..4_usize)
            .prop_map(|(id, title, status)| Step::Tool { id, title, status }),
        4 => text.prop_map(Step::Output),
        2 => text.prop_map(Step::Plan),
        2 => (0..200_usize).prop_map(Step::Diff),
        1 => text.prop_map(Step::Title),
        1 => any::<u32>().prop_map(|tokens| Step::Usage(tokens.into())),
        6 => prop::bool::weighted(0.2).prop_map(|failed| Step::End { failed }),
        3 => text.prop_map(Step::Late),
        1 => (0..5_usize).prop_map(Step::Revert),
        2 => (0..5_usize).prop_map(Step::Compact),
    ]
}

/// A turn as the test knows it.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub id: TurnId,
    pub first: Seq,
    pub prompt: Seq,
    pub end: Option<Seq>,
    /// Seq of the revert that covers it.
    pub reverted: Option<Seq>,
}

pub struct History {
    pub session: Session,
    pub turns: Vec<Turn>,
}

impl History {
    /// The same history as facts, stored step by step. With `preamble`, the agent speaks before the first turn.
    pub async fn play(store: &Store, preamble: &[&str], steps: &[Step]) -> Self {
        let mut history = Self { session: Session::new(), turns: Vec::new() };
        let mut bodies = vec![(None, created("/home/dev/project", "rehearsal"))];
        bodies.extend(preamble.iter().map(|text| (Some(2), chunk("old", text))));
        store.writer.commit(history.session.commit_of(bodies)).await.unwrap();
        history.play_more(store, steps).await;
        history
    }

    /// The history goes on.
    pub async fn play_more(&mut self, store: &Store, steps: &[Step]) {
        for step in steps {
            self.step(store, step).await;
        }
    }

    pub fn is_open(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.end.is_none())
    }

    async fn step(&mut self, store: &Store, step: &Step) {
        let session = &mut self.session;
        let next = session.last + 1;
        let open = self.turns.last().filter(|turn| turn.end.is_none()).copied();
        let bodies = match step {
            Step::Prompt(text) if open.is_some() => vec![(Some(next), prompt(text, false, None))],
            Step::Prompt(text) => {
                let id = TurnId::generate();
                session.turn = Some(id);
                session.revision += 1;
                let running = ActivityState::Running { turn_id: id, prompt_request_id: None };
                let prompted = next + 1;
                self.turns.push(Turn { id, first: next, prompt: prompted, end: None, reverted: None });
                vec![(None, activity(session.revision, running)), (Some(prompted), prompt(text, true, None))]
            }
            Step::End { failed } => {
                let Some(turn) = self.turns.last_mut().filter(|turn| turn.end.is_none()) else { return };
                turn.end = Some(next + 1);
                session.revision += 1;
                let (state, status) = if *failed {
                    let (reason, message) = (FailedReason::ProviderError, "gone".to_owned());
                    (ActivityState::Failed { turn_id: Some(turn.id), reason, message }, TurnStatus::Failed)
                } else {
                    (ActivityState::Idle, TurnStatus::Completed)
                };
                let ended =
                    TurnEnded { status, stop_reason: None, failure: None, request_id: None, tokens: None };
                vec![(None, activity(session.revision, state)), (None, FactBody::TurnEnded(ended.into()))]
            }
            Step::Late(text) => {
                if open.is_some() || session.turn.is_none() {
                    return;
                }
                vec![(Some(next), chunk("late", text))]
            }
            Step::Revert(place) => {
                if open.is_some() || self.turns.is_empty() {
                    return;
                }
                let from = self.turns[place % self.turns.len()];
                for turn in self.turns.iter_mut().filter(|turn| turn.first >= from.first) {
                    turn.reverted.get_or_insert(next);
                }
                session.turn = None;
                vec![(
                    None,
                    FactBody::Reverted(Reverted {
                        before_turn: from.id,
                        from_seq: from.first,
                        request_id: None,
                    }),
                )]
            }
            Step::Compact(place) => {
                let ended: Vec<_> = self.turns.iter().filter(|turn| turn.end.is_some()).collect();
                if !ended.is_empty() {
                    let turn = ended[place % ended.len()];
                    store.writer.compact(session.id, turn.id).await.unwrap();
                }
                return;
            }
            Step::Title(title) => {
                let origin = TitleOrigin::Manual;
                vec![(None, FactBody::TitleChanged(TitleChanged { title: title.clone(), origin }))]
            }
            Step::Usage(tokens) => {
                vec![(None, FactBody::Usage(Usage { input_tokens: *tokens, ..Usage::default() }))]
            }
            said => {
                let Some(turn) = open else { return };
                vec![spoken(said, turn.first, next)]
            }
        };
        let commit = session.commit_of(bodies);
        store.writer.commit(commit).await.unwrap();
    }

    /// The facts of its transcript, whole: without reverted turns.
    pub fn transcript(&self) -> Vec<Fact> {
        let reverted = |seq: Seq| {
            let turn = self.turns.iter().rev().find(|turn| turn.first <= seq);
            turn.is_some_and(|turn| turn.reverted.is_some())
        };
        let facts = self.session.facts.iter();
        facts.filter(|fact| fact.is_transcript() && !reverted(fact.seq)).cloned().collect()
    }
}

/// What the agent says and does in the turn that begins at `first`. Its items are numbered after the turn.
fn spoken(step: &Step, first: Seq, next: Seq) -> (Option<Seq>, FactBody) {
    match step {
        Step::Say { item, text } => {
            let item = first * 100 + item;
            (Some(item), chunk(&format!("m{item}"), text))
        }
        Step::Think(text) => {
            let FactBody::AgentText(said) = chunk("thought", text) else { unreachable!() };
            (Some(first * 100 + 10), FactBody::AgentThought(said))
        }
        Step::Tool { id, title, status } => (Some(first * 100 + 20), tool(&format!("t{id}"), title, *status)),
        Step::Output(text) => {
            let output = ToolOutput { id: "t0".into(), text: text.clone(), replace: false };
            (Some(first * 100 + 20), FactBody::ToolOutput(output))
        }
        Step::Plan(content) => {
            let entry = PlanEntry { content: content.clone(), priority: None, status: PlanStatus::Pending };
            (Some(next), FactBody::Plan(Plan { entries: vec![entry], markdown: None }))
        }
        Step::Diff(length) => {
            let diff = TurnDiff { diff: "+x\n".repeat(*length), truncated: false, partial: false };
            (None, FactBody::TurnDiff(diff))
        }
        other => unreachable!("{other:?}"),
    }
}

pub fn tool(id: &str, title: &str, status: usize) -> FactBody {
    let statuses = [ToolStatus::Pending, ToolStatus::InProgress, ToolStatus::Completed, ToolStatus::Failed];
    let status = statuses[status % statuses.len()];
    FactBody::ToolCall(
        ToolCall {
            id: id.into(),
            item: ItemKind::DynamicToolCall,
            title: title.into(),
            kind: (status == ToolStatus::Pending).then(|| "read".to_owned()),
            status,
            outcome: None,
            agent_input: None,
            command: None,
            cwd: None,
            exit_code: None,
            locations: Vec::new(),
            mcp: None,
            diffs: None,
            content: None,
            raw_input: None,
            error: None,
        }
        .into(),
    )
}
