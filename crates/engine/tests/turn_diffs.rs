//! The diff of a turn as events tell it: what it covers, its bounds, and where it comes from outside of git.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::path::{Path, PathBuf};

use signalbox_engine::project;
use signalbox_facts::FactBody;
use signalbox_protocol::ops::{Event, PermissionMode, SandboxLevel};
use stage::git::{commit, git, with_repository, write};
use stage::{Stage, Watched, fact};

/// A diff as it is told: text, truncated, partial.
type Told = (String, bool, bool);

/// Everything that a turn with this script tells of its diff, in order.
async fn turn(session: &mut Watched, script: &str) -> Vec<Told> {
    let id = session.prompts(script).await.to_string();
    let seen = session.until_end().await;
    let diff = |event: Event| match event {
        Event::TurnDiff { diff, truncated, partial, turn_id, transcript_seq, .. } => {
            assert_eq!(turn_id.as_deref(), Some(id.as_str()));
            assert!(transcript_seq.is_some());
            Some((diff, truncated, partial))
        }
        _ => None,
    };
    seen.iter().filter_map(project::event).filter_map(diff).collect()
}

/// A session in a repository whose agent may do anything.
async fn free_hand() -> (Stage, PathBuf, Watched) {
    let (stage, repo) = with_repository().await;
    let session = stage.session().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    (stage, repo, session)
}

#[tokio::test]
async fn new_deleted_renamed_and_binary_files_are_in_it() {
    let (_stage, repo, mut session) = free_hand().await;
    write(&repo, "notes/long.txt", "a line that is moved as it is\n".repeat(20));
    write(&repo, "gone.txt", "tracked\n");
    commit(&repo, "more");
    write(&repo, "mine.txt", "untracked before the turn\n");
    write(&repo, "README.md", "# The user's own edit\n");
    let index = std::fs::read(repo.join(".git/index")).unwrap();
    let script = "write new.txt <<END\nuntracked\nEND\ndelete gone.txt\nrun mv notes/long.txt notes/moved.txt\n\
                  run printf '\\000\\001\\002' > logo.bin\nrun echo more >> mine.txt";
    let told = turn(&mut session, script).await;
    let (diff, truncated, partial) = told.last().unwrap();
    assert!(!truncated && !partial, "{diff}");
    for part in [
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+untracked\n",
        "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-tracked\n",
        "similarity index 100%\nrename from notes/long.txt\nrename to notes/moved.txt\n",
        "Binary files /dev/null and b/logo.bin differ\n",
        " untracked before the turn\n+more\n",
    ] {
        assert!(diff.contains(part), "{part:?} in {diff}");
    }
    assert!(!diff.contains("README.md"), "what the user had changed before is no part of it: {diff}");
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "no diff is told twice");

    // Neither the index nor the user's objects know of it.
    assert_eq!(std::fs::read(repo.join(".git/index")).unwrap(), index);
    let blob = git(&repo, &["hash-object", "mine.txt"]);
    assert!(!stage::git::succeeds(&repo, &["cat-file", "-e", &blob]));
}

#[tokio::test]
async fn a_turn_that_changes_nothing_tells_none_and_one_that_changes_back_tells_an_empty_one() {
    let (_stage, _repo, mut session) = free_hand().await;
    assert_eq!(turn(&mut session, "say Hello.\nrun true\nread README.md").await, []);
    session.policy(PermissionMode::Ask, SandboxLevel::DangerFullAccess).await;
    session.prompts("run echo x > there\nrun rm there").await;
    let first = session.is_asked().await;
    session.answers(&first, Some("allow")).await.unwrap();
    // The second command waits until the diff of the first is told.
    let (mut second, mut told) = (None, false);
    while second.is_none() || !told {
        let seen = session.until(|_| true).await;
        match seen.last().and_then(fact) {
            Some(FactBody::PermissionRequested(input)) => second = Some((**input).clone()),
            Some(FactBody::TurnDiff(diff)) => told = diff.diff.contains("+x\n"),
            _ => {}
        }
    }
    session.answers(&second.unwrap(), Some("allow")).await.unwrap();
    let seen = session.until_end().await;
    let diffs = seen.iter().filter_map(fact).filter_map(|body| match body {
        FactBody::TurnDiff(diff) => Some(diff.diff.as_str()),
        _ => None,
    });
    assert_eq!(diffs.collect::<Vec<_>>(), [""]);
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    // What one turn did is where the next one begins.
    turn(&mut session, "run echo first > kept").await;
    let told = turn(&mut session, "run echo second >> kept").await;
    assert!(told.last().unwrap().0.contains(" first\n+second\n"), "{told:?}");
}

#[tokio::test]
async fn it_is_bounded() {
    let (_stage, _repo, mut session) = free_hand().await;
    let told = turn(&mut session, "run seq 1 300000 > big.txt; echo small > a.txt").await;
    let (diff, truncated, _) = told.last().unwrap();
    assert!(*truncated, "it is more than a megabyte");
    assert!(diff.len() <= 1 << 20 && diff.contains("a.txt") && diff.ends_with('\n'), "{} bytes", diff.len());
}

#[tokio::test]
async fn the_workspace_is_recorded_before_the_agent_is_prompted() {
    let (_stage, repo, mut session) = free_hand().await;
    // Many files to look at, and an agent that is ready and begins at once with one of the last of them.
    for number in 0..3_000 {
        write(&repo, &format!("many/{number:04}.txt"), format!("{number}\n"));
    }
    write(&repo, "zzz.txt", "before\n");
    turn(&mut session, "say Ready.").await;
    for round in 0..5 {
        let told = turn(&mut session, &format!("write zzz.txt <<END\nround {round}\nEND")).await;
        let (diff, _, partial) = told.last().expect("the change is seen");
        assert!(diff.contains(&format!("+round {round}\n")) && !partial, "{diff}");
    }
}

#[tokio::test]
async fn outside_git_it_is_made_of_what_the_calls_carry() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::DangerFullAccess).await;
    write(&stage.work(), "old.txt", "was here\n");
    let script = "write notes/new.txt <<END\nhello\nEND\ndelete old.txt\nrun echo unseen > by-command.txt";
    let told = turn(&mut session, script).await;
    assert_eq!(
        told,
        [(
            "diff --git a/notes/new.txt b/notes/new.txt\n--- /dev/null\n+++ b/notes/new.txt\n@@ -0,0 +1 @@\n+hello\n\
             diff --git a/old.txt b/old.txt\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-was here\n"
                .to_owned(),
            false,
            true
        )]
    );
    assert!(Path::new(&stage.work()).join("by-command.txt").exists(), "what no call carries is not known");
}
