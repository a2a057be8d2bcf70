//! A queue that is bounded in items and in bytes. Senders wait; nothing is ever dropped by it.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What an item counts against the bound in bytes.
pub trait Weight {
    /// About its memory.
    fn bytes(&self) -> usize;
}

/// Nobody receives any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody receives any more")]
pub struct Closed;

/// An item out of the queue. Its bytes count until it is dropped, so keep it until it is dealt with.
#[derive(Debug)]
pub struct Held<T> {
    item: T,
    _bytes: OwnedSemaphorePermit,
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

/// The end that takes items in.
#[derive(Debug)]
pub struct QueueSender<T> {
    queue: mpsc::Sender<Held<T>>,
    bytes: Arc<Semaphore>,
    most: u32,
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), bytes: Arc::clone(&self.bytes), most: self.most }
    }
}

/// The other end.
#[derive(Debug)]
pub struct QueueReceiver<T> {
    queue: mpsc::Receiver<Held<T>>,
    fill: Fill,
}

/// How full a queue is, for figures.
#[derive(Debug, Clone)]
pub struct Fill {
    bytes: Weak<Semaphore>,
    all: usize,
}

impl Fill {
    /// Bytes that wait or are being dealt with; none when the queue has ended.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let bytes = self.bytes.upgrade()?;
        Some(self.all.saturating_sub(bytes.available_permits()))
    }
}

pub(super) fn bounded<T: Weight>(items: usize, bytes: usize) -> (QueueSender<T>, QueueReceiver<T>) {
    let most = u32::try_from(bytes.max(1)).unwrap_or(u32::MAX);
    let (sender, receiver) = mpsc::channel(items.max(1));
    // On a 32-bit machine the bound may be more than a semaphore holds.
    let all = (most as usize).min(Semaphore::MAX_PERMITS);
    let bytes = Arc::new(Semaphore::new(all));
    let fill = Fill { bytes: Arc::downgrade(&bytes), all };
    (QueueSender { queue: sender, bytes, most }, QueueReceiver { queue: receiver, fill })
}

impl<T: Weight> QueueSender<T> {
    /// Puts an item at the end, as soon as there is room for it. One that exceeds the whole bound waits until the queue is
    /// empty, and then fills it.
    ///
    /// # Errors
    /// The receiver is gone.
    pub async fn send(&self, item: T) -> Result<(), Closed> {
        let weight = u32::try_from(item.bytes()).unwrap_or(u32::MAX).clamp(1, self.most);
        let bytes = tokio::select! {
            biased;
            () = self.queue.closed() => return Err(Closed),
            bytes = Arc::clone(&self.bytes).acquire_many_owned(weight) => bytes.map_err(|_| Closed)?,
        };
        self.queue.send(Held { item, _bytes: bytes }).await.map_err(|_| Closed)
    }

    /// Waits until the receiver is gone.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}

impl<T> QueueReceiver<T> {
    /// The next item; none when all senders are gone and everything was received.
    pub async fn recv(&mut self) -> Option<Held<T>> {
        self.queue.recv().await
    }

    /// How full it is, also later.
    pub fn fill(&self) -> Fill {
        self.fill.clone()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    impl Weight for &'static str {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    #[tokio::test]
    async fn a_full_queue_waits_for_room_in_items_and_in_bytes() {
        let (sender, mut receiver) = bounded(2, 10);
        assert_eq!(sender.send("four").now_or_never(), Some(Ok(())));
        assert_eq!(sender.send("four").now_or_never(), Some(Ok(())));
        assert_eq!(sender.send("").now_or_never(), None, "two items are all");
        let first = receiver.recv().await.unwrap();
        assert_eq!(sender.send("four").now_or_never(), None, "its bytes count until it is dealt with");
        drop(first);
        assert_eq!(sender.send("four").now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn how_full_it_is_can_be_asked_until_it_has_ended() {
        let (sender, mut receiver) = bounded(2, 10);
        let fill = receiver.fill();
        sender.send("four").await.unwrap();
        assert_eq!(fill.bytes(), Some(4));
        let held = receiver.recv().await.unwrap();
        assert_eq!(fill.bytes(), Some(4));
        drop(held);
        assert_eq!(fill.bytes(), Some(0));
        drop((sender, receiver));
        assert_eq!(fill.bytes(), None);
    }

    #[tokio::test]
    async fn an_item_beyond_the_bound_has_the_queue_for_itself() {
        let (sender, mut receiver) = bounded(8, 10);
        sender.send("a").await.unwrap();
        assert_eq!(sender.send("much longer than ten").now_or_never(), None);
        drop(receiver.recv().await.unwrap());
        assert_eq!(sender.send("much longer than ten").now_or_never(), Some(Ok(())));
        assert_eq!(sender.send("b").now_or_never(), None);
        assert_eq!(**receiver.recv().await.unwrap(), *"much longer than ten");
        assert_eq!(sender.send("b").now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_that_the_receiver_is_gone() {
        let (sender, receiver) = bounded(8, 1);
        sender.send("a").await.unwrap();
        let waiting = async { sender.send("b").await };
        let ((), sent) = tokio::join!(async { drop(receiver) }, waiting);
        assert_eq!(sent, Err(Closed));
        assert_eq!(sender.send("c").await, Err(Closed));
    }
}
