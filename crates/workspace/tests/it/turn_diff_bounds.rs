//! What a turn's diff does when there is too much, or too little time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::slice::from_ref;
use std::time::{Duration, Instant};

use signalbox_workspace::{BlobStore, Limits, Snapshot, StatCache};

use crate::fixture::{Place, Turn, far};

#[test]
fn a_diff_beyond_the_bound_is_truncated_at_a_file() {
    let place = Place::repository();
    let limits = Limits { max_diff_bytes: 500, ..Limits::default() };
    let mut turn = Turn::begin(&place, from_ref(&place.root), limits);
    place.write("a-large.txt", "line\n".repeat(1000));
    place.write("b-small.txt", "small\n");
    let diff = turn.diff();
    assert!(diff.truncated && !diff.partial);
    assert!(diff.diff.len() <= 500);
    // That the large one changed is still told, and the small one is whole.
    assert!(
        diff.diff.starts_with("diff --git a/a-large.txt b/a-large.txt\nnew file mode 100644\n"),
        "{}",
        diff.diff
    );
    assert!(diff.diff.ends_with("@@ -0,0 +1 @@\n+small\n"), "{}", diff.diff);
}

#[test]
fn a_file_beyond_the_bound_is_shown_like_a_binary_one() {
    let place = Place::repository();
    place.write("data.csv", "1\n".repeat(600));
    place.commit("data");
    let limits = Limits { max_file_bytes: 1000, ..Limits::default() };
    let mut turn = Turn::begin(&place, from_ref(&place.root), limits);
    assert_eq!(turn.exact(), "");
    place.write("data.csv", "2\n".repeat(600));
    let diff = turn.exact();
    assert!(diff.contains("Binary files a/data.csv and b/data.csv differ\n"), "{diff}");
}

#[test]
fn what_was_not_kept_in_time_makes_the_diff_partial_only_if_it_changes() {
    let place = Place::repository();
    place.write("one.txt", "one\n");
    place.write("two.txt", "two\n");
    let limits = Limits { max_total_bytes: 4, ..Limits::default() };
    let mut turn = Turn::begin(&place, from_ref(&place.root), limits);
    assert!(turn.snapshot.as_ref().is_some_and(Snapshot::is_partial));
    place.write("README.md", "changed\n");
    let diff = turn.diff();
    assert!(!diff.partial && diff.diff.contains("+changed\n"), "{diff:?}");
    place.write("one.txt", "1\n");
    place.write("two.txt", "2\n");
    let diff = turn.diff();
    assert!(diff.partial, "{diff:?}");
    assert_eq!(diff.diff.matches("Binary files").count(), 1, "{}", diff.diff);
}

#[test]
fn with_no_time_at_all_the_index_is_the_guess() {
    let place = Place::repository();
    for number in 0..200 {
        place.write(&format!("many/{number:03}.txt"), "old\n");
    }
    place.commit("many");
    place.settle();
    let mut cache = StatCache::new();
    let roots = from_ref(&place.root);
    let snapshot = Snapshot::take(roots, &place.store(), Limits::default(), Instant::now(), &mut cache)
        .expect("snapshot")
        .expect("in git");
    assert!(snapshot.is_partial());
    place.write("many/199.txt", "new\n");
    place.write("fresh.txt", "fresh\n");
    let diff = snapshot.diff(far(), &mut cache);
    assert!(diff.partial);
    assert_eq!(diff.diff.matches("diff --git").count(), 2, "{}", diff.diff);
    assert!(diff.diff.contains("-old\n+new\n") && diff.diff.contains("+fresh\n"), "{}", diff.diff);
    // A diff without time says that it is not whole.
    assert!(snapshot.diff(Instant::now(), &mut cache).partial);
}

#[test]
fn too_many_files_make_it_partial_and_no_slower() {
    let place = Place::repository();
    for number in 0..100 {
        place.write(&format!("many/{number}.txt"), "x\n");
    }
    let limits = Limits { max_files: 20, ..Limits::default() };
    let mut turn = Turn::begin(&place, from_ref(&place.root), limits);
    assert!(turn.snapshot.as_ref().is_some_and(Snapshot::is_partial));
    place.write("README.md", "changed\n");
    let diff = turn.diff();
    assert!(diff.partial && diff.diff.contains("+changed\n"), "{diff:?}");
}

#[test]
fn contents_are_kept_for_the_owner_alone_and_pruned() {
    let place = Place::repository();
    place.write("secret.env", "TOKEN=1\n");
    let mut turn = place.before();
    let mode = fs::metadata(place.store()).expect("store").permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let store = BlobStore::open(&place.store()).expect("store");
    assert_eq!(store.prune(1 << 20, Duration::from_secs(3600)).expect("prune"), 0);
    assert_eq!(store.prune(0, Duration::from_secs(3600)).expect("prune"), 8);
    place.write("secret.env", "TOKEN=2\n");
    let diff = turn.diff();
    assert!(diff.diff.contains("Binary files a/secret.env and b/secret.env differ"), "{diff:?}");
    assert!(diff.partial, "{diff:?}");
}

#[test]
fn an_unreadable_or_odd_file_does_not_stop_it() {
    let place = Place::repository();
    let fifo = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    let mut turn = place.before();
    place.remove("README.md");
    assert!(
        std::process::Command::new("mkfifo").arg(place.path("README.md")).status().expect("mkfifo").success()
    );
    let diff = turn.exact();
    assert!(diff.contains("--- a/README.md\n+++ /dev/null\n"), "{diff}");
    assert_eq!(diff.matches("diff --git").count(), 1, "{diff}");
}

#[test]
fn a_repository_that_goes_away_makes_it_partial() {
    let place = Place::repository();
    let mut turn = place.before();
    fs::remove_dir_all(place.path(".git")).expect("remove");
    assert!(turn.diff().partial);
}
