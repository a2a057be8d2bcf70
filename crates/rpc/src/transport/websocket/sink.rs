//! The outgoing half: bursts of frames, one flush each; pings; and the goodbye.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::codes::close_frame;
use super::{READ_BYTES, Shared, WRITE_BYTES};
use crate::hooks::{CloseReason, Violation};
use crate::outbox::{Burst, OutboxReader};

/// How long a client may take to answer our goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// Room for so many frames of a burst is kept.
const BURST_FRAMES_KEPT: usize = 64;

/// What a client is to be sent beside messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It has said nothing for long.
    Ping,
    /// It has pinged many times.
    Pongs,
}

/// The outgoing half of a [`WebSocket`](super::WebSocket).
#[derive(Debug)]
pub struct WebSocketSink<S> {
    shared: Arc<Shared<S>>,
    /// The client has said goodbye, or is gone: what is still to be sent goes nowhere.
    closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketSink<S> {
    pub(super) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared, closed: false }
    }

    /// Waits until something should be written that is no message. Cancel-safe.
    pub async fn due(&self) -> Due {
        tokio::select! {
            () = self.shared.ping_due.notified() => Due::Ping,
            () = self.shared.flush_due.notified() => Due::Pongs,
        }
    }

    /// Pings the client, or writes the pongs that it asked for.
    ///
    /// # Errors
    /// When writing fails, or makes no progress for `grace`.
    pub async fn attend(&mut self, due: Due, grace: Option<Duration>) -> Result<(), CloseReason> {
        let written = async {
            if due == Due::Ping {
                self.shared.feed(Message::Ping(Bytes::new())).await?;
            }
            self.shared.flush().await
        };
        let written = self.in_time(written, grace).await;
        if due == Due::Pongs {
            self.shared.flushed.notify_one();
        }
        self.unless_closed(written)
    }

    /// Writes messages of text, which must be UTF-8, and flushes once behind them.
    ///
    /// # Errors
    /// When writing fails, or makes no progress for `grace`.
    pub async fn send(
        &mut self,
        frames: &mut Vec<Bytes>,
        grace: Option<Duration>,
    ) -> Result<(), CloseReason> {
        if self.closed {
            frames.clear();
            return Ok(());
        }
        let sent = async {
            for frame in frames.drain(..) {
                self.feed(frame).await?;
            }
            self.shared.flush().await
        };
        let sent = self.in_time(sent, grace).await;
        self.unless_closed(sent)
    }

    /// Says goodbye with the code and the text of the reason, and closes the stream when the client has answered or a
    /// second has passed. What it still says meanwhile is not heard.
    pub async fn close(self, reason: &CloseReason) {
        let goodbye = async {
            // Fails only where the connection is over already.
            let _ = self.shared.feed(Message::Close(Some(close_frame(reason)))).await;
            let _ = self.shared.flush().await;
            let mut answered = self.shared.goodbye.load(Ordering::Relaxed);
            // What should not be kept is not read as messages any more.
            if !matches!(reason, CloseReason::Violation(Violation::Slow | Violation::NoRoom, _)) {
                while let Some(Ok(message)) = self.shared.next().await {
                    answered |= message.is_close();
                }
            }
            self.hang_up(answered).await;
        };
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    /// Closes our direction. Where the client has not said that nothing follows, reads what is under way: a stream that is
    /// dropped with something unread is reset, and takes the goodbye with it.
    async fn hang_up(&self, nothing_follows: bool) {
        let mut raw = Raw(&self.shared);
        if raw.shutdown().await.is_err() || nothing_follows {
            return;
        }
        let mut ignored = vec![0; READ_BYTES];
        while matches!(raw.read(&mut ignored).await, Ok(read) if read > 0) {}
    }

    /// Writes what comes out of the outbox, until that ends.
    pub(super) async fn run(
        mut self,
        mut outbox: OutboxReader,
        grace: Option<Duration>,
    ) -> Result<(), CloseReason> {
        let mut frames = Vec::new();
        loop {
            let burst = tokio::select! {
                biased;
                burst = outbox.burst(&mut frames) => burst,
                due = self.due() => {
                    self.attend(due, grace).await?;
                    continue;
                }
            };
            match burst {
                Burst::Frames => self.send(&mut frames, grace).await?,
                Burst::End(reason) => {
                    self.close(&reason).await;
                    return Ok(());
                }
            }
            frames.shrink_to(BURST_FRAMES_KEPT);
        }
    }

    async fn feed(&self, mut frame: Bytes) -> Result<(), Error> {
        let mut kind = Data::Text;
        loop {
            let piece = frame.split_to(frame.len().min(WRITE_BYTES));
            let last = frame.is_empty();
            // Frames are made of strings; text that is checked already is not checked again.
            self.shared.feed(Message::Frame(Frame::message(piece, OpCode::Data(kind), last))).await?;
            if last {
                return Ok(());
            }
            kind = Data::Continue;
        }
    }

    /// Runs a write, and gives it up where nothing at all goes out for the whole grace.
    async fn in_time(
        &self,
        write: impl Future<Output = Result<(), Error>>,
        grace: Option<Duration>,
    ) -> Result<(), Option<Error>> {
        let mut write = pin!(write);
        let Some(grace) = grace else { return write.await.map_err(Some) };
        let mut before = self.shared.written();
        loop {
            if let Ok(written) = tokio::time::timeout(grace, &mut write).await {
                return written.map_err(Some);
            }
            let now = self.shared.written();
            if now == before {
                return Err(None);
            }
            before = now;
        }
    }

    fn unless_closed(&mut self, written: Result<(), Option<Error>>) -> Result<(), CloseReason> {
        match written {
            Ok(()) => Ok(()),
            Err(None | Some(Error::WriteBufferFull(_))) => Err(CloseReason::Stalled),
            // The source hears of it too, and lets the connection end in order.
            Err(Some(
                Error::ConnectionClosed
                | Error::AlreadyClosed
                | Error::Protocol(ProtocolError::SendAfterClosing),
            )) => {
                self.closed = true;
                Ok(())
            }
            Err(Some(error)) => Err(CloseReason::WriteFailed(error.to_string())),
        }
    }
}

/// The stream below the WebSocket, when that is over.
struct Raw<'a, S>(&'a Shared<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Raw<'_, S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(self.0.stream.lock().get_mut()).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Raw<'_, S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        Pin::new(self.0.stream.lock().get_mut()).poll_write(cx, bytes)
    }

    fn poll_flush(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(self.0.stream.lock().get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(self.0.stream.lock().get_mut()).poll_shutdown(cx)
    }
}
