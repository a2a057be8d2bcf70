//! Making worktrees, and knowing them again.

use std::fs;
use std::path::Path;

use signalbox_facts::SessionId;
use signalbox_workspace::{
    BaselineError, BaselineKind, Check, CreateRequest, WorktreeError, WorktreeWarning, check, create, discard,
};

use crate::fixture::{Place, git_in, short, try_git_in};

const CURRENT: BaselineKind = BaselineKind::Current;
const ORIGIN: BaselineKind = BaselineKind::OriginDefault;

#[test]
fn a_worktree_has_its_names_baseline_and_place() {
    let place = Place::repository();
    let session = SessionId::generate();
    let made = place.worktree_for(session, CURRENT, None).expect("made");
    let id = short(session);
    assert_eq!(made.worktree.path, place.around.join(format!(".signalbox-worktrees/repo-{id}")));
    assert_eq!(made.worktree.branch, format!("signalbox/{id}"));
    assert_eq!(made.worktree.baseline.kind, "current");
    assert_eq!(made.worktree.baseline.reference, "main");
    assert_eq!(made.worktree.baseline.sha, place.head());
    assert_eq!(made.cwd, made.worktree.path);
    assert_eq!(made.project_path, place.root);
    assert_eq!(made.warnings, []);
    // Git agrees.
    let checkout = &made.worktree.path;
    assert_eq!(git_in(checkout, &["rev-parse", "HEAD"]), place.head());
    assert_eq!(git_in(checkout, &["symbolic-ref", "--short", "HEAD"]), made.worktree.branch);
    assert_eq!(git_in(checkout, &["status", "--porcelain"]), "");
    assert!(place.git(&["worktree", "list"]).contains(&checkout.display().to_string()));
    place.git(&["fsck"]);
    assert_eq!(place.git(&["status", "--porcelain"]), "");
    assert_eq!(check(&made.worktree), Check::Ok);
}

#[test]
fn uncommitted_edits_stay_where_they_are() {
    let place = Place::repository();
    place.write("README.md", "edited\n");
    place.write("untracked.txt", "u\n");
    let made = place.worktree(CURRENT).expect("made");
    assert_eq!(made.worktree.baseline.sha, place.head());
    assert_eq!(fs::read_to_string(made.cwd.join("README.md")).expect("file"), "# Hello\n\nWorld\n");
    assert!(!made.cwd.join("untracked.txt").exists());
    assert_eq!(place.read("README.md"), "edited\n");
}

#[test]
fn a_detached_head_is_a_baseline() {
    let place = Place::repository();
    place.git(&["checkout", "-q", "--detach"]);
    let made = place.worktree(CURRENT).expect("made");
    assert_eq!(made.worktree.baseline.reference, "HEAD");
}

#[test]
fn the_default_branch_of_origin_is_used_as_last_fetched() {
    let place = Place::repository();
    let older = place.head();
    place.git(&["remote", "add", "origin", "https://unreachable.invalid/a.git"]);
    place.git(&["update-ref", "refs/remotes/origin/trunk", &older]);
    place.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    place.commit("ahead");
    let made = place.worktree(ORIGIN).expect("made");
    assert_eq!(made.worktree.baseline.reference, "refs/remotes/origin/trunk");
    assert_eq!(made.worktree.baseline.sha, older);
    assert!(made.worktree.baseline.display.starts_with("origin/trunk @ "));
    assert_eq!(git_in(&made.cwd, &["rev-parse", "HEAD"]), older);
}

#[test]
fn a_missing_or_dangling_origin_is_refused_and_nothing_is_made() {
    let place = Place::repository();
    let before = place.registry();
    let error = place.worktree(ORIGIN).expect_err("no origin");
    assert!(matches!(error, WorktreeError::Baseline { source: BaselineError::NoOriginHead, .. }), "{error}");
    place.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"]);
    let error = place.worktree(ORIGIN).expect_err("dangling");
    assert!(
        matches!(error, WorktreeError::Baseline { source: BaselineError::Dangling { .. }, .. }),
        "{error}"
    );
    assert_eq!(error.reason(), "baseline_unavailable");
    nothing_made(&place, &before);
}

fn nothing_made(place: &Place, registry: &str) {
    assert!(!place.around.join(".signalbox-worktrees").exists());
    assert!(!place.path(".git/worktrees").exists());
    assert_eq!(place.registry(), registry);
}

#[test]
fn a_pinned_sha_that_moved_is_refused() {
    let place = Place::repository();
    let shown = place.head();
    let now = place.commit("moved");
    let before = place.registry();
    let error = place.worktree_for(SessionId::generate(), CURRENT, Some(&shown)).expect_err("stale");
    assert!(
        matches!(&error, WorktreeError::Stale { expected, found, .. } if *expected == shown && *found == now)
    );
    assert_eq!(error.reason(), "baseline_moved");
    // An abbreviation is not what was shown.
    place.worktree_for(SessionId::generate(), CURRENT, Some(&now[..8])).expect_err("abbreviated");
    nothing_made(&place, &before);
    place.worktree_for(SessionId::generate(), CURRENT, Some(&now)).expect("as shown");
}

#[test]
fn a_selected_sub_directory_is_where_the_agent_starts() {
    let place = Place::repository();
    let app = place.at(&place.path("packages/app"));
    let made = app.worktree(CURRENT).expect("made");
    assert_eq!(made.worktree.path.parent(), Some(&*place.around.join(".signalbox-worktrees")));
    assert_eq!(made.cwd, made.worktree.path.join("packages/app"));
    assert_eq!(made.project_path, app.root);
}

#[test]
fn a_selected_directory_that_no_commit_has_is_refused_and_cleaned_up() {
    let place = Place::repository();
    let before = place.registry();
    place.write("new/only/here.txt", "x\n");
    let error = place.at(&place.path("new/only")).worktree(CURRENT).expect_err("not in the commit");
    assert!(
        matches!(&error, WorktreeError::NotInCommit { directory, .. } if directory == Path::new("new/only"))
    );
    nothing_made(&place, &before);
}

#[test]
fn outside_git_and_on_an_unborn_branch_there_is_none() {
    let error = Place::plain().worktree(CURRENT).expect_err("no repository");
    assert_eq!(error.reason(), "not_a_repository");
    let error = Place::empty().worktree(CURRENT).expect_err("no commit");
    assert!(matches!(error, WorktreeError::Baseline { source: BaselineError::Unborn { .. }, .. }), "{error}");
    let error =
        Place::plain().at(Path::new("/nonexistent/at/all")).worktree(CURRENT).expect_err("no directory");
    assert!(error.to_string().contains("/nonexistent/at/all"), "{error}");
}

#[test]
fn whatever_is_in_the_way_is_left_alone() {
    let place = Place::repository();
    let session = SessionId::generate();
    let id = short(session);
    let before = place.registry();
    let container = place.around.join(".signalbox-worktrees");
    let target = container.join(format!("repo-{id}"));
    fs::create_dir(&container).expect("container");

    std::os::unix::fs::symlink("/nonexistent/target", &target).expect("dangling link");
    let error = place.worktree_for(session, CURRENT, None).expect_err("a link is in the way");
    assert!(matches!(&error, WorktreeError::PathTaken { path } if *path == target), "{error}");
    assert_eq!(fs::read_link(&target).expect("still a link"), Path::new("/nonexistent/target"));
    fs::remove_file(&target).expect("remove");

    fs::create_dir(&target).expect("directory");
    place.worktree_for(session, CURRENT, None).expect_err("a directory is in the way");
    assert!(target.is_dir());
    fs::remove_dir(&target).expect("remove");
    assert_eq!(place.registry(), before);

    place.git(&["branch", &format!("signalbox/{id}")]);
    let error = place.worktree_for(session, CURRENT, None).expect_err("the branch is taken");
    assert!(matches!(error, WorktreeError::BranchTaken { .. }), "{error}");
    assert_eq!(error.reason(), "worktree_exists");
    assert!(!target.exists());
    place.git(&["rev-parse", &format!("signalbox/{id}")]);
}

#[test]
fn a_branch_called_signalbox_is_in_the_way_and_said_so() {
    let place = Place::repository();
    place.git(&["branch", "signalbox"]);
    let before = place.registry();
    let error = place.worktree(CURRENT).expect_err("no room for the branch");
    assert!(matches!(error, WorktreeError::Git { .. }), "{error}");
    nothing_made(&place, &before);
}

#[test]
fn a_checkout_that_breaks_off_is_taken_back() {
    let place = Place::repository();
    let before = place.registry();
    // A blob is lost: the checkout fails half-way.
    let blob = place.git(&["rev-parse", "HEAD:src/main.rs"]);
    let object = place.path(&format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    fs::remove_file(object).expect("lose the object");
    let error = place.worktree(CURRENT).expect_err("an object is missing");
    assert!(matches!(error, WorktreeError::Git { .. }), "{error:?}");
    nothing_made(&place, &before);
}

#[test]
fn taking_back_leaves_what_others_made() {
    let place = Place::repository();
    let first = place.worktree(CURRENT).expect("made");
    place.write("new/here.txt", "x\n");
    let before = place.registry();
    place.at(&place.path("new")).worktree(CURRENT).expect_err("not in the commit");
    assert_eq!(place.registry(), before);
    assert_eq!(check(&first.worktree), Check::Ok);
}

#[test]
fn bare_and_linked_repositories_are_sources() {
    let place = Place::repository();
    place.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    let bare = place.at(&place.around.join("bare.git"));
    let made = bare.worktree(CURRENT).expect("from a bare repository");
    let name = made.worktree.path.file_name().expect("name").to_string_lossy().into_owned();
    assert!(name.starts_with("bare-"), "{name}");
    assert_eq!(git_in(&made.cwd, &["rev-parse", "HEAD"]), place.head());
    assert_eq!(check(&made.worktree), Check::Ok);

    place.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = place.at(&place.around.join("side"));
    let sha = side.commit("on the side");
    let made = side.worktree(CURRENT).expect("from a linked worktree");
    assert_eq!((made.worktree.baseline.reference.as_str(), &made.worktree.baseline.sha), ("side", &sha));
    // The source may go; the checkout belongs to the repository.
    place.git(&["worktree", "remove", "--force", "../side"]);
    assert_eq!(check(&made.worktree), Check::Ok);

    // From one of our own checkouts: beside it, not inside.
    let nested = place.at(&made.worktree.path).worktree(CURRENT).expect("from a session's checkout");
    assert_eq!(nested.worktree.path.parent(), made.worktree.path.parent());
}

#[test]
fn where_the_checkout_cannot_lie_beside_it_lies_in_the_home() {
    let place = Place::repository();
    let inner = place.at(&place.path("inner"));
    fs::create_dir(&inner.root).expect("inner");
    inner.git(&["init", "-q", "-b", "main", "."]);
    inner.write("a.txt", "a\n");
    inner.commit("inner");
    let made = inner.worktree(CURRENT).expect("made");
    assert_eq!(made.worktree.path.parent(), Some(&*place.around.join("home/worktrees")));
    assert!(!place.path(".signalbox-worktrees").exists());
}

#[test]
fn repositories_of_unknown_kind_are_refused_with_their_reason() {
    let place = Place::repository();
    place.git(&["config", "core.repositoryformatversion", "1"]);
    place.git(&["config", "extensions.partialClone", "origin"]);
    let error = place.worktree(CURRENT).expect_err("an extension");
    assert_eq!(error.reason(), "unsupported_repository");
    assert!(error.to_string().to_lowercase().contains("extension `partialclone`"), "{error}");

    let place = Place::plain();
    place.git(&["init", "-q", "--object-format=sha256", "-b", "main", "."]);
    place.write("a.txt", "a\n");
    place.commit("first");
    let error = place.worktree(CURRENT).expect_err("sha256");
    assert_eq!(error.reason(), "unsupported_repository", "{error:?}");
    assert!(error.to_string().contains("SHA-256"), "{error}");

    let place = Place::repository();
    for args in [
        &["sparse-checkout", "init", "--cone", "--sparse-index"][..],
        &["sparse-checkout", "set", "packages"],
    ] {
        place.git(args);
    }
    let before = place.registry();
    let error = place.worktree(CURRENT).expect_err("a sparse index");
    assert!(error.to_string().contains("sparse index"), "{error}");
    nothing_made(&place, &before);
}

#[test]
fn submodules_lfs_and_sparse_checkouts_warn() {
    let place = Place::repository();
    let lib = place.sibling("lib");
    lib.write("lib.txt", "1\n");
    lib.commit("lib");
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "vendor/lib"]);
    place.write("media/.gitattributes", "# filter=nothing\n*.mp4 filter=lfs diff=lfs merge=lfs -text\n");
    place.commit("more");
    place.git(&["config", "core.sparseCheckout", "true"]);
    let made = place.worktree(CURRENT).expect("made");
    assert_eq!(
        made.warnings,
        [WorktreeWarning::Submodules { count: 1 }, WorktreeWarning::Lfs, WorktreeWarning::SparseCheckout]
    );
    assert!(made.warnings[0].to_string().contains("1 submodule,"), "{}", made.warnings[0]);
}

#[test]
fn a_switched_branch_warns_and_does_not_brick() {
    let place = Place::repository();
    let made = place.worktree(CURRENT).expect("made");
    git_in(&made.cwd, &["checkout", "-q", "-b", "feature"]);
    assert_eq!(check(&made.worktree), Check::BranchSwitched { found: Some("feature".to_owned()) });
    git_in(&made.cwd, &["checkout", "-q", "--detach"]);
    assert_eq!(check(&made.worktree), Check::BranchSwitched { found: None });
    git_in(&made.cwd, &["checkout", "-q", &made.worktree.branch]);
    git_in(&made.cwd, &["commit", "-q", "--allow-empty", "-m", "work"]);
    assert_eq!(check(&made.worktree), Check::Ok);
}

#[test]
fn a_checkout_that_was_replaced_is_noticed() {
    let place = Place::repository();
    let made = place.worktree(CURRENT).expect("made");
    let path = &made.worktree.path;
    let aside = place.around.join("aside");
    fs::rename(path, &aside).expect("aside");
    assert_eq!(check(&made.worktree), Check::Moved { reason: "it does not exist".to_owned() });
    // Another directory with a copy of the `.git` file, indistinguishable for git.
    fs::create_dir(path).expect("replacement");
    fs::copy(aside.join(".git"), path.join(".git")).expect("copy");
    assert!(try_git_in(path, &["status"]).status.success());
    let moved = |reason: &str| Check::Moved { reason: reason.to_owned() };
    assert_eq!(check(&made.worktree), moved("another directory was put in its place"));
    // A link to the real one is not it either.
    fs::remove_dir_all(path).expect("remove");
    std::os::unix::fs::symlink(&aside, path).expect("link");
    assert_eq!(check(&made.worktree), moved("it is not a directory"));
    fs::remove_file(path).expect("remove");
    // Back in its place it is the checkout again.
    fs::rename(&aside, path).expect("back");
    assert_eq!(check(&made.worktree), Check::Ok);
}

#[test]
fn a_checkout_of_another_worktree_or_repository_is_not_it() {
    let place = Place::repository();
    let (one, two) = (place.worktree(CURRENT).expect("one"), place.worktree(CURRENT).expect("two"));
    fs::copy(two.worktree.path.join(".git"), one.worktree.path.join(".git")).expect("copy");
    assert_eq!(check(&one.worktree), Check::Moved { reason: "it belongs to another worktree".to_owned() });

    fs::remove_file(two.worktree.path.join(".git")).expect("remove");
    assert!(matches!(check(&two.worktree), Check::Moved { .. }));
    git_in(&two.worktree.path, &["init", "-q", "."]);
    assert_eq!(check(&two.worktree), Check::Moved { reason: "it is a repository of its own".to_owned() });
}

#[test]
fn source_directories_may_go() {
    let place = Place::repository();
    let app = place.at(&place.path("packages/app"));
    let made = app.worktree(CURRENT).expect("made");
    fs::remove_dir_all(place.path("packages")).expect("remove");
    assert_eq!(check(&made.worktree), Check::Ok);
}

#[test]
fn variables_of_the_process_do_not_choose_the_repository() {
    // The environment is shared by all tests, so a child process says what it sees.
    let (place, other) = (Place::repository(), Place::repository());
    let exe = std::env::current_exe().expect("this test");
    let output = std::process::Command::new(exe)
        .args(["--exact", "worktree::child_sees_its_directory", "--nocapture"])
        .env("GIT_DIR", other.path(".git"))
        .env("GIT_WORK_TREE", &other.root)
        .env("GIT_INDEX_FILE", other.path(".git/index"))
        .env("SIGNALBOX_TEST_DIR", &place.root)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(place.git(&["branch"]).contains("signalbox/"));
    assert!(!other.git(&["branch"]).contains("signalbox/"));
}

/// Makes a worktree where the parent test says; on its own, in a repository of its own.
#[test]
fn child_sees_its_directory() {
    let own = Place::repository();
    let dir = std::env::var_os("SIGNALBOX_TEST_DIR").map_or(own.root.clone(), Into::into);
    let made = create(&CreateRequest {
        selected: &dir,
        session: SessionId::generate(),
        base: CURRENT,
        pin: None,
        fallback: &own.around,
    })
    .expect("made");
    assert_eq!(made.project_path, dir);
    assert!(own.is_temporary());
}

#[test]
fn the_first_two_of_a_repository_may_be_made_at_once() {
    let place = Place::repository();
    for _ in 0..10 {
        let start = std::sync::Barrier::new(2);
        let made = std::thread::scope(|scope| {
            let make = || {
                start.wait();
                place.worktree(CURRENT)
            };
            let other = scope.spawn(make);
            [make(), other.join().expect("no panic")]
        });
        for made in made {
            let worktree = made.expect("made").worktree;
            discard(&worktree, &place.root, true).expect("discarded");
        }
        assert!(!place.path(".git/worktrees").exists());
    }
}
