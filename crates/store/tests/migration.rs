//! A database that the first schema made, opened by this version: nothing is lost, and the schema is a new database's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::Path;

use common::{Session, stored};
use signalbox_facts::{ActivityState, FactBody, SessionId, SessionRow, SessionRule};
use signalbox_store::{Fork, Listed, PageRequest, SessionQuery, Store, TurnQuery};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor, Row};

/// As the store of that time left it.
const FIRST: &str = include_str!("schema_1.sql");

async fn connection(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

/// What there is in a database, without regard to white space, and its version.
async fn schema(path: &Path) -> (Vec<String>, i64) {
    let mut connection = connection(path).await;
    let sql = "select type || ' ' || name || ' ' || coalesce(sql, '') from sqlite_schema order by 1";
    let rows = connection.fetch_all(sql).await.unwrap();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let objects = rows.iter().map(|row| words(row.get(0))).collect();
    (objects, connection.fetch_one("pragma user_version").await.unwrap().get(0))
}

async fn only(store: &Store, title: &str, archived: bool) -> SessionRow {
    let query = SessionQuery { archived, search: Some(title.to_owned()), ..SessionQuery::default() };
    let page = store.reader.sessions(&query).await.unwrap();
    let [Listed::Session(row)] = &page.sessions[..] else { panic!("{title}: {page:?}") };
    (**row).clone()
}

/// Text of each prompt and message.
async fn said(store: &Store, session: SessionId) -> Vec<String> {
    let page = store.reader.transcript(session, PageRequest::default()).await.unwrap();
    let text = |body: &FactBody| match body {
        FactBody::Prompt(prompt) => Some(prompt.text.clone()),
        FactBody::AgentText(text) => Some(text.text.clone()),
        _ => None,
    };
    page.facts.iter().filter_map(|fact| text(&fact.body)).collect()
}

#[tokio::test]
async fn a_database_of_the_first_schema_is_brought_forward_whole() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    connection(&path).await.execute(FIRST).await.unwrap();
    let store = Store::open(&path).await.unwrap();

    let ended = only(&store, "A look around", false).await;
    assert_eq!((ended.last_seq, ended.activity.revision), (28, 6));
    assert_eq!(ended.rules, [SessionRule::Command { command: "ls".into() }]);
    assert_eq!(ended.agent_session.as_deref(), Some("agent-7"));
    assert!(ended.queue.as_ref().is_some_and(|queue| queue.paused && queue.entries.len() == 1));
    assert_eq!(
        said(&store, ended.id).await,
        ["Welcome.", "Look around", "Looking.", "And \"now\"?\nSecond line", "Söme", " more"]
    );
    assert_eq!(store.reader.turns(ended.id, TurnQuery::default()).await.unwrap().len(), 2);

    let waiting = only(&store, "do it", false).await;
    assert!(
        matches!(&waiting.activity.state, ActivityState::AwaitingInput { pending, .. } if pending.len() == 1)
    );
    assert_eq!(store.reader.pending_inputs(None).await.unwrap().len(), 1);
    assert_eq!(store.writer.next_pending_sequence(), 2);
    assert_eq!(store.reader.receipt(waiting.id, "message-1").await.unwrap().unwrap().seq, 7);

    let old = only(&store, "An old prompt", true).await;
    assert_eq!(said(&store, old.id).await, ["An old prompt"]);

    for id in [ended.id, waiting.id, old.id] {
        let facts = stored(&store, id).await;
        assert!(facts.iter().all(|fact| !matches!(fact.body, FactBody::Warning(_))), "{facts:?}");
    }

    // Everything goes on.
    let mut session = Session { id: ended.id, last: 28, revision: 6, ..Session::new() };
    store.writer.commit(session.prompt("And now?")).await.unwrap();
    store.writer.commit(session.ended()).await.unwrap();
    store
        .writer
        .compact(ended.id, store.reader.turns(ended.id, TurnQuery::default()).await.unwrap()[1].id)
        .await
        .unwrap();
    assert_eq!(said(&store, ended.id).await[4..], ["Söme more", "And now?"]);
    let FactBody::SessionCreated(created) = &stored(&store, old.id).await[0].body else { panic!() };
    let fork = Fork {
        source: old.id,
        through_seq: 5,
        session: SessionId::generate(),
        created: (**created).clone(),
        agent_session: None,
        at_ms: 9,
    };
    assert_eq!(store.writer.fork(fork).await.unwrap().last_seq, 5);
    store.close().await;

    // The schema is that of a new database, and what it was is kept beside it.
    let new = home.path().join("new.db");
    Store::open(&new).await.unwrap().close().await;
    assert_eq!(schema(&path).await, schema(&new).await);
    let copy = home.path().join("signalbox.db.schema-1");
    assert_eq!(schema(&copy).await.1, 1);
    let row = connection(&copy).await.fetch_one("select count(*) from facts").await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 40);
    assert!(!home.path().join("new.db.schema-0").exists(), "there was nothing to keep");

    // The second start has nothing to do.
    std::fs::remove_file(&copy).unwrap();
    Store::open(&path).await.unwrap().close().await;
    assert!(!copy.exists());
}

#[tokio::test]
async fn the_copy_can_be_put_back() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    connection(&path).await.execute(FIRST).await.unwrap();
    Store::open(&path).await.unwrap().close().await;
    std::fs::rename(home.path().join("signalbox.db.schema-1"), &path).unwrap();
    assert_eq!(schema(&path).await.1, 1);
    let store = Store::open(&path).await.unwrap();
    assert_eq!(only(&store, "A look around", false).await.last_seq, 28);
}

#[tokio::test]
async fn without_room_for_the_copy_nothing_is_migrated() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    connection(&path).await.execute(FIRST).await.unwrap();
    // A folder where the copy should go.
    std::fs::create_dir(home.path().join("signalbox.db.schema-1")).unwrap();
    std::fs::write(home.path().join("signalbox.db.schema-1/in_use"), "").unwrap();
    let error = Store::open(&path).await.unwrap_err().to_string();
    assert!(error.contains("signalbox.db.schema-1") && error.contains("make room"), "{error}");
    assert_eq!(schema(&path).await.1, 1);
}
