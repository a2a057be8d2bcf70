//! Which messages are how far told, so that a whole message becomes what is new about it.
//!
//! What was shown cannot be taken back. A whole message that goes on where the chunks ended adds to them; one that says
//! something else is told as a message of its own, under an id of its own, beside the one that it corrects.

use std::collections::VecDeque;

/// Messages remembered, the latest ones. An older one that is told whole again is shown once more.
const MAX_MESSAGES: usize = 512;

/// Whose words they are. An agent may use one id for a thought and the answer after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Prompt,
    Answer,
    Thought,
}

/// What has been told of the messages of a session.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    known: VecDeque<Message>,
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    id: String,
    /// Bytes told, and their digest: texts are not kept.
    bytes: usize,
    digest: Digest,
    /// Pieces told that are no text.
    others: usize,
    /// How often it began anew.
    revision: u32,
}

/// What of a whole message is new.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// The id to tell it under.
    pub(crate) id: String,
    /// The text from this byte on.
    pub(crate) from: usize,
    /// Of the other pieces, those from this one on.
    pub(crate) others_from: usize,
}

impl Messages {
    /// A chunk is told. Gives the id to tell it under, if that is another than the agent's.
    pub(crate) fn append(&mut self, kind: Kind, id: &str, text: &str, others: usize) -> Option<String> {
        let message = self.message(kind, id);
        message.bytes += text.len();
        message.digest.add(text);
        message.others += others;
        (message.revision > 0).then(|| message.shown_id())
    }

    /// A whole message of this text and so many other pieces is told.
    pub(crate) fn whole(&mut self, kind: Kind, id: &str, text: &str, others: usize) -> News {
        let message = self.message(kind, id);
        let goes_on = others >= message.others
            && text.get(..message.bytes).is_some_and(|told| Digest::of(told) == message.digest);
        if !goes_on {
            message.revision += 1;
            (message.bytes, message.digest, message.others) = (0, Digest::default(), 0);
        }
        let news = News { id: message.shown_id(), from: message.bytes, others_from: message.others };
        (message.bytes, message.digest, message.others) = (text.len(), Digest::of(text), others);
        news
    }

    fn message(&mut self, kind: Kind, id: &str) -> &mut Message {
        // The one that is being told is nearly always the last.
        let at = self.known.iter().rposition(|message| message.kind == kind && message.id == id);
        let at = at.unwrap_or_else(|| {
            if self.known.len() >= MAX_MESSAGES {
                self.known.pop_front();
            }
            let (digest, id) = (Digest::default(), id.to_owned());
            self.known.push_back(Message { kind, id, bytes: 0, digest, others: 0, revision: 0 });
            self.known.len() - 1
        });
        &mut self.known[at]
    }
}

impl Message {
    fn shown_id(&self) -> String {
        match self.revision {
            0 => self.id.clone(),
            revision => format!("{}~{revision}", self.id),
        }
    }
}

/// FNV-1a, because it may be fed piece by piece. Nothing depends on its strength: an agent can only fool itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        let mut digest = Self::default();
        digest.add(text);
        digest
    }

    pub(super) fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
