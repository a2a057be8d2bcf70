//! What a client of the Op/Event contract knows: a pure reducer of server frames. No I/O, no clock, no rendering.
//!
//! A client applies every frame it receives, in order, to one [`State`], and shows what the state says:
//!
//! ```
//! use signalbox_client::ops::{Change, State};
//! use signalbox_protocol::ops::{Event, ServerFrame};
//!
//! let mut state = State::default();
//! state.apply(ServerFrame::Sessions { sessions: Vec::new() });
//! let event = Event::TurnStarted { session: "s".into(), request_id: None, transcript_seq: Some(4) };
//! let changes = state.apply(ServerFrame::Event { event });
//! assert!(changes.contains(&Change::ActivityChanged { session: "s".into() }));
//! assert!(state.sessions["s"].running);
//! ```
//!
//! What it sends goes through the state too, because some answers can only be understood by who knows the question:
//! [`State::submit`] for ops, [`State::ask_sessions`], [`State::ask_transcript`] and [`State::ask_older`] for the rest.
//! After `lagged` and after a new connection, [`State::wants`] says what has to be asked again.

mod change;
mod events;
mod list;
mod page;
mod session;
mod state;
mod submitted;
mod transcript;
mod turn;

#[cfg(test)]
mod tests;

pub use change::{Change, Outcome};
pub use list::SessionList;
pub use session::{Awaiting, ModelList, OpenTurn, Pending, Session, TokenUsage, TurnDiff, Window};
pub use state::{State, Want};
pub use submitted::Submitted;
pub use transcript::{BUFFERED_MAX, Older, Phase, Transcript};
pub use turn::{Item, Turn};
