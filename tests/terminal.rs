//! `signalbox run` at a terminal: what it asks, what keys do, what signals do.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "runs the program under test"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The program's wish for a letter.
const ASKS: &str = "c cancel turn › ";

/// A terminal with the program on it, and somebody who looks and types.
struct Terminal {
    child: Child,
    screen: File,
    seen: String,
    /// How much of it has been looked at.
    read: usize,
    root: TempDir,
}

impl Terminal {
    fn runs(prompt: &str) -> Self {
        Self::runs_with(prompt, &[])
    }

    fn runs_with(prompt: &str, env: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        // Another test's program must not keep it open.
        fcntl_setfd(&screen, FdFlags::CLOEXEC).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        tcsetwinsize(&screen, Winsize { ws_row: 50, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        let keys = || -> OwnedFd { File::options().read(true).write(true).open(&name).unwrap().into() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command.args(["run", prompt]).current_dir(&work).stdin(keys()).stdout(keys()).stderr(keys());
        command.env("SIGNALBOX_HOME", root.path().join("home")).env("TERM", "xterm-256color");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.envs(env.iter().copied());
        let child = command.spawn().unwrap();
        Self { child, screen: screen.into(), seen: String::new(), read: 0, root }
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Waits until this is on the screen, below what was waited for before.
    #[track_caller]
    fn sees(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                self.read += at + text.len();
                return self;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && self.reads(left), "{text:?} does not come:\n{}", self.seen);
        }
    }

    /// Reads what there is; false at the end of everything.
    fn reads(&mut self, left: Duration) -> bool {
        let timeout = Timespec { tv_sec: left.as_secs().try_into().unwrap(), tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.screen, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        // When the program is gone, Linux says that there is an error.
        let count = self.screen.read(&mut bytes).unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    fn types(&mut self, keys: &str) -> &mut Self {
        self.screen.write_all(keys.as_bytes()).unwrap();
        self
    }

    fn signals(&mut self, signal: Signal) -> &mut Self {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self
    }

    #[track_caller]
    fn exits(&mut self, code: i32) -> &str {
        while self.reads(PATIENCE) {}
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{}", self.seen);
        &self.seen
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that has failed leaves nothing running; one that has not finds it ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Nor does the server that it has started.
        let _ = Command::new(env!("CARGO_BIN_EXE_signalbox"))
            .args(["stop", "--force"])
            .env("SIGNALBOX_HOME", self.root.path().join("home"))
            .output();
    }
}

#[test]
fn when_the_terminal_is_closed_it_ends() {
    let mut terminal = Terminal::runs("run touch ran");
    terminal.sees(ASKS);
    terminal.screen = File::open("/dev/null").unwrap();
    let status = terminal.child.wait().unwrap();
    assert_ne!(status.code(), Some(0));
    assert!(!terminal.work().join("ran").exists());
}

#[test]
fn yes_lets_a_command_run() {
    let mut terminal = Terminal::runs("run touch ran; echo well");
    terminal
        .sees("$ touch ran; echo well")
        .sees("Run it?")
        .sees(ASKS)
        .types("y\n")
        .sees("well")
        .sees("exit 0");
    let seen = terminal.exits(0);
    assert!(seen.contains("\u{1b}[1m") && seen.contains("\u{1b}[32m"), "colours: {seen:?}");
    assert!(terminal.work().join("ran").exists());
}

#[test]
fn no_declines_and_the_turn_goes_on() {
    let mut terminal = Terminal::runs("run touch ran\nsay And now?");
    terminal.sees(ASKS).types("n\n").sees("declined").sees("And now?").sees("completed");
    terminal.exits(0);
    assert!(!terminal.work().join("ran").exists());
}

#[test]
fn for_this_session_is_asked_once() {
    let mut terminal = Terminal::runs("run echo same\nrun echo same\nrun echo other");
    terminal.sees(ASKS).types("a\n").sees("$ echo same").sees("exit 0");
    terminal.sees("$ echo other").sees(ASKS).types("n\n").sees("declined");
    let seen = terminal.exits(0);
    assert_eq!(seen.matches("Run it?").count(), 2, "{seen}");
}

#[test]
fn cancel_interrupts_the_turn() {
    let mut terminal = Terminal::runs("run touch ran\nsleep 600000");
    terminal.sees(ASKS).types("c\n").sees("cancelled").sees("interrupted after");
    terminal.exits(130);
    assert!(!terminal.work().join("ran").exists());
}

#[test]
fn what_is_no_answer_is_asked_again() {
    let mut terminal = Terminal::runs("run echo well");
    terminal.sees(ASKS).types("maybe\n").sees("Type y, a, n or c.").sees(ASKS).types("y\n").sees("well");
    terminal.exits(0);
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let mut terminal = Terminal::runs("say First.\nsleep 700\nrun touch ran");
    terminal.sees("First.").types("y\n").sees(ASKS).types("n\n").sees("declined");
    terminal.exits(0);
    assert!(!terminal.work().join("ran").exists());
}

#[test]
fn a_change_is_shown_before_it_is_allowed() {
    let mut terminal = Terminal::runs("write a.txt <<\nhello\n<<");
    terminal.sees("a.txt").sees("+hello").sees("Change it?").sees(ASKS);
    assert!(!terminal.work().join("a.txt").exists(), "nobody has answered");
    terminal.types("y\n").sees("done").sees("completed");
    terminal.exits(0);
    assert_eq!(std::fs::read_to_string(terminal.work().join("a.txt")).unwrap(), "hello\n");
}

#[test]
fn a_question_is_answered_by_number() {
    let mut terminal = Terminal::runs("ask Which one? | red | blue");
    terminal
        .sees("Which one?")
        .sees("1  red")
        .sees("2  blue")
        .sees("› ")
        .types("2\n")
        .sees("blue")
        .sees("completed");
    terminal.exits(0);
}

#[test]
fn questions_that_come_at_once_are_asked_in_order() {
    let mut terminal = Terminal::runs("parallel echo one || echo two");
    terminal.sees("$ echo one").sees(ASKS).types("y\n").sees("$ echo two").sees(ASKS).types("n\n");
    terminal.sees("completed");
    let seen = terminal.exits(0);
    assert!(seen.contains("│\u{1b}[0m one"), "{seen:?}");
    assert!(!seen.contains("│\u{1b}[0m two"), "{seen:?}");
}

#[test]
fn the_end_of_input_declines() {
    let mut terminal = Terminal::runs("run touch ran\nrun touch too");
    terminal
        .sees(ASKS)
        .types("\u{4}")
        .sees("no input any more")
        .sees("$ touch too")
        .sees("declined: no terminal");
    terminal.exits(0);
    assert!(!terminal.work().join("ran").exists());
}

#[test]
fn an_interrupt_ends_the_turn_and_a_second_one_leaves() {
    let mut terminal = Terminal::runs("say Here.\nsleep 600000");
    terminal.sees("Here.").signals(Signal::INT).sees("interrupting").sees("interrupted after");
    terminal.exits(130);

    let mut terminal = Terminal::runs("say Here.\nhang");
    terminal.sees("Here.").signals(Signal::INT).sees("interrupting").signals(Signal::INT);
    terminal.exits(130);
}

#[test]
fn while_nothing_comes_something_moves() {
    let mut terminal = Terminal::runs("sleep 600\nsay Done.");
    terminal.sees("⠋ ").sees("0s").sees("⠙ ").sees("Done.");
    terminal.exits(0);
}

#[test]
fn no_colours_if_not_wanted() {
    let mut terminal = Terminal::runs_with("say Plain.\nrun echo well", &[("NO_COLOR", "1")]);
    terminal.sees("Plain.").sees(ASKS).types("y\n").sees("well").sees("completed");
    let seen = terminal.exits(0);
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
}
