//! What is found in real directories, and what ends a search.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::*;

struct Tree {
    folder: tempfile::TempDir,
    finder: Finder,
    tasks: TaskTracker,
}

impl Tree {
    fn of(files: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        Self { folder, finder: Finder::default(), tasks: TaskTracker::new() }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn query(&self, query: &str) -> FileQuery {
        let cancelled = CancellationToken::new();
        FileQuery { query: query.to_owned(), roots: vec![self.root().to_owned()], cancelled }
    }

    async fn find(&self, query: &str) -> Files {
        self.finder.find(self.query(query), &self.tasks).await
    }

    /// All listings are older than they may be.
    fn grows_old(&self) {
        self.finder.walks.lock().values().for_each(|walk| walk.age(FRESH));
    }

    async fn paths(&self, query: &str) -> Vec<String> {
        let files = self.find(query).await;
        assert!(files.complete);
        files.hits.into_iter().map(|hit| hit.path).collect()
    }
}

#[tokio::test]
async fn letters_in_order_find_paths_and_the_best_comes_first() {
    let tree = Tree::of(&["src/main.rs", "src/domain/mainline.rs", "docs/remain.md", "src/lib.rs"]);
    assert_eq!(tree.paths("main.rs").await[0], "src/main.rs");
    assert_eq!(tree.paths("srclib").await, ["src/lib.rs"]);
    assert_eq!(tree.paths("lib src").await, ["src/lib.rs"], "words in any order");
    assert!(tree.paths("nothing").await.is_empty());
    assert!(tree.paths("  ").await.is_empty());
    let hit = &tree.find("lib").await.hits[0];
    assert_eq!((hit.path.as_str(), hit.indices.as_slice()), ("src/lib.rs", &[4, 5, 6][..]));
    let hit = &tree.find("domain").await.hits[0];
    assert_eq!((hit.path.as_str(), hit.directory), ("src/domain", true));
}

#[tokio::test]
async fn no_letter_is_an_operator() {
    let tree = Tree::of(&["a!b", "^start", "it's", "end$"]);
    assert_eq!(tree.paths("!b").await, ["a!b"]);
    assert_eq!(tree.paths("^s").await, ["^start"]);
    assert_eq!(tree.paths("'s").await, ["it's"]);
    assert_eq!(tree.paths("d$").await, ["end$"]);
}

#[tokio::test]
async fn ignore_files_hold_and_hidden_files_are_found() {
    let tree =
        Tree::of(&[".git/config", ".github/workflows/ci.yml", "target/out.yml", "kept.yml", ".gitignore"]);
    fs::write(tree.root().join(".gitignore"), "target/\n").unwrap();
    let mut found = tree.paths("yml").await;
    found.sort();
    assert_eq!(found, [".github/workflows/ci.yml", "kept.yml"]);
    assert!(tree.paths("config").await.is_empty(), "what is git's own");
}

#[tokio::test]
async fn loops_of_links_end_and_names_that_are_no_text_are_left_out() {
    let tree = Tree::of(&["a/b/file.txt"]);
    std::os::unix::fs::symlink(tree.root(), tree.root().join("a/b/up")).unwrap();
    let bad = tree.root().join(std::ffi::OsStr::from_bytes(b"bad\xff.txt"));
    if fs::write(&bad, "").is_err() {
        // Some file systems refuse such names.
        assert!(!bad.exists());
    }
    let files = tree.find("txt").await;
    assert_eq!(files.hits.len(), 1, "{files:?}");
    assert_eq!(files.hits[0].path, "a/b/file.txt");
    assert!(tree.find("up").await.hits[0].directory);
}

#[tokio::test]
async fn roots_that_are_not_there_hold_nothing() {
    let tree = Tree::of(&["file.txt"]);
    let query =
        FileQuery { roots: vec![tree.root().join("none"), tree.root().to_owned()], ..tree.query("file") };
    let files = tree.finder.find(query, &tree.tasks).await;
    assert_eq!(files.hits.len(), 1);
    assert_eq!(files.hits[0].root, 1);
}

#[tokio::test]
async fn many_files_are_found_within_the_bounds() {
    let tree = Tree::of(&[]);
    for folder in 0..100 {
        let folder = tree.root().join(format!("folder{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..1000 {
            fs::write(folder.join(format!("file{file}.txt")), "").unwrap();
        }
    }
    let files = tree.find("folder99file999").await;
    // On a slow disk it may be a part.
    assert!(files.hits.len() <= MAX_HITS);
    if files.complete {
        assert_eq!(files.hits[0].path, "folder99/file999.txt");
    }
    assert_eq!(tree.finder.walks.lock().len(), 1);
}

#[tokio::test]
async fn a_listing_is_used_again_and_forgotten() {
    let tree = Tree::of(&["one.txt"]);
    assert_eq!(tree.paths("txt").await, ["one.txt"]);
    fs::write(tree.root().join("two.txt"), "").unwrap();
    assert_eq!(tree.paths("txt").await, ["one.txt"], "while one types");
    tree.grows_old();
    assert_eq!(tree.paths("txt").await, ["one.txt", "two.txt"]);
    tree.grows_old();
    assert!(!tree.finder.prune());
}

#[tokio::test]
async fn a_cancelled_search_finds_nothing_and_stops_its_walk() {
    let tree = Tree::of(&["one.txt"]);
    // Nobody works, so the walk cannot end before it is cancelled.
    let workers = tree.finder.workers.clone().acquire_many_owned(2).await.unwrap();
    let query = tree.query("one");
    let cancelled = query.cancelled.clone();
    let (files, ()) = tokio::join!(tree.finder.find(query, &tree.tasks), async { cancelled.cancel() });
    assert_eq!(files, Files::default());
    assert!(!tree.finder.prune(), "the walk is stopping");

    // The same for one that is dropped; another one that waits for the same walk is not hurt.
    let mut dropped = Box::pin(tree.finder.find(tree.query("one"), &tree.tasks));
    let mut other = Box::pin(tree.finder.find(tree.query("one"), &tree.tasks));
    assert!(futures_util::poll!(&mut dropped).is_pending());
    assert!(futures_util::poll!(&mut other).is_pending());
    assert_eq!(tree.finder.walks.lock().len(), 1);
    drop(dropped);
    assert!(tree.finder.prune());
    drop(workers);
    assert_eq!(other.await.hits.len(), 1);
}
