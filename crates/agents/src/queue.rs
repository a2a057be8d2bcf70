//! The ordered queue of events from driver to receiver: bounded by not reading the agent, and merging what waits.
//!
//! The driver never waits here, so it can always act on a cancel or a stop. It asks [`Sink::has_room`] before it reads
//! more of the agent's output; an event is therefore never more than one read burst (or one long line) over the bound.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::event::AgentEvent;
use crate::update::{OutputPatch, Update};

/// Events that may wait, whatever their size.
const MAX_EVENTS: usize = 16 << 10;
/// A merged chunk is closed at this length, so that no single event grows without bound.
const MERGE_BYTES: usize = 32 << 10;
/// What an event costs besides its text.
const EVENT_BYTES: usize = 128;

/// An event and about how many bytes it holds.
pub(crate) type Weighed = (AgentEvent, usize);

/// The receiving end. When it is dropped the agent is stopped.
#[derive(Debug)]
pub struct AgentEvents {
    queue: Arc<Queue>,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct Sink {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<AgentEvent>,
    bytes: usize,
    sink_gone: bool,
    receiver_gone: bool,
}

pub(crate) fn channel(max_bytes: usize) -> (Sink, AgentEvents) {
    let queue =
        Arc::new(Queue { state: Mutex::default(), filled: Notify::new(), emptied: Notify::new(), max_bytes });
    (Sink { queue: Arc::clone(&queue) }, AgentEvents { queue })
}

impl AgentEvents {
    /// Everything that has happened since the last call, in order; waits until there is something. `None` after the
    /// last event. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<Vec<AgentEvent>> {
        loop {
            let filled = self.queue.filled.notified();
            {
                let mut state = self.queue.state.lock();
                if !state.events.is_empty() {
                    state.bytes = 0;
                    let events = std::mem::take(&mut state.events);
                    drop(state);
                    self.queue.emptied.notify_one();
                    return Some(events.into());
                }
                if state.sink_gone {
                    return None;
                }
            }
            filled.await;
        }
    }
}

impl Drop for AgentEvents {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.receiver_gone = true;
        state.events.clear();
        state.bytes = 0;
        drop(state);
        self.queue.emptied.notify_one();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.queue.state.lock().sink_gone = true;
        self.queue.filled.notify_one();
    }
}

impl Sink {
    /// Adds events, in order. Never waits and never loses one (unless the receiver is gone).
    pub(crate) fn push(&self, events: &mut Vec<Weighed>) {
        let mut state = self.queue.state.lock();
        if state.receiver_gone {
            events.clear();
            return;
        }
        let before = state.events.len();
        for (event, bytes) in events.drain(..) {
            let event = match state.events.back_mut() {
                Some(last) => match merge(last, event) {
                    Ok(added) => {
                        state.bytes += added;
                        continue;
                    }
                    Err(event) => event,
                },
                None => event,
            };
            state.bytes += EVENT_BYTES + bytes;
            state.events.push_back(event);
        }
        let wake = before == 0 && !state.events.is_empty();
        drop(state);
        if wake {
            self.queue.filled.notify_one();
        }
    }

    /// Whether more of the agent's output may be read.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.queue.state.lock();
        state.bytes < self.queue.max_bytes && state.events.len() < MAX_EVENTS
    }

    /// Waits until the receiver has taken events or is gone. May return early.
    pub(crate) async fn emptied(&self) {
        self.queue.emptied.notified().await;
    }

    /// Whether nobody will take events any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.state.lock().receiver_gone
    }
}

/// Appends a text or output chunk to the event before it, if both belong together. Gives the bytes added, or the
/// event back.
fn merge(last: &mut AgentEvent, event: AgentEvent) -> Result<usize, AgentEvent> {
    if let (AgentEvent::Said(text), AgentEvent::Said(more)) = (&mut *last, &event)
        && text.len() + more.len() <= MERGE_BYTES
    {
        text.push_str(more);
        return Ok(more.len());
    }
    let (AgentEvent::Update(last), AgentEvent::Update(next)) = (last, &event) else { return Err(event) };
    let (text, more) = match (last, next) {
        (Update::Message(a), Update::Message(b)) | (Update::Thought(a), Update::Thought(b))
            if a.message_id == b.message_id =>
        {
            (&mut a.text, &b.text)
        }
        (Update::Tool(a), Update::Tool(b)) if a.id == b.id && a.only_appends() && b.only_appends() => {
            match (&mut a.output, &b.output) {
                (Some(OutputPatch::Append(text)), Some(OutputPatch::Append(more))) => (text, more),
                _ => return Err(event),
            }
        }
        _ => return Err(event),
    };
    if text.len() + more.len() > MERGE_BYTES {
        return Err(event);
    }
    text.push_str(more);
    Ok(more.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::{TextChunk, ToolPatch};

    fn text(id: &str, text: &str) -> (AgentEvent, usize) {
        let chunk = TextChunk { message_id: Some(id.into()), text: text.into() };
        (AgentEvent::Update(Update::Message(chunk)), text.len())
    }

    fn output(id: &str, more: &str) -> (AgentEvent, usize) {
        let patch = ToolPatch {
            id: id.into(),
            output: Some(OutputPatch::Append(more.into())),
            ..ToolPatch::default()
        };
        (AgentEvent::Update(Update::Tool(Box::new(patch))), more.len())
    }

    #[tokio::test]
    async fn chunks_of_one_message_merge_while_they_wait_and_nothing_else_does() {
        let (sink, mut events) = channel(1 << 20);
        sink.push(&mut vec![text("a", "one "), text("a", "two"), text("b", "three")]);
        sink.push(&mut vec![text("b", " four"), output("t", "x"), output("t", "y"), output("u", "z")]);
        let got = events.recv().await.unwrap();
        let wanted: Vec<_> =
            [text("a", "one two"), text("b", "three four"), output("t", "xy"), output("u", "z")].into();
        assert_eq!(got, wanted.into_iter().map(|(event, _)| event).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn there_is_no_room_until_the_receiver_takes_events() {
        let (sink, mut events) = channel(100);
        assert!(sink.has_room());
        sink.push(&mut vec![text("a", &"x".repeat(200))]);
        assert!(!sink.has_room());
        events.recv().await.unwrap();
        sink.emptied().await;
        assert!(sink.has_room());
    }

    #[tokio::test]
    async fn the_stream_ends_after_what_was_pushed_last() {
        let (sink, mut events) = channel(100);
        sink.push(&mut vec![text("a", "last")]);
        drop(sink);
        assert_eq!(events.recv().await.map(|events| events.len()), Some(1));
        assert_eq!(events.recv().await, None);
    }
}
