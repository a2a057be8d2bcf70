//! `signalbox run` and its siblings as somebody without a terminal meets them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "runs the program under test"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use signalbox_testkit::Schemas;
use tempfile::TempDir;

/// A home and a small repository to work in.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.work().join("src")).unwrap();
        fs::write(place.work().join("README.md"), "# Toy\n\nA toy.\n").unwrap();
        fs::write(place.work().join("Cargo.toml"), "[package]\nname = \"toy\"\n").unwrap();
        fs::write(place.work().join("src/main.rs"), "fn main() {}\n").unwrap();
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["add", "."]);
        place.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "The first commit"]);
        place
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn git(&self, args: &[&str]) {
        let status = Command::new("git").args(args).current_dir(self.work()).status().unwrap();
        assert!(status.success());
    }

    fn signalbox(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command.args(args).current_dir(self.work()).stdin(Stdio::null());
        command.env("SIGNALBOX_HOME", self.home()).env_remove("RUST_LOG");
        command
    }

    fn says(&self, args: &[&str]) -> Said {
        self.signalbox(args).output().unwrap().into()
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work().join(name)).ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The server that a command has started stays; nothing of it may outlive the test.
        let _ = self.signalbox(&["stop", "--force"]).output();
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

impl Said {
    #[track_caller]
    fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    fn shows(&self, text: &str) -> &Self {
        assert!(self.out.contains(text), "{text:?} is not in\n{}\nstderr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    fn hides(&self, text: &str) -> &Self {
        assert!(!self.out.contains(text), "{text:?} is in\n{}", self.out);
        self
    }

    #[track_caller]
    fn complains(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "{text:?} is not in\n{}", self.err);
        self
    }
}

#[test]
fn a_stranger_sees_a_whole_turn() {
    let place = Place::new();
    let said = place.says(&["run", "Look around"]);
    said.exits(0)
        .shows("rehearsal in ")
        .shows("▸ Look around")
        .shows("┆ There is no model behind me")
        .shows("• Read README.md")
        .shows("Cargo package `toy`")
        .shows("$ git log --oneline -5\n└ declined: no terminal to ask on; use --policy yolo to allow")
        .shows("± REHEARSAL-NOTE.md (new, +")
        .shows("│ +# Rehearsal note")
        .shows("✓ Propose a note")
        .shows("✓ completed in ")
        .shows("Go on: signalbox run --thread ")
        .hides("The first commit")
        .hides("\u{1b}");
    assert_eq!(said.err, "");
    assert_eq!(place.file("REHEARSAL-NOTE.md"), None, "nothing was written without permission");
}

#[test]
fn the_last_thread_of_the_directory_is_gone_on_with() {
    let thread =
        |said: &Said| said.out.split("--thread ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let place = Place::new();
    place.says(&["run", "--last", "say None."]).exits(2).complains("there is no thread of ");
    let first = place.says(&["run", "say One."]);
    let second = place.says(&["run", "--last", "say Two."]);
    second.exits(0).shows("Two.");
    assert_eq!(thread(&first), thread(&second));
}

#[test]
fn yolo_really_acts() {
    let place = Place::new();
    let said = place.says(&["run", "--policy", "yolo", "Look around"]);
    said.exits(0)
        .shows("The first commit")
        .shows("└ exit 0")
        .shows("└ done")
        .shows("1 file changed, +")
        .hides("declined");
    assert!(place.file("REHEARSAL-NOTE.md").unwrap().starts_with("# Rehearsal note"));
}

#[test]
fn accept_edits_writes_but_runs_nothing() {
    let place = Place::new();
    let prompt = "write a.txt <<\nhello\n<<\nrun touch b.txt";
    place
        .says(&["run", "--policy", "accept_edits", prompt])
        .exits(0)
        .shows("± a.txt (new, +1)\n│ +hello\n└ done")
        .shows("└ declined: no terminal");
    assert_eq!(place.file("a.txt").as_deref(), Some("hello\n"));
    assert_eq!(place.file("b.txt"), None);
}

#[test]
fn a_diff_shows_what_changes() {
    let place = Place::new();
    let prompt = "write README.md <<\n# Toy\n\nA better toy.\n<<\ndelete src/main.rs";
    place
        .says(&["run", "--policy", "yolo", prompt])
        .exits(0)
        .shows("± README.md (+1 -1)\n│ @@ -1,3 +1,3 @@\n│  # Toy\n│  \n│ -A toy.\n│ +A better toy.\n└ done")
        .shows("± src/main.rs (deleted, -1)\n│ -fn main() {}\n└ done")
        .shows("2 files changed, +1 -2");
}

#[test]
fn a_failing_command_and_much_output_are_told() {
    let place = Place::new();
    let said = place.says(&["run", "--policy", "yolo", "run seq 1 1000; echo oops >&2; exit 3"]);
    said.exits(0).shows("│ 40\n│ … 951 more lines …\n│ 992\n").shows("│ oops\n└ exit 3 · ").hides("│ 41\n");
}

#[test]
fn what_would_upset_a_terminal_is_taken_out() {
    let place = Place::new();
    let prompt = "say plain \u{1b}]0;title\u{7}text \u{1b}[2Jend\nrun printf '\\033[31mred\\033[0m\\n'";
    place
        .says(&["run", "--policy", "yolo", prompt])
        .exits(0)
        .shows("plain text end")
        .shows("│ red\n")
        .hides("\u{1b}");
}

#[test]
fn questions_are_declined_too() {
    let place = Place::new();
    place
        .says(&["run", "ask Which one? | red | blue\nsay Then not."])
        .exits(0)
        .shows("declined: no terminal to ask on")
        .shows("Then not.");
}

#[test]
fn the_prompt_may_come_from_stdin() {
    let place = Place::new();
    let mut child =
        place.signalbox(&["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"say From a pipe.\n").unwrap();
    Said::from(child.wait_with_output().unwrap()).exits(0).shows("From a pipe.");
}

#[test]
fn a_failed_turn_is_exit_1_with_the_reason() {
    let place = Place::new();
    place.says(&["run", "fail Out of coal"]).exits(1).shows("Out of coal").shows("✗ failed in ");
    place
        .says(&["run", "stderr the boiler leaks\nsay One.\ncrash 3"])
        .exits(1)
        .shows("One.")
        .shows("exit status: 3")
        .shows("│ the boiler leaks");
}

#[test]
fn an_agent_that_does_not_start_is_exit_1() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    let binary = env!("CARGO_BIN_EXE_signalbox");
    let config = format!(
        "[providers.broken]\ncommand = {binary:?}\nargs = [\"rehearsal\"]\n\
         env = {{ SIGNALBOX_REHEARSAL_START = \"exit:4\" }}\n"
    );
    fs::write(place.home().join("config.toml"), config).unwrap();
    place.says(&["run", "-p", "broken", "say hi"]).exits(1).shows("✗ failed").shows("leaving with code 4");
}

#[test]
fn what_cannot_begin_is_exit_2_and_says_what_helps() {
    let place = Place::new();
    place
        .says(&["run", "-p", "nonsense", "x"])
        .exits(2)
        .complains("there is no provider \"nonsense\"")
        .complains("doctor");
    place
        .signalbox(&["run", "-p", "claude_code", "x"])
        .env("PATH", "/nowhere")
        .output()
        .map(Said::from)
        .unwrap()
        .exits(2)
        .complains("claude_code is not available")
        .complains("npm install");
    place
        .says(&["run", "--cwd", "/no/such/folder", "x"])
        .exits(2)
        .complains("cannot work in /no/such/folder");
    place.says(&["run", "--cwd", "README.md", "x"]).exits(2).complains("not a directory");
    place.says(&["run", "  "]).exits(2).complains("the prompt is empty");
    place.says(&["run"]).exits(2);
    place.says(&["app-server", "--listen", "pigeon://x"]).exits(2).complains("stdio://, unix://");
    place.says(&["-c", "limits.stall_seconds=soon", "run", "x"]).exits(2).complains("limits.stall_seconds");
}

#[test]
fn a_bad_configuration_is_named_with_its_line() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    fs::write(place.home().join("config.toml"), "\ndefault_provder = \"codex\"\n").unwrap();
    place
        .says(&["run", "x"])
        .exits(2)
        .complains("config.toml:2")
        .complains("default_provder")
        .complains("default_provider");
    place.says(&["doctor"]).exits(1).shows("✗ config.toml").shows("config.toml:2");
}

#[test]
fn an_unknown_override_is_only_a_warning() {
    let place = Place::new();
    place
        .says(&["-c", "features.x=true", "run", "say hi"])
        .exits(0)
        .shows("! -c features.x: unknown key")
        .shows("hi");
}

#[test]
fn json_is_one_notification_a_line() {
    let place = Place::new();
    let said = place.says(&["run", "--json", "say Hello.\nrun touch x"]);
    said.exits(0).complains("touch x: declined: no terminal to ask on");
    let frames: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let methods: Vec<&str> = frames.iter().map(|frame| frame["method"].as_str().unwrap()).collect();
    assert_eq!(methods[0], "thread/started");
    assert_eq!(methods.last(), Some(&"turn/completed"));
    for method in ["turn/started", "item/agentMessage/delta", "approval/requested", "serverRequest/resolved"]
    {
        assert!(methods.contains(&method), "{method} is not in {methods:?}");
    }
    assert_eq!(frames[0]["params"]["thread"]["source"], "cli");
    let last = frames.last().unwrap();
    assert_eq!(last["params"]["turn"]["status"], "completed");
    assert!(frames.iter().all(|frame| frame["emittedAtMs"].is_i64()));
}

#[test]
fn who_stops_reading_ends_it() {
    let place = Place::new();
    let mut child = place.signalbox(&["run", "stream 1000000 60 1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("rehearsal in "));
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_signal_interrupts_the_turn() {
    let place = Place::new();
    let mut child =
        place.signalbox(&["run", "say Waiting.\nsleep 600000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"Waiting.") {
        let mut piece = [0; 256];
        let count = out.read(&mut piece).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    out.read_to_end(&mut seen).unwrap();
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("! interrupting") && seen.contains("■ interrupted after "), "{seen}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_home_has_one_server() {
    let place = Place::new();
    let mut first = place
        .signalbox(&["app-server", "--standalone"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = first.stdin.take().unwrap();
    let hello = json!({ "id": 1, "method": "initialize",
                        "params": { "clientInfo": { "name": "t", "version": "1" } } });
    writeln!(stdin, "{hello}").unwrap();
    let mut answer = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    Schemas::get().response(&hello, &serde_json::from_str(&answer).unwrap()).unwrap();
    assert!(answer.contains("t/1."), "{answer}");

    let holder = format!("in use by signalbox app-server (process {}", first.id());
    place.says(&["app-server", "--standalone"]).exits(2).complains(&holder);
    place.says(&["run", "say hi"]).exits(2).complains(&holder).complains("--home");
    place.says(&["doctor"]).exits(0).shows(&holder);

    drop(stdin);
    assert_eq!(first.wait().unwrap().code(), Some(0), "the end of stdin is the end of the server");
    place.says(&["run", "say hi"]).exits(0);
}

#[test]
fn doctor_tells_what_is_there() {
    let place = Place::new();
    place
        .says(&["doctor"])
        .exits(0)
        .shows("✓ rehearsal")
        .shows("the default one")
        .shows("✓ git")
        .hides("\u{1b}");
    let said = place.says(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&said.exits(0).out).unwrap();
    assert_eq!(report["broken"], false);
    let names: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|found| found["name"].as_str().unwrap()).collect();
    for name in ["folder", "config.toml", "database", "rehearsal", "codex", "git", "terminal"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    place.says(&["-c", "default_provider=nobody", "doctor"]).exits(1).shows("there is no provider nobody");
}

#[test]
fn doctor_finds_a_broken_database_and_home() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    fs::write(
        place.home().join("signalbox.db"),
        "no database at all, for sure, and long enough to be looked at",
    )
    .unwrap();
    place.says(&["doctor"]).exits(1).shows("✗ database").shows("move ");
    let file = place.work().join("README.md");
    place
        .says(&["--home", &file.display().to_string(), "doctor"])
        .exits(1)
        .shows("✗ folder")
        .shows("--home DIR");
}

#[test]
fn the_help_has_examples_and_exit_codes() {
    let place = Place::new();
    place.says(&["--help"]).exits(0).shows("signalbox run \"Look around\"").hides("rehearsal  ");
    place.says(&["run", "--help"]).exits(0).shows("Exit codes:").shows("130").shows("Ctrl-C");
    place.says(&["app-server", "--help"]).exits(0).shows("--standalone").shows("unix:///tmp/box.sock");
    assert!(Path::new(env!("CARGO_BIN_EXE_signalbox")).exists());
}

#[test]
fn a_session_that_the_agent_keeps_is_listed_adopted_and_gone_on_with() {
    let place = Place::new();
    assert_eq!(place.says(&["run", "title Amber\nsay The key is amber."]).code, Some(0));
    let listed = place.says(&["import", "--provider", "rehearsal", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let own = listed["data"][0]["sessionId"].as_str().unwrap();
    let thread = listed["data"][0]["threadId"].as_str().unwrap();
    let refused = place.says(&["import", "--provider", "rehearsal", own]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(&format!("is thread {thread}")), "{refused:?}");
    assert!(refused.err.contains(&format!("signalbox run --thread {thread}")), "{refused:?}");

    // The home forgets; the agent does not.
    assert_eq!(place.says(&["stop"]).code, Some(0));
    for file in fs::read_dir(place.home()).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("signalbox.db") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let listed = place.says(&["import", "--provider", "rehearsal"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains(own) && listed.out.contains("Amber") && !listed.out.contains("thread "));
    let elsewhere = place.says(&["import", "--provider", "rehearsal", "--cwd", "src"]);
    assert!(elsewhere.out.contains("has no sessions in"), "{elsewhere:?}");
    let adopted = place.says(&["import", "--provider", "rehearsal", "--last"]);
    assert_eq!(adopted.code, Some(0), "{adopted:?}");
    let thread = adopted.out.lines().find_map(|line| line.strip_prefix("thread  ")).unwrap();
    assert!(adopted.out.contains("title   Amber"), "{adopted:?}");
    let again = place.says(&["import", "--provider", "rehearsal", "--last"]);
    assert!(again.code == Some(1) && again.err.contains("has no session to adopt"), "{again:?}");

    let on = place.says(&["run", "--thread", thread, "say The lock is amber too."]);
    assert_eq!(on.code, Some(0), "{on:?}");
    assert!(on.out.contains("The lock is amber too.") && !on.out.contains("The key"), "{on:?}");
}

#[test]
fn what_cannot_be_imported_says_why_and_what_would_help() {
    let place = Place::new();
    let binary = env!("CARGO_BIN_EXE_signalbox");
    let provider = |name: &str, start: &str| {
        format!(
            "[providers.{name}]\ncommand = {binary:?}\nargs = [\"rehearsal\"]\nenv = {{ SIGNALBOX_REHEARSAL_START = \"{start}\" }}\n"
        )
    };
    fs::create_dir_all(place.home()).unwrap();
    fs::write(
        place.home().join("config.toml"),
        provider("locked", "auth")
            + &provider("shy", "no-list")
            + "[providers.missing]\ncommand = \"no-such-agent\"\n",
    )
    .unwrap();
    for (args, wanted) in [
        (&["--provider", "locked"][..], "wants a login"),
        (&["--provider", "shy"], "whose id and directory are known"),
        (&["--provider", "shy", "0199f0c2-7c1e-7d3a-9b1e-2f6f0a4f7d11"], "--cwd DIR names it"),
        (&["--provider", "missing"], "no-such-agent"),
        (&["--provider", "nobody"], "signalbox doctor"),
    ] {
        let refused = place.says(&[&["import"], args].concat());
        assert_eq!(refused.code, Some(1), "{args:?}: {refused:?}");
        assert!(refused.err.contains(wanted), "{args:?}: {refused:?}");
    }
    assert_eq!(place.says(&["import", "--provider", "shy", "--cwd", "no-such-folder"]).code, Some(2));
}
