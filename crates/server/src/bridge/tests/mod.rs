//! The pure part of the bridge, against a server and a client that are played.

mod client;
mod properties;
mod server;
mod stories;
