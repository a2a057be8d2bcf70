//! stdin and stdout as two halves, for whoever passes frames on without a connection of its own.

use std::fs::File;
use std::io::{self, Write};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use super::framing::Framing;
use super::nowait::NoWaitFd;

/// The outgoing half of [`Stdio`](super::Stdio). What it writes is framed as the client frames what it sends.
#[derive(Debug)]
pub struct StdioSink {
    output: Output,
    framing: Option<Framing>,
    told: oneshot::Receiver<Framing>,
}

#[derive(Debug)]
enum Output {
    Direct(NoWaitFd),
    /// Written by threads of the runtime; away while one does.
    Blocking(Option<File>),
}

impl StdioSink {
    pub(super) fn new(output: File, threads: bool, told: oneshot::Receiver<Framing>) -> Self {
        let output = if threads { Err(output) } else { NoWaitFd::writing(output) };
        let output = output.map_or_else(|output| Output::Blocking(Some(output)), Output::Direct);
        Self { output, framing: None, told }
    }

    /// Writes frames, each whole and in this order; waits for as long as the client takes to read them, and before that for
    /// its first byte, which tells the framing. Not to be used again if the future is dropped.
    ///
    /// # Errors
    /// When writing fails.
    pub async fn write(&mut self, mut frames: Vec<Bytes>) -> io::Result<()> {
        let framing = match self.framing {
            Some(framing) => framing,
            // A client that has closed its side without a word reads lines as well as anything.
            None => *self.framing.insert((&mut self.told).await.unwrap_or(Framing::Lines)),
        };
        let mut bytes = Vec::new();
        framing.join(&mut frames, &mut bytes);
        match &mut self.output {
            Output::Direct(output) => output.write_all(&bytes).await,
            Output::Blocking(output) => {
                let Some(mut file) = output.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
                let written = tokio::task::spawn_blocking(move || {
                    let written = file.write_all(&bytes);
                    (file, written)
                });
                let (file, written) = written.await.map_err(io::Error::other)?;
                *output = Some(file);
                written
            }
        }
    }
}
