//! A command's output with a bound: the head as it comes, then, at the end, a mark and the tail. Pure.

use std::fmt::Write as _;

/// Bytes of output that are kept from the start.
const HEAD_BYTES: usize = 1 << 20;
/// Bytes kept from the end when there is more.
const TAIL_BYTES: usize = 64 << 10;

/// What has been written so far.
#[derive(Debug, Default)]
pub(crate) struct Output {
    head: String,
    tail: String,
    omitted: u64,
}

/// A piece to show: an extension, or something that replaces all that was shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Goes on from what was shown.
    Append(String),
    /// Takes its place.
    Replace(String),
}

impl Output {
    /// More output. Gives what of it is to be shown now.
    pub(crate) fn append(&mut self, text: &str) -> Option<Piece> {
        let room = if self.is_cut() { 0 } else { HEAD_BYTES - self.head.len() };
        let shown = &text[..text.floor_char_boundary(room)];
        self.head.push_str(shown);
        let rest = &text[shown.len()..];
        if !rest.is_empty() {
            self.tail.push_str(rest);
            let extra = self.tail.len().saturating_sub(TAIL_BYTES);
            // Dropping from the front costs a copy, so it waits until it is worth it.
            if extra > TAIL_BYTES || rest.len() > TAIL_BYTES {
                let cut = self.tail.ceil_char_boundary(extra);
                self.omitted += cut as u64;
                self.tail.drain(..cut);
            }
        }
        (!shown.is_empty()).then(|| Piece::Append(shown.to_owned()))
    }

    /// The whole output so far, as some agents repeat it. Gives what is new about it.
    pub(crate) fn replace(&mut self, text: &str) -> Option<Piece> {
        if !self.is_cut()
            && let Some(more) = text.strip_prefix(self.head.as_str())
        {
            return if more.is_empty() { None } else { self.append(more) };
        }
        if self.is_cut() && text.starts_with(self.head.as_str()) {
            let rest = &text[self.head.len()..];
            self.tail.clear();
            self.omitted = 0;
            self.append(rest);
            return None;
        }
        *self = Self::default();
        match self.append(text) {
            Some(Piece::Append(shown)) => Some(Piece::Replace(shown)),
            _ => Some(Piece::Replace(String::new())),
        }
    }

    /// The end: the mark and the tail, if anything was left out.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        if self.tail.is_empty() {
            return None;
        }
        let extra = self.tail.len().saturating_sub(TAIL_BYTES);
        let cut = self.tail.ceil_char_boundary(extra);
        let omitted = std::mem::take(&mut self.omitted) + cut as u64;
        let mut text = String::new();
        if omitted > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n[… {omitted} bytes of output left out …]");
        }
        text.push_str(&self.tail[cut..]);
        self.tail.clear();
        Some(Piece::Append(text))
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    fn is_cut(&self) -> bool {
        !self.tail.is_empty() || self.omitted > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a client: what it shows in the end.
    fn shown(pieces: impl IntoIterator<Item = Option<Piece>>) -> String {
        let mut text = String::new();
        for piece in pieces.into_iter().flatten() {
            match piece {
                Piece::Append(more) => text.push_str(&more),
                Piece::Replace(all) => text = all,
            }
        }
        text
    }

    #[test]
    fn repeated_output_shows_only_what_is_new() {
        let mut output = Output::default();
        let pieces = [output.replace("a"), output.replace("ab"), output.replace("ab"), output.append("c")];
        assert_eq!(pieces[2], None);
        assert_eq!(shown(pieces), "abc");
        let mut output = Output::default();
        assert_eq!(shown([output.replace("one"), output.replace("two"), output.append("!")]), "two!");
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_says_so() {
        let line = "0123456789abcdé\n";
        let mut output = Output::default();
        let mut pieces: Vec<_> = (0..600_000).map(|_| output.append(line)).collect();
        pieces.push(output.finish());
        let text = shown(pieces);
        assert!(text.len() < HEAD_BYTES + TAIL_BYTES + 100);
        assert!(text.contains("bytes of output left out") && text.ends_with(line));
        assert_eq!(output.finish(), None);
    }

    #[test]
    fn a_little_over_the_head_loses_nothing() {
        let text = "x".repeat(HEAD_BYTES + 5);
        let mut output = Output::default();
        assert_eq!(shown([output.append(&text), output.finish()]), text);
    }
}
