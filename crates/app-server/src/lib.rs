//! The app-server API: methods, thread view (the bespoke mapping), subscriptions.
//!
//! - [`AppServer`] is the state behind all methods, [`registry`] the table of them.
//! - [`Doors`] is what methods need of the server around it: pairing, devices.
//! - A hub a loaded thread owns its [`view`] and feeds whoever listens; [`Hubs`] are all of them.

mod app;
mod approvals;
mod connection;
mod document;
mod doors;
mod errors;
mod hub;
mod hubs;
mod lag;
mod methods;
pub mod view;

pub use app::{AppInfo, AppServer};
pub use connection::ConnectionContext;
pub use document::{DocumentError, open_rpc_text, schema_text};
pub use doors::{ApprovalAnswered, DoorCaller, Doors, ListenerAsked};
pub use hubs::Hubs;
pub use methods::registry;
