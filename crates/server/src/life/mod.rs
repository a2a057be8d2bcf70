//! The life of a home's server: found or started by whoever needs it, and gone when nobody does. What it serves is elsewhere.
//!
//! - [`connect_home`] is the client's side: connects, starts the server if none runs, introduces the connection.
//! - [`detached()`] is the server's side: takes the lock, listens on the home's socket, leaves when it is idle or asked to.

mod connect;
mod detached;
mod doors;
mod introduce;
mod launch;
mod log;
mod overrides;
mod presence;
mod socket;
mod version;

pub use connect::{ANSWER, ConnectError, Connected, connect_home, find_server, greeting};
pub use detached::{DetachedError, ROLE, detached};
pub(crate) use doors::HouseDoors;
pub use launch::{Launch, LaunchError, Readiness};
pub use log::ServerLog;
pub use overrides::for_server;
pub(crate) use presence::Guest;
pub(crate) use socket::Hall;
