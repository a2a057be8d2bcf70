//! Lines that somebody types on the terminal. They are read by a thread of their own: a read of a terminal blocks, and
//! nothing but the end of the process ends it.

use std::io::{self, BufRead, IsTerminal, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

/// Longest line that is taken, in bytes; a longer one comes in pieces.
const LINE_BYTES: u64 = 64 * 1024;

/// The terminal that stdin is.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// Asks the thread for a line. Only then does it read, so that a process in the background is not stopped.
    wanted: SyncSender<()>,
    lines: mpsc::Receiver<io::Result<Option<String>>>,
    /// A line was asked for and has not come.
    reading: bool,
}

impl Keyboard {
    /// The keyboard, if stdin is a terminal.
    pub(super) fn open() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let (wanted, wants) = sync_channel(1);
        let (sender, lines) = mpsc::channel(1);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || read(&wants, &sender))?;
        Ok(Some(Self { wanted, lines, reading: false }))
    }

    /// Forgets what was typed so far: nothing typed before a question may answer it.
    pub(super) fn forget(&mut self) {
        if let Err(error) = tcflush(io::stdin(), QueueSelector::IFlush) {
            tracing::debug!(%error, "what was typed ahead could not be dropped");
        }
        if self.lines.try_recv().is_ok() {
            self.reading = false;
        }
    }

    /// The next line without its end; `None` at the end of input. Cancel-safe.
    pub(super) async fn line(&mut self) -> io::Result<Option<String>> {
        if !self.reading {
            // There is room for the one wish that is under way at a time; without the thread no line comes.
            self.reading = self.wanted.try_send(()).is_ok();
        }
        let line = self.lines.recv().await;
        self.reading = false;
        line.unwrap_or(Ok(None))
    }
}

fn read(wants: &Receiver<()>, lines: &mpsc::Sender<io::Result<Option<String>>>) {
    while wants.recv().is_ok() {
        let mut line = Vec::new();
        let read = io::stdin().lock().take(LINE_BYTES).read_until(b'\n', &mut line);
        let line = read.map(|count| (count > 0).then(|| String::from_utf8_lossy(&line).trim().to_owned()));
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}
