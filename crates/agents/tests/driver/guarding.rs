//! The guard: what a server that was killed leaves behind is ended, and nothing else.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signalbox_agents::{FailureReason, Guard, LaunchSpec, Supervisor, guard};

use crate::rig::{Rig, limits, open, prompt, spec};
use crate::stopping::lives;

/// An argument that the test runner ignores, by which a process of this program knows that it is the guard.
const GUARDS: &str = "no-test-of-this-name-guards";
/// Says that a process of this program is a server, to be killed.
const SERVES: &str = "FAKE_SERVER";
/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers as an agent does, then has children: one of its group, one with a session of its own, one of its group with an
/// empty environment. None of them cares for signals or the end of input.
const STUBBORN: &str = r#"
trap '' TERM INT HUP
answer() { read line; id=${line##*'"id":'}; printf '{"id":%s,"result":%s}\n' "${id%%[!0-9]*}" "$1"; }
answer '{"protocolVersion":1}'
answer '{"sessionId":"s"}'
read line
sleep 1000 & one=$!
setsid sleep 1000 & two=$!
env -i sleep 1000 & three=$!
text="$$ $one $two $three"
printf '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$text"
answer=${line##*'"id":'}
printf '{"id":%s,"result":{"stopReason":"end_turn"}}\n' "${answer%%[!0-9]*}"
while :; do sleep 0.2; done
"#;

fn stubborn() -> LaunchSpec {
    LaunchSpec { command: "sh".into(), args: vec!["-c".into(), STUBBORN.into()], ..spec("") }
}

fn this_program(test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let arguments = [test, "--exact", "--nocapture"].map(str::to_owned);
    std::iter::once(program.to_str().unwrap().to_owned()).chain(arguments).collect()
}

fn guarded() -> Supervisor {
    let mut command = this_program("guarding::guards");
    command.extend(["--skip".to_owned(), GUARDS.to_owned()]);
    Supervisor::new(Guard::new(command))
}

/// Does nothing in a test run; in a process started as a guard it is one.
#[test]
fn guards() {
    if std::env::args().any(|argument| argument == GUARDS) {
        let code = guard::run();
        std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 });
    }
}

/// Does nothing in a test run; in a process started as a server it has two agents, says what they started, and waits.
#[test]
fn serves() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let supervisor = guarded();
        let mut rigs = Vec::new();
        for _ in 0..2 {
            let mut rig = Rig::under(supervisor.clone(), stubborn(), open(), limits());
            rig.agent().prompt(prompt("go")).unwrap();
            let (ids, _) = rig.turn().await;
            eprintln!("{ids}");
            rigs.push(rig);
        }
        eprintln!("{}", supervisor.guard().pid().unwrap());
        std::future::pending::<()>().await;
    });
}

struct Server {
    child: Child,
    /// What its agents have started.
    family: Vec<String>,
    guard: String,
}

impl Server {
    fn start() -> Self {
        let command = this_program("guarding::serves");
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env(SERVES, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        let mut family = Vec::new();
        for _ in 0..2 {
            family.extend(lines.next().unwrap().split(' ').map(str::to_owned));
        }
        let guard = lines.next().unwrap();
        heeds_no_signals(&guard);
        assert!(family.len() == 8 && family.iter().chain([&guard]).all(|id| lives(id)), "{family:?}");
        Self { child, family, guard }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Waits for the end of processes that are nobody's children here.
fn are_gone(ids: &[String]) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(id) = ids.iter().find(|id| lives(id)) {
        assert!(Instant::now() < deadline, "process {id} of {ids:?} lives on");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Waits until the guard has come so far: it has just been started.
fn heeds_no_signals(guard: &str) {
    let deadline = Instant::now() + PATIENCE;
    let is_caught = || {
        let status = std::fs::read_to_string(format!("/proc/{guard}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & (1 << (Signal::QUIT.as_raw() - 1)) != 0
            && u64::from_str_radix(caught, 16).unwrap() & (1 << (Signal::TERM.as_raw() - 1)) != 0
    };
    while !is_caught() {
        assert!(Instant::now() < deadline, "the guard {guard} catches no signals");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn signal(id: &str, signal: Signal) {
    kill_process(Pid::from_raw(id.parse().unwrap()).unwrap(), signal).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_server_leaves_nothing_behind() {
    let mut server = Server::start();
    // What is sent to everybody does not end the guard before its time.
    for sent in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal(&server.guard, sent);
    }
    server.kill();
    are_gone(&server.family);
    are_gone(std::slice::from_ref(&server.guard));
}

#[test]
#[cfg(target_os = "linux")]
fn the_guard_is_away_from_the_servers_terminal() {
    let mut server = Server::start();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.guard)).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap();
    assert_eq!(session, server.guard, "it leads a session of its own");
    server.kill();
    are_gone(&server.family);
}

#[tokio::test]
async fn what_has_ended_is_not_watched_any_more_and_the_guard_leaves_with_the_last() {
    let supervisor = guarded();
    let mut rig = Rig::under(supervisor.clone(), spec("turn"), open(), limits());
    rig.ready().await;
    let guard = supervisor.guard().pid().unwrap();
    rig.agent().stop();
    assert_eq!(rig.exit().await.reason, FailureReason::Stopped);
    // `exit` finishes the supervisor, which waits for the guard.
    assert!(!std::path::Path::new(&format!("/proc/{guard}")).exists());
    assert_eq!(supervisor.guard().pid(), None);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_guard_that_died_is_replaced_and_the_new_one_knows_all() {
    let supervisor = guarded();
    let mut first = Rig::under(supervisor.clone(), stubborn(), open(), limits());
    first.agent().prompt(prompt("go")).unwrap();
    let (text, _) = first.turn().await;
    let family: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let dead = supervisor.guard().pid().unwrap().to_string();
    signal(&dead, Signal::KILL);
    are_gone(std::slice::from_ref(&dead));
    // An agent outlives its guard.
    let mut second = Rig::under(supervisor.clone(), spec("turn"), open(), limits());
    second.ready().await;
    assert!(family.iter().all(|id| lives(id)), "{family:?}");
    let guard = supervisor.guard().pid().unwrap().to_string();
    assert_ne!(guard, dead);
    // The new one is not told by anybody here of the first agent's end: it closes its pipe without it.
    supervisor.guard().close().await;
    are_gone(&family);
    are_gone(&[guard]);
}

#[tokio::test]
async fn agents_start_without_a_guard_if_there_is_none() {
    let supervisor = Supervisor::new(Guard::new(vec!["/nonexistent/guard".to_owned()]));
    for _ in 0..2 {
        let mut rig = Rig::under(supervisor.clone(), spec("turn"), open(), limits());
        rig.ready().await;
        assert_eq!(supervisor.guard().pid(), None);
        rig.agent = None;
        while rig.next().await.is_some() {}
    }
}
