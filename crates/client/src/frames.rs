//! Queues of frames, bounded in items and in bytes: what a client stands on, whatever carries the frames.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Frames that wait in one queue.
pub const QUEUED_FRAMES: usize = 256;
/// Their bytes. A larger frame passes alone.
pub const QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// A queue of frames. Who carries frames between two places pushes into one end what comes out of the other.
#[must_use]
pub fn frames() -> (FrameSender, FrameReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUED_FRAMES);
    let room = Arc::new(Semaphore::new(QUEUED_BYTES));
    (FrameSender { frames: sender, room }, FrameReceiver { frames: receiver })
}

/// The end into which frames are put.
#[derive(Debug, Clone)]
pub struct FrameSender {
    frames: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
}

/// The end from which frames are taken.
#[derive(Debug)]
pub struct FrameReceiver {
    frames: mpsc::Receiver<Queued>,
}

/// A frame and the room it takes.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) frame: Bytes,
    pub(crate) room: OwnedSemaphorePermit,
}

/// Nobody takes frames any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct FramesClosed;

impl FrameSender {
    /// Puts a frame, one message without its line end; waits while there is no room.
    ///
    /// # Errors
    /// The other end is gone.
    pub async fn send(&self, frame: impl Into<Bytes>) -> Result<(), FramesClosed> {
        let frame = frame.into();
        let wanted = u32::try_from(frame.len().min(QUEUED_BYTES)).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = self.room.clone().acquire_many_owned(wanted) => room.map_err(|_closed| FramesClosed)?,
            () = self.frames.closed() => return Err(FramesClosed),
        };
        self.frames.send(Queued { frame, room }).await.map_err(|_gone| FramesClosed)
    }
}

impl FrameReceiver {
    /// The next frame; `None` when the other end is gone and all has been taken. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Bytes> {
        self.next().await.map(|queued| queued.frame)
    }

    /// The next frame with its room, which is given back when that is dropped.
    pub(crate) async fn next(&mut self) -> Option<Queued> {
        self.frames.recv().await
    }
}
