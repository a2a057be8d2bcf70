//! A running server: started with an environment of its own, killed, terminated, looked at.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::PATIENCE;

/// Lines of stderr that are kept for the message of a failure.
const TAIL_LINES: usize = 60;

/// What is kept of stderr.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
    ended: bool,
}

/// What the server wrote to stderr last; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stderr(Arc<(Mutex<Tail>, Condvar)>);

impl Stderr {
    pub(crate) fn tail(&self) -> String {
        let tail = self.0.0.lock().unwrap();
        if tail.lines.is_empty() {
            return "(nothing on stderr)".to_owned();
        }
        let lines: Vec<&str> = tail.lines.iter().map(String::as_str).collect();
        format!("stderr ends so:\n  {}", lines.join("\n  "))
    }

    fn keep(&self, line: &[u8]) {
        let mut tail = self.0.0.lock().unwrap();
        if tail.lines.len() == TAIL_LINES {
            tail.lines.pop_front();
        }
        tail.lines.push_back(String::from_utf8_lossy(line).into_owned());
        self.0.1.notify_all();
    }

    fn end(&self) {
        self.0.0.lock().unwrap().ended = true;
        self.0.1.notify_all();
    }

    fn says(&self, text: &str) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut tail = self.0.0.lock().unwrap();
        loop {
            if let Some(line) = tail.lines.iter().find(|line| line.contains(text)) {
                return Some(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if tail.ended || left.is_zero() {
                return None;
            }
            tail = self.0.1.wait_timeout(tail, left).unwrap().0;
        }
    }
}

/// The server's process. Dropped while it runs, it is killed.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    exited: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
    stderr: Stderr,
    pipes: Option<(ChildStdin, ChildStdout)>,
}

impl Process {
    /// Starts `binary` in `work`, with nothing in its environment but what is given and a `PATH`.
    #[allow(clippy::disallowed_methods, reason = "starts the program under test, with a cleared environment")]
    pub(crate) fn start(binary: &Path, arguments: &[String], work: &Path, env: &[(String, String)]) -> Self {
        let mut command = Command::new(binary);
        command.args(arguments).current_dir(work).env_clear();
        for name in ["PATH", "RUST_LOG", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("{} does not start: {error}", binary.display()),
        };
        let pid = Pid::from_child(&child);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let stderr = keep_stderr(&mut child);
        let (tell, exited) = sync_channel(1);
        thread::spawn(move || {
            if let Ok(status) = child.wait() {
                // Nobody listens any more when the test has ended.
                let _ = tell.send(status);
            }
        });
        Self { pid, exited, status: None, stderr, pipes }
    }

    /// stdin and stdout, once.
    pub(crate) fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.pipes.take()
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ends();
    }

    /// SIGTERM.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// If it does not come.
    pub fn ends(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        match self.exited.recv_timeout(PATIENCE) {
            Ok(status) => {
                self.status = Some(status);
                status
            }
            Err(_) => panic!("the server does not end\n{}", self.stderr.tail()),
        }
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.exited.try_recv().ok();
        }
        self.status.is_none()
    }

    fn signal(&mut self, signal: Signal) {
        if self.runs() {
            // It may end by itself at this very moment.
            let _ = kill_process(self.pid, signal);
        }
    }

    pub(crate) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// Waits until a line on stderr contains `text`, and gives the line.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn says(&self, text: &str) -> String {
        match self.stderr.says(text) {
            Some(line) => line,
            None => panic!("{text:?} is not said on stderr\n{}", self.stderr.tail()),
        }
    }

    /// Physical memory the process holds now, in bytes.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.status_line("VmRSS:")
    }

    /// The most physical memory it has held, in bytes.
    #[must_use]
    pub fn peak_rss_bytes(&self) -> u64 {
        self.status_line("VmHWM:")
    }

    fn status_line(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.id());
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        kib * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if self.status.is_none() {
            // Nothing of it may outlive the test; that it cannot be awaited is no failure of the test.
            let _: Result<ExitStatus, RecvTimeoutError> = self.exited.recv_timeout(PATIENCE);
        }
    }
}

fn keep_stderr(child: &mut Child) -> Stderr {
    let kept = Stderr::default();
    if let Some(stderr) = child.stderr.take() {
        let kept = kept.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n') {
                let Ok(line) = line else { break };
                kept.keep(&line);
            }
            kept.end();
        });
    }
    kept
}

/// Whether there is a process of this id that has not ended (a zombie has).
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    if test_kill_process(pid).is_err() {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The state follows the name, which stands in parentheses and may hold any character.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Whether there is a process of this process group that has not ended.
#[must_use]
pub fn is_group_alive(group: i32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // Behind the name come the state, the parent and the group.
        let Some((_, rest)) = stat.rsplit_once(')') else { return false };
        let mut fields = rest.split_ascii_whitespace();
        !matches!(fields.next(), None | Some("Z" | "X"))
            && fields.nth(1).is_some_and(|id| id == group.to_string())
    })
}

/// What the descriptors of a process lead to, in order.
#[must_use]
pub fn open_files(pid: i32) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let mut names: Vec<String> = links.map(|link| link.display().to_string()).collect();
    names.sort();
    names
}

/// Ids of the processes that have not ended and whose parent is this one.
#[must_use]
pub fn children_of(parent: i32) -> Vec<i32> {
    all_processes()
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
            fields.split_ascii_whitespace().nth(1) == Some(&parent.to_string()) && is_alive(*pid)
        })
        .collect()
}

/// Ids of the processes that have not ended and have this text in their environment or on their command line.
#[must_use]
pub fn processes_with(text: &str) -> Vec<i32> {
    let holds = |path: String| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    all_processes()
        .filter(|pid| holds(format!("/proc/{pid}/environ")) || holds(format!("/proc/{pid}/cmdline")))
        .filter(|pid| is_alive(*pid))
        .collect()
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
