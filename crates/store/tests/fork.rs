//! Forks: sessions that begin with another one's history.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod common;

use common::history::{History, Step, step};
use common::*;
use proptest::prelude::*;
use signalbox_facts::{
    ActivityState, Decision, Fact, FactBody, InputId, Mode, PermissionResolved, Policy, PolicyChanged,
    Prompt, QueueChanged, ResolvedBy, ResolverKind, Sandbox, Seq, SessionCreated, SessionId, SessionRow,
    SessionRule, SettingsChanged, TitleOrigin, ToolOutput, compact,
};
use signalbox_store::{Fork, ForkError, PageRequest, Store, TurnQuery};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

const NOW: i64 = 1_000_000;

fn fork_of(source: SessionId, through_seq: Seq) -> Fork {
    let FactBody::SessionCreated(created) = created("/work/fork", "rehearsal") else { unreachable!() };
    let policy = Policy { mode: Mode::Yolo, sandbox: Sandbox::ReadOnly };
    let created = SessionCreated { policy, model: Some("large".into()), ..*created };
    Fork { source, through_seq, session: SessionId::generate(), created, agent_session: None, at_ms: NOW }
}

/// The row that follows from all facts of a session, as they are stored.
async fn replayed(store: &Store, session: SessionId) -> SessionRow {
    let facts = stored(store, session).await;
    let mut row = SessionRow::created(&facts[0]).unwrap();
    facts[1..].iter().for_each(|fact| row.apply(fact));
    row
}

async fn all_turns(store: &Store, session: SessionId) -> Vec<signalbox_facts::TurnRow> {
    let query = TurnQuery { limit: u32::MAX, ascending: true, ..TurnQuery::default() };
    store.reader.turns(session, query).await.unwrap()
}

/// A fact as it looks in another session.
fn moved(fact: &Fact, session: SessionId) -> Fact {
    Fact { session, ..fact.clone() }
}

#[tokio::test]
async fn a_fork_goes_on_with_the_copy_that_the_agent_made() {
    let store = Store::in_memory().await.unwrap();
    // What was taken back before is in the log too, and changes nothing about the copy.
    let steps = [
        Step::Prompt("one".into()),
        Step::End { failed: false },
        Step::Prompt("two".into()),
        Step::End { failed: false },
        Step::Revert(1),
    ];
    let source = History::play(&store, &[], &steps).await.session;
    let fork = Fork { agent_session: Some("copy".into()), ..fork_of(source.id, source.last) };
    let row = store.writer.fork(fork).await.unwrap();
    assert_eq!(row.agent_session.as_deref(), Some("copy"));
    assert_eq!(store.reader.session(row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(replayed(&store, row.id).await, row);
}

#[tokio::test]
async fn a_fork_may_begin_with_a_session_of_another_store() {
    let (from, to) = (Store::in_memory().await.unwrap(), tempfile::tempdir().unwrap());
    let path = to.path().join("signalbox.db");
    let to = Store::open(&path).await.unwrap();
    let steps = [
        Step::Prompt("one".into()),
        Step::End { failed: false },
        Step::Prompt("two".into()),
        Step::End { failed: false },
    ];
    for (from, to) in [(&from, &to), (&to, &from)] {
        let source = History::play(from, &[], &steps).await.session;
        let here = fork_of(source.id, source.last);
        let refused = to.writer.fork(here.clone()).await.unwrap_err();
        assert!(matches!(refused, ForkError::UnknownSource { session } if session == source.id));
        let row = to.writer.fork_from(&from.reader, here.clone()).await.unwrap();
        assert_eq!(to.reader.session(row.id).await.unwrap(), Some(row.clone()));
        assert_eq!(replayed(to, row.id).await, row);
        assert_eq!(from.reader.session(row.id).await.unwrap(), None);
        let rest = |facts: Vec<Fact>| facts.into_iter().skip(1).collect::<Vec<_>>();
        let expected = rest(stored(from, source.id).await);
        let copied = rest(stored(to, row.id).await);
        assert_eq!(copied, expected.iter().map(|fact| moved(fact, row.id)).collect::<Vec<_>>());
        let turns =
            |turns: Vec<signalbox_facts::TurnRow>| turns.into_iter().map(|turn| turn.id).collect::<Vec<_>>();
        assert_eq!(turns(all_turns(to, row.id).await), turns(all_turns(from, source.id).await));
        // It can be done again, also after a refusal, and the store goes on as before.
        let again = to.writer.fork_from(&from.reader, here).await.unwrap_err();
        assert!(matches!(again, ForkError::Exists { session } if session == row.id));
        let unknown = fork_of(SessionId::generate(), 1);
        let unknown = to.writer.fork_from(&from.reader, unknown).await.unwrap_err();
        assert!(matches!(unknown, ForkError::UnknownSource { .. }));
        to.writer.fork_from(&from.reader, fork_of(source.id, source.last)).await.unwrap();
        running(to).await;
    }
}

#[tokio::test]
async fn a_fork_has_the_history_and_none_of_the_sources_own_affairs() {
    let store = Store::in_memory().await.unwrap();
    let mut source = running(&store).await;
    let rule = SessionRule::Command { command: "ls".into() };
    let answered = PermissionResolved {
        input: InputId::generate(),
        title: "Run ls".into(),
        tool_call: None,
        decision: Decision::AcceptForSession,
        option_id: Some("yes".into()),
        by: ResolvedBy { kind: ResolverKind::Client, name: None },
        rule: None,
        message: None,
        kept_rule: Some(rule.clone()),
    };
    let policy = Policy { mode: Mode::AcceptEdits, sandbox: Sandbox::WorkspaceWrite };
    let mut bodies = vec![
        FactBody::AgentSession { id: "agent-1".into() },
        FactBody::PermissionResolved(answered.into()),
        FactBody::PolicyChanged(PolicyChanged { policy, request_id: None }),
        FactBody::SettingsChanged(
            SettingsChanged { effort: Some("high".into()), ..SettingsChanged::default() }.into(),
        ),
        FactBody::QueueChanged(QueueChanged { paused: true, ..QueueChanged::default() }),
        FactBody::Archived { archived: true },
    ];
    bodies.push(prompt("and this", false, Some("message-1")));
    store.writer.commit(source.commit(bodies)).await.unwrap();
    store.writer.commit(source.ended()).await.unwrap();
    let cut = source.last;
    store.writer.commit(source.prompt("still going on")).await.unwrap();
    store.writer.commit(source.commit([FactBody::PermissionRequested(input(7).into())])).await.unwrap();

    let fork = fork_of(source.id, cut);
    let (id, first) = (fork.session, fork.created_fact());
    let row = store.writer.fork(fork).await.unwrap();

    assert_eq!(row.forked_from, Some(source.id));
    assert_eq!(
        (row.policy.mode, row.model.as_deref(), row.effort.as_deref()),
        (Mode::Yolo, Some("large"), None)
    );
    assert_eq!((row.cwd.to_str(), row.preview.as_str()), (Some("/work/fork"), "do it"));
    assert_eq!((row.agent_session.as_deref(), &row.queue, row.archived), (None, &None, false));
    assert!(row.rules.is_empty());
    assert_eq!((row.created_at_ms, row.updated_at_ms), (NOW, NOW));
    assert_eq!((&row.activity.state, row.activity.revision), (&ActivityState::Idle, 2));
    assert_eq!(store.reader.session(id).await.unwrap(), Some(row.clone()));
    assert_eq!(replayed(&store, id).await, row);
    assert!(store.reader.pending_inputs(Some(id)).await.unwrap().is_empty());
    assert_eq!(store.reader.receipt(id, "message-1").await.unwrap(), None);

    let facts = stored(&store, id).await;
    assert_eq!(facts[0], first);
    let gone = ["agent_session", "policy_changed", "settings_changed", "queue_changed", "archived"];
    let mut expected: Vec<Fact> = source.facts[1..usize::try_from(cut).unwrap()]
        .iter()
        .filter(|fact| !gone.contains(&fact.body.kind()))
        .map(|fact| moved(fact, id))
        .collect();
    for fact in &mut expected {
        if let FactBody::PermissionResolved(resolved) = &mut fact.body {
            resolved.kept_rule = None;
        }
    }
    assert_eq!(facts[1..], expected);
    let turns = all_turns(&store, id).await;
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0].id, turns[0].end_seq), (source.facts[1].turn.unwrap(), Some(cut)));

    // The source is as it was.
    assert_eq!(stored(&store, source.id).await, source.facts);
    let kept = store.reader.session(source.id).await.unwrap().unwrap();
    assert_eq!((kept.agent_session.as_deref(), kept.rules), (Some("agent-1"), vec![rule]));
}

#[tokio::test]
async fn a_fork_lives_on_by_itself_and_can_be_forked_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let steps = [
        Step::Prompt("one".into()),
        Step::Say { item: 0, text: "a".into() },
        Step::Say { item: 0, text: "b".into() },
        Step::End { failed: false },
        Step::Prompt("two".into()),
    ];
    let source = History::play(&store, &[], &steps).await;
    let cut = source.turns[0].end.unwrap();
    let row = store.writer.fork(fork_of(source.session.id, cut)).await.unwrap();
    store.close().await;

    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.reader.session(row.id).await.unwrap(), Some(row.clone()));
    let mut session =
        Session { id: row.id, last: row.last_seq, revision: row.activity.revision, ..Session::new() };
    store.writer.commit(session.prompt("mine")).await.unwrap();
    store.writer.commit(session.ended()).await.unwrap();
    store.writer.compact(row.id, source.turns[0].id).await.unwrap();
    let page = store.reader.transcript(row.id, PageRequest::default()).await.unwrap();
    let said: Vec<_> = page.facts.iter().map(|fact| (fact.seq, fact.through_seq)).collect();
    assert_eq!(said, [(3, 3), (4, 5), (9, 9)]);
    // The source is what it was, whether or not the background has got to it.
    assert_eq!(compact(&stored(&store, source.session.id).await), compact(&source.session.facts));

    let again = store.writer.fork(fork_of(row.id, session.last)).await.unwrap();
    assert_eq!(again.forked_from, Some(row.id));
    let whole = |id| store.reader.transcript(id, PageRequest::default());
    let (theirs, ours) = (whole(row.id).await.unwrap(), whole(again.id).await.unwrap());
    assert_eq!(ours.facts, theirs.facts.iter().map(|fact| moved(fact, again.id)).collect::<Vec<_>>());
    store.writer.delete_session(row.id).await.unwrap();
    assert_eq!(whole(again.id).await.unwrap(), ours);
}

#[tokio::test]
async fn a_fork_that_cannot_be_is_refused_and_leaves_nothing() {
    let store = Store::in_memory().await.unwrap();
    let mut source = running(&store).await;
    let turn = source.turn.unwrap();
    store.writer.commit(source.chunk("x")).await.unwrap();
    let open = fork_of(source.id, source.last);
    let error = store.writer.fork(open.clone()).await.unwrap_err();
    assert!(matches!(error, ForkError::InsideTurn { turn: named, .. } if named == turn), "{error}");
    store.writer.commit(source.ended()).await.unwrap();
    // Its end has two facts; between them it has not ended.
    for through in 2..source.last {
        let error = store.writer.fork(fork_of(source.id, through)).await.unwrap_err();
        assert!(matches!(error, ForkError::InsideTurn { .. }), "{through}: {error}");
    }
    for through in [0, source.last + 1] {
        let error = store.writer.fork(fork_of(source.id, through)).await.unwrap_err();
        assert!(matches!(error, ForkError::NoSuchSeq { last, .. } if last == source.last), "{error}");
    }
    let nobody = SessionId::generate();
    let error = store.writer.fork(fork_of(nobody, 1)).await.unwrap_err();
    assert!(matches!(error, ForkError::UnknownSource { session } if session == nobody), "{error}");
    let mut taken = fork_of(source.id, source.last);
    taken.session = source.id;
    let error = store.writer.fork(taken).await.unwrap_err();
    assert!(matches!(error, ForkError::Exists { session } if session == source.id), "{error}");

    assert_eq!(store.reader.session(open.session).await.unwrap(), None);
    assert!(stored(&store, open.session).await.is_empty());
    assert_eq!(stored(&store, source.id).await, source.facts);
    // And the writer goes on.
    store.writer.fork(fork_of(source.id, source.last)).await.unwrap();
    let untouched = store.writer.fork(fork_of(source.id, 1)).await.unwrap();
    assert_eq!(untouched.last_seq, 1);
}

#[tokio::test]
async fn the_fork_of_a_failed_turn_is_idle() {
    let store = Store::in_memory().await.unwrap();
    let steps = [Step::Prompt("one".into()), Step::End { failed: true }];
    let source = History::play(&store, &[], &steps).await;
    let cut = source.session.last;
    let row = store.writer.fork(fork_of(source.session.id, cut)).await.unwrap();
    assert_eq!((&row.activity.state, row.activity.revision), (&ActivityState::Idle, 3));
    assert_eq!(row.last_seq, cut + 1);
    assert_eq!(replayed(&store, row.id).await, row);
    let turn = &all_turns(&store, row.id).await[0];
    assert_eq!(turn.status, signalbox_facts::TurnStatus::Failed);
}

#[tokio::test]
async fn a_joined_row_that_reaches_beyond_the_cut_covers_no_more_than_the_fork_has() {
    let store = Store::in_memory().await.unwrap();
    let mut source = running(&store).await;
    let turn = source.turn;
    let output =
        |text: &str| FactBody::ToolOutput(ToolOutput { id: "t".into(), text: text.into(), replace: false });
    store.writer.commit(source.commit_of([(Some(4), output("in time"))])).await.unwrap();
    store.writer.commit(source.ended()).await.unwrap();
    let cut = source.last;
    source.turn = turn;
    store.writer.commit(source.commit_of([(Some(4), output(", late"))])).await.unwrap();
    store.writer.compact(source.id, turn.unwrap()).await.unwrap();
    let row = store.writer.fork(fork_of(source.id, cut)).await.unwrap();
    assert_eq!(row.last_seq, cut);
    let facts = stored(&store, row.id).await;
    assert!(facts.iter().all(|fact| fact.through_seq <= cut));
    assert_eq!(replayed(&store, row.id).await, row);
    // With what came late, nothing is cut.
    let whole = store.writer.fork(fork_of(source.id, source.last)).await.unwrap();
    assert_eq!(whole.last_seq, source.last);
}

#[tokio::test]
async fn a_damaged_fact_is_copied_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("signalbox.db");
    let store = Store::open(&path).await.unwrap();
    let mut steps = vec![Step::Title("Mine".into())];
    for text in ["one", "two"] {
        steps.extend([Step::Prompt(text.into()), Step::End { failed: false }, Step::Revert(1)]);
    }
    let source = History::play(&store, &[], &steps).await;
    let id = source.session.id.0.simple();
    let mut stranger = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    for kind in ["prompt", "activity", "title_changed", "reverted"] {
        let damage = format!(
            "update facts set body = 'broken' where session = x'{id}' and kind = '{kind}' and \
             seq = (select min(seq) from facts where session = x'{id}' and kind = '{kind}')"
        );
        stranger.execute(AssertSqlSafe(damage)).await.unwrap();
    }
    let row = store.writer.fork(fork_of(source.session.id, source.session.last)).await.unwrap();
    assert_eq!(
        (row.title.as_str(), row.title_origin, row.preview.as_str()),
        ("", TitleOrigin::Default, "two")
    );
    let (theirs, ours) = (stored(&store, source.session.id).await, stored(&store, row.id).await);
    assert_eq!(ours[1..], theirs[1..].iter().map(|fact| moved(fact, row.id)).collect::<Vec<_>>());
}

#[test]
fn a_fork_of_any_history_follows_from_its_facts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::in_memory()).unwrap();
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in prop::collection::vec(step(), 0..60), place in any::<prop::sample::Index>())| {
        runtime.block_on(async {
            let source = History::play(&store, &["Hello."], &steps).await;
            let ends: Vec<Seq> = source.turns.iter().filter_map(|turn| turn.end).chain([2]).collect();
            let cut = *place.get(&ends);
            let row = store.writer.fork(fork_of(source.session.id, cut)).await.unwrap();
            assert_eq!(store.reader.session(row.id).await.unwrap().unwrap(), row);
            assert_eq!(replayed(&store, row.id).await, row);
            assert_eq!(row.activity.state, ActivityState::Idle);

            let copied: Vec<_> = source.session.facts[1..]
                .iter()
                .filter(|fact| fact.seq <= cut)
                .map(|fact| moved(fact, row.id))
                .collect();
            let mut facts = stored(&store, row.id).await;
            facts.retain(|fact| fact.seq > 1 && fact.seq <= cut);
            assert_eq!(compact(&facts), compact(&copied));

            // Turns that were reverted before the cut are; those that were reverted later are not.
            let kept = source.turns.iter().filter(|turn| turn.first <= cut);
            let kept = kept.filter(|turn| turn.reverted.is_none_or(|seq| seq > cut)).map(|turn| turn.id);
            let turns = all_turns(&store, row.id).await;
            assert_eq!(turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), kept.collect::<Vec<_>>());
        });
    });
}

#[test]
fn a_prompt_of_an_older_log_is_read_with_its_text_alone() {
    let prompt: Prompt = serde_json::from_str(r#"{"type":"prompt","text":"old words"}"#).unwrap();
    assert!(prompt.is_legacy());
    assert_eq!(prompt.text, "old words");
}
