//! The program under test: its home, a working folder with a git repository, its process, and the doors to it.

use std::array;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use signalbox_home::{Held, Holder, Home};
use tempfile::TempDir;

use crate::PATIENCE;
use crate::client::Client;
use crate::process::{Process, is_alive};
use crate::wire::{Framing, Wire};

/// How the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Stdio(Framing),
    Unix,
    WebSocket,
    Http,
    Tcp,
    Bridge,
}

/// The real binary in a home of its own. Dropped, it is killed, and its folders go.
#[derive(Debug)]
pub struct App {
    binary: PathBuf,
    door: Door,
    root: TempDir,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    process: Option<Process>,
    bridges: Vec<Process>,
    clients: usize,
}

impl App {
    /// Sets up home and working folder; give `env!("CARGO_BIN_EXE_signalbox")`. The server is started by the first
    /// client, or by [`App::start`].
    #[must_use]
    pub fn new(binary: &str) -> Self {
        let root = tempfile::Builder::new().prefix("signalbox-test-").tempdir().unwrap();
        for folder in ["home", "work"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let mut app = Self {
            binary: binary.into(),
            door: Door::Stdio(Framing::Lines),
            root,
            arguments: Vec::new(),
            env: Vec::new(),
            process: None,
            bridges: Vec::new(),
            clients: 0,
        };
        app.make_repository();
        app
    }

    /// Listen on stdio: one client.
    #[must_use]
    pub fn over_stdio(mut self) -> Self {
        self.door = Door::Stdio(Framing::Lines);
        self
    }

    /// Listen on stdio, with `Content-Length` headers before frames: one client.
    #[must_use]
    pub fn over_content_length(mut self) -> Self {
        self.door = Door::Stdio(Framing::ContentLength);
        self
    }

    /// Listen on a unix socket, on which clients open WebSockets.
    #[must_use]
    pub fn over_websocket(mut self) -> Self {
        self.door = Door::WebSocket;
        self
    }

    /// Listen on a unix socket, to which clients post; one of them may start threads, the first of which it follows.
    #[must_use]
    pub fn over_http(mut self) -> Self {
        self.door = Door::Http;
        self
    }

    /// Listen on a port of this machine that the system chooses, for clients of other makes.
    #[must_use]
    pub fn over_tcp(mut self) -> Self {
        self.door = Door::Tcp;
        self
    }

    /// Listen on a unix socket: as many clients as one likes.
    #[must_use]
    pub fn over_unix(mut self) -> Self {
        self.door = Door::Unix;
        self
    }

    /// Each client comes over a bridge of its own, and the home's server is a process that the first of them starts.
    #[must_use]
    pub fn over_bridges(mut self) -> Self {
        self.door = Door::Bridge;
        self
    }

    /// Writes the home's `config.toml`.
    #[must_use]
    pub fn config(self, toml: &str) -> Self {
        std::fs::write(self.home().join("config.toml"), toml).unwrap();
        self
    }

    /// Gives the program another argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The same for an app that has a name already.
    pub(crate) fn add_argument(&mut self, argument: &str) {
        self.arguments.push(argument.to_owned());
    }

    /// Sets a variable in the program's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A configuration with the rehearsal agent as a provider of each name, started badly or well with its own
    /// environment: `(name, SIGNALBOX_REHEARSAL_START)`.
    #[must_use]
    pub fn bad_agents(self, agents: &[(&str, &str)]) -> Self {
        let agents: Vec<_> =
            agents.iter().map(|(name, start)| ((*name).to_owned(), (*start).to_owned())).collect();
        self.write_agents(&agents);
        self
    }

    /// Writes that configuration; an agent that starts `well` has nothing in its environment.
    pub(crate) fn write_agents(&self, agents: &[(String, String)]) {
        let binary = self.binary.display().to_string();
        let toml: String = agents
            .iter()
            .map(|(name, start)| {
                let env = match start.as_str() {
                    "well" => String::new(),
                    start => format!("SIGNALBOX_REHEARSAL_START = {start:?}"),
                };
                format!(
                    "[providers.{name}]\ncommand = {binary:?}\nargs = [\"rehearsal\"]\nenv = {{ {env} }}\n"
                )
            })
            .collect();
        std::fs::write(self.home().join("config.toml"), toml).unwrap();
    }

    /// The server's home.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The folder in which agents work; a git repository with one commit.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Text of a file in the working folder.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.work().join(name)).ok()
    }

    /// Waits until a file in the working folder holds a whole line, and gives the line.
    ///
    /// # Panics
    /// If it does not come.
    #[must_use]
    pub fn line_of(&self, name: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((line, _)) = self.file(name).as_deref().and_then(|text| text.split_once('\n')) {
                return line.to_owned();
            }
            assert!(Instant::now() < deadline, "{name} is not written");
            // Nobody tells when a file is written.
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// The socket on which the server listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.path().join("test.sock")
    }

    /// Host and port on which the server listens, once it does.
    ///
    /// # Panics
    /// If it does not, or not on a port.
    pub fn address(&mut self) -> String {
        self.start();
        let line = self.process().says("listening on ws://");
        let (_, rest) = line.split_once("ws://").expect("an address");
        rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect()
    }

    /// The server's process.
    ///
    /// # Panics
    /// If it was not started.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the server was started")
    }

    /// Starts the server, if it does not run. Behind bridges it is the first of them that does.
    pub fn start(&mut self) {
        let listen = match self.door {
            Door::Stdio(_) => "stdio://".to_owned(),
            Door::Tcp => "ws://127.0.0.1:0".to_owned(),
            Door::Unix | Door::WebSocket | Door::Http => format!("unix://{}", self.socket().display()),
            Door::Bridge => return,
        };
        if self.process.is_none() {
            self.process = Some(self.runs_with(&["app-server", "--standalone", "--listen", &listen]));
        }
    }

    /// The program with these arguments and the app's own, in the working folder.
    fn runs_with(&self, arguments: &[&str]) -> Process {
        let mut arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        arguments.extend(self.arguments.iter().cloned());
        let mut env = vec![
            ("HOME".to_owned(), self.root.path().display().to_string()),
            ("SIGNALBOX_HOME".to_owned(), self.home().display().to_string()),
        ];
        env.extend(self.env.iter().cloned());
        Process::start(&self.binary, &arguments, &self.work(), &env)
    }

    /// The process of the server behind the bridges, if one runs.
    #[must_use]
    pub fn server(&self) -> Option<i32> {
        match Holder::current(&self.located()?) {
            Held::By(holder) => i32::try_from(holder.pid).ok(),
            Held::Unknown | Held::Free => None,
        }
    }

    /// `kill -9` for the server behind the bridges; waits until it is gone.
    ///
    /// # Panics
    /// If none runs, or it does not go.
    pub fn kills_server(&self) -> i32 {
        let server = self.server().expect("a server runs");
        send(server, Signal::KILL);
        is_gone(server);
        server
    }

    /// The bridge of the client that came as this one, counted from 0.
    pub fn bridge(&mut self, at: usize) -> &mut Process {
        &mut self.bridges[at]
    }

    fn located(&self) -> Option<Home> {
        let env = |name: &str| (name == "TMPDIR").then(|| std::env::temp_dir().into_os_string());
        Home::locate(Some(self.home()), &env).ok()
    }

    /// Another client, its handshake done.
    pub fn client(&mut self) -> Client {
        let mut client = self.stranger();
        let name = format!("client{}", self.clients);
        client.initializes_with(&name, json!({}));
        client
    }

    /// Several clients, their handshakes done.
    pub fn clients<const N: usize>(&mut self) -> [Client; N] {
        array::from_fn(|_| self.client())
    }

    /// A client that has said nothing yet.
    ///
    /// # Panics
    /// If the server cannot be reached, or is asked for a second client on stdio.
    pub fn stranger(&mut self) -> Client {
        self.start();
        self.clients += 1;
        let name = format!("client{}", self.clients);
        if self.door == Door::Bridge {
            let mut bridge = self.runs_with(&["app-server"]);
            let (stdin, stdout) = bridge.take_pipes().expect("nobody has taken them");
            let stderr = bridge.stderr().clone();
            self.bridges.push(bridge);
            let mut client = Client::new(&name, Wire::new(Framing::Lines, stdout, stdin), stderr);
            client.is_bridged();
            return client;
        }
        let door = self.door;
        let socket = self.socket();
        let process = self.process();
        let stderr = process.stderr().clone();
        let wire = match door {
            Door::Stdio(framing) => {
                let (stdin, stdout) = process.take_pipes().expect("on stdio there is one client");
                Wire::new(framing, stdout, stdin)
            }
            Door::Unix | Door::Bridge => Wire::over_socket(connect(&socket, process)).unwrap(),
            Door::Tcp => panic!("on a port the clients are others'"),
            Door::Http => {
                drop(connect(&socket, process));
                Wire::over_http(&socket)
            }
            Door::WebSocket => Wire::over_websocket(connect(&socket, process)).unwrap(),
        };
        Client::new(&name, wire, stderr)
    }

    /// `kill -9`, and waits until the server is gone.
    pub fn kill(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// Starts the server again on the same home.
    pub fn restart(&mut self) {
        self.process = None;
        // A killed server leaves its socket behind, and a new one takes it over.
        self.start();
    }

    /// Waits until the server has ended by itself.
    pub fn ends(&mut self) -> ExitStatus {
        let status = self.process().ends();
        self.process = None;
        status
    }

    /// A repository with one commit that is the same in every run.
    #[allow(clippy::disallowed_methods, reason = "sets up what agents work on")]
    fn make_repository(&mut self) {
        let work = self.work();
        std::fs::write(work.join("README.md"), "# A small project\n").unwrap();
        let date = "2020-01-01T00:00:00Z";
        for arguments in [
            &["init", "-q", "-b", "main"][..],
            &["add", "README.md"],
            &["commit", "-q", "-m", "The first commit"],
        ] {
            let done = Command::new("git")
                .args(arguments)
                .current_dir(&work)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@example.org")])
                .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "ada@example.org")])
                .envs([("GIT_AUTHOR_DATE", date), ("GIT_COMMITTER_DATE", date)])
                .output()
                .unwrap();
            assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }

    /// Runs the binary to its end with these arguments, on this home.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "runs the program under test")]
    pub fn runs(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(&self.binary)
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path())
            .env("SIGNALBOX_HOME", self.home())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }
}

/// A server behind bridges is nobody's child: nothing of it may outlive the test, also if that fails.
impl Drop for App {
    fn drop(&mut self) {
        self.bridges.clear();
        if let Some(server) = self.server() {
            send(server, Signal::KILL);
        }
    }
}

/// Sends a signal to a process, which may be gone.
pub fn send(process: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process) {
        // It may end by itself at this very moment.
        let _ = kill_process(pid, signal);
    }
}

/// Waits until a process is gone that is no child of ours.
///
/// # Panics
/// If it does not go.
pub fn is_gone(process: i32) {
    let deadline = Instant::now() + PATIENCE;
    while is_alive(process) {
        assert!(Instant::now() < deadline, "process {process} does not end");
        // Nobody tells when the child of another ends.
        thread::park_timeout(Duration::from_millis(2));
    }
}

/// Connects as soon as the server listens.
fn connect(socket: &Path, process: &mut Process) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                let tail = process.stderr().clone();
                assert!(process.runs(), "the server ended before it listened\n{}", tail.tail());
                assert!(Instant::now() < deadline, "the server does not listen: {error}\n{}", tail.tail());
                // Nobody tells when a socket appears.
                thread::park_timeout(Duration::from_millis(2));
            }
            Err(error) => panic!("{}: {error}", socket.display()),
        }
    }
}
