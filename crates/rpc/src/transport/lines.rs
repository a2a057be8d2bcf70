//! Frames as lines.

use bytes::BytesMut;

use super::Received;
use super::framing::ready;

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
        ready(&mut self.buffer)
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
