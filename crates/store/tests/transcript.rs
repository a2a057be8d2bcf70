//! Transcript pages of logs that are damaged, old, or written by a newer version. What pages are otherwise is tested with
//! their projection, in the engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::Path;

use common::history::{History, Step};
use common::*;
use signalbox_facts::{Fact, FactBody, Seq};
use signalbox_store::{PageRequest, Store, TranscriptError, TranscriptFacts};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

async fn change(path: &Path, sql: String) {
    let mut stranger = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    stranger.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Three turns of a prompt and an answer.
async fn three_turns(store: &Store) -> History {
    let steps = ["one", "two", "three"].map(|text| {
        [Step::Prompt(text.into()), Step::Say { item: 0, text: "yes".into() }, Step::End { failed: false }]
    });
    History::play(store, &[], &steps.concat()).await
}

async fn page(store: &Store, of: &History, before: Option<Seq>) -> Result<TranscriptFacts, TranscriptError> {
    store.reader.transcript(of.session.id, PageRequest { before, ..PageRequest::default() }).await
}

fn prompts(page: &TranscriptFacts) -> Vec<&str> {
    fn text(fact: &Fact) -> Option<&str> {
        match &fact.body {
            FactBody::Prompt(prompt) => Some(&prompt.text),
            _ => None,
        }
    }
    page.facts.iter().filter_map(text).collect()
}

#[tokio::test]
async fn a_damaged_fact_costs_its_own_turn_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let (bad, good) = (three_turns(&store).await, three_turns(&store).await);
    let [_, second, third] = bad.turns[..] else { panic!() };
    let id = bad.session.id.0.simple();
    let answer = second.prompt + 1;
    change(&path, format!("update facts set body = 'broken' where session = x'{id}' and seq = {answer}"))
        .await;

    let newest = page(&store, &bad, None).await.unwrap();
    assert_eq!((prompts(&newest), newest.next_before), (vec!["three"], Some(third.prompt)));
    match page(&store, &bad, newest.next_before).await {
        Err(TranscriptError::Unreadable { session, seq, older, .. }) => {
            assert_eq!((session, seq, older), (bad.session.id, answer, Some(second.prompt)));
        }
        other => panic!("{other:?}"),
    }
    let oldest = page(&store, &bad, Some(second.prompt)).await.unwrap();
    assert_eq!((prompts(&oldest), oldest.next_before), (vec!["one"], None));
    assert_eq!(prompts(&page(&store, &good, None).await.unwrap()), ["one", "two", "three"]);

    // A damaged prompt can still be asked beyond.
    change(
        &path,
        format!("update facts set body = '{{}}' where session = x'{id}' and seq = {}", third.prompt),
    )
    .await;
    let error = page(&store, &bad, None).await.unwrap_err();
    assert!(
        matches!(error, TranscriptError::Unreadable { seq, older, .. } if seq == third.prompt && older == Some(third.prompt)),
        "{error}"
    );
    // And if it is gone altogether, the page that would begin with it names its turn; a larger page does not need it.
    let [_, second, third] = good.turns[..] else { panic!() };
    let id = good.session.id.0.simple();
    change(&path, format!("delete from facts where session = x'{id}' and seq = {}", second.prompt)).await;
    let one = PageRequest { before: Some(third.prompt), turns: 1, ..PageRequest::default() };
    let error = store.reader.transcript(good.session.id, one).await.unwrap_err();
    assert!(matches!(error, TranscriptError::Unreadable { seq, .. } if seq == second.first), "{error}");
    assert_eq!(prompts(&page(&store, &good, None).await.unwrap()), ["one", "three"]);
}

#[tokio::test]
async fn a_damaged_session_row_does_not_hide_the_transcript() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let history = three_turns(&store).await;
    let id = history.session.id.0.simple();
    change(&path, format!("update sessions set activity = '{{}}', policy = 'x' where id = x'{id}'")).await;
    assert!(store.reader.session(history.session.id).await.is_err());
    let whole = page(&store, &history, None).await.unwrap();
    assert_eq!(prompts(&whole), ["one", "two", "three"]);
    assert_eq!(whole.snapshot_through, Some(history.session.last));
}

#[tokio::test]
async fn facts_of_a_newer_version_are_passed_over_and_told_where_they_stand() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let history = three_turns(&store).await;
    let (id, seq) = (history.session.id.0.simple(), history.turns[1].prompt + 1);
    let newer = r#"{"type":"hologram","depth":3}"#;
    change(
        &path,
        format!(
            "update facts set kind = 'hologram', body = '{newer}' where session = x'{id}' and seq = {seq}"
        ),
    )
    .await;
    assert_eq!(prompts(&page(&store, &history, None).await.unwrap()), ["one", "two", "three"]);
    let facts = stored(&store, history.session.id).await;
    let FactBody::Warning(warning) = &facts[usize::try_from(seq).unwrap() - 1].body else { panic!() };
    assert_eq!(warning.reason, "unreadable");
    assert!(warning.message.contains("hologram") && warning.message.contains("newer"), "{}", warning.message);
    // The session goes on behind it.
    let mut session = history.session;
    store.writer.commit(session.prompt("four")).await.unwrap();
}

#[tokio::test]
async fn rows_of_before_there_was_activity_or_composed_prompts_are_read() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let history = three_turns(&store).await;
    let (id, seq) = (history.session.id.0.simple(), history.turns[0].prompt);
    let old = r#"{"type":"prompt","text":"an old prompt"}"#;
    change(
        &path,
        format!(
            "update facts set body = '{old}' where session = x'{id}' and seq = {seq}; \
             update sessions set activity = 'null' where id = x'{id}'"
        ),
    )
    .await;
    let row = store.reader.session(history.session.id).await.unwrap().unwrap();
    assert_eq!(row.activity, signalbox_facts::Activity::default());
    let whole = page(&store, &history, None).await.unwrap();
    assert_eq!(prompts(&whole), ["an old prompt", "two", "three"]);
    // It opened its turn, so it is a cursor.
    assert_eq!(page(&store, &history, Some(seq)).await.unwrap().facts, []);
}

#[tokio::test]
async fn a_page_that_ends_early_leaves_its_connection_in_order() {
    let store = Store::in_memory().await.unwrap();
    let steps: Vec<_> =
        (0..300).flat_map(|turn| [Step::Prompt(format!("{turn}")), Step::End { failed: false }]).collect();
    let history = History::play(&store, &[], &steps).await;
    for _ in 0..20 {
        let request = PageRequest { before: None, turns: 50, max_bytes: 1 };
        let cut = store.reader.transcript(history.session.id, request).await.unwrap();
        assert_eq!((prompts(&cut), cut.next_before), (vec!["299"], Some(history.turns[299].prompt)));
        assert!(page(&store, &history, Some(1)).await.is_err());
    }
    assert_eq!(prompts(&page(&store, &history, None).await.unwrap()).len(), 20);
}
