//! Op in, facts and Events out: session actors, activity, parking, policy, prompt compiling, the Event projection.

pub mod activity;
mod adopted;
mod agent_input;
mod attendance;
mod batch;
mod bus;
mod catalog;
mod check;
pub mod convert;
mod core;
mod diagnostics;
mod diff;
mod engine;
mod explain;
pub mod files;
mod form;
mod import;
mod items;
mod launch;
mod making;
mod output;
pub mod policy;
pub mod project;
pub mod prompt;
mod rejection;
mod session;
mod shown;
mod stores;
mod submission;
mod title;
pub mod transcript;
mod worktrees;

pub use attendance::{Attending, Unattended};
pub use bus::{OpEvent, OpEvents, OpEventsError, RingFigures};
pub use catalog::{
    Catalog, ForAll, Known, LastFailure, LoginMethod, LoginState, McpEntry, McpReach, Memory, ProviderEntry,
    ProviderStatus,
};
pub use check::{Check, Login};
pub use core::{EngineConfig, wall_clock_ms};
pub use diagnostics::Diagnostics;
pub use engine::Engine;
pub use explain::{AgentReport, Explanation, Why};
pub use import::{AgentSession, AgentSessionQuery, AgentSessions};
pub use session::{Delivery, Live, SessionStream, Watching};
pub use signalbox_agents::{
    AgentFailure, AgentInfo, FailureReason, Guard, Limits, ProbeNews, Probed, RequestKey, Stage, Supervisor,
    base_environment, offered_variables,
};
pub use stores::EPHEMERAL_BYTES;
pub use submission::{Accepted, OpError, Origin, Reply, Resolution, Submission};
pub use worktrees::Baseline;
