//! The incoming half: text messages as frames, and the watch over a client that says nothing, too little or too much.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::tungstenite::{self, Message};

use super::codes::read_failed;
use super::progress::UnderWay;
use super::{Shared, Watch};
use crate::hooks::{CloseReason, Violation};
use crate::transport::{Received, Source};

/// How long the answer to a client's goodbye may take to go out.
const GOODBYE: Duration = Duration::from_secs(1);
/// So many pings may come until the pongs for them have to be out.
const PINGS: u32 = 64;
/// A client sends at least so many bytes a second, beside the time that any message has.
const BYTES_A_SECOND: u64 = 64 * 1024;
/// What may have come of a message without room being taken for it.
const SMALL_BYTES: u64 = 16 * 1024;

/// The incoming half of a [`WebSocket`](super::WebSocket).
#[derive(Debug)]
pub struct WebSocketSource<S> {
    shared: Arc<Shared<S>>,
    watch: Watch,
    /// Made with the first read; then it goes on from one read to the next.
    timer: Option<Pin<Box<Sleep>>>,
    /// When something had last come when the timer last rang.
    heard: Option<Instant>,
    /// Pings of ours since then, and when the last one was.
    pinged: u32,
    pinged_at: Option<Instant>,
    /// The client's pings since pongs were last out for certain.
    pings: u32,
    /// For what has come of the message under way.
    room: Option<OwnedSemaphorePermit>,
    ended: bool,
}

/// What a client said.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A text, which is UTF-8.
    Text(Bytes),
    /// A message of the kind that is no text; its content is not kept.
    Binary,
    /// Nothing more can be read, for this reason.
    End(CloseReason),
}

/// What waiting for a message came to.
enum Step {
    Came(Option<tungstenite::Result<Message>>),
    NoRoom,
    Rang,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketSource<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, watch: Watch) -> Self {
        Self {
            shared,
            watch,
            timer: None,
            heard: None,
            pinged: 0,
            pinged_at: None,
            pings: 0,
            room: None,
            ended: false,
        }
    }

    /// The next message; none when the client has gone. Pings are answered, and silence is asked about by the sink.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn hear(&mut self) -> io::Result<Option<Heard>> {
        while !self.ended {
            if self.pings >= PINGS {
                // A client that does not take its pongs gets no further with its pings, and is found out by the sink.
                self.shared.flush_due.notify_one();
                self.shared.flushed.notified().await;
                self.pings = 0;
            }
            let message = match self.step().await {
                Step::Came(message) => message,
                Step::NoRoom => {
                    let text = "too many messages are on their way, try again later".to_owned();
                    return Ok(Some(self.end(CloseReason::Violation(Violation::NoRoom, text))));
                }
                Step::Rang => match self.rings() {
                    Some(reason) => return Ok(Some(self.end(reason))),
                    None => continue,
                },
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    self.room = None;
                    return Ok(Some(Heard::Text(text.into())));
                }
                Some(Ok(Message::Binary(_))) => {
                    self.room = None;
                    return Ok(Some(Heard::Binary));
                }
                // Is being answered.
                Some(Ok(Message::Ping(_))) => self.pings += 1,
                Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) => {
                    self.shared.goodbye.store(true, Ordering::Relaxed);
                    // Reading on sends the answer and ends with it.
                    let _ = tokio::time::timeout(GOODBYE, self.shared.next()).await;
                    self.ended = true;
                }
                Some(Err(error)) => {
                    self.ended = true;
                    let limit = self.shared.stream.lock().get_config().max_message_size;
                    return Ok(read_failed(error, limit)?.map(Heard::End));
                }
                None => self.ended = true,
            }
        }
        Ok(None)
    }

    fn end(&mut self, reason: CloseReason) -> Heard {
        self.ended = true;
        Heard::End(reason)
    }

    /// Waits for a message, for the want of room, or for the timer.
    async fn step(&mut self) -> Step {
        let Self { shared, watch, timer, room, .. } = self;
        let interval = watch.keep_alive.interval;
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(interval)));
        let comes = std::future::poll_fn(|cx| match shared.poll_next(cx) {
            Poll::Ready(message) => Poll::Ready(Step::Came(message)),
            Poll::Pending if has_room(watch, room, shared.read().1) => Poll::Pending,
            Poll::Pending => Poll::Ready(Step::NoRoom),
        });
        tokio::select! {
            // What has come is looked at before it counts as missing.
            biased;
            step = comes => step,
            () = timer => Step::Rang,
        }
    }

    /// What the timer's ringing means: why the connection ends, if it does. Any bytes are a sign of life, also a piece of a
    /// long message; but a message has its time.
    fn rings(&mut self) -> Option<CloseReason> {
        let now = Instant::now();
        let (heard, under_way) = self.shared.read();
        let message_ends = under_way.map(|under_way| self.ends(under_way));
        if message_ends.is_some_and(|end| end <= now) {
            let text = "a message did not come whole in time".to_owned();
            return Some(CloseReason::Violation(Violation::Slow, text));
        }
        let keep_alive = self.watch.keep_alive;
        if self.heard.replace(heard) != Some(heard) {
            self.pinged = 0;
            self.pinged_at = None;
        }
        if heard.max(self.pinged_at.unwrap_or(heard)) + keep_alive.interval <= now {
            if self.pinged >= keep_alive.pings {
                return Some(CloseReason::Silent);
            }
            self.pinged += 1;
            self.pinged_at = Some(now);
            self.shared.ping_due.notify_one();
        }
        let silence = heard.max(self.pinged_at.unwrap_or(heard)) + keep_alive.interval;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(message_ends.map_or(silence, |end| end.min(silence)));
        }
        None
    }

    /// When the time of a message is over.
    fn ends(&self, under_way: UnderWay) -> Instant {
        under_way.began + self.watch.message_time + Duration::from_secs(under_way.bytes / BYTES_A_SECOND)
    }
}

/// Takes room for what has come of a message; false if there is not enough.
fn has_room(watch: &Watch, held: &mut Option<OwnedSemaphorePermit>, under_way: Option<UnderWay>) -> bool {
    let (Some(room), Some(under_way)) = (&watch.room, under_way) else { return true };
    let needed = usize::try_from(under_way.bytes.saturating_sub(SMALL_BYTES).div_ceil(1024));
    let have = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = needed.unwrap_or(usize::MAX).saturating_sub(have);
    if more == 0 {
        return true;
    }
    let Ok(more) = room.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX)) else {
        return false;
    };
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
    true
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Source for WebSocketSource<S> {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        Ok(self.hear().await?.map(|heard| match heard {
            Heard::Text(text) => Received::Frame(text),
            Heard::Binary => {
                self.ended = true;
                let text = "binary messages are not taken, send text".to_owned();
                Received::End(CloseReason::Violation(Violation::Kind, text))
            }
            Heard::End(reason) => Received::End(reason),
        }))
    }
}
