//! The HTTP doors as clients on sockets see them: a real app-server with real agent processes, and clients that write bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are test code too"
)]

mod bounds;
mod client;
mod devices;
mod drain;
mod events;
mod guards;
mod ops;
mod pair_page;
mod post;
mod probes;
mod roles;
mod silence;
mod slow;
mod stage;
mod table;
mod tls;
mod websocket;
