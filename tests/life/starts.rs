//! Starts that go wrong, and servers that do not answer.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::{Value, json};
use signalbox_home::{Lock, StartTurn};

use super::house::House;

#[test]
fn a_server_whose_starter_was_killed_is_found() {
    let house = House::new();
    let mut first = house.spawn(&["run", "say hello"]);
    let server = house.starting();
    house.signals(server, Signal::STOP);
    first.kill().unwrap();
    first.wait().unwrap();
    let second = house.spawn(&["run", "say hello"]);
    house.signals(server, Signal::CONT);
    house.finishes(second).exits(0);
    assert_eq!(house.server(), server);
}

#[test]
fn a_server_that_begins_is_waited_for() {
    let house = House::new();
    let home = house.located();
    let _lock = Lock::take(&home, "server", "1").unwrap();
    let socket = UnixListener::bind(home.socket()).unwrap();
    let devices = house.spawn(&["devices"]);
    // Somebody is there and has gone each time, as often as a client looks before it starts a server of its own.
    for _ in 0..2 {
        drop(accepts(&socket));
    }
    stands_in(&accepts(&socket), 3);
    house.finishes(devices).exits(0).shows("No devices are paired");
}

#[test]
fn a_list_is_asked_for_again_if_the_server_ends_before_it_answers() {
    let house = House::new();
    let home = house.located();
    let _lock = Lock::take(&home, "server", "1").unwrap();
    let socket = UnixListener::bind(home.socket()).unwrap();
    let devices = house.spawn(&["devices"]);
    stands_in(&accepts(&socket), 2);
    stands_in(&accepts(&socket), 3);
    house.finishes(devices).exits(0).shows("No devices are paired");
    let revoke = house.spawn(&["devices", "revoke", "x"]);
    stands_in(&accepts(&socket), 2);
    house.finishes(revoke).exits(1).complains("the connection to the server has ended");
}

/// The next client.
#[track_caller]
fn accepts(socket: &UnixListener) -> UnixStream {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut polled, Some(&patience)).unwrap(), 1, "nobody connects");
    let (stream, _) = socket.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Answers so many of what a client says first as a server does: the greeting, `initialize`, `device/list`. Of a client that it has
/// let in it reads what comes next.
fn stands_in(stream: &UnixStream, answers: usize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut answered = 0;
    while answered < answers {
        let Some(line) = lines.next() else { return };
        let said: Value = serde_json::from_str(&line).unwrap();
        let answer = match said["method"].as_str() {
            None => {
                json!({ "signalbox": { "protocol": 1, "version": "1", "pid": std::process::id(), "idle": true } })
            }
            Some("initialize") => json!({ "id": said["id"], "result": {
                "userAgent": "x", "codexHome": "/", "platformFamily": "unix", "platformOs": "linux",
                "serverInfo": { "name": "signalbox", "version": "1" }, "protocolVersion": 1, "home": "/", "role": "owner",
                "capabilities": {},
            } }),
            Some("device/list") => json!({ "id": said["id"], "result": { "data": [] } }),
            Some(_) => continue,
        };
        writeln!(&*stream, "{answer}").unwrap();
        answered += 1;
    }
    if answers > 1 {
        while lines.next().is_some_and(|line| line.contains("initialized")) {}
    }
}

#[test]
fn a_server_that_is_killed_while_it_starts_is_followed_by_another() {
    let house = House::new();
    // It cannot get further than this.
    let lock = Lock::take(&house.located(), "doctor", "1").unwrap();
    let clients = [house.spawn(&["run", "say hello"]), house.spawn(&["run", "say hello"])];
    house.kill(house.starting());
    drop(lock);
    for client in clients {
        house.finishes(client).exits(0);
    }
}

#[test]
fn of_many_servers_one_stays() {
    let house = House::new();
    let mut servers: Vec<_> = (0..10).map(|_| house.spawn(&["server"])).collect();
    let mut refused = Vec::new();
    while refused.len() < 9 {
        if let Some(at) = servers.iter_mut().position(|server| server.try_wait().unwrap().is_some()) {
            refused.push(house.finishes(servers.remove(at)));
        }
        std::thread::yield_now();
    }
    for said in refused {
        said.exits(2).shows("is in use by").shows("one server is enough for a home");
    }
    house.says(&["run", "say hello"]).exits(0);
    assert_eq!(house.server(), servers[0].id());
    house.says(&["stop"]).exits(0);
    house.finishes(servers.remove(0)).exits(0);
}

#[test]
fn stop_waits_for_a_server_that_is_being_started() {
    let house = House::new();
    let turn = StartTurn::try_take(&house.located()).unwrap().unwrap();
    let stop = house.spawn(&["stop"]);
    let mut server = house.spawn(&["server"]);
    house.waits_for_output(&mut server, "ready");
    drop(turn);
    house.finishes(stop).exits(0).shows(&format!("(process {})", server.id()));
    house.finishes(server).exits(0);
}

#[test]
fn stop_ends_a_server_that_hangs_while_it_starts() {
    let house = House::new();
    let client = house.spawn(&["run", "say hello"]);
    let server = house.starting();
    house.signals(server, Signal::STOP);
    house.says(&["stop", "--force"]).exits(0).shows(&format!("killed process {server}"));
    house.finishes(client).exits(0);
    assert_ne!(house.server(), server);
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for_for_ever() {
    let house = House::new();
    house.says(&["run", "say hello"]).exits(0);
    let server = house.server();
    house.signals(server, Signal::STOP);
    let asked: [&[&str]; 3] = [&["devices"], &["pair"], &["serve", "--listen", "127.0.0.1:0"]];
    for child in asked.map(|args| house.spawn(args)) {
        let said = house.finishes(child);
        said.exits(2)
            .complains(&format!("the server (process {server}) does not answer; `signalbox stop --force`"));
    }
    house.signals(server, Signal::CONT);
    house.says(&["devices"]).exits(0);
}

#[test]
fn a_server_that_only_greets_is_not_waited_for_for_ever() {
    let house = House::new();
    let home = house.located();
    let _lock = Lock::take(&home, "server", "1").unwrap();
    let socket = UnixListener::bind(home.socket()).unwrap();
    for args in [&["devices"][..], &["pair"], &["serve", "--listen", "127.0.0.1:0"]] {
        let child = house.spawn(args);
        let stream = accepts(&socket);
        stands_in(&stream, 1);
        house.finishes(child).exits(2).complains("does not answer");
        drop(stream);
    }
}

#[test]
fn what_listens_and_is_no_server_is_called_that() {
    let house = House::new();
    let _socket = UnixListener::bind(house.located().socket()).unwrap();
    for (args, code) in [(&["run", "say hello"][..], 2), (&["stop", "--force"], 1)] {
        let said = house.finishes(house.spawn(args));
        said.exits(code).complains("is no server of this home");
        assert!(!said.err.contains("`signalbox stop"), "{}", said.err);
    }
}

#[test]
fn a_home_that_others_may_enter_is_said_and_one_that_they_may_write_is_not_used() {
    let house = House::new();
    let home = house.located();
    let set = |mode| std::fs::set_permissions(home.folder(), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o777);
    house.says(&["run", "say hello"]).exits(2).complains("chmod 700");
    set(0o755);
    house.says(&["doctor"]).exits(0).shows("chmod 700");
    house.says(&["run", "say hello"]).exits(0).shows("other users can look into");
}
