//! What clients pay for many turns, many threads and many listeners.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signalbox_facts::{
    Activity, ActivityState, AgentText, DocBlock, Fact, FactBody, Prompt, Seq, SessionId, TurnContext,
    TurnEnded, TurnId, TurnStatus, Usage,
};
use signalbox_store::{Commit, Store};

use super::Figure;
use super::history::{copy, created};
use crate::child::{Lines, Result};
use crate::connection::Connection;
use crate::servers::Server;
use crate::stats::{both, cpu, time};

const TURNS: usize = 1_000;
const THREADS: usize = 10_000;
const TIMES: usize = 100;
const CLIENTS: usize = 16;
const CHUNKS: usize = 5_000;

/// A thread of 1,000 turns: read whole, joined by a server that has just started, and a page of its items.
pub(crate) fn long_thread(bin: &Path) -> Result<Vec<Figure>> {
    let home = prepared(bin)?;
    let thread = with_store(home.path(), async |store| {
        let session = SessionId::generate();
        write_thread(&store, session, home.path(), TURNS).await?;
        Ok(session.to_string())
    })?;
    let read = json!({"threadId": thread, "includeTurns": true});
    let resume = json!({"threadId": thread});
    let mut cold = Vec::new();
    let mut first_read = Vec::new();
    for _ in 0..10 {
        let mut server = Lines::server(bin, home.path())?;
        server.initialize()?;
        cold.push(asked(&mut server, "thread/resume", &resume)?.0);
        server.end()?;
        let mut server = Lines::server(bin, home.path())?;
        server.initialize()?;
        first_read.push(asked(&mut server, "thread/read", &read)?.0);
        server.end()?;
    }
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let (_, resumed) = asked(&mut server, "thread/resume", &resume)?;
    let (_, whole) = asked(&mut server, "thread/read", &read)?;
    let (mut warm, mut pages, mut turns, mut raw, mut raw_page) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut copier = Lines::copier()?;
    let (mut cursor, mut page_bytes) = (Value::Null, 0);
    for _ in 0..TIMES {
        warm.push(asked(&mut server, "thread/read", &read)?.0);
        raw.push(copy(&mut copier, whole)?);
        let page = json!({"threadId": thread, "limit": 100, "cursor": cursor});
        let begun = Instant::now();
        let answer = server.call("thread/items/list", page)?;
        pages.push(begun.elapsed());
        cursor = answer["nextCursor"].clone();
        page_bytes = page_bytes.max(answer.to_string().len());
        raw_page.push(copy(&mut copier, page_bytes)?);
        let page = json!({"threadId": thread, "limit": 50, "itemsView": "full"});
        turns.push(asked(&mut server, "thread/turns/list", &page)?.0);
    }
    server.end()?;
    copier.end()?;
    let copied =
        |bytes: usize, times: &mut [Duration]| format!("copier, {} KiB {}", bytes / 1024, both(times));
    Ok(vec![
        Figure {
            name: "thread/read of 1,000 turns, warm, p50 / p99",
            measured: both(&mut warm),
            goal: "≤ 15 ms",
            reference: copied(whole, &mut raw),
        },
        Figure {
            name: "the same, the first of a fresh server",
            measured: both(&mut first_read),
            goal: "",
            reference: String::new(),
        },
        Figure {
            name: "thread/resume of it, fresh server, p50 / p99",
            measured: both(&mut cold),
            goal: "≤ 50 ms",
            reference: format!("{} KiB", resumed / 1024),
        },
        Figure {
            name: "thread/items/list of 100 of it, p50 / p99",
            measured: both(&mut pages),
            goal: "≤ 2 ms",
            reference: copied(page_bytes, &mut raw_page),
        },
        Figure {
            name: "thread/turns/list of 50 of it, p50 / p99",
            measured: both(&mut turns),
            goal: "",
            reference: String::new(),
        },
    ])
}

/// 20 of 10,000 threads.
pub(crate) fn many_threads(bin: &Path) -> Result<Vec<Figure>> {
    let home = prepared(bin)?;
    with_store(home.path(), async |store| {
        for _ in 0..THREADS {
            write_thread(&store, SessionId::generate(), home.path(), 1).await?;
        }
        Ok(())
    })?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let params = json!({"limit": 20});
    let (first, bytes) = asked(&mut server, "thread/list", &params)?;
    let mut copier = Lines::copier()?;
    let (mut listed, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        listed.push(asked(&mut server, "thread/list", &params)?.0);
        raw.push(copy(&mut copier, bytes)?);
    }
    server.end()?;
    copier.end()?;
    Ok(vec![Figure {
        name: "thread/list of 20 of 10,000, p50 / p99; first",
        measured: format!("{}; {}", both(&mut listed), time(first)),
        goal: "≤ 3 ms",
        reference: format!("copier, {} KiB {}", bytes / 1024, both(&mut raw)),
    }])
}

/// What the server spends on one thread that streams, for one client and for sixteen.
pub(crate) fn fan_out(bin: &Path) -> Result<Vec<Figure>> {
    let one = streamed_to(bin, 1)?;
    let many = streamed_to(bin, CLIENTS)?;
    let (alone, together) = (one.0.as_secs_f64(), many.0.as_secs_f64());
    Ok(vec![Figure {
        name: "one thread to 16 clients: extra server CPU",
        measured: format!("{:.0} % ({} to {})", (together / alone - 1.0) * 100.0, time(one.0), time(many.0)),
        goal: "≤ 30 %",
        reference: format!("{CHUNKS} chunks, {} and {} frames", one.1, many.1),
    }])
}

/// CPU of the server while it streams to so many clients over the unix socket, and how many frames one of them got.
fn streamed_to(bin: &Path, clients: usize) -> Result<(Duration, usize)> {
    let home = tempfile::tempdir()?;
    let socket = home.path().join("bench.sock");
    let server = Server::unix(bin, home.path(), &socket)?;
    let joined = || -> Result<Connection> {
        let mut client = Connection::unix(&socket)?;
        client.initialize()?;
        Ok(client)
    };
    let mut first = joined()?;
    let thread = first.thread(home.path())?;
    first.turn(&thread, "say warm")?;
    let others: Vec<Connection> = (1..clients)
        .map(|_| {
            let mut other = joined()?;
            other.call("thread/resume", &json!({"threadId": thread}))?;
            Ok(other)
        })
        .collect::<Result<_>>()?;
    let before = cpu(server.pid()).ok_or("no CPU time")?;
    let readers: Vec<_> = others
        .into_iter()
        .map(|mut other| std::thread::spawn(move || other.until_end().map_err(|error| error.to_string())))
        .collect();
    // At a pace that every client keeps up with, so that all get the same frames.
    let frames = first.turn(&thread, &format!("stream {CHUNKS} 64 1"))?;
    for reader in readers {
        reader.join().map_err(|_| "a reader failed")??;
    }
    let spent = cpu(server.pid()).ok_or("no CPU time")? - before;
    Ok((spent, frames))
}

/// Asks, and takes the time until the last byte of the answer is here, and its bytes.
fn asked(server: &mut Lines, method: &str, params: &Value) -> Result<(Duration, usize)> {
    let request = json!({"jsonrpc": "2.0", "id": "asked", "method": method, "params": params});
    let begun = Instant::now();
    server.send(&request)?;
    loop {
        let line = server.raw()?;
        if line.starts_with("{\"jsonrpc\":\"2.0\",\"id\":\"asked\"") {
            let (took, bytes) = (begun.elapsed(), line.len());
            if line.contains("\"error\":{\"code\"") {
                return Err(format!("{method}: {line}").into());
            }
            return Ok((took, bytes));
        }
    }
}

/// A home that the server has made, and that nobody serves.
fn prepared(bin: &Path) -> Result<tempfile::TempDir> {
    let home = tempfile::tempdir()?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    server.end()?;
    Ok(home)
}

fn with_store<T>(home: &Path, work: impl AsyncFnOnce(Store) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Store::open(&home.join("signalbox.db")).await?;
        let done = work(store.clone()).await?;
        store.close().await;
        Ok(done)
    })
}

/// A thread of small turns: a prompt and two sentences each, as long as people write.
async fn write_thread(store: &Store, session: SessionId, cwd: &Path, turns: usize) -> Result<()> {
    let mut last: Seq = 0;
    let fact = |last: &mut Seq, turn: Option<TurnId>, is_item: bool, body: FactBody| {
        *last += 1;
        let seq = *last;
        let at_ms = i64::try_from(seq).unwrap_or_default();
        Fact { session, turn, seq, through_seq: seq, item_seq: is_item.then_some(seq), at_ms, body }
    };
    let begun = vec![fact(&mut last, None, false, FactBody::SessionCreated(created(cwd).into()))];
    store.writer.commit(Commit::facts(session, 0, begun)).await?;
    let mut revision = 0;
    for number in 0..turns {
        let from = last;
        let turn = TurnId::generate();
        let mut facts = Vec::new();
        let mut add = |last: &mut Seq, is_item, body| facts.push(fact(last, Some(turn), is_item, body));
        revision += 1;
        let state = ActivityState::Running { turn_id: turn, prompt_request_id: None };
        add(&mut last, false, FactBody::Activity(Activity { revision, state }));
        let text = format!("Question {number}: what does the parser do with a byte order mark?");
        let opens = Some(Box::new(TurnContext { cwd: cwd.to_path_buf(), ..TurnContext::default() }));
        let prompt = Prompt {
            blocks: vec![DocBlock::text(text.as_str())],
            display: text.clone(),
            text,
            request_id: None,
            client_message_id: None,
            opens,
        };
        add(&mut last, true, FactBody::Prompt(prompt.into()));
        let said =
            |item: Seq, text: &str| AgentText { message_id: format!("m{item}"), text: text.to_owned() };
        let thought = said(last + 1, "The frame parser reads the first byte, so a mark would be no brace.");
        add(&mut last, true, FactBody::AgentThought(thought));
        let message = said(last + 1, &"It is skipped at the beginning and refused elsewhere. ".repeat(4));
        add(&mut last, true, FactBody::AgentText(message));
        add(&mut last, false, FactBody::Usage(Usage { input_tokens: 20, ..Usage::default() }));
        revision += 1;
        add(&mut last, false, FactBody::Activity(Activity { revision, state: ActivityState::Idle }));
        let ended = TurnEnded {
            status: TurnStatus::Completed,
            stop_reason: Some("end_turn".to_owned()),
            failure: None,
            request_id: None,
            tokens: None,
        };
        add(&mut last, false, FactBody::TurnEnded(ended.into()));
        store.writer.commit(Commit::facts(session, from, facts)).await?;
    }
    Ok(())
}
