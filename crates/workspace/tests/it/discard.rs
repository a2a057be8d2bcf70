//! Discarding worktrees: what goes, what stays, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use signalbox_facts::Worktree;
use signalbox_workspace::{BaselineKind, Check, Discarded, Unsaved, WorktreeError, check, discard};

use crate::fixture::{Place, git_in};

fn made(place: &Place) -> Worktree {
    place.worktree(BaselineKind::Current).expect("made").worktree
}

fn unsaved(result: Result<Discarded, WorktreeError>) -> Unsaved {
    match result {
        Err(WorktreeError::Unsaved { unsaved, .. }) => unsaved,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn checkout_branch_and_every_trace_go() {
    let place = Place::repository();
    let before = place.registry();
    let worktree = made(&place);
    let discarded = discard(&worktree, &place.root, false).expect("discarded");
    assert!(discarded.removed_checkout);
    assert_eq!(discarded.deleted_branch, Some(worktree.branch.clone()));
    assert_eq!(place.registry(), before);
    assert!(!place.path(".git/worktrees").exists() && !place.around.join(".signalbox-worktrees").exists());
    assert!(matches!(check(&worktree), Check::Moved { .. }));
    // A second time there is nothing to do.
    let nothing = Discarded { removed_checkout: false, deleted_branch: None };
    assert_eq!(discard(&worktree, &place.root, false).expect("no-op"), nothing);
}

#[test]
fn changed_staged_and_untracked_files_are_work() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    inside.write("target/ignored", "x");
    inside.write("README.md", "changed\n");
    inside.write("new/a.txt", "a\n");
    inside.write("new/b.txt", "b\n");
    inside.write("staged.txt", "s\n");
    inside.git(&["add", "staged.txt"]);
    let found = unsaved(discard(&worktree, &place.root, false));
    assert_eq!(found, Unsaved { files: 4, commits: 0 });
    assert_eq!(found.to_string(), "4 changed files");
    assert_eq!(check(&worktree), Check::Ok);
    let discarded = discard(&worktree, &place.root, true).expect("forced");
    assert!(discarded.removed_checkout && discarded.deleted_branch.is_some());
    assert!(!worktree.path.exists());
}

#[test]
fn commits_that_nothing_else_has_are_work() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    inside.write("work.txt", "w\n");
    let sha = inside.commit("work");
    assert_eq!(unsaved(discard(&worktree, &place.root, false)), Unsaved { files: 0, commits: 1 });
    // Merged, it is no longer only here.
    place.git(&["merge", "-q", "--ff-only", &sha]);
    let discarded = discard(&worktree, &place.root, false).expect("merged");
    assert_eq!(discarded.deleted_branch, Some(worktree.branch));
    assert_eq!(place.head(), sha);
}

#[test]
fn commits_on_a_detached_head_are_work() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    inside.git(&["checkout", "-q", "--detach"]);
    inside.write("work.txt", "w\n");
    inside.commit("work");
    inside.write("more.txt", "w\n");
    assert_eq!(unsaved(discard(&worktree, &place.root, false)), Unsaved { files: 1, commits: 1 });
}

#[test]
fn a_branch_that_the_user_switched_to_stays() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    inside.git(&["checkout", "-q", "-b", "feature"]);
    let sha = inside.commit("work on the feature");
    let discarded = discard(&worktree, &place.root, false).expect("discarded");
    assert_eq!(discarded.deleted_branch, Some(worktree.branch));
    assert_eq!(place.git(&["rev-parse", "feature"]), sha);
}

#[test]
fn our_branch_checked_out_elsewhere_stays() {
    let place = Place::repository();
    let worktree = made(&place);
    git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    place.git(&["checkout", "-q", &worktree.branch]);
    let discarded = discard(&worktree, &place.root, false).expect("discarded");
    assert_eq!(discarded, Discarded { removed_checkout: true, deleted_branch: None });
    assert_eq!(place.git(&["symbolic-ref", "--short", "HEAD"]), worktree.branch);
}

#[test]
fn a_checkout_already_gone_leaves_record_and_branch_to_remove() {
    let place = Place::repository();
    let before = place.registry();
    let worktree = made(&place);
    fs::remove_dir_all(&worktree.path).expect("remove");
    let discarded = discard(&worktree, &place.root, false).expect("discarded");
    assert_eq!(discarded, Discarded { removed_checkout: false, deleted_branch: Some(worktree.branch) });
    assert_eq!(place.registry(), before);
}

#[test]
fn a_checkout_gone_with_commits_still_refuses() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    let sha = inside.commit("work");
    fs::remove_dir_all(&worktree.path).expect("remove");
    assert_eq!(unsaved(discard(&worktree, &place.root, false)), Unsaved { files: 0, commits: 1 });
    assert_eq!(place.git(&["rev-parse", &worktree.branch]), sha);
}

#[test]
fn what_was_put_in_its_place_is_never_removed() {
    let place = Place::repository();
    let worktree = made(&place);
    let aside = place.around.join("aside");
    fs::rename(&worktree.path, &aside).expect("aside");
    fs::create_dir(&worktree.path).expect("replacement");
    fs::copy(aside.join(".git"), worktree.path.join(".git")).expect("copy");
    fs::write(worktree.path.join("precious.txt"), "p").expect("write");
    let error = discard(&worktree, &place.root, false).expect_err("moved");
    assert!(matches!(error, WorktreeError::Moved { .. }), "{error}");
    let discarded = discard(&worktree, &place.root, true).expect("forced");
    assert!(!discarded.removed_checkout);
    assert!(worktree.path.join("precious.txt").exists());
}

#[test]
fn the_source_directory_may_be_gone() {
    let place = Place::repository();
    place.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = place.at(&place.around.join("side"));
    let worktree = made(&side);
    place.git(&["worktree", "remove", "../side"]);
    let discarded = discard(&worktree, &side.root, false).expect("found through the checkout");
    assert!(discarded.removed_checkout && discarded.deleted_branch.is_some());

    let app = place.at(&place.path("packages/app"));
    let worktree = made(&app);
    fs::remove_dir_all(place.path("packages")).expect("remove");
    fs::remove_dir_all(&worktree.path).expect("remove");
    let discarded = discard(&worktree, &app.root, false).expect("found above the source");
    assert_eq!(discarded.deleted_branch, Some(worktree.branch));
}

#[test]
fn with_the_repository_gone_there_is_nothing_to_do() {
    let place = Place::repository();
    let worktree = made(&place);
    fs::remove_dir_all(&worktree.path).expect("remove");
    fs::remove_dir_all(&place.root).expect("remove");
    let nothing = Discarded { removed_checkout: false, deleted_branch: None };
    assert_eq!(discard(&worktree, &place.root, false).expect("no-op"), nothing);
}

#[test]
fn a_locked_worktree_asks_for_force() {
    let place = Place::repository();
    let worktree = made(&place);
    place.git(&["worktree", "lock", "--reason", "in use", &worktree.path.display().to_string()]);
    let error = discard(&worktree, &place.root, false).expect_err("locked");
    assert!(matches!(&error, WorktreeError::Locked { reason, .. } if reason == "in use"), "{error}");
    assert!(discard(&worktree, &place.root, true).expect("forced").removed_checkout);
}

#[test]
fn write_protected_folders_go_too() {
    let place = Place::repository();
    let worktree = made(&place);
    let inside = place.at(&worktree.path);
    inside.write("target/mod/cache.txt", "x");
    fs::set_permissions(inside.path("target/mod"), fs::Permissions::from_mode(0o555)).expect("chmod");
    assert!(discard(&worktree, &place.root, false).expect("discarded").removed_checkout);
    assert!(!worktree.path.exists());
}

#[test]
fn only_our_own_branches_are_ever_deleted() {
    let place = Place::repository();
    let mut worktree = made(&place);
    for branch in ["main", "signalbox/", "signalbox/../main", "feature/x"] {
        worktree.branch = branch.to_owned();
        let error = discard(&worktree, &place.root, true).expect_err("foreign");
        assert!(matches!(error, WorktreeError::ForeignBranch { .. }), "{error}");
    }
    place.git(&["rev-parse", "main"]);
}

#[test]
fn other_sessions_of_the_same_repository_stay() {
    let place = Place::repository();
    let (one, two) = (made(&place), made(&place));
    discard(&one, &place.root, false).expect("discarded");
    assert_eq!(check(&two), Check::Ok);
    place.git(&["rev-parse", &two.branch]);
}

#[test]
fn a_discard_that_broke_off_can_be_finished() {
    let place = Place::repository();
    let before = place.registry();
    let worktree = made(&place);
    // As after a removal that failed half-way.
    fs::remove_file(worktree.path.join(".git")).expect("remove");
    let error = discard(&worktree, &place.root, false).expect_err("not a checkout any more");
    assert!(matches!(error, WorktreeError::Moved { .. }), "{error}");
    let discarded = discard(&worktree, &place.root, true).expect("forced");
    assert_eq!(discarded, Discarded { removed_checkout: true, deleted_branch: Some(worktree.branch) });
    assert!(!worktree.path.exists());
    assert_eq!(place.registry(), before);
}
