//! Whatever ends a server or an agent, no process of theirs is left, and no descriptor. `SIGNALBOX_CYCLES=200` for many
//! rounds.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "runs the program under test")]

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use signalbox_testkit::{
    App, Client, Model, PATIENCE, TurnModel, children_of, is_alive, is_gone, open_files, processes_with, send,
};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");

/// An agent that heeds neither signals nor the end of its input and says the ids of its processes: its own, a child in its
/// group, one in a session of its own, one of its group with an empty environment.
const STUBBORN: &str = r#"
trap '' TERM INT HUP
answer() { id=${line##*'"id":'}; printf '{"id":%s,"result":%s}\n' "${id%%[!0-9]*}" "$1"; }
read -r line; answer '{"protocolVersion":1}'
read -r line; answer '{"sessionId":"s"}'
read -r line
sleep 1000 & one=$!
setsid sleep 1000 & two=$!
env -i sleep 1000 & three=$!
printf '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"family %s."}}}}\n' "$$ $one $two $three"
while :; do sleep 0.2; done
"#;

fn cycles(default: usize) -> usize {
    std::env::var("SIGNALBOX_CYCLES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

fn stubborn(app: App) -> App {
    let script = app.home().join("stubborn.sh");
    std::fs::write(&script, STUBBORN).unwrap();
    app.config(&format!(
        "[providers.stubborn]\ncommand = \"sh\"\nargs = [{:?}]\n[limits]\nstop_seconds = 1\n",
        script.display().to_string()
    ))
}

fn starts_thread(client: &mut Client, app: &App, provider: &str) -> String {
    client.starts_thread_with(json!({ "cwd": app.work(), "modelProvider": provider }))
}

/// Has a stubborn agent start, and gives the ids of its processes.
fn family_of_a_turn(client: &mut Client, thread: &str) -> Vec<i32> {
    client.prompts(thread, "go");
    family(&hears(client, thread))
}

/// The message of the newest turn, once it is whole: it ends with a full stop.
fn hears(client: &mut Client, thread: &str) -> String {
    let said = |model: &Model| model.thread(thread).turns.last().map(TurnModel::said).unwrap_or_default();
    client.learns("what the agent says", |model| said(model).ends_with('.'));
    said(client.model())
}

fn family(said: &str) -> Vec<i32> {
    let ids = said.trim().trim_start_matches("family ").trim_end_matches('.').split(' ');
    let ids: Vec<i32> = ids.map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| is_alive(*id)), "{said}");
    ids
}

/// The guard of a server's agents.
fn guard_of(server: i32) -> i32 {
    let is_guard = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"\0guard\0")
    };
    let guards: Vec<i32> = children_of(server).into_iter().filter(is_guard).collect();
    assert_eq!(guards.len(), 1, "one guard a server");
    guards[0]
}

/// Waits until no process of this home is left.
fn nothing_is_left(app: &App) {
    let home = app.home().display().to_string();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = processes_with(&home);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left: {left:?}");
        park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_server_takes_its_agents_along_however_it_was_started() {
    for app in [App::new(BINARY).over_stdio(), App::new(BINARY).over_unix(), App::new(BINARY).over_bridges()]
    {
        let mut app = stubborn(app);
        let mut client = app.client();
        let thread = starts_thread(&mut client, &app, "stubborn");
        let mut family = family_of_a_turn(&mut client, &thread);
        let polite = starts_thread(&mut client, &app, "rehearsal");
        client.prompts(&polite, "say Here.\nhang");
        hears(&mut client, &polite);
        let server = app.server().unwrap_or_else(|| app.process().id());
        let guard = guard_of(server);
        family.push(guard);
        send(server, Signal::KILL);
        family.into_iter().for_each(is_gone);
        drop(client);
        drop(app);
    }
}

#[test]
fn a_killed_run_takes_its_agent_along() {
    let app = stubborn(App::new(BINARY));
    let mut child = Command::new(BINARY)
        .args(["run", "--standalone", "-p", "stubborn", "go"])
        .current_dir(app.work())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", app.home())
        .env("SIGNALBOX_HOME", app.home())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = child.stdout.take().unwrap();
    while !said.contains('.') {
        let mut piece = [0; 64];
        let count = stdout.read(&mut piece).unwrap();
        assert_ne!(count, 0, "{said:?}");
        said += std::str::from_utf8(&piece[..count]).unwrap();
    }
    let at = said.find("family").unwrap_or_else(|| panic!("{said:?}"));
    let family = family(&said[at..]);
    let guard = guard_of(i32::try_from(child.id()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    family.into_iter().chain([guard]).for_each(is_gone);
    nothing_is_left(&app);
}

#[test]
fn a_server_without_agents_has_no_guard_and_one_that_leaves_has_none_left() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let server = app.process().id();
    assert!(children_of(server).is_empty());
    assert_eq!(client.runs(&thread, "say Hello.")["status"], "completed");
    let guard = guard_of(server);
    app.process().terminate();
    assert_eq!(app.ends().code(), Some(0));
    assert!(!is_alive(guard), "the server waits for it");
}

/// How the agent of a round ends.
const ENDS: [&str; 4] = ["stopped", "killed", "deleted in mid-turn", "stubborn"];

#[test]
fn agents_that_come_and_go_leave_nothing() {
    let mut app = stubborn(App::new(BINARY)).over_unix();
    let mut client = app.client();
    let server = app.process().id();
    let round = |client: &mut Client, how: &str| {
        let provider = if how == "stubborn" { "stubborn" } else { "rehearsal" };
        let thread = starts_thread(client, &app, provider);
        let (mut pids, mut turn) = (Vec::new(), String::new());
        match how {
            "stopped" => drop(client.runs(&thread, "read README.md\nsay Done.")),
            "stubborn" => pids = family_of_a_turn(client, &thread),
            _ => {
                turn = client.prompts(&thread, "say Here.\nhang");
                hears(client, &thread);
            }
        }
        let explained = client.call("thread/explain", json!({ "threadId": thread }));
        let agent = explained["agent"]["pid"].as_i64().unwrap_or_else(|| panic!("{explained}"));
        pids.push(i32::try_from(agent).unwrap());
        if how == "killed" {
            send(pids[0], Signal::KILL);
            client.knows_the_end_of(&thread, &turn);
            let failed = client.model().thread(&thread).newest().error.to_string();
            assert!(failed.contains("signal: 9 (SIGKILL)"), "{failed}");
        }
        client.call("thread/delete", json!({ "threadId": thread }));
        pids.into_iter().for_each(is_gone);
    };
    // What is made once and kept comes first.
    ENDS.into_iter().for_each(|how| round(&mut client, how));
    let guard = guard_of(server);
    // Connections to the database are a pool of a few that are opened when there is use for them.
    let open =
        || open_files(server).into_iter().filter(|name| !name.contains("signalbox.db")).collect::<Vec<_>>();
    let before = open();
    for n in 0..cycles(12) {
        round(&mut client, ENDS[n % 3]);
    }
    round(&mut client, ENDS[3]);
    let deadline = Instant::now() + PATIENCE;
    while open().len() > before.len() || children_of(server) != [guard] {
        let (files, children) = (open(), children_of(server));
        assert!(Instant::now() < deadline, "{files:?}, before {before:?}; children {children:?}");
        park_timeout(Duration::from_millis(5));
    }
    assert_eq!(client.call("thread/loaded/list", json!({}))["data"], Value::Array(Vec::new()));
}

#[test]
fn servers_that_are_killed_again_and_again_leave_nothing() {
    let mut app = stubborn(App::new(BINARY)).over_unix();
    for _ in 0..cycles(4) {
        let mut client = app.client();
        let thread = starts_thread(&mut client, &app, "stubborn");
        let mut pids = family_of_a_turn(&mut client, &thread);
        let other = starts_thread(&mut client, &app, "rehearsal");
        client.prompts(&other, "say Here.\nhang");
        hears(&mut client, &other);
        pids.push(guard_of(app.process().id()));
        app.kill();
        pids.into_iter().for_each(is_gone);
        nothing_is_left(&app);
        app.restart();
    }
    app.kill();
    nothing_is_left(&app);
}
