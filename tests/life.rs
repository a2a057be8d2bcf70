//! The home's server: one, started by whoever needs it, there for all, gone when nobody does.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "runs the program under test"
)]

#[path = "life/house.rs"]
mod house;
#[path = "life/starts.rs"]
mod starts;

use std::fs;
use std::os::unix::net::UnixListener;

use serde_json::json;

use house::{House, Line};

#[test]
fn many_starters_start_one_server() {
    let house = House::new();
    let started: Vec<_> = (0..8).map(|n| house.spawn(&["run", &format!("say hello {n}")])).collect();
    for child in started {
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    assert_eq!(house.log().matches("the server of this home begins").count(), 1, "{}", house.log());
    let mut line = house.connect();
    let threads = line.calls("thread/list", json!({}));
    assert_eq!(threads["data"].as_array().unwrap().len(), 8, "every turn ran in it");
}

#[test]
fn a_killed_server_is_replaced_whatever_it_left() {
    let house = House::new();
    house.says(&["run", "say one"]).exits(0);
    let first = house.server();
    house.kill(first);
    assert!(house.home().join("signalbox.sock").exists(), "it had no time to tidy up");
    house.says(&["run", "say two"]).exits(0);
    assert_ne!(house.server(), first);
}

#[test]
fn a_socket_that_nobody_listens_on_is_no_obstacle() {
    let house = House::new();
    house.located();
    drop(UnixListener::bind(house.home().join("signalbox.sock")).unwrap());
    fs::write(
        house.home().join("lock"),
        "pid = 1\nsince_ms = 1\nrole = \"server\"\nversion = \"1\"\nsocket = \"/x\"\n",
    )
    .unwrap();
    house.says(&["stop"]).exits(0).shows("no server runs");
    house.says(&["doctor"]).exits(0).shows("none runs");
    house.says(&["run", "say well"]).exits(0);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let house = House::new();
    house.located();
    fs::write(
        house.home().join("signalbox.db"),
        "no database at all, for sure, and long enough to be looked at",
    )
    .unwrap();
    let said = house.says(&["run", "say hello"]);
    said.exits(2).complains("could not be started").complains("signalbox.db");
    house.says(&["stop"]).exits(0).shows("no server runs");
}

#[test]
fn nobody_there_is_the_end_after_a_while() {
    let house = House::new();
    house.says(&["-c", "server.idle_exit_seconds=1", "run", "say hello"]).exits(0);
    house.ends(house.server());
    assert!(house.log().contains("nobody needs it"), "{}", house.log());
    assert!(!house.home().join("signalbox.sock").exists(), "it has tidied up");
}

#[test]
fn a_turn_or_an_approval_keeps_it() {
    let house = House::new();
    house.configures("[server]\nidle_exit_seconds = 1\nunattended = \"wait:2\"\n");
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    let mut line = house.connect();
    let thread = line.starts_thread(&house.work());
    // The client leaves; the turn goes on for longer than an idle server would stay, then it asks, and for longer than that
    // nobody answers.
    line.starts_turn(&thread, "sleep 2000\nrun touch ran\nsay And on.");
    drop(line);
    house.ends(server);
    house.says(&["run", "say hello"]).exits(0);
    let read = house.connect().calls("thread/read", json!({ "threadId": thread, "includeTurns": true }));
    assert_eq!(read["thread"]["turns"][0]["status"], "completed", "{read}");
    assert!(!house.work().join("ran").exists(), "nobody has allowed it");
}

#[test]
fn stop_interrupts_and_tells() {
    let house = House::new();
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    let mut line = house.connect();
    let thread = line.starts_thread(&house.work());
    line.starts_turn(&thread, "say Here.\nsleep 600000");
    line.until("item/agentMessage/delta");
    let said = house.says(&["stop"]);
    said.exits(0).shows(&format!("ended the server (process {server})")).shows("1 turn was interrupted");
    let ended = line.until("turn/completed");
    assert_eq!(ended["params"]["turn"]["status"], "interrupted");
    assert!(line.ends(), "and then the connection ends");
    house.says(&["stop"]).exits(0).shows("no server runs");
}

#[test]
fn a_server_that_hangs_is_killed_if_one_insists() {
    let house = House::new();
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    house.signals(server, rustix::process::Signal::STOP);
    house.says(&["stop", "--force"]).exits(0).shows(&format!("killed process {server}"));
    house.says(&["run", "say again"]).exits(0);
}

#[test]
fn the_end_of_a_client_is_its_own() {
    let house = House::new();
    let mut first = house.spawn(&["run", "say Here.\nsleep 600000"]);
    house.waits_for_output(&mut first, "Here.");
    let server = house.server();
    let mut line = house.connect();
    let thread = line.calls("thread/loaded/list", json!({}))["data"][0].as_str().unwrap().to_owned();
    line.calls("thread/resume", json!({ "threadId": thread }));
    first.kill().unwrap();
    first.wait().unwrap();
    // The turn of a client that was killed goes on, and others may end it.
    let turn = line.calls("thread/read", json!({ "threadId": thread, "includeTurns": true }));
    let turn = turn["thread"]["turns"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(turn["status"], "inProgress");
    line.calls("turn/interrupt", json!({ "threadId": thread, "turnId": turn["id"] }));
    assert_eq!(line.until("turn/completed")["params"]["turn"]["status"], "interrupted");
    assert_eq!(house.server(), server);
}

#[test]
fn two_homes_have_two_servers() {
    let (one, other) = (House::new(), House::new());
    one.says(&["run", "say hello"]).exits(0);
    other.says(&["run", "say hello"]).exits(0);
    assert_ne!(one.server(), other.server());
    one.says(&["stop"]).exits(0);
    other.connect().calls("thread/list", json!({}));
}

#[test]
fn a_home_with_a_long_path_is_served_elsewhere() {
    let house = House::with_home_of(150);
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    assert!(!house.home().join("signalbox.sock").exists());
    house.says(&["run", "say again"]).exits(0);
    assert_eq!(house.server(), server);
    // Somebody whose temporary files lie elsewhere finds it all the same.
    let mut elsewhere = house.command(&["run", "say once more"]);
    let out = elsewhere.env("XDG_RUNTIME_DIR", house.work()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(house.server(), server);
    house.says(&["stop"]).exits(0).shows("ended the server");
}

#[test]
fn agents_get_the_variables_of_their_connection_and_nothing_keeps_them() {
    let house = House::new();
    let binary = env!("CARGO_BIN_EXE_signalbox");
    // The known agent of that name is taken for its variables; what is started is the one that is built in.
    house.configures(&format!("[providers.codex]\ncommand = {binary:?}\nargs = [\"rehearsal\"]\n"));
    house.says(&["run", "say the server begins without them"]).exits(0);
    let secret = "sk-very-secret-1";
    for (value, shows) in [(Some(secret), secret), (Some("another"), "another"), (None, "none of it")] {
        let prompt = "run echo key=${OPENAI_API_KEY:-none of it} other=${OTHER_SECRET:-nothing}";
        let mut command = house.command(&["run", "-p", "codex", "--policy", "yolo", prompt]);
        command.env("OTHER_SECRET", "not for agents");
        if let Some(value) = value {
            command.env("OPENAI_API_KEY", value);
        }
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            said.contains(&format!("key={shows} other=nothing")),
            "{said}\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    house.says(&["stop"]).exits(0);
    // One turn more, whose output does not show it.
    let mut command = house.command(&["run", "-p", "codex", "say quiet"]);
    let out = command.env("OPENAI_API_KEY", "sk-never-seen-2").env("RUST_LOG", "trace").output().unwrap();
    assert!(out.status.success());
    house.says(&["stop"]).exits(0);
    house.holds_nowhere("sk-never-seen-2");
}

#[test]
fn a_newer_program_replaces_an_idle_server_and_uses_a_busy_one() {
    let house = House::new();
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    let newer =
        |upgrade: bool| json!({ "signalbox": { "version": "999.0.0", "client": "run", "upgrade": upgrade } });

    let mut line = house.connect();
    let thread = line.starts_thread(&house.work());
    line.starts_turn(&thread, "say Here.\nsleep 600000");
    line.until("item/agentMessage/delta");
    let welcome = Line::greets(&house, &newer(true)).1;
    assert_eq!((&welcome["idle"], &welcome["leaving"]), (&json!(false), &json!(null)), "it is busy");
    line.calls("turn/interrupt", json!({ "threadId": thread, "turnId": line.turn() }));
    line.until("turn/completed");
    drop(line);

    let welcome = Line::greets_until(&house, &newer(false), |welcome| welcome["idle"] == true).1;
    assert_eq!(
        (&welcome["pid"], &welcome["leaving"]),
        (&json!(server), &json!(null)),
        "nobody has asked it to"
    );
    let (mut line, welcome) = Line::greets_until(&house, &newer(true), |welcome| welcome["idle"] == true);
    assert_eq!((&welcome["pid"], &welcome["leaving"]), (&json!(server), &json!(true)));
    assert!(line.ends());
    house.ends(server);
    house.says(&["run", "say again"]).exits(0);
}

#[test]
fn addresses_are_open_as_long_as_their_command_runs() {
    let house = House::new();
    house.configures("[server]\nidle_exit_seconds = 1\n");
    let mut serve = house.spawn(&["serve", "--listen", "127.0.0.1:0", "--allow-local"]);
    let said = house.waits_for_complaint(&mut serve, "the server is process");
    let address = said.lines().find_map(|line| line.split("ws://").nth(1)).unwrap();
    let address = address.split(' ').next().unwrap().to_owned();
    std::net::TcpStream::connect(&address).unwrap();
    let server = house.server();
    house.says(&["doctor"]).exits(0).shows(&format!("process {server}, version ")).shows(&address);
    // A second one, and the server still serves everybody.
    let mut other = house.spawn(&[
        "app-server",
        "--listen",
        &format!("unix://{}", house.work().join("a.sock").display()),
    ]);
    house.waits_for_complaint(&mut other, "the server is process");
    let mut line = Line::at(&house.work().join("a.sock"));
    let opened = line.calls("thread/start", json!({}));
    assert_eq!(opened["cwd"], json!(house.work()), "where the command was started");
    drop(line);
    house.terminates(&mut other);
    house.loses(&house.work().join("a.sock"));
    std::net::TcpStream::connect(&address).unwrap();
    house.terminates(&mut serve);
    house.ends(server);
    assert!(std::net::TcpStream::connect(&address).is_err());
}

#[test]
fn addresses_are_opened_again_when_the_server_has_died_and_not_when_it_was_stopped() {
    let house = House::new();
    let mut serve = house.spawn(&["serve", "--listen", "127.0.0.1:0", "--allow-local"]);
    let said = house.waits_for_complaint(&mut serve, "the server is process");
    let address = said.lines().find_map(|line| line.split("ws://").nth(1)).unwrap();
    let address = address.split(' ').next().unwrap().to_owned();
    let first = house.server();
    house.signals(first, rustix::process::Signal::KILL);
    let said = house.waits_for_complaint(&mut serve, "the server is process");
    assert!(said.contains(&format!("listening on ws://{address} ")), "{said}");
    std::net::TcpStream::connect(&address).unwrap();
    assert_ne!(house.server(), first);
    house.says(&["stop"]).exits(0);
    assert_eq!(serve.wait().unwrap().code(), Some(1));
}

#[test]
fn what_holds_for_the_server_is_said_if_it_cannot_be_had() {
    let house = House::new();
    house.says(&["run", "say hello"]).exits(0);
    let said =
        house.says(&["-c", "limits.stall_seconds=7", "-c", "default_provider=rehearsal", "run", "say hello"]);
    said.exits(0).complains("-c limits.stall_seconds=7 does not hold");
    assert!(!said.err.contains("default_provider"), "{}", said.err);
}
