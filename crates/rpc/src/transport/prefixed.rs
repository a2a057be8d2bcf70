//! A stream of which something has been read already: what was read stands in front again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What one read of [`Prefixed::first_line`] asks for.
const READ_BYTES: usize = 1024;

/// A stream that gives some bytes first and then its own. Writing goes straight through.
#[derive(Debug)]
pub struct Prefixed<S> {
    prefix: Bytes,
    inner: S,
}

impl<S> Prefixed<S> {
    /// `prefix`, then what `inner` gives.
    pub fn new(prefix: Bytes, inner: S) -> Self {
        Self { prefix, inner }
    }

    /// What stands in front and has not been read yet.
    pub fn prefix(&self) -> &Bytes {
        &self.prefix
    }

    /// What stands in front, and the stream behind it.
    pub fn into_parts(self) -> (Bytes, S) {
        (self.prefix, self.inner)
    }
}

impl<S: AsyncRead + Unpin> Prefixed<S> {
    /// Reads until the first line is there, and leaves it in front: gives it without its end, or `None` where the stream
    /// ends before it or it has more than `max_bytes`. [`Prefixed::skip`] takes it away. Cancel-safe.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn first_line(&mut self, max_bytes: usize) -> io::Result<Option<Bytes>> {
        let mut scanned = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.prefix[scanned..]) {
                let end = scanned + at;
                return Ok((end <= max_bytes).then(|| self.prefix.slice(..end)));
            }
            scanned = self.prefix.len();
            if scanned > max_bytes || self.read_more(READ_BYTES).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Takes the first `bytes` of what stands in front away.
    pub fn skip(&mut self, bytes: usize) {
        self.prefix.advance(bytes.min(self.prefix.len()));
    }

    /// Reads at most `at_most` bytes more and puts them behind what stands in front; 0 at the stream's end. Cancel-safe.
    pub(super) async fn read_more(&mut self, at_most: usize) -> io::Result<usize> {
        let mut more = BytesMut::with_capacity(at_most);
        let read = (&mut self.inner).take(at_most as u64).read_buf(&mut more).await?;
        if self.prefix.is_empty() {
            self.prefix = more.freeze();
        } else {
            self.prefix = [&self.prefix[..], &more[..]].concat().into();
        }
        Ok(read)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let taken = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(&self.prefix.split_to(taken));
        if self.prefix.is_empty() {
            // Gives the memory back.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
