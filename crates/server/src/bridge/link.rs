//! The bridge's side of the connection to the server: lines in, lines out, each way with a bound.

use std::io;

use bytes::{Buf, BytesMut};
use signalbox_rpc::{LineDecoder, Received};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes for the server from which on nothing more is taken from the client.
const ENOUGH: usize = 256 * 1024;
/// A buffer that has grown beyond this is given back when it is empty.
const KEPT: usize = 64 * 1024;
/// Largest frame of the server that is taken: well above what it sends.
const MAX_FRAME: usize = 64 << 20;

/// A connection to the server.
#[derive(Debug)]
pub(super) struct Link {
    reading: Reading,
    writing: Writing,
    /// The server's process.
    pub(super) pid: u32,
}

/// What comes from the server.
#[derive(Debug)]
pub(super) struct Reading {
    stream: OwnedReadHalf,
    decoder: LineDecoder,
}

/// What goes to it.
#[derive(Debug)]
pub(super) struct Writing {
    stream: OwnedWriteHalf,
    out: BytesMut,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// After what is queued nothing more is written.
    Ending,
    Ended,
}

impl Link {
    pub(super) fn new(stream: UnixStream, pid: u32) -> Self {
        let (reader, writer) = stream.into_split();
        let reading = Reading { stream: reader, decoder: LineDecoder::new(MAX_FRAME) };
        let writing = Writing { stream: writer, out: BytesMut::new(), state: State::Open };
        Self { reading, writing, pid }
    }

    /// The next frame of those that were read, if there is a whole one.
    pub(super) fn next(&mut self) -> Option<Received> {
        self.reading.decoder.next()
    }

    /// Queues a frame.
    pub(super) fn push(&mut self, frame: &[u8]) {
        let out = &mut self.writing.out;
        let at = out.len();
        out.extend_from_slice(frame);
        // A frame that came behind headers may have line ends between its tokens; in a JSON text they stand nowhere else.
        for byte in &mut out[at..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        out.extend_from_slice(b"\n");
    }

    /// Whether the client is to wait.
    pub(super) fn is_full(&self) -> bool {
        self.writing.out.len() >= ENOUGH
    }

    /// After what is queued nothing more is written.
    pub(super) fn end(&mut self) {
        if self.writing.state == State::Open {
            self.writing.state = State::Ending;
        }
    }

    /// Both directions, for doing the one that can be done.
    pub(super) fn halves(&mut self) -> (&mut Reading, &mut Writing) {
        (&mut self.reading, &mut self.writing)
    }
}

impl Reading {
    /// Reads more. False at the end. Cancel-safe.
    ///
    /// # Errors
    /// When reading fails, which is an end too.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(self.decoder.buffer()).await? > 0)
    }
}

impl Writing {
    /// Writes what is queued, or the end; waits for ever if there is neither. Cancel-safe.
    ///
    /// # Errors
    /// When writing fails: the server has gone, and its last words are still to be read.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        if self.state == State::Ended || (self.out.is_empty() && self.state == State::Open) {
            return std::future::pending().await;
        }
        let written = match self.out.is_empty() {
            true => self.stream.shutdown().await.map(|()| self.state = State::Ended),
            false => self.stream.write(&self.out).await.map(|written| self.out.advance(written)),
        };
        if written.is_err() {
            self.state = State::Ended;
            self.out.clear();
        }
        if self.out.is_empty() && self.out.capacity() > KEPT {
            self.out = BytesMut::new();
        }
        written
    }
}
