//! The app-server over in-memory connections: a real engine, a real store, a real agent process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests may fail, and spawn what they serve"
)]

mod approvals;
mod handshake;
mod ops;
mod refusals;
mod stage;
mod streams;
mod threads;
mod transcript;
mod turns;
mod worktrees;
