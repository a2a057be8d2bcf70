//! What reading a long history costs.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use signalbox_facts::{
    Activity, ActivityState, AgentText, Fact, FactBody, ItemKind, Plan, PlanEntry, PlanStatus, Policy,
    Prompt, Provider, Seq, SessionCreated, SessionId, SessionSource, ToolCall, ToolOutput, ToolStatus,
    TurnContext, TurnDiff, TurnEnded, TurnId, TurnStatus, Usage,
};
use signalbox_store::{Commit, Fork, Store};

use super::Figure;
use crate::child::{Lines, Result};
use crate::stats::{both, time};

const ROWS: Seq = 100_000;
const PAGES: usize = 500;

/// The newest page of a session of 100,000 rows: the first read of a fresh server, then many.
pub(crate) fn transcript_page(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    // The server makes the home, and the history is put into it while nobody serves it.
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    server.end()?;
    let (thread, forked) = long_history(&home.path().join("signalbox.db"), home.path())?;
    let thread = thread.to_string();

    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let mut copier = Lines::copier()?;
    let first = page(&mut server, &thread, None)?;
    let (mut newest, mut older, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = None;
    for _ in 0..PAGES {
        newest.push(page(&mut server, &thread, None)?.took);
        let walked = page(&mut server, &thread, before)?;
        before = walked.next_before;
        older.push(walked.took);
        raw.push(copy(&mut copier, first.bytes)?);
    }
    server.end()?;
    copier.end()?;
    let line = |name, measured| Figure { name, measured, goal: "≤ 5 ms", reference: String::new() };
    Ok(vec![
        line("transcript page of 100,000 rows, first read", time(first.took)),
        Figure {
            reference: format!("copier, {} KiB {}", first.bytes / 1024, both(&mut raw)),
            ..line("the same again, p50 / p99", both(&mut newest))
        },
        line("its pages one after the other, p50 / p99", both(&mut older)),
        Figure { goal: "", ..line("fork of a session of 100,000 rows", time(forked)) },
    ])
}

struct Page {
    took: Duration,
    bytes: usize,
    next_before: Option<u64>,
}

/// Asks for a page and takes the time until its last byte is here.
fn page(server: &mut Lines, thread: &str, before: Option<u64>) -> Result<Page> {
    let params = json!({"threadId": thread, "before": before});
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "thread/transcript/read", "params": params});
    let begun = Instant::now();
    server.send(&request)?;
    let line = server.raw()?;
    let (took, bytes) = (begun.elapsed(), line.len());
    let answer: serde_json::Value = serde_json::from_str(line)?;
    let entries = answer["result"]["entries"].as_array().map_or(0, Vec::len);
    if entries == 0 {
        return Err(format!("no page: {answer}").into());
    }
    Ok(Page { took, bytes, next_before: answer["result"]["nextBefore"].as_u64() })
}

/// A line as long as a page, there and back.
pub(super) fn copy(copier: &mut Lines, bytes: usize) -> Result<Duration> {
    let mut line = vec![b'x'; bytes];
    line.push(b'\n');
    let begun = Instant::now();
    copier.input.write_all(&line)?;
    copier.input.flush()?;
    copier.raw()?;
    Ok(begun.elapsed())
}

/// A session of 100,000 facts in the database, as it is some time after its turns: chunks are joined. Also says how long it
/// took to fork it, which is how long other sessions' commits would have waited.
fn long_history(database: &Path, cwd: &Path) -> Result<(SessionId, Duration)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Store::open(database).await?;
        let mut session = Writing { id: SessionId::generate(), last: 0, turn: None, facts: Vec::new() };
        session.add(None, FactBody::SessionCreated(created(cwd).into()));
        let mut revision = 0;
        while session.last < ROWS {
            let from = session.last - session.facts.len() as u64;
            session.turn(&mut revision, cwd);
            let facts = std::mem::take(&mut session.facts);
            store.writer.commit(Commit::facts(session.id, from, facts)).await?;
        }
        let fork = Fork {
            source: session.id,
            through_seq: session.last,
            session: SessionId::generate(),
            created: created(cwd),
            agent_session: None,
            at_ms: 0,
        };
        let begun = Instant::now();
        store.writer.fork(fork).await?;
        let forked = begun.elapsed();
        store.close().await;
        Ok((session.id, forked))
    })
}

struct Writing {
    id: SessionId,
    last: Seq,
    turn: Option<TurnId>,
    facts: Vec<Fact>,
}

impl Writing {
    fn add(&mut self, item_seq: Option<Seq>, body: FactBody) {
        self.last += 1;
        let (session, turn, seq) = (self.id, self.turn, self.last);
        let at_ms = i64::try_from(seq).unwrap_or_default();
        self.facts.push(Fact { session, turn, seq, through_seq: seq, item_seq, at_ms, body });
    }

    /// A turn of 50 facts: thoughts, texts, eight commands with their output, a plan, a diff.
    fn turn(&mut self, revision: &mut u64, cwd: &Path) {
        let turn = TurnId::generate();
        self.turn = Some(turn);
        *revision += 1;
        let running = ActivityState::Running { turn_id: turn, prompt_request_id: None };
        self.add(None, FactBody::Activity(Activity { revision: *revision, state: running }));
        self.add(Some(self.last + 1), FactBody::Prompt(prompt(cwd).into()));
        for place in 0..8 {
            let item = self.last + 1;
            let said = |text: &str| AgentText { message_id: format!("m{item}"), text: text.repeat(6) };
            let body = match place % 4 {
                0 => FactBody::AgentThought(said("What does the test expect, and why? ")),
                _ => FactBody::AgentText(said("I look at the module that parses the frames next. ")),
            };
            self.add(Some(item), body);
            let (item, id) = (self.last + 1, format!("call-{place}"));
            for status in [ToolStatus::Pending, ToolStatus::InProgress, ToolStatus::Completed] {
                self.add(Some(item), FactBody::ToolCall(command(&id, status, cwd).into()));
            }
            let output = ToolOutput { id, text: "line of output of a command\n".repeat(40), replace: false };
            self.add(Some(item), FactBody::ToolOutput(output));
        }
        let entry = |content: &str| PlanEntry {
            content: content.to_owned(),
            priority: None,
            status: PlanStatus::InProgress,
        };
        let entries = vec![entry("Read the module"), entry("Write the test"), entry("Change the code")];
        self.add(Some(self.last + 1), FactBody::Plan(Plan { entries, markdown: None }));
        self.add(None, FactBody::Usage(Usage::default()));
        let diff = "+ a changed line of some source file\n".repeat(200);
        self.add(None, FactBody::TurnDiff(TurnDiff { diff, truncated: false, partial: false }));
        *revision += 1;
        self.add(None, FactBody::Activity(Activity { revision: *revision, state: ActivityState::Idle }));
        let ended = TurnEnded {
            status: TurnStatus::Completed,
            stop_reason: Some("end_turn".to_owned()),
            failure: None,
            request_id: None,
            tokens: None,
        };
        self.add(None, FactBody::TurnEnded(ended.into()));
        self.turn = None;
    }
}

pub(super) fn created(cwd: &Path) -> SessionCreated {
    SessionCreated {
        provider: Provider::new("rehearsal"),
        cwd: cwd.to_path_buf(),
        roots: Vec::new(),
        project_path: cwd.to_path_buf(),
        worktree: None,
        policy: Policy::default(),
        model: None,
        effort: None,
        instructions: None,
        request_id: None,
        source: SessionSource::App,
        forked_from: None,
        fork_context: None,
        ephemeral: false,
        launch: None,
    }
}

fn prompt(cwd: &Path) -> Prompt {
    let text = "Please make the parser accept a byte order mark at the beginning of a frame, and add a test.";
    Prompt {
        blocks: vec![signalbox_facts::DocBlock::text(text)],
        text: text.to_owned(),
        display: text.to_owned(),
        request_id: None,
        client_message_id: None,
        opens: Some(Box::new(TurnContext { cwd: cwd.to_path_buf(), ..TurnContext::default() })),
    }
}

fn command(id: &str, status: ToolStatus, cwd: &Path) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        item: ItemKind::CommandExecution,
        title: "cargo test -p frames --test parser".to_owned(),
        kind: Some("execute".to_owned()),
        status,
        outcome: None,
        agent_input: None,
        command: Some("cargo test -p frames --test parser".to_owned()),
        cwd: Some(cwd.to_path_buf()),
        exit_code: status.is_final().then_some(0),
        locations: Vec::new(),
        mcp: None,
        diffs: None,
        content: None,
        raw_input: None,
        error: None,
    }
}
