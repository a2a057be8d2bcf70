//! A home with a server that comes and goes, commands on it, and connections to its socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signalbox_home::{Home, Starting};
use signalbox_testkit::is_alive;
use tempfile::TempDir;

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is looked at that nobody tells.
const LOOK: Duration = Duration::from_millis(5);

/// A home and a folder to work in. Dropped, no server is left.
pub(crate) struct House {
    root: TempDir,
    home: PathBuf,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with_home_of(0)
    }

    /// With a home whose path has at least so many bytes.
    pub(crate) fn with_home_of(bytes: usize) -> Self {
        let root = tempfile::Builder::new().prefix("signalbox-life-").tempdir().unwrap();
        let mut home = root.path().join("home");
        while home.as_os_str().len() < bytes {
            home = home.join("and-a-folder-in-it");
        }
        fs::create_dir(root.path().join("work")).unwrap();
        Self { root, home }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work").canonicalize().unwrap()
    }

    /// Writes `config.toml`.
    pub(crate) fn configures(&self, toml: &str) {
        self.located();
        fs::write(self.home.join("config.toml"), toml).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command.args(args).current_dir(self.work()).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.root.path());
        command.env("SIGNALBOX_HOME", &self.home).env("TMPDIR", self.root.path());
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn says(&self, args: &[&str]) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// The process that serves the home now.
    #[track_caller]
    pub(crate) fn server(&self) -> u32 {
        let lock = fs::read_to_string(self.home.join("lock")).unwrap();
        let pid = lock.lines().find_map(|line| line.strip_prefix("pid = "));
        pid.unwrap_or_else(|| panic!("no server: {lock:?}\n{}", self.log())).parse().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.join("logs/server.log")).unwrap_or_default()
    }

    pub(crate) fn signals(&self, pid: u32, signal: Signal) {
        kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    pub(crate) fn kill(&self, pid: u32) {
        self.signals(pid, Signal::KILL);
        self.ends(pid);
    }

    /// Waits until a process has ended.
    #[track_caller]
    pub(crate) fn ends(&self, pid: u32) {
        let deadline = Instant::now() + PATIENCE;
        while is_alive(pid.try_into().unwrap()) {
            assert!(Instant::now() < deadline, "process {pid} does not end\n{}", self.log());
            park_timeout(LOOK);
        }
    }

    /// Waits until a command has ended by itself, and gives what it printed.
    #[track_caller]
    pub(crate) fn finishes(&self, mut child: Child) -> Said {
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                child.kill().unwrap();
                panic!(
                    "it does not end: {:#?}\n{}",
                    Said::from(child.wait_with_output().unwrap()),
                    self.log()
                );
            }
            park_timeout(LOOK);
        }
        child.wait_with_output().unwrap().into()
    }

    /// Waits until somebody starts a server, and gives its process.
    #[track_caller]
    pub(crate) fn starting(&self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let home = self.located();
            if let Some(pid) = Starting::current(&home).and_then(|starting| starting.pid) {
                return pid;
            }
            assert!(Instant::now() < deadline, "nobody starts a server");
            park_timeout(LOOK / 5);
        }
    }

    /// The home, for holding what a server of it would.
    pub(crate) fn located(&self) -> Home {
        Home::locate(Some(self.home.clone()), &|_| None).unwrap()
    }

    /// Waits until a file has gone.
    #[track_caller]
    pub(crate) fn loses(&self, path: &Path) {
        let deadline = Instant::now() + PATIENCE;
        while path.exists() {
            assert!(Instant::now() < deadline, "{} stays\n{}", path.display(), self.log());
            park_timeout(LOOK);
        }
    }

    pub(crate) fn connect(&self) -> Line {
        Line::at(&self.home.join("signalbox.sock"))
    }

    /// Reads what a command prints until it contains this.
    pub(crate) fn waits_for_output(&self, child: &mut Child, text: &str) -> String {
        wait_for(child.stdout.as_mut().unwrap(), text)
    }

    /// The same for what it says on stderr.
    pub(crate) fn waits_for_complaint(&self, child: &mut Child, text: &str) -> String {
        wait_for(child.stderr.as_mut().unwrap(), text)
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminates(&self, child: &mut Child) {
        kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// No file of the home contains this.
    pub(crate) fn holds_nowhere(&self, text: &str) {
        let mut folders = vec![self.home.clone()];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    let bytes = fs::read(&path).unwrap();
                    let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
                    assert!(!found, "{} holds it", path.display());
                    looked_at += 1;
                }
            }
        }
        assert!(looked_at > 2, "only {looked_at} files were looked at");
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "--force"]).output();
    }
}

fn wait_for(from: &mut impl Read, text: &str) -> String {
    let mut seen = Vec::new();
    loop {
        let so_far = String::from_utf8_lossy(&seen).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
        let mut piece = [0; 512];
        let count = from.read(&mut piece).unwrap();
        assert_ne!(count, 0, "{text:?} does not come: {so_far}");
        seen.extend_from_slice(&piece[..count]);
    }
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> &Self {
        assert!(self.out.contains(text), "{text:?} is not in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn complains(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "{text:?} is not in {self:#?}");
        self
    }
}

/// A client on a unix socket that speaks lines.
pub(crate) struct Line {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    next_id: u64,
    turn: String,
}

impl Line {
    /// Connects without a greeting, as clients of other makers do, and shakes hands.
    pub(crate) fn at(socket: &Path) -> Self {
        let mut line = Self::on(UnixStream::connect(socket).unwrap());
        line.calls("initialize", json!({ "clientInfo": { "name": "line", "version": "1" } }));
        line.send(&json!({ "method": "initialized" }));
        line
    }

    /// Connects with a greeting; gives what the server said to it.
    pub(crate) fn greets(house: &House, greeting: &Value) -> (Self, Value) {
        let mut line = Self::on(UnixStream::connect(house.home().join("signalbox.sock")).unwrap());
        line.send(greeting);
        let welcome = line.reads().unwrap();
        (line, welcome["signalbox"].clone())
    }

    /// The same again and again, until the answer is as wanted: connections that have ended are noticed in their own time.
    pub(crate) fn greets_until(
        house: &House,
        greeting: &Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> (Self, Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (line, welcome) = Self::greets(house, greeting);
            if wanted(&welcome) {
                return (line, welcome);
            }
            assert!(Instant::now() < deadline, "{welcome}");
            park_timeout(LOOK);
        }
    }

    fn on(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Self { stream, lines, next_id: 0, turn: String::new() }
    }

    pub(crate) fn send(&mut self, frame: &Value) {
        self.stream.write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn reads(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls a method and gives its result.
    #[track_caller]
    pub(crate) fn calls(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(format!("c{}", self.next_id));
        self.send(&json!({ "id": id, "method": method, "params": params }));
        loop {
            let frame = self.reads().unwrap_or_else(|| panic!("no answer to {method}"));
            if frame["id"] == id && frame.get("method").is_none() {
                assert!(frame.get("result").is_some(), "{method}: {frame}");
                return frame["result"].clone();
            }
        }
    }

    /// Reads until this notification or request of the server.
    #[track_caller]
    pub(crate) fn until(&mut self, method: &str) -> Value {
        loop {
            let frame = self.reads().unwrap_or_else(|| panic!("{method} does not come"));
            if frame["method"] == method {
                return frame;
            }
        }
    }

    pub(crate) fn starts_thread(&mut self, cwd: &Path) -> String {
        self.calls("thread/start", json!({ "cwd": cwd }))["thread"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn starts_turn(&mut self, thread: &str, prompt: &str) {
        let input = json!([{ "type": "text", "text": prompt }]);
        let started = self.calls("turn/start", json!({ "threadId": thread, "input": input }));
        self.turn = started["turn"]["id"].as_str().unwrap().to_owned();
    }

    /// The turn that was started last.
    pub(crate) fn turn(&self) -> String {
        self.turn.clone()
    }

    /// Whether the server ends the connection.
    pub(crate) fn ends(&mut self) -> bool {
        while self.reads().is_some() {}
        true
    }
}
