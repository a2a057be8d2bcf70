//! Which protocol a client speaks, told from its first bytes.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::Prefixed;

/// No protocol needs more bytes to be told.
const MAX_BYTES: usize = 8;

/// How the methods of HTTP begin; the last is the preface of HTTP/2.
const HTTP: [&[u8]; 10] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * HT",
];
/// How every header of the Content-Length framing begins, in any case.
const CONTENT: &[u8] = b"co";

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A frame a line.
    Lines,
    /// Frames behind headers, as in the Language Server Protocol.
    ContentLength,
    /// HTTP/1 or 2: a request, or a handshake for WebSocket.
    Http,
}

/// Reads no more than is needed to tell what the client speaks, at most 8 bytes, and gives the stream back whole.
///
/// What is none of the other two is lines, and so is a client that has not said enough by the deadline or closes before:
/// lines may be waited for. The caller bounds how many clients wait.
///
/// # Errors
/// When reading fails.
pub async fn sniff<S: AsyncRead + Unpin>(
    stream: S,
    deadline: Duration,
) -> io::Result<(Protocol, Prefixed<S>)> {
    let mut stream = Prefixed::new(Bytes::new(), stream);
    let told = tokio::time::timeout(deadline, tell(&mut stream)).await;
    Ok((told.unwrap_or(Ok(Protocol::Lines))?, stream))
}

async fn tell<S: AsyncRead + Unpin>(stream: &mut Prefixed<S>) -> io::Result<Protocol> {
    loop {
        if let Some(protocol) = protocol_of(stream.prefix()) {
            return Ok(protocol);
        }
        if stream.read_more(MAX_BYTES - stream.prefix().len()).await? == 0 {
            return Ok(Protocol::Lines);
        }
    }
}

/// What a stream speaks that begins like this; `None` where more bytes are needed.
fn protocol_of(begin: &[u8]) -> Option<Protocol> {
    if HTTP.iter().any(|method| begin.starts_with(method)) {
        return Some(Protocol::Http);
    }
    if HTTP.iter().any(|method| method.starts_with(begin)) {
        return None;
    }
    let length = begin.len().min(CONTENT.len());
    if !begin[..length].eq_ignore_ascii_case(&CONTENT[..length]) {
        return Some(Protocol::Lines);
    }
    (length == CONTENT.len()).then_some(Protocol::ContentLength)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        for (begin, protocol) in [
            ("", None),
            ("{", Some(Protocol::Lines)),
            ("[", Some(Protocol::Lines)),
            (" ", Some(Protocol::Lines)),
            ("\n", Some(Protocol::Lines)),
            ("\u{feff}", Some(Protocol::Lines)),
            ("hello", Some(Protocol::Lines)),
            ("C", None),
            ("c", None),
            ("Co", Some(Protocol::ContentLength)),
            ("content-length: 2", Some(Protocol::ContentLength)),
            ("CONT", Some(Protocol::ContentLength)),
            ("CO", None),
            ("CONN", None),
            ("CONNECT ", Some(Protocol::Http)),
            ("GET / HT", Some(Protocol::Http)),
            ("GE", None),
            ("get / HT", Some(Protocol::Lines)),
            ("GETTING", Some(Protocol::Lines)),
            ("P", None),
            ("PRI * HT", Some(Protocol::Http)),
            ("POST /rp", Some(Protocol::Http)),
            ("OPTIONS ", Some(Protocol::Http)),
        ] {
            assert_eq!(protocol_of(begin.as_bytes()), protocol, "{begin:?}");
        }
    }
}
