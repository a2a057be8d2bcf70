//! The end of what a process wrote, for error messages.

/// Keeps the last bytes of a stream.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    max_bytes: usize,
    cut: bool,
}

impl Tail {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes, cut: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Cut only now and then, so that much output costs little.
        if self.bytes.len() > self.max_bytes.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let surplus = self.bytes.len().saturating_sub(self.max_bytes);
        if surplus > 0 {
            self.bytes.drain(..surplus);
            self.cut = true;
        }
    }

    /// What is kept, as text, from the begin of a line where something was cut.
    pub(crate) fn text(&mut self) -> String {
        self.trim();
        let text = String::from_utf8_lossy(&self.bytes);
        let text = match text.find('\n') {
            Some(end) if self.cut => &text[end + 1..],
            _ => &text,
        };
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_from_the_begin_of_a_line() {
        let mut tail = Tail::new(10);
        tail.push(b"first\nsecond\n");
        tail.push(b"third\n");
        assert_eq!(tail.text(), "third");
        let mut short = Tail::new(10);
        short.push(b"all\n");
        assert_eq!(short.text(), "all");
    }
}
