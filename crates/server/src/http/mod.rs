//! HTTP in front of the app-server: WebSocket, POST, event streams, health and metrics, on TCP, TLS and the unix socket.
//!
//! What holds for every request:
//! - It passes, in this order: the bounds of the connection (number, header time and size), the `Host` and `Origin` allow-lists,
//!   preflight, the credential, and only then a method. What fails is answered as JSON with a stable `reason`.
//! - A listener ([`HttpDoor`]) has an accept loop and options of its own; what all listeners of a server share is its
//!   [`Site`]. [`serve_http`] serves one connection of any kind, so a unix socket uses it too.
//! - A connection that does not read costs what was buffered for it and ends when a write makes no progress.

mod admit;
mod answer;
mod body;
mod caps;
mod connection;
mod door;
mod events;
mod follow;
mod guard;
mod listen;
mod metrics;
mod ops;
mod pair;
mod post;
mod respond;
mod site;
mod tls;
mod upgrade;

pub use connection::{ConnInfo, serve_http};
pub use door::HttpDoor;
pub use listen::{HttpDoorError, ListenOptions, TlsFiles};
pub use site::{HttpLimits, Site, SiteParts};
