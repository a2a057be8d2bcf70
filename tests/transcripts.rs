//! The transcripts in `tests/transcripts`, played through every door they fit. `UPDATE=1` rewrites them.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use signalbox_testkit::{App, Door, doors_of, play};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts");

macro_rules! transcripts {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                let file = Path::new(FOLDER).join(concat!(stringify!($name), ".txt"));
                play(&file, || App::new(env!("CARGO_BIN_EXE_signalbox")));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

transcripts! {
    handshake,
    plain_turn,
    reasoning,
    reconnect,
    command_approved,
    command_declined,
    command_for_session,
    command_cancelled,
    file_change,
    plan,
    prompt_preview,
    question,
    interrupt_streaming,
    interrupt_command,
    interrupt_approval,
    agent_crash,
    agent_fails,
    steer,
    late_updates,
    two_clients,
    joiner_in_text,
    joiner_with_approval,
    worktree,
    transcript,
    fork,
    revert,
    queue,
    archive_delete,
    import,
    mcp_tool,
    dynamic_tool,
    question_labels,
    only_always,
    late_answer,
    malformed_answer,
    decline_with_message,
    sigterm,
    sigterm_approval,
    restart_in_turn,
    compaction,
    form,
    no_output,
    rate_limits,
    plan_in_prose,
    unattended,
    two_tools_at_once,
    compat,
    settings,
    pages,
    compact_asked,
    patch_grows,
    ephemeral,
    never_ask,
    search,
    explain,
    discover,
}

#[test]
fn unload() {
    let file = Path::new(FOLDER).join("unload.txt");
    let rests = "[limits]\nidle_thread_seconds = 1\n";
    play(&file, || App::new(env!("CARGO_BIN_EXE_signalbox")).config(rests));
}

#[test]
fn every_file_is_played() {
    let mut files: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names = NAMES.to_vec();
    names.push("unload");
    names.sort_unstable();
    assert_eq!(files, names);
}

#[test]
fn every_door_is_gone_through() {
    let files: Vec<_> = NAMES.iter().chain(&["unload"]).map(|name| format!("{name}.txt")).collect();
    let doors: Vec<Vec<Door>> = files.iter().map(|file| doors_of(&Path::new(FOLDER).join(file))).collect();
    for door in Door::ALL {
        let played = doors.iter().filter(|doors| doors.contains(&door)).count();
        // Past the harness, which keeps what a test prints that passes.
        writeln!(std::io::stderr(), "{played} of {} transcripts are played over {door:?}", files.len())
            .unwrap();
        assert!(played > 0, "no transcript is played over {door:?}");
    }
    for all in [Door::Unix, Door::WebSocket] {
        assert!(doors.iter().all(|doors| doors.contains(&all)), "{all:?} is for every transcript");
    }
}

/// What existing clients know and this server tells, but no transcript shows, and why.
const NOT_SHOWN: &[(&str, &str)] = &[];

#[test]
fn every_message_that_existing_clients_know_is_in_a_transcript() {
    let read = |file: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let recorded = read("tests/conformance/codex-v2.schema.json");
    let ours = read("schema/signalbox.schema.json");
    let mut shown = Shown::default();
    for name in NAMES.iter().chain(&["unload"]) {
        let file = Path::new(FOLDER).join(format!("{name}.txt"));
        shown.read(&std::fs::read_to_string(file).unwrap());
    }
    let mut missing = Vec::new();
    for (part, union, shown) in [
        ("requests", "ClientRequestMessage", &shown.answered),
        ("notifications", "ServerNotificationMessage", &shown.told),
        ("serverRequests", "ServerRequestMessage", &shown.asked),
    ] {
        for message in ours["$defs"][union]["oneOf"].as_array().unwrap() {
            let method = message["x-method"].as_str().unwrap();
            let excused = NOT_SHOWN.iter().any(|(known, _why)| *known == method);
            if recorded[part].get(method).is_some() && !shown.contains(method) && !excused {
                missing.push(format!("{part}: {method}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no transcript in tests/transcripts shows (a request with its result):\n  {}",
        missing.join("\n  ")
    );
}

/// The methods that occur in transcripts.
#[derive(Default)]
struct Shown {
    /// Requests that got a result.
    answered: BTreeSet<String>,
    told: BTreeSet<String>,
    asked: BTreeSet<String>,
}

impl Shown {
    fn read(&mut self, transcript: &str) {
        let mut open: BTreeMap<(String, String), String> = BTreeMap::new();
        for line in transcript.lines().filter(|line| !line.starts_with(['#', '@'])) {
            let Some(at) = line.find(['→', '←']) else { continue };
            let sent = line[at..].starts_with('→');
            // What is no JSON is sent on purpose.
            let Ok(frame) = serde_json::from_str::<Value>(line[at..].trim_start_matches(['→', '←']))
            else {
                continue;
            };
            let frames = frame.as_array().cloned().unwrap_or_else(|| vec![frame]);
            for frame in frames {
                let id = (line[..at].to_owned(), frame["id"].to_string());
                let method = frame["method"].as_str().map(str::to_owned);
                match (sent, method, frame.get("id").is_some()) {
                    (true, Some(method), true) => drop(open.insert(id, method)),
                    (false, Some(method), true) => drop(self.asked.insert(method)),
                    (false, Some(method), false) => drop(self.told.insert(method)),
                    (false, None, true) if frame.get("result").is_some() => {
                        self.answered.extend(open.remove(&id));
                    }
                    _ => {}
                }
            }
        }
    }
}
