//! A stream that watches what passes, so that slowness is told from silence, and both from what never ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::progress::{Progress, UnderWay};

#[derive(Debug)]
pub(super) struct Counted<S> {
    inner: S,
    progress: Progress,
    heard: Instant,
    written: u64,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, progress: Progress::default(), heard: Instant::now(), written: 0 }
    }

    /// Bytes that have been written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// When something was last read.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// The message that has come in part.
    pub(super) fn under_way(&self) -> Option<UnderWay> {
        self.progress.under_way()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        if !new.is_empty() {
            self.heard = Instant::now();
            let now = self.heard;
            self.progress.pass(new, now);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = written {
            self.written += written as u64;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
