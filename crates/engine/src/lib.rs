//! Op in, facts and Events out: session actors, activity, parking, policy, prompt compiling, the Event projection.

pub mod activity;
mod agent_input;
mod attendance;
mod batch;
mod bus;
mod catalog;
pub mod convert;
mod core;
mod diff;
mod engine;
mod form;
mod items;
mod making;
mod output;
pub mod policy;
pub mod project;
pub mod prompt;
mod rejection;
mod session;
mod stores;
mod submission;
mod title;
pub mod transcript;
mod worktrees;

pub use attendance::{Attending, Unattended};
pub use bus::{OpEvent, OpEvents, OpEventsError};
pub use catalog::{Catalog, ProviderEntry, ProviderStatus};
pub use core::{EngineConfig, wall_clock_ms};
pub use engine::Engine;
pub use session::{Delivery, Live, SessionStream, Watching};
pub use signalbox_agents::{Limits, base_environment};
pub use submission::{Accepted, OpError, Origin, Reply, Resolution, Submission};
pub use worktrees::Baseline;
