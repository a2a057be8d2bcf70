//! The app-server API: methods, notifications and server requests, as JSON-RPC params and results.
//!
//! Names and shapes are those of Codex app-server v2, so that its clients work unmodified; what is ours beyond it is marked
//! *Ext* and is always something such a client ignores. Rules that hold for every type here:
//! - Unknown fields are ignored, and `null` reads as absence.
//! - Results and notifications write a field that has no value as `null`; *Ext* fields without a value are omitted, unless
//!   their documentation says otherwise.
//! - Times of threads and turns are Unix seconds; whatever ends in `Ms` is milliseconds.

mod account;
mod agent_command;
mod agent_sessions;
mod approval;
mod compat;
mod config;
mod device;
mod elicitation;
mod explain;
mod history;
mod initialize;
mod input;
mod item;
mod launch;
mod life;
mod listener_auth;
mod listing;
mod message;
pub mod method;
mod model;
mod notification;
mod pages;
mod permission_rule;
mod policy;
mod prompt;
mod provider;
mod queue;
mod search;
mod server;
mod settings;
mod skills;
mod thread;
mod thread_methods;
mod transcript;
mod turn;
mod turn_methods;
mod usage;
mod worktree;

pub use account::*;
pub use agent_command::*;
pub use agent_sessions::*;
pub use approval::*;
pub use compat::*;
pub use config::*;
pub use device::*;
pub use elicitation::*;
pub use explain::*;
pub use history::*;
pub use initialize::*;
pub use input::*;
pub use item::*;
pub use launch::*;
pub use life::*;
pub use listener_auth::*;
pub use listing::*;
pub use message::*;
pub use model::*;
pub use notification::*;
pub use pages::*;
pub use permission_rule::*;
pub use policy::*;
pub use prompt::*;
pub use provider::*;
pub use queue::*;
pub use search::*;
pub use server::*;
pub use settings::*;
pub use skills::*;
pub use thread::*;
pub use thread_methods::*;
pub use transcript::*;
pub use turn::*;
pub use turn_methods::*;
pub use usage::*;
pub use worktree::*;
