//! Writes a traffic log on a thread of its own: parses, masks, bounds the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{Entry, Voice};
use crate::masks::Masks;

#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    max_bytes: u64,
    masks: Masks,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, max_bytes: u64, masks: Masks, dropped: Arc<AtomicU64>) -> Self {
        Self { path, max_bytes, masks, dropped }
    }

    /// Writes what comes until nobody can send any more. The error says for people why that did not work.
    pub(super) fn run(&self, entries: mpsc::Receiver<Entry>) -> Result<(), String> {
        self.write_all(entries).map_err(|error| {
            let path = self.path.display();
            tracing::warn!(%error, %path, "an agent's traffic is no longer logged");
            format!("what passes between the server and the agent is not logged: {path}: {error}")
        })
    }

    fn write_all(&self, mut entries: mpsc::Receiver<Entry>) -> io::Result<()> {
        let mut file = self.open()?;
        let mut bytes = file.metadata()?.len();
        while let Some(entry) = entries.blocking_recv() {
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            let lost = (dropped > 0).then(|| json!({ "note": "lost", "lines": dropped }));
            for line in lost.into_iter().chain([self.line(entry)]) {
                let line = format!("{line}\n");
                if bytes > 0 && bytes + line.len() as u64 > self.max_bytes {
                    match fs::rename(&self.path, self.path.with_extension("1.jsonl")) {
                        // It was removed, with its thread: the rest is not to be kept either.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                        renamed => renamed?,
                    }
                    (file, bytes) = (self.open()?, 0);
                }
                file.write_all(line.as_bytes())?;
                bytes += line.len() as u64;
            }
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)
    }

    fn line(&self, entry: Entry) -> Value {
        match entry {
            Entry::Line(Voice::Stderr, at, bytes) => {
                let text = self.masks.text(&String::from_utf8_lossy(&bytes));
                json!({ "note": "stderr", "text": text, "t": millis(at) })
            }
            Entry::Line(voice, at, bytes) => {
                let mut line = heard(voice, at);
                match serde_json::from_slice(&bytes) {
                    Ok(message) => line.insert("msg".to_owned(), self.masks.message(message)),
                    // No message: as it is.
                    Err(_) => {
                        let text = self.masks.text(&String::from_utf8_lossy(&bytes));
                        line.insert("text".to_owned(), Value::from(text))
                    }
                };
                Value::Object(line)
            }
            Entry::TooLong(voice, at, bytes) => {
                let mut line = heard(voice, at);
                line.insert("note".to_owned(), Value::from("too long to be logged"));
                line.insert("bytes".to_owned(), Value::from(bytes));
                Value::Object(line)
            }
            Entry::Started { command, pid } => json!({
                "note": "started", "command": self.masks.text(&command), "pid": pid, "t": 0, "at_ms": now_ms(),
            }),
            Entry::Ended { at, reason, exit_status } => {
                json!({ "note": "ended", "reason": reason, "exitStatus": exit_status, "t": millis(at) })
            }
        }
    }
}

fn heard(voice: Voice, at: Duration) -> Map<String, Value> {
    let voice = match voice {
        Voice::Client => "c2a",
        Voice::Agent => "a2c",
        Voice::Stderr => "stderr",
    };
    Map::from_iter([("dir".to_owned(), Value::from(voice)), ("t".to_owned(), Value::from(millis(at)))])
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_bounded_and_says_what_was_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thread.jsonl");
        let dropped = Arc::new(AtomicU64::new(3));
        let writer = Writer::new(path.clone(), 2_000, Masks::default(), dropped);
        let (sender, waiting) = mpsc::channel(100);
        for n in 0..30 {
            let text = format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(100));
            sender.try_send(Entry::Line(Voice::Agent, Duration::from_millis(n), text.into_bytes())).unwrap();
        }
        drop(sender);
        writer.run(waiting).unwrap();
        let (new, old) = (fs::read_to_string(&path).unwrap(), path.with_extension("1.jsonl"));
        let old = fs::read_to_string(old).unwrap();
        assert!(new.len() <= 2_000 && old.len() <= 2_000);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let last: Value = serde_json::from_str(new.lines().last().unwrap()).unwrap();
        assert_eq!((&last["dir"], &last["msg"]["n"], &last["t"]), (&json!("a2c"), &json!(29), &json!(29)));

        let writer = Writer::new(
            folder.path().join("other.jsonl"),
            2_000,
            Masks::default(),
            Arc::new(AtomicU64::new(3)),
        );
        let (sender, waiting) = mpsc::channel(1);
        sender.try_send(Entry::Line(Voice::Agent, Duration::ZERO, b"no json".to_vec())).unwrap();
        drop(sender);
        writer.run(waiting).unwrap();
        let text = fs::read_to_string(folder.path().join("other.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            lines,
            [json!({ "note": "lost", "lines": 3 }), json!({ "dir": "a2c", "t": 0, "text": "no json" })]
        );
    }
}
