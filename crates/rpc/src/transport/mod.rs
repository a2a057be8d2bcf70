//! Transports: how frames come in and go out. Nothing here knows what is in a frame.

mod framing;
mod lengths;
mod lines;
mod memory;
mod nowait;
mod prefixed;
mod sniff;
mod split;
mod stdio;
mod unix;
mod websocket;

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;

use crate::error::RpcError;
use crate::hooks::CloseReason;
use crate::outbox::OutboxReader;

pub use framing::{ByteSource, Framed, Framing};
pub use lengths::{LengthDecoder, MAX_HEADER_BYTES};
pub use lines::LineDecoder;
pub use memory::{Memory, MemoryClient, MemoryError, memory};
pub use prefixed::Prefixed;
pub use sniff::{Protocol, sniff};
pub use split::StdioSink;
pub use stdio::{Stdio, StdioSource};
pub use unix::UnixDoor;
pub use websocket::{Due, Heard, KeepAlive, WebSocket, WebSocketSink, WebSocketSource, close_code};

/// What a source yields.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// One frame, without its line end; may be blank.
    Frame(Bytes),
    /// A frame that was larger than the limit and is not kept.
    TooLarge,
    /// Something around frames that makes no sense: it is answered, and reading goes on.
    Malformed(RpcError),
    /// Nothing more can be read, for this reason.
    End(CloseReason),
}

/// What a transport must keep to.
#[derive(Debug, Clone, Copy)]
pub struct TransportLimits {
    /// Largest frame that is read, in bytes.
    pub max_frame_bytes: usize,
    /// How long a write may make no progress; `None`: as long as it takes.
    pub stall_grace: Option<Duration>,
}

/// The incoming half of a transport.
pub trait Source: Send {
    /// The next frame; `None` when the other side has closed.
    ///
    /// # Errors
    /// When reading fails; the connection then ends.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Received>>> + Send;
}

/// A way to a client, not yet in use.
pub trait Transport: Send + 'static {
    /// The incoming half.
    type Source: Source;

    /// Begins: gives the incoming half, and the future that writes what comes out of `outbox` until that ends
    /// (`Ok`) or writing fails or stalls (`Err`).
    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send);
}
