//! What a client of the app-server API knows of a thread: a pure reducer of results, notifications and server requests. No
//! I/O, no clock, no rendering.
//!
//! A client makes a [`ThreadState`] of the result of `thread/start`, `thread/resume` or `thread/fork`, applies to it every
//! notification and server request that it receives, in the order in which they came, and shows what the state says:
//!
//! ```
//! # fn example(result: signalbox_protocol::app::ThreadResumeResult, events: Vec<signalbox_client::Event>) {
//! use signalbox_client::threads::{Change, ThreadState, Want};
//!
//! let mut state = ThreadState::resumed(result);
//! for event in events {
//!     match state.apply(&event) {
//!         Ok(changes) if changes.contains(&Change::Status) => { /* show state.thread.status */ }
//!         Ok(_) => {}
//!         Err(broken) => eprintln!("{broken}"),
//!     }
//!     if state.wants().contains(&Want::Resume) {
//!         // Call `thread/resume` with `state.resume_params()`, and give its result to `state.rejoined`.
//!     }
//! }
//! # }
//! ```
//!
//! Events of other threads change nothing, so all events of a connection may be given to all states. What the server
//! promises (each item starts once and is complete before its turn ends, cursors increase, …) is checked on the way:
//! [`Broken`] says what was not so, and the state then wants to be resumed, because it can no longer be trusted.
//!
//! A client that has opted out of notifications that begin or end something (`turn/started`, `item/completed`, …) cannot
//! keep a state; deltas, plans, diffs and usage may be opted out of, because they are told again when their item or turn
//! ends.

mod broken;
mod change;
mod item;
mod place;
mod state;
mod told;
mod turn;

#[cfg(test)]
mod tests;

pub use broken::{Broken, Problem};
pub use change::Change;
pub use item::{is_complete, is_cut};
pub use place::Cursor;
pub use state::{Behind, Phase, Queue, Settings, ThreadState, Want};
