//! The server's end of a WebSocket: frames are text messages. The handshake is done elsewhere.

mod codes;
mod counted;
mod progress;
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
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use self::counted::Counted;
use self::progress::UnderWay;
use super::{Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::OutboxReader;

pub use codes::close_code;
pub use sink::{Due, WebSocketSink};
pub use source::{Heard, WebSocketSource};

/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// Writes are collected up to about this much, also within one long message: each connection keeps a buffer as large as
/// what it once had to collect.
const WRITE_BYTES: usize = 16 * 1024;
/// The most that may wait to be written below us: two pieces, and pongs.
const UNWRITTEN_BYTES: usize = 128 * 1024;
/// How long a message may take to come, besides the time that its bytes may take. Default.
const MESSAGE_TIME: Duration = Duration::from_secs(60);

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
    watch: Watch,
}

/// What is asked of the client while it is read.
#[derive(Debug)]
struct Watch {
    keep_alive: KeepAlive,
    message_time: Duration,
    room: Option<Arc<Semaphore>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// The server's end of a connection whose handshake is done. Larger messages than `max_frame_bytes` end it.
    pub async fn server(io: S, max_frame_bytes: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(WRITE_BYTES)
            .max_write_buffer_size(UNWRITTEN_BYTES)
            .max_message_size(Some(max_frame_bytes))
            .max_frame_size(Some(max_frame_bytes));
        let stream = WebSocketStream::from_raw_socket(Counted::new(io), Role::Server, Some(config)).await;
        let shared = Arc::new(Shared {
            stream: Mutex::new(stream),
            ping_due: Notify::new(),
            flush_due: Notify::new(),
            flushed: Notify::new(),
            goodbye: AtomicBool::new(false),
        });
        let watch = Watch { keep_alive: KeepAlive::default(), message_time: MESSAGE_TIME, room: None };
        Self { shared, watch }
    }

    /// With other times than the default ones.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.watch.keep_alive = keep_alive;
        self
    }

    /// How long a message may take to come whole, besides a second for each 64 KiB of it that have come. Default 60 s. A
    /// client that takes longer is told so and parted with.
    #[must_use]
    pub fn message_time(mut self, time: Duration) -> Self {
        self.watch.message_time = time;
        self
    }

    /// Room in KiB for what has come of messages that are not whole, shared with other connections; without it only the
    /// limit of each message bounds that. A client for whose message there is none is told to try again later.
    #[must_use]
    pub fn room(mut self, room: Arc<Semaphore>) -> Self {
        self.watch.room = Some(room);
        self
    }

    /// The two halves, for protocols of messages other than JSON-RPC. Both have to be used: the source tells the sink what
    /// is due, and reads no further until that is done.
    #[must_use]
    pub fn split(self) -> (WebSocketSource<S>, WebSocketSink<S>) {
        (WebSocketSource::new(self.shared.clone(), self.watch), WebSocketSink::new(self.shared))
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
    /// Tells the sink to write pongs, and the source that they are out.
    flush_due: Notify,
    flushed: Notify,
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

    /// Bytes that have been written so far.
    fn written(&self) -> u64 {
        self.stream.lock().get_ref().written()
    }

    /// When something was last read, and the message that has come in part.
    fn read(&self) -> (Instant, Option<UnderWay>) {
        let stream = self.stream.lock();
        (stream.get_ref().heard(), stream.get_ref().under_way())
    }
}
