//! The server's end of a WebSocket: frames are text messages. The handshake is done elsewhere.

mod codes;
mod counted;
mod sink;
mod source;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink, Stream};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use self::counted::Counted;
use super::{Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::OutboxReader;

pub use codes::close_code;
pub use sink::WebSocketSink;
pub use source::WebSocketSource;

/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// Writes are collected up to about this much, also within one long message: each connection keeps a buffer as large as
/// what it once had to collect.
const WRITE_BYTES: usize = 16 * 1024;

/// When a client counts as gone that says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// A client from which nothing has come for this long is pinged. Default 30 s.
    pub interval: Duration,
    /// After so many pings, an interval apart, without a sign of life the connection ends. Default 2.
    pub pings: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), pings: 2 }
    }
}

/// The server's end of a WebSocket.
///
/// Text messages are frames. Any other message, one above the limit (as a whole, in however many pieces it comes) and
/// whatever breaks RFC 6455 ends the connection with the close code for it. Messages of ours above 16 KiB go out in
/// pieces, so that no connection keeps a large buffer.
#[derive(Debug)]
pub struct WebSocket<S> {
    shared: Arc<Shared<S>>,
    keep_alive: KeepAlive,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// The server's end of a connection whose handshake is done. Larger messages than `max_frame_bytes` end it.
    pub async fn server(io: S, max_frame_bytes: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(WRITE_BYTES)
            .max_message_size(Some(max_frame_bytes))
            .max_frame_size(Some(max_frame_bytes));
        let stream = WebSocketStream::from_raw_socket(Counted::new(io), Role::Server, Some(config)).await;
        let shared = Arc::new(Shared {
            stream: Mutex::new(stream),
            ping_due: Notify::new(),
            goodbye: AtomicBool::new(false),
        });
        Self { shared, keep_alive: KeepAlive::default() }
    }

    /// With other times than the default ones.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// The two halves, for protocols of messages other than JSON-RPC. Both have to be used: the source tells the sink when
    /// to ping.
    #[must_use]
    pub fn split(self) -> (WebSocketSource<S>, WebSocketSink<S>) {
        (WebSocketSource::new(self.shared.clone(), self.keep_alive), WebSocketSink::new(self.shared))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for WebSocket<S> {
    type Source = WebSocketSource<S>;

    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send) {
        let (source, sink) = self.split();
        (source, sink.run(outbox, limits.stall_grace))
    }
}

/// The stream, of which both halves are used in one task or in two. It is locked for one poll at a time.
#[derive(Debug)]
struct Shared<S> {
    stream: Mutex<WebSocketStream<Counted<S>>>,
    /// Tells the sink to ping.
    ping_due: Notify,
    /// The client has said goodbye: nothing of it is under way any more.
    goodbye: AtomicBool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Shared<S> {
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<tungstenite::Result<Message>>> {
        Pin::new(&mut *self.stream.lock()).poll_next(cx)
    }

    async fn next(&self) -> Option<tungstenite::Result<Message>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Writes a message, or leaves it to be written by what follows.
    async fn feed(&self, message: Message) -> tungstenite::Result<()> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.stream.lock()).poll_ready(cx)).await?;
        Pin::new(&mut *self.stream.lock()).start_send(message)
    }

    async fn flush(&self) -> tungstenite::Result<()> {
        std::future::poll_fn(|cx| Pin::new(&mut *self.stream.lock()).poll_flush(cx)).await
    }

    /// Bytes that have been read and written so far.
    fn passed(&self) -> (u64, u64) {
        self.stream.lock().get_ref().passed()
    }
}
