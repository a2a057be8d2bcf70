//! The process's own stdin and stdout as a connection, on two threads.
//!
//! Not through `tokio::io::stdin`: its blocked read holds up the end of the runtime, and non-blocking mode is no way
//! out because it is shared with whoever else holds the terminal or pipe. A plain thread that is blocked in `read`
//! ends with the process and holds up nothing.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use bytes::BytesMut;
use tokio::sync::{mpsc, oneshot};

use super::lines::join_lines;
use super::{LineDecoder, Received, Source, Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::{Burst, OutboxReader};

/// What one read asks for.
const READ_BYTES: usize = 64 * 1024;
/// Reads that wait to be looked at: with [`READ_BYTES`], the bound of what is read ahead.
const READS_AHEAD: usize = 4;
/// The first descriptor that a copy may get, so that 0, 1 and 2 keep their meaning.
const ABOVE_STDERR: i32 = 3;

/// Two byte streams that block, such as stdin and stdout.
#[derive(Debug)]
pub struct Stdio {
    input: File,
    output: File,
}

impl Stdio {
    /// Takes stdin and stdout away from everything else in the process: afterwards reading from descriptor 0 gives
    /// nothing, and what is written to 1 comes out on stderr. So neither a stray `println!` nor a child process can
    /// get between our frames. To be called first thing in `main`, and once.
    ///
    /// # Errors
    /// When a descriptor is closed or cannot be copied.
    pub fn take() -> io::Result<Self> {
        let input = rustix::io::fcntl_dupfd_cloexec(io::stdin(), ABOVE_STDERR)?;
        let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), ABOVE_STDERR)?;
        let nothing = OpenOptions::new().read(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(nothing.as_fd())?;
        rustix::stdio::dup2_stdout(io::stderr().as_fd())?;
        Ok(Self::over(input.into(), output.into()))
    }

    /// Any two files that block, for instance pipes.
    pub fn over(input: File, output: File) -> Self {
        Self { input, output }
    }
}

/// The incoming half of [`Stdio`].
#[derive(Debug)]
pub struct StdioSource {
    chunks: mpsc::Receiver<io::Result<BytesMut>>,
    decoder: LineDecoder,
}

impl Source for StdioSource {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        loop {
            if let Some(received) = self.decoder.next() {
                return Ok(Some(received));
            }
            match self.chunks.recv().await {
                Some(chunk) => self.decoder.buffer().extend_from_slice(&chunk?),
                None => return Ok(self.decoder.finish()),
            }
        }
    }
}

impl Transport for Stdio {
    type Source = StdioSource;

    fn open(
        self,
        outbox: OutboxReader,
        limits: TransportLimits,
    ) -> (Self::Source, impl Future<Output = Result<(), CloseReason>> + Send) {
        let (chunks, received) = mpsc::channel(READS_AHEAD);
        let (ended, end) = oneshot::channel();
        let Self { input, output } = self;
        let started = thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || read_chunks(input, &chunks))
            .and_then(|_| {
                thread::Builder::new().name("stdout".to_owned()).spawn(move || {
                    // Nobody may be waiting any more.
                    let _ = ended.send(write_lines(output, outbox));
                })
            });
        let source = StdioSource { chunks: received, decoder: LineDecoder::new(limits.max_frame_bytes) };
        let written = async move {
            if let Err(error) = started {
                return Err(CloseReason::WriteFailed(error.to_string()));
            }
            let failed = |error: io::Error| CloseReason::WriteFailed(error.to_string());
            end.await.unwrap_or(Ok(())).map_err(failed)
        };
        (source, written)
    }
}

fn read_chunks(mut input: File, chunks: &mpsc::Sender<io::Result<BytesMut>>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let chunk = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => Ok(BytesMut::from(&buffer[..n])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Writes until the outbox ends. Never gives up on a reader that is slow: stdio is not cut.
fn write_lines(mut output: File, mut outbox: OutboxReader) -> io::Result<()> {
    let mut frames = Vec::new();
    let mut lines = Vec::new();
    loop {
        match outbox.burst_blocking(&mut frames) {
            Burst::Frames => {}
            Burst::End(_) => return Ok(()),
        }
        join_lines(&mut frames, &mut lines);
        output.write_all(&lines)?;
        lines.clear();
        lines.shrink_to(READ_BYTES);
    }
}
