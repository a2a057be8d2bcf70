//! Search finds what a scan over the facts finds: through reverts, forks, deletions, compaction, late texts and restarts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tasks of tests end with their runtime")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::history::{History, Step, step};
use common::*;
use proptest::prelude::*;
use signalbox_facts::{Fact, FactBody, Seq, SessionId};
use signalbox_store::{
    FailPoint, FailPoints, Fork, SearchPage, SearchQuery, SearchTerm, SessionQuery, SortKey, Store,
    StoreOptions,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor};

fn query(term: &str) -> SearchQuery {
    SearchQuery {
        term: SearchTerm::parse(term).unwrap(),
        archived: false,
        sort: SortKey::Updated,
        ascending: false,
        limit: 50,
        after: None,
        source: None,
    }
}

async fn search(store: &Store, term: &str) -> SearchPage {
    store.reader.search(&query(term)).await.unwrap()
}

/// Sessions in which a term is found, once everything is indexed.
async fn found(store: &Store, term: &str) -> BTreeSet<SessionId> {
    store.writer.index().await.unwrap();
    let page = search(store, term).await;
    assert!(page.complete);
    page.found.iter().map(|found| found.place.id).collect()
}

// ---- what a scan finds ----

fn words(text: &str) -> Vec<String> {
    let plain = text.to_lowercase().replace('é', "e");
    plain
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether a text has every word of the term, the last one as the beginning of a word.
fn matches(text: &str, term: &str) -> bool {
    let (text, term) = (words(text), words(term));
    let last = term.len() - 1;
    term.iter().enumerate().all(|(place, wanted)| {
        text.iter().any(|word| if place == last { word.starts_with(wanted) } else { word == wanted })
    })
}

/// The texts that are to be found: prompts, and messages of turns that have ended, each whole.
fn texts(history: &History) -> Vec<String> {
    let open = history.turns.last().filter(|turn| turn.end.is_none()).map(|turn| turn.first);
    let mut prompts = Vec::new();
    let mut messages: BTreeMap<Seq, String> = BTreeMap::new();
    for fact in history.transcript() {
        match &fact.body {
            FactBody::Prompt(prompt) => prompts.push(prompt.text.clone()),
            FactBody::AgentText(said) if open.is_none_or(|open| fact.seq < open) => {
                messages.entry(fact.item_seq.unwrap()).or_default().push_str(&said.text);
            }
            _ => {}
        }
    }
    prompts.extend(messages.into_values());
    prompts
}

fn scan<'a>(histories: impl IntoIterator<Item = &'a History>, term: &str) -> BTreeSet<SessionId> {
    let has = |history: &&History| texts(history).iter().any(|text| matches(text, term));
    histories.into_iter().filter(has).map(|history| history.session.id).collect()
}

// ---- random histories ----

#[derive(Clone, Debug)]
enum Deed {
    Play(usize, Vec<Step>),
    Fork(usize),
    Delete(usize),
    Index,
    Restart,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let session = 0..3_usize;
    let deed = prop_oneof![
        6 => (session.clone(), prop::collection::vec(step(), 1..14)).prop_map(|(at, steps)| Deed::Play(at, steps)),
        1 => session.clone().prop_map(Deed::Fork),
        1 => session.prop_map(Deed::Delete),
        2 => Just(Deed::Index),
        1 => Just(Deed::Restart),
    ];
    prop::collection::vec(deed, 1..12)
}

/// A fork at the source's end, as the test knows it: the same texts under another id.
async fn fork(store: &Store, source: &History) -> Option<History> {
    if source.is_open() {
        return None;
    }
    let FactBody::SessionCreated(created) = &source.session.facts[0].body else { panic!() };
    let session = Session { id: SessionId::generate(), ..Session::new() };
    let order = Fork {
        source: source.session.id,
        through_seq: source.session.last,
        session: session.id,
        created: (**created).clone(),
        agent_session: None,
        at_ms: 9,
    };
    let row = store.writer.fork(order).await.unwrap();
    let facts: Vec<Fact> =
        source.session.facts.iter().map(|fact| Fact { session: session.id, ..fact.clone() }).collect();
    let session = Session {
        last: row.last_seq,
        revision: row.activity.revision,
        turn: source.session.turn,
        facts,
        ..session
    };
    Some(History { session, turns: source.turns.clone() })
}

async fn act(path: &Path, deeds: &[Deed], terms: &[String]) {
    let mut store = Store::open(path).await.unwrap();
    let mut histories: Vec<History> = Vec::new();
    for _ in 0..3 {
        histories.push(History::play(&store, &["welcome", " back"], &[]).await);
    }
    for deed in deeds {
        match deed {
            Deed::Play(at, steps) => {
                let at = at % histories.len();
                histories[at].play_more(&store, steps).await;
            }
            Deed::Fork(at) => {
                let at = at % histories.len();
                histories.extend(fork(&store, &histories[at]).await);
            }
            Deed::Delete(at) => {
                let at = at % histories.len();
                let gone = histories.swap_remove(at);
                store.writer.delete_session(gone.session.id).await.unwrap();
                histories.push(History::play(&store, &[], &[]).await);
            }
            Deed::Index => store.writer.index().await.unwrap(),
            Deed::Restart => {
                store.close().await;
                store = Store::open(path).await.unwrap();
            }
        }
        for term in terms {
            assert_eq!(found(&store, term).await, scan(&histories, term), "{term:?} after {deed:?}");
        }
    }
    store.close().await;
}

#[test]
fn search_finds_what_a_scan_finds() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let term = "[a-zé]{1,2}( [a-z])?";
    proptest!(config, |(deeds in deeds(), mut terms in prop::collection::vec(term, 2))| {
        terms.push("back".to_owned());
        let home = tempfile::tempdir().unwrap();
        runtime.block_on(act(&home.path().join("signalbox.db"), &deeds, &terms));
    });
}

// ---- stories ----

#[tokio::test]
async fn prompts_are_found_while_their_turn_runs_and_answers_when_it_has_ended() {
    let store = Store::in_memory().await.unwrap();
    let mut session = running(&store).await;
    assert_eq!(found(&store, "do").await.len(), 1);
    for piece in ["Hello Söck", "ets, this is commit_", "new() speaking"] {
        let commit = session.commit_of([(Some(4), chunk("m", piece))]);
        store.writer.commit(commit).await.unwrap();
    }
    assert!(found(&store, "sockets").await.is_empty(), "an answer that goes on");
    store.writer.commit(session.ended()).await.unwrap();
    for term in ["sockets", "SOCKETS hello", "Söckets", "commit_new", "commit_ne", "speak", "do"] {
        assert_eq!(found(&store, term).await.len(), 1, "{term}");
    }
    for term in ["socket ", "new_commit", "sockets missing", "commit hello_this"] {
        assert!(found(&store, term).await.is_empty(), "{term}");
    }
    let page = search(&store, "commit_new").await;
    assert_eq!(page.found[0].snippet, "Hello Söckets, this is commit_new() speaking");
    assert_eq!((page.found[0].seq, page.found[0].item_seq), (4, 4));
    assert!(page.found[0].turn.is_some());
}

#[tokio::test]
async fn scripts_without_spaces_are_found_by_any_part() {
    let store = Store::in_memory().await.unwrap();
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    store.writer.commit(session.prompt("検索エンジンを直してください")).await.unwrap();
    assert_eq!(found(&store, "エンジン").await.len(), 1);
    assert_eq!(found(&store, "直して").await.len(), 1);
    assert!(found(&store, "索検").await.is_empty());
}

#[tokio::test]
async fn each_session_is_found_once_with_its_newest_match_and_pages_lead_both_ways() {
    let store = Store::in_memory().await.unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        let mut session = Session::new();
        let mut created = session.created();
        session.last = 1;
        for entry in &mut created.entries {
            let signalbox_facts::Committed::Fact(fact) = entry else { panic!() };
            *fact = Fact { at_ms: number, ..(**fact).clone() }.into();
        }
        store.writer.commit(created).await.unwrap();
        for text in ["a prompt in which apples are one word among many", "the newest apples", "pears"] {
            store.writer.commit(session.prompt(text)).await.unwrap();
            store.writer.commit(session.ended()).await.unwrap();
        }
        ids.push(session.id);
    }
    assert_eq!(found(&store, "apples").await.len(), 5);
    let mut query = SearchQuery { sort: SortKey::Created, ascending: true, limit: 2, ..query("apples") };
    let mut seen = Vec::new();
    let first = loop {
        let page = store.reader.search(&query).await.unwrap();
        assert!(page.found.iter().all(|found| found.snippet == "the newest apples"), "{page:?}");
        seen.extend(page.found.iter().map(|found| found.place.id));
        query.after = page.found.last().map(|found| found.place);
        if !page.more {
            break page.found.first().map(|found| found.place);
        }
    };
    assert_eq!(seen, ids);
    let back = SearchQuery { ascending: false, after: first, limit: 10, ..query };
    let page = store.reader.search(&back).await.unwrap();
    let back: Vec<_> = page.found.iter().map(|found| found.place.id).collect();
    assert_eq!(back, [ids[3], ids[2], ids[1], ids[0]]);
}

#[tokio::test]
async fn what_is_typed_is_never_syntax() {
    let store = Store::in_memory().await.unwrap();
    running(&store).await;
    for term in [
        "\"",
        "\"do",
        "do\"it\"",
        "do*",
        "*do",
        "NEAR(do it, 2)",
        "do AND it",
        "do OR nothing",
        "NOT do",
        "body:do",
        "-do",
        "^do",
        "do + it",
        "(do",
        "do)",
        "{do it}:x",
        "do\0it",
        "do;--",
        "𝔘𐐀 do",
        "a\u{301} do",
        "ꟻ do",
    ] {
        // Any answer is right that is no error of the database.
        let Ok(term) = SearchTerm::parse(term) else { continue };
        store.reader.search(&SearchQuery { term, ..query("do") }).await.unwrap();
    }
    assert_eq!(found(&store, "\"do\" (it)").await.len(), 1);
}

#[tokio::test]
async fn a_database_of_before_there_was_an_index_is_indexed_in_the_background() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let mut connection: SqliteConnection =
        SqliteConnectOptions::new().filename(&path).create_if_missing(true).connect().await.unwrap();
    connection.execute(include_str!("schema_1.sql")).await.unwrap();
    drop(connection);
    let store = Store::open(&path).await.unwrap();
    // By itself, without anybody who asks for it.
    while !search(&store, "look").await.complete {
        tokio::task::yield_now().await;
    }
    assert_eq!(search(&store, "look around").await.found.len(), 1);
    assert_eq!(search(&store, "söme more").await.found.len(), 1);
    let archived = SearchQuery { archived: true, ..query("old prompt") };
    assert_eq!(store.reader.search(&archived).await.unwrap().found.len(), 1);
    assert!(search(&store, "old prompt").await.found.is_empty());
}

#[tokio::test]
async fn stopped_in_between_it_goes_on_where_it_was() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let fail_points = FailPoints::default();
    let options = StoreOptions { fail_points: fail_points.clone(), ..StoreOptions::default() };
    let store = Store::open_with(&path, options).await.unwrap();
    fail_points.fail(FailPoint::BetweenSlices, 1, u32::MAX);
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    for number in 0..600 {
        store.writer.commit(session.prompt(&format!("number{number}"))).await.unwrap();
        store.writer.commit(session.ended()).await.unwrap();
    }
    assert!(store.writer.index().await.is_err());
    assert!(!search(&store, "number0").await.complete);
    store.close().await;

    let store = Store::open(&path).await.unwrap();
    assert_eq!(found(&store, "number0 ").await.len(), 1);
    assert_eq!(found(&store, "number599 ").await.len(), 1);
    assert!(found(&store, "number600").await.is_empty());
}

#[tokio::test]
async fn a_deleted_session_leaves_no_words() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let session = running(&store).await;
    assert_eq!(found(&store, "do it").await.len(), 1);
    store.writer.delete_session(session.id).await.unwrap();
    assert!(search(&store, "do it").await.found.is_empty(), "before anything is cleaned up");
    // Chores are done one after the other.
    store.writer.index().await.unwrap();
    store.close().await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let count = "select (select count(*) from search_docs) + (select count(*) from search_progress) \
                 + (select count(*) from search_words where search_words match 'do')";
    let row = connection.fetch_one(count).await.unwrap();
    assert_eq!(sqlx::Row::get::<i64, _>(&row, 0), 0);
    drop(connection);
    let store = Store::open(&path).await.unwrap();
    assert!(store.reader.sessions(&SessionQuery::default()).await.unwrap().sessions.is_empty());
}
