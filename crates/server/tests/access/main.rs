//! Who may come in: pairing, tickets, tokens, limits, and what is kept of it all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod credentials;
mod pairing;
mod stage;
mod tickets;
