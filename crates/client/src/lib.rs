//! A typed Rust client of the app-server API, over unix sockets, WebSocket, any two streams of lines or `Content-Length`
//! frames, or queues of frames; in `threads`, what a client of that API knows of a thread; and, in `ops`, what a client of
//! the Op/Event contract knows.
//!
//! ```no_run
//! use signalbox_client::{Client, Event};
//! use signalbox_protocol::app::{ServerNotification, ThreadStartParams, TurnStartParams, UserInput};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let socket = tokio::net::UnixStream::connect("/path/to/signalbox.sock").await?;
//! let (reader, writer) = socket.into_split();
//! let (client, mut events) = Client::over_lines(reader, writer);
//! client.initialize("my-client", "1.0.0").await?;
//! let thread = client.thread_start(&ThreadStartParams::default()).await?.opened.thread;
//! let input = vec![UserInput::Text { text: "Look around".into(), text_elements: Vec::new() }];
//! client.turn_start(&TurnStartParams { thread_id: thread.id, input, ..Default::default() }).await?;
//! while let Some(event) = events.next().await {
//!     if let Event::Notification(told) = event
//!         && let ServerNotification::TurnCompleted(_) = told.body
//!     {
//!         break;
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! Answers to calls and events come over one connection, so the events have to be read while a call waits. Whoever
//! does not want them drops [`Events`]: notifications are then discarded and requests of the server are refused.

mod calls;
mod client;
mod error;
mod event;
mod frames;
mod incoming;
mod lengths;
mod lines;
pub mod ops;
mod pending;
pub mod threads;
mod websocket;

pub use client::{CallOptions, Client, Goodbye};
pub use error::{CallError, Failure};
pub use event::{Event, Events, Notification, Request, Unreadable};
pub use frames::{FrameReceiver, FrameSender, FramesClosed, QUEUED_BYTES, QUEUED_FRAMES, frames};
pub use websocket::{ConnectError, WebSocketOptions};
