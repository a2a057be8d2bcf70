//! The traffic log: everything that passes between us and one session's agent, in a file, for those who look for a fault.
//!
//! Off unless it is configured, and then no step of the conversation waits for it: lines go through a bounded queue to a
//! thread that parses, masks and writes. What does not fit is counted and noted in the file. Lines look like
//! `{"dir":"a2c","msg":{…},"t":12}`: the direction (client to agent or agent to client), the message, milliseconds since the
//! agent's start. Notes have `note` instead of `dir`.

mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::masks::Masks;
use crate::spec::{LaunchSpec, OpenSession};
use writer::Writer;

/// Entries that may wait to be written.
const ENTRIES: usize = 1024;
/// Longer lines are not copied; only their length is noted.
const LINE_BYTES: usize = 256 << 10;
/// A file of this size becomes the one before, and a new one begins; the one before that is gone.
const FILE_BYTES: u64 = 16 << 20;

/// Who said something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Voice {
    Client,
    Agent,
    Stderr,
}

/// What waits to be written.
#[derive(Debug)]
enum Entry {
    Line(Voice, Duration, Vec<u8>),
    /// Only how long it was.
    TooLong(Voice, Duration, usize),
    Started {
        command: String,
        pid: Option<u32>,
    },
    Ended {
        at: Duration,
        reason: &'static str,
        exit_status: Option<String>,
    },
}

/// The driver's end of a traffic log.
#[derive(Debug)]
pub(crate) struct Traffic {
    entries: mpsc::Sender<Entry>,
    dropped: Arc<AtomicU64>,
    /// Why nothing is written any more, and whether that was asked for.
    failure: Arc<OnceLock<String>>,
    failure_told: bool,
    begun: Instant,
    sent: Pieces,
    stderr: Pieces,
}

impl Traffic {
    /// Begins one, if this session has any. Its writer is a task of `tracker`, and ends with this.
    pub(crate) fn begin(
        spec: &LaunchSpec,
        open: Option<&OpenSession>,
        tracker: &TaskTracker,
    ) -> Option<Self> {
        let file: PathBuf = open?.traffic_log.clone()?;
        let masks = Masks::of(spec, open);
        let (entries, waiting) = mpsc::channel(ENTRIES);
        let dropped = Arc::<AtomicU64>::default();
        let writer = Writer::new(file, FILE_BYTES, masks, Arc::clone(&dropped));
        let failure = Arc::<OnceLock<String>>::default();
        let why = Arc::clone(&failure);
        tracker.spawn_blocking(move || {
            if let Err(message) = writer.run(waiting) {
                // There is one writer.
                let _ = why.set(message);
            }
        });
        Some(Self {
            entries,
            dropped,
            failure,
            failure_told: false,
            begun: Instant::now(),
            sent: Pieces::default(),
            stderr: Pieces::default(),
        })
    }

    /// Why the log cannot be written, once.
    pub(crate) fn failed(&mut self) -> Option<String> {
        let why = self.failure.get().filter(|_| !self.failure_told)?.clone();
        self.failure_told = true;
        Some(why)
    }

    pub(crate) fn started(&self, spec: &LaunchSpec, pid: Option<u32>) {
        let words = std::iter::once(&spec.command).chain(&spec.args).map(String::as_str);
        self.put(Entry::Started { command: words.collect::<Vec<_>>().join(" "), pid });
    }

    pub(crate) fn ended(&mut self, reason: &'static str, exit_status: Option<String>) {
        if let Some(rest) = self.stderr.rest() {
            self.line(Voice::Stderr, &rest);
        }
        self.put(Entry::Ended { at: self.begun.elapsed(), reason, exit_status });
    }

    /// Bytes that were written to the agent.
    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        for line in self.sent.lines(bytes) {
            self.line(Voice::Client, &line);
        }
    }

    /// A line of the agent.
    pub(crate) fn heard(&self, line: &[u8]) {
        self.line(Voice::Agent, line);
    }

    /// Bytes of the agent's stderr.
    pub(crate) fn errors(&mut self, bytes: &[u8]) {
        for line in self.stderr.lines(bytes) {
            self.line(Voice::Stderr, &line);
        }
    }

    fn line(&self, voice: Voice, line: &[u8]) {
        let at = self.begun.elapsed();
        self.put(match line.len() {
            0 => return,
            1..=LINE_BYTES => Entry::Line(voice, at, line.to_vec()),
            bytes => Entry::TooLong(voice, at, bytes),
        });
    }

    fn put(&self, entry: Entry) {
        if self.entries.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes lines of pieces, so that no secret is cut in two where a piece ends.
#[derive(Debug, Default)]
struct Pieces {
    begun: Vec<u8>,
}

impl Pieces {
    fn lines(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            lines.push(std::mem::take(&mut self.begun));
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
        lines
    }

    /// Of a line that is too long to be logged only so much is kept that it is seen to be.
    fn add(&mut self, bytes: &[u8]) {
        let room = (LINE_BYTES + 1).saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.begun)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines_and_a_giant_is_bounded() {
        let mut pieces = Pieces::default();
        assert!(pieces.lines(b"one").is_empty());
        assert_eq!(pieces.lines(b" more\n\nnext"), [b"one more".to_vec(), Vec::new()]);
        assert_eq!(pieces.rest().as_deref(), Some(&b"next"[..]));
        for _ in 0..10 {
            assert!(pieces.lines(&vec![b'x'; LINE_BYTES]).is_empty());
        }
        assert_eq!(pieces.lines(b"\n")[0].len(), LINE_BYTES + 1);
    }
}
