//! Samples that several tests look at.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part, and all of it is test code"
)]

pub mod app;
pub mod ops;
