//! A repository in a temporary directory, and short words for what people do in one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use signalbox_facts::{SessionId, TurnDiff};
use signalbox_workspace::{
    BaselineKind, CreateRequest, Created, Limits, Snapshot, StatCache, WorktreeError, create,
};
use tempfile::TempDir;

/// A temporary directory with a place for a repository in it.
pub(crate) struct Place {
    /// Keeps the directory; `None` for a place inside another one.
    dir: Option<TempDir>,
    /// The repository's root.
    pub(crate) root: PathBuf,
    /// What surrounds it: home, store, checkouts.
    pub(crate) around: PathBuf,
}

pub(crate) fn far() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

/// Runs git as nobody in particular; panics if it fails.
pub(crate) fn git_in(dir: &Path, args: &[&str]) -> String {
    let output = try_git_in(dir, args);
    assert!(
        output.status.success(),
        "git {args:?} in {}: {}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub(crate) fn try_git_in(dir: &Path, args: &[&str]) -> Output {
    git_command(dir, args).stdin(Stdio::null()).output().expect("git runs")
}

fn git_command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(args).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_ALLOW_PROTOCOL", "file"),
    ] {
        command.env(name, value);
    }
    command
}

impl Place {
    /// A directory that is no repository.
    pub(crate) fn plain() -> Self {
        let dir = TempDir::new().expect("temporary directory");
        let around = dir.path().canonicalize().expect("canonical");
        let root = around.join("repo");
        fs::create_dir(&root).expect("root");
        Self { dir: Some(dir), root, around }
    }

    /// A repository without commits.
    pub(crate) fn empty() -> Self {
        let place = Self::plain();
        place.git(&["init", "-q", "-b", "main", "."]);
        place
    }

    /// A repository with one commit of a few files.
    pub(crate) fn repository() -> Self {
        let place = Self::empty();
        place.write("README.md", "# Hello\n\nWorld\n");
        place.write("src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
        place.write("packages/app/index.js", "export {};\n");
        place.write(".gitignore", "target/\n*.log\n");
        place.commit("first");
        place
    }

    /// A repository in a sub-directory of this place's surroundings.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        let root = self.around.join(name);
        fs::create_dir_all(&root).expect("sibling");
        git_in(&root, &["init", "-q", "-b", "main", "."]);
        Self { dir: None, root, around: self.around.clone() }
    }

    /// The same surroundings with another root.
    pub(crate) fn at(&self, root: &Path) -> Self {
        Self { dir: None, root: root.to_owned(), around: self.around.clone() }
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.dir.is_some()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git_in(&self.root, args)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("parent");
        }
        fs::write(path, text).expect("write");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("read")
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).expect("remove");
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        let to = self.path(to);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).expect("parent");
        }
        fs::rename(self.path(from), to).expect("rename");
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).expect("chmod");
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        symlink(target, self.path(path)).expect("symlink");
    }

    /// Commits everything; the new sha.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Goes on when the clock of the file system is past whatever was written so far, so that the index, renewed,
    /// vouches for all files. Until then files are looked into to be sure.
    pub(crate) fn settle(&self) {
        let probe = self.around.join("probe");
        let written = || {
            fs::write(&probe, "x").expect("probe");
            fs::metadata(&probe).and_then(|metadata| metadata.modified()).expect("time")
        };
        let begin = written();
        while written().duration_since(begin).is_ok_and(|passed| passed < Duration::from_millis(60)) {
            std::thread::yield_now();
        }
        self.git(&["update-index", "--refresh", "-q", "--force-write-index"]);
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.around.join("store")
    }

    /// The workspace before a turn.
    pub(crate) fn before(&self) -> Turn {
        Turn::begin(self, std::slice::from_ref(&self.root), Limits::default())
    }

    /// A worktree made from here.
    pub(crate) fn worktree(&self, base: BaselineKind) -> Result<Created, WorktreeError> {
        self.worktree_for(SessionId::generate(), base, None)
    }

    pub(crate) fn worktree_for(
        &self,
        session: SessionId,
        base: BaselineKind,
        pin: Option<&str>,
    ) -> Result<Created, WorktreeError> {
        create(&CreateRequest {
            selected: &self.root,
            session,
            base,
            pin,
            fallback: &self.around.join("home/worktrees"),
        })
    }

    /// Branches and worktrees as git knows them: equal before and after whatever changes nothing.
    pub(crate) fn registry(&self) -> String {
        format!("{}\n{}", self.git(&["branch", "--list"]), self.git(&["worktree", "list", "--porcelain"]))
    }
}

/// The last twelve hex digits of a session's id.
pub(crate) fn short(session: SessionId) -> String {
    let id = session.0.simple().to_string();
    id[20..].to_owned()
}

/// A turn: the workspace before it and the memory of hashes.
pub(crate) struct Turn {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) cache: StatCache,
}

impl Turn {
    pub(crate) fn begin(place: &Place, roots: &[PathBuf], limits: Limits) -> Self {
        let mut cache = StatCache::new();
        let snapshot = Snapshot::take(roots, &place.store(), limits, far(), &mut cache).expect("snapshot");
        Self { snapshot, cache }
    }

    /// The diff of the turn so far.
    pub(crate) fn diff(&mut self) -> TurnDiff {
        let snapshot = self.snapshot.as_ref().expect("a snapshot");
        snapshot.diff(far(), &mut self.cache)
    }

    /// The diff, which must be whole and exact.
    pub(crate) fn exact(&mut self) -> String {
        let diff = self.diff();
        assert!(!diff.partial && !diff.truncated, "partial {} truncated {}", diff.partial, diff.truncated);
        diff.diff
    }
}

/// Applies a diff with git in a copy of what was before; the diff must mean what happened.
pub(crate) fn apply(dir: &Path, diff: &str) {
    use std::io::Write;
    let mut child = git_command(dir, &["apply", "--whitespace=nowarn", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git runs");
    child.stdin.take().expect("stdin").write_all(diff.as_bytes()).expect("write");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success(), "{}\n{diff}", String::from_utf8_lossy(&output.stderr));
}

/// Copies a directory into an existing one.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("dir") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            fs::create_dir_all(&target).expect("dir");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
}
