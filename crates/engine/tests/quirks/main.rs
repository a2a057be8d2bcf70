//! Agents that do what none should, as real ones do: the user is told the truth, and the session goes on.
//!
//! Each agent is a process that plays a script. [`table`] says which test is about which habit.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod calls;
mod framing;
mod scene;
mod sessions;
#[path = "../stage/mod.rs"]
mod stage;
mod starts;
mod table;
mod turns;
mod updates;
