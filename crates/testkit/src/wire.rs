//! The two directions of one connection: frames out, and a thread that reads frames in until it is told to stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::http::Http;
use crate::websocket;

/// Lines that wait for the test to look at them; when there are more, the server is not read any more.
const WAITING_LINES: usize = 1 << 17;

/// How frames are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Lines,
    ContentLength,
}

/// Reads one frame; none at the end of the connection.
type ReadFrame = Box<dyn FnMut() -> Option<Vec<u8>> + Send>;

/// One connection to the server.
pub(crate) struct Wire {
    writer: Option<Writer>,
    lines: Receiver<Vec<u8>>,
    gate: Arc<Gate>,
    /// Of a socket: both directions, to end them.
    socket: Option<UnixStream>,
}

enum Writer {
    Bytes(Framing, Box<dyn Write + Send>),
    WebSocket(Box<websocket::Sender>),
    Http(Http),
}

/// Holds up the reading thread.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.changed.wait(closed).unwrap();
        }
    }
}

/// What a wait for a line came to.
pub(crate) enum Came {
    Line(Vec<u8>),
    /// The server closed the connection.
    End,
    Nothing,
}

impl Wire {
    pub(crate) fn new(
        framing: Framing,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        let mut reader = BufReader::new(reader);
        let read: ReadFrame = match framing {
            Framing::Lines => Box::new(move || read_line(&mut reader)),
            Framing::ContentLength => Box::new(move || read_length(&mut reader)),
        };
        Self::over(read, Writer::Bytes(framing, Box::new(writer)))
    }

    fn over(mut read: ReadFrame, writer: Writer) -> Self {
        let gate: Arc<Gate> = Arc::default();
        let (sender, lines) = sync_channel(WAITING_LINES);
        let passing = gate.clone();
        thread::spawn(move || {
            loop {
                passing.pass();
                let Some(frame) = read() else { return };
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        Self { writer: Some(writer), lines, gate, socket: None }
    }

    pub(crate) fn over_socket(socket: UnixStream) -> std::io::Result<Self> {
        let mut wire = Self::new(Framing::Lines, socket.try_clone()?, socket.try_clone()?);
        wire.socket = Some(socket);
        Ok(wire)
    }

    /// A WebSocket over the server's unix socket.
    pub(crate) fn over_websocket(socket: UnixStream) -> std::io::Result<Self> {
        let (mut receiver, sender) = websocket::connect(&socket)?;
        let mut wire = Self::over(Box::new(move || receiver.next()), Writer::WebSocket(Box::new(sender)));
        wire.socket = Some(socket);
        Ok(wire)
    }

    /// Posts to the server's unix socket.
    pub(crate) fn over_http(socket: &Path) -> Self {
        let (sender, lines) = sync_channel(WAITING_LINES);
        let writer = Some(Writer::Http(Http::new(socket, sender)));
        Self { writer, lines, gate: Arc::default(), socket: None }
    }

    pub(crate) fn http(&self) -> Option<&Http> {
        match &self.writer {
            Some(Writer::Http(http)) => Some(http),
            _ => None,
        }
    }

    /// Writes one frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> std::io::Result<()> {
        match &mut self.writer {
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
            Some(Writer::WebSocket(sender)) => sender.send(frame),
            Some(Writer::Http(http)) => http.send(frame),
            Some(Writer::Bytes(Framing::Lines, _)) => self.write(&[frame, b"\n"].concat()),
            Some(Writer::Bytes(Framing::ContentLength, _)) => {
                let head = format!("Content-Length: {}\r\n\r\n", frame.len());
                self.write(&[head.as_bytes(), frame].concat())
            }
        }
    }

    /// Writes bytes that may be part of a frame.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(Writer::Bytes(_, writer)) = &mut self.writer else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        writer.write_all(bytes)?;
        writer.flush()
    }

    /// Ends the direction to the server, as a client that leaves does.
    pub(crate) fn close(&mut self) {
        match (self.writer.take(), &self.socket) {
            // The server may have closed it before.
            (Some(Writer::WebSocket(mut sender)), _) => drop(sender.say_goodbye()),
            (_, Some(socket)) => drop(socket.shutdown(Shutdown::Write)),
            (_, None) => {}
        }
    }

    /// From now on nothing is read.
    pub(crate) fn stop_reading(&self) {
        self.gate.set(true);
    }

    pub(crate) fn go_on_reading(&self) {
        self.gate.set(false);
    }

    pub(crate) fn next(&self, patience: Duration) -> Came {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Came::Line(line),
            Err(RecvTimeoutError::Disconnected) => Came::End,
            Err(RecvTimeoutError::Timeout) => Came::Nothing,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.gate.set(false);
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// A line that breaks off is the end of a connection that was cut.
fn read_line(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok()?;
    (line.pop() == Some(b'\n')).then_some(line)
}

/// Takes the one header that this server writes, and nothing else.
fn read_length(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let head = read_line(reader)?;
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.strip_prefix("Content-Length: ").and_then(|rest| rest.strip_suffix('\r'));
    let length: usize = length
        .and_then(|length| length.parse().ok())
        .unwrap_or_else(|| panic!("not the header of a frame: {head:?}"));
    let blank = read_line(reader)?;
    assert_eq!(blank, b"\r", "an empty line behind {head:?}");
    let mut frame = vec![0; length];
    reader.read_exact(&mut frame).ok()?;
    Some(frame)
}
