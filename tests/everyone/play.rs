//! A random case: its steps, and how they are played to an end at which everybody has to know the same.

use proptest::prelude::*;
use serde_json::{Value, json};
use signalbox_client::threads::{Behind, Phase, ThreadState};
use signalbox_protocol::app::ServerRequest;
use signalbox_testkit::{App, Frame};

use crate::guest::{Guest, Joining, Profile};
use crate::laws::{differences, is_active, known_turn, meld};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");

/// A thread that nobody follows leaves memory soon.
const CONFIG: &str = "[limits]\nidle_thread_seconds = 1\n";
/// Turns of a flood, each with a message of 700,000 bytes: more than the server keeps for who does not read.
const FLOOD: usize = 10;
/// Clients that come and go, beside the one that never leaves.
const GUESTS: usize = 3;
/// Turns that are tried at the end; queued ones may come in between.
const FENCES: usize = 60;
/// Looks at a thread until it has calmed down: more than there are frames in any case.
const CALMING: usize = 5_000;
/// How often a thread is read that does not rest.
const READS: usize = 500;
/// How often clients that disagree are compared, while nothing happens, until that is held against them.
const ROUNDS: usize = 40;

/// Pieces of scripts for the rehearsal agent.
const PIECES: [&str; 33] = [
    "say Hello there, this is a message.",
    "say One.\\nTwo.",
    "think Let me see about that.",
    "stream 40 12 1",
    "stream 300 200 0",
    "run echo one; echo two >&2",
    "run sleep 0.05; echo slow",
    "run exit 3",
    "parallel echo a || echo b; sleep 0.02 || true",
    "write a.txt <<END\ntext\nEND",
    "write b/c.txt <<\nmore\n<<",
    "read README.md",
    "delete a.txt",
    "mcp files list",
    "plan doing: look | todo: write",
    "plan done: look | doing: write",
    "usage 1200 100000",
    "ask Which? | red | blue",
    "title Another title",
    "late by the way",
    "no-close Forgotten",
    "unkinded echo x",
    "permit-first echo y",
    "unannounced echo z",
    "same-id",
    "garble",
    "sleep 20",
    "fail Out of coal",
    "crash 3",
    "hang polite",
    "end-with refusal",
    "big 300000",
    "send-update {\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"own\",\"title\":\"Fetch it\",\"kind\":\"fetch\",\"status\":\"completed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"there\"}}]}",
];

/// How something that waits is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Accept,
    ForSession,
    Decline,
    DeclineWithMessage,
    Cancel,
    Malformed,
    /// By `approval/respond`.
    AsRecord,
    /// Although it has been answered: twice the same.
    Twice,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Prompt {
        who: usize,
        pieces: Vec<usize>,
        mode: Option<&'static str>,
    },
    QueueAdd {
        who: usize,
        piece: usize,
    },
    Interrupt {
        who: usize,
    },
    Answer {
        who: usize,
        how: Answer,
    },
    Join {
        who: usize,
        how: JoinAs,
    },
    Unsubscribe {
        who: usize,
    },
    Close {
        who: usize,
    },
    StopReading {
        who: usize,
    },
    GoOnReading {
        who: usize,
    },
    Rename {
        who: usize,
    },
    Policy {
        who: usize,
        mode: &'static str,
    },
    Revert {
        who: usize,
        place: usize,
    },
    Fork {
        who: usize,
        ephemeral: bool,
    },
    /// Waits for so many more frames, as long as something happens.
    Listen {
        frames: usize,
    },
    /// Whoever follows the thread knows the same now.
    Compare,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum JoinAs {
    Whole,
    Outline,
    After,
}

fn profile() -> impl Strategy<Value = Profile> {
    let deltas = vec![
        "item/agentMessage/delta",
        "item/commandExecution/outputDelta",
        "item/reasoning/summaryTextDelta",
    ];
    let values =
        vec!["turn/diff/updated", "thread/tokenUsage/updated", "turn/plan/updated", "item/plan/delta"];
    let opt_out = prop_oneof![4 => Just(Vec::new()), 1 => Just(deltas), 1 => Just(values)];
    let interval = prop_oneof![4 => Just(0_u32), 1 => Just(5_u32), 1 => Just(50_u32)];
    (opt_out, interval, any::<bool>()).prop_map(|(opt_out, delta_interval_ms, resync)| Profile {
        opt_out,
        delta_interval_ms,
        resync,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..=GUESTS;
    let guest = || 1..=GUESTS;
    let pieces = prop::collection::vec(0..PIECES.len(), 1..6);
    let mode = prop::sample::select(vec![None, None, None, Some("queue"), Some("steer"), Some("start")]);
    let answer = prop_oneof![
        8 => Just(Answer::Accept),
        1 => Just(Answer::ForSession),
        2 => Just(Answer::Decline),
        1 => Just(Answer::DeclineWithMessage),
        1 => Just(Answer::Cancel),
        1 => Just(Answer::Malformed),
        2 => Just(Answer::AsRecord),
        1 => Just(Answer::Twice),
    ];
    let join = prop_oneof![4 => Just(JoinAs::Whole), 1 => Just(JoinAs::Outline), 3 => Just(JoinAs::After)];
    let policy = prop::sample::select(vec!["ask", "accept_edits", "yolo"]);
    prop_oneof![
        8 => (who(), pieces, mode).prop_map(|(who, pieces, mode)| Step::Prompt { who, pieces, mode }),
        1 => (who(), 0..PIECES.len()).prop_map(|(who, piece)| Step::QueueAdd { who, piece }),
        2 => who().prop_map(|who| Step::Interrupt { who }),
        12 => (who(), answer).prop_map(|(who, how)| Step::Answer { who, how }),
        9 => (guest(), join).prop_map(|(who, how)| Step::Join { who, how }),
        2 => guest().prop_map(|who| Step::Unsubscribe { who }),
        2 => guest().prop_map(|who| Step::Close { who }),
        2 => guest().prop_map(|who| Step::StopReading { who }),
        3 => guest().prop_map(|who| Step::GoOnReading { who }),
        1 => who().prop_map(|who| Step::Rename { who }),
        1 => (who(), policy).prop_map(|(who, mode)| Step::Policy { who, mode }),
        1 => (who(), 0..4_usize).prop_map(|(who, place)| Step::Revert { who, place }),
        1 => (who(), any::<bool>()).prop_map(|(who, ephemeral)| Step::Fork { who, ephemeral }),
        12 => (1..40_usize).prop_map(|frames| Step::Listen { frames }),
        6 => Just(Step::Compare),
    ]
}

/// What one case is made of.
pub(crate) fn case() -> impl Strategy<Value = (Vec<Profile>, Vec<Step>)> {
    (prop::collection::vec(profile(), GUESTS), prop::collection::vec(step(), 6..50))
}

/// A case while it is played.
pub(crate) struct Play {
    pub(crate) app: App,
    /// The first never leaves. None: it is not connected; its state waits.
    guests: Vec<Guest>,
    connected: Vec<bool>,
    pub(crate) thread: String,
    words: usize,
    /// Some script ends only when it is interrupted.
    hangs: bool,
    log: Vec<String>,
}

impl Play {
    pub(crate) fn begin(profiles: &[Profile]) -> Self {
        let mut app = App::new(BINARY).over_unix().config(CONFIG);
        let mut keeper = Guest::new(&mut app, "keeper", Profile::default());
        let thread = keeper.starts_thread(json!({"cwd": app.work()}));
        let mut guests = vec![keeper];
        for (number, profile) in profiles.iter().enumerate() {
            guests.push(Guest::new(&mut app, &format!("guest{}", number + 1), profile.clone()));
        }
        let connected = vec![true; guests.len()];
        Self { app, guests, connected, thread, words: 0, hangs: false, log: Vec::new() }
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("word-{}", self.words)
    }

    /// Whether it can be talked to.
    fn hears(&self, who: usize) -> bool {
        self.connected[who] && self.guests[who].reads
    }

    pub(crate) fn step(&mut self, step: &Step) {
        self.log.push(format!("{step:?}"));
        let thread = self.thread.clone();
        match step {
            Step::Prompt { who, pieces, mode } if self.hears(*who) => {
                let script: Vec<&str> = pieces.iter().map(|piece| PIECES[*piece]).collect();
                let script = script.join("\n");
                self.hangs |= script.contains("hang");
                let word = self.word();
                self.guests[*who].prompts(&thread, &script, *mode, &word);
            }
            Step::QueueAdd { who, piece } if self.hears(*who) => {
                self.hangs |= PIECES[*piece].contains("hang");
                let word = self.word();
                let doc = json!([{"type": "text", "text": PIECES[*piece]}]);
                let op = json!({"op": "queue_add", "session": thread, "doc": doc, "client_message_id": word});
                self.guests[*who].asks("op/submit", json!({"op": op}));
            }
            Step::Interrupt { who } if self.hears(*who) => self.interrupts(*who),
            Step::Answer { who, how } if self.hears(*who) => self.answers(*who, *how),
            Step::Join { who, how } => self.joins(*who, *how),
            Step::Unsubscribe { who } if self.hears(*who) && self.guests[*who].follows() => {
                self.guests[*who].unsubscribes(&thread);
            }
            Step::Close { who } if self.hears(*who) => {
                self.guests[*who].leaves();
                self.connected[*who] = false;
            }
            Step::StopReading { who } if self.hears(*who) => {
                self.guests[*who].client.stops_reading();
                self.guests[*who].reads = false;
                self.guests[*who].lagged = true;
            }
            Step::GoOnReading { who } => self.goes_on(*who),
            Step::Rename { who } if self.hears(*who) => {
                let name = self.word();
                self.guests[*who].asks("thread/name/set", json!({"threadId": thread, "name": name}));
            }
            Step::Policy { who, mode } if self.hears(*who) => {
                let policy = json!({"mode": mode, "sandbox": "workspace_write"});
                self.guests[*who]
                    .asks("thread/settings/update", json!({"threadId": thread, "policy": policy}));
            }
            Step::Revert { who, place } if self.hears(*who) => {
                let turns = &self.guests[0].state().thread.turns;
                if let Some(turn) = turns.get(*place) {
                    let op = json!({"op": "revert", "session": thread, "before_turn": turn.id});
                    self.guests[*who].asks("op/submit", json!({"op": op}));
                }
            }
            Step::Fork { who, ephemeral } if self.hears(*who) => self.guests[*who].forks(&thread, *ephemeral),
            Step::Listen { frames } => {
                for _ in 0..*frames {
                    self.guests[0].syncs();
                    if !is_active(self.guests[0].state())
                        || !self.guests[0].state().requests.is_empty()
                        || self.hangs
                    {
                        break;
                    }
                    self.guests[0].waits();
                }
            }
            Step::Compare => drop(self.compares()),
            _ => {}
        }
    }

    fn interrupts(&mut self, who: usize) {
        self.guests[0].syncs();
        let turn = self.guests[0].state().thread.turns.last().map(|turn| turn.id.clone());
        if let Some(turn) = turn {
            let params = json!({"threadId": self.thread, "turnId": turn});
            self.guests[who].asks("turn/interrupt", params);
        }
    }

    fn goes_on(&mut self, who: usize) {
        if self.guests[who].reads || !self.connected[who] {
            return;
        }
        let guest = &mut self.guests[who];
        guest.client.goes_on_reading();
        guest.reads = true;
        if !guest.syncs() {
            guest.lost();
            self.connected[who] = false;
        } else if guest.wants_to_resume() {
            guest.joins(&self.thread, Joining::Whole);
        }
    }

    fn joins(&mut self, who: usize, how: JoinAs) {
        if self.connected[who] && !self.guests[who].reads {
            return;
        }
        self.comes_back(who);
        let how = match how {
            JoinAs::Whole => Joining::Whole,
            JoinAs::Outline => Joining::Outline,
            JoinAs::After => Joining::After,
        };
        let thread = self.thread.clone();
        let guest = &mut self.guests[who];
        if how != Joining::After || !guest.follows() {
            guest.joins(&thread, how);
        }
    }

    /// A client without a connection gets another one.
    fn comes_back(&mut self, who: usize) {
        if self.connected[who] {
            return;
        }
        let guest = self.guests.remove(who);
        let guest = guest.reconnects(&mut self.app);
        self.guests.insert(who, guest);
        self.connected[who] = true;
    }

    /// Answers what waits at this client first, or last.
    fn answers(&mut self, who: usize, how: Answer) {
        let guest = &mut self.guests[who];
        guest.syncs();
        if guest.state.is_none() {
            return;
        }
        // Whoever never leaves stays able to answer.
        let how = if who == 0 && matches!(how, Answer::Malformed) { Answer::Accept } else { how };
        let Some((id, request)) = guest.state().requests.iter().next() else { return };
        let (id, request) = (id.clone(), request.clone());
        let times = if matches!(how, Answer::Twice) { 2 } else { 1 };
        if let Answer::AsRecord = how {
            return guest.asks("approval/respond", json!({"approvalId": id, "decision": "accept"}));
        }
        guest.unable |= matches!(how, Answer::Malformed);
        for _ in 0..times {
            guest.client.sends(&json!({"jsonrpc": "2.0", "id": id, "result": answer_to(&request, how)}));
        }
    }

    /// If nothing happens meanwhile, everybody knows what the one knows who never left. False if something happens.
    fn compares(&mut self) -> bool {
        self.guests[0].syncs();
        let before = self.guests[0].state().cursor().cloned();
        // What is told to one reaches the other a moment later, but not so many rounds later.
        for _ in 0..ROUNDS {
            for who in 1..=GUESTS {
                if self.hears(who) && !self.guests[who].syncs() {
                    self.guests[who].lost();
                    self.connected[who] = false;
                } else if self.hears(who) && self.guests[who].wants_to_resume() {
                    self.guests[who].joins(&self.thread.clone(), Joining::Whole);
                }
            }
            self.guests[0].syncs();
            // While a request of its own is open, it may be told later than others.
            if self.guests[0].state().cursor().cloned() != before || !self.guests[0].is_answered() {
                return false;
            }
            if self.disagreements().is_empty() {
                return true;
            }
        }
        panic!("{}\n{}", self.disagreements().join("\n"), self.stories());
    }

    fn stories(&self) -> String {
        let stories = self.guests.iter().map(|guest| format!("{}:\n{}", guest.name, guest.story()));
        format!("steps: {}\n{}", self.log.join("\n  "), stories.collect::<Vec<_>>().join("\n"))
    }

    /// What those who follow the thread and read know otherwise than the first.
    fn disagreements(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let keeper = &self.guests[0];
        for guest in
            self.guests[1..].iter().filter(|guest| guest.reads && guest.follows() && guest.is_answered())
        {
            let mut theirs = guest.knows(keeper);
            let mut ours = keeper.knows(guest);
            meld(&mut ours["turns"], &mut theirs["turns"]);
            if ours != theirs {
                wrong.push(format!("{} knows otherwise:\n  {}", guest.name, differences(&ours, &theirs)));
            }
        }
        wrong
    }

    /// Lets everything come to its end, joins everybody, and compares.
    pub(crate) fn ends(&mut self) {
        for who in 1..=GUESTS {
            self.goes_on(who);
            self.comes_back(who);
            if !self.guests[who].follows() {
                let thread = self.thread.clone();
                let how = if who == 1 { Joining::After } else { Joining::Whole };
                self.guests[who].joins(&thread, how);
            }
        }
        for fences in 0.. {
            assert!(fences <= FENCES, "a turn cannot be started\n{}", self.stories());
            self.calms_down();
            // Whatever the agent still had to say of earlier turns comes before what it says in this one.
            let word = self.word();
            let asked = self.guests[0].prompts(&self.thread.clone(), "say The end.", Some("start"), &word);
            if !self.guests[0].is_accepted(asked) {
                continue;
            }
            while !crate::laws::has_prompt(&self.guests[0].state().thread, &word) {
                self.guests[0].waits();
            }
            self.calms_down();
            for guest in &mut self.guests {
                while !guest.is_answered() {
                    guest.waits();
                }
            }
            // A follow-up that waited in the queue may have started behind it.
            if self.compares() && !is_active(self.guests[0].state()) {
                break;
            }
        }
        for guest in &self.guests {
            assert_eq!(guest.state().phase, Phase::Live, "{}", guest.name);
            assert!(guest.state().requests.is_empty(), "{}: {:?}", guest.name, guest.state().requests);
        }
        self.is_stored(0);
        for guest in &mut self.guests {
            for fork in &guest.forks {
                let stored = guest.client.reads(&fork.thread.id);
                let stored: signalbox_protocol::app::Thread = serde_json::from_value(stored).unwrap();
                let (mut stored, mut known) = (turns(&stored.turns), turns(&fork.thread.turns));
                meld(&mut stored, &mut known);
                assert_eq!(stored, known, "a fork: {}", differences(&stored, &known));
            }
        }
    }

    /// Everybody leaves, and the thread leaves memory; whoever comes back knows the whole.
    pub(crate) fn unloads(&mut self) {
        let thread = self.thread.clone();
        for guest in &mut self.guests {
            guest.unsubscribes(&thread);
        }
        for guest in &mut self.guests {
            while guest.state().phase != Phase::Behind(Behind::Closed) {
                guest.waits();
            }
        }
        for who in 0..=GUESTS {
            self.guests[who].joins(&thread, if who % 2 == 0 { Joining::After } else { Joining::Whole });
            self.is_stored(who);
        }
        assert!(self.compares(), "something happens although nobody wants anything\n{}", self.stories());
    }

    /// So much is said that whoever does not read meets the hard bound: one is told to resume the thread, the next one is
    /// disconnected, and for all others nothing changes. The guests' profiles must be such.
    pub(crate) fn is_flooded(&mut self) {
        let thread = self.thread.clone();
        for who in 1..=GUESTS {
            self.guests[who].joins(&thread, Joining::Whole);
        }
        for who in [1, 2] {
            self.step(&Step::StopReading { who });
        }
        for who in [0, 3] {
            self.guests[who].lagged = true;
            self.guests[who].client.may_fall_behind();
        }
        for _ in 0..FLOOD {
            let word = self.word();
            let before = self.guests[0].state().thread.turns.len();
            let asked = self.guests[0].prompts(&thread, "stream 70 10000 0", Some("start"), &word);
            assert!(self.guests[0].is_accepted(asked), "a turn cannot be started");
            // What the start causes comes behind its answer.
            let has_run = |state: &ThreadState| state.thread.turns.len() > before && !is_active(state);
            while self.guests[0].syncs() && !has_run(self.guests[0].state()) {
                self.guests[0].waits();
                self.guests[3].syncs();
            }
        }
        for who in [1, 2] {
            let guest = &mut self.guests[who];
            guest.client.goes_on_reading();
            guest.reads = true;
            let told = guest.syncs();
            assert_eq!(
                told,
                guest.profile.resync,
                "{} is disconnected, or not\n{}",
                guest.name,
                guest.story()
            );
            if !told {
                guest.lost();
                self.connected[who] = false;
                continue;
            }
            let required = |frame: &Frame| frame.method() == Some("thread/resyncRequired");
            let told = guest.client.received().iter().filter(|frame| required(frame)).count();
            assert_eq!((told, guest.wants_to_resume()), (1, true), "{}\n{}", guest.name, guest.story());
            guest.joins(&thread, Joining::Whole);
        }
    }

    /// Answers what waits and interrupts what hangs, until nothing runs.
    fn calms_down(&mut self) {
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds <= CALMING, "the thread does not calm down\n{}", self.stories());
            self.guests[0].syncs();
            let state = self.guests[0].state();
            let waiting: Vec<(String, ServerRequest)> =
                state.requests.iter().map(|(id, request)| (id.clone(), request.clone())).collect();
            if !is_active(state) {
                return;
            }
            for (id, request) in waiting {
                let answer = answer_to(&request, Answer::Accept);
                self.guests[0].client.sends(&json!({"jsonrpc": "2.0", "id": id, "result": answer}));
            }
            if self.hangs {
                self.interrupts(0);
            }
            self.guests[0].waits();
        }
    }

    /// The turns that a client knows are those of `thread/read`, if nothing happens while it reads.
    fn is_stored(&mut self, who: usize) {
        let thread = self.thread.clone();
        let mut wrong = "it never rests".to_owned();
        for _ in 0..READS {
            self.guests[who].syncs();
            let before = self.guests[who].state().cursor().cloned();
            let stored = self.guests[who].client.reads(&thread);
            let stored: signalbox_protocol::app::Thread = serde_json::from_value(stored).unwrap();
            self.guests[who].syncs();
            let guest = &self.guests[who];
            let (mut known, mut stored) = (turns(&guest.state().thread.turns), turns(&stored.turns));
            meld(&mut stored, &mut known);
            if known == stored {
                return;
            }
            if guest.state().cursor().cloned() == before {
                wrong = differences(&known, &stored);
                break;
            }
        }
        panic!("{} knows otherwise than is stored:\n  {wrong}\n{}", self.guests[who].name, self.stories());
    }

    /// The server is killed where it stands; what everybody had been shown is there again, and whoever comes back knows
    /// the whole.
    pub(crate) fn is_killed(&mut self) {
        for who in 1..=GUESTS {
            if self.connected[who] && !self.guests[who].reads {
                self.guests[who].client.goes_on_reading();
                self.guests[who].reads = true;
            }
        }
        self.app.kill();
        for who in 0..=GUESTS {
            if self.connected[who] {
                self.guests[who].client.is_disconnected();
                self.guests[who].lost();
                self.connected[who] = false;
            }
        }
        // A child that was just being made may hold the old socket for a moment longer; nobody shall be connected to that.
        let _ = std::fs::remove_file(self.app.socket());
        self.app.restart();
        let thread = self.thread.clone();
        let stored = self.app.client().reads(&thread);
        let stored: signalbox_protocol::app::Thread = serde_json::from_value(stored).unwrap();
        for guest in self.guests.iter().filter(|guest| guest.state.is_some()) {
            if let Some(wrong) = crate::laws::was_shown(guest.state(), &stored) {
                panic!("{}: {wrong}\n{}", guest.name, self.stories());
            }
        }
        for who in 0..=GUESTS {
            self.comes_back(who);
            self.guests[who].joins(&thread, if who % 2 == 0 { Joining::After } else { Joining::Whole });
            self.is_stored(who);
        }
    }
}

/// Turns as everybody knows them.
fn turns(turns: &[signalbox_protocol::app::Turn]) -> Value {
    turns.iter().map(|turn| known_turn(turn, false)).collect()
}

/// An answer in the form that the request asks for.
fn answer_to(request: &ServerRequest, how: Answer) -> Value {
    if let Answer::Malformed = how {
        return json!({"decision": "perhaps", "answers": 3, "action": 7});
    }
    let (accept, decline) = match how {
        Answer::Decline | Answer::DeclineWithMessage => (false, true),
        Answer::Cancel => (false, false),
        _ => (true, false),
    };
    let mut answer = match request {
        ServerRequest::Elicitation(_) if accept => json!({"action": "accept", "content": {"answer": "red"}}),
        ServerRequest::Elicitation(_) => json!({"action": if decline { "decline" } else { "cancel" }}),
        ServerRequest::ToolUserInput(asked) => {
            let question = &asked.questions[0];
            let options = question.options.as_deref().unwrap_or_default();
            let label = if accept { options.first().map(|option| option.label.clone()) } else { None };
            let label = label.unwrap_or_else(|| "Nothing of that.".to_owned());
            json!({"answers": {question.id.clone(): {"answers": [label]}}})
        }
        _ if matches!(how, Answer::ForSession) => json!({"decision": "acceptForSession"}),
        _ if accept => json!({"decision": "accept"}),
        _ => json!({"decision": if decline { "decline" } else { "cancel" }}),
    };
    if let Answer::DeclineWithMessage = how {
        answer["message"] = json!("say Rather not.");
    }
    answer
}
