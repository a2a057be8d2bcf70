//! The end of a session's worktree: what stops it, what goes, and what the session is afterwards.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::fs;

use signalbox_engine::{Accepted, OpError, project};
use signalbox_facts::{FactBody, WorktreeDiscarded};
use signalbox_protocol::ops::{Event, Op, PermissionMode, SandboxLevel};
use signalbox_store::FailPoint;
use stage::git::{cause, commit, git, registry, row, session, with_repository, write};
use stage::{Stage, Watched, fact, story};

async fn discards(session: &Watched, force: bool) -> Result<Accepted, OpError> {
    let op = Op::DiscardWorktree { session: session.id.to_string(), force, request_id: None };
    session.submit(op).await
}

/// Waits until everybody is told that the worktree is gone.
async fn is_told(session: &mut Watched) -> (WorktreeDiscarded, Event) {
    let seen =
        session.until(|committed| matches!(fact(committed), Some(FactBody::WorktreeDiscarded(_)))).await;
    let last = seen.last().unwrap();
    let Some(FactBody::WorktreeDiscarded(gone)) = fact(last) else { panic!("{seen:?}") };
    (gone.clone(), project::event(last).unwrap())
}

#[tokio::test]
async fn checkout_and_branch_go_and_the_history_stays() {
    let (stage, repo) = with_repository().await;
    let before = registry(&repo);
    let (mut session, checkout) = session(&stage, &repo).await;
    session.prompts("say Hello.").await;
    session.until_end().await;
    let branch = git(&checkout, &["branch", "--show-current"]);

    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    assert_eq!((checkout.exists(), registry(&repo)), (false, before));
    let (_, event) = is_told(&mut session).await;
    let path = checkout.display().to_string();
    assert_eq!(
        event,
        Event::WorktreeDiscarded {
            session: session.id.to_string(),
            worktree_path: path.clone(),
            removed_checkout: true,
            deleted_branch: Some(branch),
        }
    );
    let stored = row(&stage, session.id).await;
    assert!(stored.worktree_discarded);
    assert_eq!(stored.worktree.as_ref().unwrap().path, checkout, "where it was stays known");
    let snapshot = signalbox_engine::convert::snapshot_out(&stored);
    assert_eq!((snapshot.worktree_path, snapshot.worktree_discarded), (Some(path), true));

    // No prompt runs any more, and none leaves a trace.
    let refused = session.submit(Op::TurnInput(session.input("say no"))).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "worktree_discarded"));
    assert_eq!(row(&stage, session.id).await.activity, stored.activity);

    // A second time there is nothing to do, and nothing to tell.
    let seq = row(&stage, session.id).await.last_seq;
    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    assert_eq!(row(&stage, session.id).await.last_seq, seq);

    let id = session.id;
    let stage = stage.restart().await;
    let session = stage.watch(id).await;
    assert_eq!(discards(&session, true).await, Ok(Accepted::Applied));
    let facts = stage.store.reader.facts(id, 1, seq).await.unwrap();
    assert!(
        facts.iter().any(|fact| matches!(&fact.body, FactBody::AgentText(text) if text.text == "Hello."))
    );
}

#[tokio::test]
async fn a_running_turn_keeps_it() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    let turn = session.prompts("say At work.\nhang polite").await;
    session.hears("At work").await;
    for force in [false, true] {
        assert_eq!(discards(&session, force).await, Err(OpError::TurnActive(turn)));
    }
    assert!(checkout.join("README.md").exists());
    session.cancels().await;
    session.until_end().await;
    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    assert!(!checkout.exists());
}

#[tokio::test]
async fn unsaved_work_is_counted_and_only_force_loses_it() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    session.prompts("write README.md <<END\nchanged\nEND\nwrite new.txt <<END\nnew\nEND").await;
    session.until_end().await;
    let refused = discards(&session, false).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("worktree_dirty", false));
    assert_eq!((&refused.data()["files"], &refused.data()["commits"]), (&2.into(), &0.into()));
    assert!(refused.to_string().contains("2 changed files"), "{refused}");

    commit(&checkout, "of the agent");
    let refused = discards(&session, false).await.unwrap_err();
    assert_eq!((&refused.data()["files"], &refused.data()["commits"]), (&0.into(), &1.into()));
    assert!(checkout.exists());
    // A refusal costs the session nothing.
    session.prompts("say Still here.").await;
    assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));

    assert_eq!(discards(&session, true).await, Ok(Accepted::Applied));
    let (gone, _) = is_told(&mut session).await;
    assert!(gone.removed_checkout && gone.deleted_branch.is_some() && !checkout.exists());
}

#[tokio::test]
async fn the_agent_has_left_before_the_files_go() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    session.prompts("run echo $PPID > /proc/self/cwd/../agent").await;
    session.until_end().await;
    let agent = fs::read_to_string(checkout.parent().unwrap().join("agent")).unwrap();
    let process = std::path::Path::new("/proc").join(agent.trim());
    assert!(process.exists());
    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    assert!(!process.exists() && !checkout.exists());
}

#[tokio::test]
async fn prompts_that_wait_behind_it_are_declined() {
    let (stage, repo) = with_repository().await;
    let (session, checkout) = session(&stage, &repo).await;
    let prompt = Op::TurnInput(session.input("write README.md <<END\nharm\nEND"));
    let (discarded, prompted) = tokio::join!(discards(&session, false), session.submit(prompt));
    assert_eq!(discarded, Ok(Accepted::Applied));
    assert_eq!(prompted, Err(OpError::WorktreeDiscarded));
    assert!(!checkout.exists());
}

#[tokio::test]
async fn a_checkout_that_somebody_removed_can_be_discarded() {
    let (stage, repo) = with_repository().await;
    let before = registry(&repo);
    let (mut session, checkout) = session(&stage, &repo).await;
    fs::remove_dir_all(&checkout).unwrap();
    let refused = session.submit(Op::TurnInput(session.input("say no"))).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "worktree_replaced"));
    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    let (gone, _) = is_told(&mut session).await;
    assert!(!gone.removed_checkout && gone.deleted_branch.is_some(), "{gone:?}");
    assert_eq!(registry(&repo), before);
}

#[tokio::test]
async fn what_was_put_in_its_place_stays() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    fs::remove_dir_all(&checkout).unwrap();
    write(&checkout, "precious.txt", "not the agent's\n");
    let refused = discards(&session, false).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "worktree_replaced"));
    assert_eq!(discards(&session, true).await, Ok(Accepted::Applied));
    let (gone, _) = is_told(&mut session).await;
    assert!(!gone.removed_checkout && checkout.join("precious.txt").exists());
}

#[tokio::test]
async fn a_session_without_one_has_none_to_discard() {
    let stage = Stage::new().await;
    let session = stage.session().await;
    let refused = discards(&session, true).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "no_worktree"));
}

#[tokio::test]
async fn a_discard_that_could_not_be_stored_can_be_repeated() {
    let (stage, repo) = with_repository().await;
    let before = registry(&repo);
    let (mut session, checkout) = session(&stage, &repo).await;
    stage.fail.fail(FailPoint::InSavepoint, 0, 2);
    let refused = discards(&session, false).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("storage_failed", true));
    assert!(!row(&stage, session.id).await.worktree_discarded);
    assert_eq!(discards(&session, false).await, Ok(Accepted::Applied));
    let (gone, _) = is_told(&mut session).await;
    assert!(!gone.removed_checkout && !checkout.exists());
    assert_eq!(registry(&repo), before);
}

#[tokio::test]
async fn others_of_the_same_repository_stay() {
    let (stage, repo) = with_repository().await;
    let (first, gone) = session(&stage, &repo).await;
    let (mut second, stays) = session(&stage, &repo).await;
    assert_eq!(discards(&first, false).await, Ok(Accepted::Applied));
    assert!(!gone.exists() && stays.exists());
    second.prompts("say Still here.").await;
    assert!(story(&second.until_end().await).ends_with("ended Completed end_turn\n"));
}
