//! Doors in front of the app-server, and the one place that puts a whole server together. No methods, no rules.

pub mod access;
pub mod bridge;
mod doors;
pub mod http;
pub mod life;
pub mod ops_socket;
mod providers;
mod signals;
mod standalone;
mod unix_door;

pub use doors::{DoorError, Listen, ListenError, bind};
pub use providers::{GUARD, ProvidersError, REHEARSAL, catalog, check_catalog, offered_names};
pub use signalbox_engine::{Catalog, Check, Known, LoginState, Memory, ProviderEntry, ProviderStatus};
pub use signals::Signals;
pub use standalone::{Drained, KNOWN, Setup, Standalone, StartError};
