//! The signals that ask a server to leave.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP, from the moment it was made.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
    count: u32,
}

impl Signals {
    /// Takes the signals over. To be called within a runtime.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
            count: 0,
        })
    }

    /// The number of the next one that comes. Cancel-safe.
    pub async fn next(&mut self) -> u8 {
        // A stream of signals never ends.
        let signal = tokio::select! {
            _ = self.term.recv() => 15,
            _ = self.int.recv() => 2,
            _ = self.hup.recv() => 1,
        };
        self.count = self.count.saturating_add(1);
        signal
    }

    /// How many came so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}
