//! A client without a connection of its own: each call a POST, and the thread it starts followed as an event stream.
//!
//! What comes is put in the order in which a client on one connection gets it: an answer before what its call caused.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::PATIENCE;

/// The calls, and the place in which frames come together.
pub(crate) struct Http {
    socket: PathBuf,
    shared: Arc<Shared>,
    stream: Option<UnixStream>,
}

struct Shared {
    frames: Mutex<SyncSender<Vec<u8>>>,
    /// What the event stream has told, with its ids.
    told: Mutex<Vec<Event>>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: Option<String>,
    name: String,
    data: Vec<u8>,
}

impl Http {
    pub(crate) fn new(socket: &Path, frames: SyncSender<Vec<u8>>) -> Self {
        let shared = Arc::new(Shared { frames: Mutex::new(frames), told: Mutex::default() });
        Self { socket: socket.to_owned(), shared, stream: None }
    }

    /// Posts a frame. Its answer is there when this returns; if it has started the first thread, that is followed.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // While it is held, no event overtakes the answer.
        let shared = self.shared.clone();
        let frames = shared.frames.lock().unwrap();
        let Some(answer) = self.post(frame)? else { return Ok(()) };
        let started = thread_of(frame, &answer).filter(|_| self.stream.is_none());
        // Nobody may be waiting any more.
        let _ = frames.send(answer);
        match started {
            Some(thread) => self.follow(&thread, &frames),
            None => Ok(()),
        }
    }

    fn post(&self, frame: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut stream = self.connect()?;
        write!(
            stream,
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            frame.len()
        )?;
        stream.write_all(frame)?;
        let mut reader = BufReader::new(stream);
        let status = head(&mut reader)?;
        let mut body = Vec::new();
        reader.read_to_end(&mut body)?;
        match status {
            200 => Ok(Some(body)),
            202 => Ok(None),
            other => panic!("HTTP {other}: {}", String::from_utf8_lossy(&body)),
        }
    }

    /// Opens the event stream of a thread; it begins with what a client that starts a thread knows from the answer.
    fn follow(&mut self, thread: &str, _held: &MutexGuard<'_, SyncSender<Vec<u8>>>) -> io::Result<()> {
        let mut events = self.events(thread, None)?;
        self.stream = Some(events.get_ref().try_clone()?);
        for expected in ["thread/snapshot", "thread/activity/changed"] {
            let event = next(&mut events)?.unwrap_or_else(|| panic!("the stream of {thread} ended"));
            assert_eq!(event.name, expected, "an event stream begins with what is");
            self.shared.told.lock().unwrap().push(event);
        }
        let shared = self.shared.clone();
        thread::spawn(move || {
            while let Ok(Some(event)) = next(&mut events) {
                // Why the stream ends is said by itself alone, and by no notification.
                if event.name == "end" {
                    break;
                }
                let frames = shared.frames.lock().unwrap();
                shared.told.lock().unwrap().push(event.clone());
                if frames.send(event.data).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn events(&self, thread: &str, after: Option<&str>) -> io::Result<BufReader<UnixStream>> {
        let mut stream = self.connect()?;
        // HTTP/1.0: the body is the stream itself, in no chunks.
        write!(stream, "GET /threads/{thread}/events HTTP/1.0\r\nHost: localhost\r\n")?;
        if let Some(after) = after {
            write!(stream, "Last-Event-ID: {after}\r\n")?;
        }
        stream.write_all(b"\r\n")?;
        let mut events = BufReader::new(stream);
        assert_eq!(head(&mut events)?, 200, "the stream of {thread}");
        Ok(events)
    }

    /// Comes back with the id of the first event behind the snapshot, and must be told all that followed.
    pub(crate) fn comes_back(&self, thread: &str) -> usize {
        let told = self.shared.told.lock().unwrap().clone();
        let Some(first) = told.iter().skip(2).position(|event| event.id.is_some()).map(|at| at + 2) else {
            return 0;
        };
        let mut events = self.events(thread, told[first].id.as_deref()).unwrap();
        // Pieces of texts may have been joined differently.
        let whole = |event: &&Event| !event.name.ends_with("elta") && event.id.is_some();
        let expected: Vec<&Event> = told[first + 1..].iter().filter(whole).collect();
        for expected in &expected {
            let event = loop {
                match next(&mut events).unwrap() {
                    Some(event) if whole(&&event) => break event,
                    Some(_) => {}
                    None => panic!("the stream ended before {expected:?}"),
                }
            };
            assert_eq!(&&event, expected, "behind Last-Event-ID {:?}", told[first].id);
        }
        expected.len()
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(10)))?;
        Ok(stream)
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // The server may have ended it before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The thread that this call has started.
fn thread_of(frame: &[u8], answer: &[u8]) -> Option<String> {
    let call: Value = serde_json::from_slice(frame).ok()?;
    let answer: Value = serde_json::from_slice(answer).ok()?;
    (call["method"] == "thread/start")
        .then(|| answer["result"]["thread"]["id"].as_str().map(str::to_owned))?
}

/// Reads the head of an answer and gives its status.
fn head(reader: &mut impl BufRead) -> io::Result<u16> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not an answer of HTTP: {line:?}"));
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(status)
}

/// The next event; none at the end. Comments are passed over.
fn next(reader: &mut impl BufRead) -> io::Result<Option<Event>> {
    let (mut id, mut name, mut data) = (None, String::new(), Vec::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end_matches('\n').split_once(": ") {
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("event", value)) => value.clone_into(&mut name),
            Some(("data", value)) => data.extend_from_slice(value.as_bytes()),
            Some(("" | "retry", _)) => {}
            None if line == "\n" && !data.is_empty() => return Ok(Some(Event { id, name, data })),
            None if line == "\n" => {}
            _ => panic!("no line of an event stream: {line:?}"),
        }
    }
}
