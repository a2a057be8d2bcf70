//! The incoming half: text messages as frames, and the watch over a client that says nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::tungstenite::Message;

use super::codes::read_failed;
use super::{KeepAlive, Shared};
use crate::hooks::{CloseReason, Violation};
use crate::transport::{Received, Source};

/// How long the answer to a client's goodbye may take to go out.
const GOODBYE: Duration = Duration::from_secs(1);

/// The incoming half of a [`WebSocket`](super::WebSocket).
#[derive(Debug)]
pub struct WebSocketSource<S> {
    shared: Arc<Shared<S>>,
    keep_alive: KeepAlive,
    /// Made with the first read; then it goes on from one read to the next.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that had come when the timer last rang.
    heard: u64,
    /// Pings since then.
    pinged: u32,
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketSource<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, keep_alive: KeepAlive) -> Self {
        Self { shared, keep_alive, timer: None, heard: 0, pinged: 0, ended: false }
    }

    /// What the timer's ringing means: true that the client is gone. Any bytes are a sign of life, also a piece of a long
    /// message.
    fn rings(&mut self) -> bool {
        let (heard, _) = self.shared.passed();
        if heard != self.heard {
            self.heard = heard;
            self.pinged = 0;
        } else if self.pinged >= self.keep_alive.pings {
            return true;
        } else {
            self.pinged += 1;
            self.shared.ping_due.notify_one();
        }
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(Instant::now() + self.keep_alive.interval);
        }
        false
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Source for WebSocketSource<S> {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        while !self.ended {
            let interval = self.keep_alive.interval;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(interval)));
            let message = tokio::select! {
                // What has come is looked at before it counts as missing.
                biased;
                message = self.shared.next() => message,
                () = timer => {
                    if self.rings() {
                        self.ended = true;
                        return Ok(Some(Received::End(CloseReason::Silent)));
                    }
                    continue;
                }
            };
            match message {
                Some(Ok(Message::Text(text))) => return Ok(Some(Received::Frame(text.into()))),
                Some(Ok(Message::Binary(_))) => {
                    self.ended = true;
                    let text = "binary messages are not taken, send text".to_owned();
                    return Ok(Some(Received::End(CloseReason::Violation(Violation::Kind, text))));
                }
                // Pings have been answered already.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) => {
                    self.shared.goodbye.store(true, Ordering::Relaxed);
                    // Reading on sends the answer and ends with it.
                    let _ = tokio::time::timeout(GOODBYE, self.shared.next()).await;
                    self.ended = true;
                }
                Some(Err(error)) => {
                    self.ended = true;
                    let limit = self.shared.stream.lock().get_config().max_message_size;
                    return Ok(read_failed(error, limit)?.map(Received::End));
                }
                None => self.ended = true,
            }
        }
        Ok(None)
    }
}
