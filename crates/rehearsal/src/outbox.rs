//! What goes to the client: one ordered queue, bounded in bytes, and the one task that writes it.
//!
//! A turn waits for room like any producer. Answers to the client's requests have room of their own, so that a
//! client which has stopped reading is still heard when it cancels.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};

/// Unwritten bytes of turns.
const TURN_BYTES: u32 = 1024 * 1024;
/// Unwritten bytes of answers.
const ANSWER_BYTES: u32 = 256 * 1024;
/// What even the smallest frame costs; it bounds the number of frames too.
const MIN_COST: u32 = 256;
/// Frames are written together up to this size.
const WRITE_BYTES: usize = 64 * 1024;

/// The client does not read any more: its end of the pipe is closed.
#[derive(Debug, thiserror::Error)]
#[error("the client's end of the pipe is closed")]
pub(crate) struct Gone;

enum Item {
    Frame { bytes: Vec<u8>, _room: OwnedSemaphorePermit },
    Flush(oneshot::Sender<()>),
}

/// Where frames are put. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    items: mpsc::Sender<Item>,
    turn_room: Arc<Semaphore>,
    answer_room: Arc<Semaphore>,
}

/// Room for one frame, taken before what it says is decided.
pub(crate) struct Place {
    items: mpsc::Sender<Item>,
    room: OwnedSemaphorePermit,
}

impl Place {
    /// Puts the frame at the end of the queue, at once: no other frame can come between the caller's decision
    /// and this one.
    pub(crate) fn put(self, bytes: Vec<u8>) -> Result<(), Gone> {
        // The semaphores admit fewer frames than the channel holds, so only its closing can fail this.
        self.items.try_send(Item::Frame { bytes, _room: self.room }).map_err(|_| Gone)
    }
}

impl Outbox {
    /// The outbox and the future that writes it to `output`; that ends when the output breaks.
    /// Dropping it refuses every further frame.
    pub(crate) fn new<W>(output: W) -> (Self, impl Future<Output = std::io::Result<()>>)
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        // The marks of `flush` are few; they have places beside the frames.
        let frames = (TURN_BYTES + ANSWER_BYTES) / MIN_COST + 16;
        let (items, queue) = mpsc::channel(frames as usize);
        let turn_room = Arc::new(Semaphore::new(TURN_BYTES as usize));
        let answer_room = Arc::new(Semaphore::new(ANSWER_BYTES as usize));
        let rooms = Rooms(turn_room.clone(), answer_room.clone());
        (Self { items, turn_room, answer_room }, write(queue, output, rooms))
    }

    /// Queues a turn's frame (or many, each with its line end) when there is room.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.place(bytes.len()).await?.put(bytes)
    }

    /// Takes room for a turn's frame of about `len` bytes.
    pub(crate) async fn place(&self, len: usize) -> Result<Place, Gone> {
        self.take(&self.turn_room, TURN_BYTES, len).await
    }

    /// Queues an answer to the client.
    pub(crate) async fn answer(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        self.take(&self.answer_room, ANSWER_BYTES, bytes.len()).await?.put(bytes)
    }

    async fn take(&self, room: &Arc<Semaphore>, most: u32, len: usize) -> Result<Place, Gone> {
        let cost = u32::try_from(len).unwrap_or(most).clamp(MIN_COST, most);
        let room = room.clone().acquire_many_owned(cost).await.map_err(|_| Gone)?;
        Ok(Place { items: self.items.clone(), room })
    }

    /// Waits until all that is queued has been written, at most `limit`. Says whether it was.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
        let (written, done) = oneshot::channel();
        let wait = async { self.items.send(Item::Flush(written)).await.is_ok() && done.await.is_ok() };
        tokio::time::timeout(limit, wait).await.unwrap_or(false)
    }
}

/// Closed when the writer ends, however it ends, so that nobody waits for room that never comes.
struct Rooms(Arc<Semaphore>, Arc<Semaphore>);

impl Drop for Rooms {
    fn drop(&mut self) {
        self.0.close();
        self.1.close();
    }
}

async fn write<W>(mut queue: mpsc::Receiver<Item>, mut output: W, rooms: Rooms) -> std::io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    let mut held = Vec::new();
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        let mut flushed = None;
        while let Some(item) = next {
            match item {
                // A large frame alone is written as it is, without a copy.
                Item::Frame { bytes, _room } => {
                    if buffer.is_empty() && bytes.len() >= WRITE_BYTES / 2 {
                        output.write_all(&bytes).await?;
                    } else {
                        buffer.extend_from_slice(&bytes);
                        held.push(_room);
                    }
                }
                Item::Flush(done) => {
                    flushed = Some(done);
                    break;
                }
            }
            if buffer.len() >= WRITE_BYTES {
                break;
            }
            next = queue.try_recv().ok();
        }
        output.write_all(&buffer).await?;
        output.flush().await?;
        buffer.clear();
        buffer.shrink_to(WRITE_BYTES);
        held.clear();
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
    drop(rooms);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_stops_turns_but_not_answers() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::new(ours);
        let tasks = TaskTracker::new();
        tasks.spawn(writer);
        let line = vec![b'x'; TURN_BYTES as usize];
        outbox.send(line.clone()).await.unwrap();
        let more = tasks.spawn({
            let outbox = outbox.clone();
            async move { outbox.send(vec![b'y'; 10]).await }
        });
        outbox.answer(b"answer".to_vec()).await.unwrap();
        assert!(!more.is_finished(), "a second turn frame found room beside a full megabyte");
        let mut seen = vec![0; line.len() + 6];
        theirs.read_exact(&mut seen).await.unwrap();
        assert!(seen.ends_with(b"answer"));
        more.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_broken_pipe_is_told_to_everyone_who_waits() {
        let (ours, theirs) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::new(ours);
        let tasks = TaskTracker::new();
        let writer = tasks.spawn(writer);
        outbox.send(vec![b'x'; TURN_BYTES as usize]).await.unwrap();
        drop(theirs);
        assert!(outbox.send(vec![b'y'; 10]).await.is_err());
        assert!(writer.await.unwrap().is_err());
        assert!(!outbox.flush(Duration::from_secs(5)).await);
    }
}
