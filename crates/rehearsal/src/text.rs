//! Small helpers on text: cutting at character boundaries, splitting into chunks, sizes for people.

/// The beginning of `text`, at most `max_bytes` long.
pub(crate) fn head(text: &str, max_bytes: usize) -> &str {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end of `text`, at most `max_bytes` long.
pub(crate) fn tail(text: &str, max_bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Splits text as a model's tokens would come: a few words a piece. The pieces joined are the text.
pub(crate) fn chunks(text: &str) -> Vec<&str> {
    const ENOUGH: usize = 16;
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, char) in text.char_indices() {
        if char.is_whitespace() && at - start >= ENOUGH {
            pieces.push(&text[start..at]);
            start = at;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    format!("{size:.1} {unit}")
}

/// `12,345`.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`.
pub(crate) fn count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count))
}

/// Bytes that come in pieces, as text: a character cut in two waits for its rest, what is no UTF-8 becomes
/// the replacement character.
#[derive(Default)]
pub(crate) struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.rest.len());
        let mut used = 0;
        loop {
            let part = &self.rest[used..];
            let (valid, skip) = match std::str::from_utf8(part) {
                Ok(_) => (part.len(), None),
                Err(error) => (error.valid_up_to(), error.error_len().or(Some(0))),
            };
            text.push_str(&String::from_utf8_lossy(&part[..valid]));
            used += valid;
            match skip {
                None | Some(0) => break,
                Some(wrong) => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    used += wrong;
                }
            }
        }
        self.rest.drain(..used);
        text
    }

    /// What is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_never_split_a_character() {
        assert_eq!(head("héé", 2), "h");
        assert_eq!(tail("ééh", 2), "h");
        assert_eq!(tail("short", 100), "short");
    }

    #[test]
    fn chunks_join_to_the_text() {
        let text = "  Some words and\nlonger-words-without-any-space, then more of them. ";
        let pieces = chunks(text);
        assert!(pieces.len() > 2);
        assert_eq!(pieces.concat(), text);
        assert_eq!(chunks(""), [""]);
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_is_whole() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"a\xc3"), "a");
        assert_eq!(decoder.push(b"\xa9\xffb\xe2"), "é\u{fffd}b");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(bytes(1), "1 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 * 1024 * 1024), "5.0 MiB");
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(count(1, "file"), "1 file");
    }
}
