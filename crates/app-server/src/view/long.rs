//! Texts that are too long to be shown or held whole: head and tail stay, with a mark between that says how much is not
//! there. Sizes are those of the text within JSON, because that is what a frame is bounded by. Pure.

/// A growing text keeps three quarters of what it may hold from its beginning, and a quarter from its end.
const HEAD_SHARE: usize = 3;
const SHARES: usize = 4;
/// What a mark takes at most, in JSON.
const MARK_BYTES: usize = 64;

/// What follows the head of a growing text: counted, and of it the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rest {
    tail: String,
    bytes: u64,
}

impl Rest {
    /// Adds to a text of which `head` is the beginning, so that no more than `limit` bytes are held (for a moment twice the
    /// tail, because dropping from the front costs a copy).
    pub(super) fn push(&mut self, head: &mut String, more: &str, limit: usize) {
        let mut more = more;
        if self.bytes == 0 {
            let room = (limit / SHARES * HEAD_SHARE).saturating_sub(head.len());
            let (fits, beyond) = more.split_at(more.floor_char_boundary(room));
            head.push_str(fits);
            more = beyond;
        }
        self.bytes += more.len() as u64;
        self.tail.push_str(more);
        let most = limit / SHARES;
        if self.tail.len() > 2 * most {
            let cut = self.tail.ceil_char_boundary(self.tail.len() - most);
            self.tail.drain(..cut);
        }
    }

    /// Bytes of the whole text.
    pub(super) fn total(&self, head: &str) -> u64 {
        head.len() as u64 + self.bytes
    }

    /// The text as it is shown in at most `max` bytes of JSON, and whether it is whole.
    pub(super) fn shown(&self, head: &str, limit: usize, max: usize) -> (String, bool) {
        let extra = self.tail.len().saturating_sub(limit / SHARES);
        // The end is cut where it would be had the text come in one piece.
        let gap = self.bytes > (limit / SHARES) as u64;
        let tail = if gap { &self.tail[self.tail.ceil_char_boundary(extra)..] } else { self.tail.as_str() };
        if !gap && json_len(head) + json_len(tail) <= max {
            return ([head, tail].concat(), true);
        }
        if gap && json_len(head) + json_len(tail) + MARK_BYTES <= max {
            let left_out = self.total(head) - head.len() as u64 - tail.len() as u64;
            return ([head, &mark(left_out), tail].concat(), false);
        }
        let room = max.saturating_sub(MARK_BYTES);
        let (kept_head, kept_tail) = if gap || tail.is_empty() || head.is_empty() {
            (head, if tail.is_empty() && !gap { head } else { tail })
        } else {
            (head, tail)
        };
        let first = prefix(kept_head, room / SHARES * HEAD_SHARE);
        // Head and tail may be the same text here; they never overlap, because it is longer than both together.
        let last = suffix(kept_tail, room - json_len(first));
        let left_out = self.total(head) - first.len() as u64 - last.len() as u64;
        ([first, &mark(left_out), last].concat(), false)
    }
}

/// A text in at most `max` bytes of JSON; none if it fits as it is.
pub(super) fn cut(text: &str, max: usize) -> Option<String> {
    let (shown, whole) = Rest::default().shown(text, 0, max);
    (!whole).then_some(shown)
}

/// What stands in place of the middle of a text.
fn mark(left_out: u64) -> String {
    format!("\n[… {left_out} bytes left out …]\n")
}

/// What stands in place of an image that is too long: a data URL that says so, because half an image is none.
pub(super) fn image_mark(bytes: usize) -> String {
    format!("data:text/plain;charset=utf-8,%5B%E2%80%A6%20{bytes}%20bytes%20left%20out%20%E2%80%A6%5D")
}

/// Bytes that a text takes within a JSON string.
pub(super) fn json_len(text: &str) -> usize {
    text.bytes().map(json_byte).sum()
}

fn json_byte(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// The longest beginning of a text that takes at most `max` bytes of JSON.
fn prefix(text: &str, max: usize) -> &str {
    let mut used = 0;
    let fits = text.bytes().take_while(|byte| {
        used += json_byte(*byte);
        used <= max
    });
    &text[..text.floor_char_boundary(fits.count())]
}

/// The longest end of a text that takes at most `max` bytes of JSON.
fn suffix(text: &str, max: usize) -> &str {
    let mut used = 0;
    let fits = text.bytes().rev().take_while(|byte| {
        used += json_byte(*byte);
        used <= max
    });
    &text[text.ceil_char_boundary(text.len() - fits.count())..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grown(chunks: &[String], limit: usize) -> (String, Rest) {
        let (mut head, mut rest) = (String::new(), Rest::default());
        for chunk in chunks {
            rest.push(&mut head, chunk, limit);
        }
        (head, rest)
    }

    proptest! {
        /// However a text comes, the same of it is held and shown, within the bound, and the mark's number is right.
        #[test]
        fn what_is_shown_does_not_depend_on_the_chunks(
            chunks in prop::collection::vec("[a-c\n\"é…\u{1}]{0,12}", 0..60),
            limit in 16..200_usize,
            max in 200..400_usize,
        ) {
            let whole = chunks.concat();
            let (head, rest) = grown(&chunks, limit);
            let (head_of_one, rest_of_one) = grown(std::slice::from_ref(&whole), limit);
            prop_assert_eq!(rest.total(&head), whole.len() as u64);
            let (text, is_whole) = rest.shown(&head, limit, max);
            prop_assert_eq!(&(text.clone(), is_whole), &rest_of_one.shown(&head_of_one, limit, max));
            prop_assert!(json_len(&text) <= max);
            prop_assert_eq!(json_len(&text) + 2, serde_json::to_string(&text).unwrap().len());
            if is_whole {
                prop_assert_eq!(text, whole);
            } else {
                let (first, after) = text.split_once("\n[… ").unwrap();
                let (number, last) = after.split_once(" bytes left out …]\n").unwrap();
                let number: usize = number.parse().unwrap();
                prop_assert!(whole.starts_with(first) && whole.ends_with(last));
                prop_assert_eq!(first.len() + number + last.len(), whole.len());
            }
        }
    }

    #[test]
    fn a_text_that_fits_stays_as_it_is() {
        assert_eq!(cut("short", 100), None);
        let text = cut(&"x".repeat(1000), 200).unwrap();
        assert!(text.len() <= 200 && text.contains("bytes left out"), "{text}");
    }
}
