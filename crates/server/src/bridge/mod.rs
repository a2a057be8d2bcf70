//! A client on stdio, carried to its home's server and over the server's death.
//!
//! The server is a process of its own, which outlives its clients; a bridge is the process that a client starts. It
//! passes frames both ways and knows no more of them than it needs to replace the server under its client:
//!
//! - `look` reads the outline of a frame; what streams by is told by its first bytes.
//! - `tracker` knows what is on its way and which threads the client follows (`flights`, `thread`), and what to do when
//!   the server is gone. `owed` is what the followers of a thread are told then. All of this is pure.
//! - `pump` moves the bytes, with bounds both ways, and finds the next server.

mod flights;
mod link;
mod look;
mod owed;
mod pump;
mod thread;
mod told;
mod tracker;

#[cfg(test)]
mod tests;

pub use pump::{BridgeError, BridgeOptions, Left, bridge};
