//! This process's stdin and stdout as streams, without a thread between them and the runtime where possible.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    os::unix::net::UnixStream as StdUnixStream,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};

type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens both. A client hands us pipes (most) or sockets (Node); a terminal or a file goes through tokio's
/// blocking threads.
pub(crate) fn open() -> io::Result<(Input, Output)> {
    let input: Input = match pipe::Receiver::from_owned_fd(duplicate(io::stdin())?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => match socket(duplicate(io::stdin())?) {
            Some(socket) => Box::new(socket),
            None => Box::new(blocking(io::stdin())?),
        },
    };
    let output: Output = match pipe::Sender::from_owned_fd(duplicate(io::stdout())?) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => match socket(duplicate(io::stdout())?) {
            Some(socket) => Box::new(socket),
            None => Box::new(blocking(io::stdout())?),
        },
    };
    Ok((input, output))
}

fn duplicate(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// A terminal or a file, read and written on tokio's blocking threads.
fn blocking(stream: impl AsFd) -> io::Result<tokio::fs::File> {
    Ok(tokio::fs::File::from_std(std::fs::File::from(duplicate(stream)?)))
}

/// The descriptor as a socket, if it is one.
fn socket(fd: OwnedFd) -> Option<UnixStream> {
    let stat = rustix::fs::fstat(&fd).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
        return None;
    }
    let socket = StdUnixStream::from(fd);
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}
