//! Frames as lines over two byte streams.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::frames::{FrameReceiver, FrameSender};

/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// The largest line that is taken, in bytes; the server's own limit is 16 MiB.
const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// Why reading has ended.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the server sent a line of more than {MAX_LINE_BYTES} bytes")]
    TooLong,
}

/// Reads lines until the stream or the queue ends.
pub(crate) async fn read(mut reader: impl AsyncRead + Unpin, frames: FrameSender) {
    let mut buffer = BytesMut::new();
    let mut scanned = 0;
    loop {
        while let Some(at) = memchr::memchr(b'\n', &buffer[scanned..]) {
            let mut line = buffer.split_to(scanned + at + 1);
            line.truncate(scanned + at);
            scanned = 0;
            if !put(line.freeze(), &frames).await {
                return;
            }
        }
        scanned = buffer.len();
        match more(&mut reader, &mut buffer).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::debug!(%error, "reading from the server has failed");
                return;
            }
        }
    }
    // A last line without an end; if nobody takes it, nobody waits for it.
    let _ = put(buffer.freeze(), &frames).await;
}

async fn more(reader: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Result<bool, ReadError> {
    if buffer.len() > MAX_LINE_BYTES {
        return Err(ReadError::TooLong);
    }
    buffer.reserve(READ_BYTES);
    Ok(reader.read_buf(buffer).await? > 0)
}

/// False when nobody takes frames any more.
async fn put(line: Bytes, frames: &FrameSender) -> bool {
    line.trim_ascii().is_empty() || frames.send(line).await.is_ok()
}

/// Writes lines until the queue ends, then closes the stream.
pub(crate) async fn write(mut writer: impl AsyncWrite + Unpin, mut frames: FrameReceiver) {
    let written = async {
        while let Some(frame) = frames.recv().await {
            writer.write_all(&frame).await?;
            writer.write_all(b"\n").await?;
            writer.flush().await?;
        }
        writer.shutdown().await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "writing to the server has failed");
    }
}
