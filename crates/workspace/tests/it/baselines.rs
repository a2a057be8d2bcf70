//! Which commits a worktree could start from, as they are known locally.

use signalbox_workspace::{BaselineError, BaselineKind, baselines};

use crate::fixture::Place;

/// Sets refs as a clone has them, without any remote that could be reached.
fn pretend_clone(place: &Place, sha: &str) {
    place.git(&["remote", "add", "origin", "https://unreachable.invalid/a.git"]);
    place.git(&["update-ref", "refs/remotes/origin/trunk", sha]);
    place.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
}

fn origin_default(place: &Place) -> Result<signalbox_facts::WorktreeBaseline, BaselineError> {
    let [_, origin] = baselines(&place.root);
    assert_eq!(origin.kind, BaselineKind::OriginDefault);
    origin.resolved
}

#[test]
fn both_are_resolved_where_they_exist() {
    let place = Place::repository();
    let older = place.head();
    pretend_clone(&place, &older);
    let newer = place.commit("ahead");
    let [current, origin] = baselines(&place.path("src"));
    let current = current.resolved.expect("current");
    assert_eq!(
        (current.kind.as_str(), current.reference.as_str(), &current.sha),
        ("current", "main", &newer)
    );
    assert_eq!(current.display, format!("main @ {}", &newer[..8]));
    let origin = origin.resolved.expect("origin");
    assert_eq!(origin.kind, "origin_default");
    assert_eq!(origin.reference, "refs/remotes/origin/trunk");
    assert_eq!(origin.sha, older);
    assert_eq!(origin.display, format!("origin/trunk @ {}", &older[..8]));
}

#[test]
fn a_detached_head_is_called_head() {
    let place = Place::repository();
    place.git(&["checkout", "-q", "--detach"]);
    let [current, _] = baselines(&place.root);
    let current = current.resolved.expect("current");
    assert_eq!(current.reference, "HEAD");
    assert_eq!(current.display, format!("HEAD @ {}", &place.head()[..8]));
}

#[test]
fn a_branch_without_commits_has_a_reason() {
    let place = Place::empty();
    let [current, origin] = baselines(&place.root);
    assert_eq!(current.resolved.expect_err("unborn").to_string(), "the branch main has no commits yet");
    assert!(matches!(origin.resolved, Err(BaselineError::NoOriginHead)));
}

#[test]
fn a_missing_dangling_foreign_or_plain_origin_head_has_its_reason() {
    let place = Place::repository();
    assert!(matches!(origin_default(&place), Err(BaselineError::NoOriginHead)));

    place.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"]);
    let error = origin_default(&place).expect_err("dangling");
    assert_eq!(
        error.to_string(),
        "refs/remotes/origin/HEAD points to refs/remotes/origin/gone, which does not exist"
    );

    for foreign in ["refs/heads/main", "refs/remotes/other/main", "refs/remotes/origin/HEAD"] {
        place.write(".git/refs/remotes/origin/HEAD", format!("ref: {foreign}\n"));
        assert!(
            matches!(origin_default(&place), Err(BaselineError::NotOfOrigin { target }) if target == foreign),
            "{foreign}"
        );
    }

    place.write(".git/refs/remotes/origin/HEAD", format!("{}\n", place.head()));
    assert!(matches!(origin_default(&place), Err(BaselineError::NotSymbolic)));
}

#[test]
fn a_ref_whose_commit_is_missing_is_unreadable() {
    let place = Place::repository();
    pretend_clone(&place, &place.head());
    place.write(".git/refs/remotes/origin/trunk", "0123456789012345678901234567890123456789\n");
    let error = origin_default(&place).expect_err("missing");
    assert!(matches!(error, BaselineError::Unreadable { .. }), "{error}");
}

#[test]
fn a_stale_but_valid_ref_is_used_as_it_is() {
    let place = Place::repository();
    let old = place.head();
    pretend_clone(&place, &old);
    place.commit("two");
    place.commit("three");
    assert_eq!(origin_default(&place).expect("stale").sha, old);
}

#[test]
fn bare_and_linked_checkouts_have_baselines() {
    let place = Place::repository();
    place.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    let [current, _] = baselines(&place.around.join("bare.git"));
    assert_eq!(current.resolved.expect("bare").sha, place.head());
    place.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let [current, _] = baselines(&place.around.join("side"));
    assert_eq!(current.resolved.expect("linked").reference, "side");
}

#[test]
fn outside_git_both_say_so() {
    let place = Place::plain();
    for choice in baselines(&place.root) {
        let reason = choice.resolved.expect_err("no repository").to_string();
        assert!(reason.ends_with("is not inside a Git repository"), "{reason}");
    }
}
