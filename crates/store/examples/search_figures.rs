//! Measures the search index: how long indexing takes a turn, how big it is, how long queries take.
//!
//! `cargo run --release -p signalbox-store --example search_figures [THREADS] [TURNS A THREAD]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people")]

use std::time::Instant;

use signalbox_facts::{
    Activity, ActivityState, AgentText, Fact, FactBody, Policy, Prompt, Provider, SessionCreated, SessionId,
    SessionSource, TurnContext, TurnEnded, TurnId, TurnStatus,
};
use signalbox_store::{Commit, SearchQuery, SearchTerm, SortKey, Store};

/// So many different words, the first ones more often than the last ones, as in any language.
const WORDS: u64 = 20_000;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (threads, turns) = (arguments.next().unwrap_or(10_000), arguments.next().unwrap_or(10));
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let mut random = 1;
    let begun = Instant::now();
    for _ in 0..threads {
        let facts = thread(turns, &mut random);
        store.writer.commit(Commit::facts(facts[0].session, 0, facts)).await.unwrap();
    }
    let stored = begun.elapsed();
    store.writer.index().await.unwrap();
    let whole = begun.elapsed();
    let size = std::fs::metadata(&path).unwrap().len() >> 20;
    println!(
        "{threads} threads of {turns} turns: stored in {stored:?}, indexed {whole:?} after the beginning"
    );
    let per_turn = whole.as_micros() / u128::from(threads * turns);
    println!("{per_turn} us a turn, storing included; database {size} MiB without its log");
    for term in ["w19999 ", "w5000 w7000", "w3 ", "w0 ", "w0 w1 w2", "w19", "w1", "w"] {
        let query = SearchQuery {
            term: SearchTerm::parse(term).unwrap(),
            archived: false,
            sort: SortKey::Updated,
            ascending: false,
            limit: 25,
            after: None,
            source: None,
        };
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..10 {
            let begun = Instant::now();
            found = store.reader.search(&query).await.unwrap().found.len();
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        println!("{term:14} {found:3} found, median {:?}, longest {:?}", times[5], times[9]);
    }
    store.close().await;
}

fn text(words: u64, random: &mut u64) -> String {
    let mut word = || {
        // Xorshift: the same texts in each run.
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = (WORDS as f64).powf((*random % 1_000_000) as f64 / 1e6) as u64 - 1;
        format!("w{rank}")
    };
    (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
}

fn thread(turns: u64, random: &mut u64) -> Vec<Fact> {
    let session = SessionId::generate();
    let mut facts: Vec<Fact> = Vec::new();
    let mut push = |turn: Option<TurnId>, body: FactBody| {
        let seq = facts.len() as u64 + 1;
        facts.push(Fact { session, turn, seq, through_seq: seq, item_seq: Some(seq), at_ms: 1, body });
    };
    push(None, FactBody::SessionCreated(Box::new(created())));
    for number in 0..turns {
        let turn = TurnId::generate();
        let activity = |revision, state| FactBody::Activity(Activity { revision, state });
        let running = ActivityState::Running { turn_id: turn, prompt_request_id: None };
        push(Some(turn), activity(2 * number + 1, running));
        let prompt = Prompt {
            blocks: Vec::new(),
            text: text(20, random),
            display: String::new(),
            request_id: None,
            client_message_id: None,
            opens: Some(Box::default()),
        };
        push(Some(turn), FactBody::Prompt(Box::new(prompt)));
        let answer = AgentText { message_id: "m".into(), text: text(150, random) };
        push(Some(turn), FactBody::AgentText(answer));
        push(Some(turn), activity(2 * number + 2, ActivityState::Idle));
        let (status, stop_reason) = (TurnStatus::Completed, None);
        let ended = TurnEnded { status, stop_reason, failure: None, tokens: None, request_id: None };
        push(Some(turn), FactBody::TurnEnded(Box::new(ended)));
    }
    facts
}

fn created() -> SessionCreated {
    let TurnContext { cwd, .. } = TurnContext::default();
    SessionCreated {
        provider: Provider::new("rehearsal"),
        cwd: cwd.clone(),
        roots: Vec::new(),
        project_path: cwd,
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
