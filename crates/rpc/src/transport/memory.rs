//! A connection within the process, for embedding and tests: frames by channel, no bytes copied.

use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{Received, Source, Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::{Burst, OutboxReader};

/// Frames that wait between client and server.
const QUEUED_FRAMES: usize = 256;
/// Their bytes; a single larger frame passes alone.
const QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// A connection within the process: the server's end and the client's.
///
/// What the server sends waits in its outbox until the client takes it, so a client that lags is treated as over any
/// other transport.
pub fn memory() -> (Memory, MemoryClient) {
    let (frames, incoming) = mpsc::channel(QUEUED_FRAMES);
    let (outbox, outgoing) = oneshot::channel();
    let room = Arc::new(Semaphore::new(QUEUED_BYTES));
    let client =
        MemoryClient { frames: Some(frames), room, outgoing: Outgoing::Waiting(outgoing), burst: Vec::new() };
    (Memory { incoming, outbox }, client)
}

/// The server's end.
#[derive(Debug)]
pub struct Memory {
    incoming: mpsc::Receiver<Queued>,
    outbox: oneshot::Sender<(OutboxReader, oneshot::Sender<()>)>,
}

/// A frame on its way, with the room it takes.
#[derive(Debug)]
struct Queued {
    frame: Bytes,
    _room: OwnedSemaphorePermit,
}

/// The client's end. Dropping it closes the connection.
#[derive(Debug)]
pub struct MemoryClient {
    frames: Option<mpsc::Sender<Queued>>,
    room: Arc<Semaphore>,
    outgoing: Outgoing,
    /// Frames taken from the outbox and not yet given out, last one first.
    burst: Vec<Bytes>,
}

#[derive(Debug)]
enum Outgoing {
    Waiting(oneshot::Receiver<(OutboxReader, oneshot::Sender<()>)>),
    /// The second half says, by being dropped, that nobody takes frames any more.
    Open {
        outbox: OutboxReader,
        _alive: oneshot::Sender<()>,
    },
    Ended,
}

/// The server's end is gone, or this end was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Nobody reads any more.
    #[error("the connection is closed")]
    Closed,
}

impl MemoryClient {
    /// Sends one frame; waits while too much is on its way.
    ///
    /// # Errors
    /// When the server's end is gone, or [`MemoryClient::finish`] was called.
    pub async fn send(&self, frame: impl Into<Bytes>) -> Result<(), MemoryError> {
        let frame = frame.into();
        let frames = self.frames.as_ref().ok_or(MemoryError::Closed)?;
        let wanted = u32::try_from(frame.len().min(QUEUED_BYTES)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(wanted);
        let room = tokio::select! {
            room = room => room.map_err(|_closed| MemoryError::Closed)?,
            () = frames.closed() => return Err(MemoryError::Closed),
        };
        frames.send(Queued { frame, _room: room }).await.map_err(|_gone| MemoryError::Closed)
    }

    /// The next frame from the server; `None` when the connection has ended. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.burst.pop() {
                return Some(frame);
            }
            match &mut self.outgoing {
                Outgoing::Waiting(opened) => {
                    self.outgoing = match opened.await {
                        Ok((outbox, alive)) => Outgoing::Open { outbox, _alive: alive },
                        Err(_never_served) => Outgoing::Ended,
                    };
                }
                Outgoing::Open { outbox, .. } => match outbox.burst(&mut self.burst).await {
                    Burst::Frames => self.burst.reverse(),
                    Burst::End(_) => self.outgoing = Outgoing::Ended,
                },
                Outgoing::Ended => return None,
            }
        }
    }

    /// Sends nothing more, as a client that closes its output; what the server still answers can be received.
    pub fn finish(&mut self) {
        self.frames = None;
    }
}

/// The incoming half of [`Memory`].
#[derive(Debug)]
pub struct MemorySource {
    incoming: mpsc::Receiver<Queued>,
    max_frame_bytes: usize,
}

impl Source for MemorySource {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        Ok(self.incoming.recv().await.map(|Queued { frame, .. }| {
            if frame.len() > self.max_frame_bytes { Received::TooLarge } else { Received::Frame(frame) }
        }))
    }
}

impl Transport for Memory {
    type Source = MemorySource;

    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send) {
        let (alive, gone) = oneshot::channel();
        // If the client's end is gone already, so is what we send it, and `gone` resolves at once.
        let _ = self.outbox.send((outbox, alive));
        let source = MemorySource { incoming: self.incoming, max_frame_bytes: limits.max_frame_bytes };
        let written = async move {
            // The client drops its end when it has taken the last frame, or when it goes.
            let _ = gone.await;
            Ok(())
        };
        (source, written)
    }
}
