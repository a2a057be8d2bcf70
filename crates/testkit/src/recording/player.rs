//! An agent that plays a recording: it waits for what its client said and says what the agent said, in the recorded order.
//!
//! It holds its client to the order of prompts, and to answering what is asked of it; all else may differ. A request that the recording
//! does not have at that place is answered as the recording answers its like, and what is recorded but not asked is passed over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write};
use std::process::exit;

use serde_json::{Value, json};

use super::{Line, Process, RECORDED_CWD, RECORDED_HOME, method, read};

/// Variable: the recording's file.
pub const RECORDING: &str = "SIGNALBOX_TESTKIT_RECORDING";
/// Variable: a file that counts the starts, so that each process plays its own part; the last part serves all later ones.
pub const STARTS: &str = "SIGNALBOX_TESTKIT_STARTS";
/// Variable: a file to which each line that is read is appended.
pub const HEARD: &str = "SIGNALBOX_TESTKIT_HEARD";

/// Plays the recording that the environment names, until the end of the input.
///
/// # Panics
/// If there is no such recording. Whatever the client does is no reason.
pub fn play_recording() -> ! {
    let path = std::env::var(RECORDING).expect("the recording is named");
    let processes = read(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")));
    let start = std::env::var(STARTS).map_or(0, |path| this_start(&path));
    let script = processes.get(start).or(processes.last()).cloned().unwrap_or_default();
    let heard = std::env::var(HEARD).ok();
    let heard = heard.and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok());
    Player {
        script,
        at: 0,
        ids: HashMap::new(),
        answered: HashSet::new(),
        folder: None,
        early: VecDeque::new(),
        heard,
    }
    .play()
}

fn this_start(path: &str) -> usize {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    let before = file.metadata().map_or(0, |data| data.len());
    file.write_all(b".").unwrap_or_else(|error| panic!("{path}: {error}"));
    usize::try_from(before).unwrap_or(usize::MAX)
}

struct Player {
    script: Process,
    at: usize,
    /// Recorded id of a client's request to the one it has now.
    ids: HashMap<String, Value>,
    /// The agent's own requests that have their answer.
    answered: HashSet<String>,
    /// The session's directory, and the folder around it.
    folder: Option<(String, String)>,
    /// Prompts and cancels that came while something else was waited for.
    early: VecDeque<Value>,
    heard: Option<File>,
}

impl Player {
    fn play(mut self) -> ! {
        while let Some(line) = self.script.get(self.at).cloned() {
            match line {
                Line::Agent(message) => self.says(message),
                Line::Raw(text) => write(&text),
                Line::Stderr(text) => {
                    // Nobody may read it.
                    let _ = writeln!(std::io::stderr(), "{text}");
                }
                Line::Stay => stay(),
                Line::Exit(code) => exit(code),
                Line::Client(message) if method(&message).is_some() => {
                    // It moves on by itself.
                    self.awaits();
                    continue;
                }
                Line::Client(message) => {
                    let id = message["id"].to_string();
                    while !self.answered.contains(&id) {
                        let next = self.receive();
                        match method(&next) {
                            Some("session/prompt" | "session/cancel") => self.early.push_back(next),
                            _ => self.aside(&next),
                        }
                    }
                }
            }
            self.at += 1;
        }
        loop {
            let next = self.receive();
            self.aside(&next);
        }
    }

    /// What the agent says, in the directory and with the ids of now.
    fn says(&self, mut message: Value) {
        if method(&message).is_none() && !message["id"].is_null() {
            // An answer to something that was not asked this time is left out.
            let Some(id) = self.ids.get(&message["id"].to_string()) else { return };
            message["id"] = id.clone();
            self.offer_only_what_is_recorded(&mut message);
        }
        write(&self.placed(&message.to_string()));
    }

    fn placed(&self, text: &str) -> String {
        let Some((cwd, home)) = &self.folder else { return text.to_owned() };
        // The directory first, because it begins with the folder; the mark keeps what was put in from being replaced again.
        let text = text.replace(RECORDED_CWD, "\u{1}");
        let text = text.replace(&format!("{RECORDED_HOME}/"), &format!("{home}/"));
        text.replace('\u{1}', cwd)
    }

    /// Where the recording goes on with `session/load`, that must be the only way.
    fn offer_only_what_is_recorded(&self, answer: &mut Value) {
        let loads =
            |line: &Line| matches!(line, Line::Client(message) if method(message) == Some("session/load"));
        if self.script.iter().any(loads)
            && let Some(Value::Object(capabilities)) =
                answer.pointer_mut("/result/agentCapabilities/sessionCapabilities")
        {
            capabilities.remove("resume");
        }
    }

    /// Waits for the request or notification at this place, or one for which the script has a later place.
    fn awaits(&mut self) {
        let next = self.early.pop_front().unwrap_or_else(|| self.receive());
        let Some(name) = method(&next).map(str::to_owned) else { return self.aside(&next) };
        let place = self.script.iter().enumerate().skip(self.at).find_map(|(at, line)| match line {
            Line::Client(message) if method(message) == Some(&*name) => Some(at),
            _ => None,
        });
        let Some(place) = place.filter(|place| self.may_pass_over(*place)) else { return self.aside(&next) };
        if let Line::Client(recorded) = &self.script[place]
            && let Some(id) = next.get("id")
        {
            self.ids.insert(recorded["id"].to_string(), id.clone());
        }
        if let Some(Value::String(cwd)) = next.pointer("/params/cwd") {
            let home = cwd.rsplit_once('/').map_or("", |(home, _)| home);
            self.folder = Some((cwd.clone(), home.to_owned()));
        }
        self.at = place + 1;
        self.passes_over_history(place, &next);
    }

    /// What is only told because it was asked for is not told to those who do not ask.
    fn passes_over_history(&mut self, place: usize, asked: &Value) {
        let Line::Client(recorded) = &self.script[place] else { return };
        if recorded.pointer("/params/replayFrom").is_some() && asked.pointer("/params/replayFrom").is_none() {
            let is_answer = |line: &Line| matches!(line, Line::Agent(message) if method(message).is_none() && message["id"] == recorded["id"]);
            let answer = self.script.iter().skip(place).position(is_answer);
            self.at = answer.map_or(self.at, |behind| place + behind);
        }
    }

    /// Whether nothing that matters lies between here and there: no prompt, and no cancel of one.
    fn may_pass_over(&self, place: usize) -> bool {
        self.script[self.at..place].iter().all(|line| match line {
            Line::Client(message) => !matches!(method(message), Some("session/prompt" | "session/cancel")),
            _ => true,
        })
    }

    /// What the script does not wait for: answers are noted, requests are answered as their like is in the recording.
    fn aside(&mut self, message: &Value) {
        match (method(message), message.get("id")) {
            (None, Some(id)) => {
                self.answered.insert(id.to_string());
            }
            (Some(name), Some(id)) => {
                let mut answer = self.recorded_answer(name, &message["params"]).unwrap_or_else(
                    || json!({"error": {"code": -32601, "message": format!("not in the recording: {name}")}}),
                );
                answer["id"] = id.clone();
                write(&self.placed(&answer.to_string()));
            }
            _ => {}
        }
    }

    /// How the recording answers this method: with these params if there is such a request, else as it did first.
    fn recorded_answer(&self, name: &str, params: &Value) -> Option<Value> {
        let asked = |line: &Line| match line {
            Line::Client(message) if method(message) == Some(name) => Some(message.clone()),
            _ => None,
        };
        let same = |request: &Value| {
            let request = request["params"].as_object();
            request.is_some_and(|all| all.iter().all(|(key, value)| params.get(key) == Some(value)))
        };
        let requests: Vec<Value> = self.script.iter().filter_map(asked).collect();
        match requests.iter().find(|request| same(request)) {
            Some(request) => self.answer_to(&request["id"]),
            // It took all that was recorded, so it takes others too.
            None if name == "session/set_config_option" => self.options_with(params),
            None if matches!(name, "session/set_mode" | "session/set_model") => Some(json!({"result": {}})),
            None => self.answer_to(&requests.first()?["id"]),
        }
    }

    fn answer_to(&self, id: &Value) -> Option<Value> {
        self.script.iter().find_map(|line| match line {
            Line::Agent(message) if method(message).is_none() && message["id"] == *id => {
                Some(message.clone())
            }
            _ => None,
        })
    }

    /// All options as they were when the session was opened, with this one set.
    fn options_with(&self, params: &Value) -> Option<Value> {
        let mut options = self.script.iter().find_map(|line| match line {
            Line::Agent(message) => message.pointer("/result/configOptions").cloned(),
            _ => None,
        })?;
        let mut options_list = options.as_array_mut()?.iter_mut();
        options_list.find(|option| option["id"] == params["configId"])?["currentValue"] =
            params["value"].clone();
        Some(json!({"result": {"configOptions": options}}))
    }

    /// The next message of the client; leaves at the end of the input.
    fn receive(&mut self) -> Value {
        loop {
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
                exit(0);
            }
            if let Some(heard) = &mut self.heard {
                // Only tests that look at it mind.
                let _ = heard.write_all(line.as_bytes());
            }
            if let Ok(message) = serde_json::from_str(&line) {
                return message;
            }
        }
    }
}

fn write(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever stopped us does not read any more.
    if out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_err()
    {
        exit(1)
    }
}

/// Until SIGKILL.
fn stay() -> ! {
    loop {
        std::thread::park();
    }
}
