//! Who may come in: pairing, tickets, tokens, limits, and what is kept of it all.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests may fail, and spawn what they ask"
)]

mod credentials;
mod pairing;
mod stage;
mod tickets;
