//! The app-server over in-memory connections: a real engine, a real store, a real agent process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests may fail, and spawn what they serve"
)]

mod approvals;
mod content;
mod diagnostics;
mod explain;
mod files;
mod forks;
mod handshake;
mod histories;
mod launches;
mod lists;
mod ops;
mod pages;
mod providers;
mod queues;
mod refusals;
mod rejoining;
mod roles;
mod rules;
mod search;
mod stage;
mod streams;
mod threads;
mod transcript;
mod turns;
mod unloading;
mod worktrees;
