//! What a directory's repository is at a glance.

use signalbox_workspace::{git_info, without_credentials};

use crate::fixture::{Place, git_in};

#[test]
fn a_checkout_has_commit_branch_origin_and_root() {
    let place = Place::repository();
    place.git(&["remote", "add", "origin", "https://me:secret@example.org/a/b.git"]);
    let info = git_info(&place.path("packages/app")).expect("in a repository");
    assert_eq!(info.sha, Some(place.head()));
    assert_eq!(info.branch.as_deref(), Some("main"));
    assert_eq!(info.origin_url.as_deref(), Some("https://example.org/a/b.git"));
    assert_eq!(info.root, place.root);
}

#[test]
fn a_detached_head_has_no_branch_and_an_unborn_branch_no_commit() {
    let place = Place::repository();
    place.git(&["checkout", "-q", "--detach"]);
    let info = git_info(&place.root).expect("in a repository");
    assert_eq!((info.sha, info.branch), (Some(place.head()), None));

    let place = Place::empty();
    let info = git_info(&place.root).expect("in a repository");
    assert_eq!((info.sha, info.branch.as_deref(), info.origin_url), (None, Some("main"), None));
}

#[test]
fn a_linked_worktree_has_its_own_root_and_branch() {
    let place = Place::repository();
    place.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let info = git_info(&place.around.join("side")).expect("in a repository");
    assert_eq!(info.branch.as_deref(), Some("side"));
    assert_eq!(info.root, place.around.join("side"));
}

#[test]
fn a_directory_outside_git_has_none() {
    let place = Place::plain();
    assert_eq!(git_info(&place.root), None);
    assert_eq!(git_info(&place.path("missing")), None);
}

#[test]
fn secrets_from_rewritten_urls_do_not_appear() {
    let place = Place::repository();
    place.git(&["remote", "add", "origin", "https://example.org/a.git"]);
    place.git(&["config", "url.https://token@example.org/.insteadOf", "https://example.org/"]);
    let info = git_info(&place.root).expect("in a repository");
    assert_eq!(info.origin_url.as_deref(), Some("https://example.org/a.git"));
}

#[test]
fn a_repository_of_unknown_kind_is_none_and_no_error() {
    let place = Place::repository();
    git_in(&place.root, &["config", "core.repositoryformatversion", "1"]);
    git_in(&place.root, &["config", "extensions.fromTheFuture", "true"]);
    assert_eq!(git_info(&place.root), None);
}

#[test]
fn urls_lose_what_could_be_secret() {
    for (url, clean) in [
        ("https://me:token@host/a.git", "https://host/a.git"),
        ("https://token@host:8443/a", "https://host:8443/a"),
        ("https://me:p@ss@host/a@b", "https://host/a@b"),
        ("http://host/a?private_token=x#y", "http://host/a"),
        ("https://me:token@host", "https://host"),
        ("ssh://git:pw@host:22/a.git", "ssh://git@host:22/a.git"),
        ("ssh://git@host/a.git", "ssh://git@host/a.git"),
        ("git+ssh://git:pw@host/a", "git+ssh://git@host/a"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
        ("file:///srv/a@b.git", "file:///srv/a@b.git"),
    ] {
        assert_eq!(without_credentials(url), clean, "{url}");
    }
}
