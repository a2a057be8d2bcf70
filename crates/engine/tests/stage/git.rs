//! Repositories for the tests of worktrees and diffs, made and looked at with the git of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use signalbox_engine::{Accepted, OpError, Origin};
use signalbox_facts::{SessionId, SessionRow};
use signalbox_protocol::ops::{NewSession, Op, Provider};

use super::{Stage, Watched};

/// Runs git as nobody in particular; gives what it prints. Panics if it fails.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = command(dir, args).output().expect("git runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?} in {}: {error}", dir.display());
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Whether git succeeds at it.
pub fn succeeds(dir: &Path, args: &[&str]) -> bool {
    command(dir, args).output().expect("git runs").status.success()
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(args).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs([
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]);
    command.envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")]);
    command.envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.org")]);
    command
}

/// A repository without commits in this directory.
pub fn init(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q", "-b", "main", "."]);
}

/// A repository with one commit of a few files.
pub fn repository(dir: &Path) {
    init(dir);
    write(dir, "README.md", "# Hello\n");
    write(dir, "src/main.rs", "fn main() {\n    println!(\"hello\");\n}\n");
    write(dir, "packages/app/index.js", "export {};\n");
    commit(dir, "first");
}

/// Writes a file, with the folders it needs.
pub fn write(dir: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Commits everything; the new sha.
pub fn commit(dir: &Path, message: &str) -> String {
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", message]);
    head(dir)
}

/// The sha of HEAD.
pub fn head(dir: &Path) -> String {
    git(dir, &["rev-parse", "HEAD"])
}

/// Branches and worktrees as git knows them: equal before and after whatever changes nothing.
pub fn registry(dir: &Path) -> String {
    format!("{}\n{}", git(dir, &["branch", "--list"]), git(dir, &["worktree", "list", "--porcelain"]))
}

/// What lies beside a repository, by name.
pub fn beside(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        fs::read_dir(dir.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

// ---- sessions in worktrees ----

/// What is asked for a session in a worktree of this directory's repository.
pub fn wish(selected: &Path) -> NewSession {
    let provider = Provider::from_name("rehearsal");
    NewSession { use_worktree: true, ..NewSession::new(provider, selected.to_str().unwrap()) }
}

/// Submits it.
pub async fn create(stage: &Stage, new: NewSession) -> Result<SessionId, OpError> {
    match stage.engine.submit(Op::NewSession(new), Origin::default()).await? {
        Accepted::Created { session } => Ok(session),
        other => panic!("{other:?}"),
    }
}

/// A stage with a repository in its working folder.
pub async fn with_repository() -> (Stage, PathBuf) {
    let stage = Stage::new().await;
    let repo = stage.work().canonicalize().unwrap();
    repository(&repo);
    (stage, repo)
}

/// The session as it is stored.
pub async fn row(stage: &Stage, id: SessionId) -> SessionRow {
    stage.store.reader.session(id).await.unwrap().unwrap()
}

/// A session in a worktree, watched, and its checkout.
pub async fn session(stage: &Stage, repo: &Path) -> (Watched, PathBuf) {
    let id = create(stage, wish(repo)).await.unwrap();
    let session = stage.watch(id).await;
    let checkout = row(stage, id).await.worktree.unwrap().path;
    (session, checkout)
}

/// The end of its id, which gives checkout and branch their names.
pub fn short(id: SessionId) -> String {
    id.0.simple().to_string()[20..].to_owned()
}

/// Why there is no worktree.
pub fn cause(error: &OpError) -> String {
    error.data()["cause"].as_str().unwrap().to_owned()
}
