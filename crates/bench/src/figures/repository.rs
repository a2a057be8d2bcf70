//! Sessions and turns in a repository of 10,000 files: checkouts, the record of the workspace before a turn, and how soon
//! a turn is there.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Figure;
use super::streaming::now_micros;
use crate::child::{Lines, Result};
use crate::stats::{percentile, time};

const FOLDERS: usize = 100;
const FILES_A_FOLDER: usize = 100;
const SESSIONS: usize = 50;
const WORKTREES: usize = 7;
const TURNS: usize = 15;

/// `thread/start` without and with a worktree.
pub(crate) fn sessions(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let place = tempfile::tempdir()?;
    let repo = repository(place.path())?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    server.thread(&repo)?;
    let mut plain = Vec::new();
    for _ in 0..SESSIONS {
        let begun = Instant::now();
        server.thread(&repo)?;
        plain.push(begun.elapsed());
    }
    let (mut checkouts, mut copies, mut gits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WORKTREES {
        let begun = Instant::now();
        let started = server.call(
            "thread/start",
            json!({"cwd": repo, "modelProvider": "rehearsal", "worktree": {"base": "current"}}),
        )?;
        checkouts.push(begun.elapsed());
        let made = started["cwd"].as_str().ok_or("no checkout")?;
        if files_in(Path::new(made))? < FOLDERS * FILES_A_FOLDER {
            return Err(format!("{made} lacks files").into());
        }
        let thread = started["thread"]["id"].as_str().ok_or("no thread id")?.to_owned();
        server.call("thread/worktree/discard", json!({"threadId": thread}))?;

        let copy = place.path().join(format!("copy-{round}"));
        let begun = Instant::now();
        copy_tree(&repo, &copy)?;
        copies.push(begun.elapsed());
        fs::remove_dir_all(&copy)?;

        let path = copy.display().to_string();
        let begun = Instant::now();
        git(&repo, &["worktree", "add", "-q", "--detach", &path])?;
        gits.push(begun.elapsed());
        git(&repo, &["worktree", "remove", "--force", &path])?;
    }
    server.end()?;
    let mut flushes = flushes(home.path())?;
    Ok(vec![
        Figure {
            name: "thread/start in 10,000 files, p50 / p99",
            measured: both(&mut plain),
            goal: "-",
            reference: format!("flush of the disk {}", both(&mut flushes)),
        },
        Figure {
            name: "thread/start with a worktree of 10,000 files",
            measured: time(percentile(&mut checkouts, 0.5)),
            goal: "-",
            reference: format!(
                "copy of the files {}, git worktree add {}",
                time(percentile(&mut copies, 0.5)),
                time(percentile(&mut gits, 0.5))
            ),
        },
    ])
}

/// What the record of the workspace adds before the agent is prompted; seen by the agent's own clock.
pub(crate) fn snapshot(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let place = tempfile::tempdir()?;
    let repo = repository(place.path())?;
    let empty = place.path().join("empty");
    fs::create_dir(&empty)?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let mut figures = Vec::new();
    let clean = Prompts::measure(&mut server, &repo)?;
    // As in the middle of work: some files are changed, some not known to git.
    for folder in 0..FOLDERS {
        fs::write(repo.join(format!("folder{folder:03}/file000.txt")), "changed\n".repeat(folder + 1))?;
        fs::write(repo.join(format!("folder{folder:03}/new.txt")), "new\n".repeat(folder + 1))?;
    }
    let dirty = Prompts::measure(&mut server, &repo)?;
    let without = Prompts::measure(&mut server, &empty)?;
    let mut walks = Vec::new();
    for _ in 0..TURNS {
        let begun = Instant::now();
        files_in(&repo)?;
        walks.push(begun.elapsed());
    }
    server.end()?;
    let walk = time(percentile(&mut walks, 0.5));
    let mut without = without;
    for (name, mut prompts) in [
        ("prompt in 10,000 clean files, first / next turn", clean),
        ("prompt in 10,000 files, 200 dirty, first / next", dirty),
    ] {
        figures.push(Figure {
            name,
            measured: prompts.text(),
            goal: "≤ 150 ms for the record",
            reference: format!("in no repository {}, walk with stat {walk}", without.text()),
        });
    }
    Ok(figures)
}

/// How long a prompt takes from the client to the agent.
struct Prompts {
    /// Of threads whose agent must be started first.
    first: Vec<Duration>,
    /// Of threads whose agent is ready.
    next: Vec<Duration>,
}

impl Prompts {
    fn measure(server: &mut Lines, cwd: &Path) -> Result<Self> {
        let (mut first, mut next) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let thread = server.thread(cwd)?;
            first.push(prompted(server, &thread)?);
            next.push(prompted(server, &thread)?);
        }
        Ok(Self { first, next })
    }

    fn text(&mut self) -> String {
        format!("{} / {}", time(percentile(&mut self.first, 0.5)), time(percentile(&mut self.next, 0.5)))
    }
}

/// From the client's writing of the prompt to the first thing that the agent does with it.
fn prompted(server: &mut Lines, thread: &str) -> Result<Duration> {
    let begun = now_micros();
    server.start_turn(thread, "stamp 1 0")?;
    let mut stamp = None;
    loop {
        let line = server.raw()?;
        if line.contains("\"item/agentMessage/delta\"") {
            let frame: Value = serde_json::from_str(line)?;
            let delta = frame["params"]["delta"].as_str().unwrap_or_default();
            stamp = stamp.or(delta.split_whitespace().find_map(|word| word.parse::<u64>().ok()));
        } else if line.contains("\"turn/completed\"") {
            let stamp = stamp.ok_or("the agent has not told the time")?;
            return Ok(Duration::from_micros(stamp.saturating_sub(begun)));
        }
    }
}

/// From a thread's first prompt to `turn/started`.
pub(crate) fn first_prompt(bin: &Path) -> Result<Vec<Figure>> {
    let home = tempfile::tempdir()?;
    let place = tempfile::tempdir()?;
    let repo = repository(place.path())?;
    let mut server = Lines::server(bin, home.path())?;
    server.initialize()?;
    let mut times = Vec::new();
    for _ in 0..SESSIONS {
        let thread = server.thread(&repo)?;
        let input = json!([{"type": "text", "text": "say Hello."}]);
        let begun = Instant::now();
        let frame = json!({"jsonrpc": "2.0", "id": "first", "method": "turn/start",
            "params": {"threadId": thread, "input": input}});
        server.send(&frame)?;
        while !server.raw()?.contains("\"turn/started\"") {}
        times.push(begun.elapsed());
        while !server.raw()?.contains("\"turn/completed\"") {}
    }
    server.end()?;
    let mut flushes = flushes(home.path())?;
    Ok(vec![Figure {
        name: "first prompt to turn/started, p50 / p99",
        measured: both(&mut times),
        goal: "≤ 5 ms and a flush",
        reference: format!("flush of the disk {}", both(&mut flushes)),
    }])
}

fn both(times: &mut [Duration]) -> String {
    format!("{} / {}", time(percentile(times, 0.5)), time(percentile(times, 0.99)))
}

/// What the disk takes to confirm a few kilobytes at the end of a file.
fn flushes(folder: &Path) -> Result<Vec<Duration>> {
    let mut file = File::create(folder.join("flush"))?;
    let mut times = Vec::new();
    for _ in 0..SESSIONS {
        file.write_all(&[1; 8192])?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// A repository with 10,000 committed files of different lengths, a few kilobytes on average.
fn repository(place: &Path) -> Result<PathBuf> {
    let repo = place.join("repo");
    for folder in 0..FOLDERS {
        let dir = repo.join(format!("folder{folder:03}"));
        fs::create_dir_all(&dir)?;
        for file in 0..FILES_A_FOLDER {
            let line = format!("{folder} {file} the quick brown fox jumps over the lazy dog\n");
            fs::write(
                dir.join(format!("file{file:03}.txt")),
                line.repeat(1 + (folder * 7 + file * 13) % 90),
            )?;
        }
    }
    git(&repo, &["init", "-q", "-b", "main"])?;
    git(&repo, &["add", "."])?;
    let author = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"];
    git(&repo, &[&author[..], &["commit", "-q", "-m", "10,000 files"]].concat())?;
    Ok(repo)
}

fn git(dir: &Path, args: &[&str]) -> Result<()> {
    let status = Command::new("git")
        .current_dir(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("git {args:?} failed").into()) }
}

/// Looks at every file, without what git keeps for itself; gives their number.
fn files_in(dir: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.metadata()?.is_dir() {
            count += files_in(&entry.path())?;
        } else {
            count += 1;
        }
    }
    Ok(count)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
