//! What a turn changed, told as a unified diff: every kind of change, and none that was there before.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice::from_ref;

use signalbox_workspace::{Limits, Snapshot, StatCache};

use crate::fixture::{Place, Turn, apply, copy, far};

#[test]
fn nothing_changed_is_an_empty_diff() {
    let place = Place::repository();
    let mut turn = place.before();
    assert_eq!(turn.exact(), "");
}

#[test]
fn an_edit_is_shown_as_git_shows_it() {
    let place = Place::repository();
    let mut turn = place.before();
    place.write("src/main.rs", "fn main() {\n    println!(\"goodbye\");\n}\n");
    assert_eq!(turn.exact(), format!("{}\n", place.git(&["diff", "--no-color", "--abbrev=7"])));
}

#[test]
fn what_the_user_had_changed_before_is_not_part_of_it() {
    let place = Place::repository();
    place.write("src/main.rs", "fn main() {\n    // the user's\n}\n");
    place.write("README.md", "staged\n");
    place.git(&["add", "README.md"]);
    place.write("notes.txt", "untracked before\n");
    let mut turn = place.before();
    assert_eq!(turn.exact(), "");
    place.write("src/main.rs", "fn main() {\n    // the user's\n    // the agent's\n}\n");
    place.write("notes.txt", "untracked before\nand after\n");
    assert_eq!(
        turn.exact(),
        "diff --git a/notes.txt b/notes.txt\n\
         index 4b0a80e..9f1ec85 100644\n\
         --- a/notes.txt\n\
         +++ b/notes.txt\n\
         @@ -1 +1,2 @@\n \
         untracked before\n\
         +and after\n\
         diff --git a/src/main.rs b/src/main.rs\n\
         index 365361f..8365f57 100644\n\
         --- a/src/main.rs\n\
         +++ b/src/main.rs\n\
         @@ -1,3 +1,4 @@\n \
         fn main() {\n     \
             // the user's\n\
         +    // the agent's\n \
         }\n"
    );
}

#[test]
fn new_deleted_and_emptied_files_appear() {
    let place = Place::repository();
    place.write("to-empty", "x\n");
    let mut turn = place.before();
    place.write("new/file.txt", "one\ntwo\n");
    place.write("new/empty", "");
    place.remove("README.md");
    place.write("to-empty", "");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/new/file.txt b/new/file.txt\nnew file mode 100644\nindex 0000000..814f4a4\n--- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"), "{diff}");
    assert!(
        diff.contains(
            "diff --git a/new/empty b/new/empty\nnew file mode 100644\nindex 0000000..e69de29\ndiff"
        ),
        "{diff}"
    );
    assert!(diff.contains("deleted file mode 100644\nindex "), "{diff}");
    assert!(diff.contains("--- a/README.md\n+++ /dev/null\n"), "{diff}");
    assert!(diff.contains("@@ -1 +0,0 @@\n-x\n"), "{diff}");
}

#[test]
fn a_diff_applies_to_what_was_before() {
    let place = Place::repository();
    place.write("a b.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    place.write("moved.txt", "a\nb\nc\nd\ne\nf\n");
    place.write("no-newline", "end");
    place.write("tool.sh", "#!/bin/sh\n");
    let twin = Place::plain();
    let mut turn = place.before();
    copy(&place.root, &twin.root);
    place.write("a b.txt", "1\n2\n3\nfour\n5\n6\n7\n8\n9\nten\n");
    place.rename("moved.txt", "deep/er/moved.txt");
    place.write("deep/er/moved.txt", "a\nb\nC\nd\ne\nf\n");
    place.write("no-newline", "end\nof it");
    place.chmod("tool.sh", 0o755);
    place.write("tab\tand \"quote\"", "odd\n");
    place.link("README.md", "link");
    place.remove("src/main.rs");
    let diff = turn.exact();
    apply(&twin.root, &diff);
    for path in ["a b.txt", "deep/er/moved.txt", "no-newline", "tab\tand \"quote\"", "link"] {
        assert_eq!(place.read(path), twin.read(path), "{path}\n{diff}");
    }
    assert!(!twin.path("moved.txt").exists() && !twin.path("src/main.rs").exists());
    let mode = |place: &Place| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(place.path("tool.sh")).expect("tool").permissions().mode() & 0o111
    };
    assert_eq!(mode(&twin), mode(&place));
    assert_eq!(fs::read_link(twin.path("link")).expect("a link"), Path::new("README.md"));
}

#[test]
fn a_renamed_file_is_a_rename() {
    let place = Place::repository();
    place.write("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    place.commit("long");
    let mut turn = place.before();
    place.rename("README.md", "docs/README.md");
    place.rename("long.txt", "short.txt");
    place.write("short.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/README.md b/docs/README.md\nsimilarity index 100%\nrename from README.md\nrename to docs/README.md\n"), "{diff}");
    assert!(diff.contains("diff --git a/long.txt b/short.txt\nsimilarity index 85%\nrename from long.txt\nrename to short.txt\n"), "{diff}");
    assert!(diff.contains("-10\n"), "{diff}");
    assert!(!diff.contains("new file") && !diff.contains("deleted file"), "{diff}");
}

#[test]
fn a_renamed_directory_moves_its_old_files() {
    let place = Place::repository();
    place.write("lib/one.txt", "one\n");
    place.write("lib/two.txt", "two\n");
    let mut turn = place.before();
    place.rename("lib", "core");
    place.git(&["add", "-A"]);
    let diff = turn.exact();
    assert!(diff.contains("rename from lib/one.txt\nrename to core/one.txt\n"), "{diff}");
    assert!(diff.contains("rename from lib/two.txt\nrename to core/two.txt\n"), "{diff}");
}

#[test]
fn modes_and_kinds_of_files_are_told() {
    let place = Place::repository();
    place.write("run.sh", "#!/bin/sh\n");
    place.link("README.md", "to-be-file");
    let mut turn = place.before();
    place.chmod("run.sh", 0o755);
    place.remove("README.md");
    place.link("run.sh", "README.md");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"), "{diff}");
    assert!(diff.contains("diff --git a/README.md b/README.md\ndeleted file mode 100644\n"), "{diff}");
    assert!(diff.contains("diff --git a/README.md b/README.md\nnew file mode 120000\nindex 0000000..e0e6347\n--- /dev/null\n+++ b/README.md\n@@ -0,0 +1 @@\n+run.sh\n\\ No newline at end of file\n"), "{diff}");
    assert!(!diff.contains("to-be-file"), "{diff}");
}

#[test]
fn where_git_keeps_no_executable_bits_there_are_none() {
    let place = Place::repository();
    place.git(&["config", "core.fileMode", "false"]);
    let mut turn = place.before();
    place.chmod("README.md", 0o755);
    assert_eq!(turn.exact(), "");
}

#[test]
fn binary_files_are_named_and_not_printed() {
    let place = Place::repository();
    place.write("logo.png", b"\x89PNG\0\x01");
    place.write(".gitattributes", "*.min.js -diff\n");
    place.write("a.min.js", "x\n");
    place.commit("logo");
    let mut turn = place.before();
    place.write("logo.png", b"\x89PNG\0\x02");
    place.write("new.bin", b"\0\0");
    place.write("a.min.js", "y\n");
    let diff = turn.exact();
    assert!(diff.contains("Binary files a/logo.png and b/logo.png differ\n"), "{diff}");
    assert!(diff.contains("Binary files /dev/null and b/new.bin differ\n"), "{diff}");
    assert!(diff.contains("Binary files a/a.min.js and b/a.min.js differ\n"), "{diff}");
    assert!(!diff.contains("@@"), "{diff}");
}

#[test]
fn ignored_files_do_not_appear_but_tracked_ones_that_match_do() {
    let place = Place::repository();
    place.write("kept.log", "tracked\n");
    place.git(&["add", "-f", "kept.log"]);
    place.commit("log");
    place.write(".git/info/exclude", "private/\n");
    place.write("packages/.gitignore", "*.tmp\n!keep.tmp\n/app/only-here\n");
    let mut turn = place.before();
    place.write("target/debug/out", "x");
    place.write("other.log", "x");
    place.write("private/x", "x");
    place.write("packages/app/a.tmp", "x");
    place.write("packages/app/only-here", "x");
    place.write("packages/app/deeper/app/only-here", "shown\n");
    place.write("packages/app/keep.tmp", "shown\n");
    place.write("kept.log", "changed\n");
    let diff = turn.exact();
    let files: Vec<&str> = diff.lines().filter(|line| line.starts_with("diff ")).collect();
    assert_eq!(
        files,
        [
            "diff --git a/kept.log b/kept.log",
            "diff --git a/packages/app/deeper/app/only-here b/packages/app/deeper/app/only-here",
            "diff --git a/packages/app/keep.tmp b/packages/app/keep.tmp",
        ]
    );
}

#[test]
fn a_file_that_is_no_longer_ignored_was_there_before() {
    let place = Place::repository();
    place.write("old.log", "written long ago\n");
    place.settle();
    let mut turn = place.before();
    place.write(".gitignore", "target/\n");
    place.write("new.log", "new\n");
    let diff = turn.exact();
    assert!(diff.contains("b/new.log") && diff.contains("b/.gitignore"), "{diff}");
    assert!(!diff.contains("old.log"), "{diff}");
}

#[test]
fn an_edit_of_equal_length_right_after_the_snapshot_is_seen() {
    let place = Place::repository();
    for round in 0..20 {
        place.write("racy.txt", format!("{round:04}\n"));
        let mut turn = place.before();
        place.write("racy.txt", format!("{:04}\n", round + 1));
        let diff = turn.exact();
        assert!(diff.contains(&format!("-{round:04}\n+{:04}\n", round + 1)), "{round}: {diff}");
    }
}

#[test]
fn a_file_touched_or_written_back_is_unchanged() {
    let place = Place::repository();
    place.write("dirty.txt", "dirty\n");
    let mut turn = place.before();
    for path in ["README.md", "dirty.txt"] {
        let text = place.read(path);
        place.remove(path);
        place.write(path, text);
    }
    assert_eq!(turn.exact(), "");
}

#[test]
fn commits_checkouts_and_a_rewritten_index_do_not_disturb_it() {
    let place = Place::repository();
    place.write("dirty.txt", "before\n");
    let mut turn = place.before();
    place.write("dirty.txt", "after\n");
    place.write("README.md", "changed\n");
    let diff = turn.exact();
    place.commit("the agent commits");
    assert_eq!(turn.exact(), diff);
    place.git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    let diff = turn.exact();
    assert!(diff.contains("deleted file mode 100644") && diff.contains("-before\n"), "{diff}");
    assert!(!diff.contains("README.md"), "{diff}");
    place.remove(".git/index");
    assert_eq!(turn.exact(), diff);
}

#[test]
fn a_branch_without_commits_has_a_diff_too() {
    let place = Place::empty();
    place.write("a.txt", "a\n");
    let mut turn = place.before();
    assert_eq!(turn.snapshot.as_ref().and_then(Snapshot::head), None);
    place.write("a.txt", "b\n");
    place.write("c.txt", "c\n");
    let diff = turn.exact();
    assert!(diff.contains("-a\n+b\n") && diff.contains("b/c.txt"), "{diff}");
}

#[test]
fn outside_git_there_is_none() {
    let place = Place::plain();
    place.write("a.txt", "a\n");
    assert!(place.before().snapshot.is_none());
    let missing = place.path("missing");
    assert!(Turn::begin(&place, &[missing], Limits::default()).snapshot.is_none());
}

#[test]
fn a_project_that_the_home_directory_ignores_is_not_part_of_it() {
    let place = Place::repository();
    place.write(".gitignore", "/*\n!README.md\n");
    place.write("project/a.txt", "a\n");
    assert!(Turn::begin(&place, &[place.path("project")], Limits::default()).snapshot.is_none());
    assert!(
        Turn::begin(&place, &[place.path("src")], Limits::default()).snapshot.is_some(),
        "has tracked files"
    );
}

#[test]
fn from_a_sub_directory_the_whole_checkout_is_seen() {
    let place = Place::repository();
    let mut turn = Turn::begin(&place, &[place.path("packages/app")], Limits::default());
    place.write("packages/app/new.js", "new\n");
    place.write("README.md", "changed\n");
    place.write("top.txt", "top\n");
    let diff = turn.exact();
    for path in ["b/packages/app/new.js", "b/README.md", "b/top.txt"] {
        assert!(diff.contains(path), "{path}: {diff}");
    }
}

#[test]
fn several_roots_are_told_apart() {
    let place = Place::repository();
    let lib = place.sibling("lib");
    lib.write("lib.txt", "1\n");
    lib.commit("lib");
    let loose = place.around.join("loose");
    fs::create_dir(&loose).expect("loose");
    let roots = [place.root.clone(), place.path("src"), lib.root.clone(), loose.clone()];
    let mut turn = Turn::begin(&place, &roots, Limits::default());
    assert_eq!(turn.snapshot.as_ref().map(Snapshot::outside), Some(&[loose][..]));
    place.write("README.md", "changed\n");
    lib.write("lib.txt", "2\n");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/README.md b/README.md\n"), "{diff}");
    let shown = format!("{}/lib.txt", lib.root.display());
    assert!(diff.contains(&format!("+++ b{shown}\n")), "{diff}");
    assert_eq!(diff.matches("diff --git").count(), 2, "{diff}");
}

#[test]
fn submodules_and_stray_clones_are_looked_into() {
    let place = Place::repository();
    let lib = place.sibling("lib");
    lib.write("lib.txt", "1\n");
    lib.commit("lib");
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "vendor/lib"]);
    place.commit("submodule");
    let stray = place.at(&place.path("stray"));
    fs::create_dir(&stray.root).expect("stray");
    stray.git(&["init", "-q", "-b", "main", "."]);
    stray.write("s.txt", "1\n");
    stray.commit("stray");
    let mut turn = place.before();
    assert_eq!(turn.exact(), "");
    let submodule = place.at(&place.path("vendor/lib"));
    submodule.write("lib.txt", "2\n");
    stray.write("s.txt", "2\n");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/vendor/lib/lib.txt b/vendor/lib/lib.txt\n"), "{diff}");
    assert!(diff.contains("diff --git a/stray/s.txt b/stray/s.txt\n"), "{diff}");
    assert_eq!(diff.matches("diff --git").count(), 2, "{diff}");
    let (old, new) = (submodule.head(), submodule.commit("second"));
    let diff = turn.exact();
    assert!(diff.contains(&format!("-Subproject commit {old}\n+Subproject commit {new}\n")), "{diff}");
}

#[test]
fn the_users_repository_is_left_as_it_was() {
    let place = Place::repository();
    place.write("README.md", "dirty\n");
    place.write("untracked.txt", "u\n");
    let state = || {
        let mut files = Vec::new();
        list(&place.path(".git"), &mut files);
        files.sort();
        files
    };
    let before = state();
    let mut turn = place.before();
    place.write("README.md", "dirtier\n");
    assert!(turn.exact().contains("-dirty\n+dirtier\n"));
    assert_eq!(state(), before);
}

fn list(dir: &Path, files: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    for entry in fs::read_dir(dir).expect("dir") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push((path.as_os_str().as_bytes().to_vec(), fs::read(&path).expect("read")));
        }
    }
}

#[test]
fn line_ends_that_git_converts_are_no_change() {
    let place = Place::repository();
    place.write(".gitattributes", "*.bat text eol=crlf\n");
    place.write("run.bat", "one\r\ntwo\r\n");
    place.commit("bat");
    place.remove("run.bat");
    place.git(&["checkout", "-q", "run.bat"]);
    assert_eq!(place.read("run.bat"), "one\r\ntwo\r\n");
    place.settle();
    let mut turn = place.before();
    place.write("run.bat", "one\r\ntwo\r\n");
    assert_eq!(turn.exact(), "");
    place.write("run.bat", "one\r\n2\r\n");
    let diff = turn.exact();
    assert!(diff.contains(" one\n-two\n+2\n"), "{diff:?}");
}

#[test]
fn files_of_git_lfs_are_compared_by_what_their_pointer_names() {
    let place = Place::repository();
    let content = "a large film\n";
    // What `git lfs clean` would have put into the repository.
    let sha256 = sha256(content);
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize 13\n");
    place.write("film.mp4", &pointer);
    place.commit("film");
    place.settle();
    let mut turn = place.before();
    // `git lfs pull` puts the content in place of the pointer.
    place.write("film.mp4", content);
    assert_eq!(turn.exact(), "");
    place.write("film.mp4", "a longer film\n");
    let diff = turn.exact();
    assert!(diff.contains("Binary files a/film.mp4 and b/film.mp4 differ\n"), "{diff}");
}

fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_link_in_place_of_a_directory_hides_what_was_inside() {
    let place = Place::repository();
    let twin = place.around.join("twin");
    copy_dir(&place.path("packages"), &twin);
    let mut turn = place.before();
    fs::remove_dir_all(place.path("packages")).expect("remove");
    std::os::unix::fs::symlink(&twin, place.path("packages")).expect("link");
    let diff = turn.exact();
    assert!(diff.contains("diff --git a/packages b/packages\nnew file mode 120000\n"), "{diff}");
    assert!(
        diff.contains("diff --git a/packages/app/index.js b/packages/app/index.js\ndeleted file"),
        "{diff}"
    );
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("dir");
    copy(from, to);
}

#[test]
fn names_that_are_not_text_are_escaped() {
    let place = Place::repository();
    let odd = std::ffi::OsStr::from_bytes(b"latin-\xe9.txt");
    let mut turn = place.before();
    // Some file systems only take names that are text.
    if fs::write(place.root.join(odd), "x\n").is_ok() {
        assert!(turn.exact().contains("diff --git \"a/latin-\\351.txt\" \"b/latin-\\351.txt\"\n"));
    }
    place.write("größe.txt", "ü\n");
    assert!(turn.exact().contains("+++ b/größe.txt\n@@ -0,0 +1 @@\n+ü\n"));
}

#[test]
fn a_second_turn_reads_nothing_again() {
    let place = Place::repository();
    for number in 0..50 {
        place.write(&format!("untracked/{number}.txt"), format!("{number}\n"));
    }
    place.settle();
    let mut turn = place.before();
    let known = turn.cache.len();
    assert_eq!(known, 50, "the index vouches for the others");
    // With no time to read anything, a second snapshot is still whole.
    let roots = from_ref(&place.root);
    let limits = Limits { max_total_bytes: 0, ..Limits::default() };
    let again = Snapshot::take(roots, &place.store(), limits, far(), &mut turn.cache).expect("snapshot");
    assert!(!again.expect("in git").is_partial());
    let fresh = Snapshot::take(roots, &place.around.join("other"), limits, far(), &mut StatCache::new());
    assert!(fresh.expect("snapshot").expect("in git").is_partial());
}
