//! What a commit stores, when it is answered, and that one bad session harms no other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tasks of tests end with their runtime")]

mod common;

use std::sync::Arc;

use common::*;
use signalbox_facts::{
    ActivityState, Committed, Decision, FactBody, PermissionResolved, Policy, PolicyChanged, QueueChanged,
    ResolvedBy, ResolverKind, Reverted, SessionRule, SettingsChanged, Signal, SignalBody, TitleChanged,
    TitleOrigin, TurnId, TurnStatus, Usage, WorktreeDiscarded,
};
use signalbox_store::{Commit, CommitError, FailPoint, FailPoints, Store, StoreOptions};

async fn open() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("signalbox.db")).await.unwrap();
    (home, store)
}

async fn open_with(fail_points: &FailPoints) -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions { fail_points: fail_points.clone(), ..StoreOptions::default() };
    let store = Store::open_with(&home.path().join("signalbox.db"), options).await.unwrap();
    (home, store)
}

#[tokio::test]
async fn what_is_answered_is_stored_and_comes_back_equal() {
    let (_home, store) = open().await;
    let mut session = Session::new();
    let mut answered = Vec::new();
    for commit in [session.created(), session.prompt("hello"), session.chunk("hi"), session.ended()] {
        answered.extend(facts(store.writer.commit(commit).await.unwrap()));
    }
    assert_eq!(answered, session.facts);
    assert_eq!(stored(&store, session.id).await, session.facts);

    let row = store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!((row.last_seq, row.preview.as_str()), (6, "hello"));
    assert_eq!(row.activity.state, ActivityState::Idle);
    assert_eq!(row.activity.revision, 2);
    assert_eq!((row.created_at_ms, row.updated_at_ms), (1_001, 1_006));
    assert_eq!(row.roots, ["/work/other"].map(std::path::PathBuf::from));
    assert_eq!(row.instructions.as_deref(), Some("Be brief."));

    let turn = store.reader.newest_turn(session.id).await.unwrap().unwrap();
    assert_eq!((turn.first_seq, turn.end_seq, turn.status), (2, Some(6), TurnStatus::Completed));
    assert_eq!(turn.context.cwd, std::path::Path::new("/home/dev/project"));
    let at = store.reader.session_at(session.id).await.unwrap().unwrap();
    assert_eq!((at.row, at.turn, at.facts), (row, Some(turn), session.facts[1..].to_vec()));
}

#[tokio::test]
async fn everything_is_there_after_closing_and_opening() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let mut session = running(&store).await;
    store.writer.commit(session.chunk("one")).await.unwrap();
    store.close().await;
    assert!(matches!(store.writer.commit(session.chunk("late")).await, Err(CommitError::Closed)));
    assert!(store.reader.session(session.id).await.is_err());
    assert!(!path.with_extension("db-wal").exists(), "the log has been moved into the file");

    let store = Store::open(&path).await.unwrap();
    assert_eq!(stored(&store, session.id).await, session.facts[..4]);
    let open = store.reader.open_sessions().await.unwrap();
    assert!(matches!(&open[..], [signalbox_store::Listed::Session(row)] if row.id == session.id));
}

#[tokio::test]
async fn a_long_commit_is_stored_whole() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let commit = session.commit((0..333).map(|n| chunk("m", &n.to_string())));
    store.writer.commit(commit).await.unwrap();
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn derived_rows_follow_their_facts() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let turn = session.turn.unwrap();
    let parked = input(store.writer.next_pending_sequence());
    session.revision += 1;
    let waiting = ActivityState::AwaitingInput {
        turn_id: turn,
        prompt_request_id: None,
        pending: vec![parked.clone()],
    };
    let commit = session.commit([
        activity(session.revision, waiting.clone()),
        FactBody::PermissionRequested(parked.clone().into()),
        FactBody::TitleChanged(TitleChanged { title: "A title".into(), origin: TitleOrigin::Agent }),
        FactBody::AgentSession { id: "agent-1".into() },
        FactBody::Usage(Usage { input_tokens: 3, ..Usage::default() }),
        FactBody::QueueChanged(QueueChanged { paused: true, ..QueueChanged::default() }),
        FactBody::Archived { archived: true },
        FactBody::WorktreeDiscarded(WorktreeDiscarded {
            path: "/x".into(),
            removed_checkout: true,
            deleted_branch: None,
        }),
    ]);
    store.writer.commit(commit).await.unwrap();
    let row = store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!(row.activity.state, waiting);
    assert_eq!((row.title.as_str(), row.title_origin), ("A title", TitleOrigin::Agent));
    assert_eq!(row.agent_session.as_deref(), Some("agent-1"));
    assert_eq!(row.usage.unwrap().input_tokens, 3);
    assert!(row.queue.unwrap().paused && row.archived && row.worktree_discarded);
    let pending = store.reader.pending_inputs(None).await.unwrap();
    assert_eq!(pending, [(session.id, Some(turn), parked.clone())]);

    let rule = SessionRule::Command { command: "ls".into() };
    let resolved = PermissionResolved {
        input: parked.id,
        title: parked.title,
        tool_call: None,
        decision: Decision::AcceptForSession,
        option_id: None,
        by: ResolvedBy { kind: ResolverKind::Client, name: None },
        rule: None,
        message: None,
        kept_rule: Some(rule.clone()),
    };
    let options = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
    };
    let settings = |model: Option<&str>, pairs| SettingsChanged {
        model: model.map(str::to_owned),
        options: options(pairs),
        ..SettingsChanged::default()
    };
    let policy = Policy { mode: signalbox_facts::Mode::Yolo, ..Policy::default() };
    let commit = session.commit([
        FactBody::PermissionResolved(resolved.into()),
        FactBody::PolicyChanged(PolicyChanged { policy, request_id: None }),
        FactBody::SettingsChanged(settings(Some("big"), &[("a", "1"), ("b", "2")]).into()),
        FactBody::SettingsChanged(settings(None, &[("b", "3")]).into()),
    ]);
    store.writer.commit(commit).await.unwrap();
    let row = store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!((row.rules, row.policy, row.model.as_deref()), (vec![rule], policy, Some("big")));
    assert_eq!(row.options, options(&[("a", "1"), ("b", "3")]));
    assert_eq!(row.roots.len(), 1, "settings that do not name the roots leave them");
    assert!(store.reader.pending_inputs(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_revert_hides_turns_and_deletes_nothing() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let first = session.turn.unwrap();
    store.writer.commit(session.ended()).await.unwrap();
    store.writer.commit(session.prompt("second")).await.unwrap();
    let second = session.turn.unwrap();
    store.writer.commit(session.ended()).await.unwrap();
    let reverted = Reverted { before_turn: second, from_seq: 6, request_id: None };
    store.writer.commit(session.commit([FactBody::Reverted(reverted)])).await.unwrap();

    let turns = store.reader.turns(session.id, signalbox_store::TurnQuery::default()).await.unwrap();
    assert_eq!(turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), [first]);
    assert!(store.reader.turn(session.id, second).await.unwrap().unwrap().reverted);
    let at = store.reader.session_at(session.id).await.unwrap().unwrap();
    assert_eq!(at.turn.unwrap().id, first);
    assert!(at.facts.iter().all(|fact| fact.turn != Some(second)));
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn a_commit_from_the_wrong_place_changes_nothing() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let mut stale = session.chunk("x");
    stale.expected_last_seq = 3;
    let again = stale.clone();
    store.writer.commit(stale).await.unwrap();
    let error = store.writer.commit(again).await.unwrap_err();
    assert!(matches!(error, CommitError::Conflict { expected: 3, stored: Some(4), .. }), "{error}");

    let mut unknown = Session::new();
    let _ = unknown.created();
    let error = store.writer.commit(unknown.chunk("nobody")).await.unwrap_err();
    assert!(matches!(error, CommitError::Conflict { stored: None, .. }), "{error}");
    assert!(stored(&store, unknown.id).await.is_empty());

    let skipped = session.commit([activity(7, ActivityState::Idle)]);
    let error = store.writer.commit(skipped).await.unwrap_err();
    assert!(matches!(error, CommitError::Revision { revision: 7, .. }), "{error}");
    let row = store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!((row.last_seq, row.activity.revision), (4, 1));
    assert_eq!(stored(&store, session.id).await, session.facts[..4]);
}

#[tokio::test]
async fn commits_that_contradict_themselves_are_refused() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let mut gap = session.chunk("x");
    gap.expected_last_seq = 2;
    let mut other = Session::new();
    let foreign = Commit { session: session.id, ..other.created() };
    let headless = Session::new().chunk("no session before");
    let mut opens_nothing = Session::new();
    let opens_nothing = opens_nothing.commit([created("/a", "b"), prompt("p", true, None)]);
    let twice = session.commit([activity(2, ActivityState::Idle), activity(2, ActivityState::Idle)]);
    for commit in [gap, foreign, headless, opens_nothing, twice] {
        let error = store.writer.commit(commit).await.unwrap_err();
        assert!(matches!(error, CommitError::Invalid { .. }), "{error}");
    }
    let mut again = Session { id: session.id, ..Session::new() };
    let error = store.writer.commit(again.created()).await.unwrap_err();
    assert!(matches!(error, CommitError::Exists { .. }), "{error}");
}

#[tokio::test]
async fn a_message_is_accepted_once() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let turn = session.turn;
    store.writer.commit(session.commit([prompt("more", false, Some("c1"))])).await.unwrap();
    let last = session.last;
    let error = store.writer.commit(session.commit([prompt("more", false, Some("c1"))])).await.unwrap_err();
    assert!(
        matches!(&error, CommitError::DuplicateMessage { client_message_id, turn: accepted, .. }
            if client_message_id == "c1" && *accepted == turn),
        "{error}"
    );
    session.last = last;
    let receipt = store.reader.receipt(session.id, "c1").await.unwrap().unwrap();
    assert_eq!((receipt.turn, receipt.seq), (turn, last));
    assert_eq!(store.reader.receipt(session.id, "c2").await.unwrap(), None);
    let other = running(&store).await;
    assert_eq!(store.reader.receipt(other.id, "c1").await.unwrap(), None);
    store.writer.commit(session.chunk("and it goes on")).await.unwrap();
}

/// Queues all commits behind one that is held, so that they share a transaction.
async fn together(
    store: &Store,
    fail_points: &FailPoints,
    commits: Vec<Commit>,
) -> Vec<Result<Vec<Committed>, CommitError>> {
    let mut first = Session::new();
    let held = fail_points.hold(FailPoint::BeforeBegin);
    let blocker = tokio::spawn(store.writer.commit(first.created()));
    held.reached().await;
    let mut waiting: Vec<_> =
        commits.into_iter().map(|commit| Box::pin(store.writer.commit(commit))).collect();
    // One poll puts each into the queue.
    for future in &mut waiting {
        assert!(futures_util::poll!(future).is_pending());
    }
    drop(held);
    blocker.await.unwrap().unwrap();
    futures_util::future::join_all(waiting).await
}

#[tokio::test]
async fn one_bad_session_takes_nobody_with_it() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let (mut a, mut b, mut c, mut d) =
        (running(&store).await, running(&store).await, running(&store).await, running(&store).await);
    store.writer.commit(b.commit([prompt("first", false, Some("m"))])).await.unwrap();
    let b_before = b.facts.clone();
    let mut late = c.chunk("stale");
    late.expected_last_seq = 2;
    late.entries = Session { last: 2, ..Session { id: c.id, ..Session::new() } }.chunk("stale").entries;
    // The duplicate is found only after its facts were written; the stale one before; both must leave no trace.
    let commits = vec![a.chunk("good"), b.commit([prompt("again", false, Some("m"))]), late, d.ended()];
    let results = together(&store, &fail_points, commits).await;
    assert!(results[0].is_ok() && results[3].is_ok());
    assert!(matches!(results[1], Err(CommitError::DuplicateMessage { .. })));
    assert!(matches!(results[2], Err(CommitError::Conflict { .. })));
    assert_eq!(stored(&store, a.id).await, a.facts);
    assert_eq!(stored(&store, b.id).await, b_before);
    assert_eq!(stored(&store, c.id).await, c.facts[..3]);
    assert_eq!(stored(&store, d.id).await, d.facts);
}

#[tokio::test]
async fn a_stale_chunk_among_chunks_fails_alone() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let (mut a, mut b, mut c) = (running(&store).await, running(&store).await, running(&store).await);
    let stale = Session { last: 2, ..Session { id: b.id, ..Session::new() } }.chunk("stale");
    let commits = vec![a.chunk("1"), a.chunk("2"), stale, b.chunk("3"), c.chunk("4")];
    let results = together(&store, &fail_points, commits).await;
    assert!(matches!(results[2], Err(CommitError::Conflict { expected: 2, stored: Some(3), .. })));
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 4);
    for session in [a, b, c] {
        assert_eq!(stored(&store, session.id).await, session.facts);
    }
}

#[tokio::test]
async fn an_error_in_one_savepoint_fails_that_session_alone() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let (mut a, mut b, mut c) = (running(&store).await, running(&store).await, running(&store).await);
    // The blocker passes the point first, then a; b fails.
    fail_points.fail(FailPoint::InSavepoint, 2, 1);
    let commits = vec![a.chunk("1"), b.chunk("2"), c.chunk("3")];
    let results = together(&store, &fail_points, commits).await;
    assert!(results[0].is_ok() && results[2].is_ok());
    let error = results[1].as_ref().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(stored(&store, b.id).await, b.facts[..3]);
    b.last -= 1;
    store.writer.commit(b.chunk("again")).await.unwrap();
}

#[tokio::test]
async fn a_lost_transaction_is_replayed_session_by_session() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let (mut a, mut b) = (running(&store).await, running(&store).await);
    // The blocker's COMMIT passes, the batch's fails, and so does the first replay.
    fail_points.fail(FailPoint::BeforeCommit, 1, 2);
    let results = together(&store, &fail_points, vec![a.chunk("1"), b.chunk("2")]).await;
    assert!(matches!(results[0], Err(CommitError::Storage { retryable: true, .. })));
    assert!(results[1].is_ok());
    assert_eq!(stored(&store, a.id).await, a.facts[..3]);
    assert_eq!(stored(&store, b.id).await, b.facts);
    a.last -= 1;
    store.writer.commit(a.chunk("again")).await.unwrap();
}

#[tokio::test]
async fn a_commit_that_happened_although_it_reported_an_error_is_answered_as_stored() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let mut session = running(&store).await;
    fail_points.fail(FailPoint::AfterCommit, 0, 1);
    store.writer.commit(session.chunk("once")).await.unwrap();
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn a_boundary_is_answered_after_the_flush_and_nobody_else_waits_for_it() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let (mut a, mut b) = (running(&store).await, running(&store).await);
    let held = fail_points.hold(FailPoint::BeforeFlush);
    let mut boundary = Box::pin(store.writer.commit(a.ended()));
    assert!(futures_util::poll!(&mut boundary).is_pending());
    held.reached().await;
    store.writer.commit(b.chunk("not held up")).await.unwrap();
    assert!(futures_util::poll!(&mut boundary).is_pending());
    assert_eq!(stored(&store, a.id).await, a.facts, "committed, but not shown");
    drop(held);
    boundary.await.unwrap();
}

#[tokio::test]
async fn one_flush_serves_all_that_wait() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let held = fail_points.hold(FailPoint::BeforeFlush);
    let mut sessions: Vec<Session> = (0..20).map(|_| Session::new()).collect();
    let mut waiting: Vec<_> =
        sessions.iter_mut().map(|session| Box::pin(store.writer.commit(session.created()))).collect();
    for future in &mut waiting {
        assert!(futures_util::poll!(future).is_pending());
    }
    held.reached().await;
    // All are committed once the last is visible; the first flush may have taken only some of them with it.
    let last = sessions.last().unwrap().id;
    while store.reader.session(last).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    // A third flush would fail.
    fail_points.fail(FailPoint::BeforeFlush, 1, u32::MAX);
    drop(held);
    for result in futures_util::future::join_all(waiting).await {
        result.unwrap();
    }
}

#[tokio::test]
async fn facts_that_the_disk_did_not_confirm_are_told_apart() {
    let fail_points = FailPoints::default();
    let (_home, store) = open_with(&fail_points).await;
    let mut session = running(&store).await;
    fail_points.fail(FailPoint::BeforeFlush, 0, 2);
    let error = store.writer.commit(session.ended()).await.unwrap_err();
    assert!(matches!(error, CommitError::Unflushed { .. }), "{error}");
    assert!(store.writer.flush().await.is_err());
    store.writer.flush().await.unwrap();
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn signals_keep_their_place_and_leave_no_row() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let signal = |seq| {
        let body = SignalBody::Stalled { since_ms: None };
        Committed::Signal(Arc::new(Signal { session: session.id, turn: None, seq, at_ms: 9, body }))
    };
    let (before, after, alone) = (signal(3), signal(4), signal(4));
    let mut mixed = session.chunk("between");
    mixed.entries.insert(0, before);
    mixed.entries.push(after);
    let answered = store.writer.commit(mixed).await.unwrap();
    assert!(matches!(answered[..], [Committed::Signal(_), Committed::Fact(_), Committed::Signal(_)]));
    let entries = vec![alone];
    let answered = store.writer.commit(Commit { session: session.id, expected_last_seq: 4, entries }).await;
    assert!(matches!(answered.unwrap()[..], [Committed::Signal(_)]));
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn a_commit_happens_although_nobody_waits_for_it() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let mut forgotten = Box::pin(store.writer.commit(session.chunk("kept")));
    assert!(futures_util::poll!(&mut forgotten).is_pending());
    drop(forgotten);
    store.writer.commit(session.chunk("next")).await.unwrap();
    assert_eq!(stored(&store, session.id).await, session.facts);
}

#[tokio::test]
async fn sequence_numbers_grow_over_sessions_and_restarts() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.writer.reserve_sequences(3), 1..4);
    let mut session = running(&store).await;
    let parked = input(store.writer.next_pending_sequence());
    assert_eq!(parked.sequence, 4);
    store.writer.commit(session.commit([FactBody::PermissionRequested(parked.into())])).await.unwrap();
    store.writer.delete_session(session.id).await.unwrap();
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.writer.next_pending_sequence(), 5, "also if the session is gone");
}

#[tokio::test]
async fn a_deleted_session_leaves_nothing() {
    let fail_points = FailPoints::default();
    let (home, store) = open_with(&fail_points).await;
    let mut gone = running(&store).await;
    store.writer.commit(gone.commit([prompt("x", false, Some("c"))])).await.unwrap();
    let mut kept = running(&store).await;
    // Its facts are not removed now, as if the server stopped; the next chore after a start makes up for it.
    fail_points.fail(FailPoint::BetweenSlices, 0, u32::MAX);
    store.writer.delete_session(gone.id).await.unwrap();
    assert_eq!(store.reader.session(gone.id).await.unwrap(), None);
    assert_eq!(store.reader.receipt(gone.id, "c").await.unwrap(), None);
    assert!(matches!(
        store.writer.delete_session(gone.id).await,
        Err(signalbox_store::StoreError::UnknownSession { .. })
    ));
    assert!(store.writer.commit(gone.chunk("late")).await.is_err_and(|error| is_conflict(&error)));
    store.close().await;

    let store = Store::open(&home.path().join("signalbox.db")).await.unwrap();
    let turn = kept.turn.unwrap();
    store.writer.commit(kept.ended()).await.unwrap();
    store.writer.compact(kept.id, turn).await.unwrap();
    while !stored(&store, gone.id).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(stored(&store, kept.id).await, kept.facts);
}

#[tokio::test]
async fn a_store_in_memory_works_alike_and_apart() {
    let (one, other) = (Store::in_memory().await.unwrap(), Store::in_memory().await.unwrap());
    let mut session = running(&one).await;
    one.writer.commit(session.chunk("a")).await.unwrap();
    one.writer.commit(session.ended()).await.unwrap();
    assert_eq!(stored(&one, session.id).await, session.facts);
    assert_eq!(other.reader.session(session.id).await.unwrap(), None);
    one.writer.delete_session(session.id).await.unwrap();
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn the_log_does_not_grow_with_what_is_written() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let options = StoreOptions { wal_bytes: 32 * 1024, ..StoreOptions::default() };
    let store = Store::open_with(&path, options).await.unwrap();
    let mut session = running(&store).await;
    let text = "x".repeat(16 * 1024);
    for _ in 0..1_000 {
        store.writer.commit(session.chunk(&text)).await.unwrap();
    }
    let log = std::fs::metadata(home.path().join("signalbox.db-wal")).unwrap().len();
    assert!(log < 10 * 1024 * 1024, "{log} bytes of log after 16 MiB of facts");
    store.close().await;
    assert!(std::fs::metadata(&path).unwrap().len() > 16 * 1024 * 1024);
}

#[tokio::test]
async fn late_facts_belong_to_the_turn_before() {
    let (_home, store) = open().await;
    let mut session = running(&store).await;
    let turn = session.turn;
    store.writer.commit(session.ended()).await.unwrap();
    store.writer.commit(session.commit([FactBody::Archived { archived: false }])).await.unwrap();
    session.turn = turn;
    store.writer.commit(session.chunk("late")).await.unwrap();
    store.writer.commit(session.prompt("next")).await.unwrap();

    let of_turn = store.reader.facts_of_turn(session.id, turn.unwrap()).await.unwrap();
    assert_eq!(of_turn.iter().map(|fact| fact.seq).collect::<Vec<_>>(), [2, 3, 4, 5, 7]);
    let between = store.reader.facts_between_turns(session.id, 2, 100).await.unwrap();
    assert_eq!(between.iter().map(|fact| fact.seq).collect::<Vec<_>>(), [6]);
    assert!(store.reader.facts_of_turn(session.id, TurnId::generate()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_prompt_and_its_first_activity_are_stored_once_or_not_at_all() {
    let (_home, store) = open().await;
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    // Two that know the same state; the second is told what is stored.
    let (first, second) =
        (session.prompt("first"), Session { id: session.id, last: 1, ..Session::new() }.prompt("second"));
    store.writer.commit(first).await.unwrap();
    let error = store.writer.commit(second).await.unwrap_err();
    assert!(matches!(error, CommitError::Conflict { expected: 1, stored: Some(3), .. }), "{error}");

    // Of a later state, but with an activity that skips one.
    session.revision += 1;
    let skipping =
        Session { id: session.id, last: 3, revision: session.revision, ..Session::new() }.prompt("third");
    let error = store.writer.commit(skipping).await.unwrap_err();
    assert!(matches!(error, CommitError::Revision { revision: 3, .. }), "{error}");

    let page = store.reader.transcript(session.id, signalbox_store::PageRequest::default()).await.unwrap();
    assert_eq!(page.facts, session.facts[2..]);
    let row = store.reader.session(session.id).await.unwrap().unwrap();
    assert_eq!((row.last_seq, row.activity.revision), (3, 1));
    assert_eq!(row.activity.turn(), session.turn);
}
