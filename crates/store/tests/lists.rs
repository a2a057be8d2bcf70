//! Pages of sessions and of turns.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use common::*;
use signalbox_facts::{Provider, SessionId};
use signalbox_store::{Listed, PageCursor, SessionQuery, SortKey, Store, TurnQuery};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};

/// Ten thousand sessions, copied from one row: every third of another provider, every tenth in the archive.
async fn ten_thousand() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let session = running(&store).await;
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let columns = "last_seq, activity_revision, state, worktree_discarded, ephemeral, source, title_origin, title, \
                   preview, cwd, project_path, policy, activity";
    let copy = format!(
        "with recursive n (i) as (values (1) union all select i + 1 from n where i < 10000) \
         insert into sessions (id, created_at_ms, updated_at_ms, archived, provider, {columns}) \
         select randomblob(16), i, 20000 - (i / 2), i % 10 = 0, \
         case when i % 3 = 0 then 'codex' else 'rehearsal' end, {columns} from sessions, n; \
         insert into session_details (session, roots, options, rules) \
         select id, '[]', '{{}}', '[]' from sessions where created_at_ms <= 10000 and id not in \
         (select session from session_details)"
    );
    connection.execute(sqlx::AssertSqlSafe(copy)).await.unwrap();
    store.writer.delete_session(session.id).await.unwrap();
    (home, store)
}

/// All pages of a query.
async fn all(store: &Store, query: SessionQuery) -> Vec<(i64, SessionId)> {
    let mut out = Vec::new();
    let mut after: Option<PageCursor> = None;
    loop {
        let page = store.reader.sessions(&SessionQuery { after, ..query.clone() }).await.unwrap();
        for row in page.sessions {
            let Listed::Session(row) = row else { panic!("unreadable") };
            let at = if query.sort == SortKey::Created { row.created_at_ms } else { row.updated_at_ms };
            out.push((at, row.id));
        }
        after = page.next;
        if after.is_none() {
            return out;
        }
    }
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_repetition() {
    let (_home, store) = ten_thousand().await;
    let limit = 500;
    for (sort, ascending) in [(SortKey::Updated, false), (SortKey::Updated, true), (SortKey::Created, false)]
    {
        let rows = all(&store, SessionQuery { sort, ascending, limit, ..SessionQuery::default() }).await;
        assert_eq!(rows.len(), 9_000);
        let mut sorted = rows.clone();
        sorted.sort();
        sorted.dedup();
        if !ascending {
            sorted.reverse();
        }
        assert!(rows == sorted, "{sort:?} {ascending}");
    }
    let codex = vec![Provider::new("codex")];
    let filtered = SessionQuery { providers: codex, archived: true, limit, ..SessionQuery::default() };
    assert_eq!(all(&store, filtered).await.len(), 333);
}

#[tokio::test]
async fn a_page_is_found_in_an_index_alone() {
    let (home, _store) = ten_thousand().await;
    let path = home.path().join("signalbox.db");
    let mut connection = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    let plan = "explain query plan select p.id from sessions p where p.archived = 0 and p.provider in \
                (select value from json_each('[\"codex\"]')) order by p.updated_at_ms desc, p.id desc limit 20";
    let rows = connection.fetch_all(plan).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, "detail")).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("USING COVERING INDEX sessions_by_update (archived=?)"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE FOR ORDER BY"), "{plan}");
}

#[tokio::test]
async fn filters_combine() {
    let store = Store::in_memory().await.unwrap();
    let mut ids = Vec::new();
    for (cwd, provider, text) in [
        ("/a", "codex", "Fix 100% of bugs"),
        ("/a", "rehearsal", "fix the_door"),
        ("/b", "codex", "paint the door"),
    ] {
        let mut session = Session::new();
        store.writer.commit(session.commit([created(cwd, provider)])).await.unwrap();
        store.writer.commit(session.prompt(text)).await.unwrap();
        ids.push(session.id);
    }
    let found = async |query: SessionQuery| {
        let mut found: Vec<usize> = all(&store, query)
            .await
            .into_iter()
            .map(|(_, id)| ids.iter().position(|other| *other == id).unwrap())
            .collect();
        found.sort_unstable();
        found
    };
    let query = SessionQuery::default;
    let search = |text: &str| SessionQuery { search: Some(text.into()), ..query() };
    assert_eq!(found(query()).await, [0, 1, 2]);
    assert_eq!(found(search("FIX")).await, [0, 1]);
    assert_eq!(found(search("100%")).await, [0]);
    assert_eq!(found(search("e_d")).await, [1], "wildcards are letters");
    assert_eq!(found(SessionQuery { cwds: vec!["/a".into()], ..query() }).await, [0, 1]);
    let codex = || vec![Provider::new("codex")];
    assert_eq!(found(SessionQuery { providers: codex(), ..query() }).await, [0, 2]);
    assert_eq!(found(SessionQuery { providers: codex(), ..search("door") }).await, [2]);
    let source = Some(signalbox_facts::SessionSource::Cli);
    assert_eq!(found(SessionQuery { source, ..query() }).await, [0_usize; 0]);
    assert_eq!(found(SessionQuery { archived: true, ..query() }).await, [0_usize; 0]);
}

#[tokio::test]
async fn turns_come_in_pages_in_both_directions() {
    let store = Store::in_memory().await.unwrap();
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    let mut turns = Vec::new();
    for n in 0..5 {
        store.writer.commit(session.prompt(&n.to_string())).await.unwrap();
        turns.push(session.turn.unwrap());
        store.writer.commit(session.ended()).await.unwrap();
    }
    let page = async |query: TurnQuery| {
        let rows = store.reader.turns(session.id, query).await.unwrap();
        let places = rows.iter().map(|row| turns.iter().position(|turn| *turn == row.id).unwrap());
        (places.collect::<Vec<_>>(), rows.last().map(|row| row.first_seq))
    };
    let (places, last) = page(TurnQuery { limit: 2, ..TurnQuery::default() }).await;
    assert_eq!(places, [4, 3]);
    let (places, _) = page(TurnQuery { before: last, limit: 9, ..TurnQuery::default() }).await;
    assert_eq!(places, [2, 1, 0]);
    let (places, _) = page(TurnQuery { after: last, ascending: true, ..TurnQuery::default() }).await;
    assert_eq!(places, [4]);
}
