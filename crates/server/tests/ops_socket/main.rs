//! Connections of the Op/Event socket as their clients see them: a real engine, real agent processes, and the client's reducer.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are test code too"
)]

mod answers;
mod order;
mod slow;
mod stage;
