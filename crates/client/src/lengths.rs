//! Frames behind `Content-Length` headers, as in the Language Server Protocol, over two byte streams.

use bytes::{Bytes, BytesMut};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};

use crate::frames::{FrameReceiver, FrameSender};

/// The largest frame that is taken, in bytes; the server's own limit is 16 MiB.
const MAX_FRAME_BYTES: usize = 32 * 1024 * 1024;
/// The most that the headers of a frame may have.
const MAX_HEADER_BYTES: u64 = 8 * 1024;

/// Why reading has ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the server sent headers that cannot be read: {0:?}")]
    Headers(String),
    #[error("the server sent a frame of {0} bytes, more than {MAX_FRAME_BYTES}")]
    TooLong(usize),
}

/// Reads frames until the stream or the queue ends.
pub(crate) async fn read(reader: impl AsyncRead + Unpin, frames: FrameSender) {
    let mut reader = BufReader::new(reader);
    loop {
        match next(&mut reader).await {
            Ok(Some(frame)) if frame.trim_ascii().is_empty() => {}
            Ok(Some(frame)) => {
                if frames.send(frame).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "reading from the server has failed");
                return;
            }
        }
    }
}

/// The next frame; `None` at the end.
async fn next(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Bytes>, ReadError> {
    let mut length = None;
    let mut headers = (&mut *reader).take(MAX_HEADER_BYTES);
    loop {
        let mut line = String::new();
        let read = headers.read_line(&mut line).await?;
        if read == 0 {
            let cut_off = length.is_some() || headers.limit() == 0;
            return if cut_off { Err(ReadError::Headers(line)) } else { Ok(None) };
        }
        let header = line.trim();
        if header.is_empty() {
            match length {
                Some(_) => break,
                None => continue,
            }
        }
        match header.split_once(':') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("content-length") => {
                length = Some(value.trim().parse::<usize>().map_err(|_| ReadError::Headers(line.clone()))?);
            }
            Some(_) => {}
            None => return Err(ReadError::Headers(line)),
        }
    }
    let length = length.unwrap_or_default();
    if length > MAX_FRAME_BYTES {
        return Err(ReadError::TooLong(length));
    }
    let mut frame = BytesMut::new();
    let mut body = reader.take(length as u64);
    while body.read_buf(&mut frame).await? > 0 {}
    if frame.len() < length {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(frame.freeze()))
}

/// Writes frames until the queue ends, then closes the stream.
pub(crate) async fn write(mut writer: impl AsyncWrite + Unpin, mut frames: FrameReceiver) {
    let written = async {
        while let Some(frame) = frames.recv().await {
            writer.write_all(format!("Content-Length: {}\r\n\r\n", frame.len()).as_bytes()).await?;
            writer.write_all(&frame).await?;
            writer.flush().await?;
        }
        writer.shutdown().await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "writing to the server has failed");
    }
}
