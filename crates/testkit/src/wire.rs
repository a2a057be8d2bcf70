//! The two directions of one connection: lines out, and a thread that reads lines in until it is told to stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Lines that wait for the test to look at them; when there are more, the server is not read any more.
const WAITING_LINES: usize = 1 << 17;

/// One connection to the server.
pub(crate) struct Wire {
    writer: Option<Box<dyn Write + Send>>,
    lines: Receiver<Vec<u8>>,
    gate: Arc<Gate>,
    /// Of a socket: both directions, to end them.
    socket: Option<UnixStream>,
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
    pub(crate) fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        let gate: Arc<Gate> = Arc::default();
        let (sender, lines) = sync_channel(WAITING_LINES);
        let passing = gate.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            loop {
                passing.pass();
                let mut line = Vec::new();
                match reader.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {
                        // A line that breaks off is the end of a connection that was cut.
                        if line.pop() != Some(b'\n') {
                            return;
                        }
                        if sender.send(line).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Self { writer: Some(Box::new(writer)), lines, gate, socket: None }
    }

    pub(crate) fn over_socket(socket: UnixStream) -> std::io::Result<Self> {
        let mut wire = Self::new(socket.try_clone()?, socket.try_clone()?);
        wire.socket = Some(socket);
        Ok(wire)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(writer) = &mut self.writer else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        writer.write_all(bytes)?;
        writer.flush()
    }

    /// Ends the direction to the server, as a client that leaves does.
    pub(crate) fn close(&mut self) {
        self.writer = None;
        if let Some(socket) = &self.socket {
            // The server may have closed it before.
            let _ = socket.shutdown(Shutdown::Write);
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
