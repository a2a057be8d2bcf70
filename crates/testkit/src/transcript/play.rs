//! Plays a transcript: sends, waits, compares; or writes down what came.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::doors::{self, Door};
use super::holes::{ANY, Holes, steady};
use super::lines::{self, Line};
use crate::PATIENCE;
use crate::app::App;
use crate::client::Client;
use crate::process::is_group_alive;

/// Plays the transcript in `file` through every door that it fits; with `UPDATE=1` rewrites it first. `app` makes a fresh
/// app for each.
///
/// # Panics
/// If something else comes than is written.
pub fn play(file: &Path, app: impl Fn() -> App) {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = || lines::read(&std::fs::read_to_string(file).unwrap(), &name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        let lines = Player::new(app().over_unix(), &name).record(&read());
        let text: String = lines.iter().map(|line| lines::write(line) + "\n").collect();
        std::fs::write(file, text).unwrap();
    }
    for (door, lines) in doors::of(&read()) {
        let app = match door {
            Door::Stdio => app().over_stdio(),
            Door::ContentLength => app().over_content_length(),
            Door::Unix => app().over_unix(),
            Door::Bridges => app().over_bridges(),
            Door::WebSocket => app().over_websocket(),
            Door::Post | Door::Events => app().over_http(),
        };
        let mut player = Player::new(app, &format!("{name} over {door:?}"));
        player.http = matches!(door, Door::Post | Door::Events);
        player.check(&lines);
    }
}

/// The doors that the transcript in `file` is played through.
#[must_use]
pub fn doors_of(file: &Path) -> Vec<Door> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let lines = lines::read(&std::fs::read_to_string(file).unwrap(), &name);
    doors::of(&lines).into_iter().map(|(door, _)| door).collect()
}

struct Player {
    app: App,
    name: String,
    holes: Holes,
    clients: BTreeMap<usize, Actor>,
    capabilities: BTreeMap<usize, Value>,
    agents: Vec<(String, String)>,
    raw: bool,
    /// There are no connections, and so no handshakes.
    http: bool,
}

/// A client, and the item whose deltas are taken as they come.
struct Actor {
    client: Client,
    absorbed: Option<String>,
}

impl Player {
    fn new(app: App, name: &str) -> Self {
        let mut holes = Holes::default();
        let root = app.work().parent().map(|root| root.display().to_string()).unwrap_or_default();
        holes.bind("work", app.work().display().to_string());
        holes.bind("root", root);
        Self {
            app,
            name: name.to_owned(),
            holes,
            clients: BTreeMap::new(),
            capabilities: BTreeMap::new(),
            agents: Vec::new(),
            raw: false,
            http: false,
        }
    }

    fn actor(&mut self, number: usize) -> &mut Actor {
        for next in 1..=number {
            if !self.clients.contains_key(&next) {
                let mut client = self.app.stranger();
                if !self.raw && !self.http {
                    let capabilities = self.capabilities.get(&next).cloned().unwrap_or_else(|| json!({}));
                    client.initializes_with(&format!("client{next}"), capabilities);
                    client.skips_what_came();
                }
                self.clients.insert(next, Actor { client, absorbed: None });
            }
        }
        self.clients.get_mut(&number).expect("made above")
    }

    fn check(mut self, lines: &[Line]) {
        for line in lines {
            match line {
                Line::Text(text) => self.set(text),
                Line::Send { client, frame } => self.send(*client, frame),
                Line::Get { client, frame } => self.expect(*client, frame),
            }
        }
        self.finish();
    }

    fn set(&mut self, text: &str) {
        let Some(text) = text.strip_prefix('@').map(str::trim) else { return };
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (word, rest) {
            ("raw", "") => self.raw = true,
            ("argument", argument) => self.app.add_argument(argument),
            ("agent", agent) => {
                let (name, start) = self.two(agent);
                self.agents.push((name, start));
                self.app.write_agents(&self.agents);
            }
            ("capabilities", of) => {
                let (client, capabilities) = self.two(of);
                let capabilities = serde_json::from_str(&capabilities).unwrap();
                self.capabilities.insert(self.number(&client), capabilities);
            }
            ("leaves", client) => {
                let number = self.number(client);
                let actor = self.clients.remove(&number);
                let actor = actor.unwrap_or_else(|| panic!("{}: client {number} is not there", self.name));
                self.leaves(number, actor);
            }
            ("terminate", "") => self.app.process().terminate(),
            ("ends", code) => {
                let status = self.app.ends();
                assert_eq!(
                    status.code().map(|code| code.to_string()).as_deref(),
                    Some(code),
                    "{}",
                    self.name
                );
                for (number, actor) in std::mem::take(&mut self.clients) {
                    self.ended(number, actor);
                }
            }
            ("kill", "") => {
                self.app.kill();
                self.clients.clear();
            }
            ("restart", "") => {
                self.clients.clear();
                self.app.restart();
            }
            ("group", what) => self.group(what),
            ("file", what) => {
                let (name, line) = self.two(what);
                let text = self.app.file(&name);
                assert_eq!(text, Some(self.holes.fill(&line) + "\n"), "{}: file {name}", self.name);
            }
            ("no", what) => {
                let name = what.strip_prefix("file ").unwrap_or_else(|| panic!("{}: no {what:?}", self.name));
                assert_eq!(self.app.file(name), None, "{}: file {name}", self.name);
            }
            (other, _) => panic!("{}: no setting {other:?}", self.name),
        }
    }

    fn two(&self, text: &str) -> (String, String) {
        match text.split_once(' ') {
            Some((one, other)) => (one.to_owned(), other.trim().to_owned()),
            None => panic!("{}: one word too few in {text:?}", self.name),
        }
    }

    fn number(&self, text: &str) -> usize {
        text.parse().unwrap_or_else(|_| panic!("{}: not a client: {text:?}", self.name))
    }

    /// A client ends its connection, and nothing has come that is not written.
    fn leaves(&self, number: usize, mut actor: Actor) {
        self.nothing_more(number, &mut actor);
        actor.client.leaves();
    }

    /// The server has ended, and said nothing that is not written.
    fn ended(&self, number: usize, mut actor: Actor) {
        let place = actor.client.place();
        actor.client.is_disconnected();
        let more = actor.client.methods_since(place);
        assert!(more.is_empty(), "{}: before the end client {number} got {more:?}", self.name);
    }

    fn group(&self, what: &str) {
        let (wanted, file) = self.two(what);
        let line = self.app.line_of(&file);
        let group =
            line.trim().parse().unwrap_or_else(|_| panic!("{}: no process group: {line:?}", self.name));
        let wanted = match wanted.as_str() {
            "gone" => false,
            "there" => true,
            other => panic!("{}: a group is gone or there, not {other:?}", self.name),
        };
        let deadline = Instant::now() + PATIENCE;
        // A killed process is there until the kernel has taken it apart, and nobody tells when that is.
        while is_group_alive(group) != wanted {
            assert!(Instant::now() < deadline, "{}: the group {group} of {file} is {}", self.name, !wanted);
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn send(&mut self, client: usize, frame: &str) {
        let text = self.holes.fill(frame);
        if let Some(hole) = Holes::unbound(&text) {
            panic!("{}: {hole} is not known yet, in {text}", self.name);
        }
        let client = &mut self.actor(client).client;
        match serde_json::from_str(&text) {
            Ok(frame) => client.sends(&frame),
            // Some transcripts are about lines that are no frames.
            Err(_) => client.sends_line(text.as_bytes()),
        }
    }

    fn expect(&mut self, number: usize, line: &Value) {
        let name = self.name.clone();
        let mut frame = self.next(number, line);
        if let Some(item) = delta_of(line) {
            let wanted = line["params"]["delta"].as_str().unwrap_or_default().to_owned();
            if wanted == ANY {
                self.holes_fit(number, line, &frame);
                let item = self.holes.fill(item);
                self.actor(number).absorbed = Some(item);
                return;
            }
            let wanted = self.holes.fill(&wanted);
            // However the text was cut: gather until it is whole, or something else.
            while let Some(text) = delta_text(&frame)
                && text.len() < wanted.len()
                && wanted.starts_with(text)
            {
                let more = self.take(number);
                let joined = match (delta_text(&more), frame["params"]["itemId"] == more["params"]["itemId"])
                {
                    (Some(more), true) => format!("{text}{more}"),
                    _ => panic!("{name}: {more}\n  came instead of the rest of {line}"),
                };
                frame["params"]["delta"] = Value::String(joined);
            }
        }
        self.holes_fit(number, line, &frame);
    }

    fn holes_fit(&mut self, number: usize, line: &Value, frame: &Value) {
        if let Err(wrong) = self.holes.compare(line, frame, "") {
            let name = &self.name;
            let actor = &self.clients[&number];
            actor.client.fail(&format!("{name}: {wrong}\n  written: {}\n  came:    {frame}", line));
        }
    }

    /// The next frame that is not absorbed.
    fn next(&mut self, number: usize, wanted: &Value) -> Value {
        loop {
            let frame = self.take(number);
            // Told when the last client has left: to nobody, or to the one that has come meanwhile.
            if frame["params"]["reason"] == "unattended" && wanted["method"] != "warning" {
                continue;
            }
            let actor = self.actor(number);
            if let Some(item) = actor.absorbed.clone() {
                if delta_of(&frame) == Some(&item) && delta_of(wanted).is_none() {
                    continue;
                }
                if frame["method"] == "item/completed" && frame["params"]["item"]["id"] == *item {
                    actor.absorbed = None;
                }
            }
            return frame;
        }
    }

    fn take(&mut self, number: usize) -> Value {
        loop {
            let frame = self.actor(number).client.next_frame().value();
            if frame["id"].as_str().is_some_and(|id| id.starts_with(doors::ANSWER)) {
                assert!(frame["result"].is_object(), "{}: an answer was not taken: {frame}", self.name);
                continue;
            }
            return steady(&frame);
        }
    }

    /// Nothing more has come, and what the clients put together is what is stored.
    fn finish(mut self) {
        if self.raw {
            return;
        }
        for (number, mut actor) in std::mem::take(&mut self.clients) {
            self.nothing_more(number, &mut actor);
            for thread in actor.client.model().followed() {
                actor.client.knows_what_is_stored(&thread);
            }
            if self.http {
                actor.client.comes_back_to_its_events();
            }
        }
    }

    fn nothing_more(&self, number: usize, actor: &mut Actor) {
        let place = actor.client.place();
        actor.client.call("thread/loaded/list", json!({}));
        let more = actor.client.methods_since(place);
        let absorbed = |method: &String| actor.absorbed.is_some() && method.ends_with("elta");
        let more: Vec<_> = more.iter().filter(|method| !absorbed(method)).collect();
        assert!(more.is_empty(), "{}: then client {number} got {more:?}", self.name);
    }

    /// Plays the lines and gives them back with what really came.
    fn record(mut self, lines: &[Line]) -> Vec<Line> {
        let mut written = Vec::new();
        let mut rest = lines;
        while let Some(line) = rest.first() {
            match line {
                Line::Text(text) => {
                    self.set(text);
                    written.push(line.clone());
                    rest = &rest[1..];
                }
                Line::Send { client, frame } => {
                    self.send(*client, frame);
                    written.push(line.clone());
                    rest = &rest[1..];
                }
                Line::Get { .. } => {
                    let length = rest.iter().take_while(|line| matches!(line, Line::Get { .. })).count();
                    let (group, more) = rest.split_at(length);
                    written.extend(self.record_group(group));
                    rest = more;
                }
            }
        }
        written
    }

    fn record_group(&mut self, group: &[Line]) -> Vec<Line> {
        let mut by_client: Vec<(usize, Vec<&Value>)> = Vec::new();
        for line in group {
            let Line::Get { client, frame } = line else { continue };
            match by_client.iter_mut().find(|(number, _)| number == client) {
                Some((_, frames)) => frames.push(frame),
                None => by_client.push((*client, vec![frame])),
            }
        }
        let mut written = Vec::new();
        for (client, old) in by_client {
            let frames = self.record_client(client, &old);
            written.extend(frames.into_iter().map(|frame| Line::Get { client, frame }));
        }
        written
    }

    /// What this client gets up to a frame of the kind of the last line.
    fn record_client(&mut self, number: usize, old: &[&Value]) -> Vec<Value> {
        let kinds: Vec<String> = old.iter().map(|line| lines::kind(line)).collect();
        let last = kinds.last().cloned().unwrap_or_default();
        let mut left = kinds.iter().filter(|kind| **kind == last).count();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut frames: Vec<Value> = Vec::new();
        let mut open_end = None;
        while left > 0 {
            let frame = self.take(number);
            let kind = lines::kind(&frame);
            let item = delta_of(&frame).map(str::to_owned);
            if item.is_some() && item == self.actor(number).absorbed {
                continue;
            }
            let before = frames.last().map(|before: &Value| (delta_of(before), delta_text(before)));
            if let (Some((Some(of), Some(text))), Some(item), Some(more)) =
                (before, &item, delta_text(&frame))
                && of == self.holes.line_of(&json!({ "itemId": item }), None)["itemId"]
                && Some(of.to_owned()) != open_end
            {
                let joined = Value::String(format!("{text}{}", more));
                if let Some(before) = frames.last_mut() {
                    before["params"]["delta"] = joined;
                }
                continue;
            }
            let count = seen.entry(kind.clone()).or_default();
            let nth = kinds.iter().enumerate().filter(|(_, known)| **known == kind).nth(*count);
            let before = nth.map(|(at, _)| old[at]);
            *count += 1;
            let line = self.holes.line_of(&frame, before);
            if kind == last {
                left -= 1;
            }
            if line["params"]["delta"] == ANY {
                open_end = delta_of(&line).map(str::to_owned);
                self.actor(number).absorbed = item;
            }
            frames.push(line);
        }
        frames
    }
}

/// The item a delta is about.
fn delta_of(frame: &Value) -> Option<&str> {
    delta_text(frame).and(frame["params"]["itemId"].as_str())
}

fn delta_text(frame: &Value) -> Option<&str> {
    frame["params"]["delta"].as_str()
}
