//! The Op/Event core does what its document says: scenario by scenario, through its own face, with real agent processes.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub
)]

mod activity;
mod creation;
mod document;
mod face;
mod faults;
mod laws;
mod models;
mod permissions;
mod policy;
mod random;
mod table;
mod turns;
