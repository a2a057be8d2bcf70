//! Clients on stdio behind bridges: one server of their home, which outlives them; and they outlive it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use signalbox_testkit::{App, Client, Schemas, is_alive, is_gone, send};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");
/// More than a frame of the apps here may have.
const TOO_LARGE: usize = (1 << 20) + 1;

fn app() -> App {
    App::new(BINARY).over_bridges()
}

/// An app whose bridges answer long frames by themselves, so that it can be seen how far they have read.
fn sounding_app() -> App {
    app().argument("-c").argument("limits.frame_bytes=1048576")
}

/// Waits until the client's bridge has taken everything that the client has sent.
fn sound(client: &mut Client) {
    client.sends_line(&[b'x'; TOO_LARGE]);
    assert_eq!(client.is_rebuked().reason, "frame_too_large");
}

/// Waits until the newest turn has said this.
fn hears(client: &mut Client, thread: &str, text: &str) {
    client.learns("the text", |model| {
        model.thread(thread).turns.last().is_some_and(|turn| turn.said() == text)
    });
}

/// After another server has taken over: what was interrupted is told, and work goes on.
fn goes_on(client: &mut Client, thread: &str, interrupted: &str) {
    let ended = client.finishes(interrupted);
    assert_eq!(ended["status"], "interrupted", "{ended}");
    assert_eq!(ended["error"]["reason"], "server_restarted", "{ended}");
    assert_eq!(client.runs(thread, "say Here again.")["status"], "completed");
    client.knows_what_is_stored(thread);
}

#[test]
fn two_clients_see_one_turn_and_the_end_of_one_is_nothing_to_the_other() {
    let mut app = app();
    let [mut first, mut second] = app.clients();
    let server = app.server().unwrap();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "say Seen by both.\nhang polite");
    for client in [&mut first, &mut second] {
        hears(client, &thread, "Seen by both.");
    }
    app.bridge(0).kill();
    first.is_disconnected();
    second.interrupts(&thread, &turn);
    assert_eq!(second.finishes(&turn)["status"], "interrupted");
    assert_eq!(second.runs(&thread, "say Still here.")["status"], "completed");
    second.knows_what_is_stored(&thread);
    assert_eq!(app.server(), Some(server));
}

#[test]
fn a_client_that_closes_its_input_is_answered_and_its_turn_goes_on() {
    let mut app = app();
    let mut first = app.client();
    let thread = first.starts_thread(&app);
    let turn = first.prompts(&thread, "say A beginning.\nhang polite");
    hears(&mut first, &thread, "A beginning.");
    let asked = first.requests("thread/read", json!({ "threadId": thread }));
    first.stops_sending();
    first.answer(asked).unwrap();
    first.is_disconnected();
    assert_eq!(app.bridge(0).ends().code(), Some(0));
    let mut second = app.client();
    let joined = second.joins(&thread);
    assert_eq!(joined["thread"]["turns"][0]["status"], "inProgress");
    second.interrupts(&thread, &turn);
    second.finishes(&turn);
}

#[test]
fn a_signal_ends_the_bridge_alone() {
    let mut app = app();
    let mut first = app.client();
    let thread = first.starts_thread(&app);
    first.prompts(&thread, "say A beginning.\nhang polite");
    hears(&mut first, &thread, "A beginning.");
    let server = app.server();
    app.bridge(0).terminate();
    assert_eq!(app.bridge(0).ends().code(), Some(0));
    let mut second = app.client();
    assert_eq!(second.joins(&thread)["thread"]["turns"][0]["status"], "inProgress");
    assert_eq!(app.server(), server);
}

#[test]
fn killed_with_an_approval_open() {
    let mut app = app();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "say Shall I?\nrun touch ran");
    let asked = client.is_asked();
    let killed = app.kills_server();
    let settled = client.sees_settled(&asked);
    assert_eq!(settled["by"]["kind"], "restart", "{settled}");
    goes_on(&mut client, &thread, &turn);
    assert_ne!(app.server(), Some(killed));
    // An answer that comes too late goes to nobody.
    client.approves(&asked);
    let warning = client.until("warning");
    assert!(warning["message"].as_str().unwrap().contains("too late"), "{warning}");
    assert_eq!(app.file("ran"), None);
    assert_eq!(client.call("approval/list", json!({}))["data"], json!([]));
}

#[test]
fn killed_while_text_streams_and_requests_are_on_their_way() {
    let mut app = sounding_app();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "stream 100000 20 1");
    client.until("item/agentMessage/delta");
    // What was stored and not told when the server died comes with the end of the item.
    client.may_fall_behind();
    let server = app.server().unwrap();
    send(server, Signal::STOP);
    let one = client.requests("thread/list", json!({}));
    client.sends(&json!([
        { "jsonrpc": "2.0", "id": "two", "method": "thread/list" },
        { "jsonrpc": "2.0", "id": "three", "method": "model/list" },
    ]));
    sound(&mut client);
    app.kills_server();
    let refused = client.answer(one).unwrap_err();
    assert_eq!(refused.short(), (-32026, "server_restarted"));
    assert_eq!(refused.data["retryable"], true);
    for id in ["two", "three"] {
        assert_eq!(client.answer(id).unwrap_err().short(), (-32026, "server_restarted"));
    }
    goes_on(&mut client, &thread, &turn);
}

#[test]
fn killed_in_the_middle_of_the_handshake() {
    let mut app = sounding_app();
    let mut first = app.client();
    first.call("server/health", json!({}));
    let server = app.server().unwrap();
    let mut second = app.stranger();
    // So it is connected.
    second.call("server/health", json!({}));
    send(server, Signal::STOP);
    let params = json!({ "clientInfo": { "name": "second", "version": "1" } });
    let handshake = second.requests("initialize", params);
    sound(&mut second);
    app.kills_server();
    let answer = second.answer(handshake).unwrap();
    assert_eq!(answer["serverInfo"]["name"], "signalbox");
    let thread = second.starts_thread(&app);
    assert_eq!(second.runs(&thread, "say Hello.")["status"], "completed");
    second.knows_what_is_stored(&thread);
}

#[test]
fn all_bridges_find_the_same_new_server() {
    let mut app = app();
    let mut clients: [Client; 3] = app.clients();
    let thread = clients[0].starts_thread(&app);
    clients[1].joins(&thread);
    clients[2].joins(&thread);
    let turn = clients[0].prompts(&thread, "say A beginning.\nhang");
    for client in &mut clients {
        hears(client, &thread, "A beginning.");
    }
    app.kills_server();
    for client in &mut clients {
        assert_eq!(client.finishes(&turn)["error"]["reason"], "server_restarted");
    }
    // Whatever one of them does now, all of them see.
    let turn = clients[1].prompts(&thread, "say One server.");
    for client in &mut clients {
        assert_eq!(client.finishes(&turn)["status"], "completed");
        client.knows_what_is_stored(&thread);
    }
}

#[test]
fn killed_again_and_again() {
    let mut app = app();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let mut servers = Vec::new();
    for round in 0..5 {
        let turn = client.prompts(&thread, &format!("say Round {round}.\nrun touch ran"));
        let asked = client.is_asked();
        servers.push(app.kills_server());
        client.sees_settled(&asked);
        assert_eq!(client.finishes(&turn)["status"], "interrupted");
        client.knows_what_is_stored(&thread);
    }
    servers.dedup();
    assert_eq!(servers.len(), 5);
    assert_eq!(client.model().thread(&thread).turns.len(), 5);
}

#[test]
fn who_can_fetch_a_thread_again_is_told_to() {
    let mut app = app();
    let mut client = app.stranger();
    client.initializes_with("resyncs", json!({ "resync": true }));
    let thread = client.starts_thread(&app);
    client.prompts(&thread, "say A beginning.\nhang");
    hears(&mut client, &thread, "A beginning.");
    app.kills_server();
    let required = client.until("thread/resyncRequired");
    assert_eq!((&required["threadId"], &required["reason"]), (&json!(thread), &json!("server_restarted")));
    let joined = client.joins(&thread);
    assert_eq!(joined["thread"]["turns"][0]["status"], "interrupted");
    assert_eq!(client.runs(&thread, "say Here again.")["status"], "completed");
    client.knows_what_is_stored(&thread);
}

#[test]
fn a_server_that_was_stopped_is_started_again_for_the_next_request_only() {
    let mut app = sounding_app();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "say A beginning.\nhang polite");
    for client in [&mut first, &mut second] {
        hears(client, &thread, "A beginning.");
    }
    let server = app.server().unwrap();
    send(server, Signal::TERM);
    for client in [&mut first, &mut second] {
        assert_eq!(client.finishes(&turn)["error"]["reason"], "server_stopped");
    }
    is_gone(server);
    // Both bridges have seen it, and live; but nobody has asked for anything.
    sound(&mut first);
    sound(&mut second);
    assert_eq!(app.server(), None);
    // The other one will be there again by itself, and be told what it has missed without deltas.
    second.may_fall_behind();
    let turn = first.prompts(&thread, "say Here again.");
    assert_ne!(app.server(), Some(server));
    for client in [&mut first, &mut second] {
        assert_eq!(client.finishes(&turn)["status"], "completed");
        client.knows_what_is_stored(&thread);
    }
}

#[test]
fn without_a_server_that_can_be_started_the_bridge_ends_and_says_what_to_do() {
    let mut app = app();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    client.prompts(&thread, "say A beginning.\nhang");
    hears(&mut client, &thread, "A beginning.");
    std::fs::write(app.home().join("config.toml"), "no_such_key = 1\n").unwrap();
    app.kills_server();
    client.is_disconnected();
    assert_eq!(app.bridge(0).ends().code(), Some(1));
    let said = app.bridge(0).says("no other could be reached");
    assert!(said.contains("start this program again") && said.contains("server.log"), "{said}");
}

#[test]
fn a_client_that_does_not_read_costs_its_bridge_nothing() {
    let mut app = app();
    let mut slow = app.client();
    let mut quick = app.stranger();
    quick.initializes_with("quick", json!({ "optOutNotificationMethods": ["item/agentMessage/delta"] }));
    let thread = slow.starts_thread(&app);
    quick.joins(&thread);
    slow.may_fall_behind();
    slow.stops_reading();
    // Far more than pipes, sockets and an outbox can hold.
    let script = "stream 4000 400 0\nthink More.\n".repeat(10);
    let turn = quick.prompts(&thread, &script);
    assert_eq!(quick.finishes(&turn)["status"], "completed");
    let held = app.bridge(0).peak_rss_bytes();
    assert!(held < 64 << 20, "the bridge holds {held} bytes");
    slow.goes_on_reading();
    slow.finishes(&turn);
    slow.knows_what_is_stored(&thread);
}

#[test]
fn large_frames_pass_both_ways() {
    let mut app = app();
    let mut client = app.client();
    let name = "n".repeat(15 << 20);
    let refused = client.is_refused("no/such/method", json!({ "name": name }));
    assert_eq!(refused.reason, "method_not_found");
    client.sends_line(&vec![b'x'; 17 << 20]);
    assert_eq!(client.is_rebuked().reason, "frame_too_large");
    client.call("server/health", json!({}));
}

#[test]
fn a_client_that_floods_is_answered_in_full() {
    let mut app = app();
    let mut client = app.client();
    let ids: Vec<i64> = (0..10_000).map(|_| client.requests("server/health", json!({}))).collect();
    for id in ids {
        client.answer(id).unwrap();
    }
    let held = app.bridge(0).peak_rss_bytes();
    assert!(held < 64 << 20, "the bridge holds {held} bytes");
}

#[test]
fn headers_are_answered_with_headers() {
    let app = app();
    let mut bridge = Command::new(BINARY)
        .arg("app-server")
        .env("SIGNALBOX_HOME", app.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/health", "params": {} });
    // Line ends between tokens are no line ends of frames.
    let written = serde_json::to_string_pretty(&frame).unwrap();
    let sent = format!("Content-Length: {}\r\n\r\n{written}", written.len());
    let mut stdin = bridge.stdin.take().unwrap();
    stdin.write_all(sent.repeat(2).as_bytes()).unwrap();
    drop(stdin);
    let mut rest = String::new();
    bridge.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    for _ in 0..2 {
        let (header, body) = rest.split_once("\r\n\r\n").unwrap();
        let length: usize = header.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
        let answer: Value = serde_json::from_str(&body[..length]).unwrap();
        Schemas::get().response(&frame, &answer).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["status"]), (&json!(1), &json!("ok")));
        rest = body[length..].to_owned();
    }
    assert_eq!(rest, "");
    assert_eq!(bridge.wait().unwrap().code(), Some(0));
}

#[test]
fn no_server_outlives_its_app() {
    let mut app = app();
    app.client();
    let server = app.server().unwrap();
    drop(app);
    is_gone(server);
    assert!(!is_alive(server));
}
