//! The home folder: where it is and what lies in it, its lock, its configuration.

mod config;
mod folder;
mod lock;

pub use config::{Config, ConfigError, EXAMPLE, Limits, Overridden, ProviderConfig, Server, Unattended};
pub use folder::{Home, HomeError};
pub use lock::{Held, Holder, Lock, LockError, StartTurn, Starting};
