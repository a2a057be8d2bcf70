//! Any sequence of Ops, behaviours of agents, deaths of agents, trouble with the disk and ends of the server keeps the laws,
//! also where sessions leave memory whenever they can.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use signalbox_facts::{ActivityState, FactBody};
use signalbox_store::FailPoint;

use super::face::{Face, is_end, only};

/// Cases of one run.
const CASES: u32 = 24;
/// Sessions of one case.
const SESSIONS: usize = 2;

/// What agents are told to do.
const SCRIPTS: [&str; 14] = [
    "say one",
    "say one\nrun true\nsay two",
    "parallel true || true",
    "run true\nrun false\nrun true",
    "ask Which? | red | blue\nsay thanks",
    "stream 60 12 0\nthink hm",
    "hang",
    "hang polite",
    "fail out of coal",
    "say last words\ncrash 3",
    "late more\nsay done",
    "no-close\nsay done",
    "write a.txt <<END\ntext\nEND\nplan done: a | todo: b",
    "garble\nunkinded true\nend-with refusal",
];

#[derive(Clone, Debug)]
enum Step {
    /// A prompt, which starts or is declined.
    Prompt(usize, usize),
    /// Input that starts, steers or waits.
    Input(usize, usize, &'static str),
    Cancel(usize),
    /// Answers the oldest that waits: its first option, its last one, none, one that is not offered.
    Answer(usize, u8),
    /// An answer for something that does not wait here.
    Stray(usize),
    Policy(usize, &'static str, &'static str),
    Model(usize),
    /// Waits until the session tells something.
    Listen(usize),
    AgentsDie,
    DiskFails(u32),
    Restart,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..SESSIONS;
    let script = || 0..SCRIPTS.len();
    let mode = prop::sample::select(vec!["ask", "accept_edits", "yolo"]);
    let sandbox = prop::sample::select(vec!["read_only", "workspace_write", "danger_full_access"]);
    prop_oneof![
        8 => (session(), script()).prop_map(|(session, script)| Step::Prompt(session, script)),
        4 => (session(), script(), prop::sample::select(vec!["auto", "steer", "queue", "start"]))
            .prop_map(|(session, script, mode)| Step::Input(session, script, mode)),
        3 => session().prop_map(Step::Cancel),
        6 => (session(), 0_u8..4).prop_map(|(session, which)| Step::Answer(session, which)),
        1 => session().prop_map(Step::Stray),
        2 => (session(), mode, sandbox).prop_map(|(session, mode, sandbox)| Step::Policy(session, mode, sandbox)),
        1 => session().prop_map(Step::Model),
        8 => session().prop_map(Step::Listen),
        2 => Just(Step::AgentsDie),
        1 => (1_u32..5).prop_map(Step::DiskFails),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
    ]
}

/// A case while it is played.
struct Play {
    face: Face,
    sessions: Vec<String>,
    /// The prompts sent to the server that runs now, by their own word; those of an earlier one may have gone with it.
    sent: BTreeMap<String, String>,
    count: u32,
}

impl Play {
    async fn begin(restless: bool) -> Self {
        let mut face = if restless { Face::restless().await } else { Face::new().await };
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(face.new_session().await);
        }
        Self { face, sessions, sent: BTreeMap::new(), count: 0 }
    }

    async fn activity(&self, session: usize) -> Value {
        self.face.snapshot(&self.sessions[session]).await["activity"]["state"].take()
    }

    fn word(&mut self, session: usize) -> String {
        self.count += 1;
        let word = format!("r{}", self.count);
        self.sent.insert(word.clone(), self.sessions[session].clone());
        word
    }

    async fn step(mut self, step: &Step) -> Self {
        match step {
            Step::Prompt(session, script) => {
                let word = self.word(*session);
                self.face.prompts(&self.sessions[*session], SCRIPTS[*script], &word).await;
            }
            Step::Input(session, script, mode) => {
                let word = self.word(*session);
                self.face
                    .sends(json!({"op": "turn_input", "session": self.sessions[*session], "mode": mode, "request_id": word,
                        "doc": [{"type": "text", "text": SCRIPTS[*script]}]}))
                    .await;
            }
            Step::Cancel(session) => {
                self.face.sends(json!({"op": "cancel", "session": self.sessions[*session]})).await;
            }
            Step::Answer(session, which) => {
                let state = self.activity(*session).await;
                let Some(input) = state["pending"].get(0) else { return self };
                let options = input["options"].as_array().unwrap();
                let option = match which {
                    0 => options.first().map(|option| option[0].as_str().unwrap()),
                    1 => options.last().map(|option| option[0].as_str().unwrap()),
                    2 => None,
                    _ => Some("not-offered"),
                };
                self.face.answers(&self.sessions[*session], input, option).await;
            }
            Step::Stray(session) => {
                let other = self.activity((*session + 1) % SESSIONS).await;
                let unknown = json!({"input_id": "unknown"});
                let input = other["pending"].get(0).unwrap_or(&unknown);
                self.face.answers(&self.sessions[*session], input, Some("allow")).await;
            }
            Step::Policy(session, mode, sandbox) => {
                self.face
                    .sends(json!({"op": "set_execution_policy", "session": self.sessions[*session], "mode": mode, "sandbox": sandbox}))
                    .await;
            }
            Step::Model(session) => {
                self.face
                    .sends(json!({"op": "set_model", "session": self.sessions[*session], "model": "rehearsal-terse"}))
                    .await;
            }
            Step::Listen(session) => {
                let running = self.activity(*session).await["kind"] == "running";
                if running {
                    let session = self.sessions[*session].clone();
                    self.face.listens_a_little(&session).await;
                }
            }
            Step::AgentsDie => self.face.kills_agents(),
            Step::DiskFails(times) => self.face.fail.fail(FailPoint::InSavepoint, 0, *times),
            Step::Restart => {
                self.face = self.face.restarts().await;
                self.sent.clear();
            }
            Step::Kill => {
                self.face = self.face.dies().await;
                self.sent.clear();
            }
        }
        self
    }

    /// Lets everything come to its end.
    async fn settle(&mut self) {
        for session in self.sessions.clone() {
            loop {
                self.face.quiet(&session).await;
                let row = self.face.row(&session).await;
                let waits =
                    row.queue.as_ref().is_some_and(|queue| !queue.paused && !queue.entries.is_empty());
                let ended = matches!(row.activity.state, ActivityState::Idle | ActivityState::Failed { .. });
                if ended && !waits {
                    break;
                }
                self.face.sends(json!({"op": "cancel", "session": session})).await;
                self.face.next_of(&session).await;
            }
        }
        self.face.told().await;
    }

    /// Each prompt that the running server got was accepted or declined once, and what was accepted has ended once.
    fn outcomes(&self) {
        for (word, session) in &self.sent {
            let about: Vec<_> =
                self.face.log.iter().filter(|event| event["request_id"] == word.as_str()).collect();
            let accepted = about
                .iter()
                .filter(|event| {
                    ["turn_started", "prompt_steered"].contains(&event["event"].as_str().unwrap())
                })
                .count();
            assert!(accepted <= 1, "{word}: {about:?}");
            let queued = about.iter().any(|event| event["event"] == "queue_changed");
            let declined = about.iter().any(|event| event["event"] == "error");
            assert!(
                accepted == 1 || queued || declined,
                "{word} of {session} was neither accepted nor declined"
            );
            let terminal = about.iter().filter(|event| is_end(event)).count();
            assert!(terminal <= 1, "{word}: {about:?}");
        }
    }

    /// What is stored, over all servers: facts tell one gapless history.
    async fn history(&self) {
        let mut sequences = BTreeSet::new();
        for session in &self.sessions {
            let facts = self.face.facts(session).await;
            let (mut revision, mut open, mut turns) = (0, None, BTreeSet::new());
            for fact in &facts {
                match &fact.body {
                    FactBody::Activity(activity) => {
                        assert_eq!(activity.revision, revision + 1, "{session}");
                        revision = activity.revision;
                        let waits = matches!(activity.state, ActivityState::AwaitingInput { .. });
                        assert_eq!(waits, !activity.pending().is_empty());
                    }
                    FactBody::Prompt(prompt) if prompt.opens.is_some() => {
                        assert_eq!(open, None, "at most one turn");
                        assert!(turns.insert(fact.turn), "a turn begins once");
                        open = fact.turn;
                    }
                    FactBody::TurnEnded(_) => {
                        assert!(open.is_some() && open == fact.turn, "a turn ends once, and it was open");
                        open = None;
                    }
                    FactBody::PermissionRequested(input) => {
                        assert!(sequences.insert(input.sequence), "a sequence is never used again");
                    }
                    _ => {}
                }
            }
            assert_eq!(open, None, "nothing is left open");
            // Everything told as a start is a stored prompt.
            let started = only(&self.face.log, "turn_started");
            let started = started.into_iter().filter(|event| event["session"] == session.as_str());
            for event in started {
                let seq = event["transcript_seq"].as_u64().unwrap();
                let stored = facts.iter().find(|fact| fact.seq == seq).unwrap();
                assert!(matches!(&stored.body, FactBody::Prompt(_)), "{event}");
            }
        }
    }
}

async fn play(steps: Vec<Step>, restless: bool) {
    let mut play = Play::begin(restless).await;
    for step in &steps {
        play = play.step(step).await;
        play.face.told().await;
    }
    play.settle().await;
    play.outcomes();
    play.history().await;
    // That nothing runs after a restart is a law of what is found again.
    play.face = play.face.restarts().await;
    play.history().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_laws_hold(steps in prop::collection::vec(step(), 4..28), restless: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps, restless));
    }
}
