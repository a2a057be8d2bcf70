//! Properties: whatever the order in which frames arrive, the state ends where the server is.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::json;
use signalbox_protocol::ops::{Part, Role, TranscriptEntry};

use super::*;
use crate::ops::turn::{Row, turns};
use crate::ops::{Turn, Want};

/// What a server may say about the revisions of three sessions.
#[derive(Debug, Clone)]
enum Told {
    List([u64; 3]),
    Event(usize, u64),
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        prop::array::uniform3(0..20u64).prop_map(Told::List),
        (0..3usize, 0..20u64).prop_map(|(session, revision)| Told::Event(session, revision)),
    ]
}

/// The one activity of each revision.
fn at(revision: u64) -> Activity {
    match revision % 4 {
        0 => idle(revision),
        1 => running(revision, &format!("t{revision}")),
        2 => awaiting(revision, "t", &[("p", revision)]),
        _ => failed(revision),
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// In any order and with any repetition, the highest revision that anybody told is what is known in the end.
    #[test]
    fn lists_and_events_in_any_order_end_at_the_highest_revision(
        frames in prop::collection::vec((told(), any::<bool>()), 1..40),
    ) {
        let mut state = State::default();
        lists(&mut state, &NAMES.map(|name| (name, idle(0))));
        let mut highest = [0; 3];
        for (told, asked) in frames {
            match told {
                Told::List(revisions) => {
                    if asked {
                        let _ = state.ask_sessions();
                    }
                    lists(&mut state, &[0, 1, 2].map(|n| (NAMES[n], at(revisions[n]))));
                    for n in 0..3 {
                        highest[n] = highest[n].max(revisions[n]);
                    }
                }
                Told::Event(n, revision) => {
                    does(&mut state, NAMES[n], at(revision));
                    highest[n] = highest[n].max(revision);
                }
            }
            for n in 0..3 {
                let session = &state.sessions[NAMES[n]];
                prop_assert_eq!(&session.activity, &at(highest[n]));
                prop_assert_eq!(session.running, matches!(highest[n] % 4, 1 | 2));
                prop_assert_eq!(session.pending.len(), usize::from(highest[n] % 4 == 2));
            }
        }
    }
}

/// A row as the server writes it.
#[derive(Debug, Clone)]
enum Kind {
    Prompt,
    Steer,
    Text,
    Thought,
    Tool(u8, bool),
    Plan,
    /// A fact that is no part of the transcript but has a sequence.
    Other,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Prompt),
        1 => Just(Kind::Steer),
        6 => Just(Kind::Text),
        2 => Just(Kind::Thought),
        3 => (0..3u8, any::<bool>()).prop_map(|(id, told)| Kind::Tool(id, told)),
        1 => Just(Kind::Plan),
        2 => Just(Kind::Other),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    /// The server commits the next row and emits its event.
    Commit,
    /// The next event that is on its way arrives; false: the next reply.
    Arrive(bool),
    /// The client asks for the newest page of this many turns.
    Open(usize),
    /// The client asks for an older page.
    Older(usize),
    /// The connection is too slow: events on their way are lost.
    Lag,
    /// The client asks for what it wants.
    MakeGood(usize),
    /// The server joins the chunks of what it has.
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Commit),
        8 => any::<bool>().prop_map(Step::Arrive),
        1 => (1..4usize).prop_map(Step::Open),
        2 => (1..4usize).prop_map(Step::Older),
        1 => Just(Step::Lag),
        2 => (1..4usize).prop_map(Step::MakeGood),
        1 => Just(Step::Compact),
    ]
}

/// A server with one session, and the connection to it.
struct World {
    plan: VecDeque<Kind>,
    seq: u64,
    through: Option<u64>,
    stored: Vec<TranscriptEntry>,
    events: VecDeque<ServerFrame>,
    replies: VecDeque<ServerFrame>,
    requests: u64,
    state: State,
}

impl World {
    fn new(plan: Vec<Kind>) -> Self {
        let mut state = State::default();
        lists(&mut state, &[("s", idle(0))]);
        Self {
            plan: plan.into(),
            seq: 0,
            through: None,
            stored: Vec::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            requests: 0,
            state,
        }
    }

    fn commit(&mut self) {
        let Some(kind) = self.plan.pop_front() else { return };
        let seq = self.seq;
        self.seq += 1;
        self.through = Some(seq);
        let words = format!("[{seq}]");
        let (role, part, event) = match kind {
            Kind::Prompt => (
                Role::User,
                Part::Prompt { text: words.clone(), display: words },
                json!({"event": "turn_started"}),
            ),
            Kind::Steer => (
                Role::User,
                Part::Prompt { text: words.clone(), display: words },
                json!({"event": "prompt_steered"}),
            ),
            Kind::Text => (
                Role::Agent,
                Part::Text { text: words.clone(), message_id: None },
                json!({"event": "agent_text", "message_id": "", "text": words}),
            ),
            Kind::Thought => (
                Role::Agent,
                Part::Reasoning { text: words.clone() },
                json!({"event": "agent_thought", "text": words}),
            ),
            Kind::Tool(id, told) => {
                let (id, title) = (id.to_string(), if told { words } else { String::new() });
                let kind = told.then(|| "edit".to_owned());
                let status = if told { "pending" } else { "completed" };
                let mut event = json!({"event": "tool_call", "id": id, "title": title, "status": status});
                if told {
                    event["kind"] = json!("edit");
                }
                (
                    Role::Agent,
                    Part::ToolCall {
                        id,
                        title,
                        status: status.to_owned(),
                        tool_kind: kind,
                        agent_input: None,
                    },
                    event,
                )
            }
            Kind::Plan => (
                Role::Agent,
                Part::Plan { entries: vec![words.clone()] },
                json!({"event": "plan", "entries": [words]}),
            ),
            Kind::Other => {
                let event =
                    json!({"event": "turn_diff", "session": "s", "diff": words, "transcript_seq": seq});
                self.events.push_back(frame(json!({"kind": "event", "event": event})));
                return;
            }
        };
        let continues = matches!(kind, Kind::Steer);
        self.stored.push(TranscriptEntry { seq, role, part, through_seq: None, continues });
        let mut event = event;
        event["session"] = json!("s");
        event["transcript_seq"] = json!(seq);
        self.events.push_back(frame(json!({"kind": "event", "event": event})));
    }

    /// Neighbouring chunks of one kind become one row.
    fn compact(&mut self) {
        let mut compacted: Vec<TranscriptEntry> = Vec::new();
        for entry in std::mem::take(&mut self.stored) {
            if let Some(last) = compacted.last_mut() {
                let through = entry.through_seq.unwrap_or(entry.seq);
                let joined = match (&mut last.part, &entry.part) {
                    (Part::Text { text, .. }, Part::Text { text: more, .. })
                    | (Part::Reasoning { text }, Part::Reasoning { text: more }) => {
                        text.push_str(more);
                        true
                    }
                    _ => false,
                };
                if joined {
                    last.through_seq = Some(through);
                    continue;
                }
            }
            compacted.push(entry);
        }
        self.stored = compacted;
    }

    fn id(&mut self) -> String {
        self.requests += 1;
        format!("page-{}", self.requests)
    }

    /// Reads a page now; the reply is on its way.
    fn answer(&mut self, request: &ClientRequest) {
        let ClientRequest::Transcript { request_id, before, limit, .. } = request else {
            self.replies.push_back(ServerFrame::Sessions { sessions: vec![snapshot("s", idle(0))] });
            return;
        };
        let below = before.unwrap_or(u64::MAX);
        let opens: Vec<u64> = self
            .stored
            .iter()
            .filter(|entry| entry.role == Role::User && !entry.continues && entry.seq < below)
            .map(|entry| entry.seq)
            .collect();
        let from = opens.len().saturating_sub(limit.unwrap() as usize);
        let (start, next_before) = if from > 0 { (opens[from], Some(opens[from])) } else { (0, None) };
        let entries =
            self.stored.iter().filter(|entry| (start..below).contains(&entry.seq)).cloned().collect();
        self.replies.push_back(ServerFrame::Transcript {
            session: "s".to_owned(),
            request_id: request_id.clone(),
            entries,
            next_before,
            snapshot_through: self.through,
        });
    }

    fn make_good(&mut self, turns: usize) {
        for want in self.state.wants() {
            let request = match want {
                Want::Sessions => self.state.ask_sessions(),
                Want::Transcript(session) => {
                    let id = self.id();
                    self.state.ask_transcript(&session, Some(turns as u32), id)
                }
            };
            self.answer(&request);
        }
    }

    fn arrive(&mut self, event_first: bool) -> bool {
        let next = if event_first {
            self.events.pop_front().or_else(|| self.replies.pop_front())
        } else {
            self.replies.pop_front().or_else(|| self.events.pop_front())
        };
        next.map(|frame| self.state.apply(frame)).is_some()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Commit => self.commit(),
            Step::Arrive(event_first) => {
                self.arrive(event_first);
            }
            Step::Open(turns) => {
                let id = self.id();
                let request = self.state.ask_transcript("s", Some(turns as u32), id);
                self.answer(&request);
            }
            Step::Older(turns) => {
                let id = self.id();
                if let Some(request) = self.state.ask_older("s", Some(turns as u32), id) {
                    self.answer(&request);
                }
            }
            Step::Lag => {
                let missed = self.events.len() as u64;
                if missed > 0 {
                    self.events.clear();
                    self.events.push_back(ServerFrame::Lagged { missed });
                }
            }
            Step::MakeGood(turns) => self.make_good(turns),
            Step::Compact => self.compact(),
        }
    }

    /// Everything arrives, and everything that is wanted is asked for, older pages included.
    fn settle(&mut self) {
        while !self.plan.is_empty() {
            self.commit();
        }
        if self.state.sessions["s"].transcript.is_none() {
            self.step(Step::Open(2));
        }
        loop {
            while self.arrive(true) {}
            let before = self.requests;
            self.make_good(2);
            if self.replies.is_empty() {
                self.step(Step::Older(2));
            }
            if self.replies.is_empty() && self.events.is_empty() {
                return;
            }
            assert!(before < 10_000, "the client asks without end");
        }
    }
}

/// The turns, but for the words of prompts, which a live prompt does not tell.
fn comparable(mut turns: Vec<Turn>) -> Vec<Turn> {
    for item in turns.iter_mut().flat_map(|turn| &mut turn.items) {
        if let Item::Prompt { text, display, .. } = item {
            *text = None;
            *display = None;
        }
    }
    turns
}

/// No prompt has words that are not its own.
fn words_are_right(turns: &[Turn]) -> bool {
    turns.iter().flat_map(|turn| &turn.items).all(|item| match item {
        Item::Prompt { seq: Some(seq), text: Some(text), .. } => *text == format!("[{seq}]"),
        _ => true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Pages and live events in any interleaving, with lags and compaction between, end as one fold over all rows would.
    #[test]
    fn pages_and_live_rows_in_any_order_are_the_whole_transcript(
        plan in prop::collection::vec(kind(), 0..60),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(plan);
        for step in steps {
            world.step(step);
        }
        world.settle();
        let all: Vec<Row> = world.stored.iter().cloned().map(Row::from_entry).collect();
        let transcript = world.state.sessions["s"].transcript.as_ref().unwrap();
        prop_assert!(words_are_right(&transcript.turns));
        prop_assert_eq!(comparable(transcript.turns.clone()), comparable(turns(all)));
        let newest = transcript.through.max(world.stored.last().map(|entry| entry.seq));
        prop_assert_eq!(transcript.through, newest);
    }

    /// At every moment what is shown is a run of the real history without a hole in it.
    #[test]
    fn what_is_shown_never_has_a_hole(
        plan in prop::collection::vec(kind(), 0..60),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(plan);
        for step in steps {
            world.step(step);
            let Some(transcript) = &world.state.sessions["s"].transcript else { continue };
            let Some(first) = transcript.turns.first().and_then(|turn| turn.seq) else { continue };
            let shown = transcript.through.unwrap_or(0);
            let run = world.stored.iter().filter(|entry| (first..=shown).contains(&entry.seq)).cloned();
            let expected = said(&turns(run.map(Row::from_entry)));
            let is = said(&transcript.turns);
            // A row that was compacted since reaches further than what is here.
            prop_assert!(expected.starts_with(&is), "{is} is not the beginning of {expected}");
        }
    }
}

/// All words of agents, in order. (Turns, prompts and calls are left out: each word names its sequence.)
fn said(turns: &[Turn]) -> String {
    let mut words: BTreeMap<u64, String> = BTreeMap::new();
    for item in turns.iter().flat_map(|turn| &turn.items) {
        if let Item::Text { seq: Some(seq), text, .. } | Item::Reasoning { seq: Some(seq), text, .. } = item {
            words.insert(*seq, text.clone());
        }
    }
    words.into_values().collect()
}
