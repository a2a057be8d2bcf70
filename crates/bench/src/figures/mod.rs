//! The figures, each a line: what was measured, the goal, the raw reference.

mod crowd;
mod doors;
mod history;
mod idle;
mod repository;
mod requests;
mod start;
mod streaming;
mod threads;

use std::path::Path;

use crate::child::Result;

/// One line of the report.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) measured: String,
    pub(crate) goal: &'static str,
    pub(crate) reference: String,
}

type Measure = fn(&Path) -> Result<Vec<Figure>>;

const MEASURES: [(&str, Measure); 18] = [
    ("start", start::to_initialize),
    ("memory", start::idle_memory),
    ("requests", requests::latency_and_rate),
    ("burst", requests::burst),
    ("streaming", streaming::rate),
    ("delay", streaming::delay),
    ("sessions", repository::sessions),
    ("crowd", crowd::hundred),
    ("snapshot", repository::snapshot),
    ("first-prompt", repository::first_prompt),
    ("transcript", history::transcript_page),
    ("long-thread", threads::long_thread),
    ("thread-list", threads::many_threads),
    ("fan-out", threads::fan_out),
    ("doors-requests", doors::requests),
    ("doors-notifications", doors::notifications),
    ("bridge", doors::bridge),
    ("websockets", idle::websockets),
];

/// Runs the measures and prints their figures as they come.
pub(crate) fn run(bin: &Path, only: Option<&str>) -> Result<()> {
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim_end());
    println!("{:<46} {:<30} {:<22} raw reference", "figure", "measured", "goal");
    for (name, measure) in MEASURES {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        for figure in measure(bin)? {
            println!("{:<46} {:<30} {:<22} {}", figure.name, figure.measured, figure.goal, figure.reference);
        }
    }
    Ok(())
}
