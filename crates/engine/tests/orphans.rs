//! Checkouts that a killed server left without a session: the next start takes them back, from the note that was written
//! before they were made. In which states git can be found is tested in the crate `workspace`.
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
use std::path::{Path, PathBuf};

use signalbox_engine::{OpError, Origin};
use signalbox_facts::SessionId;
use signalbox_protocol::ops::Op;
use signalbox_store::FailPoint;
use signalbox_workspace::{Check, check};
use stage::Stage;
use stage::git::{beside, create, git, registry, row, short, wish, with_repository};
use tempfile::TempDir;

/// The file in which a checkout is noted.
fn note(home: &Path, session: SessionId) -> PathBuf {
    home.join("worktrees/making").join(format!("{session}.json"))
}

/// A server that stands still between making a checkout and storing its session. To others it is as good as killed.
struct Killed {
    stage: Stage,
    repo: PathBuf,
    session: SessionId,
    /// What it had noted.
    noted: String,
    /// Branches and worktrees before the checkout was made.
    before: String,
}

impl Killed {
    async fn server() -> Self {
        let (stage, repo) = with_repository().await;
        let (session, before) = (SessionId::generate(), registry(&repo));
        let held = stage.fail.hold(FailPoint::BeforeCommit);
        {
            let submit =
                stage.engine.submit_as(Op::NewSession(wish(&repo)), Origin::default(), Some(session));
            tokio::select! {
                decided = submit => panic!("{decided:?}"),
                () = held.reached() => {}
            }
        }
        // Never let go: the session is not stored as long as this test runs.
        std::mem::forget(held);
        let noted = fs::read_to_string(note(stage.folder.path(), session)).unwrap();
        let killed = Self { stage, repo, session, noted, before };
        assert!(killed.checkout().join("README.md").exists());
        assert_ne!(registry(&killed.repo), killed.before);
        killed
    }

    fn checkout(&self) -> PathBuf {
        self.repo.with_file_name(".signalbox-worktrees").join(format!("work-{}", short(self.session)))
    }

    /// A home as the server left it: with its note, without its session.
    fn home(&self) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("worktrees/making")).unwrap();
        fs::write(note(home.path(), self.session), &self.noted).unwrap();
        home
    }
}

#[tokio::test]
async fn a_checkout_without_a_session_is_taken_back_at_the_next_start() {
    let killed = Killed::server().await;
    let next = Stage::in_folder(killed.home()).await;
    next.engine.orphans_settled().await;
    assert_eq!(registry(&killed.repo), killed.before);
    assert!(!killed.checkout().exists());
    assert!(!next.folder.path().join("worktrees").exists(), "the note and its folder are gone");
    // Its id is free again.
    let op = Op::NewSession(wish(&killed.repo));
    next.engine.submit_as(op, Origin::default(), Some(killed.session)).await.unwrap();
    assert_eq!(row(&next, killed.session).await.worktree.unwrap().path, killed.checkout());
}

#[tokio::test]
async fn a_checkout_whose_session_was_stored_keeps_it() {
    let (stage, repo) = with_repository().await;
    let session = SessionId::generate();
    let held = stage.fail.hold(FailPoint::BeforeCommit);
    let submit = stage.engine.submit_as(Op::NewSession(wish(&repo)), Origin::default(), Some(session));
    let (created, noted) = tokio::join!(submit, async {
        held.reached().await;
        let noted = fs::read(note(stage.folder.path(), session)).unwrap();
        drop(held);
        noted
    });
    created.unwrap();
    let path = note(stage.folder.path(), session);
    assert!(!path.exists(), "a stored session needs no note");
    // Killed a moment earlier, the note would still be there.
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, noted).unwrap();
    let stage = stage.restart().await;
    stage.engine.orphans_settled().await;
    assert!(!path.exists());
    let worktree = row(&stage, session).await.worktree.unwrap();
    assert_eq!(check(&worktree), Check::Ok);
    let mut watched = stage.watch(session).await;
    watched.prompts("say Here.").await;
    assert!(stage::story(&watched.until_end().await).ends_with("ended Completed end_turn\n"));
}

#[tokio::test]
async fn what_somebody_has_put_there_since_is_kept_and_the_note_with_it() {
    let killed = Killed::server().await;
    let mine = killed.checkout().join("mine.txt");
    fs::write(&mine, "mine\n").unwrap();
    let now = registry(&killed.repo);
    let next = Stage::in_folder(killed.home()).await;
    next.engine.orphans_settled().await;
    assert_eq!((registry(&killed.repo), fs::read_to_string(&mine).unwrap().as_str()), (now, "mine\n"));
    let path = note(next.folder.path(), killed.session);
    assert!(path.exists());
    // Nor does anybody else get that checkout, or its note.
    let op = Op::NewSession(wish(&killed.repo));
    let refused = next.engine.submit_as(op, Origin::default(), Some(killed.session)).await.unwrap_err();
    assert!(matches!(refused, OpError::WorktreeUnavailable { .. }), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), killed.noted);
    // Once it is out of the way, the next start does it.
    fs::remove_file(&mine).unwrap();
    let next = next.restart().await;
    next.engine.orphans_settled().await;
    assert_eq!(registry(&killed.repo), killed.before);
    assert!(!path.exists() && !killed.checkout().exists());
}

#[tokio::test]
async fn another_directory_in_the_checkouts_place_is_left_alone() {
    let killed = Killed::server().await;
    git(&killed.repo, &["worktree", "remove", killed.checkout().to_str().unwrap()]);
    fs::create_dir_all(killed.checkout()).unwrap();
    fs::write(killed.checkout().join("mine.txt"), "mine\n").unwrap();
    let next = Stage::in_folder(killed.home()).await;
    next.engine.orphans_settled().await;
    assert_eq!(fs::read_to_string(killed.checkout().join("mine.txt")).unwrap(), "mine\n");
    assert!(note(next.folder.path(), killed.session).exists());
}

#[tokio::test]
async fn an_unreadable_note_is_left_and_hinders_nothing() {
    let killed = Killed::server().await;
    let home = killed.home();
    let torn = note(home.path(), SessionId::generate());
    fs::write(&torn, &killed.noted[..killed.noted.len() / 2]).unwrap();
    let renamed = note(home.path(), SessionId::generate());
    fs::write(&renamed, &killed.noted).unwrap();
    let foreign = torn.with_file_name("notes.txt");
    fs::write(&foreign, "mine\n").unwrap();
    let draft = note(home.path(), SessionId::generate()).with_extension("tmp");
    fs::write(&draft, "{").unwrap();
    let next = Stage::in_folder(home).await;
    next.engine.orphans_settled().await;
    assert_eq!(registry(&killed.repo), killed.before);
    assert!(torn.exists() && renamed.exists() && foreign.exists());
    assert!(!draft.exists(), "what never became a note announces nothing");
}

#[tokio::test]
async fn a_creation_that_is_refused_leaves_no_note() {
    let (stage, repo) = with_repository().await;
    let before = beside(&repo);
    // The selected directory is in no commit, which shows only in the checkout.
    fs::create_dir_all(repo.join("new")).unwrap();
    create(&stage, wish(&repo.join("new"))).await.unwrap_err();
    assert_eq!(beside(&repo), before);
    // A home in which nothing can be noted makes no checkouts.
    fs::write(stage.folder.path().join("worktrees"), "in the way").unwrap();
    let now = registry(&repo);
    create(&stage, wish(&repo)).await.unwrap_err();
    assert_eq!(registry(&repo), now);
    assert!(!repo.with_file_name(".signalbox-worktrees").exists());
}
