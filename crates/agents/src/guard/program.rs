//! The guard's own process: reads what it is told until the pipe closes, then ends what is left. No runtime, no
//! configuration, no log; it is there for as long as the server is and shall cost next to nothing.

use std::io::{BufRead, BufReader};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{Living, Word};
use crate::process::{Remains, descendants, kill};

/// Agents whose server is dead have this long to end by themselves after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// How often is looked whether they have.
const LOOK: Duration = Duration::from_millis(5);
/// Room for what is read: a few lines.
const READ_BYTES: usize = 4 << 10;

/// Guards the agents of the process that holds the other end of standard input, until that end closes.
#[must_use]
pub fn run() -> ExitCode {
    // Away from the server's terminal and group: what is meant for those is not for us.
    let _ = rustix::process::setsid();
    // What is sent to every process of a machine that shuts down must not end us before the agents. The flag is of no
    // interest; with a handler the signal does nothing.
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        if signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).is_err() {
            return ExitCode::FAILURE;
        }
    }
    let mut living = Living::default();
    let input = BufReader::with_capacity(READ_BYTES, std::io::stdin().lock());
    for line in input.lines() {
        // What cannot be read is as good as the end.
        let Ok(line) = line else { break };
        if let Some(word) = Word::parse(&line) {
            living.hear(word);
        }
    }
    clean_up(living)
}

/// The server is gone, and with it everybody who could be told of anything.
fn clean_up(living: Living) -> ExitCode {
    let mut remains: Vec<Remains> = Vec::new();
    for (mark, group) in living.0 {
        remains.push(Remains { group, mark, descendants: group.map(descendants).unwrap_or_default() });
    }
    if remains.is_empty() {
        return ExitCode::SUCCESS;
    }
    let groups: Vec<Pid> = remains.iter().filter_map(|remains| remains.group).collect();
    for group in &groups {
        // Fails when nobody is left.
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let until = Instant::now() + GRACE;
    while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    if kill(&remains) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
