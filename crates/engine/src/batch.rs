//! A session's next commit while it is put together: facts with their numbers, and signals between them. Pure.

use std::sync::Arc;

use signalbox_facts::{Activity, Committed, Fact, FactBody, Seq, SessionId, Signal, SignalBody, TurnId};

/// A merged chunk is closed at this length, so that no row grows without bound.
const CHUNK_BYTES: usize = 64 << 10;

/// Which item a fact belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    /// None.
    None,
    /// One that this fact starts.
    New,
    /// The one that started at this seq.
    Of(Seq),
}

/// Facts and signals on their way to one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    session: SessionId,
    first: Seq,
    next: Seq,
    at_ms: i64,
    /// Facts are kept plain until the batch is sealed, so that chunks can still join them.
    entries: Vec<Entry>,
    bytes: usize,
    activity: Option<Activity>,
}

#[derive(Debug)]
enum Entry {
    Fact(Fact),
    Signal(Signal),
}

impl Batch {
    /// An empty one after `last_seq`.
    #[must_use]
    pub(crate) fn new(session: SessionId, last_seq: Seq, at_ms: i64) -> Self {
        let next = last_seq + 1;
        Self { session, first: next, next, at_ms, entries: Vec::new(), bytes: 0, activity: None }
    }

    /// Adds a fact; gives its seq. A chunk that continues the fact before it joins that one instead.
    pub(crate) fn push(&mut self, turn: Option<TurnId>, item: Item, body: FactBody) -> Seq {
        if let Item::Of(item) = item
            && let Some(Entry::Fact(last)) = self.entries.last_mut()
            && last.item_seq == Some(item)
            && last.turn == turn
            && let Some(added) = join(&mut last.body, &body)
        {
            self.bytes += added;
            return last.seq;
        }
        let seq = self.next;
        self.next += 1;
        let item_seq = match item {
            Item::None => None,
            Item::New => Some(seq),
            Item::Of(item) => Some(item),
        };
        if let FactBody::Activity(activity) = &body {
            self.activity = Some(activity.clone());
        }
        self.bytes += size(&body);
        self.entries.push(Entry::Fact(Fact {
            session: self.session,
            turn,
            seq,
            through_seq: seq,
            item_seq,
            at_ms: self.at_ms,
            body,
        }));
        seq
    }

    /// Adds a signal, in order.
    pub(crate) fn signal(&mut self, turn: Option<TurnId>, body: SignalBody) {
        let seq = self.next - 1;
        self.entries.push(Entry::Signal(Signal {
            session: self.session,
            turn,
            seq,
            at_ms: self.at_ms,
            body,
        }));
    }

    /// The bodies of its facts, in order.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &FactBody> + '_ {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Fact(fact) => Some(&fact.body),
            Entry::Signal(_) => None,
        })
    }

    /// The activity that the batch leads to, if it changes it.
    #[must_use]
    pub(crate) fn activity(&self) -> Option<&Activity> {
        self.activity.as_ref()
    }

    /// The seq that the next fact gets.
    #[must_use]
    pub(crate) fn next_seq(&self) -> Seq {
        self.next
    }

    /// When it happens, Unix milliseconds.
    #[must_use]
    pub(crate) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Rough size of its facts.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Closes it: the last seq before it, and everything in order.
    #[must_use]
    pub(crate) fn seal(self) -> (Seq, Vec<Committed>) {
        let committed = self.entries.into_iter().map(|entry| match entry {
            Entry::Fact(fact) => Committed::Fact(Arc::new(fact)),
            Entry::Signal(signal) => Committed::Signal(Arc::new(signal)),
        });
        (self.first - 1, committed.collect())
    }
}

/// Appends a chunk to the one before it; `None` if they do not join.
fn join(last: &mut FactBody, next: &FactBody) -> Option<usize> {
    let (last, next) = match (last, next) {
        (FactBody::AgentText(last), FactBody::AgentText(next))
        | (FactBody::AgentThought(last), FactBody::AgentThought(next)) => (&mut last.text, &next.text),
        (FactBody::ToolOutput(last), FactBody::ToolOutput(next)) if !next.replace => {
            (&mut last.text, &next.text)
        }
        _ => return None,
    };
    if last.len() + next.len() > CHUNK_BYTES {
        return None;
    }
    last.push_str(next);
    Some(next.len())
}

/// Rough size, for bounding a commit; exact only for what can be large.
fn size(body: &FactBody) -> usize {
    128 + match body {
        FactBody::AgentText(text) | FactBody::AgentThought(text) => text.text.len(),
        FactBody::ToolOutput(output) => output.text.len(),
        FactBody::Prompt(prompt) => 2 * prompt.text.len(),
        FactBody::TurnDiff(diff) => diff.diff.len(),
        FactBody::ToolCall(call) => {
            call.diffs.iter().flatten().map(|diff| diff.unified.len()).sum::<usize>() + call.title.len() + 512
        }
        _ => 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_facts::AgentText;

    fn text(text: &str) -> FactBody {
        FactBody::AgentText(AgentText { message_id: "m1".into(), text: text.into() })
    }

    #[test]
    fn chunks_that_follow_each_other_are_one_fact() {
        let mut batch = Batch::new(SessionId::generate(), 6, 1);
        let item = batch.push(None, Item::New, text("a"));
        assert_eq!(batch.push(None, Item::Of(item), text("b")), 7);
        batch.signal(None, SignalBody::Stalled { since_ms: None });
        assert_eq!(batch.push(None, Item::Of(item), text("c")), 8, "what lies between keeps its place");
        let (before, entries) = batch.seal();
        assert_eq!((before, entries.len()), (6, 3));
    }

    #[test]
    fn a_long_text_becomes_several_facts() {
        let mut batch = Batch::new(SessionId::generate(), 0, 1);
        let item = batch.push(None, Item::New, text(&"x".repeat(CHUNK_BYTES)));
        assert_eq!(batch.push(None, Item::Of(item), text("y")), 2);
    }
}
