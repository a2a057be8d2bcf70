//! Frames as lines over any byte stream: unix sockets, pipes, duplex streams in tests.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Received, Source, Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::{Burst, OutboxReader};

/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// Buffers that have grown beyond this are given back when they are empty.
const KEPT_BYTES: usize = 128 * 1024;
/// Frames from this size on are written from where they are instead of being copied together.
const LARGE_FRAME: usize = 64 * 1024;
/// Room for so many frames of a burst is kept.
const BURST_FRAMES_KEPT: usize = 64;

/// Lines over a reader and a writer.
#[derive(Debug)]
pub struct Lines<R, W> {
    reader: R,
    writer: W,
}

impl<R, W> Lines<R, W> {
    /// Lines over the two halves of a stream.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer }
    }
}

impl<R, W> Transport for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Source = LineSource<R>;

    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send) {
        let decoder = LineDecoder::new(limits.max_frame_bytes);
        (LineSource::new(self.reader, decoder), write_lines(self.writer, outbox, limits.stall_grace))
    }
}

/// The incoming half of [`Lines`].
#[derive(Debug)]
pub struct LineSource<R> {
    reader: R,
    decoder: LineDecoder,
    ended: bool,
}

impl<R> LineSource<R> {
    pub(super) fn new(reader: R, decoder: LineDecoder) -> Self {
        Self { reader, decoder, ended: false }
    }
}

impl<R: AsyncRead + Unpin + Send> Source for LineSource<R> {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        loop {
            if let Some(received) = self.decoder.next() {
                return Ok(Some(received));
            }
            if self.ended {
                return Ok(None);
            }
            let buffer = self.decoder.buffer();
            match self.reader.read_buf(buffer).await {
                Ok(0) => {
                    self.ended = true;
                    if let Some(rest) = self.decoder.finish() {
                        return Ok(Some(rest));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A client that was killed with data unread; for us the same as its leaving.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.ended = true,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Cuts a byte stream into lines. A line that exceeds the limit is reported once, as soon as it does, and then
/// skipped without being kept.
#[derive(Debug)]
pub struct LineDecoder {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    max_bytes: usize,
    skipping: bool,
}

impl LineDecoder {
    /// A decoder for lines of at most `max_bytes`, their end not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, max_bytes, skipping: false }
    }

    /// Where the next bytes are to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// The next line, if there is a whole one.
    #[allow(
        clippy::should_implement_trait,
        reason = "not an iterator: None means that more bytes are needed"
    )]
    pub fn next(&mut self) -> Option<Received> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                return self.no_line_end();
            };
            let end = self.scanned + at;
            let line = self.buffer.split_to(end + 1);
            self.scanned = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if end > self.max_bytes {
                return Some(Received::TooLarge);
            }
            return Some(Received::Frame(line.freeze().slice(..end)));
        }
    }

    /// At the end of the stream: the last line, if it had no end.
    pub fn finish(&mut self) -> Option<Received> {
        self.scanned = 0;
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty() && !self.skipping).then(|| Received::Frame(rest.freeze()))
    }

    fn no_line_end(&mut self) -> Option<Received> {
        self.scanned = self.buffer.len();
        if self.skipping {
            self.buffer.clear();
            self.scanned = 0;
            return None;
        }
        if self.buffer.len() <= self.max_bytes {
            return None;
        }
        self.buffer = BytesMut::new();
        self.scanned = 0;
        self.skipping = true;
        Some(Received::TooLarge)
    }
}

/// Writes bursts as lines until the outbox ends, then closes the stream.
pub(super) async fn write_lines<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outbox: OutboxReader,
    grace: Option<Duration>,
) -> Result<(), CloseReason> {
    let mut frames = Vec::new();
    let mut lines = Vec::new();
    loop {
        match outbox.burst(&mut frames).await {
            Burst::Frames => {}
            Burst::End(_) => return in_time(writer.shutdown(), grace).await,
        }
        for frame in frames.drain(..) {
            if frame.len() < LARGE_FRAME {
                lines.extend_from_slice(&frame);
                lines.push(b'\n');
                continue;
            }
            write_all(&mut writer, &lines, grace).await?;
            lines.clear();
            write_all(&mut writer, &frame, grace).await?;
            lines.push(b'\n');
        }
        write_all(&mut writer, &lines, grace).await?;
        in_time(writer.flush(), grace).await?;
        lines.clear();
        // An idle connection keeps no buffers.
        if lines.capacity() > READ_BYTES {
            lines = Vec::new();
        }
        frames.shrink_to(BURST_FRAMES_KEPT);
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut bytes: &[u8],
    grace: Option<Duration>,
) -> Result<(), CloseReason> {
    while !bytes.is_empty() {
        let written = in_time(writer.write(bytes), grace).await?;
        if written == 0 {
            return Err(CloseReason::WriteFailed(io::ErrorKind::WriteZero.to_string()));
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

async fn in_time<T>(
    io: impl Future<Output = io::Result<T>>,
    grace: Option<Duration>,
) -> Result<T, CloseReason> {
    let result = match grace {
        Some(grace) => tokio::time::timeout(grace, io).await.map_err(|_elapsed| CloseReason::Stalled)?,
        None => io.await,
    };
    result.map_err(|error| CloseReason::WriteFailed(error.to_string()))
}

/// The bytes of frames as lines, for writers that are threads.
pub(super) fn join_lines(frames: &mut Vec<Bytes>, lines: &mut Vec<u8>) {
    for frame in frames.drain(..) {
        lines.extend_from_slice(&frame);
        lines.push(b'\n');
    }
}
