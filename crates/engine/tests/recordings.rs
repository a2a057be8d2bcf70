//! Recordings of real agents (`tests/recordings`), played by a process into sessions: everything that was recorded is there, everything
//! that began has ended, and the session goes on.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use signalbox_engine::{Limits, ProviderEntry};
use signalbox_facts::{Committed, Fact, FactBody, InputKind, PendingInput, ToolOutcome, TurnId, TurnStatus};
use signalbox_protocol::ops::{ElicitationAnswer, Op};
use signalbox_testkit::recording::{self, Answer, HEARD, RECORDING, STARTS, Step, Turn, steps};
use stage::{Setup, Stage, Watched, example, fact, story};
use tempfile::TempDir;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

/// What a recording may have besides what every session has.
#[derive(Default)]
struct Allowed {
    /// Reasons of warnings.
    warnings: &'static [&'static str],
    /// Version of ACP that is offered, if it is not that of the launch table.
    protocol: Option<u16>,
}

fn setup(folder: &TempDir, provider: &str, file: &Path, allowed: &Allowed) -> Setup {
    let mut entry = ProviderEntry::known(provider).unwrap();
    entry.protocol = allowed.protocol.unwrap_or(entry.protocol);
    entry.commands = vec![vec![example("recorded_agent")]];
    entry.needs.clear();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    entry.env = BTreeMap::from([
        (RECORDING.to_owned(), file.to_str().unwrap().to_owned()),
        (STARTS.to_owned(), path("starts")),
        (HEARD.to_owned(), path("heard")),
    ]);
    // A process that was cancelled as recorded answers in time; none is to be killed for a busy machine.
    let limits = Limits { cancel: Limits::default().cancel, ..Setup::default().limits };
    Setup { agents: vec![entry], limits, ..Setup::default() }
}

async fn plays(provider: &str, name: &str, allowed: &Allowed) {
    let file = recordings().join(name).with_extension("jsonl");
    let processes = recording::read(&std::fs::read_to_string(&file).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let first = setup(&folder, provider, &file, allowed);
    let mut stage = Stage::set_up(folder, first).await;
    let id = stage.new_session(provider).await.unwrap();
    let mut turns = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        if at > 0 {
            // As at a restart of the server: the next process goes on with the conversation.
            let folder = stage.close().await;
            let next = setup(&folder, provider, &file, allowed);
            stage = Stage::set_up(folder, next).await;
        }
        let mut session = stage.watch(id).await;
        for step in steps(process) {
            match step {
                Step::Turn(turn) => turns.push(plays_turn(&mut session, &turn, &turns, allowed).await),
                Step::Set(config_id, value) => sets(&session, config_id, &value).await,
                Step::Hears(text) => {
                    let seen = session.hears(&text).await;
                    let last = matches!(seen.last(), Some(Committed::Fact(fact)) if fact.turn == turns.last().copied());
                    assert!(last, "{}", story(&seen));
                }
            }
        }
    }
    assert!(!turns.is_empty(), "{name} has turns");
    let starts = std::fs::read(stage.folder.path().join("starts")).unwrap().len();
    assert_eq!(starts, processes.len(), "one process for each that was recorded");
}

async fn sets(session: &Watched, config_id: String, value: &serde_json::Value) {
    let Some(value) = value.as_str().map(str::to_owned) else { return };
    let op = Op::SetConfigOption { session: session.id.to_string(), config_id, value };
    // Refusals are recorded too; an answer must come.
    let _ = session.submit(op).await;
}

/// What came of a turn.
#[derive(Default)]
struct Seen {
    text: String,
    thoughts: String,
    /// Calls that are not closed.
    open: BTreeSet<String>,
    calls: BTreeSet<String>,
    outcomes: Vec<ToolOutcome>,
    warnings: Vec<String>,
}

impl Seen {
    /// What is of one of the turns `before` came late there.
    fn take(&mut self, committed: &Committed, turn: TurnId, before: &[TurnId]) {
        let Committed::Fact(fact) = committed else { return };
        let Fact { turn: of, body, .. } = &**fact;
        if *of != Some(turn) {
            // Commands go on after their turn; texts that came late were waited for.
            let goes_on = matches!(body, FactBody::ToolCall(_) | FactBody::ToolOutput(_));
            let late = goes_on && of.is_some_and(|of| before.contains(&of));
            assert!(late || !is_item(body), "an item of no turn, or history once more: {committed:?}");
            return;
        }
        match body {
            FactBody::AgentText(chunk) => self.text.push_str(&chunk.text),
            FactBody::AgentThought(chunk) => self.thoughts.push_str(&chunk.text),
            FactBody::ToolCall(call) => {
                self.calls.insert(call.id.clone());
                if call.status.is_final() {
                    self.open.remove(&call.id);
                } else {
                    self.open.insert(call.id.clone());
                }
                self.outcomes.extend(call.outcome);
            }
            FactBody::Warning(warning) => self.warnings.push(warning.reason.clone()),
            _ => {}
        }
    }
}

fn is_item(body: &FactBody) -> bool {
    matches!(
        body,
        FactBody::AgentText(_)
            | FactBody::AgentThought(_)
            | FactBody::ToolCall(_)
            | FactBody::ToolOutput(_)
            | FactBody::Plan(_)
    )
}

async fn plays_turn(session: &mut Watched, turn: &Turn, before: &[TurnId], allowed: &Allowed) -> TurnId {
    let id = session.prompts(&turn.prompt).await;
    let mut seen = Seen::default();
    let mut all = Vec::new();
    let mut answers = turn.answers.iter();
    let mut cancelled = false;
    let ended = loop {
        let due = turn.cancelled_behind.as_ref().is_some_and(|text| seen.text == *text);
        if due && !cancelled && answers.clone().next().is_none() {
            cancelled = true;
            session.cancels().await;
        }
        let committed = session.until(|_| true).await.remove(0);
        seen.take(&committed, id, before);
        all.push(committed);
        match fact(all.last().unwrap()) {
            Some(FactBody::PermissionRequested(input)) => {
                match answers.next().unwrap_or_else(|| panic!("asked too often: {}", story(&all))) {
                    Answer::Cancelled => {
                        assert!(turn.cancelled_behind.is_some());
                        cancelled = true;
                        session.cancels().await;
                    }
                    answer => answers_as(session, input, answer).await,
                }
            }
            Some(FactBody::TurnEnded(ended)) => break (**ended).clone(),
            _ => {}
        }
    };
    assert_eq!(answers.next(), None, "everything that was asked was shown:\n{}", story(&all));
    assert!(seen.open.is_empty(), "closed before the end: {:?}\n{}", seen.open, story(&all));
    let (status, stop_reason) = match &turn.end {
        _ if cancelled => (TurnStatus::Interrupted, Some("cancelled")),
        Some(Ok(reason)) => (TurnStatus::Completed, Some(&**reason)),
        Some(Err(_)) | None => (TurnStatus::Failed, None),
    };
    assert_eq!((ended.status, ended.stop_reason.as_deref()), (status, stop_reason), "{}", story(&all));
    if let Some(Err(error)) = &turn.end
        && !cancelled
    {
        let failure = ended.failure.as_ref().unwrap();
        let words = error["message"].as_str().unwrap();
        assert!(failure.message.contains(words), "{failure:?} has the agent's words: {words}");
    }
    // What came late is of this turn too.
    if !turn.text.starts_with(&seen.text) {
        assert_eq!(seen.text, turn.text, "{}", story(&all));
    }
    while seen.text.len() < turn.text.len() || seen.thoughts.len() < turn.thoughts.len() {
        let committed = session.until(|_| true).await.remove(0);
        seen.take(&committed, id, before);
        all.push(committed);
    }
    assert_eq!(seen.text, turn.text, "{}", story(&all));
    assert_eq!(seen.thoughts, turn.thoughts, "{}", story(&all));
    let lost: Vec<_> = turn.calls.difference(&seen.calls).collect();
    assert!(lost.is_empty(), "calls that are not shown: {lost:?}\n{}", story(&all));
    let invented: Vec<_> = seen.calls.difference(&turn.calls).collect();
    assert!(invented.is_empty(), "calls of no agent: {invented:?}\n{}", story(&all));
    assert!(seen.open.is_empty(), "closed again: {:?}\n{}", seen.open, story(&all));
    let odd: Vec<_> =
        seen.warnings.iter().filter(|reason| !allowed.warnings.contains(&reason.as_str())).collect();
    assert!(odd.is_empty(), "warnings: {odd:?}\n{}", story(&all));
    id
}

async fn answers_as(session: &Watched, input: &PendingInput, answer: &Answer) {
    if input.kind == InputKind::Elicitation {
        let Answer::Form(content) = answer else { panic!("{answer:?} to a form") };
        let serde_json::Value::Object(content) = content.clone() else { panic!() };
        let answer = ElicitationAnswer::Accept { content: content.into_iter().collect() };
        let op = Op::AnswerElicitation {
            session: session.id.to_string(),
            request_id: input.id.to_string(),
            answer,
        };
        session.submit(op).await.unwrap();
        return;
    }
    let reject = || {
        let mut options = input.options.iter();
        let option = options.find(|option| matches!(option.kind, signalbox_facts::OptionKind::RejectOnce));
        option.map(|option| option.id.clone())
    };
    let option = match answer {
        Answer::Option(id) if input.options.iter().any(|option| option.id == *id) => Some(id.clone()),
        _ => reject(),
    };
    session.answers(input, option.as_deref()).await.unwrap();
}

/// It warns of a model that it does not know, once a turn.
const CODEX: Allowed = Allowed { warnings: &["agent_warning"], protocol: None };

#[tokio::test]
async fn opencode() {
    plays("opencode", "opencode", &Allowed::default()).await;
}

#[tokio::test]
async fn opencode_edge() {
    plays("opencode", "opencode-edge", &Allowed::default()).await;
}

#[tokio::test]
async fn claude_agent_acp() {
    plays("claude_code", "claude-agent-acp", &Allowed::default()).await;
}

#[tokio::test]
async fn codex_acp() {
    plays("codex", "codex-acp", &CODEX).await;
}

#[tokio::test]
async fn codex_acp_edge() {
    plays("codex", "codex-acp-edge", &CODEX).await;
}

#[tokio::test]
async fn gemini() {
    plays("gemini", "gemini", &Allowed::default()).await;
}

#[tokio::test]
async fn grok() {
    plays("grok", "grok", &Allowed::default()).await;
}

#[tokio::test]
async fn kimi() {
    // It edits without asking.
    plays("kimi", "kimi", &Allowed { warnings: &["not_mediated"], ..Allowed::default() }).await;
}

#[tokio::test]
async fn claude_agent_acp_in_version_2() {
    plays("claude_code", "claude-agent-acp-v2", &Allowed { protocol: Some(2), ..Allowed::default() }).await;
}
