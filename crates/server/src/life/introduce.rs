//! The first line of a connection, on both sides: the greeting of a program of this machine, and the welcome.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use signalbox_protocol::greeting::{GREETING_BYTES, GREETING_START, Greeting, greeting_line, read_greeting};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How long the rest of a line may take that has begun as a greeting, and its answer to be taken.
const LINE: Duration = Duration::from_secs(10);
/// What one read asks for.
const READ_BYTES: usize = 8 * 1024;

/// A connection that has said something.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The connection.
    pub(super) stream: UnixStream,
    /// What was read of it besides the greeting: its next bytes.
    pub(super) ahead: Bytes,
    /// What it said first, if that was a greeting.
    pub(super) greeting: Option<Greeting>,
}

impl Arrival {
    /// Waits for the first bytes of a connection, and reads its greeting if they begin one. One that says nothing is waited
    /// for as long as it is silent.
    ///
    /// # Errors
    /// If it cannot be read, or what begins as a greeting is none.
    pub(super) async fn of(mut stream: UnixStream) -> io::Result<Self> {
        let mut read = BytesMut::with_capacity(READ_BYTES);
        loop {
            let ended = stream.read_buf(&mut read).await? == 0;
            let common = read.len().min(GREETING_START.len());
            if read[..common] != GREETING_START[..common] || ended {
                return Ok(Self { stream, ahead: read.freeze(), greeting: None });
            }
            if common == GREETING_START.len() {
                break;
            }
        }
        let line = tokio::time::timeout(LINE, rest_of_line(&mut stream, &mut read)).await??;
        let greeting = read_greeting(&line).map_err(io::Error::other)?;
        Ok(Self { stream, ahead: read.freeze(), greeting: Some(greeting) })
    }
}

/// Reads until there is a whole line, and takes it; what comes behind it stays.
async fn rest_of_line(stream: &mut UnixStream, read: &mut BytesMut) -> io::Result<BytesMut> {
    let mut scanned = 0;
    loop {
        if let Some(at) = read[scanned..].iter().position(|byte| *byte == b'\n') {
            return Ok(read.split_to(scanned + at + 1));
        }
        scanned = read.len();
        if scanned >= GREETING_BYTES {
            return Err(io::Error::other(format!("a greeting of more than {GREETING_BYTES} bytes")));
        }
        read.reserve(READ_BYTES);
        if stream.read_buf(read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Sends a greeting or a welcome.
pub(super) async fn send<T: Serialize>(stream: &mut UnixStream, said: &T) -> io::Result<()> {
    let line = greeting_line(said).map_err(io::Error::other)?;
    tokio::time::timeout(LINE, stream.write_all(&line)).await?
}

/// Receives the answer to a greeting; the caller bounds the time.
pub(super) async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut read = BytesMut::with_capacity(READ_BYTES);
    let line = rest_of_line(stream, &mut read).await?;
    if !read.is_empty() {
        return Err(io::Error::other("the server has said more than it was asked"));
    }
    read_greeting(&line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn arrival(pieces: &[&[u8]]) -> io::Result<Arrival> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let says = async {
            for piece in pieces {
                ours.write_all(piece).await?;
                tokio::task::yield_now().await;
            }
            ours.shutdown().await
        };
        let (arrival, said) = tokio::join!(Arrival::of(theirs), says);
        said?;
        arrival
    }

    #[tokio::test]
    async fn a_greeting_is_taken_and_what_follows_is_left() {
        let mut line = greeting_line(&Greeting { client: "bridge".into(), ..Greeting::default() }).unwrap();
        line.extend_from_slice(b"{\"id\":1}\n");
        let bytes: Vec<&[u8]> = line.chunks(1).collect();
        for pieces in [vec![line.as_slice()], bytes] {
            let arrival = arrival(&pieces).await.unwrap();
            assert_eq!(arrival.greeting.unwrap().client, "bridge");
            let mut rest = arrival.ahead.to_vec();
            let mut stream = arrival.stream;
            stream.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"{\"id\":1}\n");
        }
    }

    #[tokio::test]
    async fn anything_else_is_left_as_it_is() {
        for said in
            [&b"{\"id\":1,\"method\":\"initialize\"}\n"[..], b"GET / HTTP/1.1\r\n", b"{", b"", b"\n{}"]
        {
            let arrival = arrival(&[said]).await.unwrap();
            let mut rest = arrival.ahead.to_vec();
            let mut stream = arrival.stream;
            stream.read_to_end(&mut rest).await.unwrap();
            assert_eq!((arrival.greeting, rest.as_slice()), (None, said));
        }
    }

    #[tokio::test]
    async fn a_broken_greeting_is_refused() {
        for said in [&b"{\"signalbox\":7}\n"[..], b"{\"signalbox\":{}", b"{\"signalbox\":{}} {}\n"] {
            arrival(&[said]).await.unwrap_err();
        }
        let endless = vec![b' '; GREETING_BYTES];
        arrival(&[GREETING_START, &endless]).await.unwrap_err();
    }
}
