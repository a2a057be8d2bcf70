//! Whole-program tests as stories: the real binary, clients that speak the wire, and what a careful client checks.
//!
//! ```no_run
//! # fn story(binary: &str) {
//! use signalbox_testkit::App;
//!
//! let mut app = App::new(binary).over_unix();
//! let [mut first, mut second] = app.clients();
//! let thread = first.starts_thread(&app);
//! second.joins(&thread);
//! let turn = first.prompts(&thread, "run make");
//! let request = second.is_asked();
//! second.approves(&request);
//! first.finishes(&turn);
//! first.knows_what_is_stored(&thread);
//! # }
//! ```
//!
//! Every frame that a client receives is checked while the test runs: against `schema/signalbox.schema.json`, against
//! the recorded structure of the API that existing clients were built for, and against the rules a client relies
//! on ([`Model`]). Nothing waits without a bound ([`PATIENCE`]), and what fails says what it waited for and what came
//! instead.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "to fail the test is this crate's job"
)]

mod app;
mod client;
mod frame;
mod http;
mod model;
mod process;
pub mod recording;
mod schema;
mod transcript;
mod verbs;
mod websocket;
mod wire;

use std::time::Duration;

pub use app::{App, is_gone, send};
pub use client::{Client, Refusal};
pub use frame::Frame;
pub use model::{Model, ThreadModel, TurnModel};
pub use process::{Process, children_of, is_alive, is_group_alive, open_files, processes_with};
pub use schema::Schemas;
pub use transcript::{Door, doors_of, play};
pub use verbs::Asked;

/// The longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);
