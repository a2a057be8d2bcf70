//! Frames over any byte stream, in either framing: unix sockets, pipes, duplex streams in tests.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::{LengthDecoder, LineDecoder, Received, Source, Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::{Burst, OutboxReader};

/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// Read buffers that have grown beyond this are given back when they are empty.
const READ_KEPT_BYTES: usize = 128 * 1024;
/// What is kept of the buffer that frames are put together in.
const KEPT_BYTES: usize = 16 * 1024;
/// Frames from this size on are written from where they are instead of being copied together.
const LARGE_FRAME: usize = 64 * 1024;
/// Room for so many frames of a burst is kept.
const BURST_FRAMES_KEPT: usize = 64;

/// A decoder's buffer with room for a read.
pub(super) fn ready(buffer: &mut BytesMut) -> &mut BytesMut {
    if buffer.is_empty() && buffer.capacity() > READ_KEPT_BYTES {
        *buffer = BytesMut::new();
    }
    buffer.reserve(READ_BYTES);
    buffer
}

/// How frames are told apart in a stream of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Each is a line.
    Lines,
    /// Each has headers before it that tell its length, as in the Language Server Protocol.
    ContentLength,
}

impl Framing {
    /// What a stream is framed by that begins with this byte, where nothing else than the two can be.
    pub fn of_first_byte(byte: u8) -> Self {
        if byte.eq_ignore_ascii_case(&b'c') { Self::ContentLength } else { Self::Lines }
    }

    fn before(self, frame: &[u8], into: &mut Vec<u8>) {
        if self == Self::ContentLength {
            into.extend_from_slice(format!("Content-Length: {}\r\n\r\n", frame.len()).as_bytes());
        }
    }

    fn after(self, into: &mut Vec<u8>) {
        if self == Self::Lines {
            into.push(b'\n');
        }
    }

    /// Frames put together, for writers that are threads.
    pub(super) fn join(self, frames: &mut Vec<Bytes>, into: &mut Vec<u8>) {
        for frame in frames.drain(..) {
            self.before(&frame, into);
            into.extend_from_slice(&frame);
            self.after(into);
        }
    }
}

/// Frames over a reader and a writer.
#[derive(Debug)]
pub struct Framed<R, W> {
    framing: Framing,
    reader: R,
    writer: W,
}

impl<R, W> Framed<R, W> {
    /// Frames over the two halves of a stream.
    pub fn new(framing: Framing, reader: R, writer: W) -> Self {
        Self { framing, reader, writer }
    }
}

impl<R, W> Transport for Framed<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Source = ByteSource<R>;

    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send) {
        let source = ByteSource::new(self.reader, Decoder::of(self.framing, limits.max_frame_bytes));
        (source, write_frames(self.framing, self.writer, outbox, limits.stall_grace))
    }
}

/// The incoming half of a byte stream.
#[derive(Debug)]
pub struct ByteSource<R> {
    reader: R,
    decoder: Decoder,
    ended: bool,
}

impl<R> ByteSource<R> {
    pub(super) fn new(reader: R, decoder: Decoder) -> Self {
        Self { reader, decoder, ended: false }
    }
}

impl<R: AsyncRead + Unpin + Send> Source for ByteSource<R> {
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

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub(super) enum Decoder {
    Lines(LineDecoder),
    Lengths(LengthDecoder),
    /// The first byte will tell, and whoever writes is told too.
    Untold(Untold),
}

/// A stream whose framing is not known yet.
#[derive(Debug)]
pub(super) struct Untold {
    buffer: BytesMut,
    max_bytes: usize,
    told: Option<oneshot::Sender<Framing>>,
}

impl Decoder {
    pub(super) fn of(framing: Framing, max_bytes: usize) -> Self {
        match framing {
            Framing::Lines => Self::Lines(LineDecoder::new(max_bytes)),
            Framing::ContentLength => Self::Lengths(LengthDecoder::new(max_bytes)),
        }
    }

    /// A decoder that goes by the first byte. The receiver says which framing it is; its end without a word means that
    /// the stream ended before it.
    pub(super) fn by_first_byte(max_bytes: usize) -> (Self, oneshot::Receiver<Framing>) {
        let (tell, told) = oneshot::channel();
        (Self::Untold(Untold { buffer: BytesMut::new(), max_bytes, told: Some(tell) }), told)
    }

    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        match self {
            Self::Lines(lines) => lines.buffer(),
            Self::Lengths(lengths) => lengths.buffer(),
            Self::Untold(untold) => {
                untold.buffer.reserve(KEPT_BYTES);
                &mut untold.buffer
            }
        }
    }

    /// The next frame, if there is a whole one; `None` means that more bytes are needed.
    pub(super) fn next(&mut self) -> Option<Received> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Lengths(lengths) => lengths.next(),
            Self::Untold(untold) => {
                let framing = Framing::of_first_byte(*untold.buffer.first()?);
                if let Some(told) = untold.told.take() {
                    // Whoever writes may have ended before.
                    let _ = told.send(framing);
                }
                let begin = std::mem::take(&mut untold.buffer);
                *self = Self::of(framing, untold.max_bytes);
                *self.buffer() = begin;
                self.next()
            }
        }
    }

    /// At the end of the stream: the last line, if it had no end. A frame behind headers must be whole.
    pub(super) fn finish(&mut self) -> Option<Received> {
        match self {
            Self::Lines(lines) => lines.finish(),
            Self::Lengths(_) => None,
            Self::Untold(untold) => {
                untold.told = None;
                None
            }
        }
    }
}

/// Writes bursts until the outbox ends, then closes the stream.
pub(super) async fn write_frames<W: AsyncWrite + Unpin>(
    framing: Framing,
    mut writer: W,
    mut outbox: OutboxReader,
    grace: Option<Duration>,
) -> Result<(), CloseReason> {
    let mut frames = Vec::new();
    let mut joined = Vec::new();
    loop {
        match outbox.burst(&mut frames).await {
            Burst::Frames => {}
            Burst::End(_) => return in_time(writer.shutdown(), grace).await,
        }
        for frame in frames.drain(..) {
            framing.before(&frame, &mut joined);
            if frame.len() < LARGE_FRAME {
                joined.extend_from_slice(&frame);
                framing.after(&mut joined);
                continue;
            }
            write_all(&mut writer, &joined, grace).await?;
            joined.clear();
            write_all(&mut writer, &frame, grace).await?;
            framing.after(&mut joined);
        }
        write_all(&mut writer, &joined, grace).await?;
        in_time(writer.flush(), grace).await?;
        joined.clear();
        // An idle connection keeps no buffers.
        if joined.capacity() > KEPT_BYTES {
            joined = Vec::new();
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
