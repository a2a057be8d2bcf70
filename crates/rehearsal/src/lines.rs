//! Lines from the client: bounded, split on `\n`, safe to wait for inside a `select!`.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line that is kept. Images in prompts make long lines; longer ones are skipped and answered.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// What one read gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line without its end.
    Text(Vec<u8>),
    /// A line over the bound; its bytes are gone.
    TooLong,
}

/// Splits a stream into lines. All progress is kept in `self`, so a dropped `next` loses nothing.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    skipping: bool,
    max_bytes: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R, max_bytes: usize) -> Self {
        Self {
            input: BufReader::with_capacity(READ_BYTES, input),
            line: Vec::new(),
            skipping: false,
            max_bytes,
        }
    }

    /// The next line, or `None` at the end of the stream. A last line without an end counts.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok((!rest.is_empty() && !self.skipping).then_some(Line::Text(rest)));
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.skipping || self.line.len() + part.len() > self.max_bytes {
                self.skipping = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                if std::mem::take(&mut self.skipping) {
                    return Ok(Some(Line::TooLong));
                }
                return Ok(Some(Line::Text(std::mem::take(&mut self.line))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_next_one_is_whole() {
        let mut lines = Lines::new(&b"one\n12345678901\n\nlast"[..], 10);
        assert_eq!(lines.next().await.unwrap(), Some(Line::Text(b"one".to_vec())));
        assert_eq!(lines.next().await.unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().await.unwrap(), Some(Line::Text(Vec::new())));
        assert_eq!(lines.next().await.unwrap(), Some(Line::Text(b"last".to_vec())));
        assert_eq!(lines.next().await.unwrap(), None);
    }
}
