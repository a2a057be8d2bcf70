//! Letting a device in from the command line, over HTTP as a device does it, and out again.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "runs the program under test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(60);

fn signalbox(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
    command.args(args).stdin(Stdio::null()).env("SIGNALBOX_HOME", home).env_remove("RUST_LOG");
    command
}

/// A server with a listener on TCP, which ends with the test.
struct Server {
    root: TempDir,
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let args = ["serve", "--standalone", "--listen", "127.0.0.1:0", "--listen", "unix://"];
        let mut child = signalbox(&root.path().join("home"), &args)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut address, mut socket) = (None, false);
        while address.is_none() || !socket {
            let line = said.next().expect("the server has ended").unwrap();
            socket |= line.contains("unix://");
            if let Some((_, rest)) = line.split_once("ws://") {
                address = Some(rest.split([' ', '/']).next().unwrap().to_owned());
            }
        }
        // What else it says must not fill the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Self { root, child, address: address.unwrap() }
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn says(&self, args: &[&str]) -> Said {
        signalbox(&self.home(), args).output().unwrap().into()
    }

    fn json(&self, args: &[&str]) -> Value {
        let said = self.says(args);
        assert_eq!(said.code, Some(0), "{said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    /// Status and body of a POST, without any library.
    fn post(&self, path: &str, bearer: Option<&str>, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let body = body.to_string();
        let credential = bearer.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n{credential}\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn calls(&self, bearer: &str, method: &str) -> (u16, Value) {
        self.post("/rpc", Some(bearer), &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a command printed, and its exit code.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn a_device_is_paired_used_listed_and_revoked() {
    let server = Server::start();
    let none = server.says(&["devices"]);
    assert!(none.out.contains("No devices are paired") && none.out.contains("signalbox pair"), "{none:?}");

    let made = server.json(&["pair", "--role", "operator", "--name", "My phone", "--json"]);
    let code = made["code"].as_str().unwrap();
    assert_eq!(made["url"], format!("http://{}/pair#token={code}", server.address));
    let (status, device) = server.post("/api/pair", None, &json!({"token": code, "device_name": "x"}));
    assert_eq!((status, &device["name"]), (200, &json!("My phone")), "{device}");
    let (id, bearer) = (device["device_id"].as_str().unwrap(), device["bearer"].as_str().unwrap());
    assert_eq!(server.post("/api/pair", None, &json!({"token": code})).0, 401);

    let (status, threads) = server.calls(bearer, "thread/list");
    assert_eq!((status, &threads["result"]["data"]), (200, &json!([])), "{threads}");
    let (_, refused) = server.calls(bearer, "device/list");
    assert_eq!(refused["error"]["code"], -32020);
    assert_eq!(refused["error"]["data"]["needs"], "owner");
    let (status, ticket) = server.post("/api/ws-ticket", Some(bearer), &json!({}));
    assert_eq!((status, &ticket["expires_in"]), (200, &json!(300)), "{ticket}");

    let listed = server.says(&["devices", "list"]);
    assert!(listed.out.contains("NAME") && listed.out.contains("My phone"), "{listed:?}");
    assert!(
        listed.out.contains("operator") && listed.out.contains("in 89 days")
            || listed.out.contains("in 90 days")
    );
    assert_eq!(server.json(&["devices", "--json"])["data"][0]["id"], id);

    let revoked = server.says(&["devices", "revoke", id]);
    assert_eq!((revoked.code, revoked.out.as_str()), (Some(0), "The device is revoked.\n"), "{revoked:?}");
    assert_eq!(server.calls(bearer, "thread/list").0, 401);
    let again = server.says(&["devices", "revoke", id]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("device not found"), "{again:?}");

    let log = std::fs::read_to_string(server.home().join("logs/audit.log")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |event: &str| events.iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (of("pairing_created"), of("paired"), of("revoked"), of("listener_opened")),
        (1, 1, 1, 1),
        "{log}"
    );
    assert!(!log.contains(code) && !log.contains(bearer));
}

#[test]
fn what_is_printed_helps_people() {
    let server = Server::start();
    let said = server.says(&["pair", "--role", "observer"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in [
        "within 15 minutes",
        "/pair#token=sbx_pair_",
        "role  observer",
        "No other machine reaches",
        "devices revoke",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert!(!said.out.contains('█') && !said.out.contains('\u{1b}'), "no picture in a pipe");
    let said = server.says(&["pair", "--url", "https://box.example/"]);
    assert!(said.out.contains("https://box.example/pair#token="), "{said:?}");
    assert!(!said.out.contains("No other machine reaches"));
    let wrong = server.says(&["pair", "--url", "box.example"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("http://"), "{wrong:?}");
    assert_eq!(server.says(&["pair", "--role", "admin"]).code, Some(2));
}
