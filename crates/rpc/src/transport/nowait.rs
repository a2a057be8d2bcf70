//! Reading and writing inherited pipes and sockets without blocking, and without `O_NONBLOCK`.
//!
//! That flag belongs to the open file description, which we share with whoever started us: setting it would break
//! their reads and writes. Linux can say "do not wait" per call (`RWF_NOWAIT`), for pipes since 6.5. Where that is
//! missing [`NoWaitFd::reading`] and [`NoWaitFd::writing`] give the file back, and a thread takes its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// One direction of a pipe or socket.
#[derive(Debug)]
pub(super) struct NoWaitFd(AsyncFd<File>);

impl NoWaitFd {
    /// For reading; the file itself where this kind of file or kernel cannot do it.
    pub(super) fn reading(file: File) -> Result<Self, File> {
        Self::with(file, Interest::READABLE)
    }

    /// For writing; the file itself where this kind of file or kernel cannot do it.
    pub(super) fn writing(file: File) -> Result<Self, File> {
        Self::with(file, Interest::WRITABLE)
    }

    fn with(file: File, interest: Interest) -> Result<Self, File> {
        let kind = file.metadata().map(|metadata| metadata.file_type());
        if !kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) || !kernel_can() {
            return Err(file);
        }
        // Deprecated for types whose `as_raw_fd` may change; a `File` keeps its descriptor until it is dropped, so
        // what the unsafe replacement asks for holds.
        #[allow(deprecated, reason = "its replacement is unsafe, which this workspace forbids")]
        let registered = AsyncFd::try_with_interest(file, interest);
        registered.map(Self).map_err(|error| error.into_parts().0)
    }
}

/// Tries it on a pipe of our own.
fn kernel_can() -> bool {
    let tried = io::pipe().and_then(|(reader, writer)| {
        sys::write(&writer, b"x")?;
        sys::read(&reader, &mut [0])
    });
    tried.is_ok_and(|n| n == 1)
}

impl AsyncRead for NoWaitFd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let unfilled = buffer.initialize_unfilled();
            match ready.try_io(|file| sys::read(file.get_ref(), unfilled)) {
                Ok(read) => {
                    buffer.advance(read?);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for NoWaitFd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            match ready.try_io(|file| sys::write(file.get_ref(), bytes)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(target_os = "linux")]
mod sys {
    use std::io::{self, IoSlice, IoSliceMut};
    use std::os::fd::AsFd;

    use rustix::io::{ReadWriteFlags, preadv2, pwritev2};

    /// "Where the file stands": pipes and sockets have no offsets.
    const HERE: u64 = u64::MAX;

    pub(super) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(preadv2(fd, &mut [IoSliceMut::new(buffer)], HERE, ReadWriteFlags::NOWAIT)?)
    }

    pub(super) fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        Ok(pwritev2(fd, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;
    use std::os::fd::AsFd;

    pub(super) fn read(_: impl AsFd, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn write(_: impl AsFd, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
