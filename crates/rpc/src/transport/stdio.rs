//! The process's own stdin and stdout as a connection.
//!
//! Pipes and sockets are read and written in the connection's own task where the kernel can do that without
//! blocking. Anything else (terminals, files, other kernels) gets a thread a direction. Never through
//! `tokio::io::stdin`: its blocked read would hold up the end of the runtime, whereas a plain thread that is blocked
//! in `read` ends with the process.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use bytes::BytesMut;
use tokio::sync::{mpsc, oneshot};

use super::framing::{ByteSource, Decoder, write_frames};
use super::nowait::NoWaitFd;
use super::{Framing, Received, Source, StdioSink, Transport, TransportLimits};
use crate::hooks::CloseReason;
use crate::outbox::{Burst, OutboxReader};

/// What one read of the thread asks for.
const READ_BYTES: usize = 64 * 1024;
/// Reads that wait to be looked at: with [`READ_BYTES`], the bound of what the thread reads ahead.
const READS_AHEAD: usize = 4;
/// The first descriptor that a copy may get, so that 0, 1 and 2 keep their meaning.
const ABOVE_STDERR: i32 = 3;

/// Two inherited byte streams, such as stdin and stdout. A client on the other side is never cut for being slow.
///
/// The first byte that the client sends says how frames are told apart, in both directions: `C` begins a header, anything
/// else a line. Before it nothing is written.
#[derive(Debug)]
pub struct Stdio {
    input: File,
    output: File,
    threads: bool,
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

    /// Any two files in blocking mode, for instance pipes.
    pub fn over(input: File, output: File) -> Self {
        Self { input, output, threads: false }
    }

    /// Uses threads even where it could do without.
    #[must_use]
    pub fn with_threads(mut self) -> Self {
        self.threads = true;
        self
    }

    /// The two halves, for whoever passes frames on without a connection of its own.
    ///
    /// # Errors
    /// When reading cannot begin.
    pub fn split(self, max_frame_bytes: usize) -> io::Result<(StdioSource, StdioSink)> {
        let Self { input, output, threads } = self;
        let (source, told, started) = incoming(input, threads, max_frame_bytes);
        started.map_err(|reason| io::Error::other(reason.to_string()))?;
        Ok((source, StdioSink::new(output, threads, told)))
    }
}

/// Begins to read. Frames are told apart by the first byte; the receiver is told how.
fn incoming(
    input: File,
    threads: bool,
    max_frame_bytes: usize,
) -> (StdioSource, oneshot::Receiver<Framing>, Result<(), CloseReason>) {
    let (decoder, told) = Decoder::by_first_byte(max_frame_bytes);
    let input = if threads { Err(input) } else { NoWaitFd::reading(input) };
    match input {
        Ok(input) => (StdioSource(Incoming::Direct(ByteSource::new(input, decoder))), told, Ok(())),
        Err(input) => {
            let (chunks, received) = mpsc::channel(READS_AHEAD);
            let started = start("stdin", move || read_chunks(input, &chunks));
            (StdioSource(Incoming::Thread { chunks: received, decoder }), told, started)
        }
    }
}

/// The incoming half of [`Stdio`].
#[derive(Debug)]
pub struct StdioSource(Incoming);

#[derive(Debug)]
enum Incoming {
    Direct(ByteSource<NoWaitFd>),
    Thread { chunks: mpsc::Receiver<io::Result<BytesMut>>, decoder: Decoder },
}

impl Source for StdioSource {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        let (chunks, decoder) = match &mut self.0 {
            Incoming::Direct(source) => return source.next().await,
            Incoming::Thread { chunks, decoder } => (chunks, decoder),
        };
        loop {
            if let Some(received) = decoder.next() {
                return Ok(Some(received));
            }
            match chunks.recv().await {
                Some(chunk) => decoder.buffer().extend_from_slice(&chunk?),
                None => return Ok(decoder.finish()),
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
        let Self { input, output, threads } = self;
        let (source, told, started) = incoming(input, threads, limits.max_frame_bytes);
        let output = if threads { Err(output) } else { NoWaitFd::writing(output) };
        let written = async move {
            started?;
            let framing = tokio::select! {
                biased;
                told = told => told.unwrap_or(Framing::Lines),
                () = outbox.ended() => Framing::Lines,
            };
            let output = match output {
                Ok(output) => return write_frames(framing, output, outbox, None).await,
                Err(output) => output,
            };
            let (ended, end) = oneshot::channel();
            start("stdout", move || {
                // Nobody may be waiting any more.
                let _ = ended.send(write_blocking(framing, output, outbox));
            })?;
            end.await.unwrap_or(Ok(())).map_err(|error| CloseReason::WriteFailed(error.to_string()))
        };
        (source, written)
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CloseReason> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|error| CloseReason::ReadFailed(format!("no thread for {name}: {error}")))
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

fn write_blocking(framing: Framing, mut output: File, mut outbox: OutboxReader) -> io::Result<()> {
    let mut frames = Vec::new();
    let mut joined = Vec::new();
    loop {
        match outbox.burst_blocking(&mut frames) {
            Burst::Frames => {}
            Burst::End(_) => return Ok(()),
        }
        framing.join(&mut frames, &mut joined);
        output.write_all(&joined)?;
        joined.clear();
        joined.shrink_to(READ_BYTES);
    }
}
