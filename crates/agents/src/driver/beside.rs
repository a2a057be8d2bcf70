//! What an agent says on stderr while it logs its user in: often an address and a code, which the user must see at once.

use super::conversation::{Conversation, Phase};
use crate::event::AgentEvent;

/// Told of one login; the rest is only in the tail that a failure has.
const MOST_BYTES: usize = 256 << 10;

/// Makes text of pieces.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// A user has asked for the login and waits for it.
    told: bool,
    /// The begin of a character of which the rest has not come.
    begun: Vec<u8>,
    told_bytes: usize,
}

impl Beside {
    /// Tells it or not.
    pub(super) fn new(told: bool) -> Self {
        Self { told, ..Self::default() }
    }

    /// The text of this piece, up to the last whole character.
    fn text(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = String::from_utf8_lossy(&self.begun).into_owned();
        self.begun = rest;
        text
    }
}

impl Conversation {
    /// A piece of stderr.
    pub(super) fn says_beside(&mut self, bytes: &[u8]) {
        let logs_in = self.beside.told
            && matches!(self.phase, Phase::Initializing { .. } | Phase::Authenticating | Phase::Opening);
        if !logs_in || self.beside.told_bytes >= MOST_BYTES {
            return;
        }
        self.beside.told_bytes += bytes.len();
        let text = self.beside.text(bytes);
        if !text.is_empty() {
            self.out.push((AgentEvent::Said(text), bytes.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest_and_what_is_none_does_not() {
        let mut beside = Beside::default();
        let word = "né".as_bytes();
        assert_eq!(beside.text(&word[..2]), "n");
        assert_eq!(beside.text(&word[2..]), "é");
        assert_eq!(beside.text(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(beside.text(b"code"), "code");
    }
}
