//! The home folder: where it is and what lies in it, its lock, its configuration.

mod config;
mod folder;
mod lock;

pub use config::{
    Agents, Config, ConfigError, EXAMPLE, Limits, McpServerConfig, McpTransport, Overridden, ProviderConfig,
    Server, Unattended,
};
pub use folder::{Home, HomeError};
pub use lock::{Held, Holder, Lock, LockError, StartTurn, Starting};
