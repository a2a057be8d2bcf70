//! Files that are not ours, locks, a full disk, damaged rows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::*;
use signalbox_facts::FactBody;
use signalbox_store::{CommitError, Listed, SessionQuery, StorageKind, Store, StoreError, StoreOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

/// Another program with the same file.
async fn stranger(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

#[tokio::test]
async fn a_file_of_a_newer_program_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    Store::open(&path).await.unwrap().close().await;
    stranger(&path).await.execute("pragma user_version = 99").await.unwrap();
    let error = Store::open(&path).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{text}");
    assert!(text.contains(path.to_str().unwrap()) && text.contains("schema version 99"), "{text}");
}

#[tokio::test]
async fn a_file_of_another_program_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let text = home.path().join("text");
    std::fs::write(
        &text,
        "This is no database, but it is longer than a header of one hundred bytes. ".repeat(9),
    )
    .unwrap();
    let error = Store::open(&text).await.unwrap_err();
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error}");

    let foreign = home.path().join("foreign.db");
    stranger(&foreign).await.execute("create table theirs (a)").await.unwrap();
    let before = std::fs::read(&foreign).unwrap();
    let error = Store::open(&foreign).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read(&foreign).unwrap(), before);

    let error = Store::open(&home.path().join("no/such/folder.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
}

#[tokio::test]
async fn a_locked_database_fails_all_after_one_wait_and_works_again_after() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let busy_timeout = Duration::from_millis(20);
    let store =
        Store::open_with(&path, StoreOptions { busy_timeout, ..StoreOptions::default() }).await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..50 {
        sessions.push(running(&store).await);
    }
    let mut stranger = stranger(&path).await;
    stranger.execute("begin immediate").await.unwrap();
    let commits = sessions.iter_mut().map(|session| store.writer.commit(session.chunk("x")));
    for result in futures_util::future::join_all(commits).await {
        let error = result.unwrap_err();
        assert!(
            matches!(error, CommitError::Storage { kind: StorageKind::Locked, retryable: true, .. }),
            "{error}"
        );
    }
    // Reads do not care.
    assert_eq!(store.reader.open_sessions().await.unwrap().len(), 50);
    stranger.execute("rollback").await.unwrap();
    for session in &mut sessions {
        session.last -= 1;
        session.facts.pop();
        store.writer.commit(session.chunk("y")).await.unwrap();
        assert_eq!(stored(&store, session.id).await, session.facts);
    }
}

#[tokio::test]
async fn a_full_disk_fails_commits_until_there_is_room_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let options = StoreOptions { max_pages: Some(80), ..StoreOptions::default() };
    let store = Store::open_with(&path, options).await.unwrap();
    let (mut small, mut large) = (running(&store).await, running(&store).await);
    let text = "x".repeat(20_000);
    let error = loop {
        match store.writer.commit(large.chunk(&text)).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, CommitError::Storage { kind: StorageKind::Full, retryable: true, .. }),
        "{error}"
    );
    large.facts.pop();
    assert_eq!(stored(&store, large.id).await, large.facts);
    // Side by side with one that cannot be stored, a small one still is.
    let retry = Session { last: large.last - 1, id: large.id, ..Session::new() }.chunk(&text);
    let (full, fits) = tokio::join!(store.writer.commit(retry), store.writer.commit(small.chunk("small")));
    assert!(full.is_err() && fits.is_ok());
    store.writer.delete_session(large.id).await.unwrap();
    while !stored(&store, large.id).await.is_empty() {
        tokio::task::yield_now().await;
    }
    store.writer.commit(small.chunk(&text)).await.unwrap();
    assert_eq!(stored(&store, small.id).await, small.facts);
}

#[tokio::test]
async fn damaged_rows_are_shown_as_stubs() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let (good, bad) = (running(&store).await, running(&store).await);
    let mut stranger = stranger(&path).await;
    let id = bad.id.0.simple();
    let damage = format!(
        "update sessions set activity = '{{}}' where id = x'{id}'; \
         update facts set body = 'broken' where session = x'{id}' and seq = 2"
    );
    stranger.execute(AssertSqlSafe(damage)).await.unwrap();

    let page = store.reader.sessions(&SessionQuery::default()).await.unwrap();
    assert_eq!(page.sessions.len(), 2);
    let stub = |row: &Listed| matches!(row, Listed::Unreadable { id, reason } if *id == bad.id && reason.contains("activity"));
    assert!(page.sessions.iter().any(stub));
    let readable = |row: &Listed| matches!(row, Listed::Session(row) if row.id == good.id);
    assert!(page.sessions.iter().any(readable));
    assert!(store.reader.open_sessions().await.unwrap().iter().any(stub));
    let error = store.reader.session(bad.id).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { session, .. } if session == bad.id));

    let facts = stored(&store, bad.id).await;
    assert_eq!(facts.len(), 3);
    assert!(matches!(&facts[1].body, FactBody::Warning(warning) if warning.reason == "unreadable"));
    assert_eq!((&facts[0], &facts[2]), (&bad.facts[0], &bad.facts[2]));
}

#[tokio::test]
async fn a_damaged_queue_hides_no_other() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let (good, bad) = (running(&store).await, running(&store).await);
    let mut stranger = stranger(&path).await;
    for (session, queue) in [(&good, r#"{"entries":[]}"#), (&bad, "broken")] {
        let id = session.id.0.simple();
        let sql = format!("update session_details set queue = '{queue}' where session = x'{id}'");
        stranger.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    assert_eq!(store.reader.queued_sessions().await.unwrap(), [good.id]);
}
