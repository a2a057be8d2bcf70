//! Lines out of a byte stream, with one buffer that is bounded and given back after a giant line.

use memchr::memchr;

/// Room for one read: what a Linux pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Splits what is read into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Begin of the first line not yet taken.
    start: usize,
    /// No line feed lies before this.
    scanned: usize,
    max_bytes: usize,
}

impl Lines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(READ_BYTES), start: 0, scanned: 0, max_bytes }
    }

    /// Where to read to: append to it.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.give_back();
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 2 {
            // By a quarter, not to twice its size: giants are counted by their room.
            self.buffer.reserve_exact(READ_BYTES.max(self.buffer.len() / 4));
        }
        &mut self.buffer
    }

    /// Drops the lines that were taken, and the room that only they needed.
    pub(crate) fn give_back(&mut self) {
        if self.start == 0 {
            return;
        }
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.capacity() > 4 * READ_BYTES.max(self.buffer.len()) {
            self.buffer.shrink_to(READ_BYTES.max(self.buffer.len()));
        }
    }

    /// Bytes of memory it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes of the unfinished line.
    pub(crate) fn begun(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next whole line, without its end.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        match memchr(b'\n', &self.buffer[self.scanned..]) {
            Some(at) => {
                let (start, end) = (self.start, self.scanned + at);
                (self.start, self.scanned) = (end + 1, end + 1);
                let line = &self.buffer[start..end];
                Some(line.strip_suffix(b"\r").unwrap_or(line))
            }
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    /// What came after the last line feed, at the end of the stream.
    pub(crate) fn rest(&mut self) -> Option<&[u8]> {
        let start = std::mem::replace(&mut self.start, self.buffer.len());
        self.scanned = self.buffer.len();
        Some(&self.buffer[start..]).filter(|rest| !rest.is_empty())
    }

    /// Whether the unfinished line is longer than allowed.
    pub(crate) fn too_long(&self) -> bool {
        self.begun() > self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Vec<String> {
        let mut got = Vec::new();
        while let Some(line) = lines.next() {
            got.push(String::from_utf8_lossy(line).into_owned());
        }
        got
    }

    #[test]
    fn lines_survive_any_cut() {
        let text = b"one\r\n\ntwo words\nthree";
        for cut in 0..text.len() {
            let mut lines = Lines::new(100);
            let mut got = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                lines.space().extend_from_slice(part);
                got.extend(all(&mut lines));
            }
            assert_eq!(got, ["one", "", "two words"], "cut at {cut}");
            assert_eq!(lines.rest(), Some(&b"three"[..]));
            assert_eq!(lines.rest(), None);
        }
    }

    #[test]
    fn a_line_over_the_bound_is_noticed_and_memory_given_back_after_a_long_one() {
        let mut lines = Lines::new(1 << 20);
        lines.space().extend(std::iter::repeat_n(b'x', 1 << 20));
        assert!(lines.next().is_none() && !lines.too_long());
        lines.space().extend_from_slice(b"\n");
        assert_eq!(lines.next().map(<[u8]>::len), Some(1 << 20));
        lines.give_back();
        assert!(lines.capacity() <= 4 * READ_BYTES);
        lines.space().extend(std::iter::repeat_n(b'x', (1 << 20) + 1));
        assert!(lines.too_long());
    }
}
