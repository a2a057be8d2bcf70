//! Numbered chunks as fast as the client takes them: the load of benchmarks and of tests that look for loss.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::{
    peer::update_frame,
    turn::{Step, Turn},
};

/// Chunks are put together up to this size before they are queued.
const BATCH_BYTES: usize = 64 * 1024;
/// Digits of a chunk's number.
const DIGITS: usize = 8;

/// Sends `count` chunks of `bytes` bytes, all of one message. Chunk *n*, from 0, is *n* in decimal with
/// leading zeros, eight digits or, in shorter chunks, its last `bytes` digits; longer chunks are filled up with
/// dots and end with a line feed.
pub(crate) async fn numbered(turn: &Turn, count: u64, bytes: usize, delay: Duration) -> Step {
    let frame = Frame::new(turn);
    let mut text = vec![b'.'; bytes];
    if bytes > DIGITS {
        // An escape in JSON; see `Frame::put`.
        text[bytes - 1] = b'\n';
    }
    let mut clock = Clock::new(delay);
    let mut batch = Vec::with_capacity(BATCH_BYTES + frame.len(bytes));
    for n in 0..count {
        digits(n, &mut text[..bytes.min(DIGITS)]);
        frame.put(&mut batch, &text);
        frame.remember(turn, &text);
        if batch.len() >= BATCH_BYTES || clock.ticks() || n + 1 == count {
            turn.peer.outbox.send(std::mem::take(&mut batch)).await?;
            batch.reserve(BATCH_BYTES + frame.len(bytes));
            // The reader of the client's lines must have its turn too, or no cancel would be heard.
            tokio::task::yield_now().await;
            if n + 1 < count {
                clock.tick().await;
            }
        }
    }
    Ok(())
}

/// Sends `count` chunks that each hold the time of their making: microseconds since 1970 in 16 digits, and a
/// space.
pub(crate) async fn stamped(turn: &Turn, count: u64, delay: Duration) -> Step {
    let frame = Frame::new(turn);
    let mut clock = Clock::new(delay);
    for n in 0..count {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let text = format!("{now:016} ");
        let mut line = Vec::with_capacity(frame.len(text.len()));
        frame.put(&mut line, text.as_bytes());
        frame.remember(turn, text.as_bytes());
        turn.peer.outbox.send(line).await?;
        tokio::task::yield_now().await;
        if n + 1 < count {
            clock.tick().await;
        }
    }
    Ok(())
}

/// A chunk's frame around its text, serialized once.
struct Frame {
    id: String,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Frame {
    fn new(turn: &Turn) -> Self {
        const MARK: &str = "@text@";
        let id = turn.id("msg");
        let frame = update_frame(
            &turn.session.id,
            &json!({
                "sessionUpdate": "agent_message_chunk",
                "messageId": id,
                "content": {"type": "text", "text": MARK},
            }),
        );
        // No id of ours contains the mark.
        let at = memchr::memmem::find(&frame, MARK.as_bytes()).unwrap_or(frame.len());
        let after = frame.get(at + MARK.len()..).unwrap_or_default().to_vec();
        Self { id, before: frame[..at].to_vec(), after }
    }

    fn len(&self, text: usize) -> usize {
        self.before.len() + text + 1 + self.after.len()
    }

    /// Adds a chunk's frame. The text is printable ASCII but for a last line feed.
    fn put(&self, batch: &mut Vec<u8>, text: &[u8]) {
        batch.extend_from_slice(&self.before);
        match text.strip_suffix(b"\n") {
            Some(line) => {
                batch.extend_from_slice(line);
                batch.extend_from_slice(b"\\n");
            }
            None => batch.extend_from_slice(text),
        }
        batch.extend_from_slice(&self.after);
    }

    fn remember(&self, turn: &Turn, text: &[u8]) {
        turn.count_said(text.len());
        turn.session.with(|kept| {
            if let Ok(text) = std::str::from_utf8(text) {
                kept.history.append("agent_message_chunk", &self.id, text);
            }
        });
    }
}

/// Writes `n` in decimal, right-aligned with leading zeros, into all of `place`.
fn digits(mut n: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

/// Keeps a pace: late ticks come at once, so that the whole takes as long as it should.
struct Clock(Option<(tokio::time::Instant, Duration)>);

impl Clock {
    fn new(delay: Duration) -> Self {
        Self((!delay.is_zero()).then(|| (tokio::time::Instant::now(), delay)))
    }

    fn ticks(&self) -> bool {
        self.0.is_some()
    }

    async fn tick(&mut self) {
        if let Some((next, delay)) = &mut self.0 {
            *next += *delay;
            tokio::time::sleep_until(*next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_their_place_and_lose_leading_digits_only() {
        let mut place = [b'.'; 8];
        digits(42, &mut place);
        assert_eq!(&place, b"00000042");
        let mut place = [b'.'; 2];
        digits(12345, &mut place);
        assert_eq!(&place, b"45");
    }
}
