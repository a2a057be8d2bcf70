//! Frames behind headers, as in the Language Server Protocol: `Content-Length: N`, an empty line, N bytes.

use bytes::{Buf, BytesMut};

use super::Received;
use super::framing::ready;
use crate::error::RpcError;
use crate::hooks::{CloseReason, Violation};

/// The most that one block of headers may have, its end included.
pub const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The one header that counts.
const CONTENT_LENGTH: &str = "content-length";

/// Cuts a byte stream into frames behind headers.
///
/// A frame above the limit is reported once, as soon as its length is known, and skipped. After headers that make no
/// sense the next `Content-Length:` is looked for: in JSON none can stand with a number and an empty line behind it. If
/// none comes for as long as a frame may be, the stream is given up.
#[derive(Debug)]
pub struct LengthDecoder {
    buffer: BytesMut,
    state: State,
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the headers. So much of the buffer is known to hold no end of them.
    Headers { scanned: usize },
    /// In a frame of so many bytes.
    Body(usize),
    /// So many bytes of a frame that is too large are still to come.
    Skipping(u64),
    /// Looking for the next header, for so many bytes more.
    Searching { left: usize },
    /// No header was found.
    GivenUp,
}

impl LengthDecoder {
    /// A decoder for frames of at most `max_bytes`, their headers not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), state: State::Headers { scanned: 0 }, max_bytes }
    }

    /// Where the next bytes are to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        ready(&mut self.buffer)
    }

    /// The next frame, or what is wrong with it, if that can be told.
    #[allow(
        clippy::should_implement_trait,
        reason = "not an iterator: None means that more bytes are needed"
    )]
    pub fn next(&mut self) -> Option<Received> {
        loop {
            match self.state {
                State::Headers { scanned } => {
                    if let Some(problem) = self.headers(scanned)? {
                        return Some(problem);
                    }
                }
                State::Body(length) => {
                    if self.buffer.len() < length {
                        return None;
                    }
                    self.state = State::Headers { scanned: 0 };
                    return Some(Received::Frame(self.buffer.split_to(length).freeze()));
                }
                State::Skipping(left) => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    self.buffer.advance(skipped);
                    let left = left - skipped as u64;
                    if left > 0 {
                        self.state = State::Skipping(left);
                        return None;
                    }
                    self.state = State::Headers { scanned: 0 };
                }
                State::Searching { left } => self.search(left)?,
                State::GivenUp => {
                    let text = "no Content-Length header was found after one that made no sense";
                    return Some(Received::End(CloseReason::Violation(Violation::Protocol, text.to_owned())));
                }
            }
        }
    }

    /// Reads a block of headers, if it is whole. Inside: what is to be told about it.
    fn headers(&mut self, scanned: usize) -> Option<Option<Received>> {
        // Line ends between two frames mean nothing.
        let blank = self.buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.buffer.advance(blank);
        let Some(end) = end_of_headers(&self.buffer, scanned.saturating_sub(blank)) else {
            if self.buffer.len() > MAX_HEADER_BYTES {
                return Some(Some(self.malformed("the headers of a frame have more than 8 KiB")));
            }
            // The end may lie across the next read.
            self.state = State::Headers { scanned: self.buffer.len().saturating_sub(3) };
            return None;
        };
        if end > MAX_HEADER_BYTES {
            return Some(Some(self.malformed("the headers of a frame have more than 8 KiB")));
        }
        match content_length(&self.buffer[..end]) {
            Err(Problem::NoLength(problem)) => Some(Some(self.malformed(problem))),
            Err(Problem::Length(problem)) => {
                // A second length in the same headers is none of the next frame. (One line end is left to be passed over.)
                self.buffer.advance(end - 1);
                Some(Some(self.malformed(problem)))
            }
            Ok(length) => {
                self.buffer.advance(end);
                let within = usize::try_from(length).ok().filter(|length| *length <= self.max_bytes);
                self.state = within.map_or(State::Skipping(length), State::Body);
                Some(within.is_none().then_some(Received::TooLarge))
            }
        }
    }

    fn malformed(&mut self, problem: &'static str) -> Received {
        // At least one byte further, or the same would be found again.
        self.buffer.advance(1.min(self.buffer.len()));
        self.state = State::Searching { left: self.max_bytes.saturating_add(MAX_HEADER_BYTES) };
        Received::Malformed(RpcError::invalid_request(problem))
    }

    /// Looks for the next header; `None` where more bytes are needed.
    fn search(&mut self, left: usize) -> Option<()> {
        let at = self.buffer.windows(CONTENT_LENGTH.len() + 1).position(|name| {
            name[CONTENT_LENGTH.len()] == b':' && is_content_length(&name[..CONTENT_LENGTH.len()])
        });
        // Without one, its beginning may be at the end.
        let passed = at.unwrap_or(self.buffer.len().saturating_sub(CONTENT_LENGTH.len()));
        if passed > left {
            self.buffer = BytesMut::new();
            self.state = State::GivenUp;
            return Some(());
        }
        self.buffer.advance(passed);
        if at.is_some() {
            self.state = State::Headers { scanned: 0 };
            return Some(());
        }
        self.state = State::Searching { left: left - passed };
        None
    }
}

/// Where the headers end, the empty line included.
fn end_of_headers(buffer: &[u8], from: usize) -> Option<usize> {
    let from = from.min(buffer.len());
    memchr::memchr_iter(b'\n', &buffer[from..]).map(|at| from + at).find_map(|at| match buffer[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

fn is_content_length(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(CONTENT_LENGTH.as_bytes())
}

/// What is wrong with headers.
enum Problem {
    /// They have none that tells a length. Those of the next frame may be in what looks like them.
    NoLength(&'static str),
    /// They tell none that can be used.
    Length(&'static str),
}

/// The length that a block of headers gives; all other headers are passed over.
fn content_length(headers: &[u8]) -> Result<u64, Problem> {
    let mut length = None;
    for line in headers.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        let Some(colon) = memchr::memchr(b':', line) else {
            return Err(Problem::NoLength("a header of a frame has no colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if !is_content_length(name) {
            continue;
        }
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|value| value.parse().ok());
        let number = number.ok_or(Problem::Length("the Content-Length of a frame is no number"))?;
        if length.is_some_and(|earlier| earlier != number) {
            return Err(Problem::Length("a frame has two different Content-Lengths"));
        }
        length = Some(number);
    }
    length.ok_or(Problem::NoLength("the headers of a frame have no Content-Length"))
}
